package par

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

// ledger checks what one call of Phases promises, whose body is its method book.
type ledger struct {
	n, phases int
	ran       tally        // of each phase and item
	done      atomic.Int64 // items of all phases whose calls have returned
	wrong     atomic.Pointer[string]
	first     []atomic.Int64 // by lo, the hi of the range in phase 0
}

func newLedger(n, phases int) *ledger {
	return &ledger{n: n, phases: phases, ran: make(tally, n*phases), first: make([]atomic.Int64, n+1)}
}

func (l *ledger) fail(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	l.wrong.CompareAndSwap(nil, &s)
}

func (l *ledger) book(phase, lo, hi int) {
	if before := l.done.Load(); before < int64(phase*l.n) {
		l.fail("a call of phase %d began when only %d items were done", phase, before)
	}
	if lo >= hi || lo < 0 || hi > l.n {
		l.fail("the range [%d, %d) of %d", lo, hi, l.n)
		return
	}
	if phase == 0 {
		l.first[lo].Store(int64(hi))
	} else if was := l.first[lo].Load(); was != int64(hi) {
		l.fail("[%d, %d) in phase %d, but [%d, %d) in phase 0", lo, hi, phase, lo, was)
	}
	for i := lo; i < hi; i++ {
		l.ran[phase*l.n+i].Add(1)
	}
	if now := l.done.Add(int64(hi - lo)); now > int64((phase+1)*l.n) {
		l.fail("%d items were done in the end of a call of phase %d", now, phase)
	}
}

func (l *ledger) check() error {
	if s := l.wrong.Load(); s != nil {
		return fmt.Errorf("%s", *s)
	}
	return l.ran.once()
}

func TestPhasesRunEachItemOfEachPhaseOnceAndInOrder(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range []int{1, 2, 3, 63, 64, 65, 1000} {
			for _, phases := range []int{1, 2, 3, 20} {
				for range testutil.Stress(20) {
					l := newLedger(n, phases)
					require.NoError(t, Phases(p, n, phases, l.book))
					require.NoError(t, l.check(), "%d items, %d phases", n, phases)
				}
			}
		}
	})
}

// TestPhasesAreDividedIntoAsManyPartsAsWorkers, or fewer if there are fewer items.
func TestPhasesAreDividedIntoAsManyPartsAsWorkers(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, n := range []int{1, 3, 64, 100} {
			var calls, items atomic.Int64
			require.NoError(t, Phases(p, n, 3, func(_, lo, hi int) {
				calls.Add(1)
				items.Add(int64(hi - lo))
				assert.InDelta(t, n/min(n, p.Workers()), hi-lo, 1)
			}))
			require.EqualValues(t, 3*n, items.Load())
			require.EqualValues(t, 3*min(n, p.Workers()), calls.Load())
		}
	})
}

func TestPhasesWhereverTheyAreCalled(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		for place, in := range inPlaces {
			for range testutil.Stress(50) {
				require.NoError(t, in(p, func(at pool.Place) error {
					l := newLedger(37, 10)
					if err := Phases(at, l.n, l.phases, l.book); err != nil {
						return err
					}
					return l.check()
				}), place)
			}
		}
	}
}

func TestPhasesRefuseWhatTheyCannotDo(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	never := func(_, _, _ int) { t.Error("called") }
	require.EqualError(t, Phases(p, 1, 1, nil), "par: Phases was given a nil function")
	require.EqualError(t, Phases(p, -1, 1, never), "par: Phases was given -1 items and 1 phases; both must be 0 or more")
	require.EqualError(t, Phases(p, 1, -2, never), "par: Phases was given 1 items and -2 phases; both must be 0 or more")
	require.ErrorIs(t, Phases(nil, 1, 1, never), pool.Do(nil))
	shut, err := pool.New(pool.WithWorkers(1))
	require.NoError(t, err)
	require.NoError(t, shut.Close())
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errStolen)
	for _, n := range []int{0, 5} {
		for _, phases := range []int{0, 5} {
			require.ErrorIs(t, Phases(shut, n, phases, never), pool.ErrClosed)
			require.ErrorIs(t, Phases(p.With(ctx), n, phases, never), errStolen)
			if n*phases == 0 {
				require.NoError(t, Phases(p, n, phases, never))
			}
		}
	}
	require.NoError(t, Phases(p, 0, math.MaxInt, never))
	require.NoError(t, Phases(p, math.MaxInt, 0, never))
}

func TestPhasesAreShared(t *testing.T) {
	for _, workers := range []int{2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		for range testutil.Stress(4) {
			requireAtRest(t, p)
			var m meet
			require.NoError(t, Phases(p, workers, patientItems, func(_, _, _ int) { m.here() }))
			require.NoError(t, m.result())
		}
	}
}

// TestPhasesBesideBusyWorkers: the caller alone can do everything.
func TestPhasesBesideBusyWorkers(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	release := make(chan struct{})
	g := newGroup(p)
	var busy atomic.Int64
	for range p.Workers() {
		g.Go(func() error { busy.Add(1); testutil.Compute(release); return nil })
	}
	require.True(t, testutil.Eventually(func() bool { return busy.Load() == int64(p.Workers()) }))
	l := newLedger(100, 50)
	me := goroutineID()
	require.NoError(t, Phases(p, l.n, l.phases, func(phase, lo, hi int) {
		assert.Equal(t, me, goroutineID())
		l.book(phase, lo, hi)
	}))
	require.NoError(t, l.check())
	close(release)
	require.NoError(t, g.Wait())
}

// TestWorkersComeLateToPhases frees the workers one by one in the middle.
func TestWorkersComeLateToPhases(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	for range testutil.Stress(50) {
		var free [4]gate
		g := newGroup(p)
		var busy atomic.Int64
		for i := range free {
			free[i] = make(gate)
			g.Go(func() error { busy.Add(1); <-free[i]; return nil })
		}
		require.True(t, testutil.Eventually(func() bool { return busy.Load() == int64(len(free)) }))
		l := newLedger(40, 40)
		require.NoError(t, Phases(p, l.n, l.phases, func(phase, lo, hi int) {
			if lo == 0 && phase%8 == 7 && phase/8 < len(free) {
				free[phase/8].open()
			}
			l.book(phase, lo, hi)
			work(100)
		}))
		require.NoError(t, l.check())
		require.NoError(t, g.Wait())
	}
}

func TestTwoPhasesAtTheSameTime(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		testutil.Together(3, func(int) {
			for range testutil.Stress(100) {
				l := newLedger(20, 10)
				assert.NoError(t, Phases(p, l.n, l.phases, l.book))
				assert.NoError(t, l.check())
			}
		})()
	}
}

func TestManyShortPhases(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(4))
	phases := testutil.Stress(10_000)
	l := newLedger(4, phases)
	require.NoError(t, Phases(p, l.n, l.phases, l.book))
	require.NoError(t, l.check())
}

// TestPhasesPublishWhatTheyWrite steps through a computation whose every item needs its
// neighbours of the phase before, with plain loads and stores.
func TestPhasesPublishWhatTheyWrite(t *testing.T) {
	const n = 64
	phases := testutil.Stress(2000)
	step := func(from, to []uint64, lo, hi int) {
		for i := lo; i < hi; i++ {
			to[i] = from[(i+n-1)%n]*3 + from[i] + from[(i+1)%n]*5
		}
	}
	run := func(each func(f func(phase, lo, hi int))) [n]uint64 {
		var grids [2][n]uint64
		for i := range n {
			grids[0][i] = uint64(i)
		}
		each(func(phase, lo, hi int) { step(grids[phase%2][:], grids[1-phase%2][:], lo, hi) })
		return grids[phases%2]
	}
	want := run(func(f func(phase, lo, hi int)) {
		for phase := range phases {
			f(phase, 0, n)
		}
	})
	for _, workers := range []int{1, 2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		require.Equal(t, want, run(func(f func(phase, lo, hi int)) { require.NoError(t, Phases(p, n, phases, f)) }))
	}
}

func TestPanicInAPhaseEndsThemAll(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, phase := range []int{0, 1, 7, 19} {
			for _, item := range []int{0, 50, 99} {
				for range testutil.Stress(10) {
					var running, late atomic.Int64
					v := testutil.Caught(func() {
						_ = Phases(p, 100, 20, func(k, lo, hi int) {
							running.Add(1)
							defer running.Add(-1)
							if k > phase {
								late.Add(1)
							}
							if k == phase && lo <= item && item < hi {
								explode("boom")
							}
							work(100)
						})
					})
					require.Zero(t, running.Load(), "bodies run when the panic arrives")
					require.Zero(t, late.Load(), "calls of later phases")
					if e, ok := v.(*pool.PanicError); ok {
						require.Contains(t, string(e.Stack), "explode")
						v = e.Value
					}
					require.Equal(t, "boom", v)
				}
			}
		}
		l := newLedger(100, 20)
		require.NoError(t, Phases(p, l.n, l.phases, l.book))
		require.NoError(t, l.check())
	})
}

// TestPanicOfAnotherMemberArrives has the panic happen on a worker for certain.
func TestPanicOfAnotherMemberArrives(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for range testutil.Stress(20) {
		requireAtRest(t, p)
		me := goroutineID()
		v := testutil.Caught(func() {
			_ = Phases(p, 2, math.MaxInt/2, func(_, _, _ int) {
				if goroutineID() != me {
					explode("boom")
				}
				runtime.Gosched()
			})
		})
		e, ok := v.(*pool.PanicError)
		require.True(t, ok)
		require.Equal(t, "boom", e.Value)
	}
}

func TestGoexitInAPhaseEndsTheCaller(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		for _, item := range []int{0, 99} {
			for range testutil.Stress(20) {
				returned := false
				require.True(t, testutil.Returns(func() {
					_ = Phases(p, 100, 10, func(phase, lo, hi int) {
						if phase == 5 && lo <= item && item < hi {
							runtime.Goexit()
						}
					})
					returned = true
				}), "hangs")
				require.False(t, returned)
			}
		}
	}
}

func TestCancelledPhasesEnd(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		for range testutil.Stress(50) {
			ctx, cancel := context.WithCancelCause(context.Background())
			var last, end atomic.Int64
			const phases = 1_000_000
			require.NoError(t, p.Run(func(w *pool.Worker) {
				me := goroutineID()
				err := Phases(w.With(ctx), 100, phases, func(phase, lo, hi int) {
					lower(&last, -int64(phase))
					if phase >= 10 && goroutineID() == me && end.CompareAndSwap(0, int64(phase)) {
						cancel(errStolen)
						assert.True(t, testutil.Eventually(w.Cancelled))
					}
				})
				assert.ErrorIs(t, err, errStolen)
			}))
			require.LessOrEqual(t, -last.Load(), end.Load()+1)
			requireAtRest(t, p)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		require.ErrorIs(t, Phases(p.With(ctx), 100, math.MaxInt/1000, func(_, _, _ int) {}), context.DeadlineExceeded)
		cancel()

		// The context of the call around Phases ends.
		ctx, cancel2 := context.WithCancelCause(context.Background())
		err := p.With(ctx).Run(func(w *pool.Worker) {
			_ = Phases(w, 100, math.MaxInt/1000, func(phase, _, _ int) {
				if phase == 5 {
					cancel2(errStolen)
				}
			})
			t.Error("Phases returned")
		})
		require.ErrorIs(t, err, errStolen)
	}
}

func TestPhasesAllocateLittle(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for _, phases := range []int{1, 1000} {
		require.LessOrEqual(t, allocsPerRun(20, func() {
			_ = Phases(p, 100, phases, func(_, _, _ int) {})
		}), 20.0)
	}
}

// TestPhasesWithLoopsInside is for a former bug: a member that waited within its part, here for a
// stolen half of a loop, took the offer to become a member again.
func TestPhasesWithLoopsInside(t *testing.T) {
	for _, workers := range []int{2, 4} {
		p := pools.New(t, pool.WithWorkers(workers))
		for range testutil.Stress(200) {
			var items atomic.Int64
			require.NoError(t, Phases(p, 4, 5, func(_, lo, hi int) {
				for range hi - lo {
					assert.NoError(t, For(p, 20, func(int) { items.Add(1); work(2000) }))
				}
			}))
			require.EqualValues(t, 4*5*20, items.Load())
		}
	}
}

func TestPhasesOverEveryInt(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	var wrong atomic.Bool
	var ranges atomic.Int32
	require.NoError(t, Phases(p, math.MaxInt, 2, func(_, lo, hi int) {
		ranges.Add(1)
		if lo < 0 || hi <= lo {
			wrong.Store(true)
		}
	}))
	require.False(t, wrong.Load())
	require.EqualValues(t, 4, ranges.Load())
}
