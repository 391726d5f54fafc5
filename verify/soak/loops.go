package soak

import (
	"cmp"
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// loopOver is a loop that calls f once for each i from 0 to n-1, n even, and returns the
// sum of (i+1)*f(i).
type loopOver func(at pool.Place, n int, f func(i int) uint64, g pool.Granularity) (uint64, error)

// loops are the loops that call a function once for each item.
var loops = []loopOver{overEach, overCollect, overFor, overForEach, overForRange, overForWorker, overMap, overMapTo, overReduce, overPhases}

func (o *op) loop() uint32 { return o.pick(uint32(len(loops)), whichLoop) }

func overFor(at pool.Place, n int, f func(i int) uint64, g pool.Granularity) (uint64, error) {
	var sum atomic.Uint64
	err := par.For(at, n, func(i int) { sum.Add(uint64(i+1) * f(i)) }, g)
	return sum.Load(), err
}

func overForEach(at pool.Place, n int, f func(i int) uint64, g pool.Granularity) (uint64, error) {
	s := numbers(n)
	err := par.ForEach(at, s, func(e *int) { *e = int(uint64(*e+1) * f(*e)) }, g)
	var sum uint64
	for _, v := range s {
		sum += uint64(v)
	}
	return sum, err
}

func overForRange(at pool.Place, n int, f func(i int) uint64, g pool.Granularity) (uint64, error) {
	values := make([]uint64, n)
	err := pool.ForRange(at, n, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			values[i] = f(i)
		}
	}, g)
	return weigh(values), err
}

func overForWorker(at pool.Place, n int, f func(i int) uint64, g pool.Granularity) (uint64, error) {
	values := make([]uint64, n)
	err := pool.ForRange(at, n, func(w *pool.Worker, lo, hi int) {
		for i := lo; i < hi; i += 2 { // lo need not be even, nor hi
			if i+1 == hi {
				values[i] = f(i)
				break
			}
			values[i], values[i+1] = joined(w,
				func(*pool.Worker) uint64 { return f(i) },
				func(*pool.Worker) uint64 { return f(i + 1) })
		}
	}, g)
	return weigh(values), err
}

func overMap(at pool.Place, n int, f func(i int) uint64, g pool.Granularity) (uint64, error) {
	values, err := par.Map(at, numbers(n), f, g)
	return weigh(values), err
}

func overMapTo(at pool.Place, n int, f func(i int) uint64, g pool.Granularity) (uint64, error) {
	values := make([]uint64, n)
	err := par.MapTo(at, values, numbers(n), f, g)
	return weigh(values), err
}

func overReduce(at pool.Place, n int, f func(i int) uint64, _ pool.Granularity) (uint64, error) {
	return par.Reduce(at, numbers(n), func() uint64 { return 0 },
		func(sum uint64, i int) uint64 { return sum + uint64(i+1)*f(i) },
		func(a, b uint64) uint64 { return a + b })
}

func overEach(at pool.Place, n int, f func(i int) uint64, _ pool.Granularity) (uint64, error) {
	var sum atomic.Uint64
	err := par.ForSeq(at, upTo(n), func(i int) { sum.Add(uint64(i+1) * f(i)) })
	return sum.Load(), err
}

func overCollect(at pool.Place, n int, f func(i int) uint64, _ pool.Granularity) (uint64, error) {
	values, err := par.MapSeq(at, upTo(n), f)
	return weigh(values), err
}

// overPhases has the first half of the items in the first phase. An item of the second phase
// checks that the value of one of the first is there.
func overPhases(at pool.Place, n int, f func(i int) uint64, _ pool.Granularity) (uint64, error) {
	values := make([]uint64, n)
	half := n / 2
	err := par.Phases(at, half, 2, func(phase, lo, hi int) {
		for i := lo; i < hi; i++ {
			v := f(phase*half + i)
			if phase == 1 && values[half-1-i] == 0 {
				v++ // a wrong sum
			}
			values[phase*half+i] = v
		}
	})
	return weigh(values), err
}

func numbers(n int) []int { return slices.Collect(upTo(n)) }

func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

func weigh(values []uint64) (sum uint64) {
	for i, v := range values {
		sum += uint64(i+1) * v
	}
	return sum
}

// affinity and adaptive are shared by all programs, as they would be in a service.
var (
	affinity pool.Affinity
	adaptive pool.AdaptiveGrain
)

func (o *op) granularity() pool.Granularity {
	switch o.pick(5, whichGrain) {
	case 0:
		return pool.Grain(1 + int(o.Way%8))
	case 1:
		return affinity.Granularity()
	case 2:
		return adaptive.Granularity()
	}
	return pool.Granularity{}
}

// loop does the operation's leaves by one of the loops. A leaf may panic, or cancel the loop.
func (r *run) loop(a at, o *op) uint64 {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	place := a.place()
	switch {
	case o.cancels() != never:
		place = a.with(ctx)
	case o.oneIn(3, whichPlace):
		place = a.p
	}
	if o.cancels() == before {
		cancel(errStopped)
	}
	item := func(i int) uint64 {
		v := r.count(at{p: a.p}, o.First+i)
		if i == o.special() && o.Panics {
			panic(boom{o.ID})
		}
		if i == o.special() && o.cancels() == within {
			cancel(errStopped)
		}
		return v
	}
	var value uint64
	return r.valueAfter(&value, r.ask(o, func() (said answer) {
		sum, err := loops[o.loop()](place, o.N, item, o.granularity())
		value = sum
		return r.answerTo(a, o, err)
	}))
}

// compute lets an algorithm compute a result that is easy to compute without it.
func (r *run) compute(a at, o *op) {
	random := rand.New(rand.NewPCG(r.Seed, uint64(o.ID)))
	s := make([]int, random.IntN(3000))
	for i := range s {
		s[i] = random.IntN(1000)
	}
	place := a.place()
	if o.oneIn(3, whichPlace) {
		place = a.p
	}
	r.ask(o, func() answer {
		right, err := algorithms[o.pick(uint32(len(algorithms)), whichLoop)](place, s)
		said := r.answerTo(a, o, err)
		if said == accepted && !right {
			r.fail("operation %d: an algorithm's result is wrong for %d numbers", o.ID, len(s))
		}
		return said
	})
}

// algorithms say whether the pool's results are right.
var algorithms = []func(at pool.Place, s []int) (right bool, err error){
	func(at pool.Place, s []int) (bool, error) {
		want := slices.Sorted(slices.Values(s))
		err := par.Sort(at, s)
		return slices.Equal(s, want), err
	},
	func(at pool.Place, s []int) (bool, error) {
		byTens := func(a, b int) int { return cmp.Compare(a/10, b/10) }
		want := slices.SortedStableFunc(slices.Values(s), byTens)
		err := par.SortFunc(at, s, byTens)
		return slices.Equal(s, want), err
	},
	func(at pool.Place, s []int) (bool, error) {
		out := make([]int, len(s))
		err := par.Scan(at, out, s, func(a, b int) int { return a + b })
		sum := 0
		for i, v := range s {
			if sum += v; out[i] != sum {
				return false, err
			}
		}
		return true, err
	},
	func(at pool.Place, s []int) (bool, error) {
		odd := func(v int) bool { return v%2 == 1 }
		out, err := par.Filter(at, s, odd)
		return slices.Equal(out, slices.DeleteFunc(slices.Clone(s), func(v int) bool { return !odd(v) })), err
	},
	func(at pool.Place, s []int) (bool, error) {
		is := func(v int) bool { return v == 500 }
		i, err := par.Find(at, s, is)
		return i == slices.IndexFunc(s, is), err
	},
	func(at pool.Place, s []int) (bool, error) {
		s = append(s, 500) // MinMax of nothing is an error
		least, most, err := par.MinMax(at, s)
		return least == slices.Min(s) && most == slices.Max(s), err
	},
}
