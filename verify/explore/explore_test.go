package explore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/verify/explore"
	"github.com/seed53057037/heist/verify/explore/atomic"
	"github.com/seed53057037/heist/verify/explore/sync"
)

// lostUpdate adds by a load and a store.
func lostUpdate() {
	var n atomic.Int64
	for range 2 {
		explore.Go("adder", func() { n.Store(n.Load() + 1) })
	}
	explore.Wait()
	explore.Assert(n.Load() == 2, "an addition is lost: %d", n.Load())
}

func requireFailure(t *testing.T, r explore.Result, reason string) {
	t.Helper()
	require.NotNil(t, r.Failure, "%d interleavings", r.Executions)
	require.ErrorContains(t, r.Failure, reason)
}

func TestLostUpdateIsFoundByOnePreemption(t *testing.T) {
	require.Nil(t, explore.Explore(explore.Options{Preemptions: explore.None}, lostUpdate).Failure)
	r := explore.Explore(explore.Options{Preemptions: 1}, lostUpdate)
	requireFailure(t, r, "an addition is lost: 1")
	require.Contains(t, r.Trace, "explore_test.go:")
	t.Log(r.Executions, r.Schedule, "\n"+r.Trace)
}

func TestAtomicAdditionIsProved(t *testing.T) {
	r := explore.Explore(explore.Options{Preemptions: explore.Unbounded}, func() {
		var n atomic.Int64
		for range 3 {
			explore.Go("adder", func() { n.Add(1) })
		}
		explore.Wait()
		explore.Assert(n.Load() == 3, "an addition is lost: %d", n.Load())
	})
	require.Nil(t, r.Failure)
	require.True(t, r.Complete)
	t.Log(r.Executions, r.Pruned)
}

// dekker is the litmus test of store buffers: both goroutines store, and then load what the other one stores.
func dekker(store func(x *atomic.Int32)) func() {
	return func() {
		var x, y atomic.Int32
		var sawX, sawY int32
		explore.Name(&x, "x")
		explore.Name(&y, "y")
		explore.Go("left", func() { store(&x); sawY = y.Load() })
		explore.Go("right", func() { store(&y); sawX = x.Load() })
		explore.Wait()
		explore.Assert(sawX+sawY > 0, "both went first")
	}
}

func TestStoreBufferIsSeenOnlyWhereStoresMayBeDelayed(t *testing.T) {
	release := dekker(func(x *atomic.Int32) { x.StoreRelease(1) })
	for _, preemptions := range []int{2, explore.Unbounded} {
		o := explore.Options{Preemptions: preemptions}
		require.Nil(t, explore.Explore(o, release).Failure)
		o.StoreBuffers = true
		r := explore.Explore(o, release)
		requireFailure(t, r, "both went first")
		t.Log(r.Executions, "\n"+r.Trace)
		r = explore.Explore(o, dekker(func(x *atomic.Int32) { x.Store(1) }))
		require.Nil(t, r.Failure)
		require.True(t, r.Complete)
		r = explore.Explore(o, dekker(func(x *atomic.Int32) { x.StoreRelease(1); explore.Fence() }))
		require.Nil(t, r.Failure)
	}
}

func TestDelayedStoresStayInOrder(t *testing.T) {
	r := explore.Explore(explore.Options{Preemptions: explore.Unbounded, StoreBuffers: true}, func() {
		var item, ready atomic.Int32
		explore.Go("producer", func() { item.StoreRelease(1); ready.StoreRelease(1) })
		explore.Go("consumer", func() {
			if ready.Load() == 1 {
				explore.Assert(item.Load() == 1, "the item is not there")
			}
		})
		explore.Wait()
	})
	require.Nil(t, r.Failure)
	require.True(t, r.Complete)
}

func TestTwoLocksInOppositeOrderAreADeadlock(t *testing.T) {
	r := explore.Explore(explore.Options{}, func() {
		var a, b sync.Mutex
		both := func(first, second *sync.Mutex) {
			first.Lock()
			defer first.Unlock()
			second.Lock()
			defer second.Unlock()
		}
		explore.Go("ab", func() { both(&a, &b) })
		explore.Go("ba", func() { both(&b, &a) })
		explore.Wait()
	})
	requireFailure(t, r, "deadlock")
	requireFailure(t, r, "ab waits to lock")
}

func TestMissedWakeUpIsADeadlock(t *testing.T) {
	program := func(check func(m *sync.Mutex, ready *atomic.Bool, c *sync.Cond)) func() {
		return func() {
			var m sync.Mutex
			var ready atomic.Bool
			c := sync.NewCond(&m)
			explore.Go("sleeper", func() { check(&m, &ready, c) })
			explore.Go("waker", func() {
				m.Lock()
				ready.Store(true)
				m.Unlock()
				c.Signal()
			})
			explore.Wait()
		}
	}
	r := explore.Explore(explore.Options{Preemptions: explore.Unbounded}, program(func(m *sync.Mutex, ready *atomic.Bool, c *sync.Cond) {
		if !ready.Load() { // before the lock
			m.Lock()
			c.Wait()
			m.Unlock()
		}
	}))
	requireFailure(t, r, "deadlock")
	r = explore.Explore(explore.Options{Preemptions: explore.Unbounded}, program(func(m *sync.Mutex, ready *atomic.Bool, c *sync.Cond) {
		m.Lock()
		for !ready.Load() {
			c.Wait()
		}
		m.Unlock()
	}))
	require.Nil(t, r.Failure)
	require.True(t, r.Complete)
}

func spinlock(acquire func(*atomic.Uint32) bool) func() {
	return func() {
		var lock atomic.Uint32
		inside := 0
		for range 2 {
			explore.Go("", func() {
				for !acquire(&lock) {
					explore.Yield()
				}
				*explore.Write(&inside)++
				explore.Assert(inside == 1, "two are inside")
				*explore.Write(&inside)--
				lock.Store(0)
			})
		}
		explore.Wait()
	}
}

func TestSpinlockIsProvedAndABrokenOneIsNot(t *testing.T) {
	o := explore.Options{Preemptions: explore.Unbounded, Races: true}
	r := explore.Explore(o, spinlock(func(l *atomic.Uint32) bool { return l.CompareAndSwap(0, 1) }))
	require.Nil(t, r.Failure)
	require.True(t, r.Complete)
	t.Log(r.Executions, r.Pruned)
	r = explore.Explore(o, spinlock(func(l *atomic.Uint32) bool {
		if l.Load() != 0 {
			return false
		}
		l.Store(1)
		return true
	}))
	require.NotNil(t, r.Failure)
}

func TestLoopThatNobodyEndsIsALivelock(t *testing.T) {
	for _, yield := range []func(){func() {}, explore.Yield} {
		r := explore.Explore(explore.Options{Steps: 500}, func() {
			var flag atomic.Bool
			explore.Go("waiter", func() {
				for !flag.Load() {
					yield()
				}
			})
			explore.Wait()
		})
		requireFailure(t, r, "livelock")
	}
}

// Three that wait in loops, so that two of them could be chosen in turn for ever.
func TestWaitersInLoopsGiveOthersTheirTurn(t *testing.T) {
	r := explore.Explore(explore.Options{Preemptions: 1, Steps: 500}, func() {
		var turn atomic.Int32
		for i := range int32(3) {
			explore.Go("", func() {
				for turn.Load() != i {
					explore.Yield()
				}
				turn.Store(i + 1)
			})
		}
		explore.Wait()
	})
	require.Nil(t, r.Failure)
	require.True(t, r.Complete)
	t.Log(r.Executions)
}

func TestAccessesThatNothingOrdersAreARace(t *testing.T) {
	program := func(publish func(ready *atomic.Bool, item *int)) func() {
		return func() {
			var ready atomic.Bool
			item := 0
			explore.Go("writer", func() { publish(&ready, &item) })
			explore.Go("reader", func() {
				if ready.Load() {
					explore.Assert(*explore.Read(&item) == 1, "the item is not there")
				}
			})
			explore.Wait()
		}
	}
	o := explore.Options{Races: true, Preemptions: explore.Unbounded}
	require.Nil(t, explore.Explore(o, program(func(ready *atomic.Bool, item *int) { *explore.Write(item) = 1; ready.Store(true) })).Failure)
	r := explore.Explore(o, program(func(ready *atomic.Bool, item *int) { ready.Store(true); *explore.Write(item) = 1 }))
	require.NotNil(t, r.Failure)
	t.Log(r.Failure)
}

func TestPanicIsAFailureWithItsStack(t *testing.T) {
	r := explore.Explore(explore.Options{}, func() {
		explore.Go("bad", func() { var p *int; *p = 1 })
		explore.Wait()
	})
	requireFailure(t, r, "bad panics: runtime error")
	requireFailure(t, r, "explore_test.go")
}

func TestSeedsAndSchedulesReplayTheSameTrace(t *testing.T) {
	o := explore.Options{Executions: explore.None, Random: 1000, Seed: 7}
	first := explore.Explore(o, lostUpdate)
	require.NotNil(t, first.Failure)
	o.Seed, o.Random = first.Seed, 1
	second := explore.Explore(o, lostUpdate)
	require.Equal(t, first.Trace, second.Trace)
	require.Equal(t, first.Schedule, second.Schedule)
	require.Equal(t, first.Trace, explore.Replay(o, first.Schedule, lostUpdate).Trace)
	t.Log(first.Executions, first.Schedule)
}

func TestScheduleOfAnotherProgramIsRefused(t *testing.T) {
	requireFailure(t, explore.Replay(explore.Options{}, "0,7", lostUpdate), "does not fit")
	requireFailure(t, explore.Replay(explore.Options{}, "x", lostUpdate), "word")
}

// A random program must have the same outcomes in a search that leaves out what commutes, and in one that leaves out nothing.
func TestReductionLosesNoOutcome(t *testing.T) {
	compared, saved := 0, 0
	for seed := range uint64(60) {
		outcomes := func(preemptions int) (seen map[string]bool, r explore.Result) {
			seen = map[string]bool{}
			o := explore.Options{Preemptions: preemptions, Executions: 2000}
			r = explore.Explore(o, randomProgram(seed, func(outcome string) { seen[outcome] = true }))
			require.Nil(t, r.Failure, "seed %d: %v", seed, r.Failure)
			return seen, r
		}
		all, unreduced := outcomes(1000)
		if !unreduced.Complete {
			continue // too large
		}
		some, reduced := outcomes(explore.Unbounded)
		require.True(t, reduced.Complete)
		require.Equal(t, all, some, "seed %d", seed)
		compared++
		saved += unreduced.Executions - reduced.Executions
	}
	require.Greater(t, compared, 10)
	require.Positive(t, saved)
	t.Log(compared, saved)
}

// randomProgram makes goroutines of loads, stores, additions, compare-and-swaps and critical sections over three words, and
// reports all that they have seen.
func randomProgram(seed uint64, report func(string)) func() {
	r := rand.New(rand.NewPCG(seed, 1))
	type step struct{ what, word, value int }
	plan := make([][]step, 2+r.IntN(2))
	for i := range plan {
		for range 2 + r.IntN(5-len(plan)) {
			plan[i] = append(plan[i], step{r.IntN(5), r.IntN(3), 1 + r.IntN(3)})
		}
	}
	return func() {
		var words [3]atomic.Int32
		var lock sync.Mutex
		seen := make([][]int32, len(plan))
		for i, steps := range plan {
			explore.Go("", func() {
				for _, s := range steps {
					w, v := &words[s.word], int32(s.value)
					switch s.what {
					case 0:
						seen[i] = append(seen[i], w.Load())
					case 1:
						w.Store(v)
					case 2:
						seen[i] = append(seen[i], w.Add(v))
					case 3:
						if w.CompareAndSwap(0, v) {
							seen[i] = append(seen[i], -v)
						}
					case 4:
						lock.Lock()
						w.Store(w.Load() + 10)
						lock.Unlock()
					}
				}
			})
		}
		explore.Wait()
		report(fmt.Sprint(seen, words[0].Load(), words[1].Load(), words[2].Load()))
	}
}
