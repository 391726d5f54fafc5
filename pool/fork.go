package pool

import (
	"math/bits"
	"sync/atomic"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/policy"
)

// # Forks
//
// A join of f and g puts g where thieves can take it, runs f, and takes g back, or
// waits for the thief. Nearly always it takes it back, so that is what must be cheap:
// a fork allocates nothing, and most forks and joins are plain loads and stores.
//
// Each worker has a stack of frames for each type of fork. The array of frames is
// itself the deque: a fork writes its argument into the next frame, and a thief runs
// the frame where it lies. Since forks and joins are nested like calls, a frame's index
// is its depth, and the frame of a fork is not used again before its join is over. So
// a thief may read the frame after it has claimed it, which in a deque of loose items
// would be a bug.
//
// A stack is divided, as in Dijk and van de Pol's Lace (2014):
//
//	0 ......... top ......... split ......... bottom
//	  stolen       public        private
//
// The private frames are the owner's: bottom is a variable like any other. The border
// of the public ones lies in one word, public = top<<32 | split, and everything that
// happens to it is one atomic operation on that word: a thief claims the oldest
// public frame by raising top, the owner publishes by raising split, and takes back by
// lowering it. A thief whose compare-and-swap succeeds finds its frame public, whatever
// happened before, since the word says all that there is to say. So there is nothing to
// prove about fences, and no epoch against old words that come again.
//
// # When frames are published
//
// The pool is hungry if a worker searches for work, or sleeps and would take a fork (sleep.md).
// A thief that finds nothing to steal on a stack raises an alarm there: it sets slow, below which
// forks and joins leave their fast path, to a depth that no fork has. So the owner's next fork or
// join publishes all of its frames, and lowers slow again if the pool is not hungry any more. (Lace
// has a flag for each victim too.) The worker that cancels a call raises the same alarm (cancelscope.go).
//
// An alarm is not lost: the thief that raises it first makes the pool hungry, or marks the call as
// cancelled, and the owner lowers slow first and then looks at both. All these are atomic. In whatever
// order the two meet, the owner sees the reason or its next fork leaves the fast path once more.
//
// What is private when the owner enters a long function stays so until the next fork
// or join. That must not keep the others idle, so
//   - the oldest frames, at least policy.AlwaysPublic, are published in any case, and those hold most of
//     the work: in a recursion by halves all but a sixteenth of what is pending,
//   - a worker that begins to wait publishes everything.
//
// # Joins
//
// The owner takes its newest frame d back. If d is private it is the owner's. If it is
// public, then either top <= d, and the owner lowers split to d; or top > d, and the
// frame is with a thief. So are all frames between d and top: left there by a panic
// that user code recovered. The owner waits until their latches are done (waiting.go), and then
// moves everything back to d. No thief can touch public meanwhile: it says that
// there is nothing to steal.

const (
	// blockLen is how many frames a fork stack's array grows by. Programs that halve
	// a range fork to a depth of 20 to 40.
	blockLen = 256
)

// stack is the part of a fork stack that is the same for all types. Its fields up to
// the padding are the owner's; thieves read only the constants.
type stack struct {
	owner *Worker       // constant
	sleep *policy.Sleep // constant, the pool's

	bottom int // number of forks that were not joined
	split  int // as in public
	used   int // no frame from here on was written since it was cleared

	// How many of the oldest forks are published in any case, and when the last of these looked at
	// the clock, in heist.Ticks. See breathe.
	levels     int
	breathedAt int64

	_ pad.Line

	// Forks and joins at a smaller depth take the slow path. It is never less than split, so
	// what the fast path takes back is private. The owner writes it, and who raises an alarm, who
	// has just read public: so the two share their lines, and the owner's others stay its own.
	slow atomic.Uintptr

	public atomic.Uint64 // top<<32 | split; owner and thieves, by atomic addition and CAS

	_ pad.Line
}

func borders(public uint64) (top, split int) { return int(public >> 32), int(uint32(public)) }

func bordersAt(top, split int) uint64 { return uint64(top)<<32 | uint64(split) }

// frame is one fork. The owner writes what, and the rest of the first four before it
// publishes the frame; the thief writes the outcome, and hands the frame back by
// completing the latch.
type frame[W, R any] struct {
	what        W
	body        func(*Worker, W) R // runs it
	cancelScope *cancelScope       // what it belongs to, see cancelscope.go
	latch       latch
	outcome[R]
}

// outcome is how the function of a stolen fork ended.
type outcome[R any] struct {
	result R
	ending ending
}

// frames is a worker's stack of forks of one type: W is what a fork has to do, an
// argument perhaps, or a function and its argument; R is its result.
type frames[W, R any] struct {
	stack
	body func(*Worker, W) R // owner only

	// block is the one in which the owner is, base the depth of its first frame, and fast what
	// of it the fast path may use: the frames from depth slow on, unless that is an alarm.
	// Owner only.
	block *[blockLen]frame[W, R]
	base  int
	fast  []frame[W, R]

	// blocks holds all of them. Frames never move, for thieves work in them. Owner
	// replaces, thieves read.
	blocks atomic.Pointer[[]*[blockLen]frame[W, R]]
}

// forkStack is a frames of any type.
type forkStack interface {
	// For thieves:

	// claim takes the oldest public frame for the caller, who must run it.
	claim() (index int, r heist.StealResult)
	// run runs a claimed frame.
	run(thief *Worker, index int)
	// visible says whether there is a frame to steal.
	visible() bool

	// For the owner:

	depth() int
	// publish lets thieves see all frames.
	publish()
	// cut takes back the frames from depth d on, without running them, and waits
	// for those that were stolen. It may be called in a deferred call.
	cut(d int)
	// trim clears the frames that are not in use, lest they keep garbage alive. If none is, it
	// also lets go of the memory of all but the first.
	trim()

	// For anybody:

	// alarm has the owner's next fork or join leave the fast path.
	alarm()
}

func (s *frames[W, R]) init(w *Worker) {
	s.owner, s.sleep = w, &w.pool.sleep
	s.levels = policy.AlwaysPublic
	s.moveTo(0)
	s.slow.Store(alarmed) // an alarm from before the stack was there counts as well
}

// A fork is a push before the one function, and a pop after it. Where speed matters,
// the common case of both stands in the join itself, for the compiler would not inline
// it from here:
//
//	d, fast := s.bottom, s.fast
//	if i := uint(d) - uint(s.slow.Load()); i < uint(len(fast)) {
//		fast[i].what = what
//		s.bottom = d + 1
//	} else {
//		s.push(what)
//	}
//	... the one function ...
//	s.bottom = d
//	if d < int(s.slow.Load()) {
//		return s.pop(d, what)
//	}
//	... the other function ...

// offer is the push of a fork whose join does not take the fast path itself.
func (s *frames[W, R]) offer(what W) {
	d, fast := s.bottom, s.fast
	if i := uint(d) - uint(s.slow.Load()); i < uint(len(fast)) {
		fast[i].what = what
		s.bottom = d + 1
	} else {
		s.push(what)
	}
}

// push offers what to thieves.
//
//go:noinline
func (s *frames[W, R]) push(what W) { s.pushTo(what, false) }

// pushTo is push, and has thieves see all frames at once if asked to.
func (s *frames[W, R]) pushTo(what W, public bool) {
	w := s.owner
	w.mustBeMine("a join")
	w.cancelScope.look(w)
	d := s.bottom
	if uint(d-s.base) >= blockLen {
		s.moveTo(d)
	}
	s.block[d-s.base].what = what
	s.bottom = d + 1
	s.used = max(s.used, d+1)
	eager := s.eager()
	switch {
	case s.sleep.Hungry():
		w.expose()
	case public || d < eager:
		s.publish()
	default:
		s.relax()
	}
	if d < eager {
		s.breathe(w, d)
		s.relax()
	}
}

// eager is the depth below which forks are published in any case.
func (s *stack) eager() int {
	top, _ := borders(s.public.Load())
	return top + s.levels
}

// alarmed is a slow that no depth reaches.
const alarmed = 1 << 30

func (s *stack) alarm() {
	if s.slow.Load() != alarmed {
		s.slow.Store(alarmed)
	}
}

// relax lets as many forks and joins take the fast path as may. A join that lowers split leaves that to
// the next fork. It looks for what an alarm was about after it has lowered slow. Who finds an alarm
// there already need not raise another: its reason is older than that look.
func (s *frames[W, R]) relax() {
	if s.reason() {
		s.alarm()
		return
	}
	low := max(s.eager(), s.split, s.base)
	if low <= s.bottom { // the next fork may be a fast one, which does not keep account
		s.used = max(s.used, s.base+blockLen)
	}
	s.fast = s.block[min(low-s.base, blockLen):]
	if s.slow.Load() == uintptr(low) {
		return
	}
	if s.slow.Store(uintptr(low)); s.reason() {
		s.slow.Store(alarmed)
	}
}

// reason says whether there is one for an alarm.
func (s *stack) reason() bool { return s.sleep.Hungry() || s.owner.cancelScope.stopped() }

// # Giving way
//
// A fork on the fast path does not look at the clock, so a recursion would hold its P until Go
// preempts it, after 10 ms. But the oldest forks are on the slow path, the levels of a tree next to
// its root. They give way, and as many levels are oldest as makes that happen about every
// giveWayPeriod: the lower a level, the more forks it has.

// mostLevels bounds the levels. A tree has twice as many forks on each.
const mostLevels = 24

// breathe is for one of the oldest forks. One at the root may be the first of a tree, which begins with
// as few levels as any other.
func (s *stack) breathe(w *Worker, d int) {
	now, period := heist.Ticks(), w.pool.ticksGiveWay
	since := now - s.breathedAt
	s.breathedAt = now
	switch {
	case d == 0:
		s.levels = policy.AlwaysPublic
	case since > period:
		s.levels = min(s.levels+bits.Len64(uint64(since/period)), mostLevels)
	case since < period/8 && s.levels > policy.AlwaysPublic:
		s.levels--
	}
	w.giveWayIfDue(now)
}

// pop ends the fork at depth d, the newest one, by doing what it has to do, or by
// waiting for the thief who does.
//
//go:noinline
func (s *frames[W, R]) pop(d int, what W) R {
	if s.newest(d) {
		return s.body(s.owner, what)
	}
	return s.settle(d)
}

// newest takes the fork at depth d back, if it was not stolen, and says whether it was
// not. If it was, settle is next.
func (s *frames[W, R]) newest(d int) bool {
	s.bottom = d
	return s.takeBack(d)
}

// takeBack says whether the fork at depth d was not stolen.
func (s *frames[W, R]) takeBack(d int) bool {
	if s.sleep.Hungry() {
		s.owner.expose()
	}
	if d >= s.split {
		return true
	}
	for {
		public := s.public.Load()
		top, _ := borders(public)
		if top > d {
			return false
		}
		// Frames below d stay public, though they need not: they may belong to another
		// call or recursion than the one that would publish them again.
		if s.public.CompareAndSwap(public, bordersAt(top, d)) {
			s.split = d
			return true
		}
	}
}

// settle waits for the thief of the fork at depth d and returns its result.
func (s *frames[W, R]) settle(d int) R {
	out := s.reclaim(d, s.withdraw(d))
	resume(out.ending)
	return out.result
}

// withdraw takes back all frames from depth d on that were not stolen, and returns
// the depth from which on they were not.
func (s *frames[W, R]) withdraw(d int) int {
	s.bottom = d
	for d < s.split {
		public := s.public.Load()
		top, _ := borders(public)
		top = max(top, d)
		if s.public.CompareAndSwap(public, public>>32<<32|uint64(top)) {
			s.split = top
			return top
		}
	}
	return d
}

// reclaim waits until thieves are done with the frames from d to end-1, makes d the
// next frame, and returns what came of it. What came of the others, which a panic
// left behind, nobody wants to know any more, but for panics while a call unwinds.
func (s *frames[W, R]) reclaim(d, end int) (first outcome[R]) {
	s.bottom = end // trim must not clear what thieves work in
	for i := end - 1; i >= d; i-- {
		fr := s.at(i)
		s.owner.await(&fr.latch)
		fr.latch.state.Store(latchPending)
		if first.ending != nil {
			s.at(i + 1).cancelScope.keep(first.ending)
		}
		first, fr.outcome = fr.outcome, outcome[R]{}
		fr.what = *new(W)
	}
	s.bottom, s.split = d, d
	if !s.public.CompareAndSwap(bordersAt(end, end), bordersAt(d, d)) {
		fatal("a fork stack was stolen from while it was empty")
	}
	return first
}

// publish shows all frames to thieves, and wakes one of them if need be.
func (s *frames[W, R]) publish() {
	n := s.bottom - s.split
	if n <= 0 {
		return
	}
	for i := s.split; i < s.bottom; i++ {
		fr := s.at(i)
		fr.body, fr.cancelScope = s.body, s.owner.cancelScope
	}
	s.split = s.bottom
	s.owner.publishes.Add(1)
	if s.slow.Load() <= uintptr(s.bottom) {
		s.relax() // which raises it
	}
	s.public.Add(uint64(n)) // a full fence too: sleep.md, "Forks"
	if s.sleep.Load().WantsForks() {
		s.owner.wakeHelper()
	}
}

func (s *stack) visible() bool {
	top, split := borders(s.public.Load())
	return top < split
}

func (s *stack) claim() (int, heist.StealResult) {
	public := s.public.Load()
	top, split := borders(public)
	if top >= split {
		return 0, heist.Empty
	}
	if !s.public.CompareAndSwap(public, public+1<<32) {
		return 0, heist.Retry
	}
	return top, heist.Success
}

func (s *frames[W, R]) run(thief *Worker, index int) {
	fr := s.at(index)
	out := thief.helps(s.owner, &fr.latch, fr.cancelScope)
	returned := false
	defer func() {
		if !returned {
			fr.ending = endingOf(recover())
		}
		thief.helped(out)
		fr.latch.complete(thief, s.owner)
	}()
	thief.cancelScope.look(thief)
	fr.result = fr.body(thief, fr.what)
	returned = true
}

// tidy is deferred by a join at depth d that takes the slow path: if one of its functions panicked,
// or called runtime.Goexit, the other one must not stay behind. The fast path leaves that to the
// next join below on the stack: there is one, for the first forks of a stack are on the slow path, or
// what lies below is an inner run, which takes back its own. Since each block is entered by
// the slow path too, a function that recovers panics in a loop leaves no more than a block of frames.
func (s *frames[W, R]) tidy(d int) {
	switch {
	case s.bottom > d:
		s.cut(d)
		if d > 0 && d == s.base {
			s.moveTo(d - 1) // so that the next fork enters the block again
		}
	case d == 0 && s.used <= exactlyUsed:
		s.trim()
	}
}

// exactlyUsed is for how many frames a stack knows that no more were used: so few are cleared at
// the end of the outermost join, 256 only between tasks and at waits.
const exactlyUsed = policy.AlwaysPublic

func (s *stack) depth() int { return s.bottom }

func (s *frames[W, R]) cut(d int) {
	if s.bottom <= d {
		return
	}
	if end := s.withdraw(d); end > d {
		call := s.at(d).cancelScope
		call.keep(s.reclaim(d, end).ending)
	}
}

func (s *frames[W, R]) trim() {
	blocks := *s.blocks.Load()
	for i := s.bottom; i < s.used; {
		block := blocks[i/blockLen][i%blockLen:]
		block = block[:min(s.used-i, len(block))]
		clear(block)
		i += len(block)
	}
	if s.bottom > 0 { // forks that take the fast path do not say so
		s.used = min(s.used, (s.bottom/blockLen+1)*blockLen)
		return
	}
	s.used = 0
	if len(blocks) > 1 {
		first := blocks[:1:1]
		s.blocks.Store(&first)
		s.moveTo(0)
	}
}

// at returns the frame at depth d, which must have been entered.
func (s *frames[W, R]) at(d int) *frame[W, R] {
	return &(*s.blocks.Load())[d/blockLen][d%blockLen]
}

// moveTo makes the block with the frame at depth d the current one.
func (s *frames[W, R]) moveTo(d int) {
	var blocks []*[blockLen]frame[W, R]
	if p := s.blocks.Load(); p != nil {
		blocks = *p
	}
	i := d / blockLen
	if i == len(blocks) { // forks are one deeper each
		blocks = append(blocks, new([blockLen]frame[W, R]))
		s.blocks.Store(&blocks) // thieves look at no more of an older slice than it has
	}
	s.base, s.block = i*blockLen, blocks[i]
	s.relax()
}

// expose publishes all frames of the worker. One that is about to wait, or to begin
// with something that belongs to another call, has no private ones.
func (w *Worker) expose() {
	for _, s := range w.forkStacks() {
		s.publish()
	}
}

// stackOf finds or makes the worker's fork stack of type S.
func stackOf[S any, P interface {
	*S
	forkStack
	init(*Worker)
}](w *Worker) P {
	stacks := w.forkStacks()
	for _, s := range stacks {
		if s, ok := s.(P); ok {
			return s
		}
	}
	s := P(new(S))
	s.init(w)
	more := append(stacks[:len(stacks):len(stacks)], s)
	w.stacks.Store(&more)
	return s
}

func (w *Worker) forkStacks() []forkStack {
	if p := w.stacks.Load(); p != nil {
		return *p
	}
	return nil
}

// A worker that runs another computation's function in the middle of its own marks the
// depths of its fork stacks first and goes back to them afterwards. So the forks that
// a panic left behind end with the function that they belong to.
//
// The marks are a stack themselves: for each mark the number of fork stacks that there
// were, and their depths.

// pushUnwindPoint returns what unwind needs.
func (w *Worker) pushUnwindPoint() int {
	m := len(w.unwindPoints)
	stacks := w.forkStacks()
	w.unwindPoints = append(w.unwindPoints, len(stacks))
	for _, s := range stacks {
		w.unwindPoints = append(w.unwindPoints, s.depth())
	}
	return m
}

// unwind takes back the forks that are left since the mark.
func (w *Worker) unwind(m int) {
	depths := w.unwindPoints[m+1:][:w.unwindPoints[m]]
	for i, s := range w.forkStacks() {
		if i < len(depths) {
			s.cut(depths[i])
		} else {
			s.cut(0)
		}
	}
	w.unwindPoints = w.unwindPoints[:m]
}

// inner is something that a worker does in the middle of something else, and that ends
// before it: what its forks must not outlive, and the call that it does not belong to.
type inner struct {
	mark        int
	cancelScope *cancelScope
}

// beginInner begins something in the middle of what the worker does.
func (w *Worker) beginInner() inner {
	w.expose() // what belongs to the outer call
	in := inner{w.pushUnwindPoint(), w.cancelScope}
	w.cancelScope = nil
	return in
}

// endInner ends it, also in a deferred call.
func (w *Worker) endInner(in inner) {
	w.unwind(in.mark)
	if w.cancelScope = in.cancelScope; w.cancelScope.stopped() { // the inner forks have answered its alarm
		w.alarm()
	}
}

// alarm has the worker's next fork or join leave the fast path.
func (w *Worker) alarm() {
	for _, s := range w.forkStacks() {
		s.alarm()
	}
}

// trim drops what frames refer to that are not in use, and a deque that has grown.
func (w *Worker) trim() {
	for _, s := range w.forkStacks() {
		s.trim()
	}
	if d := w.children.Load(); d != nil && w.branch.Load() == nil && d.Stats().Grows > keptGrows {
		w.children.Store(nil)
	}
}
