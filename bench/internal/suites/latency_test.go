package suites

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// inline is a pool whose submit does the task.
func inline(before func(i int)) opener {
	return func(_ runner.Env, task func(i int)) (func(i int) error, func(), error) {
		return func(i int) error { before(i); task(i); return nil }, func() {}, nil
	}
}

func TestArrivalsFindLostAndDoubledTasks(t *testing.T) {
	env := runner.Env{Tiny: true, Workers: 1}
	a := arrivals{period: 10 * time.Microsecond, burst: 2}
	one := gauge.NewChore(1)
	sample, err := a.run(env, one, inline(func(int) {}))
	require.NoError(t, err)
	assert.Len(t, sample.Values, len(latencyMetrics))

	twice := func(_ runner.Env, task func(i int)) (func(i int) error, func(), error) {
		return func(i int) error { task(i / 2 * 2); return nil }, func() {}, nil
	}
	_, err = a.run(env, one, twice)
	assert.EqualError(t, err, "gave 0 for the number of tasks done once, expected 2")

	_, err = a.run(env, gauge.Chore{}, inline(func(int) {}))
	assert.EqualError(t, err, "gave 0 for the number of tasks done once, expected 2")

	refusing := func(runner.Env, func(i int)) (func(i int) error, func(), error) {
		return func(int) error { return assert.AnError }, func() {}, nil
	}
	_, err = a.run(env, one, refusing)
	assert.ErrorIs(t, err, assert.AnError)
}

// A submitter that is kept busy delays the tasks that become due meanwhile, and that
// counts; one that oversleeps does not count.
func TestLatencyCountsFromWhenATaskWasDue(t *testing.T) {
	const period, stall = time.Millisecond, 20 * time.Millisecond
	s := newStarts(10, gauge.NewChore(1))
	a := arrivals{period: period, hot: true}
	require.NoError(t, a.drive(s, 0, 10, func(i int) error {
		s.task(i)
		if i == 0 {
			time.Sleep(stall)
		}
		return nil
	}))
	for i := range s.tasks {
		task := &s.tasks[i]
		assert.Equal(t, time.Duration(i)*period, task.due-s.tasks[0].due, "task %d", i)
		if i > 0 {
			assert.GreaterOrEqual(t, task.started-task.due, stall-time.Duration(i)*period, "task %d", i)
		}
	}

	s = newStarts(10, gauge.NewChore(1))
	a.hot = false
	late := 0
	require.NoError(t, a.drive(s, 0, 10, func(i int) error {
		due := s.tasks[0].due + time.Duration(i)*period
		assert.GreaterOrEqual(t, s.tasks[i].due, due)
		assert.LessOrEqual(t, s.tasks[i].due, s.now())
		if s.tasks[i].due > due {
			late++
		}
		s.task(i)
		return nil
	}))
	assert.NotZero(t, late, "no timer is always exact")
}

func TestOpenersRunEveryTaskOnce(t *testing.T) {
	env := runner.Env{Workers: 2}
	for name, open := range map[string]opener{
		"heist": openHeist(), "go": goLibrary.opener, "channel": channelLibrary.opener, "errgroup": errgroupLibrary.opener, "none": openNone,
	} {
		var ran [100]atomic.Int32
		var g goal
		submit, stop, err := open(env, func(i int) { ran[i].Add(1); g.add(1) })
		require.NoError(t, err, name)
		require.NoError(t, exercise(&g, submit), name)
		stop()
		for i := range ran {
			assert.EqualValues(t, 1, ran[i].Load(), "%s, task %d", name, i)
		}
	}
}

func TestLitterIsCollected(t *testing.T) {
	count := 0
	var walk func(*twig)
	walk = func(t *twig) {
		if t != nil {
			count++
			walk(t.left)
			walk(t.right)
		}
	}
	walk(grow(4))
	assert.Equal(t, 15, count)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stop := litter()
	time.Sleep(20 * time.Millisecond)
	stop()
	runtime.ReadMemStats(&after)
	assert.NotZero(t, after.Mallocs-before.Mallocs)
}

func TestUsageIsNeverZero(t *testing.T) {
	assert.InDeltaSlice(t, []float64{0.0002, 2}, perSecond(gauge.Usage{}, 500*time.Millisecond), 1e-9)
	u := gauge.Usage{CPU: 30 * time.Millisecond, Wakeups: 70}.Since(gauge.Usage{CPU: 20 * time.Millisecond, Wakeups: 20})
	assert.InDeltaSlice(t, []float64{2, 100}, perSecond(u, 500*time.Millisecond), 1e-9)
	_, ok := contract.Compare(perSecond(u, time.Second), perSecond(gauge.Usage{}, time.Second), contract.Lower)
	assert.True(t, ok)
}

func TestExerciseFindsDoubledTasks(t *testing.T) {
	var g goal
	err := exercise(&g, func(int) error { g.add(1); g.add(1); return nil })
	assert.EqualError(t, err, "gave 200 for the number of tasks done, expected 100")
	assert.ErrorIs(t, exercise(&g, func(int) error { return assert.AnError }), assert.AnError)
}

func TestSupplyKeepsUpAndEnds(t *testing.T) {
	for name, open := range map[string]opener{"heist": openHeist(), "go": goLibrary.opener, "channel": channelLibrary.opener} {
		s := &supply{work: gauge.NewChore(100), blocks: name == "channel"}
		submit, stop, err := open(runner.Env{Workers: 2}, s.task)
		require.NoError(t, err, name)
		s.submit = submit
		s.hand(highTide)
		require.Eventually(t, func() bool { return s.right.Load() > 10*highTide }, patience, time.Millisecond, name)
		assert.LessOrEqual(t, s.left.Load(), int64(highTide), name)
		assert.NoError(t, s.end(), name)
		assert.Zero(t, s.left.Load(), name)
		stop()
	}
}

func TestSupplyFindsWhatIsWrong(t *testing.T) {
	s := &supply{work: gauge.Chore{}}
	s.submit = func(i int) error { s.task(i); return nil }
	s.stopped.Store(true) // or a task that runs in submit would submit more
	s.hand(10)
	assert.EqualError(t, s.end(), "gave 0 for the number of tasks done, expected 10")

	s = &supply{work: gauge.NewChore(1)}
	s.submit = func(int) error { return assert.AnError }
	s.hand(10)
	assert.ErrorIs(t, s.end(), assert.AnError)
}

func TestNeighboursAlone(t *testing.T) {
	done := int64(0)
	sample, err := watchNeighbours(runner.Env{Tiny: true, Time: 1}, func() int64 { done++; return done }, true)
	require.NoError(t, err)
	values := sample.Values
	require.Len(t, values, 6)
	for i, v := range values {
		assert.Positive(t, v, i)
	}
	assert.LessOrEqual(t, values[0], values[1])
	assert.LessOrEqual(t, values[2], values[3])
}

// reader is what comes back from the echo.
type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func TestClientFindsAWrongEcho(t *testing.T) {
	w := &watch{start: time.Now(), period: time.Millisecond, net: gauge.NewDurations()}
	sent := uint64(0)
	err := w.receive(reader(func(p []byte) (int, error) {
		m := parcel(sent / 2 * 2)
		sent++
		return copy(p, m[:]), nil
	}))
	var wrong runner.Wrong
	require.True(t, errors.As(err, &wrong), err)
	assert.Equal(t, "echo 1", wrong.What)
	assert.EqualValues(t, 2, w.echoes.Load())
}
