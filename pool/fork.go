package pool

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/policy"
)

// # Forks
//
// A join of f and g puts g where thieves can take it, runs f, and then takes g back or
// waits for its thief. Nearly always it takes g back, so that path must be cheap:
// a fork allocates nothing, and most forks and joins are plain loads and stores.
//
// Each worker has a **fork stack** for each type of fork. The stack's array of **frames** is
// itself the deque: a fork writes its argument into the next frame, and a thief runs
// the frame in place. Forks and joins are nested like calls, so a frame's index
// is its depth, and a frame is not reused before its join is over. A thief may
// therefore read a frame after it has claimed it, which would be a bug in a deque of
// loose items.
//
// A stack has three parts, as in Dijk and van de Pol's Lace (2014):
//
//	0 ......... top ......... split ......... bottom
//	  stolen       public        private
//
// The **private** frames belong to the owner alone, so bottom is an ordinary variable. The
// borders of the **public** frames lie in one word, public = top<<32 | split, and each
// change is one atomic operation on that word: a thief claims the oldest public frame by
// raising top; the owner publishes frames by raising split, and takes frames back by
// lowering it. The word is the whole state of the public part. So a frame that a thief
// claims by a compare-and-swap is public, whatever happened before. There is nothing to
// prove about fences, and no need of an epoch against an old value that returns.
//
// # When frames are published
//
// The pool is hungry if a worker searches for work, or sleeps and would take a fork (sleep.md).
//
// A patient guest (worth.go) takes no notice of sleepers for a while.
//
//  1. A thief that finds nothing to steal on a stack raises an **alarm** there: it sets slow, the depth
//     below which forks and joins leave their fast path, to a depth that no fork has. (Lace has a flag
//     for each victim too.)
//  2. The owner's next fork or join publishes all of the owner's frames.
//  3. The owner lowers slow again if the pool is no longer hungry.
//
// The worker that cancels a call raises the same alarm (cancelscope.go).
//
// No alarm is lost. Before it raises the alarm, a thief makes the pool hungry, and the worker that
// cancels a call marks the call as cancelled. The owner lowers slow first, and then looks at both. All
// these operations are atomic. So in any order of them, either the owner sees the reason for the alarm,
// or its next fork leaves the fast path once more.
//
// Frames that are private when the owner enters a long function stay private until its next
// fork or join. Two rules keep this from leaving other workers idle:
//   - The oldest frames, at least policy.AlwaysPublic, are published in any case. They hold most of
//     the work: in a recursion by halves all but a sixteenth of what is pending.
//   - A worker that begins to wait publishes all its frames.
//
// # Joins
//
// The owner takes back its newest frame, at depth d. If the frame is private, the owner has it
// already. If it is public and top <= d, the owner lowers split to d. If top > d, a thief has the
// frame, and thieves have all frames between d and top too, which a panic that user code
// recovered left behind. The owner then waits until the latches of all these frames are done
// (waiting.go), and moves top, split and bottom back to d. No thief changes public meanwhile,
// because it says that there is nothing to steal.
//
// What each operation leaves behind, with d the depth that it is given:
//
//	operation    bottom      public frames               frames
//	push         d+1         as before, or all (alarm)   one more; d is bottom
//	takeBack     d           none from d on              d is the owner's again
//	  if stolen  top         as before                   as before
//	pop          d           none from d on              d run, by the owner or by its thief
//	reclaim      d           none from d on              those from d on taken back, or run by their thieves
//	cut          d           none from d on              the same; the call keeps a panic of a thief
//	tidy         d           none from d on              the same, and after the outermost join those of trim
//	trim         as before   as before                   unused ones have no references; without forks, one block
//	unwind       its mark    none from there on          cut, on all stacks of a worker

const (
	// blockLen is how many frames a fork stack's array grows by. Programs that halve
	// a range fork to a depth of 20 to 40.
	blockLen = 256
)

// stack is the part of a fork stack that is the same for all types. Its fields up to
// the padding are the owner's; thieves read only the constants.
type stack struct {
	_ pad.Line

	bottom int // number of forks that are not joined yet
	split  int // the same as in public
	used   int // frames from this depth on were not written since they were cleared

	// levels is how many of the oldest forks are published in any case; checkedAt is when one of
	// these last looked at the clock, in heist.Ticks. See checkClock.
	levels       int
	checkedAt    int64
	checkedDepth int // the fork that did

	_ pad.Line

	// Forks and joins at a smaller depth take the slow path. slow is never less than split, so
	// a frame that the fast path takes back is private. The owner writes it, and so does an alarm. The owner
	// reads it at each fork and join, so it is not on the line that thieves write at each claim, which takes 0.92 of the time so.
	slow atomic.Uintptr

	_ pad.Line

	public atomic.Uint64 // top<<32 | split; owner and thieves, by atomic addition and CAS

	_ pad.Line

	// A thief reads these and blocks for each frame, so they are not on a line that the owner writes at each fork.
	owner *Worker       // constant
	sleep *policy.Sleep // constant, the pool's
}

func borders(public uint64) (top, split int) { return int(public >> 32), int(uint32(public)) }

func bordersAt(top, split int) uint64 { return uint64(top)<<32 | uint64(split) }

// frame is one fork. The owner writes what at the fork, and body, cancelScope and latch before
// it publishes the frame. The thief writes the outcome, and hands the frame back by
// completing the latch.
type frame[W, R any] struct {
	what        W
	body        func(*Worker, W) R // runs it
	cancelScope *cancelScope       // the call that the fork belongs to, see cancelscope.go
	latch       latch
	outcome[R]
}

// outcome is how the function of a stolen fork ended.
type outcome[R any] struct {
	result R
	ending ending
}

// frames is a worker's fork stack for one type of fork. W is what a fork has to do, such as
// an argument, or a function and its argument; R is its result.
type frames[W, R any] struct {
	stack

	// blocks holds all blocks. Frames never move, because thieves work in them. Owner
	// replaces the slice, thieves read it.
	blocks atomic.Pointer[[]*[blockLen]frame[W, R]]

	_ pad.Line

	// Owner only.

	body func(*Worker, W) R

	// block is the block that the owner is in, and base the depth of its first frame. fast is the
	// part of it that the fast path may use: the frames from depth slow on, unless slow is an alarm.
	block *[blockLen]frame[W, R]
	base  int
	fast  []frame[W, R]

	_ pad.Line
}

// forkStack is a frames of any type. The methods that it adds are for the owner.
type forkStack interface {
	stealable

	depth() int
	// publish lets thieves see all frames.
	publish()
	// cut takes back the frames from depth d on, without running them, and waits
	// for those that were stolen. It may be called in a deferred call.
	cut(d int) (left ending)
	// trim clears the frames that are not in use, lest they keep garbage alive. If no frame is in
	// use, it also drops all blocks but the first.
	trim()
}

func (s *frames[W, R]) init(w *Worker) {
	s.owner, s.sleep = w, &w.pool.core.Sleep
	s.levels = policy.AlwaysPublic
	s.moveTo(0)
	s.slow.Store(alarmed) // an alarm that was raised before the stack existed counts too
}

// A fork is a push before the one function, and a pop after it. Where speed matters,
// the join itself contains the common case of both, because the compiler would not inline
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

// offer is the push for joins that do not contain the fast path themselves.
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

// pushTo is push, and publishes all frames at once if public is set.
func (s *frames[W, R]) pushTo(what W, public bool) {
	w := s.owner
	w.mustBeMine("a join")
	w.cancelScope.watch()
	w.cancelScope.look(w)
	d := s.bottom
	if uint(d-s.base) >= blockLen {
		s.moveTo(d)
	}
	w.answerNotice() // after the allocation, which may wait
	s.block[d-s.base].what = what
	s.bottom = d + 1
	s.used = max(s.used, d+1)
	eager := s.eager()
	switch state := s.sleep.Load(); {
	case state.Hungry() && !w.bePatient(state, d == 0):
		w.expose()
	case public || d < eager:
		s.publish()
	default:
		s.relax()
	}
	if d < eager {
		s.checkClock(w, d)
		s.relax()
	}
}

// eager is the depth below which forks are published in any case.
func (s *stack) eager() int {
	top, _ := borders(s.public.Load())
	return top + s.levels
}

// alarmed is a value of slow that no depth reaches.
const alarmed = 1 << 30

// alarm makes the owner's next fork or join leave the fast path.
func (s *stack) alarm() {
	if s.slow.Load() != alarmed {
		s.slow.Store(alarmed)
	}
}

// relax sets slow so that as many forks and joins as possible take the fast path. (A join that lowers split
// leaves that to the next fork.) It looks for the reason for an alarm after it has lowered slow. So a caller
// of alarm that finds one raised already need not raise another: its own reason is older than that look.
func (s *frames[W, R]) relax() {
	if s.reason() {
		s.alarm()
		return
	}
	low := max(s.eager(), s.split, s.base)
	if low <= s.bottom { // the next fork may take the fast path, which does not update used
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

// reason says whether there is a reason for an alarm.
func (s *stack) reason() bool {
	return (s.sleep.Load() - s.owner.calm).Hungry() || s.owner.cancelScope.stopped() || s.owner.core.Seen()
}

// # Giving way
//
// A fork on the fast path does not look at the clock, so a recursion would hold its P until Go
// preempts it, after 10 ms. But the oldest forks, the levels of a tree next to its root, are on the
// slow path, and they give way. The number of these levels is adjusted so that this happens about
// every giveWayPeriod: the deeper a level, the more forks it has. A patient worker begins with all levels, and leaves out the deepest one
// as often as it has looked too soon.

// mostLevels bounds the levels. Each level of a tree has twice as many forks as the one above it.
const mostLevels = 24

// checkClock is called for each of the oldest forks. One at depth 0 may begin a new tree, which starts
// with the fewest levels.
func (s *stack) checkClock(w *Worker, d int) {
	now, period := heist.Ticks(), w.pool.ticks.giveWay
	since, from := now-s.checkedAt, s.checkedDepth
	s.checkedAt, s.checkedDepth = now, d
	switch {
	case w.calm != 0:
		if d == 0 {
			s.levels = alarmed
		} else if d <= from && since < w.wakeUp/2 {
			s.levels = min(s.levels, d)
		}
	case d == 0 || s.levels > mostLevels:
		s.levels = policy.AlwaysPublic
	case since > period:
		s.levels = min(s.levels+bits.Len64(uint64(since/period)), mostLevels)
	case since < period/8 && s.levels > policy.AlwaysPublic:
		s.levels--
	}
	w.giveWayIfDue(now)
}

// pop ends the fork at depth d, the newest one: it runs the fork, or waits for the thief
// that runs it.
//
//go:noinline
func (s *frames[W, R]) pop(d int, what W) R {
	if s.takeBack(d) {
		return s.body(s.owner, what)
	}
	return s.joinStolen(d)
}

// takeBack takes back the fork at depth d, the newest one, unless it was stolen, and says whether it did. If it
// did not, the caller calls joinStolen next, or leaves it.
func (s *frames[W, R]) takeBack(d int) bool {
	s.bottom = d
	state := s.sleep.Load()
	hungry := state.Hungry() && !s.owner.bePatient(state, false)
	for d < s.split {
		public := s.public.Load()
		top, _ := borders(public)
		if top > d {
			s.bottom = top
			return false
		}
		// Frames below d stay public, though they need not: they may belong to another
		// call or recursion than the one that would publish them again.
		if s.public.CompareAndSwap(public, bordersAt(top, d)) {
			s.split = d
		}
	}
	if hungry {
		s.owner.expose()
	}
	return true
}

// joinStolen waits for the thief of the fork at depth d and returns the fork's result.
func (s *frames[W, R]) joinStolen(d int) R {
	out, _ := s.reclaim(d)
	resume(out.ending)
	return out.result
}

// reclaim takes back the frames from depth d on that were not stolen, waits until thieves are done with
// the others, and makes d the next frame. It returns the outcome of d if that was stolen. A panic left
// those behind d: their outcomes are dropped, but for the gravest of all endings, and for what a call that unwinds keeps.
func (s *frames[W, R]) reclaim(d int) (first outcome[R], gravest ending) {
	s.bottom = d
	end := d // thieves have the frames from d to end-1
	for s.split > end {
		public := s.public.Load()
		top, _ := borders(public)
		top = max(top, d)
		if s.public.CompareAndSwap(public, public>>32<<32|uint64(top)) {
			s.split, end = top, top
		}
	}
	if end == d {
		return first, gravest
	}
	s.bottom = end // trim must not clear what thieves work in
	for i := end - 1; i >= d; i-- {
		fr := s.at(i)
		s.owner.await(&fr.latch)
		fr.latch.state.Store(latchPending)
		if first.ending != nil {
			s.at(i + 1).cancelScope.keep(first.ending)
		}
		first, fr.outcome = fr.outcome, outcome[R]{}
		gravest = graver(first.ending, gravest)
		fr.what = *new(W)
	}
	s.bottom, s.split = d, d
	if !s.public.CompareAndSwap(bordersAt(end, end), bordersAt(d, d)) {
		fatal("a fork stack was stolen from while it was empty")
	}
	return first, gravest
}

// publish makes all frames public, and wakes a thief if need be.
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
	switch state := s.sleep.Load(); {
	case s.owner.calm != 0 && state.Searching() == 0:
		s.owner.pool.guarded()
	case state.WantsForks():
		s.owner.wakeHelper()
	case state.Searching() == 0: // nobody sleeps
		s.owner.pool.core.MayWait()
	}
}

func (s *stack) visible() bool {
	top, split := borders(s.public.Load())
	return top < split
}

// claim takes the oldest public frame.
func (s *stack) claim(int) (c claimed, r heist.StealResult) {
	public := s.public.Load()
	top, split := borders(public)
	if top >= split {
		return c, heist.Empty
	}
	if !s.public.CompareAndSwap(public, public+1<<32) {
		return c, heist.Retry
	}
	return claimed{index: top}, heist.Success
}

func (s *frames[W, R]) run(thief *Worker, c claimed) {
	fr := s.at(c.index)
	if s.visible() {
		pad.Fetch(unsafe.Pointer(s.at(c.index + 1))) // nearly always the thief's next one; the blocks stay until this one's join
	}
	var out help
	thief.helps(&out, s.owner, &fr.latch, fr.cancelScope)
	returned := false
	defer func() {
		if !returned {
			fr.ending = endingOf(recover())
		}
		thief.helped(&out)
		fr.latch.complete(thief, s.owner)
	}()
	thief.cancelScope.look(thief)
	fr.result = fr.body(thief, fr.what)
	returned = true
}

// tidy is deferred by a join at depth d that takes the slow path: if one of its functions panicked,
// or called runtime.Goexit, the frame of the other one must not stay behind. A join on the fast path
// leaves its frame to the next join below it on the stack. There always is one, because the first forks
// of a stack take the slow path; or else an inner run lies below, which takes back its own frames. Each
// block is entered by the slow path too, so a function that recovers panics in a loop leaves at most a
// block of frames.
func (s *frames[W, R]) tidy(d int) {
	switch {
	case s.bottom > d:
		s.end(d)
	case d == 0 && s.used <= exactlyUsed:
		s.trim()
	}
}

// exactlyUsed is the largest value of used that is exact. That few frames are cleared at the end of the
// outermost join; a block of 256 is cleared only between tasks and at waits.
const exactlyUsed = policy.AlwaysPublic

// end is called, in a deferred call, by code that forks from depth d on.
//
//go:noinline
func (s *frames[W, R]) end(d int) {
	if s.bottom <= d {
		return
	}
	left := s.cut(d)
	if d > 0 && d == s.base {
		s.moveTo(d - 1) // so that the next fork enters the block again
	}
	if e, ok := left.(*PanicError); ok {
		outdo(e)
	}
}

func (s *stack) depth() int { return s.bottom }

// cut returns the gravest ending of the frames that thieves had.
func (s *frames[W, R]) cut(d int) (left ending) {
	if s.bottom <= d {
		return nil
	}
	first, left := s.reclaim(d)
	if first.ending != nil {
		s.at(d).cancelScope.keep(first.ending)
	}
	return left
}

func (s *frames[W, R]) trim() {
	blocks := *s.blocks.Load()
	for i := s.bottom; i < s.used; {
		block := blocks[i/blockLen][i%blockLen:]
		block = block[:min(s.used-i, len(block))]
		clear(block)
		i += len(block)
	}
	if s.bottom > 0 { // forks on the fast path do not update used
		s.used = min(s.used, (s.bottom/blockLen+1)*blockLen)
		return
	}
	s.used = 0
	if len(blocks) > 1 {
		first := []*[blockLen]frame[W, R]{blocks[0]} // a slice of blocks would keep all of them
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
	if i == len(blocks) { // each fork is one deeper than the last
		blocks = append(blocks, (*[blockLen]frame[W, R])(pad.Slice[frame[W, R]](blockLen)))
		s.blocks.Store(&blocks) // a thief with an older slice needs no block beyond it
	}
	s.base, s.block = i*blockLen, blocks[i]
	s.relax()
}

// expose publishes all frames of the worker. A worker that is about to wait, or to begin
// something that belongs to another call, must have no private frames.
//
//go:noinline
func (w *Worker) expose() {
	wasCalm := w.calm != 0
	w.calm = 0
	w.publish()
	if wasCalm && w.pool.core.Sleep.Load().WantsForks() && w.anyFork(true) { // thieves do not know of those that it has published
		w.wakeHelper()
	}
}

// publish is expose for a worker that goes on with its call.
func (w *Worker) publish() {
	for _, s := range w.stacks {
		s.publish()
	}
}

// stackOf finds or makes the worker's fork stack of type S.
func stackOf[S any, P interface {
	*S
	forkStack
	init(*Worker)
}](w *Worker) P {
	for _, s := range w.stacks {
		if s, ok := s.(P); ok {
			return s
		}
	}
	s := P(new(S))
	s.init(w)
	w.addStack(s)
	return s
}

func (w *Worker) addStack(s forkStack) {
	w.stacks = append(w.stacks, s)
	w.offer(append(slices.Clip(w.offers(true)), s))
}

// Before a worker runs another computation's function in the middle of its own, it pushes an
// **unwind point**, the depths of its fork stacks, and afterwards it unwinds to that point. So
// the forks that a panic left behind end with the function that they belong to.
//
// Unwind points are a stack too. Each is the number of fork stacks at the time, followed by
// their depths.

// forks says whether the worker has forks that are not joined.
func (w *Worker) forks() bool {
	return slices.ContainsFunc(w.stacks, func(s forkStack) bool { return s.depth() > 0 })
}

// pushUnwindPoint returns the mark that unwind needs.
func (w *Worker) pushUnwindPoint() int {
	m := len(w.unwindPoints)
	w.unwindPoints = append(w.unwindPoints, len(w.stacks))
	for _, s := range w.stacks {
		w.unwindPoints = append(w.unwindPoints, s.depth())
	}
	return m
}

// unwind takes back the forks that are left since the mark, and removes the mark. It returns the gravest of their endings.
func (w *Worker) unwind(m int) (left ending) {
	depths := w.unwindPoints[m+1:][:w.unwindPoints[m]]
	for i, s := range w.stacks {
		if i < len(depths) {
			left = graver(left, s.cut(depths[i]))
		} else {
			left = graver(left, s.cut(0))
		}
	}
	w.unwindPoints = w.unwindPoints[:m]
	return left
}

// inner is work that a worker does in the middle of other work, and that ends before it.
// It holds the mark that its forks must not outlive, and the outer call, to which it does
// not belong, with the call around that one.
type inner struct {
	mark        int
	cancelScope *cancelScope
	around      *cancelScope
}

// beginInner begins inner work.
func (w *Worker) beginInner() inner {
	w.expose() // the frames of the outer call
	in := inner{w.pushUnwindPoint(), w.cancelScope, w.around}
	w.cancelScope, w.around = nil, w.cancelScope
	return in
}

// endInner ends inner work, and returns what unwind does. It may be called in a deferred call.
func (w *Worker) endInner(in inner) (left ending) {
	left = w.unwind(in.mark)
	w.around = in.around
	if w.cancelScope = in.cancelScope; w.cancelScope.stopped() { // inner forks have answered the outer call's alarm
		w.alarm()
	}
	return left
}

// alarm makes the worker's next fork or join leave the fast path.
func (w *Worker) alarm() {
	for _, s := range w.offers(true) {
		s.alarm()
	}
}

// trim clears the frames that are not in use, and drops a deque that has grown.
func (w *Worker) trim() {
	for _, s := range w.stacks {
		s.trim()
	}
	w.children.trim()
}
