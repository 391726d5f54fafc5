package core

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Placement is where the holder of a place runs, with the idle workers there.
type Placement struct {
	CPUs   []int // ascending; nil if they are not known; constant
	Bound  bool  // workers are bound to the CPUs; constant
	Node   int   // constant
	Width  int   // the distance between two places of it; constant
	Places int   // how many places of workers may be here; constant

	mu      sync.Mutex
	idle    []*Worker   // workers without a place, ready to take one; the newest last
	fewest  int         // how many they were, at least, since the last trim, or since there were too many
	trimmer *time.Timer // calls trim; reset under mu
	trims   bool        // the timer is set, or has fired
	bound   int         // how many workers are bound
	closed  bool        // the pool has ended
}

// Spares is how many idle workers a placement keeps beyond those that its places need. The spares are
// the next stand-ins. Each is a goroutine, or a thread if it is bound. Up to mostSurplus others that are not bound stay for a while: where many tasks
// wait, more will soon, and a new worker is 1.3 KB and a stack that has to grow. With stacks of 8 KB they take 40 MB at most. A timer ends those that were not needed in surplusTime. (With a timer for each
// of them they cost as much as new workers.)
const (
	Spares      = 8
	mostSurplus = 1 << 12
	surplusTime = 200 * time.Millisecond
)

// push puts w on the placement's list of idle workers, and says whether it did. If there are enough idle workers,
// or the pool has ended, it did not, and w must end.
func (s *Placement) push(w *Worker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	enough, most := s.Places+Spares, s.Places+Spares
	if !w.Parker.Locked() {
		most += mostSurplus
	}
	if s.closed || len(s.idle) >= most {
		return false
	}
	s.idle = append(s.idle, w)
	if n := len(s.idle); n > enough && !s.trims {
		s.trims, s.fewest = true, n
		s.trimmer.Reset(surplusTime)
	}
	return true
}

// trim is the timer's goroutine.
func (s *Placement) trim() {
	s.mu.Lock()
	enough := s.Places + Spares
	surplus := max(0, min(s.fewest, len(s.idle))-enough)
	ends := slices.Clone(s.idle[:surplus])
	s.idle = slices.Delete(s.idle, 0, surplus)
	s.fewest = len(s.idle)
	if s.trims = s.fewest > enough; s.trims {
		s.trimmer.Reset(surplusTime)
	}
	s.mu.Unlock()
	for _, w := range ends {
		w.Parker.Unpark() // without a place, so the worker ends
	}
}

// pop takes the worker that became idle last, whose stack is the most likely to be in the cache. It returns nil if
// there is none.
func (s *Placement) pop() *Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle) - 1
	if n < 0 {
		return nil
	}
	w := s.idle[n]
	s.idle[n] = nil
	s.idle = s.idle[:n]
	s.fewest = min(s.fewest, n)
	return w
}

// Idle returns how many workers are idle here.
func (s *Placement) Idle() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.idle)
}

// close ends all idle workers. Workers that would become idle later end as well.
func (s *Placement) close() {
	s.mu.Lock()
	idle := s.idle
	s.closed, s.idle = true, nil
	s.trimmer.Stop()
	s.mu.Unlock()
	for _, w := range idle {
		w.Parker.Unpark() // without a place, so the worker ends
	}
}

// MostBound limits how many workers of the process are bound to CPUs at a time; each has a thread of its own, and
// the Go runtime ends a process that has 10,000 threads (debug.SetMaxThreads). A placement binds as many workers as
// it keeps when they are idle. Workers beyond that, which it needs because as many others wait, are not bound.
const MostBound = 1 << 13

var boundWorkers atomic.Int32

// ErrTooManyBound says that no more workers can be bound.
var ErrTooManyBound = fmt.Errorf("the process has bound %d threads for pools already, and the Go runtime ends "+
	"a process with 10,000 threads; use fewer workers, or PinNone", MostBound)

// Begins is called for a worker of the placement that is about to begin. It says whether the worker is to be bound, and
// whether the pool has ended, in which case nothing waits for the worker's end.
func (s *Placement) Begins(p *Pool) (bound, afterEnd bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, true
	}
	p.ended.Add(1) // under the lock, before close: a caller that waits for the end waits for this worker, too
	if !s.Bound || s.bound >= s.Places+Spares {
		return false, false
	}
	if boundWorkers.Add(1) > MostBound {
		boundWorkers.Add(-1)
		return false, false
	}
	s.bound++
	return true, false
}

// Ends is called for a worker that has ended, with what Begins has returned.
func (s *Placement) Ends(p *Pool, bound, afterEnd bool) {
	if bound {
		s.mu.Lock()
		s.bound--
		s.mu.Unlock()
		boundWorkers.Add(-1)
	}
	if !afterEnd {
		p.ended.Done()
	}
}
