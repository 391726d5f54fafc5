package pool

import (
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool/inspect"
)

// aHold is what the function of a user does here: it says that it has begun, and then waits or computes.
type aHold struct {
	begun, gate chan struct{}
	once        sync.Once // some ways in call the function several times
	computes    bool
}

func newHold(computes bool) *aHold {
	return &aHold{begun: make(chan struct{}), gate: make(chan struct{}), computes: computes}
}

func (h *aHold) hold() {
	h.once.Do(func() { close(h.begun) })
	if h.computes {
		testutil.Compute(h.gate)
		return
	}
	<-h.gate
}

// wayIn gives the pool a function that holds, and returns its code, and what releases all that the way needs.
type wayIn func(t *testing.T, p *Pool, h *aHold) (code uintptr)

// call has another goroutine make a call that lasts as long as h.
func call(t *testing.T, f func() error) {
	over := make(chan error, 1)
	go func() { over <- f() }()
	t.Cleanup(func() { require.NoError(t, <-over) })
}

func functionOf(h *aHold) func(*Worker) { return func(*Worker) { h.hold() } }

func errorOf(h *aHold) func() error { return func() error { h.hold(); return nil } }

func workerErrorOf(h *aHold) func(*Worker) error {
	return func(*Worker) error { h.hold(); return nil }
}

func resultOf(h *aHold) func() (int, error) { return func() (int, error) { h.hold(); return 0, nil } }

func workerResultOf(h *aHold) func(*Worker) (int, error) {
	return func(*Worker) (int, error) { h.hold(); return 0, nil }
}

// tasksIn are the ways in whose function is a task, by their names.
var tasksIn = map[string]wayIn{
	"Pool.Go": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		require.NoError(t, p.Go(f))
		return codeOf(f)
	},
	"Worker.Go": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		require.NoError(t, p.Go(func(w *Worker) { _ = w.Go(f) }))
		return codeOf(f)
	},
	"Submit":                 submitIn(context.Background()),
	"Submit with a context":  submitIn(withCancel),
	"Submit late":            submitIn(context.Background(), Delay(1)),
	"Submit in time":         submitIn(withCancel, StartBy(time.Now().Add(time.Hour), func(*Worker) {}), Delay(1)),
	"Submit with a priority": submitIn(withCancel, PriorityHigh),
	"Submit of one with labels": func(t *testing.T, p *Pool, h *aHold) (code uintptr) {
		pprof.Do(context.Background(), pprof.Labels("a", "b"), func(context.Context) {
			code = submitIn(withCancel, StartBy(time.Now().Add(time.Hour), func(*Worker) {}))(t, p, h)
		})
		return code
	},
	"too late": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		require.NoError(t, p.TrySubmit(func(*Worker) {}, StartBy(time.Time{}, f)))
		return codeOf(f)
	},
	"SubmitAll": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		_, err := p.SubmitAll(context.Background(), []func(*Worker){f})
		require.NoError(t, err)
		return codeOf(f)
	},
	"Async": func(_ *testing.T, p *Pool, h *aHold) uintptr {
		f := workerResultOf(h)
		Async(p, f)
		return codeOf(f)
	},
	"Async in time": func(_ *testing.T, p *Pool, h *aHold) uintptr {
		f := workerResultOf(h)
		Async(p, f, StartBy(time.Now().Add(time.Hour), func(*Worker) {}))
		return codeOf(f)
	},
	"Async too late": func(_ *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		Async(p, func(*Worker) (int, error) { return 0, nil }, StartBy(time.Time{}, f))
		return codeOf(f)
	},
	"Async at Try": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := workerResultOf(h)
		_, err := tryAsync(p, f)
		require.NoError(t, err)
		return codeOf(f)
	},
	"Group.Go": func(_ *testing.T, p *Pool, h *aHold) uintptr {
		f := errorOf(h)
		newGroup(p).Go(f)
		return codeOf(f)
	},
	"Group.TryGo": func(_ *testing.T, p *Pool, h *aHold) uintptr {
		f := errorOf(h)
		newGroup(p).TryGo(f)
		return codeOf(f)
	},
	"Group.GoWorker": func(_ *testing.T, p *Pool, h *aHold) uintptr {
		f := workerErrorOf(h)
		newGroup(p).GoWorker(f)
		return codeOf(f)
	},
	"Group.AtMost": func(_ *testing.T, p *Pool, h *aHold) uintptr {
		f, g := errorOf(h), newGroup(p)
		g.AtMost(1)
		g.Go(func() error { return nil })
		g.Go(f)
		return codeOf(f)
	},
	"GroupOf.Go": func(_ *testing.T, p *Pool, h *aHold) uintptr {
		f := resultOf(h)
		g, _ := GroupOf[int](p)
		g.Go(f)
		return codeOf(f)
	},
	"GroupOf.TryGo": func(_ *testing.T, p *Pool, h *aHold) uintptr {
		f := resultOf(h)
		g, _ := GroupOf[int](p)
		g.TryGo(f)
		return codeOf(f)
	},
	"GroupOf.GoWorker": func(_ *testing.T, p *Pool, h *aHold) uintptr {
		f := workerResultOf(h)
		g, _ := GroupOf[int](p)
		g.GoWorker(f)
		return codeOf(f)
	},
	"First": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := func(context.Context, *Worker) (int, error) { h.hold(); return 0, nil }
		call(t, func() error { _, err := First(p, f); return err })
		return codeOf(f)
	},
	"Broadcast": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := workerErrorOf(h)
		call(t, func() error { return p.Broadcast(context.Background(), f) })
		return codeOf(f)
	},
	"a wrapper": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := errorOf(h)
		require.NoError(t, p.Go(func(w *Worker) { w.ShowAs(f); _ = f() }))
		return codeOf(f)
	},
	"a wrapper in a group": func(_ *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		newGroup(p).GoWorker(func(w *Worker) error { w.ShowAs(f); f(w); return nil })
		return codeOf(f)
	},
}

// withCancel is a context that can end.
var withCancel, _ = context.WithCancel(context.Background()) //nolint:govet // it never does

func submitIn(ctx context.Context, options ...TaskOption) wayIn {
	return func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		require.NoError(t, p.Submit(ctx, f, options...))
		return codeOf(f)
	}
}

// callsIn are the other ways in: calls, forks, children and bodies.
var callsIn = map[string]wayIn{
	"Run": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		call(t, func() error { return p.Run(f) })
		return codeOf(f)
	},
	"View.Run": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		call(t, func() error { return p.With(withCancel).Run(f) })
		return codeOf(f)
	},
	"Do": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		call(t, func() error { return Do(p, f) })
		return codeOf(f)
	},
	"Worker.Do": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		call(t, func() error {
			return p.Run(func(w *Worker) { w.Do(func(w *Worker) { w.Block(func() { <-h.begun }) }, f) })
		})
		return codeOf(f)
	},
	"Join": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := func(*Worker, int) int { h.hold(); return 0 }
		call(t, func() error {
			return p.Run(func(w *Worker) {
				Join(w, func(w *Worker, _ int) int { w.Block(func() { <-h.begun }); return 0 }, 0, f, 0)
			})
		})
		return codeOf(f)
	},
	"Recursive": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := func(*Fork[int, int], int) int { h.hold(); return 0 }
		call(t, func() error { _, err := Recursive(f).Run(p, 1); return err })
		return codeOf(f)
	},
	"Scope.Go": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := functionOf(h)
		call(t, func() error {
			return p.Run(func(w *Worker) {
				w.Scope(func(s *Scope) { s.Go(w, f); w.Block(func() { <-h.begun }) })
			})
		})
		return codeOf(f)
	},
	"ForRange": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := func(int, int) { h.hold() }
		call(t, func() error { return ForRange(p, 3, f, Grain(1)) })
		return codeOf(f)
	},
	"ForRange with a worker": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := func(*Worker, int, int) { h.hold() }
		call(t, func() error { return ForRange(p, 3, f) })
		return codeOf(f)
	},
	"a loop in a call": func(t *testing.T, p *Pool, h *aHold) uintptr {
		f := func(*Worker) { _ = ForRange(p, 1, func(int, int) { h.hold() }) }
		call(t, func() error { return p.Run(f) })
		return codeOf(f)
	},
}

// TestWhatIsShownIsTheUsersFunction, by its name and a line in it, whatever way it came in, and whether it waits or computes.
func TestWhatIsShownIsTheUsersFunction(t *testing.T) {
	needsStatuses(t)
	for kind, ways := range map[string]map[string]wayIn{"task": tasksIn, "call": callsIn} {
		for name, way := range ways {
			for _, computes := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s, computes: %v", kind, name, computes), func(t *testing.T) {
					var mu sync.Mutex
					var slow []inspect.Slow // under mu
					// The system may put a worker aside for some milliseconds before it has noted as what its task is shown.
					p := newPool(t, WithWorkers(2), WithSlowTask(30*time.Millisecond, func(s inspect.Slow) {
						mu.Lock()
						defer mu.Unlock()
						slow = append(slow, s)
					}))
					h := newHold(computes)
					t.Cleanup(func() { requireAtRest(t, p) })
					code := way(t, p, h)
					t.Cleanup(func() { close(h.gate) })
					<-h.begun
					f := runtime.FuncForPC(code).Name()
					var shown inspect.Worker
					isShown := func() bool {
						for _, shown = range p.snapshot(true).Workers {
							// A worker that is about to call the function has no line in it yet.
							if shown.Does == nameOf(code) && shown.Source != "" && (computes || shown.State == inspect.Waits && shown.Waits == "chan receive") {
								return true
							}
						}
						return false
					}
					require.True(t, testutil.Eventually(isShown), "%s\nhas not %s", dump(t, p), f)
					require.Regexp(t, `^shown_test.go:\d+$`, shown.Source)
					if kind == "task" {
						isReported := func() bool {
							mu.Lock()
							defer mu.Unlock()
							return slices.ContainsFunc(slow, func(s inspect.Slow) bool { return s.Task == nameOf(code) })
						}
						require.True(t, testutil.Eventually(isReported), "%s was not reported", f)
					}
				})
			}
		}
	}
}

// TestThePoolLearnsWhichUsersFunctionWaits: what it knows of a function is not of all that come in the same way, and each task of
// the function counts.
func TestThePoolLearnsWhichUsersFunctionWaits(t *testing.T) {
	needsStatuses(t)
	for name, way := range tasksIn {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(1))
			h, again := newHold(false), newHold(false)
			t.Cleanup(func() { requireAtRest(t, p) })
			code := way(t, p, h)
			<-h.begun
			require.NoError(t, p.Go(func(*Worker) {})) // something that the place is lent for
			learnt := func() bool { return p.habits.known.Load() > 0 }
			require.True(t, testutil.Eventually(learnt))
			close(h.gate)
			requireAtRest(t, p)
			close(again.gate)
			require.Equal(t, code, way(t, p, again))
			<-again.begun
			requireAtRest(t, p)
			for i := range p.habits.table {
				if known := p.habits.table[i].Load(); known != nil {
					require.Equal(t, code, known.code, "%s", nameOf(known.code))
					require.EqualValues(t, 2, known.begun.Load())
				}
			}
		})
	}
}

func TestOnlyFunctionsAreShown(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Run(func(w *Worker) {
		for says, f := range map[string]any{"given a int": 1, "given a <nil>": nil} {
			require.ErrorContains(t, panicOf(func() { w.ShowAs(f) }), says)
		}
		require.Zero(t, testing.AllocsPerRun(100, func() { w.ShowAs(require.NoError) }))
	}))
}
