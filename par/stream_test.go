package par

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

// streams has both forms by name.
func streams[T, R any]() map[string]func(pool.Place, iter.Seq[T], int, func(context.Context, T) (R, error)) iter.Seq2[R, error] {
	return map[string]func(pool.Place, iter.Seq[T], int, func(context.Context, T) (R, error)) iter.Seq2[R, error]{
		"Stream": Stream[T, R], "AsCompleted": AsCompleted[T, R],
	}
}

func TestStreamsYieldEachResultOnce(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for name, stream := range streams[int, int]() {
			for _, n := range []int{0, 1, 2, 100, 5000} {
				for _, window := range []int{1, 3, 64, 1000} {
					for _, at := range []pool.Place{p, p.With(t.Context())} {
						var got []int
						for r, err := range stream(at, slices.Values(count(n)), window, func(_ context.Context, i int) (int, error) {
							if i%100 == 0 {
								work(rand.IntN(1000))
							}
							return 3 * i, nil
						}) {
							require.NoError(t, err)
							got = append(got, r)
						}
						if name == "AsCompleted" {
							slices.Sort(got)
						}
						require.Len(t, got, n)
						for i, r := range got {
							if r != 3*i {
								require.Equal(t, 3*i, r, "%s of %d, window %d, result %d", name, n, window, i)
							}
						}
					}
				}
			}
		}
	})
}

// TestAStreamTakesNoMoreThanItsWindow from its source before it yields.
func TestAStreamTakesNoMoreThanItsWindow(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for name, stream := range streams[int, int]() {
			for _, window := range []int{1, 2, 5, 64} {
				taken, yielded := 0, 0
				source := func(yield func(int) bool) {
					for i := range 1000 {
						taken++
						if taken-yielded > window {
							t.Errorf("%s took %d values with a window of %d", name, taken-yielded, window)
						}
						if !yield(i) {
							return
						}
					}
				}
				for _, err := range stream(p, source, window, func(_ context.Context, i int) (int, error) { return i, nil }) {
					require.NoError(t, err)
					yielded++
				}
				require.Equal(t, 1000, yielded)
			}
		}
	})
}

// TestAStreamComputesSeveralAtATime, the consumer among them.
func TestAStreamComputesSeveralAtATime(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for name, stream := range streams[int, int]() {
		var both sync.WaitGroup
		both.Add(2)
		for _, err := range stream(p, slices.Values(count(2)), 2, func(context.Context, int) (int, error) {
			both.Done()
			both.Wait()
			time.Sleep(time.Millisecond) // or the consumer would compute the next two by itself
			return 0, nil
		}) {
			require.NoError(t, err, name)
		}
	}
}

// TestAStreamEndsWithItsFirstError: results before it come first, then the error, and no f runs after the loop.
func TestAStreamEndsWithItsFirstError(t *testing.T) {
	boom := errors.New("boom")
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for range testutil.Stress(20) {
			for name, stream := range streams[int, int]() {
				bad := rand.IntN(2000)
				var running, begun atomic.Int64
				var over atomic.Bool
				var got []int
				var failed error
				var seen context.Context
				for r, err := range stream(p, slices.Values(count(1_000_000)), 100, func(ctx context.Context, i int) (int, error) {
					if over.Load() {
						t.Error("begun after the loop")
					}
					running.Add(1)
					defer running.Add(-1)
					begun.Add(1)
					if i == bad {
						seen = ctx
						return 0, boom
					}
					if i < bad && i%50 == 0 {
						work(1000)
						if name == "Stream" && ctx.Err() != nil {
							t.Error("cancelled, but its result comes before the error")
						}
					}
					return i, nil
				}) {
					require.NoError(t, failed, "something comes after the error")
					if failed = err; err == nil {
						got = append(got, r)
					} else {
						require.Same(t, boom, context.Cause(seen), "the error is yielded, and its context not cancelled")
					}
				}
				over.Store(true)
				require.Same(t, boom, failed)
				require.Zero(t, running.Load())
				if name == "Stream" {
					requireEqual(t, count(bad), got)
					require.LessOrEqual(t, begun.Load(), int64(bad+100))
				}
				requireAtRest(t, p)
			}
		}
	})
}

// TestNothingBeginsBehindAKnownError, though values before it are still computed, and values in its batch are not.
func TestNothingBeginsBehindAKnownError(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		var begun []int
		s := stream[int, int]{ordered: ordered, ended: make(chan struct{}, 1), f: func(_ context.Context, i int) (int, error) {
			if begun = append(begun, i); i == 3 {
				return 0, errStolen
			}
			return i, nil
		}}
		s.failedAt.Store(math.MaxInt64)
		for _, number := range []int64{1, 2, 0} { // as workers may come to them
			first := 2 * int(number)
			require.True(t, s.compute(&batch[int, int]{number: number, in: []int{first, first + 1}}))
		}
		require.Equal(t, []int{2, 3, 0, 1}, begun)
	}
}

// TestAsCompletedYieldsWhatIsReady though an earlier value takes longer, and Stream does not.
func TestAsCompletedYieldsWhatIsReady(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for name, stream := range streams[int, int]() {
		require.True(t, testutil.Eventually(func() bool {
			requireAtRest(t, p)
			others := make(gate)
			var first, other, done atomic.Int64 // the goroutine of the value 0, another one, and how many values that one has begun
			ready := false
			var order []int
			for i, err := range stream(p, slices.Values(count(4)), 4, func(_ context.Context, i int) (int, error) { // batches of one
				if who := int64(goroutineID()); i == 0 {
					first.Store(who)
					others.await()
					ready = done.Load() >= 2
				} else if first.Load() != 0 && first.Load() != who {
					other.CompareAndSwap(0, who)
					if other.Load() == who && done.Add(1) == 2 { // so the one before has ended
						others.open()
					}
				}
				return i, nil
			}) {
				require.NoError(t, err)
				order = append(order, i)
			}
			if name == "Stream" {
				require.Equal(t, count(4), order)
			} else if ready {
				require.NotEqual(t, 0, order[0], "it waits for the value 0")
			}
			return ready // otherwise the second worker came too late
		}), name)
	}
}

func TestWhoBreaksOffAStreamLeavesNothingBehind(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		before := runtime.NumGoroutine()
		for range testutil.Stress(20) {
			for name, stream := range streams[int, int]() {
				stop := rand.IntN(500)
				var running atomic.Int64
				sourceEnded := false
				got, consumer := 0, goroutineID()
				for _, err := range stream(p, func(yield func(int) bool) {
					defer func() { sourceEnded = true }()
					for i := 0; yield(i); i++ {
					}
				}, 2, func(ctx context.Context, i int) (int, error) { // batches of one
					running.Add(1)
					defer running.Add(-1)
					if i > stop+2 {
						t.Error("behind the window")
					}
					if i > stop && goroutineID() != consumer {
						<-ctx.Done() // the break cancels it
					}
					return i, nil
				}) {
					require.NoError(t, err)
					if got++; got > stop {
						break
					}
				}
				require.True(t, sourceEnded, name)
				require.Zero(t, running.Load(), name)
			}
		}
		testutil.NoMoreGoroutines(t, before+p.Workers()+core.Spares+1) // with that of the pool for its network
	})
}

func TestAStreamEndsWithItsPlace(t *testing.T) {
	boom := errors.New("boom")
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for name, stream := range streams[int, int]() {
			ctx, cancel := context.WithCancelCause(t.Context())
			var last error
			n := 0
			for _, err := range stream(p.With(ctx), slices.Values(count(1_000_000)), 64, func(_ context.Context, i int) (int, error) {
				if i == 1000 {
					cancel(boom)
				}
				return i, nil
			}) {
				require.NoError(t, last)
				last = err
				n++
			}
			require.ErrorIs(t, last, boom, name)
			require.Less(t, n, 1_000_000)
			for _, err := range stream(p.With(ctx), slices.Values(count(10)), 64, func(context.Context, int) (int, error) { t.Error("begun"); return 0, nil }) {
				require.ErrorIs(t, err, boom)
			}
		}
	})
}

// TestAPanicEndsAStream, be it in f, the source or the consumer. The latter two run in the goroutine in which it arrives, so
// it is not wrapped.
func TestAPanicEndsAStream(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for range testutil.Stress(20) {
			for name, stream := range streams[int, int]() {
				for where := range 3 {
					at := rand.IntN(1000)
					explodes := func(here, i int) {
						if where == here && i == at {
							panic("boom")
						}
					}
					v := testutil.Caught(func() {
						n := 0
						for range stream(p, func(yield func(int) bool) {
							for i := range 1_000_000 {
								explodes(0, i)
								if !yield(i) {
									return
								}
							}
						}, 32, func(_ context.Context, i int) (int, error) {
							explodes(1, i)
							return i, nil
						}) {
							explodes(2, n)
							n++
						}
					})
					if where == 1 {
						require.IsType(t, &pool.PanicError{}, v, name)
						v = v.(*pool.PanicError).Value
					}
					require.Equal(t, "boom", v, "%s, %d", name, where)
					requireAtRest(t, p)
				}
			}
		}
	})
}

func TestGoexitInAStreamEndsItsConsumer(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for _, stream := range streams[int, int]() {
		came := false
		require.True(t, testutil.Returns(func() {
			for range stream(p, slices.Values(count(1000)), 32, func(_ context.Context, i int) (int, error) {
				if i == 500 {
					runtime.Goexit()
				}
				return i, nil
			}) {
			}
			came = true
		}))
		require.False(t, came, "behind the loop")
		requireAtRest(t, p)
	}
}

// TestAStreamInsideATaskWaitsWithoutAPlace: all workers range over streams whose functions call loops.
func TestAStreamInsideATaskWaitsWithoutAPlace(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	var all []*pool.Future[int]
	for range 8 {
		all = append(all, pool.Async(p, func(w *pool.Worker) (n int, err error) {
			for _, err := range Stream(w, slices.Values(count(200)), 8, func(_ context.Context, i int) (int, error) {
				return i, For(p, 10, func(int) {})
			}) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}))
	}
	for _, f := range all {
		n, err := f.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, 200, n)
	}
}

// TestAStreamLooksAtNoBatchTwice, however many are in flight: it dereferences none of the nil ones.
func TestAStreamLooksAtNoBatchTwice(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	const inFlight = 10_000
	for _, ordered := range []bool{true, false} {
		var at []int // which batches were computed, by their numbers
		s := stream[int, int]{ordered: ordered, ended: make(chan struct{}, 1), f: func(_ context.Context, i int) (int, error) {
			at = append(at, i)
			return i, nil
		}}
		s.failedAt.Store(inFlight)
		push := func(b *batch[int, int]) {
			if s.unclaimed.push(b); ordered {
				s.queue.push(b)
			}
		}
		for i := range inFlight {
			push(&batch[int, int]{number: int64(i), in: []int{i}})
		}
		for range inFlight {
			push(nil) // no call below may get as far
		}
		for i, b := range s.unclaimed.items[:inFlight] {
			if i%2 == 0 && !s.compute(b) { // as another worker
				t.Fatal("claimed by nobody, and not computed")
			}
		}
		require.NoError(t, p.Run(func(w *pool.Worker) {
			for n := range inFlight {
				for b := s.next(); ; b = s.next() {
					if b != nil {
						require.True(t, b.done.Load())
						if ordered {
							require.EqualValues(t, n, b.number)
						}
						break
					}
					s.help()
				}
			}
		}))
		require.Nil(t, s.finished.Load())
		require.Len(t, at, inFlight)
	}
}

func TestAFifoNeedsNoMoreRoomThanItHasItems(t *testing.T) {
	var q fifo[int]
	for i := range 100_000 {
		q.push(i)
		if i >= 10 {
			require.Equal(t, i-10, q.pop())
		}
		require.Equal(t, min(i+1, 10), q.len())
	}
	require.Less(t, cap(q.items), 64)
}

// TestASlowSourceIsNotWaitedFor: what has been taken is computed while the source waits.
func TestASlowSourceIsNotWaitedFor(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for _, stream := range streams[int, int]() {
		computed := make(chan int, 100)
		for _, err := range stream(p, func(yield func(int) bool) {
			for i := range 20 {
				if !yield(i) {
					return
				}
				time.Sleep(100 * time.Microsecond) // the next batch has one value
				if i > 1 {
					<-computed // by another worker
				}
			}
		}, 64, func(_ context.Context, i int) (int, error) { computed <- i; return i, nil }) {
			require.NoError(t, err)
		}
	}
}

func TestStreamsRefuseWhatTheyCannotDo(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	closed, err := pool.New(pool.WithWorkers(1))
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	f := func(context.Context, int) (int, error) { return 0, nil }
	for name, stream := range streams[int, int]() {
		for want, s := range map[string]iter.Seq2[int, error]{
			"par: " + name + " was given a nil function":                              stream(p, slices.Values(count(1)), 1, nil),
			"par: " + name + " was given a nil sequence":                              stream(p, nil, 1, f),
			"par: " + name + " was given a window of 0 values; it must be 1 or more":  stream(p, slices.Values(count(1)), 0, f),
			"par: " + name + " was given a window of -1 values; it must be 1 or more": stream(p, slices.Values(count(1)), -1, f),
			pool.ErrClosed.Error(): stream(closed, slices.Values(count(1)), 1, f),
			pool.Do(nil).Error():   stream(nil, slices.Values(count(1)), 1, f),
		} {
			n := 0
			for _, err := range s {
				require.EqualError(t, err, want)
				n++
			}
			require.Equal(t, 1, n)
			for range s { // the consumer may break off
				break
			}
		}
	}
}

// TestAStreamOfCheapFunctionsAllocatesLittle: it allocates for batches, not for values, and the consumer uses a batch again that it keeps to itself.
func TestAStreamOfCheapFunctionsAllocatesLittle(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	run := func(n, window int) uint64 {
		values := slices.Values(count(n))
		return allocations(func() {
			for _, err := range Stream(p, values, window, func(_ context.Context, i int) (int, error) { return i, nil }) {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	run(10, 1024)
	for _, window := range []int{1, 16, 1024} { // batches of up to 1, 16 and some hundred values
		require.Less(t, run(100_000, window), uint64(100_000/4), window)
	}
}

// TestAStreamSharesValuesThatAreLongAtTimes: a value that took a millisecond is not forgotten while short ones follow, and is some time later.
func TestAStreamSharesValuesThatAreLongAtTimes(t *testing.T) {
	s := stream[int, int]{window: 64, size: 16, target: heist.TicksIn(batchOfStream)}
	computed := func(values int, each time.Duration) {
		s.resize(&batch[int, int]{in: make([]int, values), took: int64(values) * heist.TicksIn(each)})
	}
	computed(16, 20*time.Nanosecond)
	require.True(t, s.alone)
	computed(1, time.Millisecond)
	for range 100 {
		computed(16, 20*time.Nanosecond)
		require.False(t, s.alone)
	}
	for range 1000 {
		computed(16, 20*time.Nanosecond)
	}
	require.True(t, s.alone)
}

func BenchmarkStream(b *testing.B) {
	p := pools.New(b)
	values := count(100_000)
	f := func(_ context.Context, i int) (int, error) { work(300); return i, nil }
	for name, stream := range streams[int, int]() {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				for _, err := range stream(p, slices.Values(values), 1024, f) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
	b.Run("batches", func(b *testing.B) {
		for range b.N {
			for lo := 0; lo < len(values); lo += 1000 {
				_, err := MapErr(p, values[lo:lo+1000], f)
				require.NoError(b, err)
			}
		}
	})
	b.Run("serial", func(b *testing.B) {
		for range b.N {
			for _, v := range values {
				_, _ = f(context.Background(), v)
			}
		}
	})
}

// stages has all forms that take a sequence. Each counts the values that it has come to the end of.
func stages() map[string]func(at pool.Place, values iter.Seq[error], f func(v error) error) (n int, err error) {
	all := map[string]func(at pool.Place, values iter.Seq[error], f func(v error) error) (n int, err error){
		"ForSeq": func(at pool.Place, values iter.Seq[error], f func(error) error) (int, error) {
			var n atomic.Int64
			var failed atomic.Pointer[error]
			err := ForSeq(at, values, func(v error) {
				n.Add(1)
				if err := f(v); err != nil {
					failed.Store(&err)
				}
			})
			if e := failed.Load(); e != nil && err == nil {
				err = *e
			}
			return int(n.Load()), err
		},
		"MapSeq": func(at pool.Place, values iter.Seq[error], f func(error) error) (int, error) {
			got, err := MapSeq(at, values, f)
			return len(got), errors.Join(append(got, err)...)
		},
		"ForSeqErr": func(at pool.Place, values iter.Seq[error], f func(error) error) (int, error) {
			var n atomic.Int64
			err := ForSeqErr(at, values, func(_ context.Context, v error) error { n.Add(1); return f(v) })
			return int(n.Load()), err
		},
		"MapSeqErr": func(at pool.Place, values iter.Seq[error], f func(error) error) (int, error) {
			got, err := MapSeqErr(at, values, func(_ context.Context, v error) (int, error) { return 0, f(v) })
			return len(got), err
		},
	}
	for name, stream := range streams[error, int]() {
		all[name] = func(at pool.Place, values iter.Seq[error], f func(error) error) (n int, err error) {
			for _, err := range stream(at, values, 16, func(_ context.Context, v error) (int, error) { return 0, f(v) }) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}
	}
	return all
}

// sources are sequences of n nils, and then of an error, that compute at the same pool as the stage that takes them, in
// calls that end early.
var sources = map[string]func(p *pool.Pool, n int, boom error) iter.Seq[error]{
	"Stream": func(p *pool.Pool, n int, boom error) iter.Seq[error] {
		return func(yield func(error) bool) {
			for _, err := range Stream(p, numbers(-1), 8, func(_ context.Context, i int) (int, error) {
				if i == n {
					return 0, boom
				}
				return 0, nil
			}) {
				if !yield(err) { // as Stream's doc says
					return
				}
			}
		}
	},
	"Stream whose place ends": func(p *pool.Pool, n int, boom error) iter.Seq[error] {
		return func(yield func(error) bool) {
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			i := 0
			for _, err := range Stream(p.With(ctx), numbers(-1), 1, func(context.Context, int) (int, error) { return 0, nil }) {
				if i++; i > n {
					cancel(boom)
				}
				if (i <= n || err != nil) && !yield(err) {
					return
				}
			}
		}
	},
	"call": func(p *pool.Pool, n int, boom error) iter.Seq[error] {
		return func(yield func(error) bool) {
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			_ = p.With(ctx).Run(func(*pool.Worker) {
				for range n {
					if !yield(nil) {
						return
					}
				}
				cancel(boom)
				yield(boom)
			})
		}
	},
}

// TestStagesAtOnePoolLoseNoResultAndNoError: the end of a call in which the source computes is not the end of the stage.
func TestStagesAtOnePoolLoseNoResultAndNoError(t *testing.T) {
	boom := errors.New("boom")
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for from, source := range sources {
			for name, stage := range stages() {
				for range testutil.Stress(10) {
					got := make(tally, 1)
					n, err := stage(p, source(p, 1000, boom), func(v error) error {
						if v != nil {
							got[0].Add(1)
						}
						return nil
					})
					require.NoError(t, err, "%s, %s", from, name)
					require.Equal(t, 1001, n, "%s, %s", from, name)
					require.NoError(t, got.once(), "%s, %s: the error", from, name)
					_, err = stage(p, source(p, 1000, boom), func(v error) error { return v })
					require.ErrorIs(t, err, boom, "%s, %s", from, name)
				}
			}
		}
		requireAtRest(t, p)
	})
}

// TestAStageEndsWithItsPlace though its values come from inside a call at the same pool that goes on.
func TestAStageEndsWithItsPlace(t *testing.T) {
	boom := errors.New("boom")
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for from, source := range sources {
			for name, stage := range stages() {
				ctx, cancel := context.WithCancelCause(t.Context())
				var after atomic.Int64
				_, err := stage(p.With(ctx), func(yield func(error) bool) {
					n := 0
					for v := range source(p, math.MaxInt-1, nil) {
						if n++; n > 1000 {
							cancel(boom)
							after.Add(1)
						}
						if !yield(v) {
							return
						}
					}
				}, func(v error) error { return v })
				require.ErrorIs(t, err, boom, "%s, %s", from, name)
				require.LessOrEqual(t, after.Load(), int64(1), "%s, %s: values after the end", from, name)
			}
		}
		requireAtRest(t, p)
	})
}

// TestAStreamThatEndsTakesNoMoreThanItsWindow though its consumer waits for a result when the place's context ends.
func TestAStreamThatEndsTakesNoMoreThanItsWindow(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for _, stream := range streams[int, int]() {
		for at := range testutil.Stress(100) {
			ctx, cancel := context.WithCancel(t.Context())
			taken, yielded := 0, 0
			for range stream(p.With(ctx), func(yield func(int) bool) {
				for {
					if taken++; taken-yielded > 3 {
						t.Errorf("%d values were taken and %d yielded", taken, yielded)
					}
					if !yield(taken - 1) {
						return
					}
				}
			}, 3, func(_ context.Context, i int) (int, error) {
				if i == at {
					cancel()
				}
				heist.Spin(30 * time.Microsecond)
				return i, nil
			}) {
				yielded++
			}
			cancel()
		}
	}
	requireAtRest(t, p)
}

// TestAConsumerBelongsToTheCallAroundTheStream: neither the stream's error nor the end of its place ends what the
// consumer computes, and the end of the call around does.
func TestAConsumerBelongsToTheCallAroundTheStream(t *testing.T) {
	boom := errors.New("boom")
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for name, stream := range streams[int, int]() {
			around, cancel := context.WithCancelCause(t.Context())
			require.ErrorIs(t, p.With(around).Run(func(w *pool.Worker) {
				var ran atomic.Int64
				own := w.Context()
				computes := func() {
					require.Equal(t, own, w.Context(), name)
					require.False(t, w.Cancelled(), name)
					require.NoError(t, For(w, 10, func(int) { ran.Add(1) }), name)
				}
				last := error(nil)
				for _, last = range stream(w, slices.Values(count(100)), 8, func(_ context.Context, i int) (int, error) {
					if i == 50 {
						return 0, errStolen
					}
					return i, nil
				}) {
					computes()
				}
				require.Same(t, errStolen, last, name)
				ended, end := context.WithCancelCause(around)
				defer end(nil)
				for _, last = range stream(w.With(ended), numbers(-1), 8, func(_ context.Context, i int) (int, error) { return i, nil }) {
					end(errStolen)
					computes()
				}
				require.ErrorIs(t, last, errStolen, name)
				require.Greater(t, ran.Load(), int64(20), name)
				for range stream(p, numbers(-1), 8, func(_ context.Context, i int) (int, error) { return i, nil }) {
					cancel(boom)
					w.Checkpoint()
				}
				t.Error("the call around has ended, and its function goes on")
			}), boom, name)
		}
		requireAtRest(t, p)
	})
}

// TestAStreamMayBeRangedOverTwice: each time is a stream of its own, whatever became of the one before.
func TestAStreamMayBeRangedOverTwice(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for name, stream := range streams[int, int]() {
			var sources int
			var fails atomic.Bool
			values := stream(p, func(yield func(int) bool) {
				sources++
				for i := range 100 {
					if !yield(i) {
						return
					}
				}
			}, 8, func(_ context.Context, i int) (int, error) {
				if fails.Load() {
					return 0, errStolen
				}
				return i, nil
			})
			whole := func() {
				var got []int
				for r, err := range values {
					require.NoError(t, err, name)
					got = append(got, r)
				}
				slices.Sort(got)
				require.Equal(t, count(100), got, name)
			}
			whole()
			for range values {
				break
			}
			whole()
			fails.Store(true)
			for _, err := range values {
				require.Same(t, errStolen, err, name)
			}
			fails.Store(false)
			whole()
			require.Equal(t, 5, sources, name)
		}
	})
}
