package pool

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
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

// spawn adds a tree of children, each added by its parent wherever the parent runs, and counts them.
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
				for range testutil.Stress(20) {
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

// TestChildOutlivesWhoAddedIt: the function that added the child returns first, and the scope must not.
func TestChildOutlivesWhoAddedIt(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for range testutil.Stress(100) {
		var parentGone, ended bool // without a lock: the race detector would tell
		require.NoError(t, p.Run(func(w *Worker) {
			w.Scope(func(s *Scope) {
				s.Go(w, func(w *Worker) {
					gone := make(chan struct{})
					s.Go(w, func(w *Worker) {
						if !w.core.Guest {
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
		for range testutil.Stress(50) {
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
			if testutil.Short() {
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
		for range testutil.Stress(20) {
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
			for range testutil.Stress(100) {
				var v any
				var running atomic.Int32
				in(p, func(w *Worker) {
					v = testutil.Caught(func() {
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

// TestFirstPanicOfTheChildrenCounts, and children that have not begun never do.
func TestFirstPanicOfTheChildrenCounts(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	var ran []int
	done := make(chan any)
	require.NoError(t, p.Go(func(w *Worker) {
		done <- testutil.Caught(func() {
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
			for range testutil.Stress(50) {
				var running, begun atomic.Int32
				var v any
				in(p, func(w *Worker) {
					v = testutil.Caught(func() {
						w.Scope(func(s *Scope) {
							at := make(gate)
							s.Go(w, func(*Worker) {
								running.Add(1)
								defer running.Add(-1)
								at.open()
								<-later()
							})
							at.await() // in vain if no worker is free to take it
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
			for range testutil.Stress(50) {
				var running atomic.Int32
				var after, deferred bool
				require.True(t, testutil.Returns(func() {
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
		guest := testutil.Together(1, func(int) {
			if err := p.Run(job); err != nil {
				t.Error(err)
			}
		})
		inside.Wait()
		closing := testutil.Together(1, func(int) {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		require.True(t, testutil.Eventually(p.core.Closing.Load))
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
			require.Equal(t, "late", testutil.Caught(func() {
				w.Scope(func(s *Scope) {
					s.Go(w, func(*Worker) { explode("late") })
				})
			}).(*PanicError).Value)
		}))
	}
}

// TestScopeAllocatesNothingForAChild beyond the closure that it is given.
func TestScopeAllocatesNothingForAChild(t *testing.T) {
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
	require.LessOrEqual(t, allocsPerRun(20, run), n/4.0)
}

// TestGuestWhoseScopeFailsTidiesUpItself: when no worker is free, only the guest can see to it that children
// that have not begun never do.
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
			wait := testutil.Together(1, func(int) {
				_ = p.Run(func(w *Worker) {
					_ = testutil.Caught(func() {
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
			case <-time.After(testutil.Patience):
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
	guest := testutil.Together(1, func(int) {
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

// nested is a scope that checks that each child added to it runs, and runs before the scope is over.
type nested struct {
	*Scope
	over  atomic.Bool
	added atomic.Int64
	ran   atomic.Int64
}

func (n *nested) add(t *testing.T, w *Worker, f func(w *Worker)) {
	n.added.Add(1)
	n.Go(w, func(w *Worker) {
		if n.over.Load() {
			t.Error("a child runs when its scope is over")
		}
		f(w)
		n.ran.Add(1)
	})
}

func inNested(t *testing.T, w *Worker, body func(n *nested)) {
	var n nested
	w.Scope(func(s *Scope) {
		n.Scope = s
		body(&n)
	})
	n.over.Store(true)
	if n.ran.Load() != n.added.Load() {
		t.Error(n.ran.Load(), "children of", n.added.Load(), "ended before their scope")
	}
}

// TestStolenChildFindsItsScope among all that its worker has open. There are scopes in scopes, whose bodies
// and children add children to all of them, while other workers steal.
func TestStolenChildFindsItsScope(t *testing.T) {
	var grow func(t *testing.T, w *Worker, depth int, around []*nested)
	grow = func(t *testing.T, w *Worker, depth int, around []*nested) {
		inNested(t, w, func(n *nested) {
			all := append(around[:len(around):len(around)], n)
			for i := range 6 {
				n := all[len(all)-1-min(i, len(all)-1)/2] // its own mostly, but also those around it
				n.add(t, w, func(w *Worker) {
					switch {
					case depth == 0:
					case i == 1: // only scopes that are still open when it runs
						grow(t, w, depth-1, nil)
					case i%2 == 0:
						n.add(t, w, func(*Worker) { runtime.Gosched() })
					}
				})
				if i == 3 && depth > 0 {
					grow(t, w, depth-1, all)
				}
				runtime.Gosched()
			}
		})
	}
	for where, in := range inScope {
		t.Run(where, func(t *testing.T) {
			forSizes(t, func(t *testing.T, p *Pool) {
				for range testutil.Stress(30) {
					in(p, func(w *Worker) { grow(t, w, 4, nil) })
				}
			})
		})
	}
}

// TestMillionChildrenOfOneWorker measures the memory that they take: a deque's slots, and the arrays that it
// has outgrown. The rest of the process allocates a little meanwhile. The pool lets go of it afterwards.
func TestMillionChildrenOfOneWorker(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	const n = 1_000_000
	var ran atomic.Int64 // ReadMemStats may wait, and then another worker takes the place
	var before, after runtime.MemStats
	done := make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		defer close(done)
		w.Scope(func(s *Scope) { // in a task: a guest would share its children with the worker
			child := func(*Worker) { ran.Add(1) }
			runtime.ReadMemStats(&before)
			for range n {
				s.Go(w, child)
			}
			runtime.ReadMemStats(&after)
		})
	}))
	<-done
	require.EqualValues(t, n, ran.Load())
	require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(17<<20), "bytes: 8 a slot, and as many on the way")
	requireAtRest(t, p) // which looks at the deque
}

// TestAWaitKeepsTheChildrenOfAnOpenScope, though a wait lets go of a deque that has grown.
func TestAWaitKeepsTheChildrenOfAnOpenScope(t *testing.T) {
	for where, in := range inScope {
		t.Run(where, func(t *testing.T) {
			const n = 5000 // more than the deque that a worker keeps has room for
			p := newPool(t, WithWorkers(1))
			var ran atomic.Int64
			in(p, func(w *Worker) {
				w.Scope(func(s *Scope) {
					for range n {
						s.Go(w, func(*Worker) { ran.Add(1) })
					}
					w.Block(runtime.Gosched)
				})
			})
			require.EqualValues(t, n, ran.Load())
		})
	}
}

// TestWhatWaitsForTheEndOfAnInnerScope: a child of an outer scope waits until an inner scope of the same
// worker has ended. A worker that takes the child must not run it on top of the inner scope's end.
func TestWhatWaitsForTheEndOfAnInnerScope(t *testing.T) {
	ways := map[string]func(w *Worker, outer *Scope, child func(*Worker), in func(body func())){
		"added before": func(w *Worker, outer *Scope, child func(*Worker), in func(body func())) {
			outer.Go(w, child)
			in(func() {})
		},
		"added inside": func(w *Worker, outer *Scope, child func(*Worker), in func(body func())) {
			in(func() { outer.Go(w, child) })
		},
		"added in a call inside": func(w *Worker, outer *Scope, child func(*Worker), in func(body func())) {
			in(func() { _ = w.Pool().Run(func(w *Worker) { outer.Go(w, child) }) })
		},
		"added by a child": func(w *Worker, outer *Scope, child func(*Worker), in func(body func())) {
			in(func() {})
			outer.Go(w, func(w *Worker) { outer.Go(w, child) })
			w.Scope(func(s *Scope) { s.Go(w, func(*Worker) {}) })
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			for where, in := range inScope {
				t.Run(where, func(t *testing.T) {
					forSizes(t, func(t *testing.T, p *Pool) {
						for range testutil.Stress(50) {
							var ran, inner atomic.Int64
							job := func(w *Worker, outer *Scope) {
								over := make(chan struct{})
								way(w, outer, func(*Worker) { <-over; ran.Add(1) }, func(body func()) {
									w.Scope(func(s *Scope) {
										s.Go(w, func(*Worker) { inner.Add(1) })
										body()
										s.Go(w, func(*Worker) { inner.Add(1) })
									})
									close(over)
								})
							}
							require.True(t, testutil.Returns(func() {
								in(p, func(w *Worker) {
									w.Scope(func(outer *Scope) {
										outer.Go(w, func(w *Worker) { job(w, outer) }) // may be stolen
										job(w, outer)
									})
								})
							}), "the scopes hang")
							require.EqualValues(t, 2, ran.Load())
							require.EqualValues(t, 4, inner.Load())
						}
					})
				})
			}
		})
	}
}

// TestStolenChildWaitsForItsOwn: a stolen child has returned, but a child that it added was stolen from its
// thief and has not ended, so the scope has not ended either.
func TestStolenChildWaitsForItsOwn(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for range testutil.Stress(100) {
		var ended atomic.Bool
		first, second := make(gate), make(gate)
		require.NoError(t, p.Run(func(w *Worker) {
			w.Scope(func(s *Scope) {
				s.Go(w, func(w *Worker) {
					first.open()
					s.Go(w, func(w *Worker) {
						second.open()
						s.Go(w, func(*Worker) { <-later(); ended.Store(true) })
					})
					second.await()
				})
				first.await()
			})
			if !ended.Load() {
				t.Error("the scope is over before its last child")
			}
		}))
	}
}

// TestHowAStolenChildEnds: a panic, a Goexit and a cancellation below it come to the scope.
func TestHowAStolenChildEnds(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		child func(cancel func())
		check func(t *testing.T, v any, returned bool, err error)
	}{
		"panic": {
			func(func()) { explode(boom) },
			func(t *testing.T, v any, _ bool, _ error) {
				e, ok := v.(*PanicError)
				require.True(t, ok, "%T", v)
				require.Same(t, boom, e.Value)
			},
		},
		"Goexit": {
			func(func()) { runtime.Goexit() },
			func(t *testing.T, v any, returned bool, _ error) {
				require.Nil(t, v)
				require.False(t, returned)
			},
		},
		"cancelled": {
			func(cancel func()) { cancel() },
			func(t *testing.T, _ any, _ bool, err error) { require.ErrorIs(t, err, context.Canceled) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range testutil.Stress(100) {
				var running atomic.Int64
				var value any
				var returned bool
				var err error
				require.True(t, testutil.Returns(func() {
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					defer func() { value = recover() }()
					err = p.With(ctx).Run(func(w *Worker) {
						defer func() {
							if running.Load() != 0 {
								t.Error("children run when the scope is over")
							}
						}()
						w.Scope(func(s *Scope) {
							stolen := make(gate)
							s.Go(w, func(w *Worker) {
								stolen.open()
								running.Add(1)
								defer running.Add(-1)
								s.Go(w, func(*Worker) {})
								s.Go(w, func(w *Worker) {
									running.Add(1)
									defer running.Add(-1)
									test.child(cancel)
									for !w.Cancelled() { // it was cancelled
										runtime.Gosched()
									}
								})
							})
							stolen.await()
						})
					})
					returned = true
				}), "the scope hangs")
				test.check(t, value, returned, err)
			}
			requireAtRest(t, p)
		})
	}
}

// TestChildrenThatHaveRunAreForgotten, though the deque is not empty.
func TestChildrenThatHaveRunAreForgotten(t *testing.T) {
	for _, workers := range []int{1, 3} {
		p := newPool(t, WithWorkers(workers))
		done := make(chan struct{})
		require.NoError(t, p.Go(func(w *Worker) {
			defer close(done)
			var all []weak.Pointer[list]
			add := func(s *Scope, w *Worker) {
				l, seen := garbage()
				all = append(all, seen)
				s.Go(w, func(*Worker) { runtime.KeepAlive(l) })
			}
			w.Scope(func(outer *Scope) {
				outer.Go(w, func(*Worker) {
					if workers == 1 { // runs last
						requireCollected(t, all...)
					}
				})
				if workers > 1 {
					<-later()
				}
				for range 100 {
					add(outer, w)
				}
				w.Scope(func(s *Scope) {
					for range 100 {
						add(s, w)
						if workers > 1 { // with one worker it would run after the check
							add(outer, w)
						}
					}
				})
			})
			requireCollected(t, all...)
		}))
		<-done
	}
}

// TestChildIsAddedByAnotherGoroutine with a worker that is not its own. That is not allowed, but neither that
// child nor any other is lost.
func TestChildIsAddedByAnotherGoroutine(t *testing.T) {
	if goroutineIDIsSlow {
		t.Skip("nobody looks whose the worker is")
	}
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(100) {
		var ran atomic.Int64
		require.NoError(t, p.Run(func(w *Worker) {
			w.Scope(func(s *Scope) {
				wait := testutil.Together(2, func(int) {
					for range 100 {
						s.Go(w, func(*Worker) { ran.Add(1) })
						s.Go(nil, func(*Worker) { ran.Add(1) })
					}
				})
				for range 100 {
					s.Go(w, func(*Worker) { ran.Add(1) })
				}
				wait()
			})
		}))
		require.EqualValues(t, 500, ran.Load())
	}
}

// TestAThiefTakesTheOldestStrayOfItsNode, by hand, or the oldest that may run anywhere, and one of another
// node only if there is neither.
func TestAThiefTakesTheOldestStrayOfItsNode(t *testing.T) {
	const anywhere, node0, node1 = 0, 1, 2
	var s Scope
	var strays []*task
	for _, node := range []int{node1, node0, anywhere, node1, node0} {
		f := taskOf(func(*Worker) {})
		strays = append(strays, f)
		s.strays = append(s.strays, stray{f, node})
		s.waiting.Add(1)
	}
	for _, want := range []struct{ thief, stray int }{{0, 1}, {0, 2}, {0, 4}, {0, 0}, {1, 3}} {
		require.Same(t, strays[want.stray], s.claim(want.thief))
	}
	require.Nil(t, s.claim(0))
}

// TestScopesLeaveNothingBehind in the run queue of a worker that never returns to its queue.
func TestScopesLeaveNothingBehind(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	onlyWorker(t, p, func(w *Worker) {
		for range testutil.Stress(10_000) {
			w.Scope(func(s *Scope) {
				for range 4 {
					s.Go(w, func(*Worker) {})
				}
			})
		}
		require.Zero(t, w.queued())
		require.NoError(t, p.TrySubmit(func(*Worker) {}))
	})
}
