// Package limit bounds what is in flight: the calls of a service, from admission until they return, whether they compute or wait; or
// open files, connections, memory. It is the weighted semaphore of x/sync with what a service under overload needs besides:
// a bound for those that wait, and the refusal of callers that would wait for too long. With one unit it is a lock, fair and with a context.
//
// No worker is held while a caller waits, whichever pool's task it is. What a call starts, its groups, futures and streams, belongs to
// the call: it is in flight as long as the call is, and takes no units of its own.
//
// [pool.WithCallers] bounds what computes instead. Use that to keep calls from slowing each other down, and a Limiter to keep a service from
// taking in more than it can do.
package limit

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed53057037/heist/internal/causes"
	"github.com/seed53057037/heist/pool"
)

// # How long a caller would wait
//
// While callers wait, every unit that is given back goes to them. So the time between two such units, the **pace**, tells how long a newcomer
// would wait: as many times the pace as units are to be given back before its turn and for it. The pace is the mean of the
// last ones, of which each counts seven eighths of the one after it (TCP's estimate of a round trip: Jacobson 1988). One that is much longer than the mean
// may be the only such one, so it counts as mostSample times the mean; if it is not, ten of them make the pace 500 times as long.
//
// A pace may be of yesterday. So the first caller to wait is not refused because of it, and while it waits a new one is measured, from
// the moment at which it came: how long it takes until a unit is given back is the pace as well. And a pace that is old by several times
// itself is forgotten.

const (
	// weightOfPace is what the last sample counts in the pace.
	weightOfPace = 1. / 8
	// oldPace is how many times itself a pace is old when it is forgotten: as often as samples take to make up most of it.
	oldPace = 1 / weightOfPace
	// mostSample is how many times the pace a sample counts at most.
	mostSample = 8
)

var (
	// ErrFull is returned to a caller that would have to wait where [Limiter.Waiting] leaves no room for it.
	ErrFull = errors.New("limit: as many callers wait as the limiter allows")
	// ErrLate is returned to a caller that would wait longer than its context's deadline or [Limiter.Patience] allows, at once; and to
	// one that has waited as long as Patience allows.
	ErrLate = errors.New("limit: the caller would wait for too long")
)

// Limiter bounds what is in flight. Create it with [New]. The settings Waiting and Patience come before the first call.
type Limiter struct {
	size     int
	bounded  bool // by waiting; constant, like waiting and patience
	waiting  int
	patience time.Duration // 0 for no bound

	mu     sync.Mutex
	used   int       // units
	queue  list.List // of *waiter, the first one next
	queued float64   // units that they wait for
	pace   float64   // nanoseconds from one unit that is given back to the next while callers wait; 0 if it is not known
	paced  time.Time // when the pace was last measured
	since  time.Time // when units were last given back, or the first of those that wait came, if that was later
	stats  Stats
}

type waiter struct {
	n    int
	turn chan struct{} // closed when it has its units
}

// Stats are what a limiter has done and what it does.
type Stats struct {
	Used     int    // units in flight
	Waiting  int    // callers that wait
	Admitted uint64 // callers, ever; with Full, Late and Ended all that have come
	Full     uint64 // callers that got ErrFull, or false from TryAcquire
	Late     uint64 // callers that got ErrLate
	Ended    uint64 // callers whose context ended before they were admitted
}

// New returns a limiter for so many units, at least 1. Any number of callers may wait, as long as their contexts let them.
func New(units int) *Limiter {
	if units < 1 {
		panic(fmt.Errorf("limit: New(%d): a limiter has at least one unit", units))
	}
	return &Limiter{size: units}
}

// Waiting bounds how many callers wait; 0 for none. It returns the limiter.
func (l *Limiter) Waiting(callers int) *Limiter {
	if callers < 0 {
		panic(fmt.Errorf("limit: Limiter.Waiting(%d): the bound must be at least 0; leave it out for none", callers))
	}
	l.bounded, l.waiting = true, callers
	return l
}

// Patience bounds how long a caller waits; it is above 0. It returns the limiter.
func (l *Limiter) Patience(d time.Duration) *Limiter {
	if d <= 0 {
		panic(fmt.Errorf("limit: Limiter.Patience(%v): the bound must be above 0; use Waiting(0) if nobody should wait", d))
	}
	l.patience = d
	return l
}

// Acquire takes n units, of which the caller gives back each by [Limiter.Release]. Callers get them in their order: none overtakes another
// that waits for more. Acquire returns [ErrFull] or [ErrLate] at once where the limiter's settings or the context's deadline say that it
// cannot wait, and the context's cause if that ends first, or has ended. How long it would wait is an estimate, from how fast units were given back while
// callers waited; until that has been measured nobody is refused. More units than the limiter has are an error.
//
// Cost: 35 ns with its Release if units are free. Any goroutine may call it; a task that waits lends its place.
func (l *Limiter) Acquire(ctx context.Context, n int) error {
	switch {
	case ctx == nil:
		return errors.New("limit: Limiter.Acquire was given a nil context; use context.Background() for one that does not end")
	case n < 1 || n > l.size:
		return l.wrong("Acquire", n)
	}
	l.mu.Lock()
	w, err := l.stand(ctx, n)
	l.mu.Unlock()
	if w == nil {
		return err
	}
	var patience <-chan time.Time
	if l.patience > 0 {
		t := time.NewTimer(l.patience)
		defer t.Stop()
		patience = t.C
	}
	pool.Serial().Block(func() {
		select {
		case <-w.Value.(*waiter).turn:
		case <-ctx.Done():
			err = causes.Of(ctx)
		case <-patience:
			err = ErrLate
		}
	})
	if err == nil {
		return nil
	}
	return l.leave(w, err)
}

func (l *Limiter) wrong(method string, n int) error {
	return fmt.Errorf("limit: Limiter.%s of %d units: this limiter has %d, and a caller takes at least 1", method, n, l.size)
}

// stand takes the units, or returns why the caller may not wait, or its place in the queue. The caller has mu.
func (l *Limiter) stand(ctx context.Context, n int) (*list.Element, error) {
	if err := causes.Of(ctx); err != nil {
		l.stats.Ended++
		return nil, err
	}
	if l.queue.Len() == 0 && n <= l.size-l.used {
		l.used += n
		l.stats.Admitted++
		return nil, nil
	}
	if l.bounded && l.queue.Len() >= l.waiting {
		l.stats.Full++
		return nil, ErrFull
	}
	if l.queue.Len() > 0 {
		wait := time.Duration(l.pace * (l.queued + float64(n-(l.size-l.used))))
		deadline, ok := ctx.Deadline()
		if ok && time.Until(deadline) < wait || l.patience > 0 && l.patience < wait {
			l.stats.Late++
			return nil, ErrLate
		}
	} else {
		l.since = time.Now()
		if float64(l.since.Sub(l.paced)) > oldPace*l.pace {
			l.pace = 0
		}
	}
	l.queued += float64(n)
	return l.queue.PushBack(&waiter{n: n, turn: make(chan struct{})}), nil
}

// leave ends a wait in vain. The caller may have got its units just now: then it gives them back.
func (l *Limiter) leave(e *list.Element, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := e.Value.(*waiter)
	select {
	case <-w.turn:
		l.used -= w.n
		l.stats.Admitted--
	default:
		l.queue.Remove(e)
		l.queued -= float64(w.n)
	}
	if err == ErrLate {
		l.stats.Late++
	} else {
		l.stats.Ended++
	}
	l.grant() // the units are for others, or the caller was the first and waited for more than the next one does
	return err
}

// TryAcquire takes n units, and says whether it did. It never waits, and overtakes nobody who does. It panics if n is below 1 or above what the limiter has.
func (l *Limiter) TryAcquire(n int) bool {
	if n < 1 || n > l.size {
		panic(l.wrong("TryAcquire", n))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue.Len() > 0 || n > l.size-l.used {
		l.stats.Full++
		return false
	}
	l.used += n
	l.stats.Admitted++
	return true
}

// Release gives back n units. It panics if that is more than are in flight. Any goroutine may call it.
func (l *Limiter) Release(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 1 || n > l.used {
		panic(fmt.Errorf("limit: Limiter.Release of %d units: %d are in flight; give back what was taken, once, and at least 1", n, l.used))
	}
	l.used -= n
	if l.queue.Len() > 0 {
		now := time.Now()
		sample := float64(now.Sub(l.since)) / float64(n)
		if l.pace == 0 {
			l.pace = sample
		}
		l.pace += (min(sample, mostSample*l.pace) - l.pace) * weightOfPace
		l.since, l.paced = now, now
	}
	l.grant()
}

// grant gives free units to those that wait. The caller has mu.
func (l *Limiter) grant() {
	for e := l.queue.Front(); e != nil; e = l.queue.Front() {
		w := e.Value.(*waiter)
		if w.n > l.size-l.used {
			return
		}
		l.queue.Remove(e)
		l.queued -= float64(w.n)
		l.used += w.n
		l.stats.Admitted++
		close(w.turn)
	}
}

// Do calls f with n units: [Limiter.Acquire] before it and [Limiter.Release] after it, however f ends. It returns f's error, or Acquire's if f was not called.
func (l *Limiter) Do(ctx context.Context, n int, f func() error) error {
	if f == nil {
		return errors.New("limit: Limiter.Do was given a nil function")
	}
	if err := l.Acquire(ctx, n); err != nil {
		return err
	}
	defer l.Release(n)
	return f()
}

// Stats returns the limiter's counters.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Used, s.Waiting = l.used, l.queue.Len()
	return s
}
