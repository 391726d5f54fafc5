package heist

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// pullAll empties an injector that has no other user, in batches of up to n.
func pullAll(t testing.TB, in *Injector[item], n int) []int {
	t.Helper()
	taken := []int{}
	dst := make([]*item, n)
	for {
		n, r := in.PullBatch(dst)
		if r == Empty {
			require.Zero(t, n)
			return taken
		}
		require.Equal(t, Success, r)
		require.NotZero(t, n)
		taken = append(taken, ids(dst[:n]...)...)
	}
}

// claim does the first half of a push and returns the second half, for a producer that is
// descheduled in between.
func claim(in *Injector[item], it *item) (publishIt func()) {
	s := in.tail.Load()
	e := s.enq.Add(1) - 1
	return func() {
		s.at(e).item = it
		s.at(e).seq.Store(e + 1)
	}
}

func TestInjectorIsFirstInFirstOut(t *testing.T) {
	// From within one segment to many segments of the largest size.
	for _, n := range []int{0, 1, firstSegment - 1, firstSegment, firstSegment + 1, 3 * firstSegment, 5 * maxSegment} {
		for _, pushes := range []int{1, 7, 1000} {
			for _, pulls := range []int{1, 5, MaxPull} {
				in := NewInjector[item]()
				require.False(t, in.Ready())
				items := newItems(n)
				for rest := items; len(rest) > 0; {
					if pushes == 1 {
						require.True(t, in.Push(rest[0]))
						rest = rest[1:]
						continue
					}
					batch := rest[:min(pushes, len(rest))]
					require.Equal(t, len(batch), in.PushBatch(batch))
					rest = rest[len(batch):]
				}
				require.Equal(t, n, in.Len())
				require.Equal(t, n > 0, in.Ready())
				require.Equal(t, count(0, n), pullAll(t, in, pulls))
				require.Zero(t, in.Len())
				require.False(t, in.Ready())
			}
		}
	}
}

func TestNobodyPullsMoreThanMaxPull(t *testing.T) {
	in := NewInjector[item]()
	require.Equal(t, 1000, in.PushBatch(newItems(1000)))
	dst := make([]*item, 3*MaxPull)
	n, r := in.PullBatch(dst)
	require.Equal(t, Success, r)
	require.Equal(t, MaxPull, n)
	require.Nil(t, dst[MaxPull])

	n, r = in.PullBatch(nil)
	require.Zero(t, n)
	require.Equal(t, Empty, r, "a worker would look again at once")
	require.Equal(t, 1000-MaxPull, in.Len())
}

func TestInjectorRefusesNilWithAPanicThatSaysWhy(t *testing.T) {
	in := NewInjector[item]()
	require.PanicsWithValue(t, nilItem, func() { in.Push(nil) })
	require.PanicsWithValue(t, nilItem, func() { in.PushBatch([]*item{newItem(0), newItem(1), nil}) })
	require.Zero(t, in.Len(), "nothing of the batch was added")
	require.Zero(t, in.PushBatch(nil))
}

func TestSegmentsGrowUpToTheLargest(t *testing.T) {
	in := NewInjector[item]()
	require.Equal(t, 20_000, in.PushBatch(newItems(20_000)))
	var lengths []int
	for s := in.head.Load(); s != nil; s = s.next.Load() {
		lengths = append(lengths, len(s.slot))
	}
	require.Equal(t, []int{256, 512, 1024, 2048, 4096, 4096, 4096, 4096}, lengths)
	require.Equal(t, count(0, 20_000), pullAll(t, in, MaxPull))
	require.Same(t, in.tail.Load(), in.head.Load(), "the segments before were left")
}

func TestInjectorAllocatesNothingInSteadyState(t *testing.T) {
	in := NewInjector[item]()
	items := newItems(100)
	dst := make([]*item, MaxPull)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for _, it := range items {
			in.Push(it)
			in.Pop()
		}
		in.PushBatch(items)
		for _, r := in.PullBatch(dst); r == Success; _, r = in.PullBatch(dst) {
		}
		in.Len()
		in.Ready()
	}))
}

// Otherwise a pool that is fed in bursts from outside has the garbage collector run again and again.
func TestSlotsOfABurstServeTheNextOne(t *testing.T) {
	in := NewInjector[item]()
	items := newItems(5 * maxSegment)
	slots := map[*injected[item]]int{}
	for range 20 { // the collector may empty a sync.Pool, and with the race detector it drops some by itself
		require.Equal(t, len(items), in.PushBatch(items))
		for s := in.head.Load(); s != nil; s = s.next.Load() {
			slots[&s.slot[0]]++
		}
		require.Equal(t, len(items), in.Len())
		require.Equal(t, count(0, len(items)), pullAll(t, in, MaxPull))
		require.False(t, in.Ready())
		require.Zero(t, in.Len())
	}
	require.Greater(t, slices.Max(slices.Collect(maps.Values(slots))), 3)
}

// used returns an injector whose slots are in use for the second time, by the items, and the segment that they were in before.
func used(t *testing.T, items []*item) (in *Injector[item], before *segment[item]) {
	for range 100 {
		in = NewInjector[item]()
		before = newSegment[item](maxSegment)
		in.head.Store(before)
		in.tail.Store(before)
		in.PushBatch(newItems(maxSegment + 1))
		pullAll(t, in, MaxPull)
		in.PushBatch(newItems(maxSegment)) // as many as the second segment holds
		in.PushBatch(items)
		if &in.tail.Load().slot[0] == &before.slot[0] {
			for range maxSegment {
				_, r := in.Pop()
				require.Equal(t, Success, r)
			}
			return in, before
		}
	}
	require.Fail(t, "no slot was used again")
	return nil, nil
}

func TestLateConsumerTakesNothingFromSlotsThatAreUsedAgain(t *testing.T) {
	in, before := used(t, newItems(10))
	const end = maxSegment
	require.Equal(t, 10, before.ready(end, MaxPull, 1), "it had read deq before, and sees slots that look filled")
	require.False(t, before.deq.CompareAndSwap(end, end+10), "its claim")
	require.False(t, before.enq.CompareAndSwap(end, end+1), "that of a late producer")
	require.Equal(t, count(0, 10), pullAll(t, in, MaxPull))
}

// A worker that read the head before it moved on must not take the injector for empty, or for filled by what is to come.
func TestSegmentThatWasLeftIsNoEnd(t *testing.T) {
	in, before := used(t, newItems(1))
	in.head.Store(before)
	require.True(t, in.Ready())
	require.Equal(t, 1, in.Len())
	require.Equal(t, []int{0}, pullAll(t, in, 1))
	require.False(t, in.Ready())
}

// Its slots would not be free for their next round, and producers would leave segment after segment behind.
func TestSlotsThatAreNotEmptiedServeNobody(t *testing.T) {
	in := NewInjector[item]()
	s := newSegment[item](maxSegment)
	in.head.Store(s)
	in.tail.Store(s)
	in.PushBatch(newItems(maxSegment + 1))
	s.deq.Add(3) // a consumer has claimed the first three
	pullAll(t, in, MaxPull)
	require.NotSame(t, s, in.head.Load())
	require.Nil(t, in.spares.Get())
}

func TestInjectorForgetsWhatWasTaken(t *testing.T) {
	in := NewInjector[item]()
	for range 3 {
		pointers := pushWeakly(t, in, 3*firstSegment)
		for range firstSegment + 10 {
			in.Pop()
		}
		requireFreed(t, pointers[:firstSegment+10]) // at once
		require.NotNil(t, pointers[firstSegment+10].Value())
		pullAll(t, in, MaxPull)
		requireFreed(t, pointers)
	}
	runtime.KeepAlive(in)
}

func TestClosedInjectorRefusesAndGivesBackWhatItHas(t *testing.T) {
	for _, n := range []int{0, 1, firstSegment, 3 * firstSegment} {
		in := NewInjector[item]()
		in.PushBatch(newItems(n))
		for range 2 { // closing twice is closing once
			in.Close()
			require.False(t, in.Push(newItem(n)))
			require.Zero(t, in.PushBatch(newItems(1000)))
			require.Zero(t, in.PushBatch(nil))
		}
		require.Equal(t, n, in.Len())
		require.Equal(t, n > 0, in.Ready())
		require.Equal(t, count(0, n), pullAll(t, in, 10))
		require.False(t, in.Push(newItem(n)))
		require.False(t, in.Ready())
		require.Zero(t, in.Len())
		refused := newItem(n)
		require.Zero(t, testing.AllocsPerRun(100, func() { in.Push(refused) }))
	}
}

// A producer that was descheduled in the middle of a push keeps its slot. The items behind it are
// not lost, not taken out of order, and not reported as Empty.
func TestStalledProducerDelaysWhatIsBehindIt(t *testing.T) {
	for _, behind := range []int{0, 1, firstSegment - 2, firstSegment - 1, firstSegment, 3 * firstSegment} {
		t.Run(fmt.Sprint(behind), func(t *testing.T) {
			in := NewInjector[item]()
			items := newItems(behind + 2)
			require.True(t, in.Push(items[0]))
			finish := claim(in, items[1])
			require.Equal(t, behind, in.PushBatch(items[2:]), "it stops no other producer")
			require.Equal(t, behind+2, in.Len())

			require.True(t, in.Ready())
			dst := make([]*item, MaxPull)
			n, r := in.PullBatch(dst)
			require.Equal(t, Success, r)
			require.Equal(t, []int{0}, ids(dst[:n]...), "what is in front of it can be taken")

			for range 3 {
				n, r = in.PullBatch(dst)
				require.Equal(t, Retry, r)
				require.Zero(t, n)
				it, r := in.Pop()
				require.Equal(t, Retry, r)
				require.Nil(t, it)
				require.False(t, in.Ready(), "there is nothing that can be taken")
				require.Equal(t, behind+1, in.Len())
			}

			finish()
			require.True(t, in.Ready())
			require.Equal(t, count(1, behind+2), pullAll(t, in, 10))
		})
	}
}

// A stalled producer's claim came before Close, so its item must be found.
func TestStalledProducerIsNotLostByClose(t *testing.T) {
	in := NewInjector[item]()
	finish := claim(in, newItem(0))
	in.Close()
	_, r := in.Pop()
	require.Equal(t, Retry, r, "not Empty: the item is coming")
	require.Equal(t, 1, in.Len())
	finish()
	require.Equal(t, []int{0}, pullAll(t, in, 1))
	_, r = in.Pop()
	require.Equal(t, Empty, r)
}

// A consumer that was descheduled between its claim and emptying the slots blocks nobody: producers
// go on in the next segment, consumers behind the claimed slots.
func TestStalledConsumerBlocksNobody(t *testing.T) {
	in := NewInjector[item]()
	items := newItems(4 * firstSegment)
	require.Equal(t, 10, in.PushBatch(items[:10]))
	s := in.head.Load()
	require.Zero(t, s.deq.Load())
	s.deq.Add(3) // it has claimed the first three

	require.Equal(t, len(items)-10, in.PushBatch(items[10:]))
	require.NotSame(t, s, in.tail.Load())
	require.Equal(t, count(3, len(items)), pullAll(t, in, MaxPull))
	for i := range int64(3) { // and they are still its own
		require.Same(t, items[i], s.at(i).item)
	}
}

// If a producer has sealed a segment and is descheduled before it links the next one, the next
// goroutine links it.
func TestSealedSegmentIsContinuedByAnybody(t *testing.T) {
	in := NewInjector[item]()
	require.True(t, in.Push(newItem(0)))
	s := in.tail.Load()
	s.seal(s.enq.Load())
	require.Negative(t, s.enq.Load())
	require.Equal(t, 1, in.Len())
	require.True(t, in.Ready())
	require.Equal(t, []int{0}, pullAll(t, in, 1))
	_, r := in.Pop()
	require.Equal(t, Empty, r)

	require.True(t, in.Push(newItem(1)))
	require.NotSame(t, s, in.tail.Load())
	require.Equal(t, []int{1}, pullAll(t, in, 1))

	// A seal with an old enq does nothing.
	s = in.tail.Load()
	e := s.enq.Load()
	require.True(t, in.Push(newItem(2)))
	s.seal(e)
	require.Positive(t, s.enq.Load())
}

// Close may come between a producer's linking of the next segment and its moving of
// the tail.
func TestCloseFindsTheLastSegment(t *testing.T) {
	in := NewInjector[item]()
	require.True(t, in.Push(newItem(0)))
	s, last := in.tail.Load(), newSegment[item](firstSegment)
	s.seal(s.enq.Load())
	s.next.Store(last)

	in.Close()
	require.Same(t, last, in.tail.Load())
	require.False(t, in.Push(newItem(1)))
	require.Equal(t, []int{0}, pullAll(t, in, 1))
	require.False(t, in.Ready())
}

// Len of a whole injector is approximate, because it looks at each segment at another moment. Here
// there is one segment.
func TestInjectorLenIsOfOneMoment(t *testing.T) {
	in := NewInjector[item]()
	requireLenOfOne(t, in.Len, func(it *item) {
		in.Push(it)
		in.Pop()
	})
}

// Several producers push singly and in batches, and several consumers pull singly and in batches.
// Every item is taken once, and each consumer gets the items of each producer in their order.
func TestProducersOrderIsKeptAndNothingIsLost(t *testing.T) {
	for _, c := range []struct{ producers, consumers int }{{1, 1}, {1, 3}, {3, 1}, {2, 2}, {3, 3}} {
		t.Run(fmt.Sprintf("%d to %d", c.producers, c.consumers), func(t *testing.T) {
			in := NewInjector[item]()
			each := testutil.Stress(60_000)
			n := c.producers * each
			items := newItems(n)
			produced := testutil.Together(c.producers, func(who int) {
				r := NewFastRand(uint64(who))
				for mine := items[who*each : (who+1)*each]; len(mine) > 0; {
					k := min(int(r.N(2*MaxPull)), len(mine))
					if k%2 == 1 {
						k = 1
						in.Push(mine[0])
					} else {
						in.PushBatch(mine[:k])
					}
					mine = mine[k:]
				}
			})
			taken := make([][]*item, c.consumers)
			var done atomic.Bool
			var inconsistent atomic.Int64
			consumed := testutil.Together(c.consumers, func(who int) {
				r := NewFastRand(uint64(100 + who))
				mine := make([]*item, 0, n)
				var dst [2 * MaxPull]*item
				for turn := 1; ; turn++ {
					last := done.Load()
					k, result := in.PullBatch(dst[:1+r.N(uint32(len(dst)))])
					if (k > 0) != (result == Success) {
						inconsistent.Add(1)
					}
					mine = append(mine, dst[:k]...)
					if k == 0 {
						if result == Empty && last {
							break
						}
						giveWay(turn)
					}
				}
				taken[who] = mine
			})
			produced()
			done.Store(true)
			consumed()
			requireEachOnce(t, n, taken...)
			for _, mine := range taken {
				requireOrderOfEach(t, each, mine)
			}
			require.Zero(t, inconsistent.Load(), "items without Success, or Success without items")
			require.Zero(t, in.Len())
		})
	}
}

// requireOrderOfEach checks that the items of one producer, whose numbers have the
// same quotient by each, are in ascending order.
func requireOrderOfEach(t testing.TB, each int, taken []*item) {
	t.Helper()
	last := map[int]int{}
	for _, it := range taken {
		producer, number := int(it.id)/each, int(it.id)%each+1
		if number <= last[producer] {
			require.Failf(t, "out of order", "item %d of producer %d after item %d", number-1, producer, last[producer]-1)
		}
		last[producer] = number
	}
}

func TestLostRaceForAnInjectorIsNotReportedAsEmpty(t *testing.T) {
	for round := range testutil.Stress(50) {
		n := 100 * round
		in := NewInjector[item]()
		require.Equal(t, n, in.PushBatch(newItems(n)))
		requireNoFalseEmpty(t, n, in.Len, func(mine []*item) ([]*item, StealResult) {
			var dst [3]*item
			k, r := in.PullBatch(dst[:])
			return append(mine, dst[:k]...), r
		})
	}
}

// Close may come in the middle of anything. Every push that was accepted is found,
// and no push is accepted after Close has returned.
func TestCloseLosesNoAcceptedPush(t *testing.T) {
	const producers, each = 3, 2000
	for round := range testutil.Stress(200) {
		in := NewInjector[item]()
		items := newItems(producers * each)
		var accepted [producers]int
		produced := testutil.Together(producers, func(who int) {
			for mine := items[who*each : (who+1)*each]; len(mine) > 0; {
				k := min(1+(len(mine)+round)%50, len(mine))
				done := 1
				if k > 1 {
					done = in.PushBatch(mine[:k])
				} else if !in.Push(mine[0]) {
					done = 0
				}
				accepted[who] += done
				mine = mine[k:]
				if done < k {
					return
				}
			}
		})
		var taken [2][]*item
		var total atomic.Int64
		var closed atomic.Bool
		consumed := testutil.Together(len(taken), func(who int) {
			for turn := 1; ; turn++ {
				last := closed.Load()
				it, r := in.Pop()
				if r == Success {
					taken[who] = append(taken[who], it)
					total.Add(1)
				} else if r == Empty && last {
					return
				}
				giveWay(turn)
			}
		})
		for int(total.Load()) < round*37%(2*each) {
			runtime.Gosched()
		}
		in.Close()
		late := in.Push(newItem(0)) || in.PushBatch(newItems(2)) != 0
		produced()
		closed.Store(true)
		consumed()

		require.False(t, late, "a push was accepted after Close")
		found := slices.Concat(taken[:]...)
		times := make([]int, len(items))
		for _, it := range found {
			times[it.id]++
		}
		for id, times := range times {
			want := 0
			if id%each < accepted[id/each] {
				want = 1
			}
			if times != want {
				require.Failf(t, "lost, or found what was refused", "producer %d had %d accepted, and item %d was taken %d times",
					id/each, accepted[id/each], id%each, times)
			}
		}
		require.False(t, in.Ready())
		require.Zero(t, in.Len())
	}
}

func TestInjectedItemsStayAliveUnderConstantCollection(t *testing.T) {
	defer collectAllTheTime()()
	in := NewInjector[item]()
	n := testutil.Stress(100_000)
	var taken [2][]*item
	var done atomic.Bool
	consumed := testutil.Together(len(taken), func(who int) {
		var dst [10]*item
		for turn := 1; ; turn++ {
			last := done.Load()
			k, r := in.PullBatch(dst[:])
			taken[who] = append(taken[who], dst[:k]...)
			if r == Empty && last {
				return
			}
			giveWay(turn)
		}
	})
	for i := range n {
		in.Push(newItem(i))
	}
	done.Store(true)
	consumed()
	requireEachOnce(t, n, taken[:]...)
}

// A worker sleeps if Ready returns false. While there is an item, and no push before it is
// unfinished, Ready must return true, although the queue meanwhile moves from slot to slot and from
// segment to segment.
func TestReadyOverlooksNothing(t *testing.T) {
	in := NewInjector[item]()
	require.True(t, in.Push(newItem(0))) // one more than are ever taken
	var enough atomic.Bool
	wait := testutil.Together(1, func(int) {
		dst := make([]*item, MaxPull)
		for size := 1; !enough.Load(); size = size%(2*maxSegment) + 37 {
			in.PushBatch(newItems(size))
			for left := size; left > 0; {
				n, _ := in.PullBatch(dst[:min(left, MaxPull)])
				left -= n
			}
		}
	})
	overlooked := 0
	for range testutil.Stress(200_000) {
		if !in.Ready() {
			overlooked++
		}
	}
	enough.Store(true)
	wait()
	require.Zero(t, overlooked)
	require.Equal(t, 1, in.Len())
}

// FuzzInjectorAgainstASlice plays the operations that the bytes stand for on an
// injector and on a slice. Two bits of each byte choose the operation and six how
// many items.
func FuzzInjectorAgainstASlice(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 2, 3})
	f.Add([]byte{0xFD, 0xFD, 0xFD, 0xFD, 0xFD, 0xFE, 0xFE, 0xFD, 0xFE, 0xFE, 0x83, 0x10, 0x11, 0xFE})
	f.Add([]byte{0xFC, 0xFF, 0xFC, 0xFF, 0x12, 0x02, 0xFE})
	f.Fuzz(func(t *testing.T, program []byte) {
		in := NewInjector[item]()
		var model []*item
		closed := false
		pushed := 0
		for _, b := range program {
			n := int(b>>2) + 1
			switch b & 3 {
			case 0:
				for range n {
					it := newItem(pushed)
					pushed++
					require.Equal(t, !closed, in.Push(it))
					if !closed {
						model = append(model, it)
					}
				}
			case 1:
				batch := newItems(3 * n)
				for i := range batch {
					batch[i] = newItem(pushed)
					pushed++
				}
				if closed {
					require.Zero(t, in.PushBatch(batch))
					break
				}
				require.Equal(t, len(batch), in.PushBatch(batch))
				model = append(model, batch...)
			case 2:
				dst := make([]*item, 2*n)
				want := min(len(dst), MaxPull, len(model))
				got, r := in.PullBatch(dst)
				if len(model) == 0 {
					require.Equal(t, Empty, r)
					require.Zero(t, got)
					break
				}
				require.Equal(t, Success, r)
				require.LessOrEqual(t, got, want)
				require.NotZero(t, got)
				require.Equal(t, ids(model[:got]...), ids(dst[:got]...))
				model = model[got:]
			case 3:
				if n == 64 {
					in.Close()
					closed = true
					break
				}
				it, r := in.Pop()
				if len(model) == 0 {
					require.Equal(t, Empty, r)
					break
				}
				require.Equal(t, Success, r)
				require.Same(t, model[0], it)
				model = model[1:]
			}
			require.Equal(t, len(model), in.Len())
			require.Equal(t, len(model) > 0, in.Ready())
		}
		require.Equal(t, ids(model...), pullAll(t, in, MaxPull))
	})
}
