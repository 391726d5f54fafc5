package pool

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

func TestAPartOfThePoolIsNeverLargerThanItsBound(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for _, n := range []int{1, 2, 3, 9} {
		g, _ := p.Group(context.Background())
		g.AtMost(n)
		var inside crowd
		var ran atomic.Int64
		f := func() error {
			inside.enter()
			pause()
			ran.Add(1)
			inside.leave()
			return nil
		}
		var adders sync.WaitGroup
		for range 3 { // from outside, and from within
			adders.Go(func() {
				for range 20 {
					g.Go(f)
					g.GoWorker(func(*Worker) error { g.Go(f); return f() })
				}
			})
		}
		adders.Wait()
		require.NoError(t, g.Wait())
		require.EqualValues(t, 3*20*3, ran.Load())
		require.LessOrEqual(t, int(inside.most.Load()), n)
		require.Zero(t, g.Queued()+g.Running())
	}
}

func TestAPartBeginsItsFunctionsInTheirOrder(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	g, _ := p.Group(context.Background())
	g.AtMost(1)
	var order []int // written by one function at a time
	for i := range 1000 {
		g.Go(func() error { order = append(order, i); return nil })
	}
	require.NoError(t, g.Wait())
	for i, got := range order {
		require.Equal(t, i, got)
	}
	require.Len(t, order, 1000)
}

// Law 1: what a function waits for may come behind it in the backlog.
func TestAFunctionOfAPartWaitsForTheNextOnes(t *testing.T) {
	for _, workers := range []int{1, 3} {
		p := newPool(t, WithWorkers(workers))
		g, _ := p.Group(context.Background())
		g.AtMost(1)
		const n = 50
		var links [n + 1]chan struct{}
		for i := range links {
			links[i] = make(chan struct{})
		}
		for i := range n {
			g.GoWorker(func(w *Worker) error {
				switch i % 3 {
				case 0:
					w.Block(func() { <-links[i+1] })
				case 1:
					inner, _ := p.Group(context.Background())
					inner.GoWorker(func(w *Worker) error { w.Block(func() { <-links[i+1] }); return nil })
					if err := inner.Wait(); err != nil {
						return err
					}
				case 2:
					future := Async(p, func(w *Worker) (int, error) { w.Block(func() { <-links[i+1] }); return 0, nil })
					if _, err := future.Wait(context.Background()); err != nil {
						return err
					}
				}
				close(links[i])
				return nil
			})
		}
		close(links[n])
		require.NoError(t, g.Wait())
	}
}

func TestAPartDoesNotKeepOthersFromThePool(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	g, _ := p.Group(context.Background())
	g.AtMost(1)
	gate := make(chan struct{})
	for range 100 {
		g.Go(func() error { testutil.Compute(gate); return nil }) // holds its worker
	}
	require.NoError(t, p.Run(func(w *Worker) {}))
	for range 10 {
		done := make(chan struct{})
		require.NoError(t, p.Go(func(*Worker) { close(done) }))
		<-done
	}
	require.True(t, testutil.Eventually(func() bool { return g.Running() == 1 && g.Queued() == 99 }))
	close(gate)
	require.NoError(t, g.Wait())
}

func TestWhatIsInTheBacklogRunsBeforeCloseReturns(t *testing.T) {
	for i := range testutil.Stress(200) {
		p, err := New(WithWorkers(1 + i%3))
		require.NoError(t, err)
		g, _ := p.Group(context.Background())
		g.AtMost(1 + i%2)
		var ran atomic.Int64
		for j := range 50 {
			g.GoWorker(func(w *Worker) error {
				if j%7 == 0 {
					w.Block(runtime.Gosched)
				}
				ran.Add(1)
				return nil
			})
		}
		require.NoError(t, p.Close())
		require.EqualValues(t, 50, ran.Load())
		require.NoError(t, g.Wait())
	}
}

func TestAPartThatFailsDropsItsBacklog(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for name, f := range map[string]func() error{
		"error":  func() error { return io.EOF },
		"panic":  func() error { panic("ouch") },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		g, ctx := p.Group(context.Background())
		g.AtMost(1)
		gate := make(chan struct{})
		g.GoWorker(func(w *Worker) error { <-gate; return f() })
		for range 100 {
			g.Go(func() error { t.Error("begun after the end"); return nil })
		}
		close(gate)
		if name == "panic" {
			require.Panics(t, func() { _ = g.Wait() })
		} else {
			require.Error(t, g.Wait(), name)
		}
		require.Equal(t, 100, g.Skipped(), name)
		require.Error(t, ctx.Err())

		ran := false
		ctx = g.Reset(context.Background())
		require.NoError(t, ctx.Err())
		g.Go(func() error { ran = true; return ctx.Err() })
		require.NoError(t, g.Wait(), name)
		require.True(t, ran)
		require.Zero(t, g.Skipped())
	}
}

func TestTheEndOfTheContextDropsTheBacklog(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancelCause(context.Background())
	g, _ := p.Group(ctx)
	g.AtMost(2)
	gate := make(chan struct{})
	var ran atomic.Int64
	for range 100 {
		g.Go(func() error { testutil.Compute(gate); ran.Add(1); return nil })
	}
	require.True(t, testutil.Eventually(func() bool { return g.Running() == 2 }))
	cancel(io.ErrUnexpectedEOF)
	close(gate)
	require.ErrorIs(t, g.Wait(), io.ErrUnexpectedEOF)
	require.EqualValues(t, 2, ran.Load())
	require.Equal(t, 98, g.Skipped())
}

func TestAPartOfAClosedPool(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g, _ := p.Group(context.Background())
	g.AtMost(1)
	require.NoError(t, p.Close())
	for range 3 {
		g.Go(func() error { t.Error("begun in a closed pool"); return nil })
	}
	require.ErrorIs(t, g.Wait(), ErrClosed)
	require.Zero(t, g.Queued()+g.Running())
}

// TestAClosingPoolRefusesWhatWouldWaitInAPart: from the start of Close on the pool accepts nothing, the backlog neither.
func TestAClosingPoolRefusesWhatWouldWaitInAPart(t *testing.T) {
	p, err := New(WithWorkers(2))
	require.NoError(t, err)
	g := newGroup(p)
	g.AtMost(1)
	g.JoinErrors()
	begun, release := make(chan struct{}), make(chan struct{})
	g.Go(func() error { close(begun); <-release; return nil })
	require.True(t, closed(begun))
	over, cancel := context.WithCancel(context.Background())
	cancel()
	require.Error(t, p.Shutdown(over))
	for range 3 {
		g.Go(func() error { t.Error("the pool is closed"); return nil })
	}
	require.EqualValues(t, 3, p.Stats().Refused)
	close(release)
	require.ErrorIs(t, g.Wait(), ErrClosed)
	require.Zero(t, g.Skipped(), "the closed pool refused them")
	require.NoError(t, p.Close())
}

func TestAGroupIsUsedAgain(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	g, ctx := p.Group(context.Background())
	g.SetLimit(3)
	for i := range 100 {
		var ran atomic.Int64
		for range 10 {
			g.Go(func() error {
				if ran.Add(1) == 10 && i%2 == 1 {
					return io.EOF
				}
				return nil
			})
		}
		err := g.Wait()
		require.Equal(t, i%2 == 1, errors.Is(err, io.EOF))
		require.EqualValues(t, 10, ran.Load())
		require.Error(t, ctx.Err(), "Wait ends the context")
		ctx = g.Reset(context.Background())
		require.NoError(t, ctx.Err())
	}

	r, _ := GroupOf[int](p, context.Background())
	r.AtMost(1)
	for range 3 {
		for i := range 10 {
			r.Go(func() (int, error) { return i, nil })
		}
		all, err := r.Wait()
		require.NoError(t, err)
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, all)
		r.Reset(context.Background())
	}
}

func TestWhatAGroupCannotBeAskedWhileItHasTasks(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	g, _ := p.Group(context.Background())
	gate := make(chan struct{})
	g.Go(func() error { <-gate; return nil })
	for name, f := range map[string]func(){
		"AtMost":     func() { g.AtMost(1) },
		"Reset":      func() { g.Reset(context.Background()) },
		"SetLimit":   func() { g.SetLimit(1) },
		"JoinErrors": g.JoinErrors,
	} {
		require.PanicsWithError(t, "pool: Group."+name+" was called while the group has 1 tasks; call it before Go, or after Wait", f)
	}
	close(gate)
	require.NoError(t, g.Wait())
	require.Panics(t, func() { g.AtMost(0) })
	var none context.Context
	require.Panics(t, func() { g.Reset(none) })
	require.Panics(t, func() { new(Group).Reset(context.Background()) })
	require.Panics(t, func() { (*Group)(nil).AtMost(1) })
}

func TestPartsOfPartsEnd(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	outer, _ := p.Group(context.Background())
	outer.AtMost(1)
	var ran atomic.Int64
	for range 5 {
		outer.GoWorker(func(w *Worker) error {
			inner, _ := p.Group(context.Background())
			inner.AtMost(1)
			for range 5 {
				inner.GoWorker(func(w *Worker) error {
					w.Scope(func(s *Scope) {
						for range 10 {
							s.Go(w, func(w *Worker) { w.Do(func(*Worker) { ran.Add(1) }, func(*Worker) { ran.Add(1) }) })
						}
					})
					return nil
				})
			}
			return inner.Wait()
		})
	}
	require.NoError(t, outer.Wait())
	require.EqualValues(t, 5*5*20, ran.Load())
}
