package pool

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/stretchr/testify/require"
)

// TestJoinsHelpOnlySoDeep is an adversary: each fork that a waiting join helps with waits
// in turn, and there are always more of them. So the one worker that is free stacks one
// on the other, but no more than policy.MaxHelping, and in the end all are run.
func TestJoinsHelpOnlySoDeep(t *testing.T) {
	const forks = 4 * policy.MaxHelping
	p := newPool(t, WithWorkers(2), WithPinning(PinNone))
	for range 3 {
		var depth, deepest, begun atomic.Int32
		var over atomic.Bool
		done := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			body := func(thief *Worker) {
				begun.Add(1)
				if thief == w {
					return
				}
				if thief.helping > policy.MaxHelping {
					t.Error(thief.helping, "helps on top of one another")
				}
				now := depth.Add(1)
				defer depth.Add(-1)
				deepest.Store(max(deepest.Load(), now))
				if over.Load() {
					return
				}
				l := new(latch) // as of a stolen fork
				go func() {
					eventually(over.Load)
					l.complete(thief)
				}()
				thief.await(l, false)
			}
			fs := []func(*Worker){func(*Worker) {
				eventually(func() bool { return depth.Load() > policy.MaxHelping })
				before := p.Stats().Workers[1-w.ID()].Attempts
				time.Sleep(50 * time.Millisecond)
				if n := p.Stats().Workers[1-w.ID()].Attempts - before; n > 200 {
					t.Error("the worker that must not help looked", n, "times in 50 ms instead of sleeping")
				}
				over.Store(true)
			}}
			for range forks {
				fs = append(fs, body)
			}
			w.Do(fs...)
			close(done)
		}))
		require.True(t, closed(done))
		require.EqualValues(t, policy.MaxHelping+1, deepest.Load())
		require.EqualValues(t, forks, begun.Load())
	}
	requireAtRest(t, p)
	for _, w := range p.victims() {
		require.Zero(t, w.helping)
	}
}

// TestHelpsOfABusyPoolAreBounded: a program whose joins often wait and help with forks that
// are larger than what they wait for.
func TestHelpsOfABusyPoolAreBounded(t *testing.T) {
	p := newPool(t, WithWorkers(8))
	nested := make([]int32, p.Slots()) // each belongs to its worker
	var deepest atomic.Int32
	large := Recursive(func(f *Fork[int, int], n int) int {
		w := f.Worker()
		nested[w.ID()]++
		defer func() { nested[w.ID()]-- }()
		if d := nested[w.ID()]; d > deepest.Load() {
			deepest.Store(d)
		}
		if w.helping > policy.MaxHelping {
			t.Error(w.helping)
		}
		switch {
		case n == 0:
			args := make([]int, 300)
			for i := range args {
				args[i] = 1
			}
			f.JoinAll(args, make([]int, 300))
			return 0
		case n < 4:
			x, y := f.Join(n+1, n+1)
			return x + y
		}
		time.Sleep(10 * time.Microsecond)
		return 1
	})
	for range stress(10) {
		_, err := large.Run(p, 0)
		require.NoError(t, err)
	}
	t.Log("deepest", deepest.Load())
	require.LessOrEqual(t, deepest.Load(), int32(5*(policy.MaxHelping+1)))
}

// TestWhoMayNotHelpKeepsNobodyAsleep: of two workers that sleep, one waits so deep that it
// takes no more forks. A new fork must reach the other one.
func TestWhoMayNotHelpKeepsNobodyAsleep(t *testing.T) {
	const waits, forks, sleeps = 0, 1, 2 // IDs: the lowest one is woken first
	p := newPool(t, WithWorkers(3), WithPinning(PinNone))
	for range 3 {
		meet := newBarrier(3)
		var l latch
		var waiter atomic.Pointer[Worker]
		result := make(chan bool)
		for range 3 {
			require.NoError(t, p.Go(func(w *Worker) {
				meet.wait()
				switch w.ID() {
				case waits:
					w.helping += policy.MaxHelping // as if it were that deep
					waiter.Store(w)
					w.await(&l, false)
					w.helping -= policy.MaxHelping
				case forks:
					require.True(t, eventually(func() bool {
						return waiter.Load() != nil && l.state.Load() == latchAlone && p.sleep.Parked(sleeps)
					}))
					time.Sleep(time.Millisecond)
					begun := make(chan struct{})
					Join(w,
						func(*Worker, int) (none int) {
							select {
							case <-begun:
								result <- true
							case <-time.After(time.Second):
								result <- false
							}
							return none
						}, 0,
						func(*Worker, int) int { close(begun); return 0 }, 0)
				}
			}))
		}
		reached := <-result
		l.complete(waiter.Load())
		require.True(t, reached, "a fork lay there for a second while a worker slept")
		requireAtRest(t, p)
	}
}

// TestWhoMayNotHelpTakesTasks, or tasks that everybody waits for would never run.
func TestWhoMayNotHelpTakesTasks(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	done := make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		w.helping += policy.MaxHelping
		defer func() { w.helping -= policy.MaxHelping }()
		l := new(latch)
		_ = w.Go(func(w *Worker) {
			g := newGroup(p)
			g.GoWorker(func(w *Worker) error { fib(w, 10); return nil })
			_ = g.Wait()
			l.complete(w)
		})
		w.await(l, false)
		close(done)
	}))
	require.True(t, closed(done))
}
