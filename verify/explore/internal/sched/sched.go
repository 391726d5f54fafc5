// Package sched runs one interleaving of a program after the other. The packages explore, atomic and
// sync beside it are what programs see of it.
//
// Each goroutine of the explored program is a coroutine (iter.Pull), so that a switch costs some 100 ns and no other
// goroutine can run meanwhile. Before each operation that others can notice, the goroutine says what it is about to do
// (point), and the strategy chooses whose operation comes next. Everything between two operations belongs to the first.
package sched

import (
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"unsafe"
)

// maxGoroutines is the number of bits of a set.
const maxGoroutines = 64

// set is a set of goroutines by their number.
type set uint64

func (s set) has(i int) bool { return s>>i&1 != 0 }

// kind says what an operation does to its object.
type kind uint8

const (
	reads  kind = iota // two reads of an object commute
	writes             // everything else that has an object
	yields             // commutes with nothing
)

// op is an operation that a goroutine is about to execute.
type op struct {
	what   string
	object unsafe.Pointer // nil: commutes with everything
	kind   kind
	ready  func() bool // nil: always
}

// goroutine is a goroutine of the explored program.
type goroutine struct {
	id    int
	name  string
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	pending op
	over    bool
	buffer  []delayed // stores that others do not see yet, the oldest first

	// Of the fair scheduler, see fair.go.
	yielded     bool
	lower       set // those before whom it is not chosen
	ran, stayed set // since its last yield
}

// delayed is a store in a store buffer.
type delayed struct {
	object unsafe.Pointer
	value  any
	apply  func()
}

// Failure is why an execution is not as it should be.
type Failure struct {
	Reason string // the first line says what
	kind   string
}

func (f *Failure) Error() string { return f.Reason }

// execution is one interleaving.
type execution struct {
	strategy   strategy
	limit      int  // steps
	buffers    bool // stores may be delayed
	goroutines []*goroutine
	current    *goroutine
	steps      int
	options    []int
	goesOn     bool  // the current goroutine could go on
	drained    set   // those whose stores were seen since a goroutine has run
	schedule   []int // what was chosen where there was a choice
	aborting   bool
	looking    bool // whether a goroutine can go on
	pruned     bool
	failure    *Failure
	tracer     *tracer // nil unless the execution is a replay
	clocks     *clocks // nil unless races are checked
}

// active is the execution that runs, if any. Only code of the explored program may use the explorer's operations
// meanwhile, so whoever executes one is the current goroutine.
var active atomic.Pointer[execution]

// running returns the execution that an operation belongs to. What a goroutine waits for is evaluated by others, and no
// operation of theirs.
func running() *execution {
	if x := active.Load(); x != nil && !x.looking {
		return x
	}
	return nil
}

// Active says whether a program is explored.
func Active() bool { return running() != nil }

// abort unwinds the goroutines of an execution that is given up.
type abort struct{}

// strategy chooses what comes next. An option that is not negative is the number of a goroutine; ^i says
// that the oldest store in the buffer of goroutine i is seen by all. The first option is what costs nothing.
type strategy interface {
	// begin prepares the next execution, or says that there is none.
	begin() bool
	// choose returns the index of an option. There are at least two. Preempts says which of them takes the
	// processor from a goroutine that could go on. A negative result gives the execution up.
	choose(x *execution, options []int, preempts func(option int) bool) int
	// executed tells what comes next, if there was a choice or not. False gives the execution up.
	executed(x *execution, option int) bool
	// isNew says, at the end of an execution, whether it may differ from all others.
	isNew() bool
}

// run runs the program once.
func (x *execution) run(program func()) {
	if !active.CompareAndSwap(nil, x) {
		panic("explore: a program is explored already; explorations do not run in parallel")
	}
	defer active.Store(nil)
	x.current = x.spawn("main", program)
	for {
		g := x.current
		g.next()
		if x.failure != nil || x.pruned || x.current == nil {
			break
		}
	}
	x.aborting = true
	for _, g := range x.goroutines {
		x.current = g
		g.stop()
	}
}

func (x *execution) spawn(name string, f func()) *goroutine {
	g := &goroutine{id: len(x.goroutines)}
	if g.id == maxGoroutines {
		panic(fmt.Sprintf("explore: more than %d goroutines", maxGoroutines))
	}
	if name == "" {
		name = "goroutine"
	}
	if g.name = name; slices.ContainsFunc(x.goroutines, func(o *goroutine) bool { return o.name == name }) {
		g.name = fmt.Sprintf("%s-%d", name, g.id)
	}
	g.ran = ^set(0)
	g.pending.what = "begins"
	x.goroutines = append(x.goroutines, g)
	g.next, g.stop = iter.Pull(func(yield func(struct{}) bool) {
		g.yield = yield
		defer func() {
			g.over = true
			if x.aborting {
				recover()
				return
			}
			if v := recover(); v != nil {
				x.fail("panic", fmt.Sprintf("%s panics: %v", g.name, v), string(debug.Stack()))
				return
			}
			x.note("ends", nil)
			x.switchAway()
		}()
		f()
	})
	if x.clocks != nil {
		x.clocks.spawn(x.current, g)
	}
	return g
}

// fail ends the execution. The goroutine must not go on.
func (x *execution) fail(kind, reason, more string) {
	if x.failure == nil {
		if more != "" {
			reason += "\n" + more
		}
		x.failure = &Failure{Reason: reason, kind: kind}
	}
}

// point is called before each operation.
func (x *execution) point(o op) {
	g := x.current
	if x.aborting {
		panic(abort{})
	}
	g.pending = o
	x.choose()
	if x.current != g || x.failure != nil || x.pruned {
		if !g.yield(struct{}{}) {
			panic(abort{})
		}
	}
	g.pending = op{}
}

// switchAway is the choice at the end of a goroutine.
func (x *execution) switchAway() {
	if !slices.ContainsFunc(x.goroutines, func(g *goroutine) bool { return !g.over }) {
		x.current = nil
		return
	}
	x.choose()
}

// canRun says whether the goroutine can go on.
func (x *execution) canRun(g *goroutine) bool {
	if g.over || g.pending.ready == nil {
		return !g.over
	}
	x.looking = true
	defer func() { x.looking = false }()
	return g.pending.ready()
}

// choose makes the goroutine current that comes next.
func (x *execution) choose() {
	for {
		x.steps++
		if x.steps > x.limit {
			x.fail("livelock", fmt.Sprintf("livelock: %d steps, and the program has not ended\n%s", x.limit, x.whereabouts()), "")
			return
		}
		enabled := x.enabled()
		x.offer(enabled)
		if len(x.options) == 0 {
			x.fail("deadlock", "deadlock: all goroutines wait\n"+x.whereabouts(), "")
			return
		}
		option, at := x.options[0], 0
		if len(x.options) > 1 {
			if at = x.strategy.choose(x, x.options, x.preempts); at < 0 {
				x.pruned = true
				return
			}
			option = x.options[at]
			x.schedule = append(x.schedule, option)
		}
		if !x.strategy.executed(x, option) {
			x.pruned = true
			return
		}
		if option < 0 {
			g := x.goroutines[^option]
			x.drainOne(g)
			x.drained |= 1 << g.id
			continue
		}
		x.drained = 0
		x.fair(enabled, option)
		x.current = x.goroutines[option]
		return
	}
}

func (x *execution) enabled() (s set) {
	for i, g := range x.goroutines {
		if x.canRun(g) {
			s |= 1 << i
		}
	}
	return s
}

// offer lists the options: the current goroutine first, if it can go on, then the others in the order of
// their numbers from there on, then the buffers.
//
// A store that leaves its buffer is noticed only by other goroutines. So one of those comes next: it would be the same if
// the goroutine went on and the store left later.
func (x *execution) offer(enabled set) {
	x.options = x.options[:0]
	from := x.current.id
	x.goesOn = enabled.has(from) && x.mayRun(from, enabled)
	mayRun := enabled
	if mayRun &^= x.drained; mayRun == 0 {
		mayRun = enabled
	}
	n := len(x.goroutines)
	for i := range n {
		j := (from + i) % n
		if mayRun.has(j) && x.mayRun(j, enabled) {
			x.options = append(x.options, j)
		}
	}
	if x.buffers {
		for i, g := range x.goroutines {
			if len(g.buffer) > 0 && (enabled == 0 || enabled&^(1<<i) != 0) {
				x.options = append(x.options, ^i)
			}
		}
	}
}

// preempts says whether the option takes the processor from a goroutine that could go on.
func (x *execution) preempts(option int) bool {
	if x.drained.has(x.current.id) { // it has lost it already
		return false
	}
	return x.goesOn && option != x.current.id && (option >= 0 || ^option == x.current.id)
}

func (x *execution) whereabouts() string {
	text := ""
	for _, g := range x.goroutines {
		state := "is about to " + g.pending.what
		if g.over {
			state = "has ended"
		} else if !x.canRun(g) {
			state = "waits to " + g.pending.what
		}
		text += fmt.Sprintf("  %s %s\n", g.name, state)
	}
	return text
}
