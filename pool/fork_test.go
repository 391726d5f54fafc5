package pool

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

func TestJoinReturnsTheResultsOfBoth(t *testing.T) {
	type point struct{ x, y float64 }
	p := newPool(t, WithWorkers(2))
	for range testutil.Stress(1000) {
		var length int
		var far *point
		var name string
		var nothing struct{}
		require.NoError(t, p.Run(func(w *Worker) {
			length, far = Join(w,
				func(_ *Worker, s string) int { return len(s) }, "four",
				func(_ *Worker, p point) *point { return &point{p.x * 2, p.y * 2} }, point{1, 2})
			name, nothing = Join(w,
				func(_ *Worker, b []byte) string { return string(b) }, []byte("name"),
				func(*Worker, struct{}) struct{} { return struct{}{} }, struct{}{})
		}))
		require.Equal(t, 4, length)
		require.Equal(t, &point{2, 4}, far)
		require.Equal(t, "name", name)
		require.Zero(t, nothing)
	}
}

func TestRecursionIsRightWhoeverRunsIt(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		n := 18
		if testutil.Short() {
			n = 13
		}
		for range 10 {
			require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, serialFib(n), fib(w, n)) }))

			result := make(chan int)
			require.NoError(t, p.Go(func(w *Worker) { result <- fib(w, n) }))
			require.Equal(t, serialFib(n), <-result)
		}
	})
}

// TestEveryForkRunsOnce counts the visits to each node of a tree, while as many
// thieves as possible steal.
func TestEveryForkRunsOnce(t *testing.T) {
	const depth = 12
	type node struct {
		visits []atomic.Int32
		index  int
	}
	var walk func(w *Worker, n node) int
	walk = func(w *Worker, n node) int {
		n.visits[n.index].Add(1)
		if 2*n.index+1 >= len(n.visits) {
			if n.index%7 == 0 {
				runtime.Gosched()
			}
			return 1
		}
		x, y := Join(w, walk, node{n.visits, 2*n.index + 1}, walk, node{n.visits, 2*n.index + 2})
		return x + y + 1
	}
	forSizes(t, func(t *testing.T, p *Pool) {
		for range testutil.Stress(10) {
			visits := make([]atomic.Int32, 1<<depth-1)
			count := 0
			require.NoError(t, p.Run(func(w *Worker) { count = walk(w, node{visits, 0}) }))
			require.Equal(t, len(visits), count)
			for i := range visits {
				require.EqualValues(t, 1, visits[i].Load(), "node %d", i)
			}
		}
	})
}

// of makes an argument type of its own, and so a fork stack of its own, for each N.
type of[N any] struct {
	n int
	_ [0]N
}

// stage returns a function that forks into the next one with that type.
func stage[N any](next *func(*Worker, int) int) func(*Worker, int) int {
	return func(w *Worker, n int) int {
		if n == 0 {
			return 1
		}
		x, y := Join(w, *next, n-1, func(w *Worker, a of[N]) int { return (*next)(w, a.n) }, of[N]{n: n - 1})
		return x + y
	}
}

// stages is a ring of functions with twelve types of forks.
func stages() []func(*Worker, int) int {
	fs := make([]func(*Worker, int) int, 12)
	for i, make := range []func(*func(*Worker, int) int) func(*Worker, int) int{
		stage[int8], stage[int16], stage[int32], stage[int64], stage[uint8], stage[uint16],
		stage[uint32], stage[uint64], stage[float32], stage[float64], stage[string], stage[bool],
	} {
		fs[i] = make(&fs[(i+1)%len(fs)])
	}
	return fs
}

func TestManyTypesOfForksNestedInOneAnother(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		depth := 14
		if testutil.Short() {
			depth = 10
		}
		for _, f := range stages() {
			require.NoError(t, p.Run(func(w *Worker) { require.Equal(t, 1<<depth, f(w, depth)) }))
		}
		p.workers.each(func(w *Worker) {
			for _, s := range w.stacks {
				require.Zero(t, s.depth())
			}
		})
	})
}

// TestDeepRecursion goes beyond the first array of frames, and beyond others.
func TestDeepRecursion(t *testing.T) {
	var sum func(w *Worker, n int) int
	one := func(*Worker, *int) int { return 1 }
	sum = func(w *Worker, n int) int {
		if n == 0 {
			return 0
		}
		x, y := Join(w, sum, n-1, one, &n)
		return x + y
	}
	depth := 100_000
	if testutil.Short() {
		depth = 20_000
	}
	for _, workers := range []int{1, 4} {
		p := newPool(t, WithWorkers(workers))
		for range 3 {
			require.NoError(t, p.Run(func(w *Worker) {
				require.Equal(t, depth, sum(w, depth))
				for _, s := range w.stacks {
					require.Zero(t, s.depth())
				}
			}))
		}
	}
}

// TestFramesStayWhereTheyAre while blocks are added: a thief may hold a frame.
func TestFramesStayWhereTheyAre(t *testing.T) {
	s := lonelyStack()
	const n = 20 * blockLen
	var all []*frame[int, int]
	for d := range n {
		s.push(d)
		all = append(all, s.at(d))
	}
	for d, fr := range all {
		require.Same(t, fr, s.at(d))
		require.Equal(t, d, fr.what)
	}
	// Down and up again, over the borders of blocks.
	for _, d := range []int{n - 1, n - blockLen, n - blockLen - 1, blockLen, blockLen - 1, 0} {
		for s.bottom > d {
			require.True(t, takesBack(s, s.bottom-1))
		}
		s.push(-d)
		require.Equal(t, -d, all[d].what)
		require.Equal(t, d/blockLen*blockLen, s.base)
	}
	require.GreaterOrEqual(t, s.used, n, "what forget has to clear")
}

// takesBack pops the fork at depth d by hand. It returns false if the fork was stolen.
func takesBack(s *frames[int, int], d int) bool {
	s.bottom = d
	return d >= int(s.slow.Load()) || s.takeBack(d)
}

// lonelyStack is the fork stack of a worker without a pool around it. A test can play owner and thief
// on it step by step.
func lonelyStack() *frames[int, int] {
	s := new(frames[int, int])
	s.init(loneWorker(&Pool{ticks: periods{giveWay: math.MaxInt64}}))
	s.body = func(_ *Worker, n int) int { return 10 * n }
	s.owner.addStack(s)
	return s
}

// requireBorders checks which frames of a stack are public.
func requireBorders(t *testing.T, s *frames[int, int], top, split, bottom int) {
	t.Helper()
	gotTop, gotSplit := borders(s.public.Load())
	require.Equal(t, [3]int{top, split, bottom}, [3]int{gotTop, gotSplit, s.bottom})
	require.Equal(t, split, s.split)
}

func TestTheOldestForksAreAlwaysPublic(t *testing.T) {
	s := lonelyStack()
	for i := range policy.AlwaysPublic {
		s.push(i)
		requireBorders(t, s, 0, i+1, i+1)
	}
	for i := policy.AlwaysPublic; i < 2*blockLen; i++ {
		s.push(i)
		if i < blockLen {
			requireBorders(t, s, 0, policy.AlwaysPublic, i+1)
		}
	}
	for d := 2*blockLen - 1; d >= 0; d-- {
		require.True(t, takesBack(s, d))
	}
	requireBorders(t, s, 0, 0, 0)
}

func TestForksArePublicWhenSomebodyIsHungry(t *testing.T) {
	hungry := func(s *frames[int, int], yes bool) {
		if yes {
			s.sleep.Add(policy.OneSearching - s.sleep.Load())
		} else {
			s.sleep.Add(-s.sleep.Load())
		}
	}
	const n = 3 * policy.AlwaysPublic
	full := func() *frames[int, int] {
		s := lonelyStack()
		for i := range n {
			s.push(i)
		}
		requireBorders(t, s, 0, policy.AlwaysPublic, n)
		return s
	}
	t.Run("at the next fork", func(t *testing.T) {
		s := full()
		hungry(s, true)
		s.push(n)
		requireBorders(t, s, 0, n+1, n+1)
	})
	t.Run("at the next join", func(t *testing.T) {
		s := full()
		hungry(s, true)
		require.True(t, s.takeBack(n-1))
		requireBorders(t, s, 0, n-1, n-1)
	})
	t.Run("and those that were published stay public", func(t *testing.T) {
		s := full()
		hungry(s, true)
		s.push(n)
		hungry(s, false)
		require.True(t, s.takeBack(n))
		requireBorders(t, s, 0, n, n)
		s.push(n)
		requireBorders(t, s, 0, n, n+1)
	})
	t.Run("when the owner waits", func(t *testing.T) {
		s := full()
		s.owner.expose()
		requireBorders(t, s, 0, n, n)
	})
	t.Run("on another stack of the same worker", func(t *testing.T) {
		s := full()
		other := new(frames[int, int])
		other.init(s.owner)
		hungry(s, true)
		other.push(1)
		requireBorders(t, s, 0, n, n)
	})
}

// TestThiefWithAnOldWordClaimsOnlyWhatIsPublic interleaves by hand what a slow thief can see: between
// its load and its compare-and-swap the owner may do anything.
func TestThiefWithAnOldWordClaimsOnlyWhatIsPublic(t *testing.T) {
	claimWith := func(s *frames[int, int], word uint64) bool {
		return s.public.CompareAndSwap(word, word+1<<32)
	}
	t.Run("taken back", func(t *testing.T) {
		s := lonelyStack()
		s.push(1)
		old := s.public.Load()
		require.True(t, s.takeBack(0))
		require.False(t, claimWith(s, old), "there is nothing to claim")
	})
	t.Run("taken back and forked anew", func(t *testing.T) {
		s := lonelyStack()
		s.push(1)
		old := s.public.Load()
		require.True(t, s.takeBack(0))
		s.push(2)
		require.True(t, claimWith(s, old), "the word is the same again, and the new fork is public")
		require.False(t, s.takeBack(0))
		s.run(s.owner, claimed{})
		require.Equal(t, 20, s.joinStolen(0), "of the new fork, not of the old one")
		requireBorders(t, s, 0, 0, 0)
	})
	t.Run("stolen and joined", func(t *testing.T) {
		s := lonelyStack()
		s.push(1)
		old := s.public.Load()
		c, r := s.claim(0)
		require.Equal(t, heist.Success, r)
		s.run(s.owner, c)
		require.False(t, s.takeBack(0))
		require.Equal(t, 10, s.joinStolen(0))
		require.False(t, claimWith(s, old))
	})
	t.Run("another thief was faster", func(t *testing.T) {
		s := lonelyStack()
		s.push(1)
		s.push(2)
		old := s.public.Load()
		c, _ := s.claim(0)
		require.Zero(t, c.index, "the oldest goes first")
		require.False(t, claimWith(s, old))
		c, _ = s.claim(0)
		require.Equal(t, 1, c.index)
		_, r := s.claim(0)
		require.Equal(t, heist.Empty, r)
	})
}

func TestEveryFrameCanBeStolen(t *testing.T) {
	s := lonelyStack()
	const n = 5 * blockLen
	for i := range n {
		s.push(i)
	}
	s.publish()
	for i := range n {
		c, r := s.claim(0)
		require.Equal(t, heist.Success, r)
		require.Equal(t, i, c.index)
		s.run(s.owner, c)
	}
	for i := n - 1; i >= 0; i-- {
		require.False(t, s.takeBack(i))
		require.Equal(t, 10*i, s.joinStolen(i))
	}
	requireBorders(t, s, 0, 0, 0)
}

func TestStolenForkRunsOnAnotherWorker(t *testing.T) {
	for _, workers := range []int{2, 3, 16} {
		p := newPool(t, WithWorkers(workers))
		check := func(w *Worker) (ok bool) {
			f, g := stolenJoin(w,
				func(w *Worker) *Worker { return w },
				func(w *Worker) *Worker { return w })
			return f == w && g != w && !g.core.Guest
		}
		for range testutil.Stress(100) {
			require.NoError(t, p.Run(func(w *Worker) { require.True(t, check(w)) }))
			ok := make(chan bool)
			require.NoError(t, p.Go(func(w *Worker) { ok <- check(w) }))
			require.True(t, <-ok)
		}
		require.True(t, testutil.Eventually(func() bool { return p.Stats().Total().Steals > 0 }))
	}
}

// TestForksOfAStolenForkAreStolen climbs from worker to worker.
func TestForksOfAStolenForkAreStolen(t *testing.T) {
	const workers = 6
	p := newPool(t, WithWorkers(workers))
	var climb func(w *Worker, n int) []int
	climb = func(w *Worker, n int) []int {
		if n == 0 {
			return []int{w.ID()}
		}
		_, ids := stolenJoin(w, func(*Worker) int { return 0 }, func(w *Worker) []int { return climb(w, n-1) })
		return append(ids, w.ID())
	}
	for range testutil.Stress(200) {
		require.NoError(t, p.Run(func(w *Worker) {
			require.Len(t, climb(w, workers-1), workers)
		}))
	}
}

// list is an argument with pointers. Its checksum shows memory that was freed while
// a frame still referred to it.
type list struct {
	next *list
	n    int
	text string
}

func newList(n int) *list {
	var l *list
	for i := range n {
		l = &list{l, i, fmt.Sprint("element ", i)}
	}
	return l
}

func (l *list) check() bool {
	for ; l != nil; l = l.next {
		if l.text != fmt.Sprint("element ", l.n) {
			return false
		}
	}
	return true
}

func TestArgumentsAndResultsSurviveTheGarbageCollector(t *testing.T) {
	type args struct {
		depth int
		list  *list
	}
	var tree func(w *Worker, a args) *list
	tree = func(w *Worker, a args) *list {
		if !a.list.check() {
			panic("an argument was freed")
		}
		if a.depth == 0 {
			return newList(a.list.n)
		}
		x, y := Join(w, tree, args{a.depth - 1, newList(3)}, tree, args{a.depth - 1, newList(4)})
		if !x.check() || !y.check() {
			panic("a result was freed")
		}
		return newList(2 + a.depth%2)
	}
	p := newPool(t, WithWorkers(4))
	stop := collectAllTheTime()
	for range testutil.Stress(50) {
		require.NoError(t, p.Run(func(w *Worker) { require.True(t, tree(w, args{8, newList(5)}).check()) }))
	}
	stop()

	// While the fork is stolen, only the frame refers to its argument.
	for range testutil.Stress(50) {
		require.NoError(t, p.Run(func(w *Worker) {
			begun, collected := make(chan struct{}), make(chan struct{})
			_, ok := Join(w,
				func(*Worker, int) int {
					<-begun
					for range 2 {
						runtime.GC()
					}
					close(collected)
					return 0
				}, 0,
				func(_ *Worker, l *list) bool {
					close(begun)
					<-collected
					return l.check()
				}, newList(10))
			require.True(t, ok)
		}))
	}
}

func TestForkAllocatesNothing(t *testing.T) {
	for _, workers := range []int{1, 4} {
		p := newPool(t, WithWorkers(workers))
		task := func(w *Worker) { fib(w, 10) }
		for range 20 { // the first guest in each slot, and thieves, make their fork stacks
			require.NoError(t, p.Run(task))
		}
		if workers > 1 {
			for range workers {
				testutil.Together(workers, func(int) { _ = p.Run(task) })()
			}
		}
		allowed := 0.1
		if goroutineIDAllocates {
			allowed++
		}
		require.LessOrEqual(t, allocs(p, func() { _ = p.Run(task) }), allowed)
	}
}

func TestPublicForksAllocateNothing(t *testing.T) {
	s := lonelyStack()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.pushTo(1, true)
		c, _ := s.claim(0)
		s.push(2)
		require.True(t, s.takeBack(1))
		s.run(s.owner, c)
		require.False(t, s.takeBack(0))
		require.Equal(t, 10, s.joinStolen(0))
	}))
}

func TestDoRunsEachFunctionOnce(t *testing.T) {
	forSizes(t, func(t *testing.T, p *Pool) {
		for _, n := range []int{0, 1, 2, 3, 50, 300, 1000} {
			ran := make([]atomic.Int32, n)
			fs := make([]func(*Worker), n)
			for i := range fs {
				fs[i] = func(w *Worker) {
					ran[i].Add(1)
					w.Do(func(*Worker) { ran[i].Add(1) }, func(*Worker) { ran[i].Add(1) })
				}
			}
			require.NoError(t, p.Run(func(w *Worker) { w.Do(fs...) }))
			for i := range ran {
				require.EqualValues(t, 3, ran[i].Load(), "function %d of %d", i, n)
			}
		}
	})
}

func TestDoRunsTheFirstFunctionInTheCaller(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	for n := 1; n < 5; n++ {
		require.NoError(t, p.Run(func(w *Worker) {
			fs := []func(*Worker){func(first *Worker) { require.Same(t, w, first) }}
			for range n - 1 {
				fs = append(fs, func(*Worker) {})
			}
			w.Do(fs...)
		}))
	}
}

// TestDoKeepsToTheOrderWhereNobodySteals is what makes a program easy to debug.
func TestDoKeepsToTheOrderWhereNobodySteals(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	requireAtRest(t, p)
	require.NoError(t, p.Run(func(w *Worker) {
		var order []int
		var fs []func(*Worker)
		for i := range 20 {
			fs = append(fs, func(*Worker) { order = append(order, i) })
		}
		w.Do(fs...)
		require.IsIncreasing(t, order)
		require.Len(t, order, 20)
	}))
}

// TestDoRunsItsFunctionsAtTheSameTime needs all of them to run at once: the guest
// in one, and all workers but one, whose place the guest has taken.
func TestDoRunsItsFunctionsAtTheSameTime(t *testing.T) {
	for _, n := range []int{2, 3, 8} {
		p := newPool(t, WithWorkers(n))
		for range testutil.Stress(200) {
			meet := testutil.NewBarrier(n)
			fs := make([]func(*Worker), n)
			for i := range fs {
				fs[i] = func(*Worker) { meet.Wait() }
			}
			require.NoError(t, p.Run(func(w *Worker) { w.Do(fs...) }))
		}
	}
}

func TestDoRefusesANilFunctionBeforeItRunsAny(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	require.NoError(t, p.Run(func(w *Worker) {
		for _, fs := range [][]func(*Worker){
			{nil},
			{func(*Worker) { t.Error("ran") }, nil},
			{func(*Worker) { t.Error("ran") }, nil, func(*Worker) { t.Error("ran") }},
		} {
			require.PanicsWithError(t, "pool: Worker.Do was given a nil function", func() { w.Do(fs...) })
		}
	}))
}

// garbage returns an object and a way to see whether it was collected.
//
//go:noinline
func garbage() (*list, weak.Pointer[list]) {
	l := newList(3)
	return l, weak.Make(l)
}

func requireCollected(t *testing.T, objects ...weak.Pointer[list]) {
	t.Helper()
	for i, o := range objects {
		require.True(t, o.Value() == nil || testutil.Eventually(func() bool {
			runtime.GC()
			return o.Value() == nil
		}), "object %d is kept alive", i)
	}
}

func TestFramesForgetWhatTheyHeld(t *testing.T) {
	// Arguments, results, closures and what they capture; of forks that were stolen,
	// taken back, cancelled by a panic, and deeper than the first array.
	litter := func(w *Worker) []weak.Pointer[list] {
		var seen []weak.Pointer[list]
		object := func() *list {
			l, p := garbage()
			seen = append(seen, p)
			return l
		}
		keep := func(_ *Worker, l *list) *list { return l }

		Join(w, keep, object(), keep, object())
		stolen := object()
		stolenJoin(w, func(*Worker) int { return 0 }, func(*Worker) *list { return stolen })
		captured := object()
		w.Do(func(*Worker) {}, func(*Worker) { captured.check() }, func(*Worker) { captured.check() })

		cancelled, failed := object(), object()
		for range 2 {
			func() {
				defer func() { _ = recover() }()
				stolenJoin(w, func(*Worker) int { panic("f") }, func(*Worker) *list { return cancelled })
			}()
			func() {
				defer func() { _ = recover() }()
				stolenJoin(w, func(*Worker) int { return 0 }, func(*Worker) *list { panic(failed) })
			}()
		}

		var dive func(w *Worker, n int) *list
		dive = func(w *Worker, n int) *list {
			if n == 0 {
				return object()
			}
			l, _ := Join(w, dive, n-1, keep, object())
			return l
		}
		dive(w, 2*blockLen)
		return seen
	}
	p := newPool(t, WithWorkers(2))

	t.Run("when Run returns", func(t *testing.T) {
		var seen []weak.Pointer[list]
		require.NoError(t, p.Run(func(w *Worker) { seen = litter(w) }))
		require.True(t, whenParked(p))
		requireCollected(t, seen...)
	})
	t.Run("when the pool rests", func(t *testing.T) {
		result := make(chan []weak.Pointer[list])
		require.NoError(t, p.Go(func(w *Worker) { result <- litter(w) }))
		seen := <-result
		requireAtRest(t, p)
		requireCollected(t, seen...)
	})
}

func TestTasksAreForgottenWhenThePoolRests(t *testing.T) {
	p := newPool(t, WithWorkers(4))
	var seen []weak.Pointer[list]
	for range 1000 {
		l, w := garbage()
		seen = append(seen, w)
		require.NoError(t, p.Go(func(w *Worker) {
			_ = w.Go(func(*Worker) { l.check() })
		}))
	}
	requireAtRest(t, p)
	requireCollected(t, seen...)
}

// TestFramesAreClearedAfterFewerForksGiveWay is for a former bug: when the levels of the oldest forks
// became fewer above the newest fork, the forks that came next were not accounted for.
func TestFramesAreClearedAfterFewerForksGiveWay(t *testing.T) {
	p := newPool(t, WithWorkers(1)) // the pool must be at rest in the end
	require.NoError(t, p.Run(func(w *Worker) {
		s := stackOf[frames[application[int, int], int]](w)
		var down func(w *Worker, n int) int
		down = func(w *Worker, n int) int {
			if s.bottom == 1 {
				s.levels = policy.AlwaysPublic + 3
				s.relax()
			}
			notLate(&s.stack) // so there will be fewer
			if n > 0 {
				Join(w, down, n-1, nop1, 0)
			}
			return 0
		}
		down(w, 3*policy.AlwaysPublic)
		require.Equal(t, policy.AlwaysPublic, s.levels)
	}))
}

// loneWorker returns a worker that is the calling goroutine. Its pool needs only the fields that the
// test uses.
func loneWorker(p *Pool) *Worker {
	p.core.Monitored.Store(true) // no monitor is wanted
	w := &Worker{pool: p}
	w.goroutine = goroutineID()
	w.core.Guest = true
	w.locateLabels()
	w.offer([]stealable{&w.children})
	return w
}

// TestALoopThatRecoversPanicsLeavesABlockOfFrames, and no more, at any depth of forks.
func TestALoopThatRecoversPanicsLeavesABlockOfFrames(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	for _, depth := range []int{0, 1, policy.AlwaysPublic + 2, 300} {
		onlyWorker(t, p, func(w *Worker) {
			var most int
			dive(w, depth, func(w *Worker) {
				for range 5000 {
					testutil.Caught(func() {
						Join(w, func(*Worker, int) int { panic("recovered") }, 0, nop1, 0)
					})
					for _, s := range w.stacks {
						most = max(most, s.depth())
					}
				}
			})
			require.LessOrEqual(t, most, depth+2*blockLen+1, "at depth %d", depth)
			most = 0
			const leaf, panics = -1, -2
			_ = Recursive(func(f *Fork[int, int], n int) int {
				switch {
				case n == panics:
					panic("recovered")
				case n > 0:
					f.Join(n-1, leaf)
				case n == 0:
					for range 5000 {
						testutil.Caught(func() { f.JoinAll([]int{panics, leaf, leaf, leaf}, make([]int, 4)) })
						most = max(most, f.depth())
					}
				}
				return 0
			}).Call(w, depth)
			require.LessOrEqual(t, most, depth+2*blockLen+1, "of JoinAll at depth %d", depth)
			require.GreaterOrEqual(t, most, depth)
		})
	}
}

// TestALargeArgumentIsGarbageWhenItsJoinIsOver, though the worker stays busy.
func TestALargeArgumentIsGarbageWhenItsJoinIsOver(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	onlyWorker(t, p, func(w *Worker) {
		collected := make(chan struct{})
		func() {
			large := new([1 << 20]byte)
			runtime.SetFinalizer(large, func(*[1 << 20]byte) { close(collected) })
			Join(w, nop1, 0, func(_ *Worker, b *[1 << 20]byte) byte { return b[0] }, large)
		}()
		require.True(t, testutil.Eventually(func() bool {
			runtime.GC()
			select {
			case <-collected:
				return true
			default:
				return false
			}
		}), "a frame keeps it alive")
	})
}

// TestForkStacksShrink: what a deep recursion needed is garbage when the worker has nothing to do.
func TestForkStacksShrink(t *testing.T) {
	p := newPool(t, WithWorkers(1))
	var block weak.Pointer[frame[application[int, int], int]]
	onlyWorker(t, p, func(w *Worker) {
		dive(w, 20*blockLen, func(w *Worker) {
			s := applications[int, int](w)
			require.Greater(t, s.bottom, 2*blockLen)
			block = weak.Make(s.at(2 * blockLen))
		})
	})
	requireAtRest(t, p)
	require.True(t, testutil.Eventually(func() bool {
		runtime.GC()
		return block.Value() == nil
	}), "a block of frames is kept")
}

// TestInnerCallsLeaveNoMarks: a task that goes on for ever may make any number of calls, so none may leave an
// unwind point.
func TestInnerCallsLeaveNoMarks(t *testing.T) {
	p := newPool(t, WithWorkers(2))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	require.NoError(t, p.Run(func(w *Worker) {
		for range 10 {
			require.NoError(t, For(w.With(ctx), 10, func(int) {}))
			w.Scope(func(s *Scope) { s.Go(w, func(*Worker) {}) })
			_ = testutil.Caught(func() { w.Scope(func(*Scope) { panic(io.EOF) }) })
		}
		require.Empty(t, w.unwindPoints)
	}))
}
