package pool

import (
	"testing"

	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/verify/explore"
	"github.com/seed53057037/heist/verify/explore/atomic"
	"github.com/seed53057037/heist/verify/interleave/programs"
)

// Programs over when the monitor looks. A look has one thing begin of those that are queued. That is what these replace, in
// monitor.go.

// explored is the pool of the program.
var explored *monitored

type monitored struct {
	*Pool
	unbegun atomic.Int32
	looks   atomic.Int32 // that go on
	over    atomic.Bool
}

// looksSoon begins a look instead of the timer.
func looksSoon(m *monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.over {
		explore.Go("look", explored.lookAtWorkers)
	}
}

func looks() {
	m := explored
	explore.Assert(m.looks.Add(1) == 1, "two look at a time")
	explore.Assert(!m.over.Load(), "the monitor looks after its end")
	if m.unbegun.Load() > 0 {
		m.unbegun.Add(-1)
	}
	m.looks.Add(-1)
}

func hasUnbegun() bool { return explored.unbegun.Load() > 0 }

// What is queued while no place sleeps has a look that comes after it.
func TestTheMonitorLooksAfterAllThatComes(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		m := &monitored{Pool: newParty().pool}
		explored = m
		m.inBubble = true // there are no goroutines whose status could be read
		m.core.Init(core.Config{Host: (*host)(m.Pool), Seats: policy.NewSeats(nil, nil)})
		m.core.Monitored.Store(false)
		m.makeMonitor()
		var came atomic.Int32
		for range 2 {
			explore.Go("submitter", func() {
				m.unbegun.Add(1)
				m.core.MayWait()
				came.Add(1)
			})
		}
		explore.Block("wait until all has begun", func() bool { return came.Load() == 2 && m.unbegun.Load() == 0 })
		m.endMonitor()
		m.over.Store(true)
		explore.Wait()
	})
}
