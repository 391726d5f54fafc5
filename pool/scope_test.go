package pool

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inScope runs a function where a scope can be opened: as a guest, in a task, and as a
// guest inside a task.
var inScope = map[string]func(p *Pool, f func(w *Worker)){
	"guest": func(p *Pool, f func(w *Worker)) { _ = p.Run(f) },
	"task": func(p *Pool, f func(w *Worker)) {
		done := make(chan struct{})
		_ = p.Go(func(w *Worker) { defer close(done); f(w) })
		<-done
	},
	"guest in a task": func(p *Pool, f func(w *Worker)) {
		done := make(chan struct{})
		_ = p.Go(func(*Worker) { defer close(done); _ = p.Run(f) })
		<-done
	},
}

// spawn adds a tree of children, each added by its parent from wherever that runs. It
// counts them.
func spawn(s *Scope, w *Worker, depth int, ran *atomic.Int64) {
	s.Go(w, func(w *Worker) {
		if depth > 0 {
			spawn(s, w, depth-1, ran)
			spawn(s, w, depth-1, ran)
		}
		if depth%3 == 0 {
			runtime.Gosched()
		}
		ran.Add(1)
	})
}

func TestScopeWaitsForChildrenOfChildren(t *testing.T) {
	for where, in := range inScope {
		t.Run(where, func(t *testing.T) {
			forSizes(t, func(t *testing.T, p *Pool) {
				for range stress(20) {
					var ran atomic.Int64
					var after int64
					in(p, func(w *Worker) {
						w.Scope(func(s *Scope) { spawn(s, w, 7, &ran) })
						after = ran.Load()
					})
					require.EqualValues(t, 1<<8-1, after)
				}
			})
		})
	}
}

// TestChildOutlivesWhoAddedIt: the function that added it returns first, and the scope
// does not.
func TestChildOutlivesWhoAddedIt(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for range stress(100) {
		var parentGone, ended bool // without a lock: the race detector would tell
		require.NoError(t, p.Run(func(w *Worker) {
			w.Scope(func(s *Scope) {
				s.Go(w, func(w *Worker) {
					gone := make(chan struct{})
					s.Go(w, func(w *Worker) {
						if !w.guest {
							s.Go(w, func(*Worker) { <-later(); <-gone; ended = parentGone })
						} else {
							<-gone
							ended = parentGone
						}
					})
					parentGone = true
					close(gone)
				})
			})
			require.True(t, ended)
		}))
	}
}

func TestChildrenFork(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for range stress(50) {
			var sum atomic.Int64
			require.NoError(t, p.Run(func(w *Worker) {
				x, _ := Join(w,
					func(w *Worker, n int) int {
						w.Scope(func(s *Scope) {
							for range 20 {
								s.Go(w, func(w *Worker) { sum.Add(int64(fib(w, 8) + forkFib.Call(w, 8))) })
							}
							sum.Add(int64(fib(w, 8)))
						})
						return n
					}, 1, fib, 9)
				require.Equal(t, 1, x)
			}))
			require.EqualValues(t, 41*serialFib(8), sum.Load())
		}
	})
}

func TestScopeOfThousands(t *testing.T) {
	for where, in := range inScope {
		t.Run(where, func(t *testing.T) {
			p := newPool(t, WithWorkers(4))
			n := 20_000
			if testing.Short() {
				n = 2000
			}
			ran := make([]atomic.Int32, n)
			in(p, func(w *Worker) {
				w.Scope(func(s *Scope) {
					for i := range ran {
						s.Go(w, func(*Worker) { ran[i].Add(1) })
					}
				})
				for i := range ran {
					if ran[i].Load() != 1 {
						t.Error("child", i, "ran", ran[i].Load(), "times")
					}
				}
			})
		})
	}
}

func TestScopeInScope(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for range stress(20) {
			var ran atomic.Int64
			var nest func(w *Worker, depth int)
			nest = func(w *Worker, depth int) {
				before := ran.Load()
				w.Scope(func(s *Scope) {
					for range 3 {
						s.Go(w, func(w *Worker) {
							if depth > 0 {
								nest(w, depth-1)
							}
							ran.Add(1)
						})
					}
				})
				if ran.Load() < before+3 {
					t.Error("a scope ended before its children")
				}
			}
			require.NoError(t, p.Run(func(w *Worker) { nest(w, 4) }))
			require.EqualValues(t, 3+9+27+81+243, ran.Load())
		}
	})
}

func TestEmptyScope(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	require.NoError(t, p.Run(func(w *Worker) {
		w.Scope(func(*Scope) {})
		require.PanicsWithError(t, "pool: Worker.Scope was given a nil function", func() { w.Scope(nil) })
		require.PanicsWithError(t, "pool: Scope.Go was given a nil function", func() {
			w.Scope(func(s *Scope) { s.Go(w, nil) })
		})
		require.Equal(t, serialFib(10), fib(w, 10))
	}))
}

func TestPanicInAChildReachesTheScope(t *testing.T) {
	for where, in := range inScope {
		t.Run(where, func(t *testing.T) {
			p := newPool(t, WithWorkers(3))
			boom := errors.New("boom")
			for range stress(100) {
				var v any
				var running atomic.Int32
				in(p, func(w *Worker) {
					v = caught(func() {
						w.Scope(func(s *Scope) {
							for i := range 8 {
								s.Go(w, func(w *Worker) {
									running.Add(1)
									defer running.Add(-1)
									<-later()
									if i == 3 {
										explode(boom)
									}
									fib(w, 6)
								})
							}
						})
					})
					if running.Load() != 0 {
						t.Error("children run when the scope is over")
					}
					if fib(w, 10) != serialFib(10) {
						t.Error("wrong afterwards")
					}
				})
				e, ok := v.(*PanicError)
				require.True(t, ok, "%T", v)
				require.Same(t, boom, e.Value)
				require.Contains(t, string(e.Stack), "pool.explode(")
			}
			requireAtRest(t, p)
		})
	}
}

// TestFirstPanicOfTheChildrenCounts, and those that have not begun never do.
func TestFirstPanicOfTheChildrenCounts(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	var ran []int
	done := make(chan any)
	require.NoError(t, p.Go(func(w *Worker) {
		done <- caught(func() {
			w.Scope(func(s *Scope) {
				for i := range 100 {
					s.Go(w, func(*Worker) {
						ran = append(ran, i)
						if i <= 97 {
							explode(i)
						}
					})
				}
			})
		})
	}))
	require.Equal(t, 97, (<-done).(*PanicError).Value)
	require.Equal(t, []int{99, 98, 97}, ran, "the newest first")
}

func TestPanicInTheBodyWaitsForTheChildren(t *testing.T) {
	for where, in := range inScope {
		t.Run(where, func(t *testing.T) {
			p := newPool(t, WithWorkers(2))
			for range stress(50) {
				var running, begun atomic.Int32
				var v any
				in(p, func(w *Worker) {
					v = caught(func() {
						w.Scope(func(s *Scope) {
							at := make(gate)
							s.Go(w, func(*Worker) {
								running.Add(1)
								defer running.Add(-1)
								at.open()
								<-later()
							})
							at.await() // in vain where nobody is free to take it
							for range 10 {
								s.Go(w, func(*Worker) { begun.Add(1) })
							}
							explode("body")
						})
					})
					if running.Load() != 0 {
						t.Error("a child outlived the scope")
					}
				})
				require.Equal(t, "body", v)
			}
			requireAtRest(t, p)
		})
	}
}

func TestGoexitInAScope(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for name, body := range map[string]func(w *Worker, s *Scope, running *atomic.Int32){
		"body": func(w *Worker, s *Scope, running *atomic.Int32) {
			s.Go(w, func(*Worker) { running.Add(1); <-later(); running.Add(-1) })
			runtime.Goexit()
		},
		"stolen child": func(w *Worker, s *Scope, running *atomic.Int32) {
			begun := make(chan struct{})
			s.Go(w, func(*Worker) { close(begun); runtime.Goexit() })
			<-begun
		},
		"some child": func(w *Worker, s *Scope, running *atomic.Int32) {
			for range 5 {
				s.Go(w, func(*Worker) { runtime.Goexit() })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range stress(50) {
				var running atomic.Int32
				var after, deferred bool
				require.True(t, returns(func() {
					_ = p.Run(func(w *Worker) {
						defer func() { deferred = true }()
						w.Scope(func(s *Scope) { body(w, s, &running) })
						after = true
					})
				}), "the scope hangs")
				require.True(t, deferred)
				require.False(t, after)
				require.Zero(t, running.Load())
				requireAtRest(t, p)
				require.NoError(t, p.Go(func(w *Worker) {
					w.Scope(func(s *Scope) { body(w, s, &running) })
				}))
				requireAtRest(t, p)
				require.Zero(t, running.Load())
			}
		})
	}
}

// TestScopeOfAClosingPool: what the pool accepted may still open scopes, and their
// children are run.
func TestScopeOfAClosingPool(t *testing.T) {
	for _, workers := range []int{1, 4} {
		p := newPool(t, WithWorkers(workers))
		goOn := make(chan struct{})
		var ran atomic.Int64
		var inside sync.WaitGroup
		job := func(w *Worker) {
			w.Scope(func(s *Scope) {
				spawn(s, w, 4, &ran)
				inside.Done()
				<-goOn
				spawn(s, w, 4, &ran)
				w.Scope(func(s *Scope) { spawn(s, w, 4, &ran) })
			})
		}
		inside.Add(2)
		require.NoError(t, p.Go(job))
		guest := together(1, func(int) {
			if err := p.Run(job); err != nil {
				t.Error(err)
			}
		})
		inside.Wait()
		closing := together(1, func(int) {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		require.True(t, eventually(p.closing.Load))
		close(goOn)
		closing()
		guest()
		require.EqualValues(t, 6*31, ran.Load())

		// Guests may stay longer than the workers.
		p = newPool(t, WithWorkers(workers))
		ran.Store(0)
		require.NoError(t, p.Run(func(w *Worker) {
			w.Scope(func(s *Scope) {
				requireCloses(t, p)
				spawn(s, w, 4, &ran)
			})
			require.EqualValues(t, 31, ran.Load())
			require.Equal(t, "late", caught(func() {
				w.Scope(func(s *Scope) {
					s.Go(w, func(*Worker) { explode("late") })
				})
			}).(*PanicError).Value)
		}))
	}
}

// TestScopeAllocatesOnceForAChild beyond the closure that it is given.
func TestScopeAllocatesOnceForAChild(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	requireAtRest(t, p)
	const n = 100
	child := func(*Worker) {}
	run := func() {
		_ = p.Run(func(w *Worker) {
			w.Scope(func(s *Scope) {
				for range n {
					s.Go(w, child)
				}
			})
		})
	}
	run()
	require.LessOrEqual(t, allocsPerRun(20, run), n+8.0)
}

// TestGuestWhoseScopeFailsTidiesUpItself: when no worker is free, there is nobody but the
// guest to see that the children that have not begun never will.
func TestGuestWhoseScopeFailsTidiesUpItself(t *testing.T) {
	for name, body := range map[string]func(s *Scope, w *Worker){
		"return": func(*Scope, *Worker) {},
		"panic":  func(*Scope, *Worker) { explode("body") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(1))
			busy, free := make(chan struct{}), make(chan struct{})
			require.NoError(t, p.Go(func(*Worker) { close(busy); <-free }))
			<-busy
			over := make(chan struct{})
			wait := together(1, func(int) {
				_ = p.Run(func(w *Worker) {
					_ = caught(func() {
						w.Scope(func(s *Scope) {
							s.Go(w, func(*Worker) {})
							body(s, w)
						})
					})
				})
				close(over)
			})
			select {
			case <-over:
			case <-time.After(2 * time.Second):
				t.Error("the scope waits until a worker is free")
			}
			close(free)
			wait()
		})
	}
}

// TestCloseWaitsForTasksBesideAGuest: a guest that waits for a scope leaves tasks to the
// workers, and what was accepted is done before Close returns.
func TestCloseWaitsForTasksBesideAGuest(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	inChild, leaveChild := make(chan struct{}), make(chan struct{})
	inTask, leaveTask := make(chan struct{}), make(chan struct{})
	var done atomic.Bool
	guest := together(1, func(int) {
		_ = p.Run(func(w *Worker) {
			w.Scope(func(s *Scope) {
				s.Go(w, func(*Worker) { close(inChild); <-leaveChild })
				<-inChild // the only worker has it
				_ = p.Go(func(*Worker) { close(inTask); <-leaveTask; done.Store(true) })
			})
		})
	})
	<-inChild
	close(leaveChild)
	<-inTask
	early := make(chan bool)
	go func() {
		_ = p.Close()
		early <- !done.Load()
	}()
	select {
	case <-early:
		t.Error("Close returned while a task ran that the pool had accepted")
		close(leaveTask)
	case <-time.After(300 * time.Millisecond):
		close(leaveTask)
		require.False(t, <-early)
	}
	guest()
}

// TestScopesInChildrenDoNotPileUp: each child of a wide scope opens a scope of its own,
// which is two levels of nesting. The stack must not grow with the number of children.
func TestScopesInChildrenDoNotPileUp(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	const n = 10_000
	deepest := make([]int, p.Slots())
	depth := make([]int, p.Slots())
	result := make(chan int)
	require.NoError(t, p.Go(func(w *Worker) {
		w.Scope(func(s *Scope) {
			for range n {
				s.Go(w, func(w *Worker) {
					id := w.ID()
					depth[id]++
					deepest[id] = max(deepest[id], depth[id])
					w.Scope(func(s *Scope) {
						for range 10 {
							s.Go(w, func(*Worker) {})
						}
					})
					depth[id]--
				})
			}
		})
		result <- max(deepest[0], deepest[1])
	}))
	got := <-result
	t.Log(got, "children on top of one another")
	require.Less(t, got, n/10, "children on top of one another on one stack")
}
