package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// reached counts how often a broadcast ran in each place.
type reached struct {
	mu sync.Mutex
	in map[*place]int
}

func (r *reached) here(w *Worker) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in == nil {
		r.in = make(map[*place]int)
	}
	r.in[w.place]++
	return nil
}

func (r *reached) requireEach(t *testing.T, p *Pool) {
	t.Helper()
	require.Len(t, r.in, p.Workers())
	for pl, n := range r.in {
		require.Equal(t, 1, n, "place %d", pl.index)
	}
}

func TestABroadcastReachesEachWorkerOnce(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		busy := func(*Worker) {}
		for i := range testutil.Stress(100) {
			for range i % 7 {
				require.NoError(t, p.Go(busy))
			}
			var asleep, fromTask reached
			require.NoError(t, p.Broadcast(context.Background(), asleep.here))
			asleep.requireEach(t, p)
			answer := make(chan error, 1)
			require.NoError(t, p.Go(func(w *Worker) { answer <- p.Broadcast(context.Background(), fromTask.here) }))
			require.NoError(t, <-answer)
			fromTask.requireEach(t, p)
		}
	})
}

func TestBroadcastsAtTheSameTime(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range testutil.Stress(100) {
				var r reached
				if err := p.Broadcast(context.Background(), r.here); err != nil || len(r.in) != 3 {
					t.Errorf("%v, %d places", err, len(r.in))
				}
				pause()
			}
		})
	}
	all.Wait()
	var inner atomic.Int32 // and one within another
	require.NoError(t, p.Broadcast(context.Background(), func(w *Worker) error {
		return p.Broadcast(context.Background(), func(*Worker) error { inner.Add(1); return nil })
	}))
	require.EqualValues(t, 9, inner.Load())
}

func TestABroadcastComesBetweenTwoTasks(t *testing.T) {
	p, release := stuck(t, WithWorkers(1))
	var ran atomic.Bool
	over := make(chan error, 1)
	go func() {
		over <- p.Broadcast(context.Background(), func(*Worker) error { ran.Store(true); return nil })
	}()
	pause()
	require.False(t, ran.Load())
	release()
	require.NoError(t, <-over)
	require.True(t, ran.Load())
}

func TestABroadcastThatItsContextEnds(t *testing.T) {
	p, release := stuck(t, WithWorkers(2))
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(time.Millisecond, func() { cancel(io.ErrUnexpectedEOF) })
	before := p.Stats().Skipped
	err := p.Broadcast(ctx, func(*Worker) error { t.Error("its context had ended"); return nil })
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.EqualValues(t, 2, p.Stats().Skipped-before, "one for each place, once")
	for _, pl := range p.victims() {
		require.Zero(t, pl.core.Mail.Load())
	}
	release()
}

func TestWhatFailsInABroadcast(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx := context.Background()
	require.ErrorIs(t, p.Broadcast(ctx, func(*Worker) error { return io.EOF }), io.EOF)
	require.ErrorIs(t, p.Broadcast(ctx, func(*Worker) error { runtime.Goexit(); return nil }), ErrGoexit)
	require.Panics(t, func() { _ = p.Broadcast(ctx, func(*Worker) error { panic("ouch") }) })
	var r reached
	require.NoError(t, p.Broadcast(ctx, r.here))
	r.requireEach(t, p)

	require.EqualError(t, p.Broadcast(ctx, nil), "pool: Pool.Broadcast was given a nil function")
	var none context.Context
	require.ErrorContains(t, p.Broadcast(none, r.here), "nil context")
	require.ErrorIs(t, (*Pool)(nil).Broadcast(ctx, r.here), errNoPool)
	require.ErrorIs(t, serial().Broadcast(ctx, r.here), errSerial)
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Broadcast(ctx, r.here), ErrClosed)
}

func TestABroadcastWaitsForResume(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(50) {
		require.NoError(t, p.Pause(context.Background()))
		var r reached
		over := make(chan error, 1)
		go func() { over <- p.Broadcast(context.Background(), r.here) }()
		pause()
		r.mu.Lock()
		require.Empty(t, r.in)
		r.mu.Unlock()
		p.Resume()
		require.NoError(t, <-over)
		r.requireEach(t, p)
	}
}

// Places close and open, the pool pauses and closes, while mail is on its way: every broadcast ends.
func TestBroadcastsEndWhateverBecomesOfThePlaces(t *testing.T) {
	ctx := context.Background()
	for i := range testutil.Stress(60) {
		p, err := New(WithWorkers(1+i%3), WithTuning(Tuning{MaxWorkers: 4, HotWorker: i%4 == 0}))
		require.NoError(t, err)
		var senders sync.WaitGroup
		for range 3 {
			senders.Go(func() {
				for {
					var ran atomic.Int32
					err := p.Broadcast(ctx, func(w *Worker) error { ran.Add(1); w.Block(runtime.Gosched); return nil })
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
					if n := ran.Load(); n > 4 {
						t.Errorf("it ran in %d of 4 places", n)
					}
				}
			})
		}
		for j := range 20 {
			_ = p.Go(func(w *Worker) { w.Block(runtime.Gosched) })
			require.NoError(t, p.Resize(1+(i+j)%4))
			if j%5 == 0 {
				require.NoError(t, p.Pause(ctx))
				require.NoError(t, p.Resize(1+j%3))
				pause()
				p.Resume()
			}
		}
		require.NoError(t, p.Close())
		senders.Wait()
	}
}

func TestAPlaceThatClosesIsLeftOut(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	require.NoError(t, p.Pause(context.Background()))
	var r reached
	over := make(chan error, 1)
	go func() { over <- p.Broadcast(context.Background(), r.here) }()
	require.True(t, testutil.Eventually(func() bool { return p.places[1].core.Mail.Load() > 0 }))
	require.NoError(t, p.Resize(1))
	p.Resume()
	require.NoError(t, <-over)
	require.Len(t, r.in, 1)
	require.NoError(t, p.Resize(2))
	require.NoError(t, p.Broadcast(context.Background(), r.here))
	require.Len(t, r.in, 2)
}

// TestABroadcastOfACoroutineEnds, though the task that waits for the coroutine keeps its place and opens no mail.
func TestABroadcastOfACoroutineEnds(t *testing.T) {
	for _, workers := range []int{1, 2, 16} {
		for name, broadcast := range map[string]func(p *Pool, f func(*Worker) error) error{
			"itself": func(p *Pool, f func(*Worker) error) error { return p.Broadcast(context.Background(), f) },
			"a task that it waits for": func(p *Pool, f func(*Worker) error) error {
				_, err := Async(p, func(*Worker) (int, error) { return 0, p.Broadcast(context.Background(), f) }).Wait(t.Context())
				return err
			},
		} {
			t.Run(fmt.Sprint(name, " ", workers), func(t *testing.T) {
				p := newPool(t, WithWorkers(workers))
				var ran atomic.Int64
				f := Async(p, func(*Worker) (int, error) {
					next, stop := iter.Pull(func(yield func(error) bool) {
						yield(broadcast(p, func(*Worker) error { ran.Add(1); return nil }))
					})
					defer stop()
					err, _ := next()
					return 0, err
				})
				require.True(t, testutil.Returns(func() {
					_, err := f.Wait(t.Context())
					require.NoError(t, err)
				}), "it hangs")
				require.EqualValues(t, workers, ran.Load(), "once for each place")
			})
		}
	}
}
