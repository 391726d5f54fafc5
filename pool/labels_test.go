package pool

import (
	"context"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
)

// label returns a label of the calling goroutine, as a profile shows it.
func label(name string) string {
	value, _ := pprof.Label(labelled{context.Background(), goroutineLabels()}, name)
	return value
}

// labelledAs calls f in a goroutine that has a label.
func labelledAs(value string, f func()) {
	pprof.Do(context.Background(), pprof.Labels("request", value), func(context.Context) { f() })
}

func TestLabelsOfWhoSubmitsFollowTheTask(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx := context.Background()
	for name, submit := range map[string]func(f func(w *Worker)){
		"Go":        func(f func(w *Worker)) { require.NoError(t, p.Go(f)) },
		"Submit":    func(f func(w *Worker)) { require.NoError(t, p.Submit(ctx, f)) },
		"TrySubmit": func(f func(w *Worker)) { require.NoError(t, p.TrySubmit(f, PriorityHigh)) },
		"Delay":     func(f func(w *Worker)) { require.NoError(t, p.Submit(ctx, f, Delay(1))) },
		"SubmitAll": func(f func(w *Worker)) { _, err := p.SubmitAll(ctx, []func(*Worker){f}); require.NoError(t, err) },
		"Async":     func(f func(w *Worker)) { Async(p, func(w *Worker) (int, error) { f(w); return 0, nil }) },
		"Group": func(f func(w *Worker)) {
			g, _ := NewGroup(p.With(ctx))
			g.Go(func() error { f(nil); return nil })
		},
		"Group.AtMost": func(f func(w *Worker)) {
			g, _ := NewGroup(p.With(ctx))
			g.AtMost(1)
			g.Go(func() error { return nil })
			g.GoWorker(func(w *Worker) error { f(w); return nil })
		},
		"Worker.Go": func(f func(w *Worker)) {
			require.NoError(t, p.Go(func(w *Worker) { _ = w.Go(f) }))
		},
		"Worker.Go of a guest": func(f func(w *Worker)) {
			require.NoError(t, p.Run(func(w *Worker) { _ = w.Go(f) }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan string)
			labelledAs(name, func() { submit(func(*Worker) { got <- label("request") }) })
			require.Equal(t, name, <-got)
			require.NoError(t, p.WaitIdle(ctx))
			require.NoError(t, p.Broadcast(ctx, func(*Worker) error { require.Empty(t, label("request")); return nil }), "what comes next has none")
		})
	}
}

func TestALabelThatATaskSetsFollowsWhatItSubmits(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	got := make(chan string)
	require.NoError(t, p.Go(func(w *Worker) {
		labelledAs("inner", func() { _ = w.Go(func(*Worker) { got <- label("request") }) })
	}))
	require.Equal(t, goIfKnown("inner"), <-got)
}

// goIfKnown returns the label, or "" if it is not known where the runtime's record of a goroutine
// has it.
func goIfKnown(value string) string {
	if labelsOffset == 0 {
		return ""
	}
	return value
}

func TestTheRecordOfAGoroutineIsReadWhereThereIsAssembly(t *testing.T) {
	require.Equal(t, goroutineIDAllocates, labelsOffset == 0)
}

func TestLabelsFollowWhatIsStolen(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for name, run := range map[string]func(w *Worker, mine, others func(w *Worker)){
		"Do":    func(w *Worker, mine, others func(w *Worker)) { w.Do(mine, others) },
		"Join":  func(w *Worker, mine, others func(w *Worker)) { joinFuncs(w, mine, others) },
		"Scope": func(w *Worker, mine, others func(w *Worker)) { w.Scope(func(s *Scope) { s.Go(w, others); mine(w) }) },
		"ForRange": func(w *Worker, mine, others func(w *Worker)) {
			_ = ForRange(w, 2, func(w *Worker, lo, hi int) {
				for i := lo; i < hi; i++ {
					[]func(*Worker){mine, others}[i](w)
				}
			}, Grain(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(want string, call func(f func(w *Worker)) error) {
				stolen := make(chan string, 1)
				var me atomic.Pointer[Worker]
				require.NoError(t, call(func(w *Worker) {
					me.Store(w)
					run(w, func(w *Worker) { stolen <- <-stolen }, func(w *Worker) {
						require.NotSame(t, me.Load(), w)
						stolen <- label("request")
					})
				}))
				require.Equal(t, want, <-stolen)
			}
			check("", p.Run)
			labelledAs("guest", func() { check("guest", p.Run) })
			labelledAs("task", func() {
				check("task", func(f func(w *Worker)) error {
					_, err := Async(p, func(w *Worker) (int, error) { f(w); return 0, nil }).Wait(context.Background())
					return err
				})
			})
			check("", p.Run)
		})
	}
}

func joinFuncs(w *Worker, f, g func(w *Worker)) {
	call := func(w *Worker, f func(w *Worker)) int { f(w); return 0 }
	Join(w, call, f, call, g)
}

func TestWorkersOfAPoolWithANameShowItInProfiles(t *testing.T) {
	p := newPool(t, WithName("thumbs"), WithWorkers(1))
	names := func(f func(func(w *Worker))) (pool, worker, request string) {
		done := make(chan struct{})
		f(func(*Worker) {
			pool, worker, request = label(labelPool), label(labelWorker), label("request")
			close(done)
		})
		<-done
		return pool, worker, request
	}
	submit := func(f func(w *Worker)) { require.NoError(t, p.Go(f)) }
	for range 3 {
		pool, worker, request := names(submit)
		require.Equal(t, []string{"thumbs", "0", ""}, []string{pool, worker, request})
		labelledAs("mine", func() {
			pool, worker, request := names(submit)
			require.Equal(t, []string{"thumbs", "0", "mine"}, []string{pool, worker, request})
		})
	}
	require.NoError(t, p.Run(func(*Worker) { require.Empty(t, label(labelPool), "guests are no workers") }))
}

func TestATaskOfAPoolWithANameSubmitsWithoutAnAllocation(t *testing.T) {
	p := newPool(t, WithName("thumbs"), WithWorkers(1))
	f := func(*Worker) {}
	got := make(chan float64, 2)
	require.NoError(t, p.Go(func(w *Worker) {
		got <- allocsPerRun(100, func() { _ = w.Go(f) })
		got <- allocsPerRun(100, func() { _ = p.Go(f) })
	}))
	require.Zero(t, <-got, "Worker.Go")
	if !goroutineIDAllocates {
		require.Zero(t, <-got, "Pool.Go")
	}
}

func TestAThiefDoesNotGoByTheNumberOfItsVictim(t *testing.T) {
	p := newPool(t, WithName("thumbs"), WithWorkers(2))
	for range 20 {
		_, err := Async(p, func(w *Worker) (int, error) {
			stolen := make(chan struct{})
			w.Do(func(*Worker) { <-stolen }, func(w *Worker) {
				require.Equal(t, []string{"thumbs", strconv.Itoa(w.ID())}, []string{label(labelPool), label(labelWorker)})
				close(stolen)
			})
			require.Equal(t, strconv.Itoa(w.ID()), label(labelWorker))
			return 0, nil
		}).Wait(context.Background())
		require.NoError(t, err)
	}
}

func TestLabelsFollowABroadcast(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	labelledAs("all", func() {
		require.NoError(t, p.Broadcast(context.Background(), func(*Worker) error { require.Equal(t, "all", label("request")); return nil }))
	})
}

func TestAFutureThatItsWaiterRunsHasTheLabelsOfItsSubmitter(t *testing.T) {
	p := newPool(t, WithName("thumbs"), WithWorkers(1))
	require.NoError(t, p.Pause(context.Background()))
	wait := func(f *Future[string]) (got, after string) {
		require.NoError(t, p.Run(func(*Worker) {
			got, _ = f.Wait(context.Background())
			after = label("request")
		}))
		return got, after
	}
	which := func(*Worker) (string, error) { return label("request"), nil }
	var f *Future[string]
	labelledAs("submitter", func() { f = Async(p, which) })
	labelledAs("waiter", func() {
		got, after := wait(f)
		require.Equal(t, []string{"submitter", "waiter"}, []string{got, after})
		var own *Future[string]
		done := make(chan struct{})
		go func() { // which has the waiter's labels
			pprof.SetGoroutineLabels(context.Background())
			own = Async(p, which)
			close(done)
		}()
		<-done
		got, after = wait(own)
		require.Equal(t, []string{"", "waiter"}, []string{got, after})
	})
	p.Resume()
}

func TestWhatATaskDoesToItsLabelsEndsWithIt(t *testing.T) {
	for _, options := range [][]Option{nil, {WithName("thumbs")}} {
		p := newPool(t, append(options, WithWorkers(1))...)
		now := func() []string {
			got := make(chan []string)
			require.NoError(t, p.Go(func(*Worker) { got <- []string{label(labelPool), label("request")} }))
			return <-got
		}
		before := now()
		for _, f := range []func(){
			func() { labelledAs("inner", func() {}) },
			func() { pprof.SetGoroutineLabels(sample) },
			func() {
				pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("request", "left")))
			},
		} {
			require.NoError(t, p.Go(func(*Worker) { f() }))
			if labelsOffset > 0 {
				require.Equal(t, before, now())
			}
		}
	}
}

func TestLabelsDoNotSurviveATaskThatPanicsOrEndsItsGoroutine(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPanicHandler(func(*PanicError) {}))
	for _, end := range []func(){func() { panic("on purpose") }, goexitNow} {
		labelledAs("gone", func() { require.NoError(t, p.Go(func(*Worker) { end() })) })
		got := make(chan string)
		require.NoError(t, p.Go(func(*Worker) { got <- label("request") }))
		require.Empty(t, <-got)
	}
}

func TestWorkersHaveNoLabelsOfOthers(t *testing.T) {
	var p *Pool
	pprof.Do(context.Background(), pprof.Labels("whose", "New's"), func(context.Context) { p = newPool(t, WithWorkers(1)) })
	count := func() int {
		n := 0
		profile := pprof.Lookup("goroutine")
		var text writer
		require.NoError(t, profile.WriteTo(&text, 1))
		for i := 0; i+len("New's") <= len(text); i++ {
			if string(text[i:i+len("New's")]) == "New's" {
				n++
			}
		}
		return n
	}
	inside := make(chan struct{})
	release := make(chan struct{})
	require.NoError(t, p.Go(func(*Worker) { close(inside); <-release }))
	<-inside
	require.Zero(t, count())
	close(release)

	// The goroutine for the network does not have the labels of the task that needs it first, either.
	looked := make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) {
		pprof.Do(context.Background(), pprof.Labels("whose", "New's"), func(context.Context) { w.pollNetwork(heist.Ticks()) })
		close(looked)
	}))
	<-looked
	require.True(t, testutil.Eventually(func() bool { return count() == 0 }))
}

type writer []byte

func (w *writer) Write(b []byte) (int, error) { *w = append(*w, b...); return len(b), nil }
