package pool

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

// private says which frames of a worker thieves cannot see. The worker must be waiting for something, so
// that it does not change them meanwhile.
func private(w *Worker) (hidden []string) {
	for _, s := range w.stacks {
		bottom := s.depth()
		var st *stack
		switch s := s.(type) {
		case *Fork[int, int]:
			st = &s.stack
		case *Fork[step, any]:
			st = &s.stack
		case *frames[application[int, int], int]:
			st = &s.stack
		case *frames[application[func(*Worker) int, int], int]:
			st = &s.stack
		default:
			continue
		}
		if _, split := borders(st.public.Load()); st.split != bottom || split != bottom {
			hidden = append(hidden, fmt.Sprintf("%T of slot %d: %d of %d", s, w.id, bottom-split, bottom))
		}
	}
	return hidden
}

// dive forks to a depth by a recursion and by joins, and then calls f. If the pool is not hungry, frames
// of both kinds are left private.
func dive(w *Worker, depth int, f func(w *Worker)) {
	down := Recursive(func(fork *Fork[int, int], n int) int {
		notLate(&fork.stack)
		switch {
		case n > 0:
			fork.Join(n-1, -1)
		case n == 0:
			var join func(w *Worker, n int) int
			join = func(w *Worker, n int) int {
				notLate(&stackOf[frames[application[int, int], int]](w).stack)
				if n == 0 {
					f(w)
				} else {
					Join(w, join, n-1, nop1, 0)
				}
				return 0
			}
			join(fork.Worker(), depth)
		}
		return 0
	})
	down.Call(w, depth)
}

func nop1(*Worker, int) int { return 0 }

// notLate makes the next fork of a stack believe that the last one was just now, so that it does not
// publish more: under emulation, one fork may take as long as many.
func notLate(s *stack) { s.checkedAt = math.MaxInt64 / 2 }

// occupy keeps a worker of the pool busy until release is called.
func occupy(p *Pool) (release func()) {
	busy, free := make(chan struct{}), make(chan struct{})
	_ = p.Go(func(*Worker) { close(busy); testutil.Compute(free) })
	<-busy
	return func() { close(free) }
}

// TestPrivateForksAreStolenOnceSomebodyIsIdle: when the others are busy, only the oldest
// forks are public. Then one becomes idle, and gets work at the next fork or join.
func TestPrivateForksAreStolenOnceSomebodyIsIdle(t *testing.T) {
	const depth = 3 * policy.AlwaysPublic
	for _, at := range []string{"fork", "join"} {
		t.Run(at, func(t *testing.T) {
			for range testutil.Stress(50) {
				p := newPool(t, WithWorkers(2))
				release := occupy(p)
				var stolen atomic.Int32
				result := make(chan int)
				require.NoError(t, p.Go(func(w *Worker) {
					var r *Recursion[int, int]
					hidden := 0
					r = Recursive(func(f *Fork[int, int], n int) int {
						notLate(&f.stack)
						switch {
						case n == 0:
							if f.Worker() != w {
								stolen.Add(1)
								return 1
							}
							if stolen.Load() == 0 {
								testutil.Eventually(func() bool { return stolen.Load() > 0 })
							}
							return 1
						case n == depth && at == "fork":
							hidden = f.bottom - f.split
							release()
							testutil.Eventually(func() bool { return f.slow.Load() == alarmed })
						case n == depth+1:
							if at == "join" {
								hidden = f.bottom - f.split
								release()
								testutil.Eventually(func() bool { return f.slow.Load() == alarmed })
							}
							return 1
						}
						x, y := f.Join(n+1, 0)
						return x + y
					})
					sum := r.Call(w, 1)
					if hidden == 0 {
						t.Error("nothing was private")
					}
					result <- sum
				}))
				require.Equal(t, depth+1, <-result)
				require.Positive(t, stolen.Load())
				requireAtRest(t, p)
				requireCloses(t, p)
			}
		})
	}
}

// TestWhoWaitsHidesNothing: while a task or guest waits, for whatever, thieves can see all of its forks,
// in whatever place and of whatever type.
func TestWhoWaitsHidesNothing(t *testing.T) {
	if testutil.UnderRace {
		t.Skip("it looks at what only a sleeping worker may")
	}
	const depth = 3 * policy.AlwaysPublic

	// Each way waits, and meanwhile calls look on another goroutine.
	waits := map[string]func(p *Pool, w *Worker, look func()){
		"join": func(p *Pool, w *Worker, look func()) {
			stolenSteps(stackOf[Fork[step, any]](w), nothing, func(*Fork[step, any]) any { look(); return nil })
		},
		"group": func(p *Pool, w *Worker, look func()) {
			g := newGroup(p)
			g.Go(func() error { look(); return nil })
			_ = g.Wait()
		},
		"scope": func(p *Pool, w *Worker, look func()) {
			w.Scope(func(s *Scope) {
				begun := make(chan struct{})
				s.Go(w, func(*Worker) { close(begun); look() })
				<-begun
			})
		},
	}
	places := map[string]func(p *Pool, f func(w *Worker)){
		"guest": inScope["guest"],
		"task":  inScope["task"],
		"guest in a guest": func(p *Pool, f func(w *Worker)) {
			_ = p.Run(func(w *Worker) { dive(w, depth, func(*Worker) { _ = p.Run(f) }) })
		},
		"guest in a task": func(p *Pool, f func(w *Worker)) {
			done := make(chan struct{})
			_ = p.Go(func(w *Worker) {
				defer close(done)
				dive(w, depth, func(*Worker) { _ = p.Run(f) })
			})
			<-done
		},
	}
	for place, in := range places {
		for what, wait := range waits {
			t.Run(what+" of a "+place, func(t *testing.T) {
				for wasPrivate, tries := false, 0; !wasPrivate; tries++ { // a fork that comes late publishes all: a thread without a CPU, say
					require.Less(t, tries, 100, "nothing was private before")
					p := newPool(t, WithWorkers(4))
					var hidden []string
					var releases []func()
					busy := p.Workers() - 1
					for range busy {
						releases = append(releases, occupy(p))
					}
					if strings.HasSuffix(place, "task") {
						busy++
					}
					in(p, func(w *Worker) {
						steps.Call(w, func(*Fork[step, any]) any {
							require.True(t, testutil.Eventually(func() bool { return p.core.Active() == busy })) // the worker that began last may still search
							dive(w, depth, func(w *Worker) {
								wasPrivate = len(private(w)) > 0
								for _, release := range releases {
									release()
								}
								waiter := goroutineID()
								wait(p, w, func() {
									testutil.Eventually(func() bool { // the waiter may not wait yet
										hidden = nil
										p.workers.each(func(w *Worker) {
											if w.goroutine == waiter {
												hidden = append(hidden, private(w)...)
											}
										})
										return len(hidden) == 0
									})
								})
							})
							return nil
						})
					})
					require.Empty(t, hidden, "hidden while the owner waits")
				}
			})
		}
	}
}

// TestWhoIsHungryAsksForForksWhereThereAreNone, by hand: a thief, or a worker that looks once more
// before its place sleeps, finds no fork at a place, though a worker there may have private ones.
func TestWhoIsHungryAsksForForksWhereThereAreNone(t *testing.T) {
	s := lonelyStack()
	var pl core.Roster
	s.owner.core.Init(&s.owner.pool.core, nil, (*shown)(s.owner), false)
	pl.Link(&s.owner.core)
	calm := func() {
		s.push(1)
		require.True(t, takesBack(s, 0))
		require.NotEqualValues(t, alarmed, s.slow.Load())
	}
	calm()
	require.False(t, pl.AnyFork(false))
	require.NotEqualValues(t, alarmed, s.slow.Load(), "nobody wants forks")
	require.False(t, pl.AnyFork(true))
	require.EqualValues(t, alarmed, s.slow.Load())
	calm()
	s.push(1)
	require.True(t, pl.AnyFork(true))
	require.NotEqualValues(t, alarmed, s.slow.Load(), "there is a fork")
}

// TestASearcherAsksForForks before it goes to sleep.
func TestASearcherAsksForForks(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var s *frames[application[int, int], int]
	deep, looked := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		s = stackOf[frames[application[int, int], int]](w)
		for s.slow.Load() == alarmed { // while the other worker searches or sleeps
			Join(w, nop1, 0, nop1, 0)
		}
		close(deep)
		testutil.Compute(looked)
	}))
	result := heist.Retry
	require.NoError(t, p.Go(func(w *Worker) {
		defer close(looked)
		testutil.Compute(deep)
		w.place.core.Searching = true
		p.core.Sleep.Add(policy.OneSearching)
		_, result = w.stealWork(true)
		w.place.core.StopSearching()
	}))
	<-looked
	require.Equal(t, heist.Empty, result)
	require.EqualValues(t, alarmed, s.slow.Load())
}

// TestJoinsOfPublicForksTakeTheSlowPath, whatever made them public.
func TestJoinsOfPublicForksTakeTheSlowPath(t *testing.T) {
	s := lonelyStack()
	const n = 3 * policy.AlwaysPublic
	for i := range n {
		s.push(i)
	}
	require.EqualValues(t, policy.AlwaysPublic, s.slow.Load())
	s.owner.expose()
	require.EqualValues(t, n, s.slow.Load())
	for d := n - 1; d > n-3; d-- {
		require.True(t, s.takeBack(d))
	}
	s.push(1)
	require.EqualValues(t, n-2, s.slow.Load(), "forks may take the fast path again")
}

// TestForksOfAGuestThatWaitsForAGroupAreStolen: the guest waits for a group whose function waits for a
// fork of the guest's. (There is no promise that this ends, but otherwise a CPU would idle.)
func TestForksOfAGuestThatWaitsForAGroupAreStolen(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	const depth = 3 * policy.AlwaysPublic
	for _, group := range []bool{false, true} {
		t.Run(fmt.Sprint("group ", group), func(t *testing.T) {
			releases := make([]func(), p.Workers())
			for i := range releases {
				releases[i] = occupy(p)
			}
			var newest atomic.Bool
			stolen := false
			require.NoError(t, p.Run(func(w *Worker) {
				r := Recursive(func(f *Fork[int, int], n int) int {
					switch {
					case n == -depth: // the newest fork
						newest.Store(true)
					case n == depth+1:
						for _, release := range releases {
							release()
						}
						enough := func() error {
							for range 1000 {
								if newest.Load() {
									break
								}
								time.Sleep(time.Millisecond)
							}
							stolen = newest.Load()
							return nil
						}
						if group {
							g := newGroup(p)
							g.Go(enough)
							_ = g.Wait()
						} else {
							f.Worker().Scope(func(s *Scope) {
								begun := make(chan struct{})
								s.Go(f.Worker(), func(*Worker) { close(begun); _ = enough() })
								<-begun
							})
						}
					case n > 0:
						f.Join(n+1, -n)
					}
					return 0
				})
				r.Call(w, 1)
			}))
			require.True(t, stolen, "work lay hidden while its owner waited and workers slept")
		})
	}
}

// TestExposeShowsAllStacks, by hand. One of the stacks has taken something back since it was public.
func TestExposeShowsAllStacks(t *testing.T) {
	s := lonelyStack()
	w := s.owner
	other := new(frames[int, int])
	other.init(w)
	other.body = s.body
	w.addStack(other)
	const n = 3 * policy.AlwaysPublic
	for i := range n {
		s.push(i)
	}
	other.push(1)
	setState(w, policy.OneSearching)
	s.push(n)
	setState(w, 0)
	require.True(t, takesBack(s, n)) // the pool is not hungry now
	for i := 1; i < n; i++ {
		other.push(i)
	}
	requireBorders(t, other, 0, policy.AlwaysPublic, n)
	w.expose()
	requireBorders(t, s, 0, n, n)
	requireBorders(t, other, 0, n, n)
}

// TestForksWhileAStolenOneIsWaitedForArePublic: a stolen fork no longer counts among the oldest.
func TestForksWhileAStolenOneIsWaitedForArePublic(t *testing.T) {
	s := lonelyStack()
	const n = 2 * policy.AlwaysPublic
	w := s.owner
	for i := range n {
		s.push(i)
	}
	w.expose()
	for range n {
		_, _ = s.claim(0)
	}
	// The owner waits for the newest one, and something that it runs meanwhile forks here.
	require.False(t, s.takeBack(n-1))
	s.push(100)
	require.True(t, s.visible(), "the only fork that is left is hidden")
}

// TestAForkOfBothCanBeStolenHoweverDeepItIs: it is private at first, and the next fork publishes it.
func TestAForkOfBothCanBeStolenHoweverDeepItIs(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var down func(w *Worker, n int) int
	down = func(w *Worker, n int) int {
		if n > 0 {
			x, _ := both(w, func(w *Worker) int { return down(w, n-1) }, func(*Worker) int { return 0 })
			return x
		}
		begun := make(chan struct{})
		x, _ := both(w, func(w *Worker) int {
			begins := testutil.Eventually(func() bool {
				both(w, nop[int], nop[int])
				select {
				case <-begun:
					return true
				default:
					return false
				}
			})
			if !begins {
				return 0
			}
			return 1
		}, func(*Worker) int { close(begun); return 0 })
		return x
	}
	require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, 1, down(w, 3*policy.AlwaysPublic)) }))
}

// TestEveryFunctionOfDoCanBeStolenByOneWhoFallsIdleLater: not only the oldest forks, which are public from
// the beginning, but all.
func TestEveryFunctionOfDoCanBeStolenByOneWhoFallsIdleLater(t *testing.T) {
	const n = 12
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(50) {
		release := occupy(p)
		var begun atomic.Int32
		fs := make([]func(*Worker), n)
		fs[0] = func(*Worker) {
			release()
			for begun.Load() < n-1 {
				runtime.Gosched()
			}
		}
		for i := 1; i < n; i++ {
			fs[i] = func(*Worker) { begun.Add(1) }
		}
		done := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) { w.Do(fs...); close(done) }))
		require.True(t, closed(done), "%d of %d were stolen", begun.Load(), n-1)
	}
}
