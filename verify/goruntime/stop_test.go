package goruntime

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/child"
)

// Stopping the world asks every thread that runs Go code to stop, and waits for the last of them.
// Assembly cannot be stopped, and neither can a raw system call, so both can make the rest of the
// process wait. The runtime itself measures how long that takes, for three loads in turn, which
// leave one P to the goroutine that stops the world.
//
// The longest delay of all is the system's, which may run something else on the CPU for
// milliseconds. But it does not do so in every slice of the measurement, which is some stops long.
// So the loads are compared by their typical longest delay: the median, over the slices, of the
// longest in a slice.

// delays are how long the world took to stop, in seconds.
type delays struct {
	Stops   uint64
	Longest float64
	Typical float64 // the median of the slices' longest
}

// stopLoads are what runs while the world is stopped. They end when told to.
var stopLoads = []struct {
	name string
	run  func(enough *atomic.Bool) error
}{
	{"baseline", plainAtomics},
	{"assembly", assembly},
	{"pool", restlessPool},
}

func TestAssemblyHardlyDelaysAStopOfTheWorld(t *testing.T) {
	claim.That(t, "heist hardly delays a stop of the world",
		"runtime/metrics while the world is stopped again and again: goroutines with sync/atomic, the deque's assembly and pauses, and a pool whose workers park and wake, in turn")
	var byLoad map[string]delays
	child.Result(t, child.Command(t, "delays", child.For(2*duration())), &byLoad)
	baseline := byLoad["baseline"]
	for _, l := range stopLoads {
		require.NotZero(t, byLoad[l.name].Stops, l.name)
	}
	assembly, pool := byLoad["assembly"], byLoad["pool"]
	claim.Amount(t, "%s stops; longest stop in a slice: assembly %s, pool %s, baseline %s, so %s and %s over the baseline; longest of all: %s, %s, %s",
		claim.Count(baseline.Stops+assembly.Stops+pool.Stops),
		microseconds(assembly.Typical), microseconds(pool.Typical), microseconds(baseline.Typical),
		microseconds(assembly.Typical-baseline.Typical), microseconds(pool.Typical-baseline.Typical),
		microseconds(assembly.Longest), microseconds(pool.Longest), microseconds(baseline.Longest))
}

// measureDelays runs the loads in turn, so that all see the same of what else happens on the
// machine, and in a random order, for what ran before matters: in a fixed one the baseline itself
// took 29 us as the first load and 57 as the second.
func measureDelays() error {
	d, err := child.Duration()
	if err != nil {
		return err
	}
	measured := make([][]histogram, len(stopLoads))
	const slice = 32 // stops, of which the collector makes two
	for begin := time.Now(); time.Since(begin) < d; {
		for _, i := range rand.Perm(len(stopLoads)) {
			l := stopLoads[i]
			var enough atomic.Bool
			var failed error
			var running sync.WaitGroup
			running.Go(func() { failed = l.run(&enough) })
			before := stoppingDelays()
			runtime.GC()
			for range slice - 2 {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
			}
			after := stoppingDelays()
			enough.Store(true)
			running.Wait()
			if failed != nil {
				return failed
			}
			measured[i] = append(measured[i], after.since(before))
		}
	}
	byLoad := make(map[string]delays)
	for i, l := range stopLoads {
		byLoad[l.name] = summary(measured[i])
	}
	return child.Tell(byLoad)
}

// summary sums up what was measured in slices.
func summary(ofSlices []histogram) (d delays) {
	var longest []float64
	for _, h := range ofSlices {
		if n := h.total(); n > 0 {
			d.Stops += n
			longest = append(longest, h.longest())
		}
	}
	if len(longest) > 0 {
		slices.Sort(longest)
		d.Longest, d.Typical = longest[len(longest)-1], longest[len(longest)/2]
	}
	return d
}

// histogram counts delays by the buckets of runtime/metrics.
type histogram struct {
	counts  []uint64
	buckets []float64 // their borders, in seconds
}

// stoppingDelays returns all delays since the process began.
func stoppingDelays() histogram {
	samples := []metrics.Sample{
		{Name: "/sched/pauses/stopping/gc:seconds"},
		{Name: "/sched/pauses/stopping/other:seconds"},
	}
	metrics.Read(samples)
	var sum histogram
	for _, s := range samples {
		h := s.Value.Float64Histogram()
		sum.buckets = h.Buckets // the same for all times
		if sum.counts == nil {
			sum.counts = make([]uint64, len(h.Counts))
		}
		for i, n := range h.Counts {
			sum.counts[i] += n
		}
	}
	return sum
}

// since returns the delays that are new since an earlier histogram.
func (h histogram) since(before histogram) histogram {
	news := histogram{slices.Clone(h.counts), h.buckets}
	for i := range news.counts {
		news.counts[i] -= before.counts[i]
	}
	return news
}

func (h histogram) total() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// longest returns the least time that no delay exceeds, as far as the buckets tell.
func (h histogram) longest() float64 {
	last := len(h.counts) - 1
	for last > 0 && h.counts[last] == 0 {
		last--
	}
	if upper := h.buckets[last+1]; !math.IsInf(upper, 1) {
		return upper
	}
	return h.buckets[last]
}

func TestTheTypicalLongestDelayIsTheMedianOfTheSlices(t *testing.T) {
	buckets := []float64{0, 1, 2, 3, 4, math.Inf(1)}
	slice := func(counts ...uint64) histogram { return histogram{counts, buckets} }
	require.Equal(t, delays{}, summary([]histogram{slice(0, 0, 0, 0, 0)}))
	require.Equal(t, delays{Stops: 26, Longest: 4, Typical: 2}, summary([]histogram{
		slice(9, 1, 0, 0, 0),
		slice(0, 0, 0, 0, 1), // the last bucket has no upper border
		slice(4, 0, 0, 0, 0),
		slice(0, 0, 0, 0, 0),
		slice(5, 4, 0, 0, 0).since(slice(1, 0, 0, 0, 0)),
		slice(2, 1, 0, 0, 0),
	}))
}

// onOtherPs runs f in as many goroutines as there are Ps but one, and in one at least.
func onOtherPs(f func(who int)) {
	var running sync.WaitGroup
	for who := range otherPs() {
		running.Go(func() { f(who) })
	}
	running.Wait()
}

func otherPs() int { return max(1, runtime.GOMAXPROCS(0)-1) }

// plainAtomics does to three words what a deque does to its own.
func plainAtomics(enough *atomic.Bool) error {
	var top, bottom, slot atomic.Int64
	onOtherPs(func(who int) {
		for !enough.Load() {
			if who == 0 {
				slot.Store(1)
				bottom.Store(bottom.Load() + 1)
			}
			if t := top.Load(); t < bottom.Load() && slot.Load() == 1 {
				top.CompareAndSwap(t, t+1)
			}
		}
	})
	return nil
}

// assembly has an owner, and thieves if there are Ps for them, hammer a deque, and pause in
// between for longer than a single pause in assembly takes.
func assembly(enough *atomic.Bool) error {
	d, err := heist.NewDeque[int](heist.DequeConfig{})
	if err != nil {
		return err
	}
	onOtherPs(func(who int) {
		item := new(int)
		for turn := 1; !enough.Load(); turn++ {
			if who == 0 {
				d.Push(item)
				d.Push(item)
				d.Pop()
			}
			d.Steal()
			if turn%100 == 0 {
				heist.Pause(1000)
			}
		}
	})
	return nil
}

// restlessPool has the workers search, yield, sleep and wake each other.
func restlessPool(enough *atomic.Bool) error {
	p, err := pool.New(pool.WithWorkers(otherPs()))
	if err != nil {
		return err
	}
	for !enough.Load() && err == nil {
		over := make(chan struct{})
		if err = p.Go(func(w *pool.Worker) {
			w.Do(spin, spin)
			close(over)
		}); err == nil {
			<-over
		}
	}
	return errors.Join(err, p.Close())
}

func spin(*pool.Worker) { heist.Spin(5 * time.Microsecond) }
