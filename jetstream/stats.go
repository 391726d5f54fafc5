package jetstream

import (
	"sync/atomic"

	"github.com/seed53057037/heist/pool/inspect"
)

type counts struct {
	taken, redelivered, done, failed, givenBack, dead, extended atomic.Uint64
}

// Stats returns the worker's counters. Any goroutine may call it, at any time.
func (w *Worker) Stats() inspect.Jobs {
	c := &w.counts
	s := inspect.Jobs{
		Taken: c.taken.Load(), Redelivered: c.redelivered.Load(), Done: c.done.Load(), Failed: c.failed.Load(),
		GivenBack: c.givenBack.Load(), Dead: c.dead.Load(), Extended: c.extended.Load(),
	}
	w.mu.Lock()
	s.Held, s.Unstarted, s.Average = len(w.held), w.queued, w.average
	w.mu.Unlock()
	return s
}

// Name returns the names of the stream and the consumer, for metrics: STREAM/DURABLE.
func (w *Worker) Name() string { return w.config.Stream + "/" + w.config.Durable }
