package soak

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// # Acyclic programs
//
// A dag is a program of nodes that wait for one another, and that would end with a goroutine for
// each node. Its nodes are numbered so that each waits only for lower ones. A node may have
// children: forks, children of a scope, members of a group or a call in another pool. It ends after
// them, and they have the numbers just below its own. A node waits for others before it begins its
// children, so they begin if all nodes below the lowest of them end. By induction, all nodes end.
//
// The forks of one computation must not wait for one another except by their joins (internal/core/waiting.md). So a
// node in a fork waits for nodes below the whole computation, or inside the same fork.
//
// A node that is no child is launched by a goroutine from outside, or by a node that was launched
// before. A launcher launches it as its first step, or after its waits; then the launcher is the lower
// one. So the order in which nodes are launched, and lie in the queues, has nothing to do with the order
// in which they can end.
type dag struct {
	Seed  uint64
	Pools []dagPool
	OneP  bool // GOMAXPROCS is 1
	Nodes []*dagNode
	Roots []int // launched from outside, in this order
}

type dagPool struct {
	Workers, Bound int
	Pinned, Hot    bool
}

// dagNode refers to other nodes by their numbers.
type dagNode struct {
	ID, Low       int // the node and its children are Low to ID
	Kind          dagKind
	Pool          int
	Parent        int    // -1 for none
	Needs, Inside []need // before its children, and while they run
	First, Then   []int  // nodes that it launches at once, and after its waits
	Nest          dagNest
	Children      []int
	Order         []int // the same, in the order in which they are begun
	Limit         int   // of the group
	Way           uint32

	depends int // all nodes up to this one end before it is begun; -1 for none
}

// dagKind is how a node is launched.
type dagKind uint8

const (
	dagChild dagKind = iota
	dagGo
	dagSubmit
	dagTrySubmit
	dagBatch
	dagFuture
	dagGuest
	dagOutside // a goroutine that becomes a guest only by what it calls
	dagKinds
)

var dagKindNames = [dagKinds]string{"child", "task by Go", "task by Submit", "task by TrySubmit", "task by SubmitAll", "future", "guest", "goroutine"}

// dagNest is what the children of a node are.
type dagNest uint8

const (
	noNest dagNest = iota
	nestScope
	nestDo
	nestJoin
	nestLoop
	nestGroup
	nestPlainGroup // its members get no worker
	nestOtherPool
	dagNests
)

var dagNestNames = [dagNests]string{"", "scope", "Do", "Join", "loop", "group", "plain group", "other pool"}

// need is a node to wait for, and the means.
type need struct {
	On int
	By means
}

// means is how a node waits for another.
type means uint8

const (
	byChannel means = iota
	byWaitGroup
	byYield
	byBlocks
	byFuture
	byFutureUntil  // with a context that ends, again and again
	byFutureUnless // with one that could end
	byGroup
	byChildren // the node waits for its children to end
	allMeans
)

var meansNames = [allMeans]string{"Block on a channel", "Block on a WaitGroup", "Yield again and again", "short Blocks",
	"Future.Wait", "Future.Wait with a timeout", "Future.Wait with a context", "Group.Wait", "the end of its children"}

type dagGenerator struct {
	random *rand.Rand
	*dag
	most  int  // about the number of nodes
	polls bool // some nodes poll, which takes time
}

// span is a range of numbers, From to To-1.
type span struct{ From, To int }

// generateDAG makes the program of a seed.
func generateDAG(seed uint64) *dag {
	g := dagGenerator{random: rand.New(rand.NewPCG(seed, 1)), dag: &dag{Seed: seed}}
	g.most = 10 + g.random.IntN(1+g.random.IntN(190)) // small programs are more frequent
	g.OneP = g.random.IntN(8) == 0
	g.polls = g.random.IntN(3) == 0
	for range 1 + g.random.IntN(3) {
		p := dagPool{Workers: 1 + g.random.IntN(4), Pinned: g.random.IntN(8) == 0 && (!g.OneP || g.random.IntN(4) == 0), Hot: !g.OneP && g.random.IntN(32) == 0}
		if g.random.IntN(3) == 0 {
			p.Workers = 1
		}
		if g.random.IntN(3) == 0 {
			p.Bound = 1 + g.random.IntN(8)
		}
		g.Pools = append(g.Pools, p)
	}
	var tops []*dagNode
	for len(g.Nodes) < g.most {
		n := &dagNode{Kind: 1 + dagKind(g.random.IntN(int(dagKinds)-1)), Parent: -1, Pool: g.random.IntN(len(g.Pools))}
		if g.random.IntN(4) == 0 {
			n.Kind = dagFuture
		}
		g.fill(n, 3, []span{{0, 1 << 30}})
		tops = append(tops, n)
	}
	g.launches(tops)
	return g.dag
}

// fill makes the rest of a node, which waits only for nodes in the spans.
func (g *dagGenerator) fill(n *dagNode, depth int, spans []span) {
	n.Low, n.Way = len(g.Nodes), g.random.Uint32()
	n.Needs = g.needs(n.Low, spans, 3)
	if depth > 0 && len(g.Nodes) < g.most && g.random.IntN(3) == 0 {
		n.Nest = 1 + dagNest(g.random.IntN(int(dagNests)-1))
	}
	if n.Nest != noNest {
		count := 1 + g.random.IntN(6)
		switch n.Nest {
		case nestJoin:
			count = 2
		case nestOtherPool:
			count = 1
		}
		in := n.Pool
		if n.Nest >= nestGroup {
			in = g.random.IntN(len(g.Pools))
		}
		var children []*dagNode
		for range count {
			child, within := &dagNode{Pool: in}, spans
			if n.Nest == nestDo || n.Nest == nestJoin || n.Nest == nestLoop {
				within = []span{{len(g.Nodes), 1 << 30}}
				for _, s := range spans {
					if s.From < n.Low {
						within = append(within, span{s.From, min(s.To, n.Low)})
					}
				}
			}
			g.fill(child, depth-1, within)
			children = append(children, child)
			n.Children = append(n.Children, child.ID)
		}
		n.Order = slices.Clone(n.Children)
		switch {
		case n.Nest < nestGroup:
			g.shuffle(n.Order)
		case g.random.IntN(2) == 0:
			n.Limit = 1 + g.random.IntN(3) // at a limit, members wait for the members added before
		default:
			g.shuffle(n.Order)
		}
		if n.Nest == nestScope || n.Nest == nestGroup || n.Nest == nestPlainGroup {
			n.Inside = g.needs(len(g.Nodes), spans, 1)
		}
		for _, child := range children {
			child.Parent = len(g.Nodes)
		}
	}
	n.ID = len(g.Nodes)
	g.Nodes = append(g.Nodes, n)
}

func (g *dagGenerator) shuffle(s []int) {
	g.random.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

// needs returns up to most nodes below end to wait for.
func (g *dagGenerator) needs(end int, spans []span, most int) (needs []need) {
	for range g.random.IntN(most + 1) {
		s := spans[g.random.IntN(len(spans))]
		to := min(s.To, end)
		if s.From >= to {
			continue
		}
		on := s.From + g.random.IntN(to-s.From)
		if g.random.IntN(2) == 0 { // makes chains
			on = max(s.From, to-1-g.random.IntN(3))
		}
		needs = append(needs, need{on, g.means(g.Nodes[on])})
	}
	return needs
}

func (g *dagGenerator) means(on *dagNode) means {
	can := []means{byChannel, byChannel, byWaitGroup}
	if g.polls {
		can = append(can, byBlocks, byYield)
	}
	if on.Kind == dagFuture {
		can = append(can, byFuture, byFuture, byFuture, byFutureUnless)
		if g.polls {
			can = append(can, byFutureUntil)
		}
	}
	if on.Nest == nestGroup || on.Nest == nestPlainGroup {
		can = append(can, byGroup, byGroup, byGroup)
	}
	return can[g.random.IntN(len(can))]
}

// launches decides which node launches which.
func (g *dagGenerator) launches(tops []*dagNode) {
	g.random.Shuffle(len(tops), func(i, j int) { tops[i], tops[j] = tops[j], tops[i] })
	for i, n := range tops {
		n.depends = -1
		var by *dagNode
		if i > 0 && g.random.IntN(2) == 0 {
			by = tops[g.random.IntN(i)]
		}
		switch {
		case by == nil:
			g.Roots = append(g.Roots, n.ID)
		case by.ID < n.Low && g.random.IntN(2) == 0:
			by = g.Nodes[by.Low+g.random.IntN(by.ID-by.Low+1)] // the node itself, or one inside
			n.depends = by.ID
			by.Then = append(by.Then, n.ID)
		case by.depends < n.Low:
			n.depends = by.depends
			by.First = append(by.First, n.ID)
		default:
			g.Roots = append(g.Roots, n.ID)
		}
	}
}

// dagRun is one execution of a dag.
type dagRun struct {
	*dag
	pools   []*pool.Pool
	nodes   []dagState
	left    sync.WaitGroup
	ended   atomic.Int64
	release chan struct{} // closed to end the waits of a circle
	faults
}

// dagState is the state of a node in a run.
type dagState struct {
	now     atomic.Uint64 // what the node does, see doing
	flag    atomic.Bool
	done    chan struct{}
	group   sync.WaitGroup
	exists  chan struct{}     // closed when the future is made
	added   chan struct{}     // closed when all members are added
	future  *pool.Future[int] // set before exists is closed
	members *pool.Group       // set before added is closed
}

// doing is what a node does: its phase, and what it waits for.
type doing struct {
	phase dagPhase
	need
}

type dagPhase uint8

const (
	notBegun dagPhase = iota
	launched          // and not begun
	running
	waiting
	hasEnded
)

func (s *dagState) set(d doing) {
	s.now.Store(uint64(d.phase) | uint64(d.By)<<8 | uint64(d.On)<<16)
}

func (s *dagState) doing() doing {
	v := s.now.Load()
	return doing{dagPhase(v), need{int(v >> 16), means(v >> 8)}}
}

// hang is the error of a program in which no node has ended for long.
type hang struct {
	circle []int // nodes that each wait for the next one; nil without a circle
	report string
}

func (h *hang) Error() string { return h.report }

// runDAG runs a program, and returns a [hang] if no node ends for so long. Then it leaves the pools
// as they are, and the nodes that cannot go on, except by release.
func runDAG(d *dag, patience time.Duration) (*dagRun, error) {
	x := &dagRun{dag: d, nodes: make([]dagState, len(d.Nodes)), release: make(chan struct{})}
	if d.OneP {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	for i, o := range d.Pools {
		options := []pool.Option{pool.WithWorkers(o.Workers)}
		if o.Bound > 0 {
			options = append(options, pool.WithQueueBound(o.Bound))
		}
		if o.Pinned {
			options = append(options, pool.WithPinning(pool.PinCores))
		}
		if o.Hot {
			options = append(options, pool.WithTuning(pool.Tuning{HotWorker: true}))
		}
		p, err := pool.New(options...)
		if err != nil {
			return nil, fmt.Errorf("pool %d: %w", i, err)
		}
		x.pools = append(x.pools, p)
	}
	for i := range x.nodes {
		s := &x.nodes[i]
		s.done, s.exists, s.added = make(chan struct{}), make(chan struct{}), make(chan struct{})
		s.group.Add(1)
	}
	x.left.Add(len(x.nodes))
	go x.launch(nil, d.Roots)
	over := make(chan struct{})
	go func() {
		x.left.Wait()
		close(over)
	}()
	for last := int64(-1); ; {
		select {
		case <-over:
			return x, x.close(patience)
		case <-time.After(patience):
		}
		ended := x.ended.Load()
		if ended == last {
			return x, x.report()
		}
		last = ended
	}
}

func (x *dagRun) close(patience time.Duration) error {
	for i, p := range x.pools {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := p.Shutdown(ctx)
		cancel()
		if err != nil {
			return &hang{report: fmt.Sprintf("pool %d does not close: %v\n%s", i, err, stacks())}
		}
	}
	return x.err()
}

func stacks() []byte {
	s := make([]byte, 1<<22)
	return s[:runtime.Stack(s, true)]
}

// launch begins nodes, from outside if w is nil.
func (x *dagRun) launch(w *pool.Worker, ids []int) {
	var batch []func(*pool.Worker)
	for i, id := range ids {
		n, s := x.Nodes[id], &x.nodes[id]
		s.set(doing{phase: launched})
		p := x.pools[n.Pool]
		f := func(w *pool.Worker) { x.run(n, w) }
		ctx := context.Background()
		if n.Way>>8%3 == 0 {
			canEnd, cancel := context.WithCancel(ctx)
			context.AfterFunc(endOf(s.done), cancel)
			ctx = canEnd
		}
		var options []pool.TaskOption
		switch n.Way >> 12 % 8 {
		case 0:
			options = append(options, pool.PriorityHigh)
		case 1:
			options = append(options, pool.PriorityLow)
		case 2:
			options = append(options, pool.Delay(time.Duration(n.Way>>16%200)*time.Microsecond))
		}
		var err error
		switch n.Kind {
		case dagGo:
			if w != nil && w.Pool() == p && n.Way%2 == 0 {
				err = w.Go(f)
			} else {
				err = p.Go(f)
			}
		case dagSubmit:
			err = p.Submit(ctx, f, options...)
		case dagTrySubmit:
			for range 3 {
				if err = p.TrySubmit(f, options...); !errors.Is(err, pool.ErrFull) {
					break
				}
				runtime.Gosched()
			}
			if errors.Is(err, pool.ErrFull) && x.Pools[n.Pool].Bound > 0 {
				err = p.Submit(ctx, f, options...)
			}
		case dagBatch:
			batch = append(batch, f)
			if i+1 < len(ids) && x.Nodes[ids[i+1]].Kind == dagBatch && x.Nodes[ids[i+1]].Pool == n.Pool {
				continue
			}
			_, err = p.SubmitAll(context.Background(), batch)
			batch = nil
		case dagFuture:
			s.future = pool.Async(p, func(w *pool.Worker) (int, error) {
				x.run(n, w)
				return n.ID, nil
			}, options...)
			close(s.exists)
		case dagGuest:
			go func() {
				if err := p.Run(f); err != nil {
					x.fail("Run of node %d: %w", n.ID, err)
				}
			}()
		case dagOutside:
			go x.run(n, nil)
		}
		if err != nil {
			x.fail("launch of node %d: %w", n.ID, err)
		}
	}
}

// endOf is a context that ends when the channel is closed.
func endOf(done chan struct{}) context.Context { return channelContext{context.Background(), done} }

type channelContext struct {
	context.Context
	done chan struct{}
}

func (c channelContext) Done() <-chan struct{} { return c.done }

func (c channelContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// run runs a node. W is nil if the node was given no worker.
func (x *dagRun) run(n *dagNode, w *pool.Worker) {
	s := &x.nodes[n.ID]
	s.set(doing{phase: running})
	x.launch(w, n.First)
	x.waits(n, n.Needs, w)
	x.launch(w, n.Then)
	if len(n.Children) > 0 {
		x.nest(n, w)
	}
	x.with(n, w, func(w *pool.Worker) {
		switch n.Way >> 20 % 4 {
		case 0:
			_ = fibonacci.Call(w, int(n.Way>>22%12))
		case 1:
			_ = par.For(w, int(n.Way>>22%100), func(int) {})
		case 2:
			spinWithin(time.Duration(n.Way>>22%20) * time.Microsecond)
		}
	})
	s.set(doing{phase: hasEnded})
	s.flag.Store(true)
	s.group.Done()
	close(s.done)
	x.ended.Add(1)
	x.left.Done()
}

var fibonacci = pool.Recursive(func(f *pool.Fork[int, int], n int) int {
	if n < 2 {
		return n
	}
	x, y := f.Join(n-1, n-2)
	return x + y
})

func spinWithin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

// with calls f with a worker: a caller from outside becomes a guest.
func (x *dagRun) with(n *dagNode, w *pool.Worker, f func(w *pool.Worker)) {
	if w != nil {
		f(w)
	} else if err := x.pools[n.Pool].Run(f); err != nil {
		x.fail("Run in node %d: %w", n.ID, err)
	}
}

// nest runs the children of the node.
func (x *dagRun) nest(n *dagNode, w *pool.Worker) {
	s := &x.nodes[n.ID]
	child := func(id int) func(w *pool.Worker) {
		return func(w *pool.Worker) { x.run(x.Nodes[id], w) }
	}
	begun := func() {
		for _, id := range n.Children {
			x.nodes[id].now.CompareAndSwap(uint64(notBegun), uint64(launched))
		}
	}
	last := n.Children[len(n.Children)-1]
	joins := func() { s.set(doing{waiting, need{last, byChildren}}) }
	switch n.Nest {
	case nestScope:
		x.with(n, w, func(w *pool.Worker) {
			w.Scope(func(in *pool.Scope) {
				begun()
				if n.Way%3 == 0 {
					x.addInTurn(in, w, n.Order)
				} else {
					for _, id := range n.Order {
						in.Go(w, child(id))
					}
				}
				x.waits(n, n.Inside, w)
				joins()
			})
		})
	case nestDo:
		x.with(n, w, func(w *pool.Worker) {
			begun()
			joins()
			var fs []func(*pool.Worker)
			for _, id := range n.Order {
				fs = append(fs, child(id))
			}
			w.Do(fs...)
		})
	case nestJoin:
		x.with(n, w, func(w *pool.Worker) {
			begun()
			joins()
			do := func(w *pool.Worker, id int) int { x.run(x.Nodes[id], w); return id }
			if a, b := pool.Join(w, do, n.Order[0], do, n.Order[1]); a != n.Order[0] || b != n.Order[1] {
				x.fail("the join of node %d returned %d and %d", n.ID, a, b)
			}
		})
	case nestLoop:
		begun()
		joins()
		var place pool.Place = x.pools[n.Pool]
		if w != nil && n.Way%2 == 0 {
			place = w
		}
		err := pool.ForRange(place, len(n.Order), func(w *pool.Worker, lo, hi int) {
			for _, id := range n.Order[lo:hi] {
				x.run(x.Nodes[id], w)
			}
		}, pool.Grain(1))
		if err != nil {
			x.fail("the loop of node %d: %w", n.ID, err)
		}
	case nestGroup, nestPlainGroup:
		set, _ := pool.NewGroup(x.pools[x.Nodes[last].Pool])
		if n.Limit > 0 {
			set.SetLimit(n.Limit)
		}
		s.members = set
		for _, id := range n.Order {
			s.set(doing{waiting, need{last, byChildren}}) // it waits for room
			x.nodes[id].set(doing{phase: launched})
			if n.Nest == nestGroup {
				set.GoWorker(func(w *pool.Worker) error { x.run(x.Nodes[id], w); return nil })
			} else {
				set.Go(func() error { x.run(x.Nodes[id], nil); return nil })
			}
		}
		close(s.added)
		x.waits(n, n.Inside, w)
		joins()
		if err := set.Wait(); err != nil {
			x.fail("the group of node %d: %w", n.ID, err)
		}
	case nestOtherPool:
		joins()
		begun()
		if err := x.pools[x.Nodes[last].Pool].Run(child(last)); err != nil {
			x.fail("Run in node %d: %w", n.ID, err)
		}
	}
	s.set(doing{phase: running})
}

// addInTurn adds children to a scope, each from the one before it.
func (x *dagRun) addInTurn(in *pool.Scope, w *pool.Worker, ids []int) {
	in.Go(w, func(w *pool.Worker) {
		if len(ids) > 1 {
			x.addInTurn(in, w, ids[1:])
		}
		x.run(x.Nodes[ids[0]], w)
	})
}

func (x *dagRun) waits(n *dagNode, needs []need, w *pool.Worker) {
	for _, need := range needs {
		x.nodes[n.ID].set(doing{waiting, need})
		if n.Way>>24%16 == 0 { // in a coroutine, which has no worker
			next, stop := iter.Pull(func(yield func(bool) bool) { x.wait(n, need, nil); yield(true) })
			next()
			stop()
		} else {
			x.wait(n, need, w)
		}
		x.nodes[n.ID].set(doing{phase: running})
	}
}

// wait waits for a node.
func (x *dagRun) wait(n *dagNode, need need, w *pool.Worker) {
	on := &x.nodes[need.On]
	block := func(f func()) { x.with(n, w, func(w *pool.Worker) { w.Block(f) }) }
	until := func(closed chan struct{}) {
		select {
		case <-closed:
		default:
			block(func() { <-closed })
		}
	}
	switch need.By {
	case byChannel:
		block(func() {
			select {
			case <-on.done:
			case <-x.release:
			}
		})
	case byWaitGroup:
		block(on.group.Wait)
	case byYield:
		x.with(n, w, func(w *pool.Worker) {
			for !on.flag.Load() {
				w.Yield()
			}
		})
	case byBlocks:
		pause := time.Duration(n.Way>>4%3) * 10 * time.Microsecond
		x.with(n, w, func(w *pool.Worker) {
			for !on.flag.Load() {
				w.Block(func() {
					if pause > 0 {
						time.Sleep(pause)
					} else {
						runtime.Gosched()
					}
				})
			}
		})
	case byFuture, byFutureUntil, byFutureUnless:
		until(on.exists)
		ctx := context.Background()
		if need.By == byFutureUnless {
			var cancel func()
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
		}
		for {
			if need.By == byFutureUntil {
				var cancel func()
				ctx, cancel = context.WithTimeout(context.Background(), time.Duration(10+n.Way>>4%100)*time.Microsecond)
				defer cancel()
			}
			v, err := on.future.Wait(ctx)
			if need.By == byFutureUntil && errors.Is(err, context.DeadlineExceeded) {
				continue
			}
			if err != nil || v != need.On {
				x.fail("node %d waited for the future of node %d and got %d: %w", n.ID, need.On, v, err)
			}
			return
		}
	case byGroup:
		until(on.added)
		if err := on.members.Wait(); err != nil {
			x.fail("node %d waited for the group of node %d: %w", n.ID, need.On, err)
		}
	}
}

// report describes which node waits for which.
func (x *dagRun) report() *hang {
	now := make([]doing, len(x.nodes))
	for i := range now {
		now[i] = x.nodes[i].doing()
	}
	circle := x.circle(now)
	var b strings.Builder
	fmt.Fprintf(&b, "no node has ended for long; %d of %d have; pools %+v, one P: %v\n", x.ended.Load(), len(now), x.Pools, x.OneP)
	if circle != nil {
		fmt.Fprintf(&b, "a circle: %v wait each for the next one\n", circle)
	}
	for i, d := range now {
		if d.phase != hasEnded {
			fmt.Fprintf(&b, "node %d, %s: %s\n", i, x.describe(i), x.says(d))
		}
	}
	for i, p := range x.pools {
		s := p.Stats()
		fmt.Fprintf(&b, "pool %d: %+v, %d wait, %d skipped\n", i, s.Total(), s.Waiting, s.Skipped)
	}
	fmt.Fprintf(&b, "\n%s", stacks())
	return &hang{circle, b.String()}
}

func (x *dagRun) describe(i int) string {
	n := x.Nodes[i]
	s := fmt.Sprintf("a %s in pool %d", dagKindNames[n.Kind], n.Pool)
	if n.Parent >= 0 {
		s = fmt.Sprintf("a child of %d (%s) in pool %d", n.Parent, dagNestNames[x.Nodes[n.Parent].Nest], n.Pool)
	}
	if n.Nest != noNest {
		s += fmt.Sprintf(" with the %s %v", dagNestNames[n.Nest], n.Order)
	}
	return s
}

func (x *dagRun) says(d doing) string {
	switch d.phase {
	case notBegun:
		return "not begun, and not launched"
	case launched:
		return "not begun"
	case waiting:
		return fmt.Sprintf("waits for node %d by %s", d.On, meansNames[d.By])
	}
	return "running"
}

// circle returns nodes of which each waits for the next one, and the last for the first, or nil.
func (x *dagRun) circle(now []doing) []int {
	const onPath, seen = 1, 2
	marks := make([]int, len(now))
	var path []int
	var visit func(i int) []int
	visit = func(i int) []int {
		switch marks[i] {
		case seen:
			return nil
		case onPath:
			return slices.Clone(path[slices.Index(path, i):])
		}
		marks[i] = onPath
		path = append(path, i)
		for _, k := range x.waitsFor(i, now) {
			if found := visit(k); found != nil {
				return found
			}
		}
		path = path[:len(path)-1]
		marks[i] = seen
		return nil
	}
	for i := range now {
		if found := visit(i); found != nil {
			return found
		}
	}
	return nil
}

// waitsFor returns the nodes for which a node waits. A node that is not launched waits for its
// launcher: another node, or its parent. If a group has no room, both a member that is launched and those
// that are not yet wait for the members that take up the room.
func (x *dagRun) waitsFor(i int, now []doing) []int {
	n := x.Nodes[i]
	switch d := now[i]; {
	case d.phase == waiting && d.By == byChildren:
		return x.launchedChildren(n, now)
	case d.phase == waiting:
		return []int{d.On}
	case d.phase == launched && n.Parent >= 0 && x.Nodes[n.Parent].Limit > 0:
		return slices.DeleteFunc(slices.Clone(x.Nodes[n.Parent].Children), func(i int) bool { return now[i].phase < running })
	case d.phase != notBegun:
		return nil
	case n.Parent < 0:
		return x.launcher(i)
	case now[n.Parent].phase == waiting && now[n.Parent].By == byChildren:
		return x.launchedChildren(x.Nodes[n.Parent], now)
	}
	return []int{n.Parent}
}

func (x *dagRun) launchedChildren(n *dagNode, now []doing) []int {
	return slices.DeleteFunc(slices.Clone(n.Children), func(i int) bool { return now[i].phase == notBegun })
}

// launcher returns the node that launches another, if one does.
func (x *dagRun) launcher(i int) []int {
	for _, n := range x.Nodes {
		if slices.Contains(n.First, i) || slices.Contains(n.Then, i) {
			return []int{n.ID}
		}
	}
	return nil
}
