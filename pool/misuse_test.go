package pool

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
)

// TestANilArgumentIsNamed by an error: returned by functions that return errors, else the value of a panic.
func TestANilArgumentIsNamed(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx := context.Background()
	var none context.Context
	returned := func(_ any, err error) error { return err }
	require.NoError(t, p.Run(func(w *Worker) {
		for name, err := range map[string]error{
			"Pool.Submit":          p.Submit(none, nop2),
			"Pool.SubmitAll":       returned(p.SubmitAll(none, nil)),
			"Future.Wait":          returned(Async(p, func(*Worker) (int, error) { return 1, nil }).Wait(none)),
			"Pool.Broadcast":       p.Broadcast(none, func(*Worker) error { return nil }),
			"Pool.WaitIdle":        p.WaitIdle(none),
			"Pool.Pause":           p.Pause(none),
			"Pool.Shutdown":        p.Shutdown(none),
			"Pool.Abort":           returned(p.Abort(none)),
			"Pool.Dump":            p.Dump(nil),
			"Pool.Run":             p.Run(nil),
			"Async":                returned(Async[int](p, nil).Wait(ctx)),
			"Group.Go":             groupError(p, func(g *Group) { g.Go(nil) }),
			"Group.GoContext":      newGroup(p).GoContext(ctx, nil),
			"Group.GoWorker":       groupError(p, func(g *Group) { g.GoWorker(nil) }),
			"Group.TryGo":          groupError(p, func(g *Group) { g.TryGo(nil) }),
			"ResultGroup.Go":       resultsError(p, func(g *ResultGroup[int]) { g.Go(nil) }),
			"ResultGroup.GoWorker": resultsError(p, func(g *ResultGroup[int]) { g.GoWorker(nil) }),
			"ResultGroup.TryGo":    resultsError(p, func(g *ResultGroup[int]) { assert.True(t, g.TryGo(nil)) }),
			"ResultGroup.Reset":    resultsError(p, func(g *ResultGroup[int]) { g.fail(panicOf(func() { g.Reset(none) })) }),
			"Worker.Go":            w.Go(nil),
			"Pool.Go":              p.Go(nil),
			"Pool.TrySubmit":       p.TrySubmit(nil),
			"Call.Outside":         panicOf(func() { w.Call().Outside(nil) }),
			"Worker.Block":         panicOf(func() { w.Block(nil) }),
			"Worker.Named":         panicOf(func() { w.Named("name", nil) }),
			"Worker.ShowAs":        panicOf(func() { w.ShowAs((func())(nil)) }),
			"Worker.Scope":         panicOf(func() { w.Scope(nil) }),
			"Scope.Go":             panicOf(func() { w.Scope(func(s *Scope) { s.Go(w, nil) }) }),
			"Pool.With":            panicOf(func() { p.With(none) }),
			"Worker.With":          panicOf(func() { w.With(none) }),
			"View.With":            panicOf(func() { p.With(ctx).With(none) }),
			"Group.Reset":          panicOf(func() { newGroup(p).Reset(none) }),
			"Worker.Stop":          panicOf(func() { w.Stop(nil) }),
			"Worker.Uncancelled":   panicOf(func() { w.Uncancelled(nil) }),
		} {
			if assert.Error(t, err, name) {
				assert.Regexp(t, `^pool: `+name+` was given a nil `, err.Error())
			}
		}
	}))
}

// TestWhatNobodyMadeAndNoWorkerAreNamed by a panic with an error, and are no nil dereferences.
func TestWhatNobodyMadeAndNoWorkerAreNamed(t *testing.T) {
	for _, c := range []struct {
		says string
		use  func()
	}{
		{"not made by NewGroup", func() { new(Group).Queued() }},
		{"not made by NewGroup", func() { new(Group).Running() }},
		{"not made by NewGroup", func() { new(Group).Skipped() }},
		{"not made by Recursive", func() { new(Recursion[int, int]).Call(new(Worker), 1) }},
		{"Recursion.Call was called with a worker that is nil", func() { forkFib.Call(nil, 1) }},
		{"Local.Of was called with a worker that is nil", func() { new(Local[int]).Of(nil) }},
		{"not made by GroupOf", func() { (*ResultGroup[int])(nil).Go(func() (int, error) { return 0, nil }) }},
		{"not made by GroupOf", func() { _, _ = new(ResultGroup[int]).Wait() }},
		{"not made by GroupOf", func() { new(ResultGroup[int]).Reset(context.Background()) }},
		{"not made by New", func() { (*Pool)(nil).Workers() }},
		{"not made by New", func() { new(Pool).Nodes() }},
		{"not made by New", func() { new(Pool).Pinning() }},
		{"not made by New", func() { new(Pool).Slots() }},
		{"Join was called with a worker that is nil, or that no pool has made", func() { Join(new(Worker), forkFib.Call, 1, forkFib.Call, 1) }},
		{"Fork.Join was called ", func() { new(Fork[int, int]).Join(1, 1) }},
		{"Fork.JoinAll was called on a Fork that is nil", func() { (*Fork[int, int])(nil).JoinAll(make([]int, 2), make([]int, 2)) }},
	} {
		assert.ErrorContains(t, panicOf(c.use), c.says)
	}
	require.True(t, new(Future[int]).Ready(), "Wait would not wait")
}

// TestAJoinOfANilFunctionIsNamed where it costs nothing: on the slow path, which the outermost joins take, and in a thief.
func TestAJoinOfANilFunctionIsNamed(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Run(func(w *Worker) {
		var none func(*Worker, int) int
		for _, join := range []func(){func() { Join(w, none, 1, fib, 1) }, func() { Join(w, fib, 1, none, 1) }} {
			require.EqualError(t, panicOf(join), "pool: Join was given a nil function")
		}
		s := applications[int, int](w)
		require.EqualError(t, panicOf(func() { s.body(w, application[int, int]{}) }), "pool: Join was given a nil function")
	}))
	require.NoError(t, p.Run(func(w *Worker) { // the worker is as good as before
		x, y := Join(w, fib, 10, fib, 10)
		require.Equal(t, 110, x+y)
	}))
}

func nop2(*Worker) {}

func groupError(p *Pool, add func(g *Group)) error {
	g := newGroup(p)
	add(g)
	return g.Wait()
}

func resultsError(p *Pool, add func(g *ResultGroup[int])) error {
	g, _ := GroupOf[int](p)
	add(g)
	_, err := g.Wait()
	return err
}

func panicOf(f func()) error {
	err, _ := testutil.Caught(f).(error)
	return err
}

// TestAWorkerWhoseFunctionHasReturnedQueuesNothing: Worker.Go says so.
func TestAWorkerWhoseFunctionHasReturnedQueuesNothing(t *testing.T) {
	if goroutineIDIsSlow {
		t.Skip("nobody looks whose the worker is")
	}
	p := newPool(t, WithWorkers(1))
	never := func(*Worker) { t.Error("it runs") }
	var guest, worker *Worker
	require.NoError(t, p.Run(func(w *Worker) { guest = w }))
	require.ErrorContains(t, guest.Go(never), "Worker.Go was called with a worker of another function")
	require.NoError(t, p.Go(func(w *Worker) { worker = w }))
	require.NoError(t, p.WaitIdle(context.Background()))
	require.ErrorContains(t, worker.Go(never), "Worker.Go was called with a worker of another function")
	require.NoError(t, p.WaitIdle(context.Background()))
}

// TestADelayOfNothingIsNone, as one until a time that has passed: the task counts for the bound and is queued at once.
func TestADelayOfNothingIsNone(t *testing.T) {
	for _, d := range []time.Duration{0, -1, -time.Hour} {
		p := newPool(t, WithWorkers(1), WithQueueBound(1))
		release := occupyAll(t, p)
		require.NoError(t, p.Submit(context.Background(), nop2, Delay(d)))
		require.Zero(t, p.Load().Delayed)
		require.ErrorIs(t, p.TrySubmit(nop2, Delay(d)), ErrFull)
		release()
	}
}

// TestWhatEndsAPoolIsRefusedInsideIt, wherever a fork of a call happens to run.
func TestWhatEndsAPoolIsRefusedInsideIt(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx := context.Background()
	look := func() {
		_, aborted := p.Abort(ctx)
		for name, err := range map[string]error{
			"Close": p.Close(), "Shutdown": p.Shutdown(ctx), "Abort": aborted, "Pause": p.Pause(ctx), "WaitIdle": p.WaitIdle(ctx),
		} {
			assert.ErrorContains(t, err, "inside a task of the same pool or a call at it", name)
		}
	}
	looks := func(*Worker) error { look(); return nil }
	require.NoError(t, p.Run(func(*Worker) { look() }))
	require.NoError(t, p.Run(func(w *Worker) {
		w.Scope(func(s *Scope) { look(); s.Go(w, func(*Worker) { look() }) })
		w.Do(nop2, func(*Worker) { look() })
		w.Block(look)
		_ = ForRange(w, 1, func(int, int) { look() })
		Join(w, func(*Worker, int) error { return looks(w) }, 0, func(*Worker, int) error { return looks(w) }, 0)
	}))
	require.NoError(t, Do(p, func(*Worker) { look() }))
	require.NoError(t, p.Broadcast(ctx, looks))
	require.NoError(t, ForRange(p, 1, func(*Worker, int, int) { look() }))
	require.NoError(t, ForRange(p, 1, func(int, int) { look() }, Grain(1)))
	_, err := Recursive(func(*Fork[int, int], int) int { look(); return 0 }).Run(p, 0)
	require.NoError(t, err)
	g := newGroup(p)
	g.GoWorker(looks)
	require.NoError(t, g.Wait())
	over := make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { defer close(over); look() }))
	require.True(t, closed(over))
	const n = 1000
	require.NoError(t, For(p, n, func(i int) { // the items take so long that it is soon a guest's
		if heist.Spin(aloneTime); i == n-1 {
			look()
		}
	}))
}

// TestALoopThatItsCallerRunsAloneDoesNotHoldUpTheEnd: it is no call at the pool yet, so nothing there is refused or waits.
func TestALoopThatItsCallerRunsAloneDoesNotHoldUpTheEnd(t *testing.T) {
	ctx := context.Background()
	for n, want := range map[int]error{1: nil, 1000: ErrClosed} {
		p := newPool(t, WithWorkers(1))
		require.ErrorIs(t, For(p, n, func(i int) {
			if i == 0 {
				assert.NoError(t, p.WaitIdle(ctx))
				assert.NoError(t, p.Pause(ctx))
				p.Resume()
				assert.NoError(t, p.Close())
			}
			heist.Spin(aloneTime)
		}), want)
		require.ErrorIs(t, p.Close(), ErrClosed)
	}
}

// TestAPanicInALoopPrintsItsStackOnce, in a process that it ends.
func TestAPanicInALoopPrintsItsStackOnce(t *testing.T) {
	if inChild() {
		p, _ := New(WithWorkers(1))
		_ = For(p, 1, func(int) { explode("planted") })
		return
	}
	output, err := child(t)
	require.Error(t, err)
	require.Equal(t, 1, strings.Count(output, "pool.explode("), output)
	require.NotContains(t, output, "panic: panic:")
}

// TestEachTaskOptionHoldsForAFutureOfATask: Async inside a task may put the future into the worker's own queue. Each type
// of the package that is a TaskOption needs a case here, which fails if the option is dropped on that way.
func TestEachTaskOptionHoldsForAFutureOfATask(t *testing.T) {
	ctx := context.Background()
	cases := map[string]func(p *Pool, w *Worker){
		"Priority": func(p *Pool, w *Worker) {
			f := Async(p, func(*Worker) (int, error) { return 0, nil }, PriorityLow)
			assert.Equal(t, 1, p.Load().Queued.Low)
			_, _ = f.Wait(ctx)
		},
		"after": func(p *Pool, w *Worker) {
			gate := make(chan struct{})
			before := Async(p, func(*Worker) (int, error) { <-gate; return 7, nil })
			f := Async(p, func(*Worker) (int, error) { return before.Wait(ctx) }, After(before))
			assert.Equal(t, 1, p.Load().Delayed)
			close(gate)
			n, err := f.Wait(ctx)
			assert.NoError(t, err)
			assert.Equal(t, 7, n)
		},
		"delayBy": func(p *Pool, w *Worker) {
			f := Async(p, func(*Worker) (int, error) { return 0, nil }, Delay(time.Hour))
			assert.Equal(t, 1, p.Load().Delayed)
			assert.True(t, f.Cancel())
		},
		"startBy": func(p *Pool, w *Worker) {
			_, err := Async(p, func(*Worker) (int, error) { return 0, nil }, StartBy(time.Time{}, nop2)).Wait(ctx)
			assert.ErrorIs(t, err, ErrLate)
		},
		"onNode": func(p *Pool, w *Worker) {
			f := Async(p, func(*Worker) (int, error) { return 0, nil }, OnNode(p.Nodes()[0]))
			assert.Equal(t, 1, p.Load().Queued.Normal)
			assert.Nil(t, w.lifoSlot.Load(), "it lies in the worker's own queue")
			_, _ = f.Wait(ctx)
		},
		"named": func(p *Pool, w *Worker) {
			var name string
			cancelled, cancel := context.WithCancel(ctx) // with it no waiter runs the future in place
			defer cancel()
			_, _ = Async(p, func(w *Worker) (int, error) { name = w.title; return 0, nil }, Named("a name")).Wait(cancelled)
			assert.Equal(t, "a name", name)
		},
	}
	var options []string
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != "set" || f.Recv == nil || len(f.Type.Params.List) != 1 {
				continue
			}
			to, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
			if !ok {
				continue
			}
			if name, ok := to.X.(*ast.Ident); ok && name.Name == "taskOptions" {
				options = append(options, f.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	slices.Sort(options)
	for _, option := range options {
		test := cases[option]
		if !assert.NotNil(t, test, "the option %s has no case", option) {
			continue
		}
		t.Run(option, func(*testing.T) {
			p := newPool(t, WithWorkers(1))
			over := make(chan struct{})
			require.NoError(t, p.Go(func(w *Worker) { defer close(over); test(p, w) }))
			require.True(t, closed(over))
		})
	}
	require.Len(t, options, len(cases))
}

func TestWhatNobodyMadeIsCalledThat(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for what, use := range map[string]func(){
		"a Group":     func() { new(Group).Go(func() error { return nil }) },
		"its Wait":    func() { _ = new(Group).Wait() },
		"its TryGo":   func() { new(Group).TryGo(func() error { return nil }) },
		"its limit":   func() { new(Group).SetLimit(1) },
		"its members": func() { new(Group).GoWorker(func(*Worker) error { return nil }) },
		"a Worker":    func() { new(Worker).Do(func(*Worker) {}) },
		"none":        func() { (*Worker)(nil).Block(func() {}) },
		"a Scope":     func() { new(Scope).Go(nil, func(*Worker) {}) },
		"Stats":       func() { new(Pool).Stats() },
		"a scope that has ended": func() {
			_ = p.Run(func(w *Worker) {
				var over *Scope
				w.Scope(func(s *Scope) { over = s })
				over.Go(w, func(*Worker) {})
			})
		},
	} {
		err, ok := testutil.Caught(use).(error)
		require.True(t, ok, what)
		require.ErrorContains(t, err, "pool: ", what)
	}
	_, err := (*Future[int])(nil).Wait(context.Background())
	require.ErrorContains(t, err, "not made by Async")
	_, err = new(Recursion[int, int]).Run(p, 1)
	require.ErrorContains(t, err, "not made by Recursive")
	require.Error(t, new(Worker).Go(func(*Worker) {}))
}

func TestWhatIsNilIsCalledThat(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	var none *Pool
	var noWorker *Worker
	nothing := func(*Worker) {}
	for _, place := range []Place{nil, none, noWorker, (*View)(nil), new(Pool)} {
		require.Error(t, For(place, 10, func(int) {}))
		require.Error(t, ForRange(place, 10, func(*Worker, int, int) {}))
	}
	for _, bad := range []*Pool{nil, new(Pool)} {
		require.ErrorContains(t, bad.Run(nothing), "not made by New")
		require.ErrorContains(t, bad.Go(nothing), "not made by New")
		require.ErrorContains(t, bad.TrySubmit(nothing), "not made by New")
		require.ErrorContains(t, bad.Close(), "not made by New")
		ctx := context.Background()
		require.ErrorContains(t, bad.Submit(ctx, nothing), "not made by New")
		require.ErrorContains(t, bad.Pause(ctx), "not made by New")
		require.ErrorContains(t, bad.Resize(1), "not made by New")
		require.ErrorContains(t, bad.Shutdown(ctx), "not made by New")
		bad.Resume()
		_, err := Async(bad, func(*Worker) (int, error) { return 1, nil }).Wait(context.Background())
		require.ErrorContains(t, err, "not made by New")
	}
	var noContext context.Context
	require.ErrorContains(t, testutil.Caught(func() { p.With(noContext) }).(error), "nil context")
	require.ErrorContains(t, p.Submit(noContext, nothing), "nil context")
	require.ErrorContains(t, p.Shutdown(noContext), "nil context")
	f := Async(p, func(*Worker) (int, error) { return 1, nil })
	_, err := f.Wait(noContext)
	require.ErrorContains(t, err, "nil context")
	n, err := f.Wait(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestAnotherFunctionsWorkerIsRefused(t *testing.T) {
	if goroutineIDIsSlow {
		t.Skip("goroutines are told apart only where that is cheap")
	}
	p := newPool(t, WithWorkers(2))
	require.NoError(t, p.Run(func(outer *Worker) {
		stolenJoin(outer, nop[int], func(*Worker) int {
			for _, use := range []func(){
				func() { outer.Do(func(*Worker) {}, func(*Worker) {}) },
				func() {
					if testutil.UnderRace { // it sees the misuse before it is refused
						panic(errors.New("a worker of another function"))
					}
					Join(outer, fib, 1, fib, 1)
				},
				func() { outer.Scope(func(*Scope) {}) },
				func() { panic(For(outer, 1000, func(int) {})) }, // a call that can return an error returns it
				func() { panic(outer.With(context.Background()).Run(func(*Worker) {})) },
				func() { panic(Do(outer, func(*Worker) {})) },
				func() {
					inner, _, cancel := cancellable(outer)
					defer cancel(nil)
					_, err := forkFib.Run(inner, 3)
					panic(err)
				},
				func() { outer.Stop(io.EOF) },
				func() { outer.Block(func() {}) },
				outer.Yield,
			} {
				err, _ := testutil.Caught(use).(error)
				require.ErrorContains(t, err, "worker of another function")
			}
			return 0
		})
	}))
}

func TestErrorsNameTheMethodThatWasCalled(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone))
	require.EqualError(t, p.Submit(context.Background(), nil), "pool: Pool.Submit was given a nil function")
	require.EqualError(t, p.TrySubmit(nil), "pool: Pool.TrySubmit was given a nil function")
	require.EqualError(t, p.TrySubmit(nil, PriorityHigh), "pool: Pool.TrySubmit was given a nil function")
}
