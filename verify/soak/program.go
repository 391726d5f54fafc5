package soak

import (
	"math/rand/v2"
	"time"
)

// A program is a round of the soak: trees of operations, each for a goroutine of its own, and
// the steps that disturb the pool meanwhile. It depends only on its seed. The pool's way
// through it does not; where that decides what is right, the run records the pool's answers
// for the judge.
type program struct {
	Seed uint64

	Workers, MaxWorkers int
	Bound               int // of the queue; 0 for none
	Pinned, Hot         bool
	Spin                time.Duration

	Quitters []*op // tasks that end by runtime.Goexit, before all else: see run.quit
	Roots    []*op
	Steps    []step
	// CloseAfter is the number of leaves after which the program closes the pool under the
	// work. At 0 it closes the pool when the roots have returned; tasks may be left then.
	CloseAfter int

	Ops, Leaves int
}

// op is an operation. Operations are numbered in the order in which the program was made, so
// the numbers of the operations inside one lie between its own and End.
type op struct {
	Kind     kind
	ID, End  int
	First, N int    // its own leaves
	Way      uint32 // decides all that the kind leaves open
	Panics   bool   // of a loop: one of its leaves panics
	Children []*op
}

// kind is what an operation does with its children and leaves.
type kind uint8

const (
	leaf     kind = iota // counts itself, and disturbs the pool a little
	blowUp               // counts itself and panics
	sequence             // its children one after the other
	loop                 // its leaves, by one of the loops
	compute              // an algorithm whose result is known

	// Forks.
	join
	both
	do
	recursion
	scope
	spread // its children by a loop

	catch     // recovers the panics of its child
	cancelled // its child in a call that may be cancelled
	guest     // its child in a Run
	otherPool // its child in a Run of the other pool

	// Tasks without a waiter, with one child.
	workerGo
	poolGo
	submit
	trySubmit
	submitOn
	batch // its children are members

	// Tasks with a waiter.
	group      // its children are members that get a worker
	plainGroup // its children are members that get none
	future

	member // one of several tasks, with one child

	kinds
)

// trait is the generator's data of a kind.
type trait struct {
	name      string
	weight    int  // how often the generator draws it
	few, many int  // children
	worker    bool // it needs a worker
}

var traits = [kinds]trait{
	blowUp:     {name: "blowUp"},
	member:     {name: "member"},
	leaf:       {name: "leaf", weight: 24},
	sequence:   {name: "sequence", weight: 8, few: 2, many: 4},
	loop:       {name: "loop", weight: 6},
	compute:    {name: "compute", weight: 2},
	join:       {name: "join", weight: 12, few: 2, many: 2, worker: true},
	both:       {name: "both", weight: 6, few: 2, many: 2, worker: true},
	do:         {name: "do", weight: 6, few: 1, many: 5, worker: true},
	recursion:  {name: "recursion", weight: 8, few: 2, many: 3, worker: true},
	scope:      {name: "scope", weight: 4, few: 1, many: 6, worker: true},
	spread:     {name: "spread", weight: 3, few: 2, many: 6},
	catch:      {name: "catch", weight: 5, few: 1, many: 1},
	cancelled:  {name: "cancelled", weight: 3, few: 1, many: 1},
	guest:      {name: "guest", weight: 3, few: 1, many: 1},
	otherPool:  {name: "otherPool", weight: 1, few: 1, many: 1},
	workerGo:   {name: "workerGo", weight: 5, few: 1, many: 1, worker: true},
	poolGo:     {name: "poolGo", weight: 3, few: 1, many: 1},
	submit:     {name: "submit", weight: 4, few: 1, many: 1},
	trySubmit:  {name: "trySubmit", weight: 2, few: 1, many: 1},
	submitOn:   {name: "submitOn", weight: 1, few: 1, many: 1},
	batch:      {name: "batch", weight: 1, few: 1, many: 9},
	group:      {name: "group", weight: 4, few: 1, many: 5},
	plainGroup: {name: "plainGroup", weight: 2, few: 1, many: 5},
	future:     {name: "future", weight: 3, few: 1, many: 1},
}

func (k kind) String() string { return traits[k].name }

// step disturbs the pool while it works.
type step struct {
	Kind  stepKind
	Count int           // workers after a resize
	After time.Duration // how long to wait before the step
	Lasts time.Duration // of a pause
}

type stepKind uint8

const (
	stepResize stepKind = iota
	stepPause
	stepStats
	steps
)

// The sizes of a program. A tree is cut off below maxDepth, and when the program has maxOps
// operations. Then it runs for milliseconds, and a fault in it can be found.
const (
	maxDepth = 9
	maxOps   = 1500
)

// surroundings are what the generator knows of an operation's position.
type surroundings struct {
	depth  int
	worker bool // there is a worker to hand on
	other  bool // the operation is in the other pool
	fuse   bool // there may be panics, which are recovered
}

type generator struct {
	random *rand.Rand
	*program
}

// generate makes the program of a seed.
func generate(seed uint64) *program {
	g := generator{rand.New(rand.NewPCG(seed, 0)), &program{Seed: seed}}
	g.MaxWorkers = 1 + g.random.IntN(8)
	g.Workers = 1 + g.random.IntN(g.MaxWorkers)
	if g.random.IntN(3) == 0 {
		g.Bound = 1 + g.random.IntN(20)
	}
	g.Pinned = g.random.IntN(2) == 0
	g.Hot = g.random.IntN(4) == 0
	g.Spin = time.Duration(g.random.IntN(3)) * 10 * time.Microsecond
	if g.random.IntN(8) == 0 {
		for range 1 + g.random.IntN(4) {
			g.Quitters = append(g.Quitters, g.leaf(g.open(leaf)))
		}
	}
	for range 1 + g.random.IntN(4) {
		g.Roots = append(g.Roots, g.root())
	}
	for range g.random.IntN(6) {
		g.Steps = append(g.Steps, step{
			Kind:  stepKind(g.random.IntN(int(steps))),
			Count: 1 + g.random.IntN(g.MaxWorkers),
			After: time.Duration(g.random.IntN(300)) * time.Microsecond,
			Lasts: time.Duration(g.random.IntN(200)) * time.Microsecond,
		})
	}
	if g.random.IntN(3) == 0 {
		g.CloseAfter = 1 + g.random.IntN(max(g.Leaves, 1))
	}
	return g.program
}

// root makes a tree for a goroutine from outside: a guest, or a goroutine that only submits.
// The tree recovers its panics at the root.
func (g *generator) root() *op {
	o := g.open(catch)
	in := surroundings{depth: maxDepth, fuse: g.random.IntN(2) == 0}
	if g.random.IntN(4) == 0 {
		o.Children = append(o.Children, g.of(sequence, in))
	} else {
		o.Children = append(o.Children, g.of(guest, in))
	}
	return g.shut(o)
}

// of makes an operation of a kind.
func (g *generator) of(k kind, in surroundings) *op {
	o := g.open(k)
	switch k {
	case leaf:
		if in.fuse && g.random.IntN(5) == 0 {
			o.Kind = blowUp
		}
		return g.leaf(o)
	case loop:
		o.First, o.N = g.Leaves, 2*(1+g.random.IntN(40)) // even, for Phases
		g.Leaves += o.N
		o.Panics = in.fuse && g.random.IntN(6) == 0
	}
	t := traits[k]
	for range t.few + g.random.IntN(t.many-t.few+1) {
		o.Children = append(o.Children, g.child(k, in))
	}
	return g.shut(o)
}

// child makes a child of an operation of kind k.
func (g *generator) child(k kind, in surroundings) *op {
	in.depth--
	switch k {
	case catch:
		in.fuse = g.random.IntN(2) == 0
	case guest, spread, cancelled:
		in.worker = true
	case otherPool:
		in.worker, in.other = true, true
	case workerGo, poolGo, submit, trySubmit, submitOn:
		in.worker, in.fuse = true, g.random.IntN(6) == 0
	case batch:
		in.worker, in.fuse = true, g.random.IntN(6) == 0
		return g.member(in)
	case group:
		in.worker = true
		return g.member(in)
	case plainGroup:
		in.worker = false
		return g.member(in)
	case future:
		in.worker = true
	}
	return g.any(in)
}

func (g *generator) member(in surroundings) *op {
	o := g.open(member)
	o.Children = append(o.Children, g.any(in))
	return g.shut(o)
}

// any makes an operation of a kind that is possible in its surroundings.
func (g *generator) any(in surroundings) *op {
	if in.depth <= 0 || g.Ops > maxOps {
		return g.of(leaf, in)
	}
	var sum int
	var weights [kinds]int
	for k, t := range traits {
		if t.worker && !in.worker || kind(k) == otherPool && in.other {
			continue
		}
		weights[k] = t.weight
		sum += t.weight
	}
	n := g.random.IntN(sum)
	for k, w := range weights {
		if n -= w; n < 0 {
			return g.of(kind(k), in)
		}
	}
	panic("the weights do not add up")
}

// open begins an operation, and shut ends it.
func (g *generator) open(k kind) *op {
	o := &op{Kind: k, ID: g.Ops, Way: g.random.Uint32()}
	g.Ops++
	return o
}

func (g *generator) shut(o *op) *op {
	o.End = g.Ops
	return o
}

func (g *generator) leaf(o *op) *op {
	o.First, o.N = g.Leaves, 1
	g.Leaves++
	return g.shut(o)
}

// The details that an operation's Way decides. Each uses bits of its own.

// oneIn is true for one in n operations; which takes different bits for different things.
func (o *op) oneIn(n uint32, which int) bool { return o.pick(n, which) == 0 }

// pick returns a number below n.
func (o *op) pick(n uint32, which int) uint32 {
	return uint32(mix(uint64(o.Way)+uint64(which)<<32)>>32) % n
}

// The choices of pick, numbered so that no two go together.
const (
	whichLoop = iota
	whichGrain
	whichPlace
	whichFailure
	whichLeaf
	whichLimit
	whichCancel
	whichType
	whichPriority
	whichDelay
	whichDeadline
)

// failing returns the index of the member that returns an error, or -1.
func (o *op) failing() int {
	if len(o.Children) == 0 || !o.oneIn(4, whichFailure) {
		return -1
	}
	return int(o.Way % uint32(len(o.Children)))
}

// cancels says when a call is cancelled.
type cancels uint32

const (
	never cancels = iota
	before
	within // by an operation inside
	byTimer
	cancelKinds
)

func (o *op) cancels() cancels {
	switch {
	case o.Kind == cancelled:
		return cancels(o.pick(uint32(cancelKinds), whichCancel))
	case o.Kind == loop && !o.Panics && o.oneIn(4, whichCancel):
		return before + cancels(o.pick(2, whichLimit))
	}
	return never
}

// special is the leaf of a loop that panics, or cancels the loop.
func (o *op) special() int { return int(o.Way % uint32(o.N)) }

// valueOf is the value of a leaf.
func (p *program) valueOf(leaf int) uint64 { return mix(p.Seed<<20 ^ uint64(leaf)) }

// mix is the finaliser of splitmix64: it makes similar numbers dissimilar.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// combine is the value of an operation whose children have these values.
func combine(values []uint64) (sum uint64) {
	for i, v := range values {
		sum += uint64(2*i+3) * v
	}
	return sum
}

// The values of operations that did not come to their end.
const (
	valueRefused = 0
	valueCaught  = 7
	valueStopped = 11
	valueFailed  = 13
)
