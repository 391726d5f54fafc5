package limit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

var background = context.Background()

// waitFor returns when so many callers wait.
func waitFor(l *Limiter, callers int) {
	for l.Stats().Waiting != callers {
		time.Sleep(10 * time.Microsecond)
	}
}

func TestNoMoreThanItsUnitsAreInFlight(t *testing.T) {
	const units, callers = 5, 16
	l := New(units).Waiting(callers / 2)
	var inFlight atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range testutil.Stress(500) {
				n := 1 + rand.IntN(units)
				ctx, cancel := context.WithTimeout(background, time.Duration(rand.IntN(100))*time.Microsecond)
				err := l.Do(ctx, n, func() error {
					assert.LessOrEqual(t, inFlight.Add(int64(n)), int64(units))
					time.Sleep(time.Duration(rand.IntN(20)) * time.Microsecond)
					inFlight.Add(int64(-n))
					return nil
				})
				if err != nil && !errors.Is(err, ErrFull) && !errors.Is(err, ErrLate) {
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				}
				cancel()
			}
		})
	}
	all.Wait()
	s := l.Stats()
	require.Zero(t, s.Used+s.Waiting)
	require.EqualValues(t, callers*testutil.Stress(500), s.Admitted+s.Full+s.Late+s.Ended, "%+v", s)
	require.True(t, l.TryAcquire(units), "nothing is lost")
}

func TestCallersAreAdmittedInTheirOrder(t *testing.T) {
	l := New(3)
	require.NoError(t, l.Acquire(background, 2))
	order := make(chan int, 3)
	var all sync.WaitGroup
	for i, n := range []int{3, 1, 2} { // the second would fit at once, and does not overtake
		all.Go(func() {
			assert.NoError(t, l.Acquire(background, n))
			order <- n
			l.Release(n)
		})
		waitFor(l, i+1)
		require.False(t, l.TryAcquire(1))
	}
	l.Release(2)
	all.Wait()
	require.Equal(t, 3, <-order)
}

func TestWhoGivesUpLetsTheNextOneIn(t *testing.T) {
	l := New(2)
	require.True(t, l.TryAcquire(1))
	ctx, cancel := context.WithCancelCause(background)
	why := errors.New("why")
	large := make(chan error, 1)
	go func() { large <- l.Acquire(ctx, 2) }()
	waitFor(l, 1)
	small := make(chan error, 1)
	go func() { small <- l.Acquire(background, 1) }()
	waitFor(l, 2)
	cancel(why)
	err := <-large
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, <-small)
	require.ErrorIs(t, l.Acquire(ctx, 1), why, "an ended context takes no units")
}

// TestACallerThatWouldWaitForTooLongIsRefusedAtOnce lets a unit be given back every 10 ms, as long as callers wait.
func TestACallerThatWouldWaitForTooLongIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1).Patience(time.Second)
		call := func() {
			assert.NoError(t, l.Do(background, 1, func() error { time.Sleep(10 * time.Millisecond); return nil }))
		}
		for range 10 {
			go call()
		}
		time.Sleep(75 * time.Millisecond) // seven are done, one runs, two wait
		require.Equal(t, 2, l.Stats().Waiting)
		within := func(d time.Duration) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(background, d)
			defer cancel()
			start := time.Now()
			err := l.Do(ctx, 1, func() error { return nil })
			return time.Since(start), err
		}
		took, err := within(29 * time.Millisecond)
		require.ErrorIs(t, err, ErrLate)
		require.Zero(t, took)
		took, err = within(31 * time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, 25*time.Millisecond, took)

		// The first to wait is not refused because of what was: now a unit comes back at once.
		require.True(t, l.TryAcquire(1))
		time.AfterFunc(time.Millisecond, func() { l.Release(1) })
		took, err = within(2 * time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, time.Millisecond, took)
	})
}

// TestASlowHourDoesNotRefuseCallersLater: bursts after it are short, and each has one caller that waits and one behind it.
func TestASlowHourDoesNotRefuseCallersLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(2)
		call := func(took, within time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_ = l.Do(ctx, 1, func() error { time.Sleep(took); return nil })
		}
		burst := func(callers int, took, within time.Duration) (late uint64) {
			before := l.Stats().Late
			var all sync.WaitGroup
			for range callers {
				all.Go(func() { call(took, within) })
			}
			all.Wait()
			return l.Stats().Late - before
		}
		for _, pause := range []time.Duration{50 * time.Millisecond, time.Minute} {
			require.Zero(t, burst(8, 200*time.Millisecond, time.Hour))
			for range 20 {
				time.Sleep(pause)
				burst(4, time.Millisecond, 100*time.Millisecond)
			}
			require.Zero(t, burst(4, time.Millisecond, 100*time.Millisecond))
		}
		require.Zero(t, burst(8, 200*time.Millisecond, time.Hour))
		time.Sleep(time.Minute)
		require.Zero(t, burst(4, time.Millisecond, 100*time.Millisecond), "by a pace of a minute ago")
	})
}

// TestUnitsMayBeAsManyAsThereAreNumbers: sums of them are not computed where they overflow.
// TestOneLongHoldRefusesNobody who would be served long before the deadline.
func TestOneLongHoldRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1)
		hold := func(d time.Duration) func() error { return func() error { time.Sleep(d); return nil } }
		burst := func() {
			ctx, cancel := context.WithTimeout(background, 500*time.Millisecond)
			defer cancel()
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() { assert.NoError(t, l.Do(ctx, 1, hold(2*time.Millisecond))) })
			}
			all.Wait()
		}
		burst()
		var all sync.WaitGroup
		all.Go(func() { assert.NoError(t, l.Do(background, 1, hold(2*time.Second))) })
		synctest.Wait()
		all.Go(func() { assert.NoError(t, l.Do(background, 1, hold(2*time.Millisecond))) })
		all.Wait()
		burst()
	})
}

func TestUnitsMayBeAsManyAsThereAreNumbers(t *testing.T) {
	l := New(math.MaxInt)
	require.NoError(t, l.Acquire(t.Context(), 1))
	require.False(t, l.TryAcquire(math.MaxInt))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Acquire(ctx, math.MaxInt), context.Canceled)
	require.True(t, l.TryAcquire(math.MaxInt-1))
	require.Equal(t, math.MaxInt, l.Stats().Used)
}

func TestPatienceBoundsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1).Patience(time.Second)
		require.NoError(t, l.Acquire(background, 1))
		start := time.Now()
		require.ErrorIs(t, l.Acquire(background, 1), ErrLate)
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, Stats{Used: 1, Admitted: 1, Late: 1}, l.Stats())
	})
}

func TestWhereNobodyMayWaitACallerIsRefused(t *testing.T) {
	l := New(1).Waiting(0)
	require.NoError(t, l.Acquire(background, 1))
	require.Equal(t, ErrFull, l.Acquire(background, 1))
	l.Release(1)
	require.NoError(t, l.Acquire(background, 1))
}

func TestATaskThatWaitsHoldsNoWorker(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	l := New(1)
	require.NoError(t, l.Acquire(background, 1))
	g, ctx := pool.NewGroup(p)
	for range 10 {
		g.Go(func() error { return l.Do(ctx, 1, func() error { return nil }) })
	}
	g.Go(func() error { l.Release(1); return nil })
	require.NoError(t, g.Wait())
}

func TestAPanicGivesTheUnitsBack(t *testing.T) {
	l := New(1)
	require.Panics(t, func() { _ = l.Do(background, 1, func() error { panic("f") }) })
	require.True(t, l.TryAcquire(1))
}

func TestMisuseIsSaid(t *testing.T) {
	l := New(2)
	var nowhere context.Context
	require.ErrorContains(t, l.Acquire(background, 3), "Limiter.Acquire of 3 units: this limiter has 2")
	require.ErrorContains(t, l.Acquire(background, 0), "at least 1")
	require.ErrorContains(t, l.Acquire(nowhere, 1), "nil context")
	require.ErrorContains(t, l.Do(background, 1, nil), "nil function")
	for want, misuse := range map[string]func(){
		"limit: New(0): a limiter has at least one unit":                                                     func() { New(0) },
		"limit: Limiter.Waiting(-1): the bound must be at least 0; leave it out for none":                    func() { New(1).Waiting(-1) },
		"limit: Limiter.Patience(0s): the bound must be above 0; use Waiting(0) if nobody should wait":       func() { New(1).Patience(0) },
		"limit: Limiter.Release of 1 units: 0 are in flight; give back what was taken, once, and at least 1": func() { l.Release(1) },
		"limit: Limiter.TryAcquire of 3 units: this limiter has 2, and a caller takes at least 1":            func() { l.TryAcquire(3) },
	} {
		require.PanicsWithError(t, want, misuse)
	}
	require.Equal(t, Stats{}, l.Stats())
}
