package pool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool/inspect"
)

func dump(t *testing.T, p *Pool) string {
	var b bytes.Buffer
	require.NoError(t, p.Dump(&b))
	return b.String()
}

// requireDump waits until a dump has all of these.
func requireDump(t *testing.T, p *Pool, parts ...string) {
	t.Helper()
	require.True(t, testutil.Eventually(func() bool {
		s := dump(t, p)
		for _, part := range parts {
			if !strings.Contains(s, part) {
				return false
			}
		}
		return true
	}), "%s\nhas not all of %q", dump(t, p), parts)
}

// TestADumpNamesTheCircle of tasks that wait for one another, which is what one wants to know of a
// program that hangs. A context ends each circle afterwards.
func TestADumpNamesTheCircle(t *testing.T) {
	for name, plant := range map[string]func(p *Pool, ctx context.Context) (over func()){
		"two futures": func(p *Pool, ctx context.Context) func() {
			var a, b *Future[int]
			ready := make(chan struct{})
			a = Async(p, func(*Worker) (int, error) { <-ready; return b.Wait(ctx) }, Named("a"))
			b = Async(p, func(*Worker) (int, error) { <-ready; return a.Wait(ctx) }, Named("b"))
			close(ready)
			return func() {
				_, _ = a.Wait(context.Background())
				_, _ = b.Wait(context.Background())
			}
		},
		"three futures": func(p *Pool, ctx context.Context) func() {
			var fs [3]*Future[int]
			ready := make(chan struct{})
			for i := range fs {
				fs[i] = Async(p, func(*Worker) (int, error) { <-ready; return fs[(i+1)%3].Wait(ctx) }, Named(string(rune('a'+i))))
			}
			close(ready)
			return func() {
				for _, f := range fs {
					_, _ = f.Wait(context.Background())
				}
			}
		},
		"a group and a future": func(p *Pool, ctx context.Context) func() {
			g, _ := NewGroup(p)
			ready := make(chan struct{})
			f := Async(p, func(*Worker) (int, error) { <-ready; return 0, g.Wait() }, Named("a"))
			require.NoError(t, p.Submit(ctx, func(*Worker) {}))
			g.Go(func() error { _, err := f.Wait(ctx); return err })
			close(ready)
			return func() { _, _ = f.Wait(context.Background()) }
		},
		"a stolen fork": func(p *Pool, ctx context.Context) func() {
			var f *Future[int]
			ready := make(chan struct{})
			f = Async(p, func(w *Worker) (int, error) {
				stolen := make(chan struct{})
				w.Do(func(*Worker) { <-stolen }, func(w *Worker) {
					close(stolen)
					<-ready
					_, _ = f.Wait(ctx) // it runs elsewhere than f, so the pool does not see that it is f's own
				})
				return 0, nil
			}, Named("a"))
			close(ready)
			return func() { _, _ = f.Wait(context.Background()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, WithWorkers(3))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			over := plant(p, ctx)
			requireDump(t, p, "A circle, which hangs", "a on worker")
			require.Len(t, p.Snapshot().Circles, 1)
			gone, stop := context.WithCancel(context.Background())
			stop()
			err := p.Shutdown(gone)
			var unfinished *UnfinishedError
			require.True(t, errors.As(err, &unfinished))
			require.Len(t, unfinished.Snapshot.Circles, 1)
			require.ErrorContains(t, err, "these wait for one another: ")
			require.ErrorContains(t, err, "a on worker")
			cancel()
			over()
			require.NoError(t, p.Close())
			require.Empty(t, p.Snapshot().Circles)
		})
	}
}

func TestACircleMayGoThroughTwoPools(t *testing.T) {
	p, q := newPool(t, WithWorkers(2)), newPool(t, WithName("other"), WithWorkers(2))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready := make(chan struct{})
	var b *Future[int]
	a := Async(p, func(*Worker) (int, error) { <-ready; return b.Wait(ctx) }, Named("a"))
	b = Async(q, func(*Worker) (int, error) { <-ready; return a.Wait(ctx) }, Named("b"))
	close(ready)
	requireDump(t, p, "a waits in Future.Wait, for b on worker", `of another pool (pool "other")`, "A circle")
	requireDump(t, q, "b waits in Future.Wait, for a on worker", "of another pool (pool)", "A circle")
	unconcerned := newPool(t, WithWorkers(1))
	require.Empty(t, unconcerned.Snapshot().Circles)
	cancel()
	_, _ = a.Wait(context.Background())
	_, _ = b.Wait(context.Background())
}

func TestAChainOfWaitsIsNoCircle(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	release := make(chan struct{})
	last := Async(p, func(w *Worker) (int, error) { w.Block(func() { <-release }); return 0, nil }, Named("last"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	middle := Async(p, func(*Worker) (int, error) { return last.Wait(ctx) }, Named("middle"))
	first := Async(p, func(*Worker) (int, error) { return middle.Wait(ctx) }, Named("first"))
	requireDump(t, p,
		"last waits in Worker.Block",
		"middle waits in Future.Wait, for last on worker",
		"first waits in Future.Wait, for middle on worker")
	require.Empty(t, p.Snapshot().Circles)
	for _, w := range p.Snapshot().Workers {
		require.Equal(t, w.State == inspect.Waits, w.Known, "of waits it is known without timings")
	}
	close(release)
	_, err := first.Wait(ctx)
	require.NoError(t, err)
}

func TestADumpTellsWhatNobodyHasBegunWith(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	release, held := make(chan struct{}), make(chan struct{})
	require.NoError(t, p.Submit(context.Background(), func(*Worker) { close(held); testutil.Compute(release) }, Named("the one before")))
	<-held
	f := Async(p, func(*Worker) (int, error) { return 0, nil })
	require.NoError(t, p.Submit(context.Background(), func(*Worker) {}, PriorityLow))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = p.Run(func(*Worker) { _, _ = f.Wait(ctx) })
	}()
	requireDump(t, p, "in Future.Wait, for something that nobody has begun", "injector of node", ", low", "the one before", "guest")
	g := newGroup(p)
	g.Go(func() error { return nil })
	waited := testutil.Together(1, func(int) { _ = p.Run(func(*Worker) { _ = g.Wait() }) })
	requireDump(t, p, "in Group.Wait, for something that nobody has begun")
	close(release)
	<-over
	waited()
}

func TestAStandInIsCalledSo(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	release := make(chan struct{})
	require.NoError(t, p.Submit(context.Background(), func(w *Worker) { w.Block(func() { <-release }) }, Named("lender")))
	require.NoError(t, p.Submit(context.Background(), func(*Worker) { testutil.Compute(release) }, Named("other")))
	requireDump(t, p, "stand-in", "lender waits in Worker.Block", "other, ")
	close(release)
}

// TestANameFollowsATaskHoweverItIsSubmitted, and whatever other options it has.
func TestANameFollowsATaskHoweverItIsSubmitted(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx := context.Background()
	got := make(chan string, 1)
	look := func(*Worker) { got <- p.Snapshot().Workers[0].Does }
	future := func(w *Worker) (int, error) { look(w); return 0, nil }
	name := Named("by its name")
	for how, submit := range map[string]func(options ...TaskOption) error{
		"Submit":       func(o ...TaskOption) error { return p.Submit(ctx, look, o...) },
		"context":      func(o ...TaskOption) error { return p.Submit(t.Context(), look, o...) },
		"TrySubmit":    func(o ...TaskOption) error { return p.TrySubmit(look, o...) },
		"Async":        func(o ...TaskOption) error { Async(p, future, o...); return nil },
		"Async at Try": func(o ...TaskOption) error { _, err := tryAsync(p, future, o...); return err },
		"Async in a task": func(o ...TaskOption) error {
			return p.Go(func(*Worker) { Async(p, future, o...) })
		},
	} {
		for with, other := range map[string]TaskOption{
			"nothing": PriorityNormal, "a priority": PriorityHigh, "a delay": Delay(1), "a node": OnNode(p.Nodes()[0]),
			"a deadline": StartBy(time.Now().Add(time.Hour), func(*Worker) {}), "a late one": StartBy(time.Time{}, look),
		} {
			require.NoError(t, submit(other, name))
			require.Equal(t, "by its name", <-got, "%s with %s", how, with)
		}
	}
}

// TestANameEndsWithItsFunction, also when that panics, and gives way to the name around it.
func TestANameEndsWithItsFunction(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	does := func() string { return p.Snapshot().Workers[0].Does }
	require.NoError(t, p.Submit(context.Background(), func(w *Worker) {
		func() {
			defer func() { _ = recover() }()
			w.Named("inner", func() {
				w.Named("innermost", func() { require.Equal(t, "innermost", does()) })
				require.Equal(t, "inner", does())
				panic("planted")
			})
		}()
		require.Equal(t, "outer", does())
		require.PanicsWithError(t, "pool: Worker.Named was given a nil function", func() { w.Named("none", nil) })
	}, Named("outer")))
	requireAtRest(t, p)
}

func TestADumpSaysOnWhoseBehalfAForkRuns(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	release := make(chan struct{})
	ids := make(chan int, 2)
	f := Async(p, func(w *Worker) (int, error) {
		ids <- w.ID()
		stolen := make(chan struct{})
		w.Do(func(*Worker) { <-stolen }, func(w *Worker) { ids <- w.ID(); close(stolen); testutil.Compute(release) })
		return 0, nil
	}, Named("the whole"))
	owner, thief := <-ids, <-ids
	requireDump(t, p, fmt.Sprintf("a part of the whole on worker %d", owner),
		"the whole waits in a fork or scope, for ", fmt.Sprintf("(a fork or child) on worker %d", thief))
	close(release)
	_, err := f.Wait(context.Background())
	require.NoError(t, err)
}

// TestNothingOfAStolenForkStaysWithItsThief: the next task neither belongs to the fork's call nor runs for anybody.
func TestNothingOfAStolenForkStaysWithItsThief(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancel(context.Background())
	labelledAs("the call's", func() {
		require.NoError(t, p.With(ctx).Run(func(w *Worker) { stolenJoin(w, nop[int], nop[int]) }))
	})
	cancel()
	both := testutil.NewBarrier(2)
	for range 2 {
		require.NoError(t, p.Go(func(w *Worker) {
			both.Wait()
			require.NoError(t, w.Context().Err())
			require.Empty(t, label("request"))
			require.Nil(t, w.forWhom.Own())
			require.Nil(t, w.latch.Own())
		}))
	}
}

// TestASnapshotSaysWhoIsWhere, in which role and state, by the system's numbers of nodes.
func TestASnapshotSaysWhoIsWhere(t *testing.T) {
	p := newNodes(t, 2, 1)
	require.NoError(t, p.Run(func(*Worker) {}))
	requireAtRest(t, p)
	s := p.Snapshot()
	require.Empty(t, s.Workers, "the guest has left")
	require.Equal(t, 2, s.Idle, "a guest is none of the pool's workers")

	ctx := context.Background()
	release, standing := make(chan struct{}), make(chan struct{})
	both := testutil.NewBarrier(2)
	var lender, standIn, other, guest, waiter *Worker
	require.NoError(t, p.Submit(ctx, func(w *Worker) {
		lender = w
		both.Compute()
		_ = w.Go(func(w *Worker) {
			w.Named("stands in", func() { standIn = w; close(standing); testutil.Compute(release) })
		})
		w.Block(func() { <-release })
	}, Named("lender")))
	queued := make(chan struct{})
	require.NoError(t, p.Submit(ctx, func(w *Worker) {
		other = w
		both.Compute()
		testutil.Compute(standing)
		_ = w.Go(func(*Worker) {})
		close(queued)
		testutil.Compute(release)
	}, Named("other")))
	<-queued
	inside := make(chan struct{}, 2)
	left := testutil.Together(2, func(i int) {
		_ = p.Run(func(w *Worker) {
			w.Named("guest", func() {
				if i == 0 {
					guest = w
					inside <- struct{}{}
					testutil.Compute(release)
				} else {
					waiter = w
					w.Block(func() { inside <- struct{}{}; <-release })
				}
			})
		})
	})
	<-inside
	<-inside
	for priority, n := range map[Priority]int{PriorityLow: 1, PriorityNormal: 2, PriorityHigh: 3} {
		for range n {
			require.NoError(t, submitOn(p, ctx, 10, func(*Worker) {}, priority))
		}
	}

	s = p.Snapshot()
	row := func(w *Worker, role string, state inspect.State, does string) inspect.Worker {
		return inspect.Worker{ID: w.ID(), Role: role, Place: w.core.HomeIndex(), Node: w.Node(), State: state, Does: does}
	}
	waits := func(w inspect.Worker) inspect.Worker {
		w.Waits, w.Known = "Worker.Block", true
		return w
	}
	want := []inspect.Worker{
		waits(row(lender, "worker", inspect.Waits, "lender")), row(standIn, "stand-in", inspect.Runs, "stands in"), row(other, "worker", inspect.Runs, "other"),
		row(guest, "guest", inspect.Runs, "guest"), waits(row(waiter, "guest", inspect.Waits, "guest")),
	}
	for i := range s.Workers {
		w := &s.Workers[i]
		require.Equal(t, w.State == inspect.Runs, strings.HasPrefix(w.Source, "dump_test.go:"), "%v", w)
		w.For, w.Source = 0, ""
	}
	require.ElementsMatch(t, want, s.Workers)
	require.Equal(t, lender.core.Home(), standIn.core.Home())
	require.ElementsMatch(t, []int{0, 10}, []int{lender.Node(), other.Node()})
	require.Zero(t, s.Idle)
	require.ElementsMatch(t, []inspect.Queue{
		{Name: "injector of node 10, normal", Length: 2}, {Name: "injector of node 10, high", Length: 3}, {Name: "injector of node 10, low", Length: 1},
		{Name: fmt.Sprintf("place %d", other.core.HomeIndex()), Length: 1},
	}, s.Queues)
	close(release)
	left()
}

// TestSnapshotsWhileThePoolWorks have no circle, and hold up no worker.
func TestSnapshotsWhileThePoolWorks(t *testing.T) {
	p := newPool(t, WithWorkers(3), WithTimings(), WithSlowTask(time.Hour, nil), WithName("busy"))
	over := make(chan struct{})
	var snapshots sync.WaitGroup
	for range 2 {
		snapshots.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				s := p.Snapshot()
				if len(s.Circles) > 0 {
					t.Errorf("a circle where there is none:\n%v", s)
				}
				_ = s.String()
				_ = p.Stats()
				_ = p.Timings()
				_ = p.Config()
			}
		})
	}
	for range testutil.Stress(200) {
		g, _ := NewGroup(p)
		g.AtMost(2)
		for range 5 {
			g.GoWorker(func(w *Worker) error {
				f := Async(p, func(w *Worker) (int, error) {
					w.Do(func(w *Worker) { w.Yield() }, func(*Worker) {}, func(w *Worker) { w.Block(func() {}) })
					return 0, nil
				})
				w.Scope(func(s *Scope) { s.Go(w, func(*Worker) {}) })
				_, err := f.Wait(context.Background())
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.NoError(t, ForRange(p, 100, func(w *Worker, lo, hi int) {}, Grain(3)))
	}
	close(over)
	snapshots.Wait()
}

func TestASlowTaskIsReportedOnceWithItsStack(t *testing.T) {
	reports := make(chan inspect.Slow, 100)
	var p *Pool
	p = newPool(t, WithName("thumbs"), WithWorkers(2), WithSlowTask(20*time.Millisecond, func(s inspect.Slow) {
		_ = p.Snapshot().String() // it may
		reports <- s
	}))
	release := make(chan struct{})
	require.NoError(t, p.Submit(context.Background(), func(*Worker) { sleepsLong(release) }, Named("sleeper")))
	s := <-reports
	require.Equal(t, "sleeper", s.Task)
	require.Equal(t, `pool "thumbs"`, s.Pool)
	require.False(t, s.Ended)
	require.Contains(t, s.Stack, "pool.sleepsLong")
	require.Greater(t, s.Took, 20*time.Millisecond)
	close(release)
	requireCloses(t, p)
	require.Empty(t, reports)
	require.Len(t, p.Snapshot().Slow, 1)
	require.Contains(t, dump(t, p), `slow: pool "thumbs": worker`)
}

//go:noinline
func sleepsLong(release chan struct{}) { <-release }

func TestASlowTaskThatEndsBeforeItIsLookedAtIsReportedToo(t *testing.T) {
	var mu sync.Mutex
	var reports []inspect.Slow
	p := newPool(t, WithWorkers(1), WithPanicHandler(func(*PanicError) {}), WithSlowTask(100*time.Millisecond, func(s inspect.Slow) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, s)
	}))
	for _, end := range []func(){func() {}, func() { panic("on purpose") }, goexitNow} {
		require.NoError(t, p.Go(func(*Worker) { time.Sleep(101 * time.Millisecond); end() }))
	}
	g, _ := NewGroup(p)
	g.Go(func() error { time.Sleep(101 * time.Millisecond); return nil })
	require.NoError(t, g.Wait())
	requireCloses(t, p)
	require.Len(t, reports, 4, "%v", reports)
	for _, s := range reports {
		require.Contains(t, s.Task, "TestASlowTaskThatEndsBeforeItIsLookedAtIsReportedToo")
		require.NotEmpty(t, s.String())
	}
}

func TestAPoolRemembersTheLastSlowTasks(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithSlowTask(time.Nanosecond, func(inspect.Slow) {}))
	for range 2 * keptSlow {
		require.NoError(t, p.Go(func(*Worker) { time.Sleep(time.Microsecond) }))
	}
	requireCloses(t, p)
	require.Len(t, p.Snapshot().Slow, keptSlow)
	for i := range keptSlow + 2 {
		p.report(inspect.Slow{Worker: i})
	}
	for i, s := range p.Snapshot().Slow {
		require.Equal(t, 2+i, s.Worker, "the oldest first")
	}
}

// TestATaskIsSlowWhenItTakesLongerThanTheTimeGiven, by the clock, and is reported once, by its own name.
func TestATaskIsSlowWhenItTakesLongerThanTheTimeGiven(t *testing.T) {
	var reports []inspect.Slow
	p := newPool(t, WithName("thumbs"), WithWorkers(1), WithSlowTask(time.Hour, func(s inspect.Slow) { reports = append(reports, s) }))
	run := func(name string, ago time.Duration, f func(w *Worker)) {
		var options []TaskOption
		if name != "" {
			options = append(options, Named(name))
		}
		require.NoError(t, p.Submit(context.Background(), func(w *Worker) {
			if f(w); ago > 0 {
				w.began(ago)
			}
		}, options...))
	}
	nothing := func(*Worker) {}
	run("in time", 59*time.Minute, nothing)
	run("slow", 61*time.Minute, nothing)
	run("", 62*time.Minute, nothing)
	run("", 63*time.Minute, func(w *Worker) { w.Named("of a queue", func() {}) })
	run("the task", 64*time.Minute, func(w *Worker) { w.Named("a part of it", func() {}) })
	run("in time again", 59*time.Minute, func(w *Worker) { w.began(59 * time.Minute); p.findSlow() })
	run("still runs", 0, func(w *Worker) {
		w.began(65 * time.Minute)
		begun := w.since.Load()
		p.findSlow()
		p.findSlow()
		require.Len(t, reports, 1, "the others have ended, and the sentinel comes to them later")
		require.Equal(t, begun, w.slowSince.Load())
	})
	run("last", 67*time.Minute, nothing)
	start := time.Now()
	requireCloses(t, p)

	want := []struct {
		task string
		took time.Duration
	}{
		{"still runs", 65}, {"slow", 61}, {"TestATaskIsSlowWhenItTakesLongerThanTheTimeGiven", 62}, {"of a queue", 63}, {"the task", 64}, {"last", 67},
	}
	require.Len(t, reports, len(want), "%v", reports)
	for i, s := range reports {
		require.Contains(t, s.Task, want[i].task)
		require.NotContains(t, s.Task, " of it")
		require.InDelta(t, want[i].took*time.Minute, s.Took, float64(30*time.Second))
		require.Equal(t, `pool "thumbs"`, s.Pool)
		require.Equal(t, 0, s.Worker)
		require.WithinDuration(t, start, s.At, time.Minute)
		require.Equal(t, i > 0, s.Ended)
		require.Equal(t, i == 0, strings.Contains(s.Stack, "findSlow"), "of the task's goroutine, while it runs")
	}
	require.Equal(t, reports, p.Snapshot().Slow)
}

func TestWithoutAFunctionSlowTasksGoToTheStandardLogger(t *testing.T) {
	var b bytes.Buffer
	log.SetOutput(&b)
	defer log.SetOutput(os.Stderr)
	c, err := configure([]Option{WithSlowTask(time.Second, nil)})
	require.NoError(t, err)
	c.onSlow(inspect.Slow{Pool: "pool", Task: "main.s", Stack: "its stack"})
	require.Contains(t, b.String(), "main.s")
	require.Contains(t, b.String(), "its stack")
}

func TestTheSentinelEndsWithThePool(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithSlowTask(time.Hour, nil))
	requireCloses(t, p)
	<-p.slow.over
}

// TestADumpSaysWhereTasksWait: in what, and at which line, whether heist was told of the wait or not.
func TestADumpSaysWhereTasksWait(t *testing.T) {
	needsStatuses(t)
	p := newPool(t, WithWorkers(1))
	gate := make(chan struct{})
	var mutex sync.Mutex
	mutex.Lock()
	lines := make(chan string, 1) // a wait to send would be noticed, too
	var seen []string
	here := func(waits string) {
		_, _, line, _ := runtime.Caller(1)
		lines <- fmt.Sprintf("waits in %s, dump_test.go:%d", waits, line+1)
	}
	for _, f := range []func(w *Worker){
		func(*Worker) {
			here("chan receive")
			<-gate
		},
		func(*Worker) {
			here("sync.Mutex.Lock")
			mutex.Lock()
		},
		func(w *Worker) {
			here("Worker.Block")
			w.Block(func() { <-gate })
		},
	} {
		require.NoError(t, p.Go(f))
		require.NoError(t, p.Go(func(*Worker) {})) // something that the place is lent for
		seen = append(seen, <-lines)
		requireDump(t, p, seen...)
	}
	requireDump(t, p, seen[0]+", noticed", seen[1]+", noticed")
	require.EqualValues(t, 2, p.Stats().Noticed)
	close(gate)
	mutex.Unlock()
	requireAtRest(t, p)
	require.Positive(t, p.Stats().NoticedFor)
}

// TestADumpKnowsOfAHangThatNobodyHasNoticed, because nothing is queued.
func TestADumpKnowsOfAHangThatNobodyHasNoticed(t *testing.T) {
	needsStatuses(t)
	p := newPool(t, WithWorkers(2))
	gate := make(chan struct{})
	for range 2 {
		require.NoError(t, p.Go(func(*Worker) { <-gate }))
	}
	requireDump(t, p, "waits in chan receive, dump_test.go:", "All wait, and nothing is queued")
	close(gate)
	requireAtRest(t, p)
}

// TestADumpListsTheFunctionsThatWait, and how often, and for how long.
func TestADumpListsTheFunctionsThatWait(t *testing.T) {
	needsStatuses(t)
	p := newPool(t, WithWorkers(1))
	waits := func(*Worker) { time.Sleep(5 * time.Millisecond) }
	for range 20 {
		require.NoError(t, p.Go(waits))
	}
	requireAtRest(t, p)
	all := p.Snapshot().Waiters
	require.Len(t, all, 1)
	require.Equal(t, nameOf(codeOf(waits)), all[0].Function)
	require.Regexp(t, `^dump_test.go:\d+$`, all[0].Source)
	require.Greater(t, all[0].Share, 0.5)
	require.Greater(t, all[0].Mean, time.Millisecond)
	requireDump(t, p, "waits, as was noticed", all[0].Function)
}
