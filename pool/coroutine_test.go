package pool

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
)

// TestACoroutineIsKnown by the runtime's record, where heist reads it, and by its stack, however deep.
func TestACoroutineIsKnown(t *testing.T) {
	require.Equal(t, testutil.ReadsRecords, coroutineStart().at != 0)
	var deep func(n int, is bool)
	deep = func(n int, is bool) {
		if n > 0 {
			deep(n-1, is)
			return
		}
		require.Equal(t, is, inCoroutine())
		require.Equal(t, is, beginsAsCoroutine())
	}
	for _, n := range []int{0, 5, 500} {
		deep(n, false)
		var wg sync.WaitGroup
		wg.Go(func() { deep(n, false) })
		wg.Wait()
		next, stop := iter.Pull(func(yield func(bool) bool) {
			deep(n, true)
			wg.Go(func() { deep(n, false) }) // a coroutine's goroutines are none
			wg.Wait()
			yield(true)
			deep(n, true)
		})
		next()
		stop()
	}
}

// A function of iter.Pull runs in a goroutine of its own, so the pool cannot know whose place stands still
// while that function waits.
func TestCoroutinesMayWaitForTheirPool(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waits := map[string]func(p *Pool){
		"Future": func(p *Pool) {
			before := Async(p, func(*Worker) (int, error) { return 1, nil })
			n, err := Async(p, func(*Worker) (int, error) { return before.Wait(ctx) }).Wait(ctx)
			if n != 1 || err != nil {
				panic(err)
			}
		},
		"Group": func(p *Pool) {
			g := newGroup(p)
			g.SetLimit(1)
			for range 3 {
				g.Go(func() error { return nil })
			}
			if err := g.Wait(); err != nil {
				panic(err)
			}
		},
		"Block": func(p *Pool) {
			sent := make(chan struct{})
			if err := p.Run(func(w *Worker) {
				_ = w.Go(func(*Worker) { close(sent) })
				w.Block(func() { <-sent })
			}); err != nil {
				panic(err)
			}
		},
	}
	for name, waitFor := range waits {
		t.Run(name, func(t *testing.T) {
			forScarcePools(t, func(t *testing.T, p *Pool) {
				var ended, queued sync.WaitGroup
				for range p.Workers() {
					ended.Add(1)
					require.NoError(t, p.Go(func(w *Worker) {
						defer ended.Done()
						for range 40 { // in the slot and the ring, before what is waited for
							queued.Add(1)
							_ = w.Go(func(*Worker) { queued.Done() })
						}
						next, stop := iter.Pull(func(yield func(int) bool) {
							waitFor(p)
							yield(1)
						})
						defer stop()
						next()
					}))
				}
				ended.Wait()
				queued.Wait()
			})
		})
	}
}

// TestACoroutineMayWaitForAPoolThatWaitsForItsOwn: the task that stands still belongs to another pool than the
// one that the coroutine waits for, which neither pool can know.
func TestACoroutineMayWaitForAPoolThatWaitsForItsOwn(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background()) // so that no future runs in place
	defer cancel()
	waitFor := func(p *Pool) (int, error) {
		return Async(p, func(*Worker) (int, error) { return 1, nil }).Wait(ctx)
	}
	for name, body := range map[string]func(p, q *Pool){
		"future": func(p, q *Pool) {
			_, _ = Async(q, func(*Worker) (int, error) { return waitFor(p) }).Wait(ctx)
		},
		"group": func(p, q *Pool) {
			g := newGroup(q)
			g.Go(func() error { _, err := waitFor(p); return err })
			_ = g.Wait()
		},
		"Block": func(p, q *Pool) {
			_ = q.Run(func(w *Worker) {
				done := make(chan struct{})
				_ = q.Go(func(*Worker) { _, _ = waitFor(p); close(done) })
				w.Block(func() { <-done })
			})
		},
		"Pause": func(p, q *Pool) {
			begun := make(chan struct{})
			_ = q.Go(func(*Worker) { close(begun); _, _ = waitFor(p) })
			<-begun
			_ = q.Pause(ctx)
			q.Resume()
		},
		"a fork": func(p, _ *Pool) {
			var stolen atomic.Bool
			q := newPool(t, WithWorkers(2)) // the coroutine computes in place of one of them
			_ = Do(q, func(*Worker) { testutil.Eventually(stolen.Load) }, func(*Worker) { stolen.Store(true); _, _ = waitFor(p) })
		},
		"a child of a scope": func(p, q *Pool) {
			_ = q.Run(func(w *Worker) {
				w.Scope(func(s *Scope) {
					var stolen atomic.Bool
					s.Go(w, func(*Worker) { stolen.Store(true); _, _ = waitFor(p) })
					testutil.Eventually(stolen.Load)
				})
			})
		},
		"Close": func(p, q *Pool) {
			_ = q.Go(func(*Worker) { _, _ = waitFor(p) })
			_ = q.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, q := newPool(t, WithWorkers(1)), newPool(t, WithWorkers(1))
			f := Async(p, func(*Worker) (int, error) {
				next, stop := iter.Pull(func(yield func(int) bool) { body(p, q); yield(1) })
				defer stop()
				n, _ := next()
				return n, nil
			})
			require.True(t, testutil.Returns(func() { _, _ = f.Wait(ctx) }), "it hangs")
		})
	}
}

func TestWhatACoroutineWaitsForGoesOnInAPause(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range testutil.Stress(20) {
		p := newPool(t, WithWorkers(1))
		begun, pausing := make(chan struct{}), make(chan struct{})
		f := Async(p, func(*Worker) (int, error) {
			next, stop := iter.Pull(func(yield func(int) bool) {
				close(begun)
				<-pausing
				n, _ := Async(p, func(*Worker) (int, error) { return 1, nil }).Wait(ctx)
				yield(n)
			})
			defer stop()
			n, _ := next()
			return n, nil
		})
		<-begun
		ended, end := context.WithCancel(ctx)
		end()
		require.Error(t, p.Pause(ended)) // begins the pause
		close(pausing)
		require.True(t, testutil.Returns(func() { require.NoError(t, p.Pause(ctx)) }), "it hangs")
		require.True(t, f.Ready())
		p.Resume()
	}
}

func TestAPanicOfATaskBesideACoroutineIsHandled(t *testing.T) {
	var handled atomic.Int32
	p := newPool(t, WithWorkers(1), WithPanicHandler(func(*PanicError) { handled.Add(1) }))
	require.True(t, testutil.Returns(func() {
		begun := make(chan struct{})
		_ = Async(p, func(w *Worker) (int, error) {
			_ = w.Go(func(*Worker) { panic("in a task") })
			_ = w.Go(func(*Worker) { runtime.Goexit() })
			f := Async(p, func(*Worker) (int, error) { return 1, nil })
			close(begun)
			next, stop := iter.Pull(func(yield func(int) bool) {
				n, _ := f.Wait(context.Background())
				yield(n)
			})
			defer stop()
			n, _ := next()
			return n, nil
		})
		<-begun
		requireCloses(t, p)
	}))
	require.EqualValues(t, 1, handled.Load())
	require.EqualValues(t, 4, p.Stats().Total().Tasks)
}

// TestCloseWaitsForTasksThatRunBesideAWorker: accepted tasks are taken from a busy worker, which is still busy
// when all of them have run.
func TestCloseWaitsForTasksThatRunBesideAWorker(t *testing.T) {
	const tasks = 8
	p := newPool(t, WithWorkers(1))
	busy, free := make(chan struct{}), make(chan struct{})
	var ran atomic.Int32
	require.NoError(t, p.Go(func(w *Worker) {
		for range tasks { // the newest lies in the slot
			_ = w.Go(func(*Worker) { ran.Add(1) })
		}
		close(busy)
		<-free
	}))
	<-busy
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	require.True(t, testutil.Eventually(p.core.Closing.Load))
	p.eachQueue(func(q *heist.Injector[task]) { q.Close() }) // as at the last moment
	stolen, err := heist.NewRing[task](heist.DefaultRingCapacity, nil)
	require.NoError(t, err)
	for range tasks { // a steal may take several tasks
		p.runBeside(stolen)
	}
	require.True(t, testutil.Eventually(func() bool { return ran.Load() == tasks && p.core.Active() == 1 }))
	select {
	case <-closed:
		require.Fail(t, "a task still runs")
	case <-time.After(5 * time.Millisecond):
	}
	close(free)
	require.NoError(t, <-closed)
}

// TestACoroutineMayWaitForItsGroupsBacklog: the function that waits for the coroutine keeps its turn, and what the coroutine
// waits for waits for that turn, or for that of another group.
func TestACoroutineMayWaitForItsGroupsBacklog(t *testing.T) {
	for name, groups := range map[string]int{"the same group": 1, "another group": 2} {
		t.Run(name, func(t *testing.T) {
			forScarcePools(t, func(t *testing.T, p *Pool) {
				a := newGroup(p)
				a.AtMost(1)
				b := a
				if groups == 2 {
					b = newGroup(p)
					b.AtMost(1)
				}
				sent, held := make(chan struct{}), make(chan struct{})
				a.Go(func() error {
					next, stop := iter.Pull(func(yield func(int) bool) {
						p.Block(func() { <-sent })
						yield(1)
					})
					defer stop()
					next()
					return nil
				})
				if groups == 2 {
					b.Go(func() error { // as the first one does, for another coroutine
						next, stop := iter.Pull(func(yield func(int) bool) {
							p.Block(func() { <-held })
							yield(1)
						})
						defer stop()
						next()
						return nil
					})
				}
				for range 3 {
					b.Go(func() error { return nil })
				}
				b.Go(func() error { close(sent); close(held); return nil })
				require.NoError(t, a.Wait())
				require.NoError(t, b.Wait())
				require.Empty(t, p.backlogs.all())
				require.Zero(t, a.turns.Taken)
				require.Zero(t, b.turns.Taken)
			})
		})
	}
}

// TestByDefaultATaskCallsAnybodysCoroutine, on machines with several nodes, too: no worker is locked to a thread.
func TestByDefaultATaskCallsAnybodysCoroutine(t *testing.T) {
	onMachine(t, pretended(2, 2))
	p := newPool(t, WithWorkers(4))
	require.Len(t, p.Nodes(), 2)
	next, stop := iter.Pull(func(yield func(int) bool) {
		for i := 0; yield(i); i++ {
		}
	})
	defer stop()
	for i := range 20 {
		var got int
		require.NoError(t, p.Run(func(w *Worker) { w.Scope(func(s *Scope) { s.Go(w, func(*Worker) { got, _ = next() }) }) }))
		require.Equal(t, i, got)
	}
}

// TestAWaitOnADeepStackEnds: to ask whether the caller is a coroutine means to walk its stack, once. In parts that each began at the top
// a wait of this depth took more than a minute.
func TestAWaitOnADeepStackEnds(t *testing.T) {
	var down func(depth int, f func())
	down = func(depth int, f func()) {
		if depth > 0 {
			down(depth-1, f)
			return
		}
		f()
	}
	p := newPool(t, WithWorkers(2))
	f := Async(p, func(*Worker) (int, error) { return 1, nil }, Delay(time.Millisecond))
	require.True(t, testutil.Returns(func() {
		down(300_000, func() { _, _ = f.Wait(context.Background()) })
		_ = p.Run(func(w *Worker) { down(300_000, func() { w.Block(runtime.Gosched) }) })
	}))
}
