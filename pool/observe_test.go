package pool

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool/inspect"
)

func goexitNow() { runtime.Goexit() }

func TestEachDurationLiesInItsBucket(t *testing.T) {
	last := -1
	for _, ticks := range []int64{0, 1, 7, 8, 15, 16, 17, 31, 32, 1000, 1 << 40, math.MaxInt64} {
		b := bucketOf(ticks)
		require.GreaterOrEqual(t, b, last)
		last = b
		require.Less(t, b, buckets)
		require.LessOrEqual(t, uint64(ticks), bucketEnd(b))
		if b > 0 {
			require.Greater(t, uint64(ticks), bucketEnd(b-1))
		}
	}
	for range testutil.Stress(10_000) {
		ticks := rand.Int64() >> rand.IntN(63)
		end := bucketEnd(bucketOf(ticks))
		require.LessOrEqual(t, uint64(ticks), end)
		require.LessOrEqual(t, float64(end), float64(ticks)*1.125+1, "an eighth wide")
	}
	require.Zero(t, bucketOf(-5), "clocks of two CPUs may differ")
}

func TestTimingsCountEachTaskAndSomeWaits(t *testing.T) {
	p := newPool(t, WithWorkers(2), WithTimings())
	n := testutil.Stress(4000)
	for range n {
		require.NoError(t, p.Go(func(*Worker) {}))
	}
	require.NoError(t, p.Go(func(*Worker) { time.Sleep(20 * time.Millisecond) }))
	requireCloses(t, p) // ends the workers: what they have measured stays
	timings := p.Timings()
	require.EqualValues(t, n+1, timings.Run.Count)
	require.GreaterOrEqual(t, timings.Run.Max(), 20*time.Millisecond)
	require.NotZero(t, timings.Wait.Count, "one in 16 is measured")
	require.Less(t, timings.Wait.Count, uint64(n/2))
	s := p.Stats()
	require.GreaterOrEqual(t, s.Computing, 20*time.Millisecond)
	require.NotZero(t, s.Searching)
}

func TestWithoutTimingsNothingIsMeasured(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Go(func(*Worker) {}))
	requireCloses(t, p)
	require.Equal(t, inspect.Timings{}, p.Timings())
	require.Zero(t, p.Stats().Computing)
	require.Equal(t, "none", p.Timings().Run.String())
}

func TestComputingLeavesOutWaits(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithTimings())
	require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { time.Sleep(50 * time.Millisecond) }) }))
	requireCloses(t, p)
	require.GreaterOrEqual(t, p.Timings().Run.Max(), 50*time.Millisecond)
	require.Less(t, p.Stats().Computing, 50*time.Millisecond)
}

func TestStatsCountWhatBecameOfTasks(t *testing.T) {
	ctx := context.Background()
	p := newPool(t, WithWorkers(1), WithQueueBound(1), WithPanicHandler(func(*PanicError) {}))
	hold, held := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(held); <-hold }))
	<-held
	require.NoError(t, p.TrySubmit(func(*Worker) { panic("on purpose") }))
	require.ErrorIs(t, p.TrySubmit(func(*Worker) {}), ErrFull)
	require.NoError(t, p.Submit(ctx, func(*Worker) {}, PriorityHigh, StartBy(time.Now().Add(-time.Second), func(*Worker) {})))
	require.NoError(t, p.Submit(ctx, func(*Worker) {}, PriorityLow))
	ended, cancel := context.WithCancel(ctx)
	require.NoError(t, p.Submit(ended, func(*Worker) {}, PriorityHigh))
	cancel()
	require.NoError(t, p.Submit(ctx, func(*Worker) {}, Delay(time.Microsecond)))
	l := p.Load()
	require.Equal(t, 1, l.Queued.Low)
	require.Equal(t, 2, l.Queued.High)
	require.Equal(t, 1, l.Running)
	close(hold)
	requireCloses(t, p)
	require.ErrorIs(t, p.Go(func(*Worker) {}), ErrClosed)
	require.ErrorIs(t, p.Run(func(*Worker) {}), ErrClosed)
	s := p.Stats()
	require.EqualValues(t, 6, s.Submitted)
	require.EqualValues(t, 3, s.Refused)
	require.EqualValues(t, 1, s.Late)
	require.EqualValues(t, 1, s.Skipped)
	require.EqualValues(t, 1, s.Panicked)
	require.Equal(t, inspect.RoleWorker, s.Workers[0].Role)
	require.Equal(t, inspect.RoleGuest, s.Workers[1].Role)
}

// TestSubmittedCountsWhatNoWorkerComesTo because it is cancelled, dropped or given back. The count
// never goes down, and includes what was skipped.
func TestSubmittedCountsWhatNoWorkerComesTo(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	p := newPool(t, WithWorkers(1), WithTimings())
	for range 5 {
		require.NoError(t, p.Submit(ctx, func(*Worker) {}, Delay(time.Hour)))
	}
	cancel()
	require.True(t, testutil.Eventually(func() bool { return p.Stats().Skipped == 5 }))
	require.EqualValues(t, 5, p.Stats().Submitted)

	g, _ := p.Group(context.Background())
	g.AtMost(1)
	for range 5 {
		g.Go(func() error { return errors.New("the first") })
	}
	require.Error(t, g.Wait())
	s := p.Stats()
	require.LessOrEqual(t, s.Skipped, s.Submitted)
	require.EqualValues(t, 10, s.Submitted)

	late := Async(p, func(*Worker) (int, error) { return 0, nil }, Delay(time.Hour))
	require.True(t, late.Cancel())
	require.NoError(t, p.WaitIdle(context.Background())) // a worker has discarded it, so Abort does not find it
	require.NoError(t, p.Pause(context.Background()))
	missed := Async(p, func(*Worker) (int, error) { return 0, nil }, StartBy(time.Now().Add(-time.Hour), func(*Worker) {}))
	require.True(t, missed.Cancel())
	const queued = 100 // some of them have their waits measured
	for range queued {
		require.NoError(t, p.Go(func(*Worker) {}))
	}
	left, err := p.Abort(context.Background())
	require.NoError(t, err)
	require.Len(t, left, queued+1)
	for _, f := range left {
		f(nil)
	}
	s = p.Stats()
	require.EqualValues(t, 12+queued, s.Submitted)
	require.EqualValues(t, 5+4+2, s.Skipped)
	require.Zero(t, s.Late, "what was cancelled is not late")
	_, err = p.SubmitAll(context.Background(), make([]func(*Worker), 0))
	require.ErrorIs(t, err, ErrClosed)
	nothing := func(*Worker) {}
	_, err = p.SubmitAll(context.Background(), []func(*Worker){nothing, nothing, nothing})
	require.ErrorIs(t, err, ErrClosed)
	require.EqualValues(t, 3, p.Stats().Refused)
	require.Equal(t, inspect.Load{}, p.Load())
}

func TestStatsTellWakeUpsThatFoundNothing(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithTuning(Tuning{Spin: -1}))
	requireAtRest(t, p)
	before := p.Stats().Total()
	for range 10 {
		require.NoError(t, p.Go(func(*Worker) {}))
		requireAtRest(t, p)
	}
	after := p.Stats().Total()
	require.GreaterOrEqual(t, after.Wakes-before.Wakes, uint64(10))
	require.GreaterOrEqual(t, after.Parks, after.Fruitless)
	if p.sleep.Choose(0) {
		p.places[0].wakeUp()
	}
	requireAtRest(t, p)
	require.True(t, testutil.Eventually(func() bool { return p.Stats().Total().Fruitless > before.Fruitless }))
}

func TestAddedPlacesAreTheirOwnRows(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithTuning(Tuning{MaxWorkers: 2}))
	require.NoError(t, p.Resize(2))
	s := p.Stats()
	require.Equal(t, inspect.RoleAdded, s.Workers[len(s.Workers)-1].Role)
}

func TestLoadTellsWhoRunsWaitsAndSleeps(t *testing.T) {
	p := newPool(t, WithWorkers(2), WithCallers(1))
	requireAtRest(t, p)
	require.Equal(t, inspect.Load{Workers: 2, Parked: 2}, p.Load())
	require.Contains(t, p.Load().String(), "2 parked")

	release := make(chan struct{})
	inside := make(chan struct{}, 4)
	wait := func() { inside <- struct{}{}; <-release }
	require.NoError(t, p.Go(func(*Worker) { wait() }))
	require.NoError(t, p.Go(func(w *Worker) { w.Block(wait) }))
	require.NoError(t, p.Submit(context.Background(), func(*Worker) {}, Delay(time.Hour)))
	go func() { _ = p.Run(func(*Worker) { wait() }) }()
	for range 3 {
		<-inside
	}
	waiting := make(chan struct{})
	go func() { defer close(waiting); _ = p.Run(func(*Worker) {}) }()
	want := inspect.Load{Workers: 2, Running: 1, Parked: 1, Waiting: 1, CallersInside: 1, CallersWaiting: 1, Delayed: 1}
	require.True(t, testutil.Eventually(func() bool { return p.Load() == want }), "%v", p.Load())
	close(release)
	<-waiting
	_, err := p.Abort(context.Background())
	require.NoError(t, err)
}

func TestATaskGoesByItsName(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for _, submit := range []func(f func(w *Worker)) error{
		func(f func(w *Worker)) error { return p.Submit(context.Background(), f, Named("resize")) },
		func(f func(w *Worker)) error {
			Async(p, func(w *Worker) (int, error) { f(w); return 0, nil }, Named("resize"))
			return nil
		},
	} {
		seen := make(chan string)
		require.NoError(t, submit(func(w *Worker) { seen <- p.Snapshot().String() }))
		require.Contains(t, <-seen, " resize\n")
	}
}

func TestATaskWithoutANameGoesByThatOfItsFunction(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := newPool(t, WithWorkers(1), WithTimings())
	g, _ := p.Group(ctx)
	seen := make(chan string, 1)
	for name, submit := range map[string]func(){
		"Go":      func() { _ = p.Go(theTask(seen)) },
		"Submit":  func() { _ = p.Submit(ctx, theTask(seen), StartBy(time.Now().Add(time.Hour), func(*Worker) {})) },
		"Group":   func() { g.GoWorker(func(w *Worker) error { theTask(seen)(w); return nil }) },
		"labels":  func() { labelledAs("x", func() { _ = p.Go(theTask(seen)) }) },
		"Run":     func() { _ = p.Run(theTask(seen)) },
		"Do":      func() { _ = Do(p, theTask(seen)) },
		"a place": func() { _ = p.With(ctx).Run(theTask(seen)) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // one in 16 has its wait measured
				submit()
				dump := <-seen
				require.Contains(t, dump, "TestATaskWithoutANameGoesByThatOfItsFunction") // into which theTask is inlined
			}
		})
	}
}

func theTask(seen chan string) func(w *Worker) {
	return func(w *Worker) { seen <- w.Pool().Snapshot().String() }
}

func TestALoopOfAGuestGoesByTheNameOfItsBody(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for _, g := range [][]Granularity{nil, {Grain(1)}} {
		var dump string
		require.NoError(t, ForRange(p, 4, func(w *Worker, lo, hi int) {
			if lo == 0 {
				dump = p.Snapshot().String()
			}
		}, g...))
		require.Contains(t, dump, "TestALoopOfAGuestGoesByTheNameOfItsBody")
	}
}

func TestObservationAllocatesNothingWhereNobodyAsked(t *testing.T) {
	p := newPool(t, WithName("named"), WithWorkers(1))
	f := func(*Worker) {}
	require.Zero(t, allocsPerRun(100, func() { _ = p.Go(f) }))
	if !goroutineIDAllocates {
		require.Zero(t, allocsPerRun(100, func() { _ = p.Run(f) }))
	}
}

func TestStatsSayWhatIsDoneInEachPlace(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	state := func(place int, want inspect.State) {
		t.Helper()
		require.True(t, testutil.Eventually(func() bool { return p.Stats().Workers[place].State == want }), want)
	}
	state(0, inspect.Parked)
	state(1, inspect.Parked)
	hold := make(chan struct{})
	for range 2 {
		require.NoError(t, p.Go(func(*Worker) { <-hold }))
	}
	state(0, inspect.Runs)
	state(1, inspect.Runs)
	guests := func(want inspect.State) func() bool {
		return func() bool {
			return slices.ContainsFunc(p.Stats().Workers[2:], func(w inspect.WorkerStats) bool { return w.State == want })
		}
	}
	require.False(t, guests(inspect.Runs)())
	guest := make(chan struct{})
	go func() { _ = p.Run(func(*Worker) { <-guest }) }()
	require.True(t, testutil.Eventually(guests(inspect.Runs)))
	close(guest)
	require.True(t, testutil.Eventually(func() bool { return !guests(inspect.Runs)() }))
	close(hold)
	state(0, inspect.Parked)
	require.NoError(t, p.Resize(1))
	state(1, inspect.Away)
}
