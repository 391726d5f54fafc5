package waits

import (
	"context"
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed53057037/heist/errgroup"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

var seedFlag = flag.Uint64("seed", 0, "run only the random program of this seed")

// # Random programs
//
// A program is a number of nodes, each a task, a guest, a goroutine or a part of a call. A node waits for gates that other nodes open,
// holds locks while it waits, and makes calls whose functions are nodes.
//
// A program ends with a goroutine for each node, whatever the order in which they run, because everything that anybody waits for
// has a **rank**, and who waits for something, or holds it while it waits, is above it:
//
//  1. The rank of a node is its number. A node waits for lower ones only, and the nodes of its calls are lower.
//  2. A lock has a rank as well. Nodes below it never take it. Who holds it waits only for nodes below it, and takes only
//     lower locks.
//  3. A node of a call that is made while a lock is held begins only then, so nobody outside that call waits for it: it may
//     hold that lock.
//  4. Forks, and what they call, wait only for what is below the whole computation, since forks of one computation, and the
//     items of a loop, must not wait for one another.
//
// One program in a thousand has a node that waits for itself, so that its hang with goroutines can be seen.
type program struct {
	seed    uint64
	workers int
	nodes   []*node
	locks   []lockOf
	roots   []*node // launched from outside, in this order
}

type lockOf struct {
	kind string
	rank int // nodes from this number on may take it
}

type node struct {
	id     int
	hidden bool   // nobody that is generated from now on waits for it
	gate   string // its kind
	launch int    // an index into launches
	first  []*node
	steps  []step
}

type step struct {
	what     what
	n        int     // how long, how often, which lock, or which of nests
	on       *node   // whose gate is waited for, or opened
	inside   []step  // while the lock is held
	children []*node // what the call runs
}

type what int

const (
	computes what = iota
	opens
	waits
	talks // with a task, at a channel without a buffer
	holds
	nests
)

type generator struct {
	*rand.Rand
	*program
	most int // nodes, about
}

var (
	gateKinds = slices.Sorted(maps.Keys(gates))
	lockKinds = slices.Sorted(maps.Keys(locks))
)

const anything = math.MaxInt

func generate(seed uint64) *program {
	g := generator{rand.New(rand.NewPCG(seed, 0)), &program{seed: seed}, 0}
	g.most = 3 + g.IntN(1+g.IntN(60)) // small programs are more frequent
	g.workers = sizes[g.IntN(len(sizes))]
	var tops []*node
	for len(g.nodes) < g.most {
		tops = append(tops, g.node(2, anything))
	}
	g.Shuffle(len(tops), func(i, j int) { tops[i], tops[j] = tops[j], tops[i] })
	for i, n := range tops { // a node launches others before it waits for anything
		if i > 0 && g.IntN(2) == 0 {
			by := tops[g.IntN(i)]
			by.first = append(by.first, n)
		} else {
			g.roots = append(g.roots, n)
		}
	}
	if g.IntN(1000) == 0 {
		n := tops[g.IntN(len(tops))]
		n.steps = slices.Insert(n.steps, 0, step{what: waits, on: n})
	}
	return g.program
}

// node makes a node, which may make calls to the given depth, and is concerned only with what has a rank below limit.
func (g *generator) node(depth, limit int) *node {
	n := &node{gate: gateKinds[g.IntN(len(gateKinds))], launch: g.IntN(len(launches))}
	n.steps = g.steps(depth, limit, 5)
	n.steps = slices.Insert(n.steps, g.IntN(len(n.steps)+1), step{what: opens, on: n})
	n.id = len(g.nodes)
	g.nodes = append(g.nodes, n)
	return n
}

func (g *generator) steps(depth, limit, most int) (steps []step) {
	for range g.IntN(most + 1) {
		switch below := min(limit, len(g.nodes)); g.IntN(8) {
		case 0:
			steps = append(steps, step{what: computes, n: g.IntN(50)})
		case 1:
			steps = append(steps, step{what: talks, n: 1 + g.IntN(3)})
		case 2, 3, 4:
			if below == 0 {
				continue
			}
			on := g.nodes[g.IntN(below)]
			if g.IntN(2) == 0 { // makes chains
				on = g.nodes[max(0, below-1-g.IntN(3))]
			}
			if !on.hidden {
				steps = append(steps, step{what: waits, on: on})
			}
		case 5, 6:
			before := len(g.nodes)
			inside := g.steps(depth, limit, 2)
			for _, n := range g.nodes[before:] {
				n.hidden = true
			}
			if lock := g.lock(height(g.program, inside), limit); lock >= 0 {
				steps = append(steps, step{what: holds, n: lock, inside: inside})
			} else {
				steps = append(steps, inside...)
			}
		case 7:
			if depth > 0 && len(g.nodes) < g.most {
				s := step{what: nests, n: g.IntN(len(inCalls))}
				in := limit
				if inCalls[s.n].forks {
					in = below
				}
				for range 1 + g.IntN(5) {
					s.children = append(s.children, g.node(depth-1, in))
				}
				steps = append(steps, s)
			}
		}
	}
	return steps
}

// lock chooses a lock whose holder may do what has this height; it is -1 if there is none below the limit.
func (g *generator) lock(height, limit int) int {
	var can []int
	for i, l := range g.locks {
		if l.rank >= height && l.rank <= limit {
			can = append(can, i)
		}
	}
	switch {
	case limit == anything && (len(can) == 0 || g.IntN(3) == 0):
		g.locks = append(g.locks, lockOf{lockKinds[g.IntN(len(lockKinds))], len(g.nodes)})
		return len(g.locks) - 1
	case len(can) == 0:
		return -1
	}
	return can[g.IntN(len(can))]
}

// height is the lowest rank that a lock must have which is held during these steps.
func height(p *program, steps []step) (h int) {
	for _, s := range steps {
		switch s.what {
		case waits:
			h = max(h, s.on.id+1)
		case holds:
			h = max(h, p.locks[s.n].rank+1, height(p, s.inside))
		case nests:
			h = max(h, s.children[len(s.children)-1].id+1)
		}
	}
	return h
}

// execution is one run of a program.
type execution struct {
	*program
	p, other *pool.Pool // nil to run each node in a goroutine
	how      manner
	calls    []inCall
	gates    []gate
	locks    []lock
	left     sync.WaitGroup
}

// run runs a program and says whether it ended in time.
func (p *program) run(in, other *pool.Pool, how manner, patience time.Duration) (ended bool) {
	x := &execution{program: p, p: in, other: other, how: how, calls: inCalls}
	for _, n := range p.nodes {
		x.gates = append(x.gates, gates[n.gate]())
	}
	for _, l := range p.locks {
		x.locks = append(x.locks, locks[l.kind]())
	}
	x.left.Add(len(p.nodes))
	return testutil.ReturnsWithin(patience, func() {
		for _, n := range p.roots {
			x.launch(n)
		}
		x.left.Wait()
	})
}

func (x *execution) wait(f func()) { x.how.wait(x.p, f) }

func (x *execution) launch(n *node) {
	if x.p == nil {
		go x.node(n, nil)
	} else {
		launches[n.launch](x.p, func(at pool.Place) { x.node(n, at) })
	}
}

var launches = []func(p *pool.Pool, f func(at pool.Place)){
	func(p *pool.Pool, f func(at pool.Place)) { _ = p.Go(func(w *pool.Worker) { f(w) }) },
	func(p *pool.Pool, f func(at pool.Place)) { _ = p.Go(func(*pool.Worker) { f(p) }) },
	func(p *pool.Pool, f func(at pool.Place)) {
		_ = p.Submit(context.Background(), func(w *pool.Worker) { f(w) }, pool.PriorityHigh)
	},
	func(p *pool.Pool, f func(at pool.Place)) {
		pool.Async(p, func(w *pool.Worker) (int, error) { f(w); return 0, nil })
	},
	func(p *pool.Pool, f func(at pool.Place)) { go func() { _ = p.Run(func(w *pool.Worker) { f(w) }) }() },
	func(p *pool.Pool, f func(at pool.Place)) { go f(p) },
}

func (x *execution) node(n *node, at pool.Place) {
	defer x.left.Done()
	for _, f := range n.first {
		x.launch(f)
	}
	x.steps(n.steps, at)
}

func (x *execution) steps(steps []step, at pool.Place) {
	for _, s := range steps {
		switch s.what {
		case computes:
			for end := time.Now().Add(time.Duration(s.n) * time.Microsecond); time.Now().Before(end); {
			}
		case opens:
			x.gates[s.on.id].open()
		case waits:
			x.wait(x.gates[s.on.id].wait)
		case talks:
			c := make(chan int)
			x.task(func() {
				for i := range s.n {
					x.wait(func() { c <- i })
				}
			})
			for range s.n {
				x.wait(func() { <-c })
			}
		case holds:
			x.locks[s.n](x.wait, func() { x.steps(s.inside, at) })
		case nests:
			if x.p == nil {
				x.byWaitGroup(s.children)
			} else {
				x.calls[s.n].call(x, at, s.children)
			}
		}
	}
}

// task runs f in a task, or in a goroutine.
func (x *execution) task(f func()) {
	if x.p == nil {
		go f()
	} else {
		_ = x.p.Go(func(*pool.Worker) { f() })
	}
}

func (x *execution) byWaitGroup(children []*node) {
	var wg sync.WaitGroup
	wg.Add(len(children))
	for _, n := range children {
		x.task(func() { defer wg.Done(); x.node(n, x.p) })
	}
	x.wait(wg.Wait)
}

// inCall is a call that runs nodes.
type inCall struct {
	forks bool // the nodes are forks, or items of a loop
	call  func(x *execution, at pool.Place, children []*node)
}

var inCalls = []inCall{
	{false, func(x *execution, _ pool.Place, children []*node) { x.byWaitGroup(children) }},
	{false, func(x *execution, _ pool.Place, children []*node) {
		g, _ := pool.NewGroup(x.p)
		x.inGroup(g, x.p, children)
	}},
	{false, func(x *execution, _ pool.Place, children []*node) {
		g, _ := pool.NewGroup(x.other)
		x.inGroup(g, x.other, children)
	}},
	{false, func(x *execution, _ pool.Place, children []*node) { x.inGroup(new(errgroup.Group), x.p, children) }},
	{false, func(x *execution, _ pool.Place, children []*node) {
		g := new(errgroup.Group) // in it a function may wait only for those before it
		g.SetLimit(2)
		x.inGroup(g, x.p, children)
	}},
	{false, func(x *execution, _ pool.Place, children []*node) {
		var fs []*pool.Future[int]
		for _, n := range children {
			fs = append(fs, pool.Async(x.p, func(w *pool.Worker) (int, error) { x.node(n, w); return 0, nil }))
		}
		for _, f := range fs {
			_, _ = f.Wait(context.Background())
		}
	}},
	{false, func(x *execution, at pool.Place, children []*node) {
		_ = where{p: x.p, at: at}.with(func(w *pool.Worker) {
			w.Scope(func(s *pool.Scope) {
				for _, n := range children {
					s.Go(w, func(w *pool.Worker) { x.node(n, w) })
				}
			})
		})
	}},
	{true, func(x *execution, at pool.Place, children []*node) {
		var fs []func(w *pool.Worker)
		for _, n := range children {
			fs = append(fs, func(w *pool.Worker) { x.node(n, w) })
		}
		_ = pool.Do(at, fs...)
	}},
	{true, func(x *execution, at pool.Place, children []*node) {
		_ = par.For(at, len(children), func(i int) { x.node(children[i], x.p) })
	}},
	{true, func(x *execution, at pool.Place, children []*node) {
		_ = par.ForSeq(at, slices.Values(children), func(n *node) { x.node(n, x.p) })
	}},
}

func (x *execution) inGroup(g group, at pool.Place, children []*node) {
	for _, n := range children {
		g.Go(func() error { x.node(n, at); return nil })
	}
	_ = g.Wait()
}

// testRandom judges programs by goroutines. It returns how many hung with these.
func testRandom(t *testing.T, how manner, n int) (discarded int) {
	pools := map[int]*pool.Pool{}
	for _, workers := range sizes {
		pools[workers] = newPool(t, pool.WithWorkers(workers))
	}
	other := newPool(t, pool.WithWorkers(1))
	seed := rand.Uint64()
	if *seedFlag != 0 {
		seed, n = *seedFlag, 1
	}
	for i := range n {
		p := generate(seed + uint64(i))
		if !p.run(nil, nil, unsaid, time.Second) {
			discarded++
		} else if !p.run(pools[p.workers], other, how, patience) {
			t.Fatalf("the program of -seed=%d, of %d nodes, ends with goroutines, and does not end %s on %d workers:\n%s",
				p.seed, len(p.nodes), how.name, p.workers, stacks())
		}
	}
	return discarded
}

func TestRandomProgramsThatEndWithGoroutinesEnd(t *testing.T) {
	claim.That(t, "no hang: random programs that end with a goroutine for each node end on any number of workers",
		"tasks, guests and calls in calls that wait for one another by channels, locks and conditions, each first run with goroutines")
	n := 1000
	if claim.Full() {
		n = 100_000
	}
	discarded := testRandom(t, unsaid, n)
	claim.Amount(t, "%s programs, %d others hang with goroutines", claim.Count(n-discarded), discarded)
}

func TestRandomProgramsThatEndWithGoroutinesEndWithBlock(t *testing.T) { testRandom(t, said, 1000) }

// TestAProgramThatHangsWithGoroutinesIsSeen lest the judge let everything pass.
func TestAProgramThatHangsWithGoroutinesIsSeen(t *testing.T) {
	n := &node{gate: "channel"}
	n.steps = []step{{what: waits, on: n}, {what: opens, on: n}}
	p := &program{nodes: []*node{n}, roots: []*node{n}}
	if p.run(nil, nil, unsaid, 10*time.Millisecond) {
		t.Fatal("a node that waits for itself has ended")
	}
}
