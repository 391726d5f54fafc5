package pool

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

var forkFib = Recursive(func(f *Fork[int, int], n int) int {
	if n < 2 {
		return n
	}
	x, y := f.Join(n-1, n-2)
	return x + y
})

// step is an argument that says itself what is to be done with it. With it a test can make any tree
// of forks of one recursion.
type step func(f *Fork[step, any]) any

var steps = Recursive(func(f *Fork[step, any], s step) any { return s(f) })

// stolenSteps joins a and b in a recursion; b is stolen for certain.
func stolenSteps(f *Fork[step, any], a, b step) (any, any) {
	begun := make(chan struct{})
	return f.Join(
		func(f *Fork[step, any]) any { <-begun; return a(f) },
		func(f *Fork[step, any]) any { close(begun); return b(f) })
}

func nothing(*Fork[step, any]) any { return nil }

func TestRecursiveIsRightWhoeverRunsIt(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		n := 18
		if testutil.Short() {
			n = 13
		}
		for range 10 {
			got, err := forkFib.Run(p, n)
			require.NoError(t, err)
			require.Equal(t, serialFib(n), got)

			require.NoError(t, p.Run(func(w *Worker) {
				require.Equal(t, serialFib(n), forkFib.Call(w, n))
				got, err := forkFib.Run(w, n)
				require.NoError(t, err)
				require.Equal(t, serialFib(n), got)
			}))

			result := make(chan int)
			require.NoError(t, p.Go(func(w *Worker) { result <- forkFib.Call(w, n) }))
			require.Equal(t, serialFib(n), <-result)
		}
	})
}

func TestRecursiveAllocatesNothing(t *testing.T) {
	for _, workers := range []int{1, 4} {
		p := newPool(t, WithWorkers(workers))
		run := func() { _, _ = forkFib.Run(p, 12) }
		for range 20 {
			run()
		}
		for range 2 * workers {
			testutil.Together(4*guestRosters, func(int) { run() })()
		}
		allowed := 0.1
		if goroutineIDAllocates {
			allowed++
		}
		require.LessOrEqual(t, allocs(p, run), allowed, "%d workers", workers)
	}
}

// TestDeepRecursive goes far beyond the first array of frames.
func TestDeepRecursive(t *testing.T) {
	count := Recursive(func(f *Fork[int, int], n int) int {
		if n == 0 {
			return 1
		}
		x, y := f.Join(n-1, 0)
		return x + y
	})
	depth := 100_000
	if testutil.Short() {
		depth = 20_000
	}
	for _, workers := range []int{1, 4} {
		p := newPool(t, WithWorkers(workers))
		for range 3 {
			got, err := count.Run(p, depth)
			require.NoError(t, err)
			require.Equal(t, depth+1, got)
		}
		requireAtRest(t, p)
	}
}

func TestJoinAllCountsQueens(t *testing.T) {
	type board struct{ row, columns, up, down int }
	const n = 8
	queens := Recursive(func(f *Fork[board, int], b board) int {
		if b.row == n {
			return 1
		}
		var next []board
		for c := range n {
			bit := 1 << c
			if b.columns&bit == 0 && b.up&(1<<(b.row+c)) == 0 && b.down&(1<<(b.row-c+n)) == 0 {
				next = append(next, board{b.row + 1, b.columns | bit, b.up | 1<<(b.row+c), b.down | 1<<(b.row-c+n)})
			}
		}
		counts := make([]int, len(next))
		f.JoinAll(next, counts)
		sum := 0
		for _, k := range counts {
			sum += k
		}
		return sum
	})
	forSizes(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(10) {
			got, err := queens.Run(p, board{})
			require.NoError(t, err)
			require.Equal(t, 92, got)
		}
	})
}

func TestJoinAllKeepsTheOrder(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for _, n := range []int{0, 1, 2, 3, blockLen, 1000} {
			ran := make([]atomic.Int32, n)
			wide := Recursive(func(f *Fork[int, string], i int) string {
				if i >= 0 {
					ran[i].Add(1)
					return strconv.Itoa(i)
				}
				args, results := make([]int, n), make([]string, n)
				for i := range args {
					args[i] = i
				}
				f.JoinAll(args, results)
				for i, s := range results {
					if s != strconv.Itoa(i) {
						return fmt.Sprintf("result %d is %q", i, s)
					}
				}
				return "in order"
			})
			got, err := wide.Run(p, -1)
			require.NoError(t, err)
			require.Equal(t, "in order", got)
			for i := range ran {
				require.EqualValues(t, 1, ran[i].Load(), "argument %d of %d", i, n)
			}
		}
	})
}

// TestJoinAllInPlace has the results replace the arguments.
func TestJoinAllInPlace(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	squares := Recursive(func(f *Fork[int, int], n int) int {
		if n >= 0 {
			return n * n
		}
		s := make([]int, 100)
		for i := range s {
			s[i] = i
		}
		f.JoinAll(s, s)
		for i, v := range s {
			if v != i*i {
				return -1
			}
		}
		return 0
	})
	for range testutil.Stress(200) {
		got, err := squares.Run(p, -1)
		require.NoError(t, err)
		require.Zero(t, got)
	}
}

func TestJoinAllRefusesLengthsThatDiffer(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	for _, n := range []int{0, 1, 3} {
		_, err := steps.Run(p, func(f *Fork[step, any]) any {
			require.PanicsWithError(t,
				fmt.Sprintf("pool: Fork.JoinAll was given %d arguments and 2 results; there must be as many", n),
				func() { f.JoinAll(make([]step, n), make([]any, 2)) })
			return nil
		})
		require.NoError(t, err)
	}
}

func TestRecursiveRefusesNil(t *testing.T) {
	require.PanicsWithError(t, "pool: Recursive was given a nil function", func() { Recursive[int, int](nil) })
}

// TestRecursionsOfDifferentTypesNested has each call the other.
func TestRecursionsOfDifferentTypesNested(t *testing.T) {
	type in struct{ n int }
	var a *Recursion[int, int]
	var b *Recursion[in, string]
	a = Recursive(func(f *Fork[int, int], n int) int {
		if n < 2 {
			return n
		}
		if n%3 == 0 {
			x, _ := strconv.Atoi(b.Call(f.Worker(), in{n - 1}))
			return x + forkFib.Call(f.Worker(), n-2) // of the same types as a
		}
		x, y := f.Join(n-1, n-2)
		return x + y
	})
	b = Recursive(func(f *Fork[in, string], i in) string {
		if i.n < 2 {
			return strconv.Itoa(i.n)
		}
		if i.n%4 == 0 {
			return strconv.Itoa(a.Call(f.Worker(), i.n-1) + fib(f.Worker(), i.n-2))
		}
		s, u := f.Join(in{i.n - 1}, in{i.n - 2})
		x, _ := strconv.Atoi(s)
		y, _ := strconv.Atoi(u)
		return strconv.Itoa(x + y)
	})
	forSizes(t, func(t *testing.T, p *Pool) {
		for n := range 15 {
			got, err := a.Run(p, n)
			require.NoError(t, err)
			require.Equal(t, serialFib(n), got)
		}
	})
}

// twins are two recursions of the same types that call each other at random depths,
// so that frames of both lie mixed in one stack. A frame that is run by the wrong one
// changes the result.
type twin struct {
	seed  uint64
	depth int
}

func (n twin) next(i uint64) twin {
	x := (n.seed ^ i*0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9
	return twin{x ^ x>>29, n.depth - 1}
}

func twins() (a, b *Recursion[twin, uint64]) {
	grow := func(own uint64, other **Recursion[twin, uint64]) func(f *Fork[twin, uint64], n twin) uint64 {
		return func(f *Fork[twin, uint64], n twin) uint64 {
			if n.depth == 0 {
				if n.seed%64 == 0 {
					runtime.Gosched()
				}
				return n.seed * own
			}
			if n.seed%5 == 0 {
				return own + (*other).Call(f.Worker(), n.next(own))
			}
			x, y := f.Join(n.next(1), n.next(2))
			return own*x + 3*y
		}
	}
	a = Recursive(grow(7, &b))
	b = Recursive(grow(11, &a))
	return a, b
}

func serialTwins(own, other uint64, n twin) uint64 {
	if n.depth == 0 {
		return n.seed * own
	}
	if n.seed%5 == 0 {
		return own + serialTwins(other, own, n.next(own))
	}
	return own*serialTwins(own, other, n.next(1)) + 3*serialTwins(own, other, n.next(2))
}

func TestRecursionsOfTheSameTypesNested(t *testing.T) {
	a, b := twins()
	for _, workers := range sizes {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			p := newPool(t, WithWorkers(workers))
			for seed := range uint64(testutil.Stress(200)) {
				n := twin{seed*0x9E3779B97F4A7C15 + 1, 11}
				got, err := a.Run(p, n)
				require.NoError(t, err)
				require.Equal(t, serialTwins(7, 11, n), got, "seed %d", seed)
				result := make(chan uint64)
				require.NoError(t, p.Go(func(w *Worker) { result <- b.Call(w, n) }))
				require.Equal(t, serialTwins(11, 7, n), <-result, "seed %d", seed)
			}
		})
	}
}

// TestFramesKeepTheirRecursion interleaves by hand: a recursion runs on top of another one of the
// same types, makes the other's frames public, and takes a frame of its own back meanwhile. A thief
// must then run the frames as what they are.
func TestFramesKeepTheirRecursion(t *testing.T) {
	w := loneWorker(&Pool{ticks: periods{giveWay: math.MaxInt64}})
	thief := loneWorker(w.pool)
	s := stackOf[Fork[int, int]](w)
	const depth = 3 * policy.AlwaysPublic

	inner := Recursive(func(f *Fork[int, int], n int) int {
		switch n {
		case 2: // forks while the pool is hungry, and joins when it is not any more
			setState(w, policy.OneSearching)
			f.Join(0, 0)
			setState(w, policy.OneSearching)
			f.Join(1, 0) // this time there is a thief
			setState(w, 0)
		case 1:
			for range depth {
				c, _ := s.claim(0)
				s.run(thief, c)
			}
		case 0:
			setState(w, 0)
		}
		return 1000
	})
	outer := Recursive(func(f *Fork[int, int], n int) int {
		switch {
		case n == 0:
			return 1
		case n == depth+1:
			inner.Call(w, 2)
			return 1
		}
		x, y := f.Join(n+1, 0)
		return x + y
	})
	require.Equal(t, depth+1, outer.Call(w, 1), "1 of each function of outer")
}

func TestRecursionUsedByManyGoroutinesAndPools(t *testing.T) {
	a, b := twins()
	pools := []*Pool{newPool(t, WithWorkers(2)), newPool(t, WithWorkers(3))}
	testutil.Together(20, func(who int) {
		for i := range testutil.Stress(50) {
			n := twin{uint64(who*1000+i)*0x9E3779B97F4A7C15 + 1, 9}
			r, want := a, serialTwins(7, 11, n)
			if i%2 == 0 {
				r, want = b, serialTwins(11, 7, n)
			}
			if got, err := r.Run(pools[(who+i)%2], n); err != nil || got != want {
				t.Error(err, got, want)
			}
		}
	})()
	// And from one pool into the other.
	var there *Recursion[int, int]
	there = Recursive(func(f *Fork[int, int], n int) int {
		if n < 2 {
			return n
		}
		if n%4 == 0 {
			other := pools[0]
			if f.Worker().Pool() == other {
				other = pools[1]
			}
			x, err := there.Run(other, n-1)
			if err != nil {
				t.Error(err)
			}
			return x + there.Call(f.Worker(), n-2)
		}
		x, y := f.Join(n-1, n-2)
		return x + y
	})
	for range testutil.Stress(20) {
		got, err := there.Run(pools[0], 14)
		require.NoError(t, err)
		require.Equal(t, serialFib(14), got)
	}
}

func TestPanicsInRecursionsArrive(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	boom := errors.New("boom")
	for name, v := range map[string]any{"an error": boom, "a value": 42, "nil": nil} {
		check := func(t *testing.T, v, arrived any) {
			if v == nil {
				require.ErrorAs(t, arrived.(error), new(*runtime.PanicNilError))
				return
			}
			require.Equal(t, v, arrived)
		}
		bang := func(*Fork[step, any]) any { return explode(v) }
		run := func(s step) any { return testutil.Caught(func() { _, _ = steps.Run(p, s) }) }
		t.Run(name+" in the first half", func(t *testing.T) {
			check(t, v, run(func(f *Fork[step, any]) any { f.Join(bang, nothing); return nil }))
			check(t, v, run(func(f *Fork[step, any]) any { stolenSteps(f, bang, nothing); return nil }))
		})
		t.Run(name+" in the second half", func(t *testing.T) {
			lone := newPool(t, WithWorkers(1))
			requireAtRest(t, lone)
			check(t, v, testutil.Caught(func() {
				_, _ = steps.Run(lone, func(f *Fork[step, any]) any { f.Join(nothing, bang); return nil })
			}))
		})
		t.Run(name+" in a stolen half", func(t *testing.T) {
			arrived := run(func(f *Fork[step, any]) any { stolenSteps(f, nothing, bang); return nil })
			e, ok := arrived.(*PanicError)
			require.True(t, ok, "%T", arrived)
			check(t, v, e.Value)
			require.Contains(t, string(e.Stack), "pool.explode(")
		})
		t.Run(name+" in one of many", func(t *testing.T) {
			for i := range 5 {
				args := []step{nothing, nothing, nothing, nothing, nothing}
				args[i] = bang
				arrived := run(func(f *Fork[step, any]) any { f.JoinAll(args, make([]any, 5)); return nil })
				if e, ok := arrived.(*PanicError); ok {
					arrived = e.Value
				}
				check(t, v, arrived)
			}
		})
	}
	requireAtRest(t, p)
	got, err := forkFib.Run(p, 12)
	require.NoError(t, err)
	require.Equal(t, serialFib(12), got)
}

func TestGoexitInARecursion(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	exit := func(*Fork[step, any]) any { runtime.Goexit(); return nil }
	for name, s := range map[string]step{
		"first":  func(f *Fork[step, any]) any { f.Join(exit, nothing); return nil },
		"second": func(f *Fork[step, any]) any { f.Join(nothing, exit); return nil },
		"stolen": func(f *Fork[step, any]) any { stolenSteps(f, nothing, exit); return nil },
		"orphan": func(f *Fork[step, any]) any { stolenSteps(f, exit, nothing); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			for range testutil.Stress(50) {
				var deferred, after bool
				require.True(t, testutil.Returns(func() {
					defer func() { deferred = true }()
					_, _ = steps.Run(p, s)
					after = true
				}))
				require.True(t, deferred)
				require.False(t, after)
			}
			requireAtRest(t, p)
			for range testutil.Stress(20) {
				require.NoError(t, p.Go(func(w *Worker) { steps.Call(w, s) }))
				requireAtRest(t, p) // each join needs a worker for its other half
			}
		})
	}
}

// TestRecursionAfterRecoveredPanics: twins throw panics at some leaves and recover them at some of
// the nodes above, which then go on with calls of the other twin.
func TestRecursionAfterRecoveredPanics(t *testing.T) {
	var late atomic.Int64
	var over atomic.Bool
	var a, b *Recursion[twin, uint64]
	grow := func(own uint64, other **Recursion[twin, uint64]) func(f *Fork[twin, uint64], n twin) uint64 {
		return func(f *Fork[twin, uint64], n twin) (sum uint64) {
			if over.Load() {
				late.Add(1)
			}
			if n.depth == 0 {
				if n.seed%7 == 0 {
					panic(n.seed)
				}
				return n.seed * own
			}
			if n.seed%3 == 0 {
				defer func() {
					switch v := recover().(type) {
					case uint64:
						sum = v * own
					case *PanicError:
						sum = v.Value.(uint64) * own
					}
				}()
			}
			if n.seed%5 == 0 {
				return own + (*other).Call(f.Worker(), n.next(own))
			}
			x, y := f.Join(n.next(1), n.next(2))
			return own*x + 3*y
		}
	}
	a = Recursive(grow(7, &b))
	b = Recursive(grow(11, &a))
	lone := newPool(t, WithWorkers(1))
	requireAtRest(t, lone)
	try := func(w *Worker, n twin) (value uint64) {
		defer func() {
			switch v := recover().(type) {
			case uint64:
				value = v
			case *PanicError:
				value = v.Value.(uint64)
			}
		}()
		return a.Call(w, n)
	}
	for _, workers := range []int{2, 4} {
		p := newPool(t, WithWorkers(workers))
		for seed := range uint64(testutil.Stress(200)) {
			n := twin{seed*0x9E3779B97F4A7C15 + 1, 9}
			var want, got uint64
			over.Store(false)
			require.NoError(t, lone.Run(func(w *Worker) { want = try(w, n) }))
			require.NoError(t, p.Run(func(w *Worker) {
				_ = try(w, n)
				got = try(w, n)
			}))
			over.Store(true)
			require.Equal(t, want, got, "seed %d", seed)
		}
		requireAtRest(t, p)
	}
	require.Zero(t, late.Load(), "functions ran when Run had returned")
}

func TestRecursionsForgetWhatTheyHeld(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var seen []weak.Pointer[list]
	object := func() *list {
		l, w := garbage()
		seen = append(seen, w)
		return l
	}
	type arg struct {
		l    *list
		kind int
		at   chan struct{}
	}
	keep := Recursive(func(f *Fork[arg, *list], a arg) *list {
		switch a.kind {
		case 1: // joined with one that is stolen
			<-a.at
		case 2:
			close(a.at)
		case 3:
			panic("f")
		case 4:
			if a.l != nil {
				f.Join(arg{kind: 4}, arg{l: object()})
				f.Join(arg{l: object(), kind: 0}, arg{l: object()})
			}
		case 5:
			at := make(chan struct{})
			f.Join(arg{object(), 1, at}, arg{object(), 2, at})
			_ = testutil.Caught(func() { f.Join(arg{object(), 3, nil}, arg{l: object()}) })
			f.JoinAll([]arg{{l: object()}, {l: object()}, {l: object(), kind: 4}}, make([]*list, 3))
		}
		if a.kind > 10 { // deep
			f.Join(arg{a.l, a.kind - 1, nil}, arg{l: a.l})
		}
		return a.l
	})
	litter := func(w *Worker) {
		keep.Call(w, arg{l: object(), kind: 5})
		keep.Call(w, arg{l: object(), kind: 2*blockLen + 10})
	}
	require.NoError(t, p.Run(litter))
	require.True(t, whenParked(p))
	requireCollected(t, seen...)
	done := make(chan struct{})
	require.NoError(t, p.Go(func(w *Worker) { litter(w); close(done) }))
	<-done
	requireAtRest(t, p)
	requireCollected(t, seen...)
}

// # Closures

func closureFib(w *Worker, n int) int {
	if n < 2 {
		return n
	}
	x, y := both(w, func(w *Worker) int { return closureFib(w, n-1) }, func(w *Worker) int { return closureFib(w, n-2) })
	return x + y
}

func TestJoinOfClosuresIsRightWhoeverRunsIt(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(20) {
			require.NoError(t, p.Run(func(w *Worker) {
				require.Equal(t, serialFib(13), closureFib(w, 13))
				x, y := both(w,
					func(w *Worker) string { return strconv.Itoa(closureFib(w, 5)) },
					func(w *Worker) *int { n := fib(w, 6); return &n })
				require.Equal(t, "5", x)
				require.Equal(t, 8, *y)
			}))
		}
	})
}

func TestPanicsInJoinedClosuresArrive(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	boom := errors.New("boom")
	for range testutil.Stress(100) {
		begun := make(chan struct{})
		require.NoError(t, p.Run(func(w *Worker) {
			require.Same(t, boom, testutil.Caught(func() {
				both(w, func(*Worker) int { return explode(boom) }, func(*Worker) int { return 0 })
			}))
			v := testutil.Caught(func() {
				both(w, func(*Worker) int { <-begun; return 0 }, func(*Worker) int { close(begun); return explode(boom) })
			})
			e, ok := v.(*PanicError)
			require.True(t, ok, "%T", v)
			require.Same(t, boom, e.Value)
			require.Equal(t, serialFib(10), closureFib(w, 10))
		}))
	}
	requireAtRest(t, p)
	lone := newPool(t, WithWorkers(1))
	requireAtRest(t, lone)
	require.Same(t, boom, testutil.Caught(func() {
		_ = lone.Run(func(w *Worker) { both(w, nop[int], func(*Worker) int { return explode(boom) }) })
	}))
}

func TestARecursionBeginsWithAsFewForksThatGiveWayAsAnyOther(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	require.NoError(t, p.Run(func(w *Worker) {
		s := stackOf[frames[application[int, int], int]](w)
		s.levels = policy.AlwaysPublic + 5
		Join(w, func(*Worker, int) int {
			require.Equal(t, policy.AlwaysPublic, s.levels)
			require.Equal(t, policy.AlwaysPublic, s.eager())
			return 0
		}, 0, nop1, 0)
	}))
}
