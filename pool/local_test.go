package pool

import (
	"runtime"
	"testing"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/stretchr/testify/require"
)

func count[T any](l *Local[T]) (n int) {
	for range l.All() {
		n++
	}
	return n
}

// TestLocalServesForPerWorkerData: it needs no lock for what runs to its end without a wait; the
// race detector would tell.
func TestLocalServesForPerWorkerData(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	counts := Local[int]{New: func() int { return 1000 }}
	count := func(w *Worker) { *counts.Of(w)++ }
	var tree func(w *Worker, n int) struct{}
	tree = func(w *Worker, n int) struct{} {
		count(w)
		if n > 0 {
			Join(w, tree, n-1, tree, n-1)
		}
		return struct{}{}
	}
	const goroutines = 30
	rounds := testutil.Stress(20)
	testutil.Together(goroutines, func(int) {
		for range rounds {
			_ = p.Run(func(w *Worker) { tree(w, 6) })
			_ = p.Go(count)
		}
	})()
	requireAtRest(t, p)
	sum := 0
	for n := range counts.All() {
		sum += *n - 1000
	}
	require.Equal(t, goroutines*rounds*(1<<7-1+1), sum)
	var none Local[int]
	for range none.All() {
		t.Error("nobody asked for one")
	}
}

// TestLocalMakesAsManyAsCompute, however many functions wait, and though each of these has a worker of its own.
func TestLocalMakesAsManyAsCompute(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var l Local[int]
	n := testutil.Stress(1000)
	meet := testutil.NewBarrier(n + 1)
	turns := make(chan struct{})
	done := make(chan struct{})
	for i := range n {
		require.NoError(t, p.Go(func(w *Worker) {
			*l.Of(w)++ // what a worker keeps from its earlier tasks goes to its stand-in
			err := w.Go(func(w *Worker) {
				w.Block(func() { meet.Wait(); <-turns })
				*l.Of(w) += i
				done <- struct{}{}
			})
			if err != nil { // require would wait for t's lock, and keep the value meanwhile
				t.Error(err)
			}
		}))
	}
	require.True(t, testutil.Returns(meet.Wait))
	for range n {
		turns <- struct{}{}
		<-done
	}
	requireAtRest(t, p)
	sum := 0
	for v := range l.All() {
		sum += *v
	}
	require.Equal(t, n+n*(n-1)/2, sum)
	require.Less(t, count(&l), n/10)
	require.Zero(t, held(p), "by workers that have nothing to do")
}

// held returns how many cells the workers hold.
func held(p *Pool) (n int) {
	p.workers.each(func(w *Worker) {
		for c := w.cells; c != nil; c = c.next {
			n++
		}
	})
	return n
}

// TestAFunctionKeepsItsLocalWhileItWaits, and no other function has it meanwhile.
func TestAFunctionKeepsItsLocalWhileItWaits(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	var l Local[int]
	const n = 50
	meet := testutil.NewBarrier(n)
	for round := range 3 {
		testutil.Together(n, func(who int) {
			f := func(w *Worker) {
				v := l.Of(w)
				*v = who
				w.Block(meet.Wait)
				if *v != who || l.Of(w) != v {
					t.Errorf("it was %d's", *v)
				}
				w.Block(meet.Wait)
			}
			if who%2 == 0 {
				_ = p.Run(f)
			} else {
				_ = p.Go(f)
			}
		})()
		requireAtRest(t, p)
		require.LessOrEqual(t, count(&l), n+2, "round %d", round)
	}
	require.GreaterOrEqual(t, count(&l), n)
}

// TestALocalServesTwoPools: workers of two pools can have the same number.
func TestALocalServesTwoPools(t *testing.T) {
	a, b := newPool(t, WithWorkers(1)), newPool(t, WithWorkers(1))
	var l Local[int]
	meet := testutil.NewBarrier(2)
	got := make(chan *int, 2)
	for _, p := range []*Pool{a, b} {
		require.NoError(t, p.Go(func(w *Worker) {
			got <- l.Of(w)
			meet.Wait()
		}))
	}
	require.NotSame(t, <-got, <-got)
}

// TestLocalCostsANewWorkerAsMuchAsTheFirst counts memory, which a copy of all that was there before would need.
func TestLocalCostsANewWorkerAsMuchAsTheFirst(t *testing.T) {
	const n = 4000
	workers := make([]Worker, n)
	var l Local[int]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range workers {
		l.Of(&workers[i])
	}
	runtime.ReadMemStats(&after)
	require.Equal(t, n, count(&l))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(n*1024))

	// As soon as others have gone, it costs no memory.
	for i := range workers {
		workers[i].freeCells(true)
	}
	i := 0
	require.Zero(t, testing.AllocsPerRun(n-1, func() {
		l.Of(&workers[i])
		i++
	}))
	require.Equal(t, n, count(&l))
}

func BenchmarkLocalOfANewWorker(b *testing.B) {
	var l Local[int]
	w := new(Worker)
	for b.Loop() {
		l.Of(w)
		w.freeCells(true)
	}
}

func BenchmarkLocalOf(b *testing.B) {
	var l Local[int]
	w := new(Worker)
	for b.Loop() {
		*l.Of(w)++
	}
}

// TestALocalThatIsAssignedAnewBeginsAgain, though workers still hold cells of its earlier value.
func TestALocalThatIsAssignedAnewBeginsAgain(t *testing.T) {
	const n = 8
	workers := make([]Worker, n) // they neither wait nor become idle, so they hold on to what they got
	var l Local[int]
	for range 3 {
		l = Local[int]{}
		for i := range workers {
			require.Zero(t, *l.Of(&workers[i]), "an earlier value's")
			*l.Of(&workers[i])++
		}
		require.Equal(t, n, count(&l))
		workers[0].freeCells(true) // those of earlier values do not come to later ones
		require.Equal(t, 1, *l.Of(&workers[0]))
		require.Equal(t, n, count(&l))
	}
}
