package soak

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

var turns = flag.Int("turns", 0, "how many times TestMemoryStaysBounded does each thing; 0 is 100,000, 10,000 with -short, a million for a claim")

// inUse returns how much of the heap is in use.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryStaysBounded has one task do the same thing again and again. The memory of a thing that is over must
// not stay until the task is over.
func TestMemoryStaysBounded(t *testing.T) {
	claim.That(t, "one long task needs no more memory the longer it takes",
		"scopes, joins, panics, futures and deep recursions in a task, and the heap at ten moments of each")
	const allowed = 20 << 20
	n := amount(*turns, 10_000, 100_000, 1_000_000)
	empty := func(*pool.Worker) {}
	number := func(*pool.Worker, int) int { return 0 }
	depth := pool.Recursive(func(f *pool.Fork[int, int], n int) int {
		if n == 0 {
			return 0
		}
		x, _ := f.Join(n-1, 0)
		return x + 1
	})
	things := []struct {
		name string
		n    int
		f    func(t *testing.T, p *pool.Pool, w *pool.Worker)
	}{
		{"scopes", n, func(t *testing.T, p *pool.Pool, w *pool.Worker) {
			w.Scope(func(s *pool.Scope) {
				for range 4 {
					s.Go(w, empty)
				}
			})
		}},
		{"joins with a megabyte", n / 200, func(t *testing.T, p *pool.Pool, w *pool.Worker) {
			last := func(_ *pool.Worker, b []byte) int { return len(b) }
			x, y := pool.Join(w, last, make([]byte, 1<<20), func(w *pool.Worker, b []byte) int {
				x, y := pool.Join(w, last, b[1:], last, make([]byte, 1<<20))
				return x + y
			}, make([]byte, 1<<20))
			if x+y != 3<<20-1 {
				t.Errorf("%d bytes", x+y)
			}
		}},
		{"panics", n, func(t *testing.T, p *pool.Pool, w *pool.Worker) {
			defer func() {
				if v := recover(); v != 7 {
					t.Errorf("recovered %v", v)
				}
			}()
			pool.Join(w, func(*pool.Worker, int) int { panic(7) }, 0, number, 0)
		}},
		{"panics in a megabyte", n / 100, func(t *testing.T, p *pool.Pool, w *pool.Worker) {
			defer func() { _ = recover() }()
			pool.Join(w, func(*pool.Worker, int) int { panic(7) }, 0, func(_ *pool.Worker, b []byte) int { return len(b) }, make([]byte, 1<<20))
		}},
		{"futures", n, func(t *testing.T, p *pool.Pool, w *pool.Worker) {
			v, err := pool.Async(p, func(*pool.Worker) (int, error) { return 7, nil }).Wait(context.Background())
			if v != 7 || err != nil {
				t.Errorf("%d, %v", v, err)
			}
		}},
		{"urgent futures", n, func(t *testing.T, p *pool.Pool, w *pool.Worker) {
			v, err := pool.Async(p, func(*pool.Worker) (int, error) { return 7, nil }, pool.PriorityHigh).Wait(context.Background())
			if v != 7 || err != nil {
				t.Errorf("%d, %v", v, err)
			}
		}},
		{"recursions", 10, func(t *testing.T, p *pool.Pool, w *pool.Worker) {
			if d := depth.Call(w, 5000); d != 5000 {
				t.Errorf("a depth of %d", d)
			}
		}},
	}
	for _, bound := range []int{0, 4} {
		var options []pool.Option
		if bound > 0 {
			options = append(options, pool.WithQueueBound(bound))
		}
		for _, thing := range things {
			n := thing.n
			if bound > 0 {
				n /= 10
			}
			t.Run(fmt.Sprint(thing.name, bound), func(t *testing.T) {
				p := newPool(t, append(options, pool.WithWorkers(1))...)
				ended := make(chan struct{})
				require.NoError(t, p.Go(func(w *pool.Worker) {
					defer close(ended)
					var first, most int64
					for i := range 11 {
						for range max(1, n/10) {
							thing.f(t, p, w)
						}
						if now := inUse(); i == 0 {
							first, most = now, now
						} else {
							most = max(most, now)
						}
					}
					t.Logf("%d bytes, %d at most", first, most)
					if most-first > allowed {
						t.Errorf("%d bytes at first, and then %d", first, most)
					}
					refused := make(chan error)
					go func() { refused <- p.TrySubmit(empty) }()
					if err := <-refused; err != nil { // without Block, so the place is not lent
						t.Errorf("TrySubmit while nothing is queued: %v", err)
					}
				}))
				<-ended
				begun := make(chan struct{})
				require.NoError(t, p.TrySubmit(func(*pool.Worker) { close(begun) }))
				mustEnd(t, func() { <-begun })
			})
		}
	}
	claim.Amount(t, "%s scopes, panics and futures each", claim.Count(n))
}
