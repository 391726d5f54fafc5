package pool

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// stuck returns a pool whose workers all are in tasks that go on when release is called.
func stuck(t *testing.T, options ...Option) (p *Pool, release func()) {
	t.Helper()
	p, err := New(options...)
	require.NoError(t, err)
	gate := make(chan struct{})
	var begun sync.WaitGroup
	for range p.Workers() {
		begun.Add(1)
		require.NoError(t, p.Go(func(*Worker) { begun.Done(); testutil.Compute(gate) }))
	}
	begun.Wait()
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(func() { release(); _ = p.Close() })
	return p, release
}

// releaseWhenGivenBack calls release when an Abort has taken all that is queued.
func releaseWhenGivenBack(p *Pool, release func()) {
	<-p.abandons
	testutil.Eventually(func() bool { return p.queued() == 0 })
	release()
}

func TestAbortGivesBackWhatNeverBegan(t *testing.T) {
	p, release := stuck(t, WithWorkers(2))
	ctx := context.Background()
	var ran atomic.Int64
	f := func(*Worker) { ran.Add(1) }
	for range 100 {
		require.NoError(t, p.Go(f))
	}
	for _, options := range [][]TaskOption{{PriorityHigh}, {PriorityLow}, {Delay(time.Hour)}, {Delay(time.Hour), PriorityHigh},
		{StartBy(time.Now().Add(time.Hour), f)}} {
		require.NoError(t, p.Submit(ctx, f, options...))
	}
	go releaseWhenGivenBack(p, release)
	left, err := p.Abort(ctx)
	require.NoError(t, err)
	before := ran.Load() // the workers may have begun with some at the end
	require.EqualValues(t, 105, before+int64(len(left)))
	require.ErrorIs(t, p.Go(f), ErrClosed)

	other := newPool(t, WithWorkers(1))
	for _, f := range left {
		require.NoError(t, other.Go(f))
	}
	require.NoError(t, other.WaitIdle(ctx))
	require.EqualValues(t, 105, ran.Load())
}

func TestAbortReturnsAtOnceWithoutThoseThatRun(t *testing.T) {
	p, release := stuck(t, WithWorkers(2))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, p.Go(func(*Worker) { t.Error("it was given back") }))
	left, err := p.Abort(ctx)
	require.Len(t, left, 1)
	var unfinished *UnfinishedError
	require.ErrorAs(t, err, &unfinished)
	require.Zero(t, unfinished.Queued)
	require.Equal(t, 2, unfinished.Running)
	release()
	left, err = p.Abort(context.Background())
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = p.Abort(context.Background())
	require.ErrorIs(t, err, ErrClosed)
}

func TestAbortAfterAShutdownThatGaveUp(t *testing.T) {
	p, release := stuck(t, WithWorkers(1))
	for range 10 {
		require.NoError(t, p.Go(func(*Worker) { t.Error("it was given back") }))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.Error(t, p.Shutdown(ctx))
	left, err := p.Abort(ctx)
	require.Len(t, left, 10)
	require.Error(t, err)
	release()
	require.NoError(t, p.Close())
}

// TestAbortTakesWhatACloseWaitsFor: the Close that came first has the pool's end, and the Abort what had not begun. That is
// so too if the Close has taken the part of a Shutdown that gave up.
func TestAbortTakesWhatACloseWaitsFor(t *testing.T) {
	t.Run("first", func(t *testing.T) { testAbortBesideClose(t, false) })
	t.Run("after a Shutdown", func(t *testing.T) { testAbortBesideClose(t, true) })
}

func testAbortBesideClose(t *testing.T, gaveUp bool) {
	p, release := stuck(t, WithWorkers(1))
	require.NoError(t, p.Go(func(*Worker) { t.Error("it was given back") }))
	ended, cancel := context.WithCancel(background)
	cancel()
	if gaveUp {
		require.Error(t, p.Shutdown(ended))
	}
	closes := make(chan error, 1)
	go func() { closes <- p.Close() }()
	require.True(t, testutil.Eventually(func() bool { return p.core.Closing.Load() && !p.gaveUp.Load() }))
	require.Error(t, p.Shutdown(ended), "it gives up beside the Close, which waits on")
	var left []func(*Worker)
	aborts := make(chan error, 1)
	go func() {
		var err error
		left, err = p.Abort(context.Background())
		aborts <- err
	}()
	require.True(t, testutil.Eventually(func() bool { return p.queued() == 0 }))
	release()
	require.NoError(t, <-closes)
	require.ErrorIs(t, <-aborts, ErrClosed)
	require.Len(t, left, 1)
}

func TestWhoWaitsForWhatNeverBeginsIsToldByAbort(t *testing.T) {
	p, release := stuck(t, WithWorkers(1))
	ctx := context.Background()
	never := func() error { t.Error("it was given back"); return nil }
	queued := Async(p, func(*Worker) (int, error) { return 1, never() })
	delayed := Async(p, func(*Worker) (int, error) { return 1, never() }, Delay(time.Hour))
	group, groupCtx := NewGroup(p.With(ctx))
	group.Go(never)
	part, _ := NewGroup(p.With(ctx))
	part.AtMost(1)
	limited, _ := NewGroup(p.With(ctx))
	limited.SetLimit(1)
	limited.Go(never)
	for range 5 {
		part.Go(never)
	}
	var waiters sync.WaitGroup
	for range 2 {
		waiters.Go(func() { _, err := queued.Wait(ctx); require.ErrorIs(t, err, ErrClosed) })
		waiters.Go(func() { _, err := delayed.Wait(ctx); require.ErrorIs(t, err, ErrClosed) })
		waiters.Go(func() { require.ErrorIs(t, group.Wait(), ErrClosed) })
		waiters.Go(func() { require.ErrorIs(t, part.Wait(), ErrClosed) })
		waiters.Go(func() { limited.Go(never); require.ErrorIs(t, limited.Wait(), ErrClosed) })
	}
	pause()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	left, err := p.Abort(ended)
	require.Error(t, err)
	require.Len(t, left, 5, "queued, delayed, group's, the part's first, limited's")
	waiters.Wait()
	require.True(t, queued.Ready())
	require.ErrorIs(t, context.Cause(groupCtx), ErrClosed)

	other := newPool(t, WithWorkers(1)) // they do nothing there
	for _, f := range left {
		require.NoError(t, other.Go(f))
	}
	require.NoError(t, other.Close())
	release()
	require.NoError(t, p.Close())
}

// Whichever side loses the race, each function runs or is given back, and each wait ends.
func TestEachTaskBeginsOrIsGivenBackByAbort(t *testing.T) {
	for i := range testutil.Stress(300) {
		p, err := New(WithWorkers(1 + i%3))
		require.NoError(t, err)
		var ran, accepted atomic.Int64
		f := func(*Worker) { ran.Add(1) }
		var submitters sync.WaitGroup
		for k := range 3 {
			submitters.Go(func() {
				for j := range 200 {
					var err error
					switch (j + k) % 5 {
					case 0:
						err = p.Go(f)
					case 1:
						err = p.Submit(context.Background(), f, PriorityHigh)
					case 2:
						err = p.Submit(context.Background(), f, Delay(time.Duration(j)*time.Microsecond))
					case 3:
						if err = p.Go(func(w *Worker) {
							ran.Add(1)
							if w.Go(f) == nil {
								accepted.Add(1)
							}
						}); err == nil {
							accepted.Add(1)
						}
						continue
					case 4:
						g, _ := NewGroup(p)
						did := false
						g.GoWorker(func(w *Worker) error { did = true; w.Block(func() {}); return io.EOF })
						if err := g.Wait(); did != errors.Is(err, io.EOF) {
							t.Errorf("it ran: %v, and Wait returned %v", did, err)
						}
						future := Async(p, func(*Worker) (bool, error) { return true, nil })
						if ok, err := future.Wait(context.Background()); ok != (err == nil) {
							t.Errorf("%v, and the error %v", ok, err)
						}
						continue
					}
					if err == nil {
						accepted.Add(1)
					}
				}
			})
		}
		pause()
		left, err := p.Abort(context.Background())
		require.NoError(t, err)
		submitters.Wait()
		other := newPool(t, WithWorkers(1))
		for _, f := range left { // those of the groups and futures do nothing
			require.NoError(t, other.Go(f))
		}
		require.NoError(t, other.Close())
		require.Equal(t, accepted.Load(), ran.Load())
	}
}

func TestADelayThatBeginsBesideAbortIsRefusedOrGivenBack(t *testing.T) {
	for i := range testutil.Stress(200) {
		p, err := New(WithWorkers(1))
		require.NoError(t, err)
		var accepted atomic.Int64
		var submitters sync.WaitGroup
		for range 2 {
			submitters.Go(func() {
				for range 2000 { // on one P they are not interrupted before
					if p.Submit(context.Background(), func(*Worker) {}, Delay(time.Hour)) == nil {
						accepted.Add(1)
					}
				}
			})
		}
		for range i % 100 {
			runtime.Gosched()
		}
		left, err := p.Abort(context.Background())
		require.NoError(t, err)
		submitters.Wait()
		require.Len(t, left, int(accepted.Load()))
	}
}

func TestWhatWaitsInAPartNeverBeginsAfterAbort(t *testing.T) {
	for _, n := range []int{1, 2} {
		p, release := stuck(t, WithWorkers(1))
		g, _ := NewGroup(p)
		g.AtMost(n)
		g.JoinErrors()
		for range 5 {
			g.Go(func() error { t.Error("the pool was aborted"); return nil })
		}
		go releaseWhenGivenBack(p, release)
		left, err := p.Abort(context.Background())
		require.NoError(t, err)
		require.Len(t, left, n)
		require.ErrorIs(t, g.Wait(), ErrClosed)
		require.Zero(t, g.Queued()+g.Running())
		require.Equal(t, 5, g.Skipped())
		g.Reset(context.Background())
		for _, f := range left {
			require.NoError(t, newPool(t, WithWorkers(1)).Run(f))
		}
		g.Go(func() error { t.Error("the pool is closed"); return nil })
		require.ErrorIs(t, g.Wait(), ErrClosed)
	}

	if !testutil.ReadsRecords { // time decides what waits: another one begins beside one that computes
		return
	}
	p, err := New(WithWorkers(1)) // one has begun
	require.NoError(t, err)
	g, _ := NewGroup(p)
	g.AtMost(1)
	begun, gate := make(chan struct{}), make(chan struct{})
	g.Go(func() error { close(begun); testutil.Compute(gate); return nil })
	for range 5 {
		g.Go(func() error { t.Error("the pool was aborted"); return nil })
	}
	<-begun
	go func() {
		for !p.aborted.Load() {
			runtime.Gosched()
		}
		close(gate)
	}()
	left, err := p.Abort(context.Background())
	require.NoError(t, err)
	require.Empty(t, left)
	require.ErrorIs(t, g.Wait(), ErrClosed)
	require.Equal(t, 5, g.Skipped())
}

func TestAGroupOfAnAbortedPoolRefusesFunctions(t *testing.T) {
	for name, limits := range map[string]func(g *Group){
		"":         func(*Group) {},
		"AtMost":   func(g *Group) { g.AtMost(1) },
		"SetLimit": func(g *Group) { g.SetLimit(1) },
	} {
		t.Run(name, func(t *testing.T) {
			p, err := New(WithWorkers(2))
			require.NoError(t, err)
			g := newGroup(p)
			limits(g)
			_, err = p.Abort(context.Background())
			require.NoError(t, err)
			require.NoError(t, g.Wait(), "nothing was refused or skipped")
			never := func() error { t.Error("the pool was aborted"); return nil }
			require.True(t, testutil.Returns(func() {
				for range 3 {
					g.Go(never)
					require.True(t, g.TryGo(never))
				}
				require.ErrorIs(t, g.Wait(), ErrClosed)
			}), "it hangs")
			require.Zero(t, g.Running())
			require.Zero(t, g.Queued())
			require.Zero(t, g.Skipped(), "the closed pool refused them")
			require.EqualValues(t, 6, p.Stats().Refused)
			g.Reset(context.Background())
			require.NoError(t, g.Wait())
		})
	}
}

// TestAnAbortedGroupCountsEachFunctionOnce, as one that ran, was skipped or was refused: goroutines and the group's own
// functions add functions and wait while another goroutine aborts the pool.
func TestAnAbortedGroupCountsEachFunctionOnce(t *testing.T) {
	groups := map[string]func(g *Group){
		"":                 func(*Group) {},
		"AtMost":           func(g *Group) { g.AtMost(1) },
		"AtMost, joined":   func(g *Group) { g.AtMost(2); g.JoinErrors() },
		"SetLimit":         func(g *Group) { g.SetLimit(50) },
		"SetLimit, AtMost": func(g *Group) { g.SetLimit(50); g.AtMost(1) },
	}
	for name, limits := range groups {
		t.Run(name, func(t *testing.T) {
			for round := range testutil.Stress(400) {
				p, err := New(WithWorkers(1 << (round % 3)))
				require.NoError(t, err)
				g := newGroup(p)
				limits(g)
				var given, inside, ran atomic.Int64
				var f func() error
				f = func() error {
					ran.Add(1)
					for range 2 {
						if inside.Add(1) < 2000 && g.TryGo(f) { // Go would wait for its caller at the limit
							given.Add(1)
						}
					}
					if ran.Load()%7 == 0 {
						p.Block(runtime.Gosched)
					}
					return nil
				}
				wait := testutil.Together(4, func(who int) {
					for range 30 {
						given.Add(1)
						g.Go(f)
						if who > 1 {
							_ = g.Wait()
						}
					}
				})
				for range round % 50 {
					runtime.Gosched()
				}
				var left []func(*Worker)
				require.True(t, testutil.Returns(func() { left, err = p.Abort(context.Background()) }), "Abort hangs")
				require.NoError(t, err)
				require.True(t, testutil.Returns(wait), "a waiter hangs: %d run, %d are queued", g.Running(), g.Queued())
				for _, f := range left {
					f(nil) // does nothing
				}
				require.True(t, testutil.Returns(func() { err = g.Wait() }), "Wait hangs")
				never := int64(g.Skipped()) + int64(p.Stats().Refused)
				if never > 0 {
					require.ErrorIs(t, err, ErrClosed)
				}
				require.EqualValues(t, given.Load(), ran.Load()+never, "%d ran, %d were skipped", ran.Load(), g.Skipped())
				require.Zero(t, g.Running())
				require.Zero(t, g.Queued())
			}
		})
	}
}

func TestABroadcastBesideAbortEnds(t *testing.T) {
	for round := range testutil.Stress(400) {
		p, err := New(WithWorkers(1 + round%4))
		require.NoError(t, err)
		wait := testutil.Together(3, func(who int) {
			for err := error(nil); err == nil; {
				ctx, cancel := context.WithCancel(context.Background())
				if who == 2 {
					go cancel()
				}
				err = p.Broadcast(ctx, func(w *Worker) error { w.Block(func() {}); return nil })
				cancel()
				if errors.Is(err, context.Canceled) {
					err = nil
				}
			}
		})
		for range round % 50 {
			runtime.Gosched()
		}
		require.True(t, testutil.Returns(func() { _, err = p.Abort(context.Background()) }), "Abort hangs")
		require.NoError(t, err)
		require.True(t, testutil.Returns(wait), "Broadcast hangs")
	}
}

func TestAbortOfPoolsThatCannotBe(t *testing.T) {
	_, err := Default().Abort(context.Background())
	require.ErrorIs(t, err, errShared)
	_, err = (*Pool)(nil).Abort(context.Background())
	require.ErrorIs(t, err, errNoPool)
	p := newPool(t, WithWorkers(1))
	var none context.Context
	_, err = p.Abort(none)
	require.ErrorContains(t, err, "Pool.Abort was given a nil context")
	inside := make(chan error, 1)
	require.NoError(t, p.Go(func(*Worker) { _, err := p.Abort(context.Background()); inside <- err }))
	require.ErrorContains(t, <-inside, "inside a task")
	require.NoError(t, p.Pause(context.Background()))
	require.NoError(t, p.Go(func(*Worker) { t.Error("it was given back") }))
	left, err := p.Abort(context.Background())
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestChildrenAndForksOfWhatRunsEndAfterAbort(t *testing.T) {
	p, err := New(WithWorkers(2))
	require.NoError(t, err)
	var ran atomic.Int64
	begun, gate := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		close(begun)
		<-gate
		w.Scope(func(s *Scope) {
			for range 100 {
				s.Go(w, func(w *Worker) { w.Do(func(*Worker) { ran.Add(1) }, func(*Worker) { ran.Add(1) }) })
			}
		})
	}))
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	left, err := p.Abort(ctx)
	require.Error(t, err)
	require.Empty(t, left)
	close(gate)
	require.NoError(t, p.Close())
	require.EqualValues(t, 200, ran.Load())
}
