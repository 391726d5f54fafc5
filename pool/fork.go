package pool

import (
	"math/bits"
	"sync/atomic"

	"github.com/seed53057037/heist"
)

// # Forks
//
// A Join of f and g puts g where thieves can take it, runs f, and takes g back, or
// waits for the thief. Nearly always it takes it back, so that is what must be
// cheap: a fork allocates nothing.
//
// Each worker has a stack of frames for each type of fork. The array of frames is
// itself the deque: a fork writes the function and its argument into the next frame
// and raises bottom; a thief raises top and runs the frame where it lies. Since
// forks and joins are nested like calls, a frame's index is its depth, and the
// frame of a fork is not used again before its join is over. So a thief may read
// the frame after its CAS, which in a deque of loose items would be a bug.
//
// It is Chase and Lev's protocol (see the root package's deque.go) with one
// difference. There, top only grows, and the indices of an empty deque creep
// upwards; here an index must stay a depth. So top carries an epoch above its
// index, and the owner, whenever it takes a frame that top points to or puts top
// back after a theft, goes to the next epoch. A thief that looked at top before
// that fails in its CAS:
//
//	top = epoch<<20 | index      bottom = index
//
// An owner that takes its frame d back lowers bottom to d first and then reads top,
// with a full fence between them; a thief reads top first and then bottom.
//
//   - index(top) < d: no thief can take d any more. One that came to d would have
//     read top = d after the owner's read, so after bottom became d, so it finds
//     bottom <= d and leaves. Within an epoch the index never goes back, and between
//     epochs the CAS fails.
//   - index(top) = d: the owner moves to the next epoch by CAS, and the frame is its
//     own; or it loses to a thief.
//   - index(top) > d: the frame was stolen. So were all frames between d and the
//     index: frames left there by a panic that user code recovered. The owner puts
//     bottom where top is, helps others until the latches of those frames are done,
//     and then moves bottom and top back to d, in the next epoch.
//
// Forks that go deeper than maxDepth run in place. An epoch has 43 bits: a thief
// would have to sleep for hours between its two instructions, while the owner does
// nothing but lose its last frame, for the epoch to come round.

const (
	depthBits = 20
	maxDepth  = 1<<depthBits - 1
	oneEpoch  = 1 << depthBits

	// firstFrames is the length of a fork stack's first array. Programs that halve
	// a range fork to a depth of 20 to 40.
	firstFrames = 256
)

func indexOf(top int64) int64 { return top & maxDepth }

// frame is one fork. The owner writes f and arg before it publishes the frame; the
// thief writes the rest, and hands it back by completing the latch.
type frame[A, R any] struct {
	latch latch
	f     func(*Worker, A) R
	arg   A
	outcome[R]
}

// outcome is how the function of a stolen fork ended.
type outcome[R any] struct {
	result R
	panic  *PanicError
	exited bool // by runtime.Goexit
}

// frames is a worker's stack of forks of one type.
type frames[A, R any] struct {
	owner *Worker // constant

	// The owner's cache line. Thieves read bottom and deeper.

	bottom atomic.Int64 // owner writes
	high   int64        // owner only: no frame from here on was used since forget
	first  []frame[A, R]

	// deeper holds arrays of twice the length each, for the frames behind first.
	// Frames never move, for thieves work in them. Owner replaces, thieves read.
	deeper atomic.Pointer[[][]frame[A, R]]

	_ pad

	// The thieves' cache line.

	top atomic.Int64 // thieves and the owner, by CAS

	_ pad
}

// forkStack is a frames of any type, as thieves see it.
type forkStack interface {
	// visible says whether there is a frame to steal.
	visible() bool
	// claim takes the oldest frame for the caller, who must run it.
	claim() (index int64, r heist.StealResult)
	// run runs a claimed frame.
	run(thief *Worker, index int64)

	// The rest is for the owner.

	depth() int64
	// cut takes back the frames from depth d on, without running them, and waits
	// for those that were stolen. It may be called in a deferred call.
	cut(d int64)
	// forget clears the frames that were used, lest they keep garbage alive.
	forget()
}

// Join runs f(w, a) and g(w, b), possibly at the same time, and returns both results.
// The caller runs f at once; g is offered to the other workers, and the caller runs
// it as well if none of them took it. While another worker runs g, the caller helps
// with other forks, and with tasks when it would otherwise sleep. So do not hold a lock
// across a join.
//
// A panic in g continues in the caller; from a g that another worker ran, it arrives
// as a [*PanicError] with the value and that worker's stack. A panic in f leaves g
// behind: it is taken back, or waited for if it was stolen, when the panic reaches
// the [Pool.Run], the task, the group's function or the stolen fork that all this
// happens in, or at the next enclosing join with the same types of g's argument and
// result, if user code recovers the panic before that. (A deferred call here would do
// it at once, as it does in [Worker.Do], and cost 2 ns a fork, a quarter of the whole.)
// If f and g both panic, f's panic is the one that arrives. A runtime.Goexit in a
// stolen g continues in the caller too.
//
// Join may be called by whoever was given w. Cost: no allocation, two sequentially
// consistent stores and 5 to 10 ns if g is not stolen; arguments and results are
// copied, so large ones are better passed by pointer.
func Join[A, B, X, Y any](w *Worker, f func(*Worker, A) X, a A, g func(*Worker, B) Y, b B) (x X, y Y) {
	s, ok := w.hot.(*frames[B, Y])
	if !ok {
		s = framesOf[B, Y](w)
	}
	d := s.fork(g, b)
	x = f(w, a)
	if s.unfork(d) {
		return x, g(w, b)
	}
	return x, s.settle(d, g, b)
}

// Do runs the functions, possibly at the same time, and returns when all are done.
// It is [Join] for functions that return nothing, any number of them; the first one
// runs at once in the caller. A panic in one of them continues in the caller when
// none of them runs any more; those that have not started never will.
//
// Cost: that of the closures. A closure that captures a variable and is passed to
// Do is allocated, and so is a variable that it assigns to.
func (w *Worker) Do(fs ...func(*Worker)) {
	if len(fs) == 0 {
		return
	}
	for _, f := range fs {
		if f == nil {
			panic(errNilFunc("Worker.Do"))
		}
	}
	s, ok := w.hot.(*frames[func(*Worker), struct{}])
	if !ok {
		s = framesOf[func(*Worker), struct{}](w)
	}
	base := s.bottom.Load()
	defer s.cut(base) // nothing is left there, unless one of them panicked
	for i := len(fs) - 1; i > 0; i-- {
		s.fork(runClosure, fs[i])
	}
	forked := s.bottom.Load() // base + len(fs) - 1, unless the stack is at its limit
	fs[0](w)
	for i := 1; i < len(fs); i++ {
		d := base + int64(len(fs)-1-i)
		if d >= forked || s.unfork(d) {
			fs[i](w)
		} else {
			s.settle(d, runClosure, fs[i])
		}
	}
}

func runClosure(w *Worker, f func(*Worker)) struct{} {
	f(w)
	return struct{}{}
}

// fork offers f(arg) to thieves and returns the depth of its frame.
func (s *frames[A, R]) fork(f func(*Worker, A) R, arg A) int64 {
	d := s.bottom.Load()
	var fr *frame[A, R]
	if d < int64(len(s.first)) {
		fr = &s.first[d]
	} else if fr = s.deep(d); fr == nil {
		return d
	}
	fr.f, fr.arg = f, arg
	if s.high <= d {
		s.high = d + 1
	}
	s.bottom.Store(d + 1) // a full fence too: sleep.md, "Forks"
	if wantsForks(s.owner.pool.sleep.state.Load()) {
		s.owner.pool.wakeOne()
	}
	return d
}

// unfork takes the frame at depth d back and says whether that worked for certain,
// with no thief near. If not, settle finds out.
func (s *frames[A, R]) unfork(d int64) bool {
	s.bottom.Store(d)
	return indexOf(s.top.Load()) < d
}

// settle ends the fork at depth d when a thief took it, or may have.
//
//go:noinline
func (s *frames[A, R]) settle(d int64, f func(*Worker, A) R, arg A) R {
	if d >= s.depthLimit() {
		return f(s.owner, arg)
	}
	stolen := s.lower(d)
	if stolen == d {
		return f(s.owner, arg)
	}
	fr := s.reclaim(d, stolen, func(l *latch) { s.owner.await(l, false) })
	if fr.panic != nil {
		panic(fr.panic)
	}
	if fr.exited {
		goexit()
	}
	return fr.result
}

// lower takes back all frames from depth d on that were not stolen, and returns the
// depth that top had come to: the frames from d to there are with thieves.
func (s *frames[A, R]) lower(d int64) int64 {
	s.bottom.Store(d)
	for {
		t := s.top.Load()
		if indexOf(t) < d {
			return d
		}
		if s.top.CompareAndSwap(t, t+oneEpoch) {
			return indexOf(t)
		}
	}
}

// reclaim waits until thieves are done with the frames from d to end-1, makes d the
// next frame, and returns what came of it. What came of the others, which a panic
// left behind, nobody wants to know any more.
func (s *frames[A, R]) reclaim(d, end int64, await func(*latch)) (first outcome[R]) {
	s.bottom.Store(end) // what is forked while helping must not overwrite them
	for i := d; i < end; i++ {
		await(&s.at(i).latch)
	}
	// Helping can end in a runtime.Goexit that leads out of here, and then the
	// enclosing cut begins anew. So nothing is put away before all is done.
	for i := end - 1; i >= d; i-- {
		fr := s.at(i)
		fr.latch.state.Store(latchPending)
		first, fr.outcome = fr.outcome, outcome[R]{}
	}
	s.bottom.Store(d)
	t := s.top.Load()
	if indexOf(t) != end || !s.top.CompareAndSwap(t, (t+oneEpoch)&^maxDepth|d) {
		fatal("a fork stack was stolen from while it was empty")
	}
	return first
}

func (s *frames[A, R]) visible() bool {
	t := s.top.Load()
	return indexOf(t) < s.bottom.Load()
}

func (s *frames[A, R]) claim() (int64, heist.StealResult) {
	t := s.top.Load()
	if indexOf(t) >= s.bottom.Load() {
		return 0, heist.Empty
	}
	if !s.top.CompareAndSwap(t, t+1) {
		return 0, heist.Retry
	}
	return indexOf(t), heist.Success
}

func (s *frames[A, R]) run(thief *Worker, index int64) {
	fr := s.at(index)
	m := thief.mark()
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				fr.panic = newPanicError(v)
			} else {
				fr.exited = true
			}
		}
		thief.unwind(m)
		fr.latch.complete(s.owner)
	}()
	fr.result = fr.f(thief, fr.arg)
	returned = true
}

func (s *frames[A, R]) depth() int64 { return s.bottom.Load() }

func (s *frames[A, R]) cut(d int64) {
	if s.bottom.Load() <= d {
		return
	}
	if end := s.lower(d); end > d {
		s.reclaim(d, end, s.owner.awaitAside)
	}
}

func (s *frames[A, R]) forget() {
	var zero A
	for i := range s.high {
		fr := s.at(i)
		fr.f, fr.arg = nil, zero
	}
	s.high = 0
}

// at returns the frame at depth i, which must exist.
func (s *frames[A, R]) at(i int64) *frame[A, R] {
	if i < int64(len(s.first)) {
		return &s.first[i]
	}
	array, offset := place(i)
	return &(*s.deeper.Load())[array][offset]
}

// place says in which of the deeper arrays a frame lies: array k has
// firstFrames<<k frames and begins at depth firstFrames<<k.
func place(i int64) (array int, offset int64) {
	array = bits.Len64(uint64(i)/firstFrames) - 1
	return array, i - firstFrames<<array
}

func (s *frames[A, R]) depthLimit() int64 {
	if len(s.first) == 0 {
		return 0 // a serial guest's
	}
	return maxDepth
}

// deep is at for a frame that may not exist yet; nil if there can be none.
//
//go:noinline
func (s *frames[A, R]) deep(i int64) *frame[A, R] {
	if i >= s.depthLimit() {
		return nil
	}
	array, offset := place(i)
	var arrays [][]frame[A, R]
	if old := s.deeper.Load(); old != nil {
		arrays = *old
	}
	if array == len(arrays) {
		arrays = append(arrays[:array:array], make([]frame[A, R], firstFrames<<array))
		s.deeper.Store(&arrays)
	}
	return &arrays[array][offset]
}

// framesOf finds or makes the worker's fork stack of a type.
//
//go:noinline
func framesOf[A, R any](w *Worker) *frames[A, R] {
	stacks := w.forkStacks()
	for _, s := range stacks {
		if s, ok := s.(*frames[A, R]); ok {
			w.hot = s
			return s
		}
	}
	s := &frames[A, R]{owner: w}
	if !w.serial {
		s.first = make([]frame[A, R], firstFrames)
	}
	stacks = append(stacks[:len(stacks):len(stacks)], s)
	w.stacks.Store(&stacks)
	w.hot = s
	return s
}

func (w *Worker) forkStacks() []forkStack {
	if p := w.stacks.Load(); p != nil {
		return *p
	}
	return nil
}

// A worker that runs somebody else's function in the middle of its own marks the
// depths of its fork stacks first and goes back to them afterwards. So the forks that
// a panic left behind end with the function that they belong to.
//
// The marks are a stack themselves: for each mark the number of fork stacks that there
// were, and their depths.

// mark returns what unwind needs.
func (w *Worker) mark() int {
	m := len(w.marks)
	stacks := w.forkStacks()
	w.marks = append(w.marks, int64(len(stacks)))
	for _, s := range stacks {
		w.marks = append(w.marks, s.depth())
	}
	return m
}

// unwind takes back the forks that are left since the mark.
func (w *Worker) unwind(m int) {
	depths := w.marks[m+1:][:w.marks[m]]
	for i, s := range w.forkStacks() {
		if i < len(depths) {
			s.cut(depths[i])
		} else {
			s.cut(0)
		}
	}
	w.marks = w.marks[:m]
}

// unwindAll takes back all forks that are left.
func (w *Worker) unwindAll() {
	for _, s := range w.forkStacks() {
		s.cut(0)
	}
	w.marks = w.marks[:0]
}

// forget drops what the frames still refer to. All forks must be over.
func (w *Worker) forget() {
	for _, s := range w.forkStacks() {
		s.forget()
	}
}
