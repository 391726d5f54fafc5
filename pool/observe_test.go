package pool

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"runtime/trace"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
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
	const slept, least = 20 * time.Millisecond, 18 * time.Millisecond // the CPU's clock is compared with the system's for 40 us at a time
	n := testutil.Stress(4000)
	for range n {
		require.NoError(t, p.Go(func(*Worker) {}))
	}
	require.NoError(t, p.Go(func(*Worker) { time.Sleep(slept) }))
	requireCloses(t, p) // ends the workers: what they have measured stays
	timings := p.Timings()
	require.EqualValues(t, n+1, timings.Run.Count)
	require.GreaterOrEqual(t, timings.Run.Max(), least)
	require.NotZero(t, timings.Wait.Count, "one in 16 is measured")
	require.Less(t, timings.Wait.Count, uint64(n/2))
	s := p.Stats()
	require.GreaterOrEqual(t, s.Computing, least)
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
	var waited time.Duration
	require.NoError(t, p.Go(func(w *Worker) {
		w.Block(func() { time.Sleep(20 * time.Millisecond) })
		waited = p.duration(uint64(w.waited))
	}))
	requireCloses(t, p)
	require.NotZero(t, waited)
	require.LessOrEqual(t, p.Stats().Computing+waited, p.Timings().Run.Max(), "of the same clock; Max is rounded up by an eighth")
}

// TestSearchingLeavesOutWhatGoesToOthers: with one P a worker that has nothing left lets the goroutine go on that waited for its task.
func TestSearchingLeavesOutWhatGoesToOthers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, WithWorkers(1), WithTimings())
	gave := 0
	var others time.Duration
	for rounds := 0; gave < 20 && rounds < 10_000; rounds++ {
		over := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			w.asideAfter = 0 // as if the last turn had been short
			close(over)
		}))
		<-over
		if !p.core.Rests() { // the worker has given way, and is not idle yet
			gave++
		}
		begun := time.Now()
		work(2_000_000)
		others += time.Since(begun)
		require.True(t, testutil.Eventually(p.core.Rests))
	}
	require.Positive(t, gave)
	require.Less(t, p.Stats().Searching, others/2)
}

func TestStatsCountWhatBecameOfTasks(t *testing.T) {
	ctx := context.Background()
	p := newPool(t, WithWorkers(1), WithQueueBound(1), WithPanicHandler(func(*PanicError) {}))
	hold, held := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(held); testutil.Compute(hold) }))
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
	require.EqualValues(t, 2, s.Refused)
	require.EqualValues(t, 1, s.RefusedCallers)
	require.EqualValues(t, 1, s.Late)
	require.EqualValues(t, 1, s.Skipped)
	require.EqualValues(t, 1, s.Panicked)
	require.Equal(t, inspect.RoleWorker, s.Workers[0].Role)
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

	g, _ := NewGroup(p)
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
	if p.core.Sleep.Choose(0) {
		p.places[0].core.WakeUp()
	}
	requireAtRest(t, p)
	require.True(t, testutil.Eventually(func() bool { return p.Stats().Total().Fruitless > before.Fruitless }))
}

// TestStatsAndLoadReadEachCounterOnce: no two are mixed up, and none is left out.
func TestStatsAndLoadReadEachCounterOnce(t *testing.T) {
	onMachine(t, pretended(2, 1))
	c, err := configure([]Option{WithPinning(PinCores), WithWorkers(2), WithTimings()})
	require.NoError(t, err)
	p := makePool(c)
	waiter := p.newWorker(p.places[0].core.Placement())
	waiter.core.BeginBeside(&p.places[0].core.Roster)
	waiter.core.Lend(nil, false)
	p.cancelled.Store(2)
	p.refused.Store(3)
	p.late.Store(4)
	p.skipped.Store(5)
	p.panicked.Store(6)
	p.dropped.Store(70)
	p.delayed.Store(800)
	for p.core.Active() < 9 {
		p.core.Enter()
	}
	nothing := taskOf(func(*Worker) {})
	for i, n := range map[Priority]int{PriorityHigh: 1, PriorityNormal: 2, PriorityLow: 3} {
		for range n {
			require.True(t, p.nodes[1].queues[i].Push(nothing))
		}
		require.True(t, p.nodes[0].queues[i].Push(nothing))
	}
	p.core.Sleep.Add(3 * policy.OneSearching)
	for waits, n := range map[*waitsFor]int{nil: 2, {what: "anything"}: 1} {
		for range n {
			guest := p.newGuest(&p.core.Placements()[p.nodes[0].guestsAt], &p.nodes[0].guests[0].Roster)
			guest.code.Set(someCode)
			guest.waitsFor.Store(waits)
		}
	}
	pl := p.places[1]
	require.True(t, pl.ring.Push(nothing))
	pl.lifoSlot.Store(nothing)
	for i, counter := range []interface{ Add(int) }{&pl.tasks, &pl.looks, &pl.core.Parks, &pl.core.Wakes, &pl.core.Fruitless, &pl.core.Lends, &pl.gaveWay, &pl.displaced} {
		counter.Add(10 + i)
	}
	pl.stealStats.succeeded(0, 0, 3)
	pl.stealStats.succeeded(0, 0, 4)
	pl.stealStats.succeeded(2, len(p.places), 2)
	pl.stealStats.failed(0, true)
	pl.stealStats.failed(2, false)
	// Half of what was counted and measured is of a worker that has ended.
	second := heist.TicksIn(time.Second)
	for range 2 {
		w := p.newWorker(pl.core.Placement())
		w.publishes.Add(20)
		w.timings.computing.Add(int(30 * second))
		w.timings.searching.Add(int(40 * second))
		for range 3 {
			w.timings.wait.add(second)
		}
		w.timings.run.add(60 * second)
		if w.id == 0 {
			p.workers.remove(w)
		}
	}

	s := p.Stats()
	require.InDelta(t, time.Minute, s.Computing, float64(time.Millisecond))
	require.InDelta(t, 80*time.Second, s.Searching, float64(time.Millisecond))
	s.Computing, s.Searching = 0, 0
	require.Equal(t, inspect.WorkerStats{
		Role: inspect.RoleWorker, State: inspect.Away, Queued: 2, Tasks: 10, Looks: 11, Parks: 12, Wakes: 13, Fruitless: 14, Lent: 15, GaveWay: 16, Displaced: 17,
		Steals: 3, Items: 9, LostRaces: 1,
	}, s.Workers[1])
	s.Workers = nil
	require.Equal(t, inspect.Stats{
		Waiting: 1, Cancelled: 2, Refused: 3, Late: 4, Skipped: 5, Panicked: 6, Published: 40,
		Submitted: 9 + 800 + 70 + 10 + 2,
		Tiers:     []inspect.TierStats{{Name: "same core", Attempts: 3, Steals: 2, Items: 7, LostRaces: 1}, {Name: "same node"}, {Name: "nodes at distance 21", Attempts: 2, Steals: 1, Items: 2}},
	}, s)
	require.Equal(t, inspect.Load{
		Workers: 2, Running: 5, Searching: 3, Waiting: 1, CallersInside: 2, Queued: inspect.Queued{High: 2, Normal: 5, Low: 4}, Delayed: 800,
	}, p.Load())
	for thief, row := range p.StealMatrix() {
		for victim, n := range row {
			want := map[[2]int]uint64{{1, 0}: 2, {1, 2}: 1}[[2]int{thief, victim}]
			require.Equal(t, want, n, "%d from %d", thief, victim)
		}
	}

	for name, c := range map[string]struct {
		h     inspect.Histogram
		count uint64
		each  time.Duration
	}{"wait": {p.Timings().Wait, 6, time.Second}, "run": {p.Timings().Run, 2, time.Minute}} {
		require.Len(t, c.h.Buckets, 1, name)
		end := c.h.Buckets[0].UpTo
		require.Equal(t, inspect.Histogram{Buckets: []inspect.Bucket{{UpTo: end, Count: c.count}}, Count: c.count, Sum: end * time.Duration(c.count)}, c.h, name)
		require.GreaterOrEqual(t, end, c.each*999/1000, name)
		require.LessOrEqual(t, end, c.each*1126/1000, name)
	}
}

// began makes it look as if the worker's job had begun so much earlier.
func (w *Worker) began(ago time.Duration) { w.since.Store(heist.Ticks() - heist.TicksIn(ago)) }

// TestComputingIsOfTasksAndForksWithoutTheirWaits, and Run is of tasks with their waits. A wait counts for the task
// that waited alone.
func TestComputingIsOfTasksAndForksWithoutTheirWaits(t *testing.T) {
	p := newPool(t, WithWorkers(2), WithTimings())
	inTask := func(f func(w *Worker)) {
		require.NoError(t, p.Go(f))
		requireAtRest(t, p)
	}
	grows := func(hours time.Duration, runs uint64, f func()) {
		t.Helper()
		before, ran := p.Stats().Computing, p.Timings().Run.Count
		f()
		require.InDelta(t, hours*time.Hour, p.Stats().Computing-before, float64(10*time.Minute))
		require.Equal(t, runs, p.Timings().Run.Count-ran)
	}
	for range 3 { // on either worker
		grows(2, 1, func() {
			inTask(func(w *Worker) {
				w.began(3 * time.Hour)
				w.Block(func() {
					waits := *w.waitsFor.Load()
					waits.since -= heist.TicksIn(time.Hour)
					w.waitsFor.Store(&waits)
				})
			})
		})
		grows(5, 1, func() { inTask(func(w *Worker) { w.began(5 * time.Hour) }) })
	}
	grows(7, 0, func() {
		require.NoError(t, p.Run(func(w *Worker) {
			stolenJoin(w, nop[int], func(w *Worker) int { w.began(7 * time.Hour); return 0 })
		}))
		requireAtRest(t, p)
	})
	require.Greater(t, p.Timings().Run.Max(), 4*time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	grows(0, 2, func() { // skipped tasks, too
		require.NoError(t, p.Pause(ctx))
		for range 2 {
			require.NoError(t, p.Submit(ctx, func(*Worker) {}))
		}
		cancel()
		p.Resume()
		requireAtRest(t, p)
	})
}

// TestWhatWorkersAndGuestsPublishedIsCountedWhenTheyAreGone.
func TestWhatWorkersAndGuestsPublishedIsCountedWhenTheyAreGone(t *testing.T) {
	const guests = 4 * core.KeptGuests
	p := newPool(t, WithWorkers(2))
	var published atomic.Int64
	f := func(w *Worker) {
		before := w.publishes.Load()
		w.Do(func(w *Worker) { w.expose() }, func(*Worker) {})
		published.Add(int64(w.publishes.Load() - before))
	}
	together := testutil.NewBarrier(guests)
	testutil.Together(guests, func(int) {
		require.NoError(t, p.Go(f))
		_ = p.Run(func(w *Worker) { f(w); together.Wait() })
	})()
	requireCloses(t, p)
	require.NotZero(t, published.Load())
	require.EqualValues(t, published.Load(), p.Stats().Published)
}

// TestEachRefusalIsCountedOnce, for each function of a batch, and nothing else is.
func TestEachRefusalIsCountedOnce(t *testing.T) {
	nothing := func(*Worker) {}
	future := func(*Worker) (int, error) { return 0, nil }
	ctx := context.Background()
	type refused struct {
		name string
		n    int
		call func(p *Pool, w *Worker) error
	}
	tasks := []refused{
		{"TrySubmit", 1, func(p *Pool, _ *Worker) error { return p.TrySubmit(nothing) }},
		{"Async at Try", 1, func(p *Pool, _ *Worker) error { _, err := tryAsync(p, future); return err }},
	}
	callers := []refused{
		{"Try", 1, func(p *Pool, _ *Worker) error { return p.Try().Run(nothing) }},
		{"Try", 1, func(p *Pool, _ *Worker) error { return Do(p.With(ctx).Try(), nothing) }},
	}
	others := []refused{
		{"Go", 1, func(p *Pool, _ *Worker) error { return p.Go(nothing) }},
		{"Worker.Go", 1, func(_ *Pool, w *Worker) error { return w.Go(nothing) }},
		{"Submit", 1, func(p *Pool, _ *Worker) error { return p.Submit(ctx, nothing) }},
		{"Submit high", 1, func(p *Pool, _ *Worker) error { return p.Submit(ctx, nothing, PriorityHigh) }},
		{"Submit later", 1, func(p *Pool, _ *Worker) error { return p.Submit(ctx, nothing, Delay(time.Hour)) }},
		{"SubmitAll", 3, func(p *Pool, _ *Worker) error {
			_, err := p.SubmitAll(ctx, []func(*Worker){nothing, nothing, nothing})
			return err
		}},
		{"Async", 1, func(p *Pool, _ *Worker) error { _, err := Async(p, future).Wait(ctx); return err }},
		{"Run", 1, func(p *Pool, _ *Worker) error { return p.Run(nothing) }},
		{"View.Run", 1, func(p *Pool, _ *Worker) error { return p.With(ctx).Run(nothing) }},
		{"Do", 1, func(p *Pool, _ *Worker) error { return Do(p, nothing) }},
		{"ForRange", 1, func(p *Pool, _ *Worker) error { return ForRange(p, 3, func(int, int) {}) }},
		{"ForRange with a worker", 1, func(p *Pool, _ *Worker) error { return ForRange(p, 3, func(*Worker, int, int) {}) }},
		{"Recursion.Run", 1, func(p *Pool, _ *Worker) error { _, err := forkFib.Run(p, 3); return err }},
	}
	counted := func(t *testing.T, p *Pool, w *Worker, c refused, want error) {
		t.Helper()
		before := p.Stats()
		require.ErrorIs(t, c.call(p, w), want, c.name)
		after := p.Stats()
		tasks, callers := after.Refused-before.Refused, after.RefusedCallers-before.RefusedCallers
		require.EqualValues(t, c.n, tasks+callers, c.name)
		require.Equal(t, regexp.MustCompile("^Try$|Run$|^Do$|^ForRange").MatchString(c.name), callers > 0, c.name)
	}
	p := newPool(t, WithWorkers(1), WithQueueBound(1), WithCallers(1))
	release := occupyAll(t, p)
	require.NoError(t, p.TrySubmit(nothing))
	leave, inside := make(chan struct{}), make(chan *Worker, 1)
	left := testutil.Together(1, func(int) { _ = p.Run(func(w *Worker) { inside <- w; testutil.Compute(leave) }) })
	w := <-inside
	for _, c := range slices.Concat(tasks, callers) {
		counted(t, p, w, c, ErrFull)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	before := p.Stats().Refused
	require.ErrorIs(t, p.Submit(ended, nothing), context.Canceled)
	require.ErrorIs(t, p.With(ended).Run(nothing), context.Canceled)
	require.Error(t, p.Go(nil))
	require.Equal(t, before, p.Stats().Refused, "a context has ended, and a function is nil")

	wait := testutil.Together(1, func(int) { // those who wait when the pool closes are refused, too
		_, err := p.SubmitAll(ctx, []func(*Worker){nothing, nothing, nothing})
		require.ErrorIs(t, err, ErrClosed)
	})
	require.True(t, waits(p, 1))
	_, _, err := p.beginClose(ctx, "Close")
	require.NoError(t, err)
	wait()
	require.EqualValues(t, 3, p.Stats().Refused-before)
	for _, c := range slices.Concat(tasks, callers, others) { // closed comes before full
		counted(t, p, w, c, ErrClosed)
	}
	release()
	close(leave)
	left()
	p.drain()

	before = Serial().(*Pool).Stats().Refused
	_, err = Serial().(*Pool).SubmitAll(ctx, []func(*Worker){nothing, nothing})
	require.ErrorIs(t, err, errSerial)
	require.ErrorIs(t, Serial().(*Pool).Go(nothing), errSerial)
	require.EqualValues(t, 3, Serial().(*Pool).Stats().Refused-before)
}

// TestATraceHasNamesOfTasksAndRegionsOfWhatThePoolDoes.
func TestATraceHasNamesOfTasksAndRegionsOfWhatThePoolDoes(t *testing.T) {
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Skip(err)
	}
	p := newPool(t, WithWorkers(2))
	require.NoError(t, p.Submit(context.Background(), func(w *Worker) {
		w.Named("named inside", func() { stolenJoin(w, nop[int], nop[int]) })
		w.Block(func() {})
	}, Named("a name of its own")))
	require.NoError(t, p.Go(theTask(make(chan string, 1))))
	require.NoError(t, p.Run(func(*Worker) {}))
	require.NoError(t, Do(p, func(*Worker) {}))
	requireAtRest(t, p)
	trace.Stop()
	for _, has := range []string{
		"a name of its own", "named inside", "theTask", "heist: task", "heist: fork", "heist: steal", "heist: call", "heist: wait", "heist: search", "heist: park",
	} {
		require.True(t, bytes.Contains(b.Bytes(), []byte(has)), has)
	}
}

func TestAddedPlacesAreTheirOwnRows(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithTuning(Tuning{MaxWorkers: 2}))
	require.NoError(t, p.Resize(2))
	s := p.Stats()
	require.Equal(t, inspect.RoleAdded, s.Workers[len(s.Workers)-1].Role)
}

func TestLoadTellsWhoRunsWaitsAndSleeps(t *testing.T) {
	needsStatuses(t) // or a caller that waits is admitted after 10 ms
	p := newPool(t, WithWorkers(2), WithCallers(1))
	requireAtRest(t, p)
	require.Equal(t, inspect.Load{Workers: 2, Parked: 2}, p.Load())
	require.Contains(t, p.Load().String(), "2 parked")

	release := make(chan struct{})
	inside := make(chan struct{}, 4)
	wait := func() { inside <- struct{}{}; <-release }
	compute := func() { inside <- struct{}{}; testutil.Compute(release) }
	require.NoError(t, p.Go(func(*Worker) { compute() }))
	require.NoError(t, p.Go(func(w *Worker) { w.Block(wait) }))
	require.NoError(t, p.Submit(context.Background(), func(*Worker) {}, Delay(time.Hour)))
	go func() { _ = p.Run(func(*Worker) { compute() }) }()
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

func TestAWaitCountsOnceAsLent(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Go(func(w *Worker) { w.Block(func() { w.Block(func() {}) }) }))
	require.NoError(t, p.Run(func(w *Worker) { w.Block(func() {}) }))
	requireAtRest(t, p)
	require.EqualValues(t, 1, p.Stats().Total().Lent, "the inner wait has no place to lend, and a guest has none")
}

func TestATaskGoesByItsName(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for _, submit := range []func(f func(w *Worker)) error{
		func(f func(w *Worker)) error { return p.Submit(context.Background(), f, Named("resize")) },
		func(f func(w *Worker)) error { return p.TrySubmit(f, Named("resize")) },
		func(f func(w *Worker)) error {
			_, err := tryAsync(p, func(w *Worker) (int, error) { f(w); return 0, nil }, Named("resize"))
			return err
		},
		func(f func(w *Worker)) error {
			Async(p, func(w *Worker) (int, error) { f(w); return 0, nil }, Named("resize"))
			return nil
		},
	} {
		seen := make(chan string)
		require.NoError(t, submit(func(w *Worker) { seen <- p.Snapshot().String() }))
		require.Contains(t, <-seen, " resize, ")
	}
}

func TestATaskWithoutANameGoesByThatOfItsFunction(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := newPool(t, WithWorkers(1), WithTimings())
	g, _ := NewGroup(p.With(ctx))
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
		require.NoError(t, p.Go(func(*Worker) { testutil.Compute(hold) }))
	}
	state(0, inspect.Runs)
	state(1, inspect.Runs)
	close(hold)
	state(0, inspect.Parked)
	require.NoError(t, p.Resize(1))
	state(1, inspect.Away)
}
