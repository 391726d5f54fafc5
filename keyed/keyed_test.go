package keyed

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

var background = context.Background()

// requireIdle waits until the queue is empty, and checks that nothing is left of it.
func requireIdle[K comparable](t testing.TB, q *Queue[K]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, testutil.Patience)
	defer cancel()
	require.NoError(t, q.Wait(ctx))
	require.NoError(t, q.pool.WaitIdle(ctx))
	waiting, running, keys := q.Load()
	require.Zero(t, waiting+running+keys)
	require.Zero(t, q.pulls)
	require.Zero(t, q.startable)
	require.Empty(t, q.ready)
}

// TestFunctionsOfAKeyRunInTheirOrder, no more than allowed at a time, and each once, whoever adds them.
func TestFunctionsOfAKeyRunInTheirOrder(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		for _, most := range []int{1, 3, math.MaxInt} {
			p := pools.New(t, pool.WithWorkers(workers))
			q := New[int](p)
			q.AtMost(most)
			const keys = 20
			each := testutil.Stress(2000) / keys
			var begun [keys]atomic.Int32 // one's: which function is next
			var at, ran [keys]atomic.Int32
			var add func(key, i int)
			add = func(key, i int) {
				if i == each {
					return
				}
				assert.NoError(t, q.Go(key, func(*pool.Worker) {
					if n := at[key].Add(1); int(n) > most {
						t.Errorf("%d functions of a key at a time, of at most %d", n, most)
					}
					if order := begun[key].Add(1) - 1; most == 1 && int(order) != i {
						t.Errorf("function %d has come after %d others", i, order)
					}
					if rand.IntN(4) == 0 {
						runtime.Gosched()
					}
					at[key].Add(-1)
					ran[key].Add(1)
					if i%3 == 2 { // the next one is added from inside
						add(key, i+1)
					}
				}))
				if i%3 != 2 {
					add(key, i+1)
				}
			}
			testutil.Together(4, func(who int) {
				for key := who; key < keys; key += 4 {
					add(key, 0)
				}
			})()
			requireIdle(t, q)
			for key := range keys {
				require.EqualValues(t, each, ran[key].Load())
			}
		}
	}
}

// TestAKeyThatWaitsHoldsNoWorker: a function waits for one of another key, on the only worker, and behind it are others of its key.
func TestAKeyThatWaitsHoldsNoWorker(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	q := New[string](p)
	release := make(chan struct{})
	require.NoError(t, p.Go(func(*pool.Worker) { testutil.Compute(release) })) // so that one pull is there for all of them
	met := make(chan struct{})
	var after atomic.Bool
	require.NoError(t, q.Go("a", func(w *pool.Worker) {
		w.Block(func() { <-met })
		assert.False(t, after.Load())
	}))
	for range 100 {
		require.NoError(t, q.Go("a", func(*pool.Worker) { after.Store(true) }))
	}
	for i := range 10 {
		require.NoError(t, q.Go(fmt.Sprint("b", i), func(*pool.Worker) {
			if i == 9 {
				close(met)
			}
		}))
	}
	close(release)
	requireIdle(t, q)
	require.True(t, after.Load())
}

// TestAQueueKeepsNoMoreThanAFewTasksInThePool, however many functions it has: other tasks of the pool pass it.
func TestAQueueKeepsNoMoreThanAFewTasksInThePool(t *testing.T) {
	if !testutil.ReadsRecords {
		t.Skip("time decides what waits: a function may begin beside a worker that computes")
	}
	p := pools.New(t, pool.WithWorkers(1))
	q := New[int](p)
	q.AtMost(math.MaxInt)
	release := make(chan struct{})
	require.NoError(t, p.Go(func(*pool.Worker) { testutil.Compute(release) }))
	var ran atomic.Int32
	for i := range 1000 {
		require.NoError(t, q.Go(i%2, func(*pool.Worker) { ran.Add(1) }))
	}
	waiting, running, keys := q.Load()
	require.Equal(t, []int{1000, 0, 2}, []int{waiting, running, keys})
	require.LessOrEqual(t, q.pulls, 1)
	close(release)
	requireIdle(t, q)
	require.EqualValues(t, 1000, ran.Load())
}

// player chooses functions as pulls do, without a pool and in a time of its own.
type player struct {
	q   *Queue[string]
	got map[string]float64
}

func newPlayer(t testing.TB, weights map[string]float64) *player {
	q := New[string](pools.New(t, pool.WithWorkers(1)))
	q.AtMost(math.MaxInt)
	q.Weigh(func(key string) float64 { return weights[key] })
	return &player{q: q, got: make(map[string]float64)}
}

func (p *player) add(t testing.TB, key string, n int) {
	l, err := p.q.line(key)
	require.NoError(t, err)
	for range n {
		l.waiting = append(l.waiting, entry{f: func(*pool.Worker) {}})
		p.q.waiting++
	}
	p.q.update(l)
}

// play has workers run functions until so many have ended; one of a key takes as long as cost says.
func (p *player) play(workers, functions int, cost map[string]int64) {
	type run struct {
		l      *line[string]
		ends   int64
		counts float64
	}
	var runs []run
	now := int64(0)
	for range functions {
		for len(runs) < workers {
			c := p.q.choose()
			if c.line == nil {
				break
			}
			runs = append(runs, run{c.line, now + cost[c.line.key], c.counts})
		}
		first := 0
		for i, r := range runs {
			if r.ends < runs[first].ends {
				first = i
			}
		}
		r := runs[first]
		runs = slices.Delete(runs, first, first+1)
		now = r.ends
		p.got[r.l.key] += float64(cost[r.l.key])
		p.q.end(r.l, cost[r.l.key], r.counts)
	}
	for _, r := range runs {
		p.q.end(r.l, cost[r.l.key], r.counts)
	}
}

// TestATenantGetsTheShareOfItsWeight of the workers' time, however many functions others have, and however long these take.
func TestATenantGetsTheShareOfItsWeight(t *testing.T) {
	for _, workers := range []int{1, 2, 4, 8} {
		for name, c := range map[string]struct {
			weights map[string]float64
			cost    map[string]int64
		}{
			"the same":         {map[string]float64{"a": 1, "b": 1}, map[string]int64{"a": 10, "b": 10}},
			"one is slow":      {map[string]float64{"a": 1, "b": 1}, map[string]int64{"a": 100, "b": 1}},
			"thrice as much":   {map[string]float64{"a": 3, "b": 1}, map[string]int64{"a": 10, "b": 10}},
			"three of them":    {map[string]float64{"a": 1, "b": 2, "c": 1}, map[string]int64{"a": 7, "b": 11, "c": 3}},
			"thrice, and slow": {map[string]float64{"a": 3, "b": 1}, map[string]int64{"a": 50, "b": 2}},
		} {
			p := newPlayer(t, c.weights)
			var weights, got float64
			for key, weight := range c.weights {
				p.add(t, key, 20_100)
				weights += weight
			}
			p.play(workers, 20_000, c.cost)
			for _, v := range p.got {
				got += v
			}
			for key, weight := range c.weights {
				require.InDelta(t, weight/weights, p.got[key]/got, 0.03, "%s: the share of %s of %d workers", name, key, workers)
			}
		}
	}
}

// TestANewTenantIsServedNext: it neither waits behind what a noisy one has queued, nor has it saved anything up.
func TestANewTenantIsServedNext(t *testing.T) {
	p := newPlayer(t, map[string]float64{"noisy": 1, "quiet": 1})
	p.add(t, "noisy", 10_000)
	p.play(1, 1000, map[string]int64{"noisy": 10})
	p.add(t, "quiet", 1000)
	begun := map[string]int{}
	for range 4 {
		c := p.q.choose()
		begun[c.line.key]++
		p.q.end(c.line, 10, c.counts)
	}
	require.Equal(t, map[string]int{"noisy": 2, "quiet": 2}, begun)
	p.got = make(map[string]float64)
	p.play(1, 100, map[string]int64{"noisy": 10, "quiet": 10})
	require.InDelta(t, 500, p.got["noisy"], 20, "of 1000")
}

// TestNewKeysWithoutEndDoNotStarveAnOldOne: there is always one that has had nothing yet.
func TestNewKeysWithoutEndDoNotStarveAnOldOne(t *testing.T) {
	p := newPlayer(t, nil)
	p.q.Weigh(func(string) float64 { return 1 })
	p.add(t, "old", 1000)
	old := 0
	for i := range 3000 {
		p.add(t, fmt.Sprint(i), 1)
		c := p.q.choose()
		if c.line.key == "old" {
			old++
		}
		p.q.end(c.line, 10, c.counts)
	}
	require.Greater(t, old, 10)
}

// TestAMillionKeysCostNothingWhenIdle: neither when all are, nor when nearly all are.
func TestAMillionKeysCostNothingWhenIdle(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	q := New[int](p)
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	n := 1_000_000
	if testing.Short() || testutil.UnderRace {
		n = 50_000
	}
	release := make(chan struct{})
	defer sync.OnceFunc(func() { close(release) })()
	restBut := func(busy int) {
		require.True(t, testutil.Eventually(func() bool {
			waiting, running, keys := q.Load()
			return waiting == 0 && running == busy && keys == busy
		}))
	}
	for i := range 10 {
		require.NoError(t, q.Go(-1-i, func(w *pool.Worker) { w.Block(func() { <-release }) }))
	}
	restBut(10)
	before := heap()
	for _, free := range []bool{true, false} { // the functions begin at once, or when all are there
		hold := make(chan struct{})
		letGo := sync.OnceFunc(func() { close(hold) })
		defer letGo()
		if !free {
			var begun atomic.Int32
			for range 2 {
				require.NoError(t, p.Go(func(*pool.Worker) { begun.Add(1); testutil.Compute(hold) }))
			}
			require.True(t, testutil.Eventually(func() bool { return begun.Load() == 2 }))
		}
		for i := range n {
			require.NoError(t, q.Go(i, func(*pool.Worker) {}))
		}
		if !free {
			require.Greater(t, heap()-before, 50*n, "what keys cost that have functions")
		}
		letGo()
		restBut(10)
		require.Less(t, heap()-before, 2*n, "at most two bytes for each key")
	}
	runtime.KeepAlive(q)
}

// TestShortFunctionsAreFewTasks of the pool; long ones are one each, so that other tasks come between.
func TestShortFunctionsAreFewTasks(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	for _, long := range []bool{false, true} {
		q := New[int](p)
		require.NoError(t, p.Pause(t.Context()))
		before := p.Stats().Total().Tasks
		const n = 1000
		for i := range n {
			require.NoError(t, q.Go(i%10, func(*pool.Worker) {
				for end := time.Now().Add(2 * turn); long && time.Now().Before(end); {
				}
			}))
		}
		p.Resume()
		requireIdle(t, q)
		if tasks := p.Stats().Total().Tasks - before; long {
			require.GreaterOrEqual(t, tasks, uint64(n))
		} else {
			require.Less(t, tasks, uint64(n/2))
		}
	}
}

// TestAPanicDoesNotStopItsKey, nor does a Goexit.
func TestAPanicDoesNotStopItsKey(t *testing.T) {
	var panics atomic.Int32
	p := pools.New(t, pool.WithWorkers(2), pool.WithPanicHandler(func(*pool.PanicError) { panics.Add(1) }))
	q := New[int](p)
	var order []int
	for i := range 30 {
		require.NoError(t, q.Go(1, func(*pool.Worker) {
			order = append(order, i)
			switch i % 3 {
			case 0:
				panic("planted")
			case 1:
				runtime.Goexit()
			}
		}))
	}
	requireIdle(t, q)
	require.EqualValues(t, 10, panics.Load())
	require.Len(t, order, 30)
	require.True(t, slices.IsSorted(order))
}

func TestABoundRefusesOrWaits(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	q := New[string](p)
	q.Bound(2)
	release := make(chan struct{})
	var ran atomic.Int32
	f := func(w *pool.Worker) { ran.Add(1); w.Block(func() { <-release }) }
	require.NoError(t, q.Go("a", f))
	require.True(t, testutil.Eventually(func() bool { return ran.Load() == 1 }))
	require.NoError(t, q.Go("a", f))
	require.NoError(t, q.Submit(background, "a", f))
	require.ErrorIs(t, q.Go("a", f), pool.ErrFull)
	require.ErrorContains(t, q.Go("a", f), "Bound")
	require.NoError(t, q.Go("b", f), "another key has room")
	ctx, cancel := context.WithCancelCause(background)
	cause := fmt.Errorf("enough")
	waiting := testutil.Together(2, func(who int) {
		if who == 0 {
			err := q.Submit(ctx, "a", f)
			assert.ErrorIs(t, err, cause)
			assert.ErrorIs(t, err, context.Canceled)
		} else {
			assert.NoError(t, q.Submit(background, "a", f))
		}
	})
	cancel(cause)
	close(release)
	waiting()
	requireIdle(t, q)
	require.EqualValues(t, 5, ran.Load())
}

func TestAContextThatEndsSkipsTheFunction(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	q := New[string](p)
	release := make(chan struct{})
	require.NoError(t, q.Go("a", func(w *pool.Worker) { w.Block(func() { <-release }) }))
	ctx, cancel := context.WithCancel(background)
	require.NoError(t, q.Submit(ctx, "a", func(*pool.Worker) { t.Error("it runs") }))
	var after atomic.Bool
	require.NoError(t, q.Go("a", func(*pool.Worker) { after.Store(true) }))
	cancel()
	require.ErrorIs(t, q.Submit(ctx, "a", func(*pool.Worker) { t.Error("it runs") }), context.Canceled)
	require.ErrorIs(t, q.Wait(ctx), context.Canceled)
	close(release)
	requireIdle(t, q)
	require.True(t, after.Load())
}

// TestAnAbortedPoolLeavesNobodyWaiting: what has not begun never begins, and who waits for it gets ErrClosed and its number.
func TestAnAbortedPoolLeavesNobodyWaiting(t *testing.T) {
	for range testutil.Stress(50) {
		p, err := pool.New(pool.WithWorkers(2))
		require.NoError(t, err)
		q := New[int](p)
		q.Bound(1000)
		var ran, accepted atomic.Int32
		adding := testutil.Together(2, func(who int) {
			for i := range 500 {
				err := q.Submit(background, i%7, func(*pool.Worker) { ran.Add(1) })
				if err != nil {
					assert.Same(t, pool.ErrClosed, err)
					return
				}
				accepted.Add(1)
			}
		})
		_, err = p.Abort(background)
		require.NoError(t, err)
		adding()
		ctx, cancel := context.WithTimeout(background, testutil.Patience)
		err = q.Wait(ctx)
		cancel()
		if lost := accepted.Load() - ran.Load(); lost > 0 {
			require.ErrorIs(t, err, pool.ErrClosed)
			require.ErrorContains(t, err, fmt.Sprintf(" %d functions never began", lost))
		} else {
			require.NoError(t, err)
		}
		require.Same(t, pool.ErrClosed, q.Go(1, func(*pool.Worker) { t.Error("it runs") }))
		require.Same(t, pool.ErrClosed, q.Submit(background, 1, func(*pool.Worker) { t.Error("it runs") }))
		waiting, running, keys := q.Load()
		require.Zero(t, waiting+running+keys)
	}
}

// TestATaskThatWaitsForRoomEndsWithAnAbort, though the pool does not end before it, and so does one that waits for the queue.
func TestATaskThatWaitsForRoomEndsWithAnAbort(t *testing.T) {
	if !testutil.ReadsRecords {
		t.Skip("time decides what waits: a function may begin beside a worker that computes")
	}
	p, err := pool.New(pool.WithWorkers(1))
	require.NoError(t, err)
	q, full := New[int](p), make(chan struct{})
	q.Bound(1)
	never := func(*pool.Worker) { t.Error("it runs") }
	waits := []func() error{
		func() error { return q.Submit(background, 1, never) },
		func() error { return q.Wait(background) },
		func() error { return q.Submit(background, 2, never) }, // its pull lies in the pool when that is aborted
	}
	ends := make(chan error, len(waits))
	for _, wait := range waits {
		require.NoError(t, p.Go(func(*pool.Worker) {
			p.Block(func() { <-full })
			ends <- wait()
		}))
	}
	begun := make(chan struct{})
	require.NoError(t, q.Go(1, func(*pool.Worker) {
		close(begun)
		testutil.Compute(p.Aborted())
		for p.Load().Queued.Total() > 0 { // until Abort has them
			runtime.Gosched()
		}
	}))
	<-begun
	require.NoError(t, q.Go(1, never))
	require.NoError(t, q.Go(2, never))
	close(full)
	aborted := testutil.Together(1, func(int) {
		_, err := p.Abort(background)
		require.NoError(t, err)
	})
	require.True(t, testutil.Returns(aborted))
	for range waits {
		require.ErrorIs(t, <-ends, pool.ErrClosed)
	}
}

// TestCloseRunsWhatWasAccepted, and what that adds, whoever waits in the queue; from outside nothing more comes in.
func TestCloseRunsWhatWasAccepted(t *testing.T) {
	for range testutil.Stress(50) {
		p, err := pool.New(pool.WithWorkers(2))
		require.NoError(t, err)
		q := New[int](p)
		var accepted, ran atomic.Int32
		adding := testutil.Together(2, func(int) {
			for i := range 1000 {
				err := q.Go(i%3, func(*pool.Worker) {
					ran.Add(1)
					assert.NoError(t, q.Go(i%7, func(*pool.Worker) { ran.Add(1) }))
				})
				if err != nil {
					assert.Same(t, pool.ErrClosed, err)
					return
				}
				accepted.Add(1)
			}
		})
		require.NoError(t, p.Close())
		adding()
		require.NoError(t, q.Wait(background))
		require.EqualValues(t, 2*accepted.Load(), ran.Load())
	}
}

// TestWhatGoAcceptedDoesNotRelyOnAPullThatThePoolRefuses: who asks for one when Close comes in between takes only its own function back.
func TestWhatGoAcceptedDoesNotRelyOnAPullThatThePoolRefuses(t *testing.T) {
	if !testutil.ReadsRecords {
		t.Skip("time decides what waits: a function may begin beside a worker that computes")
	}
	p, err := pool.New(pool.WithWorkers(1))
	require.NoError(t, err)
	q := New[string](p)
	release := make(chan struct{})
	require.NoError(t, p.Go(func(*pool.Worker) { testutil.Compute(release) }))
	l, number, err := q.enter("refused", entry{f: func(*pool.Worker) { t.Error("it runs") }}, nil)
	require.NoError(t, err)
	require.NotNil(t, l, "it must ask")
	var ran atomic.Int32
	for _, key := range []string{"a", "a", "b"} {
		require.NoError(t, q.Go(key, func(*pool.Worker) { ran.Add(1) }))
	}
	closed := testutil.Together(1, func(int) { assert.NoError(t, p.Close()) })
	require.True(t, testutil.Eventually(p.Closing))
	require.Same(t, pool.ErrClosed, q.ask(l, number))
	close(release)
	closed()
	require.NoError(t, q.Wait(background))
	require.EqualValues(t, 3, ran.Load())
}

// TestRoomGoesToWhoHasWaitedLongest, a place to one of them, past those that have given up, and nobody overtakes.
func TestRoomGoesToWhoHasWaitedLongest(t *testing.T) {
	q := New[string](pools.New(t, pool.WithWorkers(1)))
	q.Bound(1)
	release := make(chan struct{})
	var begun atomic.Int32
	f := func(w *pool.Worker) { begun.Add(1); w.Block(func() { <-release }) }
	require.NoError(t, q.Go("a", f))
	require.True(t, testutil.Eventually(func() bool { return begun.Load() == 1 }))
	require.NoError(t, q.Go("a", f))
	var order []int // of one key, so one after the other
	ctx, cancel := context.WithCancel(background)
	var done []func()
	const n = 20
	for i := range n {
		done = append(done, testutil.Together(1, func(int) {
			if i%3 == 1 {
				assert.ErrorIs(t, q.Submit(ctx, "a", func(*pool.Worker) { t.Error("it runs") }), context.Canceled)
			} else {
				assert.NoError(t, q.Submit(background, "a", func(*pool.Worker) {
					order = append(order, i)
					if len(order) < 5 { // the others still wait, and have the room
						assert.ErrorIs(t, q.Go("a", f), pool.ErrFull)
					}
				}))
			}
		}))
		require.True(t, testutil.Eventually(func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			l := q.lines["a"]
			return l.submits != nil && l.submits.Len() == i+1
		}))
	}
	cancel()
	for i := 1; i < n; i += 3 {
		done[i]()
	}
	q.mu.Lock()
	l := q.lines["a"]
	require.Equal(t, n-7, l.submits.Len())
	q.mu.Unlock()
	close(release)
	for _, wait := range done {
		wait()
	}
	requireIdle(t, q)
	require.Len(t, order, n-7)
	require.True(t, slices.IsSorted(order))
}

// TestRoomIsPassedOnByWhoGivesItBack, because its context has ended though it was granted.
func TestRoomIsPassedOnByWhoGivesItBack(t *testing.T) {
	q := New[string](pools.New(t, pool.WithWorkers(1)))
	q.Bound(1)
	first, err := q.standInLine("a")
	require.NoError(t, err)
	second, err := q.standInLine("a")
	require.NoError(t, err)
	<-first.granted
	require.ErrorIs(t, q.Go("a", func(*pool.Worker) { t.Error("it runs") }), pool.ErrFull)
	q.leave(first)
	<-second.granted
	q.leave(second)
	requireIdle(t, q)
}

// TestAKeyOrAWeightThatPanicsPanicsInTheCaller, and the queue goes on.
func TestAKeyOrAWeightThatPanicsPanicsInTheCaller(t *testing.T) {
	q := New[any](pools.New(t, pool.WithWorkers(1)))
	q.Weigh(func(key any) float64 {
		if key == "bad" {
			panic("planted")
		}
		return 1
	})
	f := func(*pool.Worker) {}
	for range 2 {
		require.ErrorContains(t, testutil.Caught(func() { _ = q.Go([]int{1}, f) }).(error), "[]int")
		require.Equal(t, "planted", testutil.Caught(func() { _ = q.Go("bad", f) }))
		require.NoError(t, q.Go("good", f))
		requireIdle(t, q)
	}
}

// TestAKeyThatIsNotEqualToItselfIsRefused: its line could never be found again.
func TestAKeyThatIsNotEqualToItselfIsRefused(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	require.ErrorContains(t, New[float64](p).Go(math.NaN(), func(*pool.Worker) { t.Error("it runs") }), "the key NaN")
	q := New[any](p)
	require.ErrorContains(t, q.Go([1]float64{math.NaN()}, func(*pool.Worker) { t.Error("it runs") }), "the key [NaN]")
	requireIdle(t, q)
}

func TestMisuseIsNamed(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	q := New[string](p)
	require.ErrorContains(t, q.Go("a", nil), "nil function")
	require.ErrorContains(t, q.Submit(background, "a", nil), "nil function")
	var none context.Context
	require.ErrorContains(t, q.Submit(none, "a", func(*pool.Worker) {}), "nil context")
	require.ErrorContains(t, q.Wait(none), "nil context")
	require.Panics(t, func() { q.AtMost(0) })
	require.Panics(t, func() { q.Bound(0) })
	require.Panics(t, func() { q.Weigh(nil) })
	require.Panics(t, func() { New[int](nil) })
	require.ErrorContains(t, new(Queue[int]).Go(1, func(*pool.Worker) {}), "New has not made")
	require.ErrorContains(t, new(Queue[int]).Wait(context.Background()), "New has not made")
	require.PanicsWithError(t, "keyed: New was given a nil pool", func() { New[int](nil) })
	for _, weight := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		q.Weigh(func(string) float64 { return weight })
		require.ErrorContains(t, q.Go("a", func(*pool.Worker) {}), "the weight of the key a")
	}
	q.Weigh(func(string) float64 { return 1 })
	release := make(chan struct{})
	var once sync.Once
	require.NoError(t, q.Go("a", func(w *pool.Worker) { w.Block(func() { <-release }) }))
	defer once.Do(func() { close(release) })
	require.ErrorContains(t, testutil.Caught(func() { q.AtMost(1) }).(error), "while the queue has functions")
	once.Do(func() { close(release) })
	requireIdle(t, q)
}

func BenchmarkOneKey(b *testing.B)   { benchmark(b, 1) }
func BenchmarkManyKeys(b *testing.B) { benchmark(b, 1024) }

func benchmark(b *testing.B, keys int) {
	q := New[int](pools.New(b))
	f := func(*pool.Worker) {}
	b.ReportAllocs()
	for i := range b.N {
		_ = q.Go(i%keys, f)
	}
	_ = q.Wait(background)
}
