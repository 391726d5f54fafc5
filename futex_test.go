package heist

import (
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// forEachFutex tests the system's futex and the portable one, which every build has. Where the two
// are the same, it is tested twice.
func forEachFutex(t *testing.T, test func(t *testing.T, f futex)) {
	for _, c := range []struct {
		name string
		make func() futex
	}{
		{"system", func() futex { return futex{FutexWait, FutexWake} }},
		{"parkingLot", func() futex { var lot parkingLot; return futex{lot.wait, lot.wake} }},
	} {
		t.Run(c.name, func(t *testing.T) { test(t, c.make()) })
	}
}

type futex struct {
	wait func(addr *atomic.Uint32, val uint32, timeout time.Duration) bool
	wake func(addr *atomic.Uint32, n int) int
}

func TestNobodySleepsOnAnotherValue(t *testing.T) {
	forEachFutex(t, func(t *testing.T, f futex) {
		var word atomic.Uint32
		for _, value := range []uint32{1, 1 << 31, math.MaxUint32} {
			word.Store(value)
			require.True(t, f.wait(&word, value-1, -1))
			require.True(t, f.wait(&word, 0, time.Hour))
		}
	})
}

func TestWakeWithoutSleepersWakesNobody(t *testing.T) {
	forEachFutex(t, func(t *testing.T, f futex) {
		var word atomic.Uint32
		require.Zero(t, f.wake(&word, 1))
		require.Zero(t, f.wake(&word, math.MaxInt))
	})
	var word atomic.Uint32
	require.Zero(t, FutexWake(&word, 0))
	require.Zero(t, FutexWake(&word, math.MinInt))
}

func TestSleepEndsWhenTheTimeIsUp(t *testing.T) {
	forEachFutex(t, func(t *testing.T, f futex) {
		var word atomic.Uint32
		for _, timeout := range []time.Duration{1, time.Microsecond, 2 * time.Millisecond} {
			start := time.Now()
			for f.wait(&word, 0, timeout) { // woken without a cause
				start = time.Now()
			}
			require.GreaterOrEqual(t, time.Since(start), timeout)
		}
		require.Zero(t, f.wake(&word, 1), "nobody is left behind")
	})
}

func TestNoTimeIsNoSleep(t *testing.T) {
	var word atomic.Uint32
	require.False(t, FutexWait(&word, 0, 0))
	require.True(t, FutexWait(&word, 1, 0))
}

// A wake wakes no more sleepers than it is told to, and only those of its word.
func TestWakeWakesAsManyAsItShould(t *testing.T) {
	forEachFutex(t, func(t *testing.T, f futex) {
		const sleepers = 5
		var word, other atomic.Uint32
		asleep := testutil.Together(sleepers, func(int) { f.wait(&word, 0, -1) })
		bystander := testutil.Together(1, func(int) {
			for other.Load() == 0 {
				f.wait(&other, 0, -1)
			}
		})
		// The number of sleepers cannot be seen from outside, but if a wake woke one too many, one
		// would be missing in the end.
		woken := 0
		for _, n := range []int{2, 1, sleepers, math.MaxInt} {
			for goal := min(woken+n, sleepers); woken < goal; runtime.Gosched() {
				w := f.wake(&word, goal-woken)
				require.LessOrEqual(t, w, goal-woken)
				woken += w
			}
		}
		asleep()
		require.Equal(t, sleepers, woken)
		require.Zero(t, f.wake(&word, math.MaxInt))
		other.Store(1)
		f.wake(&other, 1)
		bystander()
	})
}

// testWakeOfAll wakes all sleepers, once it knows that they sleep, with numbers whose lower halves,
// as the kernel sees them, may be 0 or negative.
func testWakeOfAll(t *testing.T, f futex, asleepOn func(word *atomic.Uint32) int) {
	t.Helper()
	const sleepers = 7
	for _, n := range []int64{math.MaxInt64, math.MaxInt64 - 1, 1 << 40, 1 << 32, 1<<32 - 1, 1<<32 + 1, 1 << 31, math.MaxInt32, 1<<30 + 1, 1 << 30, sleepers} {
		var word atomic.Uint32
		wait := testutil.Together(sleepers, func(int) {
			for word.Load() == 0 {
				f.wait(&word, 0, -1)
			}
		})
		for asleepOn(&word) < sleepers {
			runtime.Gosched()
		}
		word.Store(1)
		require.Equal(t, sleepers, f.wake(&word, int(min(n, math.MaxInt))), "of %d", n)
		wait()
		require.Zero(t, f.wake(&word, math.MaxInt))
	}
}

func TestParkingLotWakesAllAndCountsThem(t *testing.T) {
	var lot parkingLot
	testWakeOfAll(t, futex{lot.wait, lot.wake}, lot.asleepOn)
}

// asleepOn returns how many sleep on a word that shares its bucket with no other.
func (p *parkingLot) asleepOn(word *atomic.Uint32) int {
	b := p.bucket(word)
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sleepers)
}

func TestParkingLotWakesInTheOrderOfArrival(t *testing.T) {
	var lot parkingLot
	var word atomic.Uint32
	asleep := func() int { return lot.asleepOn(&word) }
	woke := make(chan int)
	const sleepers = 5
	for i := range sleepers {
		go func() {
			lot.wait(&word, 0, -1)
			woke <- i
		}()
		for asleep() != i+1 {
			runtime.Gosched()
		}
	}
	for i := range sleepers {
		require.Equal(t, 1, lot.wake(&word, 1))
		require.Equal(t, i, <-woke)
		require.Equal(t, sleepers-i-1, asleep())
	}
}

// Words that share a bucket are woken separately.
func TestParkingLotKeepsWordsApart(t *testing.T) {
	var lot parkingLot
	words := make([]atomic.Uint32, 1000) // some of them surely share a bucket
	wait := testutil.Together(len(words), func(i int) {
		for words[i].Load() == 0 {
			lot.wait(&words[i], 0, -1)
		}
	})
	for i := range words {
		for lot.wake(&words[i], 2) == 0 { // until it sleeps
			runtime.Gosched()
		}
		words[i].Store(1) // it may sleep again by now
		require.LessOrEqual(t, lot.wake(&words[i], 2), 1)
	}
	wait()
}

// A sleeper that was removed is not kept in the array behind the slice: it would
// keep the memory around its word alive.
func TestParkingLotForgetsSleepers(t *testing.T) {
	var lot parkingLot
	var word atomic.Uint32
	b := lot.bucket(&word)
	requireForgotten := func() {
		t.Helper()
		require.Empty(t, b.sleepers)
		require.NotZero(t, cap(b.sleepers))
		for _, s := range b.sleepers[:cap(b.sleepers)] {
			require.Zero(t, s)
		}
	}
	for range 3 {
		testutil.Together(4, func(who int) {
			for lot.wait(&word, 0, time.Duration(who+1)*time.Microsecond) {
			}
		})()
	}
	requireForgotten()

	wait := testutil.Together(4, func(int) { lot.wait(&word, 0, -1) })
	for lot.asleepOn(&word) < 4 {
		runtime.Gosched()
	}
	require.Equal(t, 1, lot.wake(&word, 1))
	for _, s := range b.sleepers[3:cap(b.sleepers)] {
		require.Zero(t, s, "behind those that still sleep")
	}
	require.Equal(t, 3, lot.wake(&word, 4))
	wait()
	requireForgotten()
}

// A sleeper whose time is up may find that it was woken in the meantime.
func TestParkingLotDoesNotDenyALateWakeUp(t *testing.T) {
	var lot parkingLot
	var word atomic.Uint32
	b := lot.bucket(&word)
	woken := make(chan bool, 1)
	sleep := func() { woken <- lot.wait(&word, 0, time.Millisecond) }
	go sleep()
	for asleep := false; !asleep; runtime.Gosched() {
		select {
		case <-woken: // it was not seen asleep
			go sleep()
		default:
		}
		b.mu.Lock()
		if asleep = len(b.sleepers) == 1; asleep {
			time.Sleep(20 * time.Millisecond) // its time runs out while we hold the lock
			close(b.sleepers[0].wake)
			b.sleepers = b.sleepers[:0]
		}
		b.mu.Unlock()
	}
	require.True(t, <-woken)
}

// Two sides that wake each other would stand still for ever if one wake-up were
// lost between the look at the word and the sleep.
func TestNoWakeUpIsLost(t *testing.T) {
	forEachFutex(t, func(t *testing.T, f futex) {
		var turn atomic.Uint32
		rounds := uint32(testutil.Stress(10_000))
		testutil.Together(2, func(who int) {
			for {
				now := turn.Load()
				if now >= 2*rounds {
					return
				}
				if now%2 != uint32(who) {
					f.wait(&turn, now, -1)
					continue
				}
				turn.Store(now + 1)
				f.wake(&turn, 1)
			}
		})()
		require.Equal(t, 2*rounds, turn.Load())
	})
}

// A timeout and a wake-up may come at the same moment. A sleeper that was counted as woken must
// learn of it.
func TestEveryWakeUpThatIsCountedArrives(t *testing.T) {
	forEachFutex(t, func(t *testing.T, f futex) {
		var word atomic.Uint32
		var woken, counted atomic.Int64
		var done atomic.Bool
		wait := testutil.Together(2, func(int) {
			for !done.Load() {
				if f.wait(&word, 0, 20*time.Microsecond) {
					woken.Add(1)
				}
			}
		})
		for range testutil.Stress(2000) {
			counted.Add(int64(f.wake(&word, 1)))
			runtime.Gosched()
		}
		done.Store(true)
		wait()
		require.GreaterOrEqual(t, woken.Load(), counted.Load())
	})
}

// A thread that sleeps has given up its P: a collection that stops the world does
// not wait for it, and with a single P the others go on.
func TestSleepersStopNobody(t *testing.T) {
	forEachFutex(t, func(t *testing.T, f futex) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		var word atomic.Uint32
		wait := testutil.Together(3, func(who int) {
			if who > 0 { // as workers do
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			for word.Load() == 0 {
				f.wait(&word, 0, -1)
			}
		})
		for range 5 {
			runtime.Gosched()
			runtime.GC()
		}
		word.Store(1)
		for f.wake(&word, 3) > 0 {
		}
		wait()
	})
}

// The kernel holds addresses of the sleeper's stack while the collector may want to
// shrink that stack.
func TestSleepersStackStaysWhereItIs(t *testing.T) {
	forEachFutex(t, func(t *testing.T, f futex) {
		defer collectAllTheTime()()
		var word atomic.Uint32
		testutil.Together(2, func(int) {
			for range testutil.Stress(200) {
				growStack(64)
				timeout := 50 * time.Microsecond
				f.wait(&word, 0, timeout)
			}
		})()
	})
}

// growStack makes the stack large, for the collector to shrink it.
func growStack(depth int) byte {
	var frame [1024]byte
	if depth > 0 {
		frame[depth] = growStack(depth - 1)
	}
	return frame[depth&1]
}

func TestYieldComesBack(t *testing.T) {
	for range 100 {
		Yield()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 100 {
		Yield()
	}
}
