package core

// # Turns
//
// Two bounds of the pool count what computes: pool.WithCallers guests, Group.AtMost functions of a group. What computes
// has a **turn**; the others wait for one, in their order.
//
//  1. Who ends gives its turn to the first that waits.
//  2. Who begins a wait that heist knows of does so too, for it may wait for that one.
//  3. Who comes back from a wait goes on at once. Until others have ended, there may be more turns than the bound.
//
// The law of turns: while any wait, all turns are taken, by what computes or has been queued in the pool. So a bound makes
// nothing wait for something that waits for it: a program hangs only if it would without the bound. A wait for a coroutine
// is the one that heist does not know of, so while coroutines wait, turns are given beside the bound (pool/coroutine.go).
//
// Group.SetLimit, WithQueueBound and Granularity.AtMost have other laws. The first two count what waits, too, since they
// bound memory, files and connections, and the third bounds how far a loop is divided.

// Turns are the turns of a bound. The users' mutexes protect the fields.
type Turns[T any] struct {
	Most    int // 0 for no bound
	Taken   int
	Waiting []T // the first one is next
}

// Take takes a turn, if one is free, and says whether it did. If not, the caller may add to Waiting.
func (t *Turns[T]) Take() bool {
	if t.Taken >= t.Most {
		return false
	}
	t.Taken++
	return true
}

// End ends a turn. If it goes to one that waits, End returns that one.
func (t *Turns[T]) End() (next T, ok bool) {
	if t.Taken--; t.Taken >= t.Most {
		return next, false
	}
	return t.Next()
}

// Next gives a turn to the first that waits, if any, whatever the bound.
func (t *Turns[T]) Next() (next T, ok bool) {
	if len(t.Waiting) == 0 {
		return next, false
	}
	t.Taken++
	var none T
	next, t.Waiting[0] = t.Waiting[0], none
	if t.Waiting = t.Waiting[1:]; len(t.Waiting) == 0 {
		t.Waiting = nil // it would keep its array
	}
	return next, true
}
