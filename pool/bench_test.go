package pool

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
)

// BenchmarkFork measures the fork in fib(25), on one worker, which is also what most
// forks cost on many. The figure per fork is a 121,392nd of that per operation.
func BenchmarkFork(b *testing.B) {
	const n, forks = 25, 121_392
	recursive := Recursive(func(f *Fork[int, int], n int) int {
		if n < 2 {
			return n
		}
		x, y := f.Join(n-1, n-2)
		return x + y
	})
	var do func(w *Worker, n int) int
	do = func(w *Worker, n int) int {
		if n < 2 {
			return n
		}
		var x, y int
		w.Do(func(w *Worker) { x = do(w, n-1) }, func(w *Worker) { y = do(w, n-2) })
		return x + y
	}
	serial := plainFib
	for _, kind := range []struct {
		name string
		fib  func(w *Worker, n int) int
	}{
		{"serial", func(_ *Worker, n int) int { return serial(n) }},
		{"recursive", recursive.Call},
		{"Join", fib},
		{"Do", do},
	} {
		b.Run(kind.name, func(b *testing.B) {
			p := newPool(b, WithWorkers(1))
			_ = p.Run(func(w *Worker) {
				for b.Loop() {
					kind.fib(w, n)
				}
			})
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/forks, "ns/fork")
		})
	}
}

func plainFib(n int) int {
	if n < 2 {
		return n
	}
	return plainFib(n-1) + plainFib(n-2)
}

// BenchmarkWait measures the costs of waits that waiting.md names.
func BenchmarkWait(b *testing.B) {
	p, err := New(WithWorkers(1), WithPinning(PinNone))
	require.NoError(b, err)
	defer p.Close()
	nothing := func(*Worker) (int, error) { return 0, nil }
	b.Run("future that nobody has begun, and its Async", func(b *testing.B) {
		require.NoError(b, p.Run(func(*Worker) {
			for range b.N {
				_, _ = Async(p, nothing).Wait(context.Background())
			}
		}))
	})
	b.Run("future that nobody has begun", func(b *testing.B) {
		futures := make([]*Future[int], 100)
		var took time.Duration
		for waits := 0; waits < b.N; waits += len(futures) {
			done := make(chan struct{})
			require.NoError(b, p.Go(func(*Worker) { // the only worker, so that no other begins with them
				defer close(done)
				for i := range futures {
					futures[i] = Async(p, nothing)
				}
				start := time.Now()
				for _, f := range futures {
					_, _ = f.Wait(context.Background())
				}
				took += time.Since(start)
			}))
			<-done
		}
		b.ReportMetric(float64(took.Nanoseconds())/float64((b.N+len(futures)-1)/len(futures)*len(futures)), "ns/wait")
	})
	b.Run("Block with nothing to do meanwhile", func(b *testing.B) {
		done := make(chan struct{})
		require.NoError(b, p.Go(func(w *Worker) {
			defer close(done)
			for range b.N {
				w.Block(func() {})
			}
		}))
		<-done
	})
	b.Run("two tasks that give each other the place", func(b *testing.B) {
		ping, pong := make(chan struct{}, 1), make(chan struct{}, 1)
		done := make(chan struct{})
		task := func(mine, other chan struct{}) func(w *Worker) {
			return func(w *Worker) {
				for range b.N {
					w.Block(func() { <-mine })
					other <- struct{}{}
				}
				done <- struct{}{}
			}
		}
		require.NoError(b, p.Go(task(ping, pong)))
		require.NoError(b, p.Go(task(pong, ping)))
		ping <- struct{}{}
		<-done
		<-done
	})
}

// BenchmarkColdLook measures a look at a pool in which nothing is to be had, when the caches hold nothing of it, as
// after a task that used them itself.
func BenchmarkColdLook(b *testing.B) {
	other := make([]byte, 4<<20)
	for _, workers := range []int{2, 16} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			p := newPool(b, WithWorkers(workers), WithPinning(PinNone))
			var took []int64
			ended := make(chan struct{})
			require.NoError(b, p.Go(func(w *Worker) {
				defer close(ended)
				for p.Load().Parked < workers-1 {
					time.Sleep(time.Millisecond)
				}
				for range b.N {
					for i := 0; i < len(other); i += 64 {
						other[i]++
					}
					w.search.Begin()
					start := heist.Ticks()
					_, r := w.stealWork(true)
					took = append(took, heist.Ticks()-start)
					if r == heist.Success {
						b.Error("it found something")
					}
				}
			}))
			<-ended
			slices.Sort(took)
			b.ReportMetric(float64(p.duration(uint64(took[len(took)/2])).Nanoseconds()), "median-ns/look")
		})
	}
}
