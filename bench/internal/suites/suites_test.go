package suites

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// What is measured must also be noticed when it is wrong, so these tests give each
// check something to find.

// faulty is a queue that loses or doubles every hundredth item.
type faulty struct {
	*locked
	losing bool
	pushes int
}

func (q *faulty) Push(it *item) bool {
	q.pushes++
	if q.pushes%100 == 0 {
		if q.losing {
			return true
		}
		q.locked.Push(it)
	}
	return q.locked.Push(it)
}

func TestContendedFindsLostAndDoubledItems(t *testing.T) {
	items := newItems(1000)
	_, err := contend(newLocked(4), items, 1)
	require.NoError(t, err)

	_, err = contend(&faulty{locked: newLocked(4), losing: true}, items, 1)
	assert.EqualError(t, err, "gave 990 for the number of items taken, expected 1000")
	_, err = contend(&faulty{locked: newLocked(4)}, items, 1)
	assert.EqualError(t, err, "gave 1010 for the number of items taken, expected 1000")
}

func TestLockedGrowsInOrder(t *testing.T) {
	items, q := newItems(100), newLocked(4)
	for i := range items {
		q.Push(&items[i])
		if i == 2 { // so that the buffer has wrapped when it grows
			it, result := q.Steal()
			assert.Equal(t, heist.Success, result)
			assert.Same(t, &items[0], it)
		}
	}
	assert.Same(t, &items[99], q.Pop())
	dst := make([]*item, 10)
	require.Equal(t, 10, q.PullBatch(dst))
	assert.Same(t, &items[1], dst[0])
	assert.Same(t, &items[10], dst[9])

	thief := newLocked(4)
	first, n := q.StealInto(thief, make([]*item, 100))
	assert.Equal(t, 44, n)
	assert.Same(t, &items[11], first)
	assert.Equal(t, 43, thief.size)
	assert.Equal(t, 44, q.size)
}

func TestLockedAndBufferedWhenEmpty(t *testing.T) {
	for _, q := range []stealable{newLocked(4), make(buffered, 4)} {
		assert.Nil(t, q.Pop())
		it, result := q.Steal()
		assert.Nil(t, it)
		assert.Equal(t, heist.Empty, result)
	}
	full := make(buffered, 1)
	assert.True(t, full.Push(new(item)))
	assert.False(t, full.Push(new(item)))
}

func TestHalvesFindsWhatIsOutOfOrder(t *testing.T) {
	h, err := newHalves(runner.Env{Tiny: true},
		func() (*locked, error) { return newLocked(ringCapacity), nil },
		func(q *locked) *item { it, _ := q.Steal(); return it })
	require.NoError(t, err)
	_, err = h.lap(
		func(q *locked, it *item) { q.Push(it) },
		func(i int) (*item, int) { return h.victims[i].Pop(), ringCapacity / 2 })()
	assert.EqualError(t, err, "gave 256 for the number of the item taken, expected 1")
}

func TestRelayFindsWhatIsOutOfOrder(t *testing.T) {
	q := newLocked(4)
	_, err := relay(runner.Env{Tiny: true},
		func(items []item) { q.Push(&items[1]) }, q.PullBatch)()
	assert.EqualError(t, err, "gave 2 for the number of the item taken, expected 1")
}

func TestFib(t *testing.T) {
	assert.Equal(t, 9227465, fibWant(35))
	assert.Equal(t, 14930351, fibForks(35))
	calls := 0
	var count func(n int)
	count = func(n int) {
		if n >= 2 {
			calls++
			count(n - 1)
			count(n - 2)
		}
	}
	count(10)
	assert.Equal(t, calls, fibForks(10))

	_, err := fibJob(10).lap(nil, func() (int, error) { return 10, nil })()
	assert.EqualError(t, err, "gave 10 for fib, expected 55")
}

func TestGoalFindsLostAndDoubledTasks(t *testing.T) {
	lose := batch{
		submit: func(int) error { return nil },
		wait:   func() error { return nil },
	}
	_, err := external(runner.Env{Tiny: true}, new(goal), 4, lose)
	assert.EqualError(t, err, "gave 0 for the number of tasks done, expected 2000")

	g := new(goal)
	twice := batch{
		submit: func(n int) error { g.add(int64(n)); g.add(1); return nil },
		wait:   func() error { return nil },
	}
	_, err = external(runner.Env{Tiny: true}, g, 1, twice)
	assert.EqualError(t, err, "gave 2001 for the number of tasks done, expected 2000")

	_, err = external(runner.Env{Tiny: true}, new(goal), 2, batch{
		submit: func(int) error { return assert.AnError },
		wait:   func() error { return nil },
	})
	assert.ErrorIs(t, err, assert.AnError)
}

func TestParseFindsFilesLeftOut(t *testing.T) {
	c := corpus{files: [][]byte{[]byte("package a; var x, y = 1, 2; func f() {}"), []byte("package b")}}
	c.want = parsed{files: 2, declarations: 2}
	env := runner.Env{Workers: 1}
	sample, err := c.run(env, func(all *parsing) error {
		all.file(0, 0)
		all.file(0, 1)
		return nil
	})
	require.NoError(t, err)
	assert.Contains(t, sample.Detail, "Worker 0: [")

	_, err = c.run(env, func(all *parsing) error { all.file(0, 1); return nil })
	assert.EqualError(t, err, "gave 1 files with 0 declarations for Go's source, expected 2 files with 2 declarations")
}

func TestUtilisation(t *testing.T) {
	shifts := make([]shift, 3)
	shifts[0].busy, shifts[0].files = 100*time.Millisecond, 7
	shifts[1].busy = 50 * time.Millisecond
	assert.Equal(t, ""+
		"Worker 0: [========================================] 100%  100ms, 7 files\n"+
		"Worker 1: [====================                    ]  50%  50ms, 0 files\n"+
		"Utilisation: 75% of 100ms\n", utilisation(shifts, 100*time.Millisecond))
	shifts[2].busy, shifts[2].files = 25*time.Millisecond, 1
	assert.Contains(t, utilisation(shifts, 100*time.Millisecond), ""+
		"Stand-in: [==========                              ]  25%  25ms, 1 files\n"+
		"Utilisation: 88% of 100ms\n")
}

// A timer that is pending changes how Go starts goroutines, and some programs have one.
func TestSuitesMeasureWithATimerAndWithout(t *testing.T) {
	for _, suite := range All() {
		states := make(map[string][]bool)
		for _, c := range suite.Cases {
			base := strings.TrimSuffix(c.Name, "-notimer")
			assert.Equal(t, base != c.Name, c.NoTimer, c.Name)
			states[base] = append(states[base], c.NoTimer)
		}
		for name, both := range states {
			switch suite.Name {
			case "latency", "service", "neighbour", "mixed", "idle":
				assert.Equal(t, []bool{false, true}, both, suite.Name+"/"+name)
			default:
				assert.Equal(t, []bool{false}, both, suite.Name+"/"+name)
			}
		}
	}
}

// TestNames holds the names that must not change.
func TestNames(t *testing.T) {
	got := make(map[string][]string)
	for _, suite := range All() {
		for _, c := range suite.Cases {
			if !c.NoTimer {
				got[suite.Name] = append(got[suite.Name], c.Name)
			}
			assert.NotEmpty(t, c.About)
			assert.NotEmpty(t, c.Workers(2))
			assert.NotEmpty(t, c.Workers(1))
		}
	}
	assert.Equal(t, []string{"push-pop", "steal", "steal-contended", "ring-push-pop", "ring-steal-half", "injector"}, got["deque"])
	assert.Equal(t, []string{"fork", "join", "fork-join", "claim", "start", "check", "wake"}, got["primitives"])
	assert.Equal(t, []string{"fib35", "nqueens12", "uts-t1", "uts-t3", "skynet", "mergesort", "matmul"}, got["forkjoin"])
	assert.Equal(t, []string{"external-1", "external-4", "spawn-inside", "ping-pong", "ping-pongs", "pipeline"}, got["submit"])
	assert.Equal(t, []string{"start-asleep", "start-hot", "start-gc", "start-busy", "gap-200us", "gap-1ms", "gap-5ms", "burst-5", "burst-10"}, got["latency"])
	assert.Equal(t, []string{"idle-pool", "saturated", "loop", "half-load"}, got["neighbour"])
	assert.Equal(t, []string{"asleep"}, got["idle"])
	assert.Equal(t, []string{"task", "task-half", "loop-200us", "loop-200us-half", "beside", "http-task", "http-loop-200us"}, got["service"])
	assert.Equal(t, []string{"ntt-14-1", "ntt-14-4", "ntt-16-1", "ntt-16-4", "ntt-18-1", "ntt-18-4", "msm",
		"fixed-cost-0", "fixed-cost-2", "fixed-cost-8", "raw-beside", "compress-1", "compress-4", "format", "nested", "crowded"}, got["mixed"])
	assert.Equal(t, []string{"sleep-50us", "sleep-100us", "sleep-1ms", "sleep-10ms", "sleep-100ms", "ping-pong", "mutex",
		"http-1ms", "http-5ms", "calls", "files", "exec", "mixture", "tree-4", "notice-first", "notice"}, got["blocking"])
	assert.Contains(t, got, "parse")
}
