package pool

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// # How a range is cut

func TestPiecesAreTheRange(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 16, 1000, math.MaxInt - 1, math.MaxInt} {
		for _, k := range []int{1, 2, 3, 16, 1024} {
			for _, done := range []int{0, min(1, n), n / 2, n} {
				ps := &nodeChunks{span: span{lo: done, hi: n}, homes: make([]int, k)}
				end := done
				for i := range k {
					piece := ps.at(i)
					require.LessOrEqual(t, piece.lo, piece.hi, "n %d, k %d", n, k)
					if piece.lo < piece.hi {
						require.Equal(t, end, piece.lo, "n %d, k %d", n, k)
						end = piece.hi
					}
					ps.mirror = n
					first, after := 0, 0
					back := ps.at(i)
					back.loop = &loop{body: func(_ *Worker, lo, hi int) { first, after = lo, hi }}
					if back.do(nil, back.lo, back.hi); piece.lo < piece.hi {
						require.Equal(t, []int{piece.lo - done, piece.hi - done}, []int{first, after}, "n %d, k %d", n, k)
					}
					ps.mirror = 0
				}
				require.Equal(t, n, end, "n %d, k %d", n, k)
			}
		}
	}
}

func TestPiecesAreAboutEquallyLong(t *testing.T) {
	for _, n := range []int{10, 97, 1000, 12345} {
		for k := 1; k <= 10; k++ {
			for i := range k {
				length := border(n, i+1, k) - border(n, i, k)
				require.InDelta(t, float64(n)/float64(k), length, 1, "n %d, k %d", n, k)
			}
		}
	}
}

func TestNodesGetPiecesByTheirWorkers(t *testing.T) {
	for range 200 {
		p := new(Pool)
		for range 1 + rand.N(5) {
			workers := rand.N(5)
			p.nodes = append(p.nodes, node{workers: workers})
			p.first += workers
		}
		if p.first == 0 {
			continue
		}
		k := rand.N(100)
		homes := p.shares(k)
		require.Len(t, homes, k)
		require.True(t, slices.IsSorted(homes), "neighbours stay together")
		for i := range p.nodes {
			n := 0
			for _, home := range homes {
				if home == i {
					n++
				}
			}
			require.InDelta(t, float64(k*p.nodes[i].workers)/float64(p.first), n, 1)
			if p.nodes[i].workers == 0 {
				require.Zero(t, n)
			}
		}
	}
}

func TestAPieceIsClaimedOnce(t *testing.T) {
	const n = 100
	for range testutil.Stress(200) {
		ps := &nodeChunks{next: [][]int{nil, nil}, taken: make([]atomic.Uint32, 2)}
		for i := range n {
			ps.next[i%2] = append(ps.next[i%2], i)
		}
		claimed := make(tally, n)
		testutil.Together(4, func(who int) {
			for node := range 2 {
				node = (node + who) % 2
				for i := ps.claim(node); i >= 0; i = ps.claim(node) {
					claimed[i].Add(1)
				}
				require.Equal(t, -1, ps.claim(node))
			}
		})()
		require.NoError(t, claimed.once())
	}
}

// TestTheCallerAloneRunsItsOwnNodesPiecesFirst: the workers are held, so we see what is left
// for them.
func TestTheCallerAloneRunsItsOwnNodesPiecesFirst(t *testing.T) {
	const nodes, workers = 4, 2
	p := newNodes(t, nodes, workers)
	fromEachNode(t, p, func(here int) {
		require.NoError(t, p.Pause(context.Background()))
		const n, k = 8000, nodes * workers
		var order []int // pieces
		require.NoError(t, ForRange(p, n, func(w *Worker, lo, hi int) {
			require.Equal(t, here, w.core.Node())
			piece := lo * k / n
			require.LessOrEqual(t, hi, border(n, piece+1, k), "a range that belongs to two pieces")
			if len(order) == 0 || order[len(order)-1] != piece {
				order = append(order, piece)
			}
		}))
		var want []int
		for _, node := range p.nodes[here].nearby {
			want = append(want, 2*node, 2*node+1) // a piece for each worker
		}
		require.ElementsMatch(t, want, order)
		require.ElementsMatch(t, want[:2], order[:2])
		for i := 2; i < k; i += 2 {
			require.ElementsMatch(t, want[i:i+2], order[i:i+2])
		}
		p.Resume()
		requireAtRest(t, p)
	})
}

func TestOnlyLongLoopsAreDividedAmongNodes(t *testing.T) {
	const nodes = 3
	p := newNodes(t, nodes, 1)
	worth := func(n, chunk, grain int) bool {
		s := span{hi: n, loop: &loop{grain: grain}}
		s.pace.Probed(chunk, p.ticks.loop.Chunk, &p.ticks.loop)
		return s.worthPieces(p, nil)
	}
	require.False(t, worth(nodes*worthNodes-1, 1, 0))
	require.True(t, worth(nodes*worthNodes, 1, 0))
	require.False(t, worth(1000, 1, 1000/(nodes*worthNodes)+1))
	require.True(t, worth(1000, 1, 1000/(nodes*worthNodes)))
	require.False(t, worth(1000, 1000/(nodes*worthNodes)+1, 0))
}

func TestALoopForWhichNoPlaceIsFreeIsNotDividedAmongNodes(t *testing.T) {
	p := newNodes(t, 2, 1)
	requireAtRest(t, p)
	loop := func() (alone bool) {
		require.NoError(t, p.Run(func(caller *Worker) {
			var others atomic.Int64
			require.NoError(t, ForRange(caller, 10_000, func(w *Worker, lo, hi int) {
				if w != caller {
					others.Add(1)
				}
				work(100 * (hi - lo))
			}))
			alone = others.Load() == 0
		}))
		return alone
	}
	over := make(chan struct{})
	inside := testutil.NewBarrier(3)
	wait := testutil.Together(2, func(int) {
		assert.NoError(t, p.Run(func(*Worker) { inside.Wait(); testutil.Compute(over) }))
	})
	inside.Wait()
	for range testutil.Stress(20) {
		require.True(t, loop())
	}
	close(over)
	wait()
	require.True(t, testutil.Eventually(func() bool { return !loop() }))
}

// # Items exactly once

// granularitiesAndAffinity has the affinity of a loop that was run before.
func granularitiesAndAffinity() map[string][]Granularity {
	all := granularities()
	all["affinity"] = []Granularity{new(Affinity).Granularity()}
	return all
}

func TestDividedLoopsRunEachItemOnce(t *testing.T) {
	for _, c := range []struct{ nodes, cpus int }{{2, 1}, {3, 2}, {4, 1}, {7, 3}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			p := newNodes(t, c.nodes, c.cpus)
			for name, g := range granularitiesAndAffinity() {
				for _, n := range []int{0, 1, c.nodes*worthNodes - 1, c.nodes * worthNodes, c.nodes*worthNodes + 1, 100, 1021, testutil.Stress(20_000)} {
					for _, kind := range loopKinds {
						for range 2 {
							ran := make(tally, n)
							require.NoError(t, kind.run(p, n, func(i int) { ran[i].Add(1); work(10) }, g...))
							require.NoError(t, ran.once(), "%s of %d, %s", kind.name, n, name)
						}
					}
				}
			}
		})
	}
}

// TestDividedLoopsRunEachItemOnceWhereverTheyAreCalled: in tasks, in guests inside tasks,
// with a context, and inside one another.
func TestDividedLoopsRunEachItemOnceWhereverTheyAreCalled(t *testing.T) {
	p := newNodes(t, 3, 2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const n = 500
	loop := func(at Place, g ...Granularity) {
		ran := make(tally, n)
		require.NoError(t, ForRange(at, n, func(_ *Worker, lo, hi int) {
			for i := lo; i < hi; i++ {
				ran[i].Add(1)
				work(100)
			}
		}, g...))
		require.NoError(t, ran.once())
	}
	for range testutil.Stress(10) {
		for name, g := range granularitiesAndAffinity() {
			loop(p, g...)
			loop(p.With(ctx), g...)
			require.NoError(t, p.Run(func(w *Worker) { loop(w, g...); loop(w.With(ctx), g...) }))
			for node := range 3 {
				done := make(chan struct{})
				require.NoError(t, submitOn(p, ctx, 10*node, func(w *Worker) {
					defer close(done)
					loop(w, g...)
					loop(p, g...) // as a guest
					loop(w.With(ctx), g...)
					loop(p.With(ctx), g...)
				}))
				require.True(t, closed(done), name)
			}
			require.NoError(t, ForRange(p, 60, func(w *Worker, lo, hi int) {
				for range hi - lo {
					require.NoError(t, ForRange(w, 100, func(w *Worker, lo, hi int) { fib(w, 5) }, g...))
				}
			}, g...))
			loop(p, g...)
		}
	}
}

// TestNestedDividedLoopsRunEachItemOnce counts each item of each inner loop.
func TestNestedDividedLoopsRunEachItemOnce(t *testing.T) {
	p := newNodes(t, 3, 2)
	const outer, inner = 60, 200
	for range testutil.Stress(10) {
		ran := make(tally, outer*inner)
		require.NoError(t, ForRange(p, outer, func(w *Worker, lo, hi int) {
			for i := lo; i < hi; i++ {
				at := Place(w)
				if i%3 == 0 {
					at = p
				}
				if err := ForRange(at, inner, func(lo, hi int) {
					for j := lo; j < hi; j++ {
						ran[i*inner+j].Add(1)
						work(100)
					}
				}, Grain(3)); err != nil {
					t.Error(err)
				}
			}
		}))
		require.NoError(t, ran.once())
	}
}

func TestDividedLoopsInTasksOfAPoolThatCloses(t *testing.T) {
	onMachine(t, pretended(3, 1))
	for range testutil.Stress(50) {
		p, err := New(WithWorkers(3), WithPinning(PinCores))
		require.NoError(t, err)
		const n = 300
		ran := make(tally, 3*n)
		var begun, closing sync.WaitGroup
		begun.Add(3)
		closing.Add(1)
		for node := range 3 {
			require.NoError(t, submitOn(p, context.Background(), 10*node, func(w *Worker) {
				begun.Done()
				closing.Wait()
				if err := ForRange(w, n, func(_ *Worker, lo, hi int) {
					for i := lo; i < hi; i++ {
						ran[node*n+i].Add(1)
					}
				}); err != nil {
					t.Error(err)
				}
			}))
		}
		begun.Wait()
		closed := make(chan error)
		go func() { closed <- p.Close() }()
		require.True(t, testutil.Eventually(func() bool { return p.core.Closing.Load() }))
		pause()
		closing.Done()
		require.NoError(t, <-closed)
		require.NoError(t, ran.once())
	}
}

func TestDividedLoopsWhileWorkersChange(t *testing.T) {
	onMachine(t, pretended(3, 2))
	p := newPool(t, WithPinning(PinCores), WithWorkers(6), WithTuning(Tuning{MaxWorkers: 8}))
	var over atomic.Bool
	wait := testutil.Together(1, func(int) {
		for i := 0; !over.Load(); i++ {
			require.NoError(t, p.Resize(1+i%8))
			pause()
		}
	})
	var shared Affinity
	for i := range testutil.Stress(300) {
		ran := make(tally, 200+i%3)
		require.NoError(t, ForRange(p, len(ran), func(w *Worker, lo, hi int) {
			for i := lo; i < hi; i++ {
				ran[i].Add(1)
			}
			if lo%50 == 0 {
				w.Block(pause)
			}
		}, shared.Granularity()))
		require.NoError(t, ran.once())
	}
	over.Store(true)
	wait()
}

// # How a piece may end

// elsewhere runs loops until f has been called on a worker of another node than the caller's, for
// which the caller waits a little.
func elsewhere(t *testing.T, p *Pool, at Place, n int, f func(w *Worker)) (ended any, err error) {
	t.Helper()
	var once sync.Once
	var was atomic.Bool
	require.True(t, testutil.Eventually(func() bool {
		begun := make(gate)
		me := goroutineID()
		var here atomic.Int32 // 1 + the caller's node, once that has begun
		ended = testutil.Caught(func() {
			err = ForRange(at, n, func(w *Worker, _, _ int) {
				if goroutineID() == me {
					here.Store(int32(w.core.Node()) + 1)
					begun.await()
					return
				}
				if node := here.Load(); node == 0 || int(node) == w.core.Node()+1 {
					return
				}
				once.Do(func() {
					was.Store(true)
					begun.open()
					f(w)
				})
			})
		})
		return was.Load()
	}), "no other node took part")
	return ended, err
}

func TestPanicOnAnotherNodeArrivesWithItsValueAndItsStack(t *testing.T) {
	p := newNodes(t, 3, 1)
	for range testutil.Stress(20) {
		v, err := elsewhere(t, p, p, 300, func(*Worker) { explode("far away") })
		require.NoError(t, err)
		require.IsType(t, new(PanicError), v)
		e := v.(*PanicError)
		require.Equal(t, "far away", e.Value)
		require.Contains(t, string(e.Stack), "pool.explode")
		requireAtRest(t, p)
	}
}

func TestAPanicStopsThePiecesOfOtherNodes(t *testing.T) {
	p := newNodes(t, 3, 1)
	for _, where := range []int{0, 150, 299} {
		var inside, after atomic.Int32
		v := testutil.Caught(func() {
			_ = ForRange(p, 300, func(_ *Worker, lo, hi int) {
				inside.Add(1)
				defer inside.Add(-1)
				if lo <= where && where < hi {
					explode(where)
				}
				after.Add(int32(hi - lo))
				time.Sleep(10 * time.Microsecond)
			}, Grain(1))
		})
		require.Zero(t, inside.Load(), "a body still runs")
		if e, ok := v.(*PanicError); ok {
			v = e.Value
		}
		require.Equal(t, where, v)
		require.Less(t, after.Load(), int32(300))
		requireAtRest(t, p)
	}
}

func TestGoexitOnAnotherNodeEndsTheCaller(t *testing.T) {
	p := newNodes(t, 2, 1)
	for range testutil.Stress(10) {
		returned := true
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = elsewhere(t, p, p, 300, func(*Worker) { returned = false; runtime.Goexit() })
			returned = true
		}()
		require.True(t, closed(ended))
		require.False(t, returned)
		requireAtRest(t, p)
		requireRunsTogether(t, p, 2)
	}
}

func TestCancellationOnAnotherNodeEndsTheLoop(t *testing.T) {
	p := newNodes(t, 3, 1)
	for range testutil.Stress(20) {
		ctx, cancel := context.WithCancel(context.Background())
		v, err := elsewhere(t, p, p.With(ctx), 100_000, func(*Worker) {
			cancel()
			require.True(t, testutil.Eventually(func() bool { return seesCancellation(p) }))
		})
		require.Nil(t, v)
		require.ErrorIs(t, err, context.Canceled)
		requireAtRest(t, p)
	}
}

// # Where pieces run

// runFor runs a loop whose pieces have these homes, and says where each piece began. The pieces are
// in effect equally long: a node begins its next piece only when the others have begun as many of
// theirs, or when patience is over.
func (a *Affinity) runFor(t *testing.T, p *Pool, homes []int, patience time.Duration) (ran []int) {
	t.Helper()
	const each = 64
	a.prepare(p, each*len(homes), homes)
	ran = make([]int, len(homes))
	begun, all := make([]atomic.Int32, len(p.nodes)), make([]int32, len(p.nodes))
	for _, home := range homes {
		all[home]++
	}
	require.NoError(t, ForRange(p, each*len(homes), func(w *Worker, lo, _ int) {
		if lo%each != 0 {
			return
		}
		ran[lo/each] = w.core.Node()
		mine := begun[w.core.Node()].Add(1)
		late := func(node int) bool { return begun[node].Load() < min(mine, all[node]) }
		for deadline := time.Now().Add(patience); slices.ContainsFunc(p.nodes[w.core.Node()].nearby, late); runtime.Gosched() {
			if time.Now().After(deadline) {
				return
			}
		}
	}, a.Granularity()))
	return ran
}

// prepare makes a the affinity of a loop whose pieces ran on the nodes in homes.
func (a *Affinity) prepare(p *Pool, n int, homes []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pool, a.n, a.homes = p, n, slices.Clone(homes)
}

// TestAffinityNotesWhereEachPieceRan, exactly, wherever that was.
func TestAffinityNotesWhereEachPieceRan(t *testing.T) {
	p := newNodes(t, 3, 1)
	var a Affinity
	for range testutil.Stress(20) {
		homes := make([]int, 12)
		for i := range homes {
			homes[i] = rand.N(3)
		}
		ran := a.runFor(t, p, homes, time.Millisecond)
		require.Equal(t, ran, a.homes)
	}
}

// TestAffinityRunsPiecesWhereTheyRanBefore, on two nodes with a worker each, of which one helps the
// caller. A worker that is about to fall asleep may take what was meant for another one, so a few
// pieces may move.
func TestAffinityRunsPiecesWhereTheyRanBefore(t *testing.T) {
	p := newNodes(t, 2, 1)
	fromEachNode(t, p, func(here int) {
		var a Affinity
		const rounds, k = 20, 8
		atHome := 0
		for round := range rounds {
			whenAsleep(t, p)
			homes := make([]int, k)
			for i := range homes {
				homes[i] = (i >> (round % 3)) & 1 // neighbours on different nodes, or not
			}
			for i, node := range a.runFor(t, p, homes, 100*time.Millisecond) {
				if node == homes[i] {
					atHome++
				}
			}
		}
		require.GreaterOrEqual(t, atHome, rounds*k*3/4, "of %d pieces, from node %d", rounds*k, here)
	})
}

// TestPiecesRunOnTheirNode is the same without an affinity: a piece for each worker.
func TestPiecesRunOnTheirNode(t *testing.T) {
	p := newNodes(t, 2, 1)
	fromEachNode(t, p, func(here int) {
		const rounds, n = 20, 1000
		atHome := 0
		for range rounds {
			whenAsleep(t, p)
			var nodes [2]atomic.Int32
			both := testutil.NewBarrier(2)
			require.NoError(t, ForRange(p, n, func(w *Worker, lo, _ int) {
				if lo != border(n, 0, 2) && lo != border(n, 1, 2) {
					return
				}
				nodes[2*lo/n].Store(int32(w.core.Node()))
				both.Arrive()
				for end := time.Now().Add(100 * time.Millisecond); !both.IsOpen() && time.Now().Before(end); {
					runtime.Gosched() // one that waits would lend its place to the other's thief
				}
			}))
			if nodes[0].Load() == 0 && nodes[1].Load() == 1 {
				atHome++
			}
		}
		require.GreaterOrEqual(t, atHome, rounds*3/4, "from node %d", here)
	})
}

// TestANodeThatWasLateGetsPiecesAgain: the node was busy once, and the others took the pieces that
// were at home there.
func TestANodeThatWasLateGetsPiecesAgain(t *testing.T) {
	p := newNodes(t, 2, 1)
	fromEachNode(t, p, func(here int) {
		var a Affinity
		release := occupyAll(t, p) // the caller is alone
		const n = 64 * 8
		loop := func(f func(w *Worker)) {
			require.NoError(t, ForRange(p, n, func(w *Worker, _, _ int) { f(w) }, a.Granularity()))
		}
		loop(func(*Worker) {})
		require.Equal(t, slices.Repeat([]int{here}, 8), a.homes)
		release()
		for range 20 { // and now no worker is busy
			whenAsleep(t, p)
			came := make(gate)
			arrive := sync.OnceFunc(came.open)
			loop(func(w *Worker) {
				if w.core.Node() != here {
					arrive()
				}
				came.await()
			})
			if slices.Contains(a.homes, 1-here) {
				break
			}
		}
		require.Contains(t, a.homes, 1-here, "the other node has no piece any more, though it is idle")
	})
}

// # Affinities of all sorts

func TestAnAffinityServesAnyLoop(t *testing.T) {
	two, five := newNodes(t, 2, 2), newNodes(t, 5, 1)
	one := newPool(t, WithPinning(PinNone), WithWorkers(3))
	var a Affinity
	for i := range testutil.Stress(200) {
		p := []*Pool{two, five, one, two, two}[i%5]
		n := []int{1000, 1000, 17, 5000, 5000, 3, 1 << 12}[i%7]
		ran := make(tally, n)
		require.NoError(t, For(p, n, func(i int) { ran[i].Add(1); work(50) }, a.Granularity()))
		require.NoError(t, ran.once())
		for _, home := range a.homes {
			require.Less(t, home, len(a.pool.nodes))
		}
	}
}

func TestAnAffinityIsSharedByGoroutines(t *testing.T) {
	p := newNodes(t, 3, 1)
	var a Affinity
	testutil.Together(6, func(who int) {
		for i := range testutil.Stress(100) {
			n := 300 + (who+i)%2
			ran := make(tally, n)
			if err := ForRange(p, n, func(_ *Worker, lo, hi int) {
				for i := lo; i < hi; i++ {
					ran[i].Add(1)
				}
			}, a.Granularity()); err != nil {
				t.Error(err)
			}
			if err := ran.once(); err != nil {
				t.Error(err)
			}
		}
	})()
}

// TestALoopThatEndedEarlyLeavesTheAffinityAsItWas: such a loop has noted only a part of its pieces.
func TestALoopThatEndedEarlyLeavesTheAffinityAsItWas(t *testing.T) {
	p := newNodes(t, 3, 1)
	var a Affinity
	const n = 12 * 64
	before := []int{2, 1, 0, 1, 2, 0, 0, 0, 1, 1, 2, 2}
	for range testutil.Stress(50) {
		a.prepare(p, n, before)
		where := rand.N(n)
		require.NotNil(t, testutil.Caught(func() {
			_ = ForRange(p, n, func(_ *Worker, lo, hi int) {
				if lo <= where && where < hi {
					explode("early")
				}
			}, a.Granularity())
		}))
		require.Equal(t, before, a.homes)
		ctx, cancel := context.WithCancel(context.Background())
		var items atomic.Int64
		err := ForRange(p.With(ctx), n, func(_ *Worker, lo, hi int) {
			items.Add(int64(hi - lo))
			if lo <= where && where < hi {
				cancel()
				require.True(t, testutil.Eventually(func() bool { return seesCancellation(p) }))
			}
		}, a.Granularity())
		if err != nil || items.Load() < n { // otherwise the cancellation came with the last item
			require.ErrorIs(t, err, context.Canceled)
		}
		if !slices.Equal(before, a.homes) { // the same
			require.Len(t, a.homes, len(before))
		}
		cancel()
		ran := make(tally, n)
		require.NoError(t, For(p, len(ran), func(i int) { ran[i].Add(1) }, a.Granularity()))
		require.NoError(t, ran.once())
	}
}

// TestAnAffinityHasNoMorePiecesThanItems, and no more than a bound.
func TestAnAffinityHasNoMorePiecesThanItems(t *testing.T) {
	p := newNodes(t, 2, 16)
	for _, n := range []int{16, 100, 128, 1 << 12} {
		var a Affinity
		require.NoError(t, ForRange(p, n, func(*Worker, int, int) {}, a.Granularity()))
		require.Len(t, a.homes, min(n, piecesPerWorker*32))
	}
	big := newNodes(t, 2, 130) // four pieces each would be 1,040
	var a Affinity
	ran := make(tally, 5000)
	require.NoError(t, ForRange(big, len(ran), func(_ *Worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			ran[i].Add(1)
		}
	}, a.Granularity()))
	require.NoError(t, ran.once())
	require.Len(t, a.homes, mostPieces)
}

func TestOnOneNodeAnAffinityChangesNothing(t *testing.T) {
	onMachine(t, pretended(1, 4))
	p := newPool(t, WithWorkers(4))
	var a Affinity
	ran := make(tally, 1000)
	require.NoError(t, ForRange(p, len(ran), func(_ *Worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			ran[i].Add(1)
		}
	}, a.Granularity()))
	require.NoError(t, ran.once())
	require.Empty(t, a.homes)
}
