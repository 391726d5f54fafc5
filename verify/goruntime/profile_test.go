package goruntime

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
	exptrace "golang.org/x/exp/trace"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/load"
)

// observedLabel is a label of the profiler's that observed tasks set.
const observedLabel, observedValue = "who", "an observed task"

// observed is the user's code that the profiles should show.
//
//go:noinline
func observed(w *pool.Worker) {
	pprof.Do(context.Background(), pprof.Labels(observedLabel, observedValue), func(ctx context.Context) {
		trace.Log(ctx, observedLabel, observedValue)
		w.Do(observedHalf, observedHalf)
	})
}

//go:noinline
func observedHalf(*pool.Worker) {
	for begin := time.Now(); time.Since(begin) < 100*time.Microsecond; {
		heist.Pause(10)
	}
}

// underObservation uses everything, and has a pool run the observed tasks, for some time. Every now
// and then a task calls look.
func underObservation(t *testing.T, look func()) (load.Counts, uint64) {
	t.Helper()
	p, err := pool.New(pool.WithWorkers(2))
	require.NoError(t, err)
	end := everyMillisecond(func(turn int) {
		over := make(chan struct{})
		if turn%20 != 1 || p.Go(func(*pool.Worker) { look(); close(over) }) != nil {
			return
		}
		<-over
	})
	var c load.Counts
	var group sync.WaitGroup
	var tasks uint64
	var loaded atomic.Bool
	loaded.Store(true)
	group.Go(func() {
		// Enough for some samples, of which there are a hundred in a second.
		for ; tasks < 500 || loaded.Load(); tasks++ {
			var over sync.WaitGroup
			over.Add(2)
			for range 2 {
				if p.Go(func(w *pool.Worker) { observed(w); over.Done() }) != nil {
					t.Error("a task was refused")
					return
				}
			}
			over.Wait()
		}
	})
	group.Go(func() {
		defer loaded.Store(false)
		var err error
		if c, err = load.For(duration()); err != nil {
			t.Error(err)
		}
	})
	group.Wait()
	end()
	require.NoError(t, p.Close())
	return c, 2 * tasks
}

// shows counts the samples of a profile in which a function has another below it.
func shows(p *profile.Profile, function, below string) (samples int) {
	for _, s := range p.Sample {
		var names []string
		for _, l := range s.Location {
			for _, line := range l.Line {
				names = append(names, line.Function.Name)
			}
		}
		has := func(part string) func(string) bool {
			return func(name string) bool { return strings.HasSuffix(name, part) }
		}
		if i := slices.IndexFunc(names, has(function)); i >= 0 && slices.ContainsFunc(names[i:], has(below)) {
			samples++
		}
	}
	return samples
}

// workerMain is below everything that a worker runs.
const workerMain = "pool.(*Worker).main"

func TestProfilesShowWhatWorkersRun(t *testing.T) {
	claim.That(t, "CPU, goroutine, mutex and block profiles disturb nothing and show what workers run",
		"profiles of a busy pool, parsed, with samples of the tasks' own functions and labels")
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	t.Cleanup(func() {
		runtime.SetBlockProfileRate(0)
		runtime.SetMutexProfileFraction(0)
	})
	var cpu bytes.Buffer
	require.NoError(t, pprof.StartCPUProfile(&cpu))
	looks, seen := 0, 0
	c, tasks := underObservation(t, func() {
		looks++
		seen += shows(snapshot(t, "goroutine"), "goruntime.snapshot", workerMain)
	})
	pprof.StopCPUProfile()

	p, err := profile.Parse(&cpu)
	require.NoError(t, err)
	samples := shows(p, "goruntime.observedHalf", workerMain)
	require.NotZero(t, samples, "the CPU profile does not know the tasks")
	labelled := slices.ContainsFunc(p.Sample, func(s *profile.Sample) bool {
		return slices.Contains(s.Label[observedLabel], observedValue)
	})
	require.True(t, labelled, "the CPU profile has lost the tasks' labels")
	require.NotZero(t, looks)
	require.Equal(t, looks, seen, "a goroutine profile does not show the task that takes it")
	for shows(snapshot(t, "mutex"), "Unlock", workerMain) == 0 || shows(snapshot(t, "block"), "Lock", workerMain) == 0 {
		contend(t)
	}
	claim.Amount(t, "%s observed tasks, in %s samples of the CPU profile; %s goroutine profiles taken by tasks; %v",
		claim.Count(tasks), claim.Count(samples), claim.Count(looks), c)
}

// contend has two tasks come to a lock that the first one keeps while it sleeps.
func contend(t *testing.T) {
	t.Helper()
	p, err := pool.New(pool.WithWorkers(2))
	require.NoError(t, err)
	var lock sync.Mutex
	var meet sync.WaitGroup
	meet.Add(2)
	for range 2 {
		require.NoError(t, p.Go(func(*pool.Worker) {
			meet.Done()
			meet.Wait()
			lock.Lock()
			time.Sleep(time.Millisecond)
			lock.Unlock()
		}))
	}
	require.NoError(t, p.Close())
}

// snapshot returns one of the runtime's own profiles.
func snapshot(t *testing.T, name string) *profile.Profile {
	var b bytes.Buffer
	p := new(profile.Profile)
	err := pprof.Lookup(name).WriteTo(&b, 0)
	if err == nil {
		p, err = profile.Parse(&b)
	}
	if err != nil {
		t.Errorf("profile %s: %v", name, err)
	}
	return p
}

func TestAnExecutionTraceShowsWhatWorkersRun(t *testing.T) {
	claim.That(t, "an execution trace disturbs nothing and shows what workers run",
		"a trace of a busy pool, read by golang.org/x/exp/trace, with stacks of the tasks' own functions")
	var traced bytes.Buffer
	require.NoError(t, trace.Start(&traced))
	c, tasks := underObservation(t, func() {})
	trace.Stop()

	events, seen := readTrace(t, &traced)
	require.GreaterOrEqual(t, seen, int(tasks), "each task logs an event")
	claim.Amount(t, "%s events, %s of them in %s observed tasks; %v", claim.Count(events), claim.Count(seen), claim.Count(tasks), c)
}

// readTrace counts the events of a trace, and those that happened in an observed task.
func readTrace(t *testing.T, from io.Reader) (events, seen int) {
	t.Helper()
	r, err := exptrace.NewReader(from)
	require.NoError(t, err)
	for {
		e, err := r.ReadEvent()
		if errors.Is(err, io.EOF) {
			return events, seen
		}
		require.NoError(t, err)
		events++
		for frame := range e.Stack().Frames() {
			if strings.Contains(frame.Func, "goruntime.observed") {
				seen++
				break
			}
		}
	}
}
