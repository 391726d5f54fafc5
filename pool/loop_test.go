package pool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

// granularities has an entry for each way to divide a loop.
func granularities() map[string][]Granularity {
	return map[string][]Granularity{
		"default":   nil,
		"lazy":      {Granularity{}},
		"grain 1":   {Grain(1)},
		"grain 7":   {Grain(7)},
		"grain max": {Grain(math.MaxInt)},
		"adaptive":  {new(AdaptiveGrain).Granularity()},
		"from end":  {Granularity{}.FromEnd()},
		"backwards": {Grain(7).FromEnd()},
	}
}

// loopKind is one of the functions that run a loop. It calls f for every item.
type loopKind struct {
	name string
	run  func(at Place, n int, f func(i int), g ...Granularity) error
}

var loopKinds = []loopKind{
	{"For", For},
	{"ForRange", func(at Place, n int, f func(i int), g ...Granularity) error {
		return ForRange(at, n, func(lo, hi int) {
			if lo > hi { // for empty ones see TestNoRangeIsEmpty
				panic(fmt.Sprintf("ForRange was given the range [%d, %d)", lo, hi))
			}
			for i := lo; i < hi; i++ {
				f(i)
			}
		}, g...)
	}},
	{"ForWorker", func(at Place, n int, f func(i int), g ...Granularity) error {
		return ForRange(at, n, func(w *Worker, lo, hi int) {
			if lo > hi { // for empty ones see TestNoRangeIsEmpty
				panic(fmt.Sprintf("ForWorker was given the range [%d, %d)", lo, hi))
			}
			for i := lo; i < hi; i++ {
				f(i)
			}
		}, g...)
	}},
}

// once says what is wrong if not every entry of the tally is 1.
func (c tally) once() error {
	for i := range c {
		if n := c[i].Load(); n != 1 {
			return fmt.Errorf("item %d of %d ran %d times", i, len(c), n)
		}
	}
	return nil
}

// work spins for some nanoseconds.
func work(n int) {
	x := uint(n)
	for i := range n {
		x = x*31 + uint(i)
	}
	if x == 1<<31-1 {
		worked.Add(1)
	}
}

var worked atomic.Int64 // the compiler must not see that the result is unused

func TestLoopsRunEachItemOnce(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for _, kind := range loopKinds {
			for name, g := range granularities() {
				ns := []int{0, 1, 2, 3, 10, 255, 256, 257, 511, 512, 513, 5000}
				if !testutil.Short() {
					ns = append(ns, 100_000)
				}
				for _, n := range ns {
					ran := make(tally, n)
					require.NoError(t, kind.run(p, n, func(i int) { ran[i].Add(1) }, g...), "%s, %s", kind.name, name)
					require.NoError(t, ran.once(), "%s, %s", kind.name, name)
				}
				// Items that take long enough for the others to come.
				ran := make(tally, 300)
				require.NoError(t, kind.run(p, len(ran), func(i int) { ran[i].Add(1); work(1000) }, g...))
				require.NoError(t, ran.once(), "%s, %s, long", kind.name, name)
			}
		}
	})
}

// inPlaces are the situations from which a loop can be called. Each calls f once.
var inPlaces = map[string]func(p *Pool, f func(at Place) error) error{
	"outside": func(p *Pool, f func(at Place) error) error { return f(p) },
	"context": func(p *Pool, f func(at Place) error) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		return f(p.With(ctx))
	},
	"guest": func(p *Pool, f func(at Place) error) (err error) {
		return errors.Join(p.Run(func(w *Worker) { err = f(w) }), err)
	},
	"guest in a guest": func(p *Pool, f func(at Place) error) (err error) {
		return errors.Join(p.Run(func(w *Worker) { err = f(p) }), err)
	},
	"task": func(p *Pool, f func(at Place) error) error {
		g := newGroup(p)
		g.GoWorker(func(w *Worker) error { return f(w) })
		return g.Wait()
	},
	"guest in a task": func(p *Pool, f func(at Place) error) error {
		g := newGroup(p)
		g.GoWorker(func(w *Worker) error { return f(p) })
		return g.Wait()
	},
	"fork": func(p *Pool, f func(at Place) error) (err error) {
		return errors.Join(p.Run(func(w *Worker) {
			_, err = Join(w, fib, 8, func(w *Worker, _ int) error { return f(w) }, 0)
		}), err)
	},
	"scope": func(p *Pool, f func(at Place) error) (err error) {
		return errors.Join(p.Run(func(w *Worker) {
			w.Scope(func(s *Scope) { s.Go(w, func(w *Worker) { err = f(w) }) })
		}), err)
	},
	"recursion": func(p *Pool, f func(at Place) error) error {
		r := Recursive(func(k *Fork[int, error], n int) error {
			switch {
			case n < 0:
				return nil
			case n == 0:
				return f(k.Worker())
			}
			return errors.Join(k.Join(n-1, -1))
		})
		err, failed := r.Run(p, 10)
		return errors.Join(err, failed)
	},
	"loop": func(p *Pool, f func(at Place) error) error {
		err := errors.New("never called")
		return errors.Join(ForRange(p, 50, func(w *Worker, lo, hi int) {
			if lo <= 25 && 25 < hi {
				err = f(w)
			}
		}), err)
	},
}

func TestLoopsRunEachItemOnceWhereverTheyAreCalled(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := newPool(t, WithWorkers(workers))
		for place, in := range inPlaces {
			for name, g := range granularities() {
				for _, kind := range loopKinds {
					for range testutil.Stress(20) {
						require.NoError(t, in(p, func(at Place) error {
							ran := make(tally, 700)
							err := kind.run(at, len(ran), func(i int) { ran[i].Add(1); work(i % 64) }, g...)
							return errors.Join(err, ran.once())
						}), "%s, %s, %s", place, name, kind.name)
					}
				}
			}
		}
	}
}

func TestLoopsInsideLoops(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		const a, b, c = 6, 17, 40
		for name, g := range granularities() {
			for range testutil.Stress(10) {
				ran := make(tally, a*b*c)
				require.NoError(t, ForRange(p, a, func(w *Worker, lo, hi int) {
					for i := lo; i < hi; i++ {
						err := ForRange(w, b, func(w *Worker, lo, hi int) {
							for j := lo; j < hi; j++ {
								err := For(w, c, func(k int) { ran[(i*b+j)*c+k].Add(1); work(50) }, g...)
								assert.NoError(t, err)
							}
						}, g...)
						assert.NoError(t, err)
					}
				}, g...), name)
				require.NoError(t, ran.once(), name)
			}
		}
	})
}

func TestLoopBodiesForkAndWait(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		var sum atomic.Int64
		const n = 60
		require.NoError(t, ForRange(p, n, func(w *Worker, lo, hi int) {
			for i := lo; i < hi; i++ {
				sum.Add(int64(fib(w, 10)))
				w.Do(func(*Worker) { sum.Add(1) }, func(*Worker) { sum.Add(1) })
				w.Scope(func(s *Scope) { s.Go(w, func(*Worker) { sum.Add(1) }) })
				g := newGroup(p)
				g.Go(func() error { sum.Add(1); return nil })
				assert.NoError(t, g.Wait())
				assert.NoError(t, p.Run(func(w *Worker) { sum.Add(int64(fib(w, 5))) }))
			}
		}))
		require.EqualValues(t, n*(serialFib(10)+serialFib(5)+4), sum.Load())
	})
}

func TestManyLoopsAtOnce(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	testutil.Together(20, func(int) { // more than there are guest slots
		for range testutil.Stress(50) {
			ran := make(tally, 600)
			assert.NoError(t, For(p, len(ran), func(i int) { ran[i].Add(1); work(100) }))
			assert.NoError(t, ran.once())
		}
	})()
}

func TestLoopsRefuseWhatTheyCannotDo(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	shut, err := New(WithWorkers(1))
	require.NoError(t, err)
	require.NoError(t, shut.Close())
	never := func(int) { t.Error("an item ran") }
	for _, kind := range loopKinds {
		require.EqualError(t, kind.run(p, -1, never), "pool: a loop was given -1 items; it must be 0 or more", kind.name)
		for _, n := range []int{0, 5, 10_000} {
			require.EqualError(t, kind.run(p, n, never, Granularity{}, Grain(1)), "pool: a loop was given more than one granularity", kind.name)
			require.ErrorIs(t, kind.run(nil, n, never), errNoPlace, kind.name)
			require.ErrorIs(t, kind.run(shut, n, never), ErrClosed, kind.name)
			require.ErrorIs(t, kind.run(shut, n, never, Grain(3)), ErrClosed, kind.name)
			require.ErrorIs(t, kind.run(shut.With(context.Background()), n, never), ErrClosed, kind.name)
		}
	}
	require.EqualError(t, ForBody[interface {
		Run(lo, hi int)
		Func() any
	}](p, 1, nil), "pool: ForBody was given a nil body")
	require.EqualError(t, ForRange[func(lo, hi int)](p, 1, nil), "pool: ForRange was given a nil function")
	require.EqualError(t, ForRange[func(w *Worker, lo, hi int)](p, 1, nil), "pool: ForRange was given a nil function")
	for _, n := range []int{0, -1, math.MinInt} {
		require.PanicsWithError(t, fmt.Sprintf("pool: Grain was given %d; it must be at least 1", n), func() { Grain(n) })
	}
}

// TestNoRangeIsEmpty is for a former bug: if a loop had one item that took long, the probe asked it for "some
// more".
func TestNoRangeIsEmpty(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for n := 1; n < 10; n++ {
		require.NoError(t, ForRange(p, n, func(lo, hi int) {
			assert.Less(t, lo, hi, "a range of a loop over %d", n)
			work(100_000)
		}))
	}
}

// TestEmptyLoopsCallNothing is about bodies that get ranges: an empty one is a surprise.
func TestEmptyLoopsCallNothing(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for name, g := range granularities() {
		for place, in := range inPlaces {
			require.NoError(t, in(p, func(at Place) error {
				return errors.Join(
					For(at, 0, func(int) { t.Errorf("For, %s, %s", name, place) }, g...),
					ForRange(at, 0, func(lo, hi int) { t.Errorf("ForRange, %s, %s", name, place) }, g...),
					ForRange(at, 0, func(_ *Worker, lo, hi int) { t.Errorf("ForWorker, %s, %s", name, place) }, g...))
			}))
		}
	}
}

// TestRangesAreAsLongAsTheGrain, but for the last one. (On several nodes, but for the last one of each piece.)
func TestRangesAreAsLongAsTheGrain(t *testing.T) {
	onMachine(t, pretended(1, 4))
	p := newPool(t, WithWorkers(4))
	for _, grain := range []int{1, 2, 7, 100, 1000} {
		for _, n := range []int{1, 2, 255, 256, 257, 1000, 4096} {
			var items atomic.Int64
			check := func(lo, hi int) {
				items.Add(int64(hi - lo))
				assert.Zero(t, lo%grain)
				assert.Equal(t, min(lo+grain, n), hi)
			}
			require.NoError(t, ForRange(p, n, check, Grain(grain)))
			require.NoError(t, ForRange(p, n, func(_ *Worker, lo, hi int) { check(lo, hi) }, Grain(grain)))
			require.EqualValues(t, 2*n, items.Load())
		}
	}
}

// TestLazySplitsForNobody: if the pool is not hungry, a loop is not divided.
func TestLazySplitsForNobody(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for _, kind := range []string{"ForRange", "ForWorker"} {
		for _, cost := range []int{0, 10, 10_000} {
			requireAtRest(t, p)
			n, next := 1000, 0
			f := func(lo, hi int) {
				require.Equal(t, next, lo, "%s: out of order", kind)
				require.Greater(t, hi, lo)
				next = hi
				work(cost * (hi - lo))
			}
			if kind == "ForRange" {
				require.NoError(t, ForRange(p, n, f))
			} else {
				require.NoError(t, ForRange(p, n, func(_ *Worker, lo, hi int) { f(lo, hi) }))
			}
			require.Equal(t, n, next)
		}
	}
}

func TestShortLoopLeavesTheOthersAsleep(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	requireAtRest(t, p)
	s := make([]int, 16)
	tried := 0
	elements, ranges := func(i int) { s[i]++ }, func(lo, hi int) { s[lo]++ }
	for range 200 {
		requireAtRest(t, p)
		known := p.lengths.of(codeOf(elements)) == short && p.lengths.of(codeOf(ranges)) == short
		state, before := p.core.Sleep.Load(), p.Stats().Total()
		start := heist.Ticks()
		require.NoError(t, For(p, len(s), elements))
		require.NoError(t, ForRange(p, len(s), ranges))
		if !known || heist.Ticks()-start >= p.ticks.loop.Alone/probeTime {
			continue // the first loop of a function wakes a worker; the system interrupted it, or is an emulator
		}
		tried++
		after := p.Stats().Total()
		require.Equal(t, state, p.core.Sleep.Load())
		require.Equal(t, before.Parks, after.Parks)
		require.Equal(t, before.Looks, after.Looks)
	}
	if tried == 0 {
		t.Skip("no loop was short here")
	}
}

// meet is for bodies of loops: it sees whether two different workers were in it.
type meet struct {
	first atomic.Int64 // 1 + the first one's ID
	met   atomic.Bool
}

// patientItems is how many lingering items take as long as testutil.Patience.
const patientItems = int(testutil.Patience / time.Millisecond)

// linger takes a while, unless two have met already. A body must not wait for another worker, because that
// comes only between two chunks.
func (m *meet) linger(id int) {
	if !m.first.CompareAndSwap(0, int64(id)+1) && m.first.Load() != int64(id)+1 {
		m.met.Store(true)
	}
	for begin := time.Now(); !m.met.Load() && time.Since(begin) < time.Millisecond; runtime.Gosched() {
	}
}

// here is linger for a body that has no worker.
func (m *meet) here() { m.linger(int(goroutineID())) }

func (m *meet) result() error {
	if !m.met.Load() {
		return errors.New("nobody came")
	}
	return nil
}

func TestLongLoopWakesTheOthers(t *testing.T) {
	for _, workers := range []int{2, 4} {
		p := newPool(t, WithWorkers(workers))
		for place, in := range inPlaces {
			if strings.HasPrefix(place, "guest in") {
				continue // it counts twice, so a pool of 2 has no worker left
			}
			for range testutil.Stress(20) {
				require.NoError(t, in(p, func(at Place) error {
					var m meet
					err := ForRange(at, patientItems, func(w *Worker, lo, hi int) {
						for range hi - lo {
							m.linger(w.ID())
						}
					})
					return errors.Join(err, m.result())
				}), place)
			}
		}
	}
}

// TestLoopOfLongItemsIsShared has a body without a worker, and so a probe, which must not mistake the items
// for short ones.
func TestLoopOfLongItemsIsShared(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(5) {
		requireAtRest(t, p)
		var m meet
		require.NoError(t, For(p, patientItems, func(int) { m.here() }))
		require.NoError(t, m.result())
	}
}

// TestLoopThatBeginsCheaplyIsShared is for a former bug: the probe took a loop whose first 256th costs nothing
// for a short one, and then ran all of it alone, however long it took. The rows of a triangle begin like that.
func TestLoopThatBeginsCheaplyIsShared(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range 10 {
		requireAtRest(t, p)
		var m meet
		begin := time.Now()
		require.NoError(t, For(p, 200, func(i int) {
			if i > 1 { // the first two items are empty
				m.here()
			}
		}))
		require.NoError(t, m.result(), "after %v of work beside a sleeping pool", time.Since(begin))
	}
}

// TestTriangularLoopIsShared counts how much each worker does of a loop whose items cost more and more. It
// says nothing about time: each of the two must have done a part, and if the system gives one of them no CPU,
// the test tries again.
func TestTriangularLoopIsShared(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for name, item := range map[string]func(i, n int) int{
		"up":   func(i, n int) int { return i },
		"down": func(i, n int) int { return n - i },
	} {
		const n, cost = 2000, 20
		shared := testutil.Eventually(func() bool {
			requireAtRest(t, p)
			done := make([]int, 64*p.Slots()) // per worker, on lines of their own
			require.NoError(t, ForRange(p, n, func(w *Worker, lo, hi int) {
				for i := lo; i < hi; i++ {
					work(cost * item(i, n))
					done[64*w.ID()] += item(i, n)
				}
			}))
			total, most := 0, 0
			for _, d := range done {
				total, most = total+d, max(most, d)
			}
			require.Equal(t, true, total >= n*(n-1)/2)
			return most < total*9/10
		})
		require.True(t, shared, "%s: one worker did nine tenths", name)
	}
}

func TestAdaptiveGrainMovesWithTheThefts(t *testing.T) {
	a := new(AdaptiveGrain)
	require.Equal(t, 1000, a.Grain())
	for _, c := range []struct{ grain, chunks, stolen, want int64 }{
		{1000, 100, 11, 750},
		{1000, 100, 10, 1000}, // a tenth is not more than a tenth
		{1000, 100, 5, 1000},
		{1000, 100, 1, 1000}, // nor a hundredth less than a hundredth
		{1000, 1000, 9, 1333},
		{1000, 100, 0, 1333},
		{1000, 1, 1, 750},
		{100, 1, 1, 100},
		{101, 1, 1, 100},
		{133, 1, 1, 100},
		{134, 1, 1, 100},
		{90_000, 1, 0, 100_000},
		{100_000, 1, 0, 100_000},
		{500, 0, 0, 500}, // nothing is known
	} {
		a.grain.Store(c.grain)
		a.move(c.chunks, c.stolen)
		require.EqualValues(t, c.want, a.Grain(), "%+v", c)
	}
}

func TestAdaptiveGrainLearnsFromLoops(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	requireAtRest(t, p)
	a := new(AdaptiveGrain)
	g := a.Granularity()
	require.NoError(t, ForRange(p, 5000, func(lo, hi int) { require.LessOrEqual(t, hi-lo, 1000) }, g))
	require.Equal(t, 1333, a.Grain(), "nobody steals in a pool of one, so chunks may be longer")
	for range 30 {
		require.NoError(t, For(p, 5000, func(int) {}, a.Granularity()))
	}
	require.Equal(t, 100_000, a.Grain())

	// Nothing is learned from loops that did not end well.
	require.Panics(t, func() { _ = For(p, 5000, func(int) { panic("boom") }, a.Granularity()) })
	require.Equal(t, 100_000, a.Grain())

	// Many steals: each chunk is waited for by another one.
	q := newPool(t, WithWorkers(2))
	shrunk := testutil.Eventually(func() bool {
		b := new(AdaptiveGrain)
		var m meet
		require.NoError(t, ForRange(q, 4000, func(w *Worker, lo, hi int) { m.linger(w.ID()) }, b.Granularity()))
		return b.Grain() == 750
	})
	require.True(t, shrunk)
}

func TestAdaptiveGrainIsSharedByGoroutines(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	a := new(AdaptiveGrain)
	testutil.Together(4, func(int) {
		for range testutil.Stress(200) {
			ran := make(tally, 2500)
			assert.NoError(t, For(p, len(ran), func(i int) { ran[i].Add(1) }, a.Granularity()))
			assert.NoError(t, ran.once())
			g := a.Grain()
			assert.True(t, leastGrain <= g && g <= mostGrain, g)
		}
	})()
}

// panicsAt is a loop over n items whose body panics at one of them. It checks the promises: the panic arrives,
// no body runs when it does, and none starts afterwards.
func panicsAt(at Place, n, where int, kind loopKind, g []Granularity) error {
	var running, ran atomic.Int64
	var over atomic.Bool
	v := testutil.Caught(func() {
		_ = kind.run(at, n, func(i int) {
			running.Add(1)
			defer running.Add(-1)
			if over.Load() {
				panic("a body began after the loop's end")
			}
			ran.Add(1)
			if i == where {
				panic("boom")
			}
			work(200)
		}, g...)
	})
	left := running.Load()
	over.Store(true)
	if e, ok := v.(*PanicError); ok {
		v = e.Value
	}
	switch {
	case v != "boom":
		return fmt.Errorf("the panic did not arrive, but %v", v)
	case left != 0:
		return fmt.Errorf("%d bodies still ran when the panic arrived", left)
	case ran.Load() > int64(n):
		return fmt.Errorf("%d items of %d ran", ran.Load(), n)
	}
	return nil
}

func TestPanicInALoopArrivesWhenNoBodyRuns(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		const n = 600
		for place, in := range inPlaces {
			for name, g := range granularities() {
				for _, kind := range loopKinds {
					if testutil.Short() && (len(place)+len(name)+len(kind.name))%3 != 0 {
						continue
					}
					for _, where := range []int{0, 1, 2, 5, n / 2, n - 1} {
						err := in(p, func(at Place) error { return panicsAt(at, n, where, kind, g) })
						require.NoError(t, err, "%s, %s, %s, item %d", place, name, kind.name, where)
					}
				}
			}
		}
	})
}

// TestPanicInAStolenPartStopsTheOthers has the panic happen on another worker for
// certain, early in a loop that would take minutes.
func TestPanicInAStolenPartStopsTheOthers(t *testing.T) {
	for _, g := range [][]Granularity{nil, {Grain(1)}} {
		p := newPool(t, WithWorkers(4))
		for range testutil.Stress(20) {
			var ran atomic.Int64
			var e *PanicError
			var caller int
			require.NoError(t, p.Run(func(w *Worker) {
				caller = w.ID()
				v := testutil.Caught(func() {
					_ = ForRange(w, 1_000_000, func(w *Worker, lo, hi int) {
						if w.ID() != caller {
							explode("boom")
						}
						ran.Add(int64(hi - lo))
						time.Sleep(50 * time.Microsecond)
					}, g...)
				})
				e, _ = v.(*PanicError)
			}))
			require.NotNil(t, e)
			require.Equal(t, "boom", e.Value)
			require.Contains(t, string(e.Stack), "explode")
			require.Less(t, ran.Load(), int64(1_000_000))
			requireAtRest(t, p)
		}
	}
}

func TestPanicInALoopCanBeRecoveredInABody(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for range testutil.Stress(20) {
		var caughtPanics, ran atomic.Int64
		require.NoError(t, ForRange(p, 40, func(w *Worker, lo, hi int) {
			for i := lo; i < hi; i++ {
				if testutil.Caught(func() {
					_ = For(w, 300, func(j int) {
						if j == 7*i {
							panic(i)
						}
						work(50)
					})
				}) != nil {
					caughtPanics.Add(1)
				}
				assert.NoError(t, For(w, 30, func(int) { ran.Add(1) }))
			}
		}))
		require.EqualValues(t, 40, caughtPanics.Load())
		require.EqualValues(t, 40*30, ran.Load())
	}
}

// TestGoexitInALoopEndsTheCaller and leaves the pool as it was.
func TestGoexitInALoopEndsTheCaller(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := newPool(t, WithWorkers(workers))
		for _, kind := range loopKinds {
			for name, g := range granularities() {
				for _, where := range []int{0, 3, 300, 599} {
					var running atomic.Int64
					returnedNormally := false
					require.True(t, testutil.Returns(func() {
						_ = kind.run(p, 600, func(i int) {
							running.Add(1)
							defer running.Add(-1)
							if i == where {
								runtime.Goexit()
							}
							work(100)
						}, g...)
						returnedNormally = true
					}), "%s, %s: hangs", kind.name, name)
					require.False(t, returnedNormally, "%s, %s, item %d", kind.name, name, where)
					require.Zero(t, running.Load())
				}
			}
		}
		ran := make(tally, 1000)
		require.NoError(t, For(p, len(ran), func(i int) { ran[i].Add(1) }))
		require.NoError(t, ran.once())
	}
}

var errStolen = errors.New("the loot was stolen")

// canceller cancels a call when its function runs for the after-th time. From then on no call of tick returns
// before the pool knows of the cancellation. Otherwise the other workers could finish the loop meanwhile.
type canceller struct {
	pool   *Pool
	after  int64
	cancel context.CancelCauseFunc
	atomic.Int64
	once sync.Once
}

func (c *canceller) tick() {
	if c.Add(1) >= c.after {
		c.once.Do(func() {
			c.cancel(errStolen)
			seesCancellation(c.pool)
		})
	}
}

// seesCancellation waits until a call has been cancelled.
func seesCancellation(p *Pool) bool {
	return testutil.Eventually(func() bool { return cancelledCalls(p) > 0 })
}

func TestCancelledLoopLeavesItemsOut(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := newPool(t, WithWorkers(workers))
		for _, kind := range loopKinds {
			for name, g := range granularities() {
				if name == "grain max" {
					continue // one chunk
				}
				for range testutil.Stress(4) {
					ctx, cancel := context.WithCancelCause(context.Background())
					const n = 20_000
					ran := canceller{pool: p, after: 1000, cancel: cancel}
					err := kind.run(p.With(ctx), n, func(i int) {
						ran.tick()
						work(1000)
					}, g...)
					require.ErrorIs(t, err, errStolen, "%s, %s", kind.name, name)
					require.Less(t, ran.Load(), int64(n), "%s, %s", kind.name, name)
					requireAtRest(t, p)
				}
			}
		}
		ran := make(tally, 1000)
		require.NoError(t, For(p, len(ran), func(i int) { ran[i].Add(1) }))
		require.NoError(t, ran.once())
	}
}

// TestCancelledLoopStopsInItsProbe is for a former bug: the first 128th of a loop was run without a look at
// the context, however long it took.
func TestCancelledLoopStopsInItsProbe(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancelCause(context.Background())
	const n = 10_000_000
	var ran atomic.Int64
	err := For(p.With(ctx), n, func(i int) {
		if ran.Add(1) == 1 {
			cancel(errStolen)
		}
		work(20)
	})
	require.ErrorIs(t, err, errStolen)
	require.Less(t, ran.Load(), int64(n/1000), "items after the first one, at which the loop was cancelled")
}

// TestProbeLeavesWhatTakesLong to the loop that it returns a granularity for, and each item to one of the two.
func TestProbeLeavesWhatTakesLong(t *testing.T) {
	for _, options := range [][]Option{nil, {WithCallers(1)}} {
		p := newPool(t, append(options, WithWorkers(2))...)
		for _, took := range []int{0, 20, 100_000} {
			for _, n := range []int{0, 1, 100, 10_000} {
				if took*n > 10_000_000 {
					continue
				}
				ran := make(tally, n)
				done, others, err := Granularity{}.Probe(p, n, nil, func(lo, hi int) (more bool) {
					for i := lo; i < hi; i++ {
						work(took)
						ran[i].Add(1)
					}
					return true
				})
				require.NoError(t, err)
				require.NoError(t, For(p, n-done, func(i int) { ran[done+i].Add(1) }, others))
				require.NoError(t, ran.once())
				require.False(t, took*n > 1_000_000 && done == n, "%d items of %d ns", n, took)
			}
		}
		done, _, err := Granularity{}.Probe(p, 10, nil, func(lo, hi int) (more bool) { return false })
		require.NoError(t, err)
		require.True(t, done == 10 || len(options) > 0 && done == 0)
		_, _, err = Granularity{}.Probe(p, 10, nil, nil)
		require.EqualError(t, err, "pool: Granularity.Probe was given a nil function")
		_, _, err = Granularity{}.Probe(nil, 10, nil, func(int, int) bool { return true })
		require.Error(t, err)
	}
}

func TestLoopThatWasCancelledBeforeRunsNothing(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errStolen)
	gone, cancel2 := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel2()
	never := func(int) { t.Error("an item ran") }
	for _, kind := range loopKinds {
		for name, g := range granularities() {
			for _, n := range []int{0, 1, 1000} {
				require.ErrorIs(t, kind.run(p.With(ctx), n, never, g...), errStolen, "%s, %s", kind.name, name)
				require.ErrorIs(t, kind.run(p.With(gone), n, never, g...), context.DeadlineExceeded)
				require.NoError(t, p.Run(func(w *Worker) {
					require.ErrorIs(t, kind.run(w.With(ctx), n, never, g...), errStolen)
				}))
			}
		}
	}
}

func TestLoopEndsAtItsDeadline(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	var ran atomic.Int64
	const n = 10_000_000
	err := For(p.With(ctx), n, func(int) { ran.Add(1); work(1000) }, Grain(10))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, ran.Load(), int64(n))
}

func TestContextThatIsNeverCancelledChangesNothing(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, ctx := range []context.Context{context.Background(), ctx} {
		for range testutil.Stress(50) {
			ran := make(tally, 500)
			require.NoError(t, For(p.With(ctx), len(ran), func(i int) { ran[i].Add(1); work(100) }))
			require.NoError(t, ran.once())
		}
	}
}

// TestCancelledCallEndsTheLoopsInside has a call whose loops do not know its context, nor do the functions
// that their bodies call.
func TestCancelledCallEndsTheLoopsInside(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		p := newPool(t, WithWorkers(workers))
		for name, g := range granularities() {
			if name == "grain max" {
				continue
			}
			for range testutil.Stress(10) {
				ctx, cancel := context.WithCancelCause(context.Background())
				inner, cancelInner := context.WithCancel(context.Background())
				ran := canceller{pool: p, after: 3000, cancel: cancel}
				const n, m = 100, 1000
				after := false
				err := p.With(ctx).Run(func(w *Worker) {
					err := ForRange(w, n, func(w *Worker, lo, hi int) {
						for range hi - lo {
							err := For(w.With(inner), m, func(int) {
								ran.tick()
								work(500)
							}, g...)
							assert.NoError(t, err, "only the outer call was cancelled")
						}
					}, Grain(2))
					after = true
					assert.NoError(t, err)
				})
				require.ErrorIs(t, err, errStolen, name)
				require.False(t, after, "the outer call's function went on")
				require.Less(t, ran.Load(), int64(n*m))
				cancelInner()
				requireAtRest(t, p)
			}
		}
	}
}

func TestCancelledInnerLoopLeavesTheOuterCallAlone(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for range testutil.Stress(5) {
		outer, cancelOuter := context.WithCancel(context.Background())
		var ended, whole atomic.Int64
		require.NoError(t, ForRange(p.With(outer), 20, func(w *Worker, lo, hi int) {
			for range hi - lo {
				inner, cancel := context.WithCancelCause(context.Background())
				err := For(w.With(inner), 1_000_000, func(int) { cancel(errStolen); work(1000) }, Grain(1))
				if assert.ErrorIs(t, err, errStolen) {
					ended.Add(1)
				}
				assert.NoError(t, For(w, 10, func(int) { whole.Add(1) }))
			}
		}))
		require.EqualValues(t, 20, ended.Load())
		require.EqualValues(t, 200, whole.Load())
		cancelOuter()
	}
}

// TestShortLoopsInACancelledCallUnwind is for a former bug: a short loop, which is over with its probe, never
// looked at the call that it is part of.
func TestShortLoopsInACancelledCallUnwind(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx, cancel := context.WithCancelCause(context.Background())
	loops := 0
	err := p.With(ctx).Run(func(w *Worker) {
		cancel(errStolen)
		for ; loops < 10_000; loops++ {
			_ = For(w, 10, func(int) {})
		}
	})
	require.ErrorIs(t, err, errStolen, "after %d loops", loops)
}

// TestCancellationRacesWithTheEnd: whichever comes first, there is either an error or
// every item was run.
func TestCancellationRacesWithTheEnd(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for round := range testutil.Stress(2000) {
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(tally, 64)
		wait := testutil.Together(1, func(int) { work(round % 100 * 100); cancel() })
		err := For(p.With(ctx), len(ran), func(i int) { ran[i].Add(1); work(100) }, Grain(4))
		if err == nil {
			require.NoError(t, ran.once())
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
		wait()
	}
	require.True(t, whenParked(p))
	require.Equal(t, policy.State(p.Workers())*policy.OneSleeper, p.core.Sleep.Load(), "a cancelled call is still counted")
}

func TestShortLoopAllocatesNothing(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	requireAtRest(t, p)
	s := make([]int, 10)
	item := func(i int) { s[i]++ }
	rng := func(lo, hi int) {
		for i := lo; i < hi; i++ {
			s[i]++
		}
	}
	require.Less(t, allocsPerRun(1000, func() { _ = For(p, len(s), item) }), 0.5)
	require.Less(t, allocsPerRun(1000, func() { _ = ForRange(p, len(s), rng) }), 0.5)
}

func TestLongLoopAllocatesLittle(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var sum atomic.Int64
	for name, g := range granularities() {
		allocs := allocsPerRun(5, func() {
			_ = For(p, 50_000, func(int) { sum.Add(1); work(10) }, g...)
		})
		// The loop, and what each of a few steals and waits costs: a slow machine has more of them, but far fewer than the
		// hundreds of chunks.
		require.LessOrEqual(t, allocs, 48+16*float64(len(p.nodes)-1), name)
	}
}

func TestLoopIsForgottenWhenItIsOver(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	loop := func(g ...Granularity) func() {
		l, seen := garbage()
		require.NoError(t, For(p, 1000, func(int) { l.check(); work(100) }, g...))
		return func() { requireAtRest(t, p); requireCollected(t, seen) }
	}
	for _, g := range granularities() {
		loop(g...)()
	}
}

func TestAtMostSoManyWorkersRunALoop(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	const n = 400
	for _, g := range []Granularity{Granularity{}, Grain(3), Chunks(5), new(AdaptiveGrain).Granularity(), new(Affinity).Granularity()} {
		for _, k := range []int{1, 2, 3, 9} {
			var now, most atomic.Int32
			var items atomic.Int64
			require.NoError(t, ForRange(p, n, func(lo, hi int) {
				raise(&most, now.Add(1))
				for range hi - lo {
					work(2000)
				}
				items.Add(int64(hi - lo))
				now.Add(-1)
			}, g.AtMost(k)))
			require.EqualValues(t, n, items.Load())
			require.LessOrEqual(t, int(most.Load()), k)
		}
	}
}

// TestALimitedLoopHasHelp: the workers that may take part do.
func TestALimitedLoopHasHelp(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for _, g := range []Granularity{Granularity{}, Grain(1), Chunks(100)} {
		var m meet
		require.NoError(t, ForRange(p, patientItems, func(w *Worker, lo, hi int) {
			for range hi - lo {
				m.linger(w.ID())
			}
		}, g.AtMost(2)))
		require.NoError(t, m.result())
	}
}

// TestASeatIsFreeAgain when the part for which it was taken has ended.
func TestASeatIsFreeAgain(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for _, g := range []Granularity{Grain(1), Chunks(1000)} {
		var parts atomic.Int64    // how many parts were begun by workers
		var last [64]atomic.Int64 // by worker: where its last range ended
		require.NoError(t, ForRange(p, 1000, func(w *Worker, lo, hi int) {
			switch {
			case w.core.Guest:
				time.Sleep(100 * time.Microsecond) // the others do the rest as soon as they may
			case last[w.ID()].Swap(int64(hi)) != int64(lo):
				parts.Add(1)
			}
		}, g.AtMost(2)))
		require.Greater(t, parts.Load(), int64(1))
	}
}

func raise(most *atomic.Int32, to int32) {
	for old := most.Load(); old < to && !most.CompareAndSwap(old, to); old = most.Load() {
	}
}

func TestChunksDivideEvenly(t *testing.T) {
	p := newPool(t, WithWorkers(3))
	for _, n := range []int{1, 2, 3, 10, 100, 1001, 1 << 16} {
		for _, k := range []int{1, 2, 7, math.MaxInt} {
			calls, longest := make(chan int, n), 0
			require.NoError(t, ForRange(p, n, func(lo, hi int) { calls <- hi - lo }, Chunks(k)))
			close(calls)
			count := len(calls)
			for items := range calls {
				longest = max(longest, items)
			}
			want := min(times(3, k, n), n)
			require.LessOrEqual(t, count, want)
			require.Equal(t, (n-1)/want+1, longest)
		}
	}
}

// TestABodyThatSetsUpIsCalledSeldom: the loop finds out what a call costs besides its items. Without that
// there were 19,880 calls.
func TestABodyThatSetsUpIsCalledSeldom(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	const n = 20_000
	var items atomic.Int64
	var few []int64
	for range 9 {
		var calls atomic.Int64
		require.NoError(t, ForRange(p, n, func(lo, hi int) {
			calls.Add(1)
			heist.Spin(8 * time.Microsecond)
			for range hi - lo {
				heist.Spin(50 * time.Nanosecond)
			}
			items.Add(int64(hi - lo))
		}))
		few = append(few, calls.Load())
	}
	slices.Sort(few)
	require.EqualValues(t, 9*n, items.Load())
	require.Less(t, few[4], int64(500))
	t.Log(few)
}

// TestABodyThatMergesTablesIsCalledSeldom where it says so, and nobody takes a part.
func TestABodyThatMergesTablesIsCalledSeldom(t *testing.T) {
	calls := func(part float64) (calls int) {
		require.NoError(t, ForRange(Serial(), 200_000, func(w *Worker, lo, hi int) {
			calls++
			heist.Spin(time.Duration(hi-lo) * 50 * time.Nanosecond)
			w.Merging(part)
		}))
		return calls
	}
	require.Equal(t, 2, calls(1))
	require.Equal(t, 3, calls(0.1))
	most := 0 // an interrupt looks like a cost of the call
	for range 10 {
		most = max(most, calls(0))
	}
	require.Greater(t, most, 50)
}

// TestALoopFromItsEndGoesBackwards, asleep or in the pool, and Probe as well.
func TestALoopFromItsEndGoesBackwards(t *testing.T) {
	p := Serial() // where nobody takes a part
	const n = 10_000
	for _, how := range []Granularity{Granularity{}.FromEnd(), Grain(7).FromEnd()} {
		for spin := range 2 {
			next := n
			backwards := func(lo, hi int) {
				require.Equal(t, next, hi)
				require.Less(t, lo, hi)
				next = lo
				heist.Spin(time.Duration(spin*(hi-lo)) * 10 * time.Nanosecond)
			}
			require.NoError(t, ForRange(p, n, backwards, how))
			require.Zero(t, next)
			next = n
			done, others, err := how.Probe(p, n, nil, func(lo, hi int) (more bool) { backwards(lo, hi); return true })
			require.NoError(t, err)
			require.Equal(t, n-done, next)
			require.NoError(t, ForRange(p, n-done, backwards, others))
			require.Zero(t, next)
		}
	}
}

// TestALoopSaysNothingOfTheOneAround, however it is divided.
func TestALoopSaysNothingOfTheOneAround(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for _, how := range [][]Granularity{nil, {Grain(1)}} {
		require.NoError(t, p.Run(func(w *Worker) {
			require.NoError(t, ForRange(w, 10, func(w *Worker, _, _ int) { w.Merging(1) }, how...))
			require.Zero(t, w.merging)
		}))
	}
}

// TestALimitAndAnOrderKeepTheRestOfAGranularity, whichever comes first.
func TestALimitAndAnOrderKeepTheRestOfAGranularity(t *testing.T) {
	adaptive, affinity := new(AdaptiveGrain), new(Affinity)
	adaptive.grain.Store(777)
	for _, g := range []struct{ given, want Granularity }{
		{Granularity{}, Granularity{}},
		{Grain(3), Granularity{grain: 3}},
		{Chunks(4), Granularity{share: 4}},
		{adaptive.Granularity(), Granularity{grain: 777, adaptive: adaptive}},
		{affinity.Granularity(), Granularity{affinity: affinity}},
	} {
		require.Equal(t, g.want, g.given)
		limited, ordered := g.want, g.want
		limited.most, ordered.inOrder = 2, true
		require.Equal(t, limited, g.given.AtMost(2))
		require.Equal(t, limited, g.given.AtMost(5).AtMost(2), "the last one counts")
		require.Equal(t, ordered, g.given.InOrder())
		both := limited
		both.inOrder = true
		require.Equal(t, both, g.given.AtMost(2).InOrder())
		require.Equal(t, both, g.given.InOrder().AtMost(2))
		both.fromEnd = true
		require.Equal(t, both, g.given.FromEnd().InOrder().AtMost(2))
	}
}

func TestGranularitiesSayWhatIsWrong(t *testing.T) {
	require.PanicsWithError(t, "pool: Chunks was given 0; it must be at least 1", func() { Chunks(0) })
	require.PanicsWithError(t, "pool: AtMost was given -1; it must be at least 1", func() { Granularity{}.AtMost(-1) })
}

// TestAContextEndsALoopThatRunsAlone, between two looks at the clock.
func TestAContextEndsALoopThatRunsAlone(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	ctx, cancel := context.WithCancel(context.Background())
	ran := 0
	require.ErrorIs(t, For(p.With(ctx), 100, func(int) { cancel(); ran++ }), context.Canceled)
	require.Less(t, ran, 100)
}

func TestLoopsOverAsManyItemsAsThereAre(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for _, n := range []int{math.MaxInt / 5, math.MaxInt / 2, math.MaxInt} {
		var last atomic.Int64
		var wrong atomic.Bool
		ctx, cancel := context.WithCancelCause(context.Background())
		enough := errors.New("enough")
		err := ForRange(p.With(ctx), n, func(lo, hi int) {
			if lo < 0 || hi < lo || hi > n {
				wrong.Store(true)
			}
			if last.Add(1) == 200 {
				cancel(enough)
			}
			work(100)
		})
		require.False(t, wrong.Load(), "%d items", n)
		if err != nil {
			require.ErrorIs(t, err, enough)
		}
		cancel(nil)
	}
	require.Equal(t, 100, times(16, 7, 100))
	require.Equal(t, math.MaxInt, times(16, math.MaxInt/8, math.MaxInt))
}

// TestAPanicStopsThePartsOfOtherThieves, not only the caller's and the one in which it happened.
func TestAPanicStopsThePartsOfOtherThieves(t *testing.T) {
	const n, thieves = 10_000_000, 3
	for _, g := range [][]Granularity{nil, {Grain(1)}} {
		p := newPool(t, WithWorkers(thieves), WithPinning(PinNone))
		for range testutil.Stress(10) {
			var seen sync.Map
			var inside, after atomic.Int64
			var exploded atomic.Bool
			require.NoError(t, p.Run(func(guest *Worker) {
				err, ok := testutil.Caught(func() {
					_ = ForRange(guest, n, func(w *Worker, lo, hi int) {
						if exploded.Load() {
							after.Add(int64(hi - lo))
						}
						work(50 * (hi - lo))
						if w == guest {
							return
						}
						if _, was := seen.LoadOrStore(w, true); !was {
							inside.Add(1)
						}
						if inside.Load() >= 2 && exploded.CompareAndSwap(false, true) {
							explode("boom")
						}
					}, g...)
				}).(*PanicError)
				require.True(t, ok)
				require.Equal(t, "boom", err.Value)
			}))
			require.Less(t, after.Load(), int64(n/10), "others went on")
			requireAtRest(t, p)
		}
	}
}

// TestALoopOverAnyNumberOfItemsEnds if its body does not look at each.
func TestALoopOverAnyNumberOfItemsEnds(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(200) {
		for _, n := range []int{math.MaxInt/2 + 1, math.MaxInt} {
			var done atomic.Int64
			require.NoError(t, ForRange(p, n, func(lo, hi int) { done.Add(int64(hi - lo)) }))
			require.EqualValues(t, n, done.Load())
		}
	}
}

// TestTheRestOfALoopStaysDivisible, however cheap its items were so far: dear ones may follow. If calls may
// have a cost of their own, a chunk is no longer than 32 times the longest chunk before it.
func TestTheRestOfALoopStaysDivisible(t *testing.T) {
	const n = 1 << 20
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Run(func(w *Worker) {
		r := restOf(w, 0, n, probed{}, nil)
		require.NoError(t, r.run(someCode, func(_ *Worker, lo, hi int) {
			if hi-lo > (n-lo)/2+1 {
				t.Errorf("the items from %d on were a single chunk of %d", lo, hi-lo)
			}
		}))
		longest := 1
		require.NoError(t, ForRange(w, n, func(_ *Worker, lo, hi int) {
			if hi-lo > 32*longest {
				t.Errorf("the items from %d on were a single chunk of %d after %d", lo, hi-lo, longest)
			}
			longest = max(longest, hi-lo)
		}))
	}))
}
