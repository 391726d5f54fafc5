// Package progress tells how far a computation is. What computes adds to a [Meter], which costs 4 ns, and a report comes now and then:
// from loops by the length of each range, from streams by each result, from groups by each function, whatever they belong to.
package progress

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed53057037/heist/internal/pad"
)

// shards is how many counters a meter has, so that goroutines on different CPUs seldom write the same cache line.
const shards = 1 << 4

// Meter counts what is done. Create it with [New].
type Meter struct {
	total int64
	start time.Time
	done  [shards]struct { // any goroutine adds, mostly to a line of its own
		_ pad.Line
		n atomic.Int64
	}
	_ pad.Line
}

// New returns a meter for so many items; 0 if nobody knows how many there are. The time begins now.
func New(total int) *Meter {
	if total < 0 {
		panic(fmt.Errorf("progress: New(%d): the total must be positive, or 0 if it is not known", total))
	}
	return &Meter{total: int64(total), start: time.Now()}
}

// Add adds n items that are done. Any goroutine may call it.
func (m *Meter) Add(n int) {
	var here byte // goroutines that run at the same time have stacks of their own, of 2 KiB or more
	stack := uint32(uintptr(unsafe.Pointer(&here)) >> 11)
	m.done[stack*0x9e3779b9>>28].n.Add(int64(n)) // Fibonacci hashing to four bits (Knuth)
}

// State is how far a computation is.
type State struct {
	Done, Total int64         // items; Total is 0 if it is not known
	Elapsed     time.Duration // since New
	Rate        float64       // items a second, since New
	Left        time.Duration // at that rate; 0 if it is not known
}

// longest is the greatest float64 that a Duration holds, 292 years.
const longest = math.MaxInt64 - 1<<10 + 1

// State returns how far the computation is. Cost: a few cache lines.
func (m *Meter) State() State {
	s := State{Total: m.total, Elapsed: time.Since(m.start)}
	for i := range m.done {
		s.Done += m.done[i].n.Load()
	}
	if s.Elapsed > 0 {
		s.Rate = float64(s.Done) / s.Elapsed.Seconds()
	}
	if left := s.Total - s.Done; left > 0 && s.Done > 0 {
		s.Left = time.Duration(min(float64(s.Elapsed)*float64(left)/float64(s.Done), longest))
	}
	return s
}

// String is one line: "250 of 1000 (25%), 125/s, 6s left".
func (s State) String() string {
	done := fmt.Sprint(s.Done)
	if s.Total > 0 {
		done += fmt.Sprintf(" of %d (%d%%)", s.Total, int(100*float64(s.Done)/float64(s.Total)))
	}
	line := fmt.Sprintf("%s, %.3g/s", done, s.Rate)
	if s.Left > 0 {
		unit := time.Second
		if s.Left < 10*time.Second {
			unit = time.Second / 10
		}
		line += fmt.Sprintf(", %v left", s.Left.Round(unit))
	}
	return line
}

// Every calls report each time d has passed, in a goroutine of its own, until stop is called; a report that takes longer than d lets the next ones
// fall out. Stop reports once more, in its caller, and returns when no report runs: so
// report must not call it. It may be called again, and does nothing then.
func (m *Meter) Every(d time.Duration, report func(State)) (stop func()) {
	switch {
	case d <= 0:
		panic(fmt.Errorf("progress: Meter.Every(%v): the time between reports must be above 0", d))
	case report == nil:
		panic(errors.New("progress: Meter.Every was given a nil function"))
	}
	enough, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				report(m.State())
			case <-enough:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(enough)
		<-over
		report(m.State())
	})
}
