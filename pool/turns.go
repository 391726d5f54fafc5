package pool

// # Turns
//
// Two bounds of the pool count what computes: [WithCallers] guests, [Group.AtMost] functions of a group. What computes
// has a **turn**; the others wait for one, in their order.
//
//  1. Who ends gives its turn to the first that waits.
//  2. Who begins a wait that heist knows of does so too, for it may wait for that one.
//  3. Who comes back from a wait goes on at once. Until others have ended, there may be more turns than the bound.
//
// The law of turns: while any wait, all turns are taken, by what computes or has been queued in the pool. So a bound makes
// nothing wait for something that waits for it: a program hangs only if it would without the bound. A wait for a coroutine
// is the one that heist does not know of, so while coroutines wait, turns are given beside the bound (coroutine.go).
//
// [Group.SetLimit], [WithQueueBound] and [Granularity.AtMost] have other laws. The first two count what waits, too, since they
// bound memory, files and connections, and the third bounds how far a loop is divided.

// turns are the turns of a bound. The users' mutexes protect the fields.
type turns[T any] struct {
	most    int // 0 for no bound
	taken   int
	waiting []T // the first one is next
}

// take takes a turn, if one is free, and says whether it did. If not, the caller may add to waiting.
func (t *turns[T]) take() bool {
	if t.taken >= t.most {
		return false
	}
	t.taken++
	return true
}

// end ends a turn. If it goes to one that waits, end returns that one.
func (t *turns[T]) end() (next T, ok bool) {
	if t.taken--; t.taken >= t.most {
		return next, false
	}
	return t.next()
}

// next gives a turn to the first that waits, if any, whatever the bound.
func (t *turns[T]) next() (next T, ok bool) {
	if len(t.waiting) == 0 {
		return next, false
	}
	t.taken++
	var none T
	next, t.waiting[0] = t.waiting[0], none
	if t.waiting = t.waiting[1:]; len(t.waiting) == 0 {
		t.waiting = nil // it would keep its array
	}
	return next, true
}
