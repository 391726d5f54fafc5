package soak

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
)

// TestYieldInAnotherPoolGivesTurnsToAll: a worker that polls as a guest of another pool has a place in its
// own pool, too.
func TestYieldInAnotherPoolGivesTurnsToAll(t *testing.T) {
	p, q := newPool(t, pool.WithWorkers(1)), newPool(t, pool.WithWorkers(1))
	ended := make(chan struct{})
	mustEnd(t, func() {
		require.NoError(t, p.Go(func(w *pool.Worker) {
			defer close(ended)
			var flag atomic.Bool
			_ = w.Go(func(*pool.Worker) { flag.Store(true) })
			_ = q.Run(func(w *pool.Worker) {
				for !flag.Load() {
					w.Yield()
				}
			})
		}))
		<-ended
	})
}
