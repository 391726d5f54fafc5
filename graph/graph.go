// Package graph runs graphs of functions on a pool: a function begins when those before it have ended. A graph is built once and run
// any number of times. Taskflow calls that a taskflow, and oneTBB a flow graph of continue nodes.
//
// For dependencies that come up while a program runs, use futures and [pool.After]; for a loop over a grid without dependencies package par.
package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/internal/causes"
	"github.com/seed53057037/heist/internal/panics"
	"github.com/seed53057037/heist/pool"
)

// # A run
//
// Each node counts its predecessors that have not ended. Who ends a node subtracts one from each successor, and has **released** those that
// come to zero. It queues all of them but one, by Worker.Go, and goes on with that one itself: oneTBB calls this the bypass of the scheduler,
// Taskflow does the same. A node with one predecessor has no counter, since that one releases it. As a long chain must not keep
// the worker from the pool's other tasks, it goes on so only mostInPlace times, and then queues this node as well.
//
// A node sets its counter back when it begins: all its predecessors have ended, and they do not end again before the next
// run. So no run begins with a pass over the nodes, and a run allocates nothing.
//
// Each node comes before some node without successors, a **sink**, or is one. So when all sinks have ended, all nodes have, and only
// sinks count in Graph.left, a word that all workers write.
//
// A node that does not run, because one before it failed or the context has ended, still releases its successors: every run comes to each node
// once, whatever happens, so the counters are right afterwards.
//
// If the pool is aborted, Run takes the nodes that lie in its queues, and comes to what is after them, without running it. Node.queued decides between
// Run, a worker that has come to the node's task, and Abort's caller, who has got it. A node is marked as queued before the pool is asked, and
// the pool looks whether it was aborted before Run does: so Run finds each node that the pool has taken.

// mostInPlace is how many nodes a worker runs in a row without asking the pool for others. A pass through the pool costs some 30 ns.
const mostInPlace = 16

// # Layout
//
// Where a run spends its time is in cache misses, so what it touches is small. A node has 64 bytes, a line, and nodes lie side by side.
// Counters and successors are arrays of 32-bit words apart from the nodes: to subtract from a successor
// that is not released touches nothing of that node. A successor is twice its index, and one more if it has a counter.
// A worker goes on with the first successor that it has released: nodes whose edges were given one after the other often lie so, and in a
// grid they are a row. With the last one a wavefront takes 2.7 times as long.

// Graph is a set of functions, its nodes, and of what must come before what. The zero Graph is empty. Add nodes by [Graph.Add], say what comes
// first by [Node.After], and run it. A Graph must not be copied, and not be changed while it runs.
type Graph struct {
	nodes []*Node
	block []Node // where the last nodes lie, and the next ones will
	edges []edge
	timed bool

	// What compile makes of these; constant while the graph runs.

	compiled bool
	broken   error // why it cannot run; nil if it can
	roots    []*Node
	tasks    []func(w *pool.Worker) // of the roots
	sinks    int64
	next     []uint32       // the successors of all nodes, see Layout
	pending  []atomic.Int32 // how many predecessors have not ended, by node, if there are several; who ends one subtracts, and the node itself sets it back
	done     chan struct{}  // gets an entry when all sinks have ended
	await    func()         // waits for that; constant, so that a run allocates nothing

	running atomic.Bool // Run writes

	// Of the present run, or the last one; constant while it runs.

	pool  *pool.Pool
	ctx   context.Context
	ends  bool // the context can end
	began time.Time

	left    atomic.Int64 // sinks that have not ended; who ends one subtracts
	skipped atomic.Bool  // a node did not begin, or was ended early, because the context has ended or the pool closes; who finds out writes
	aborted atomic.Bool  // the pool was, so no more nodes begin; Run writes
	over    bool         // nodes were taken back; Run writes

	mu       sync.Mutex
	failures []failure // of the nodes that have failed; under mu while the graph runs
	times    []span    // of the nodes, if the run is timed; who runs a node writes its own
}

type failure struct {
	node     *Node
	err      error
	panicked *pool.PanicError
}

// span is when a node ran, since the beginning of the run; 0 if it did not.
type span struct{ from, till time.Duration }

type edge struct{ from, to uint32 } // indices

// Node is a function in a graph.
type Node struct {
	graph      *Graph
	f          func(w *pool.Worker) error
	task       func(w *pool.Worker) // run; constant, so that to queue it allocates nothing
	index      uint32               // in Graph.nodes; constant
	first, end uint32               // where its successors are in Graph.next; constant while the graph runs, like before
	before     int32                // how many predecessors it has
	spoiled    atomic.Bool          // one of them failed or was spoiled; who ends that one writes, and the node itself resets it
	queued     atomic.Bool          // it waits for the pool to begin it; who queues it sets it, and who clears it runs the node

	name string
}

func (n *Node) span() *span { return &n.graph.times[n.index] }

// Add adds a function. Its name is for errors and pictures, and need not be unique. An error of f, as a panic, keeps the
// functions that come after f, directly or not, from beginning; all others run. F may be called by several goroutines at the same time only if the graph
// has several nodes with it. Add panics if f is nil, or while the graph runs.
//
// Cost: an allocation for the node's task, and memory of 90 bytes.
func (g *Graph) Add(name string, f func(w *pool.Worker) error) *Node {
	g.mustRest("Add")
	if f == nil {
		panic(fmt.Errorf("graph: the node %s was given a nil function", name))
	}
	if len(g.nodes) == cap(g.nodes) {
		g.nodes = slices.Grow(g.nodes, len(g.nodes)+1)
	}
	if len(g.block) == cap(g.block) {
		g.block = make([]Node, 0, min(max(len(g.nodes), 4), 512))
	}
	g.block = g.block[:len(g.block)+1]
	n := &g.block[len(g.block)-1]
	n.graph, n.name, n.f, n.index = g, name, f, uint32(len(g.nodes))
	n.task = n.run
	g.nodes = append(g.nodes, n)
	g.compiled = false
	return n
}

// After has the node begin when the others have ended, and returns the node. To say it twice is to say it once. All must be nodes of the
// same graph. A circle is found by the next [Graph.Run], or by [Graph.Check].
//
// Cost: some nanoseconds for each.
func (n *Node) After(others ...*Node) *Node {
	n.graph.mustRest("After")
	for _, o := range others {
		if o == nil || o.graph != n.graph {
			panic(fmt.Errorf("graph: the node %s was to come after a node of another graph, or nil", n.name))
		}
		n.graph.edges = append(n.graph.edges, edge{o.index, n.index})
	}
	n.graph.compiled = false
	return n
}

// Name returns the node's name.
func (n *Node) Name() string { return n.name }

func (g *Graph) mustRest(method string) {
	if g.running.Load() {
		panic(fmt.Errorf("graph: %s was called while the graph runs", method))
	}
}

// CycleError is the error of a graph in which nodes wait for one another.
type CycleError struct {
	Names []string // of the nodes of a circle, in order: each comes after the one before it, and the first one after the last
}

// Error names the circle.
func (e *CycleError) Error() string {
	return fmt.Sprintf("graph: a circle: %s -> %s", strings.Join(e.Names, " -> "), e.Names[0])
}

// Check returns a [*CycleError] if there is a circle, as [Graph.Run] does. Cost: that of a look at all nodes and edges, once after a change.
func (g *Graph) Check() error {
	g.mustRest("Check")
	return g.compile()
}

// compile makes of the edges what a run needs.
func (g *Graph) compile() error {
	if g.compiled {
		return g.broken
	}
	n := len(g.nodes)
	first := make([]uint32, n+1) // where the successors of a node begin
	inOrder := true
	for _, e := range g.edges {
		first[e.from+1]++
		inOrder = inOrder && e.from < e.to
	}
	for i := range n {
		first[i+1] += first[i]
	}
	g.next = make([]uint32, len(g.edges))
	filled := slices.Clone(first)
	for _, e := range g.edges {
		g.next[filled[e.from]] = e.to
		filled[e.from]++
	}
	before := make([]int32, n)
	last := make([]uint32, n) // 1 + the last node with an edge to this one, lest one that is given twice count
	kept := uint32(0)
	g.roots, g.tasks, g.sinks = nil, nil, 0
	for i, node := range g.nodes {
		node.first = kept
		for _, to := range g.next[first[i]:first[i+1]] {
			if last[to] != uint32(i)+1 {
				last[to] = uint32(i) + 1
				before[to]++
				g.next[kept] = to
				kept++
			}
		}
		if node.end = kept; node.first == kept {
			g.sinks++
		}
	}
	g.next = g.next[:kept]
	for i, to := range g.next {
		g.next[i] = 2 * to
		if before[to] > 1 {
			g.next[i]++
		}
	}
	g.pending = make([]atomic.Int32, n)
	for i, node := range g.nodes {
		node.before = before[i]
		node.spoiled.Store(false)
		g.pending[i].Store(before[i])
		if before[i] == 0 {
			g.roots, g.tasks = append(g.roots, node), append(g.tasks, node.task)
		}
	}
	if g.timed {
		g.times = append(g.times, make([]span, n-len(g.times))...)
	}
	if g.done == nil {
		g.done = make(chan struct{}, 1)
		g.await = func() {
			select {
			case <-g.done:
			case <-g.pool.Aborted():
				g.aborted.Store(true)
				g.takeBack()
				<-g.done
			}
		}
	}
	g.compiled, g.broken = true, nil
	if !inOrder { // else each comes after nodes that were added before it
		g.broken = g.findCycle()
	}
	return g.broken
}

// order returns the nodes so that each comes after its predecessors. Nodes in or behind a circle are missing.
func (g *Graph) order() []*Node {
	left := make([]int32, len(g.nodes))
	order := make([]*Node, 0, len(g.nodes))
	for i, n := range g.nodes {
		if left[i] = n.before; n.before == 0 {
			order = append(order, n)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, to := range g.next[order[i].first:order[i].end] {
			if left[to/2]--; left[to/2] == 0 {
				order = append(order, g.nodes[to/2])
			}
		}
	}
	return order
}

func (g *Graph) findCycle() error {
	order := g.order()
	if len(order) == len(g.nodes) {
		return nil
	}
	// Each node that is missing has a predecessor that is missing, so the way back from predecessor to predecessor ends in a circle.
	found := make([]bool, len(g.nodes))
	for _, n := range order {
		found[n.index] = true
	}
	from := make([]uint32, len(g.nodes)) // a missing predecessor of a missing node
	for _, e := range g.edges {
		if !found[e.from] && !found[e.to] {
			from[e.to] = e.from
		}
	}
	at := uint32(slices.Index(found, false))
	for range g.nodes {
		at = from[at]
	}
	e := &CycleError{}
	for first := at; len(e.Names) == 0 || at != first; at = from[at] {
		e.Names = append(e.Names, g.nodes[at].name)
	}
	slices.Reverse(e.Names)
	i := slices.Index(e.Names, slices.Min(e.Names)) // whichever node was found first
	e.Names = slices.Concat(e.Names[i:], e.Names[:i])
	return e
}

// WithTimings has runs note when each node begins and ends, for [Graph.CriticalPath] and [Graph.WriteDOT]. Cost: two looks at the clock for each node.
func (g *Graph) WithTimings() {
	g.mustRest("WithTimings")
	g.timed, g.compiled = true, false
}

// Run runs the graph's functions on the pool, and returns when all have ended. It returns nil if all of them ran and returned nil. Otherwise:
//
//   - the errors of functions, with the names of their nodes, joined in the order of Add; functions that come after one that failed do not run;
//   - the cause of ctx, if its end kept functions from beginning, or ended one early: each is a call with ctx, as [pool.Worker.With] describes;
//   - [pool.ErrClosed], if the pool is closed, or was aborted, after which no more functions begin; if some waited in its queues, the graph cannot be
//     run again;
//   - a [*CycleError], or an error because the graph runs already.
//
// If a function panicked, Run panics with the first [*pool.PanicError] in the order of Add when all have ended. A function that
// calls runtime.Goexit has the error [pool.ErrGoexit].
//
// Any goroutine may call it; a task lends its place meanwhile. Cost: after the first run, no allocation if called from outside of the pool with a
// ctx that does not end, and with assembly; else that of a call with a context for each function.
func (g *Graph) Run(ctx context.Context, p *pool.Pool) error {
	if ctx == nil {
		return errors.New("graph: Graph.Run was given a nil context; use context.Background() for one that does not end")
	}
	if !g.running.CompareAndSwap(false, true) {
		return errors.New("graph: the graph runs already; a graph runs once at a time")
	}
	defer g.running.Store(false)
	if g.over {
		return errOver
	}
	if _, err := p.SubmitAll(ctx, nil); err != nil { // the pool is closed, or was not made by New
		return err
	}
	if err := g.compile(); err != nil || len(g.nodes) == 0 {
		return err
	}
	clear(g.times)
	if ctx.Err() != nil {
		return causes.Of(ctx)
	}
	g.pool, g.ctx, g.ends = p, ctx, ctx.Done() != nil
	g.left.Store(g.sinks)
	g.skipped.Store(false)
	g.aborted.Store(false)
	if g.timed {
		g.began = time.Now()
	}
	for _, root := range g.roots {
		root.queued.Store(true)
	}
	queued, err := p.SubmitAll(ctx, g.tasks)
	if queued < len(g.roots) { // the pool closes, or ctx has ended the wait for room; the run comes to all nodes even so
		g.skipped.Store(true)
		for _, root := range g.roots[queued:] {
			root.run(nil)
		}
	}
	p.Block(g.await)
	if g.skipped.Load() {
		err = cmp.Or(err, causes.Of(ctx), pool.ErrClosed) // the last, if nodes were taken back
	}
	if len(g.failures) > 0 {
		err = g.failure(err)
	}
	return err
}

var errOver = errors.New("graph: the pool was aborted while the graph ran, so the graph cannot run again; make a new one")

// failure returns the errors of the nodes and err, or panics as one of the nodes did.
func (g *Graph) failure(err error) error {
	failures := g.failures
	g.failures = nil
	slices.SortFunc(failures, func(a, b failure) int { return cmp.Compare(a.node.index, b.node.index) })
	var errs []error
	for _, f := range failures {
		if f.panicked != nil {
			panic(f.panicked)
		}
		errs = append(errs, fmt.Errorf("graph: %s: %w", f.node.name, f.err))
	}
	if len(errs) == 1 && err == nil {
		return errs[0]
	}
	return errors.Join(append(errs, err)...)
}

// queue has the pool run the node. If it says false, the caller must do so.
func (n *Node) queue(w *pool.Worker) bool {
	n.queued.Store(true)
	return w.Go(n.task) == nil || !n.queued.CompareAndSwap(true, false)
}

// takeBack takes the nodes that lie in queues of a pool that was aborted, and comes to all that is after them. The graph cannot run
// again: Abort's caller may call their tasks at any time.
func (g *Graph) takeBack() {
	for _, n := range g.nodes {
		if n.queued.Load() {
			g.over = true
			n.run(nil)
		}
	}
}

// run is the task of a node that has been released, unless another goroutine has taken the node.
func (n *Node) run(w *pool.Worker) {
	if n.queued.CompareAndSwap(true, false) {
		n.begin(w)
	}
}

// begin runs a node, and goes on with nodes that it releases.
func (n *Node) begin(w *pool.Worker) {
	var kept []*Node // nodes that the pool did not take; nearly always none
	for inPlace := 0; n != nil; inPlace++ {
		if inPlace == mostInPlace && w != nil && n.queue(w) {
			inPlace, n = -1, nil
		} else {
			ok := n.do(w, &kept)
			n, kept = n.release(w, ok, kept)
		}
		if last := len(kept) - 1; n == nil && last >= 0 {
			n, kept = kept[last], kept[:last]
		}
	}
}

// do runs the node's function, unless there is a reason not to, and says whether its successors may run. If the function ends the
// goroutine, do sees to the rest of the run, and to what was kept.
func (n *Node) do(w *pool.Worker, kept *[]*Node) (ok bool) {
	g := n.graph
	if n.before > 1 {
		g.pending[n.index].Store(n.before)
	}
	if n.spoiled.Load() {
		n.spoiled.Store(false)
		return false
	}
	if g.ends && g.ctx.Err() != nil {
		g.skipped.Store(true)
	}
	if w == nil || g.skipped.Load() || g.aborted.Load() {
		g.skipped.Store(true)
		return false
	}
	w.ShowAs(n.f)
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := panics.Recovered(recover()); v != nil {
			n.fails(nil, panicError(v))
			return
		}
		n.fails(pool.ErrGoexit, nil)
		n.leave(w, *kept)
	}()
	ended, err := n.call(w)
	if returned = true; err != nil {
		n.fails(err, nil)
	} else if ended {
		g.skipped.Store(true)
	}
	return err == nil && !ended
}

// call calls the node's function, in the context of the run if that can end, and says whether that has ended it early, or kept it from
// beginning.
func (n *Node) call(w *pool.Worker) (ended bool, err error) {
	g := n.graph
	if !g.ends {
		return false, n.timedCall(w)
	}
	end := w.With(g.ctx).Run(func(w *pool.Worker) { err = n.timedCall(w) })
	if end == nil {
		return false, err
	}
	if cause := context.Cause(g.ctx); cause != nil && errors.Is(end, cause) {
		return true, err
	}
	return false, end // of Worker.Stop
}

func (n *Node) timedCall(w *pool.Worker) error {
	if g := n.graph; g.timed {
		ran := n.span()
		ran.from = time.Since(g.began)
		defer func() { ran.till = max(time.Since(g.began), 1) }()
	}
	return n.f(w)
}

// leave releases what comes after the node, and sees that others run that and what was kept: the goroutine ends.
func (n *Node) leave(w *pool.Worker, kept []*Node) {
	next, kept := n.release(w, false, kept)
	if next != nil {
		kept = append(kept, next)
	}
	for _, k := range kept {
		if !k.queue(w) {
			k.begin(nil)
		}
	}
}

func panicError(v any) *pool.PanicError {
	if e, ok := v.(*pool.PanicError); ok {
		return e
	}
	return &pool.PanicError{Value: v, Stack: debug.Stack()}
}

func (n *Node) fails(err error, panicked *pool.PanicError) {
	g := n.graph
	g.mu.Lock()
	g.failures = append(g.failures, failure{n, err, panicked})
	g.mu.Unlock()
}

// release counts the node as ended. It returns one of the successors that this has released, for the caller to run, and queues
// the others; what the pool does not take it adds to kept.
func (n *Node) release(w *pool.Worker, ok bool, kept []*Node) (next *Node, _ []*Node) {
	g := n.graph
	if n.first == n.end {
		if g.left.Add(-1) == 0 {
			g.done <- struct{}{}
		}
		return nil, kept
	}
	for _, to := range g.next[n.first:n.end] {
		i := to / 2
		if !ok {
			g.nodes[i].spoiled.Store(true)
		}
		if to%2 != 0 && g.pending[i].Add(-1) > 0 {
			continue
		}
		switch released := g.nodes[i]; {
		case next == nil:
			next = released
		case w == nil || !released.queue(w):
			kept = append(kept, released)
		}
	}
	return next, kept
}
