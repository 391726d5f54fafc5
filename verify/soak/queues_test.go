package soak

import (
	"flag"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/verify/claim"
)

var items = flag.Int64("items", 0, "how many items go through each queue; 0 is 2 million, 10^9 for a claim")

// # How items are counted
//
// Items go through a queue in epochs. An item is a number, and the queue holds a pointer to
// it; the numbers of an epoch lie in an array that is used again in the next one, so that
// 10^9 items need no more memory than a million. Each taker notes what it took in a bitmap
// of its own, which costs it no atomic operation, and at the end of an epoch the bitmaps are
// laid over one another: a bit that is nowhere is a lost item, and one that is there twice,
// in one bitmap or in two, a doubled one. A sum and an exclusive or of all the numbers that
// were taken are kept beside that, over all epochs.
const epochItems = 1 << 20

// numbered is the array of items: numbers[i] is i.
func numbered() []uint32 {
	numbers := make([]uint32, epochItems)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	return numbers
}

// taker notes what one goroutine took.
type taker struct {
	taken   []uint64 // a bit for each item of the epoch
	sum     uint64
	xor     uint32
	count   int64
	doubled int64
	_       pad.Line
}

func newTakers(n int) []taker {
	takers := make([]taker, n)
	for i := range takers {
		takers[i].taken = make([]uint64, epochItems/64)
	}
	return takers
}

func (k *taker) take(item uint32) {
	word, bit := &k.taken[item/64], uint64(1)<<(item%64)
	if *word&bit != 0 {
		k.doubled++
	}
	*word |= bit
	k.sum += uint64(item)
	k.xor ^= item
	k.count++
}

// endEpoch checks that each of the first n items was taken once, and forgets it.
func endEpoch(takers []taker, n int) error {
	var doubled, found int64
	for i := range takers {
		doubled += takers[i].doubled
	}
	for word := range takers[0].taken {
		var all uint64
		for i := range takers {
			w := takers[i].taken[word]
			doubled += int64(bits.OnesCount64(all & w))
			all |= w
			takers[i].taken[word] = 0
		}
		found += int64(bits.OnesCount64(all))
	}
	if doubled != 0 || found != int64(n) {
		return fmt.Errorf("%d items of %d were taken, %d of them more than once", found, n, doubled)
	}
	return nil
}

// endAll compares the sums with those of so many whole epochs, and a last one of rest
// items.
func endAll(takers []taker, epochs int64, rest int) error {
	var sum, count uint64
	var xor uint32
	for i := range takers {
		sum += takers[i].sum
		xor ^= takers[i].xor
		count += uint64(takers[i].count)
	}
	n := uint64(epochItems)
	wantSum := uint64(epochs)*(n*(n-1)/2) + uint64(rest)*uint64(rest-1)/2
	var wantXor uint32 // that of a whole epoch is 0
	for i := range rest {
		wantXor ^= uint32(i)
	}
	want := uint64(epochs)*n + uint64(rest)
	if sum != wantSum || xor != wantXor || count != want {
		return fmt.Errorf("%d items of %d; their sum is %d, not %d, and their exclusive or %d, not %d",
			count, want, sum, wantSum, xor, wantXor)
	}
	return nil
}

// order counts items that come out in another order than they went in.
type order struct {
	last  int64 // -1 at first
	wrong int64
}

func (o *order) next(item uint32) {
	if int64(item) <= o.last {
		o.wrong++
	}
	o.last = int64(item)
}

// mover has items go through a queue: fill puts the first n items of an epoch in, and may
// take some out as well; a drain, which has a goroutine of its own, takes some out and says
// whether there may be more. Both are given what they note that in.
type mover struct {
	fill   func(n int, k *taker)
	drains []func(k *taker) bool
	// settled is called between two epochs, when no goroutine is at the queue.
	settled func() error
}

// move has n items go through, in epochs.
func (m mover) move(t *testing.T, n int64) {
	t.Helper()
	takers := newTakers(1 + len(m.drains))
	defer hangsAfter(t, 10*time.Minute)()
	for left := n; left > 0; left -= epochItems {
		epoch := int(min(left, epochItems))
		var filled atomic.Bool
		var all sync.WaitGroup
		for i, drain := range m.drains {
			all.Go(func() {
				for {
					last := filled.Load() // before the look, or what was put in between would stay
					if drain(&takers[1+i]) {
						continue
					}
					if last {
						return
					}
					runtime.Gosched()
				}
			})
		}
		m.fill(epoch, &takers[0])
		filled.Store(true)
		all.Wait()
		require.NoError(t, m.settled())
		require.NoError(t, endEpoch(takers, epoch))
	}
	require.NoError(t, endAll(takers, n/epochItems, int(n%epochItems)))
	var stolen int64
	for _, k := range takers[1:] {
		stolen += k.count
	}
	require.NotZero(t, stolen, "nothing was taken by another goroutine")
	claim.Amount(t, "%s items, %s of them taken by other goroutines", claim.Count(n), claim.Count(stolen))
}

// hangsAfter ends the process if it is not stopped before.
func hangsAfter(t *testing.T, d time.Duration) (stop func()) {
	timer := time.AfterFunc(d, func() { panic(t.Name() + " hangs") })
	return func() { timer.Stop() }
}

const thieves = 2

// anyDeque is what Deque and PortableDeque have in common.
type anyDeque interface {
	Push(*uint32) bool
	Pop() *uint32
	Steal() (*uint32, heist.StealResult)
	Len() int
	Stats() heist.DequeStats
}

// throughDeque has an owner push bursts and pop some of them again, and thieves that steal. What a
// thief steals must be younger than what it stole before, because it takes the oldest. What was
// popped never comes again.
func throughDeque(t *testing.T, d anyDeque) {
	numbers := numbered()
	var orders [thieves]order
	m := mover{fill: func(n int, k *taker) {
		for i := range orders {
			orders[i].last = -1
		}
		random := mix(uint64(n))
		for i := 0; i < n; {
			random = mix(random)
			for burst := min(n-i, 1+int(random%128)); burst > 0; burst-- {
				d.Push(&numbers[i])
				i++
			}
			for pops := random >> 32 % 128; pops > 0; pops-- {
				item := d.Pop()
				if item == nil {
					break
				}
				k.take(*item)
			}
		}
		for item := d.Pop(); item != nil; item = d.Pop() {
			k.take(*item)
		}
	}}
	for i := range orders {
		m.drains = append(m.drains, func(k *taker) bool {
			item, r := d.Steal()
			if r == heist.Success {
				orders[i].next(*item)
				k.take(*item)
			}
			return r != heist.Empty
		})
	}
	m.settled = func() error {
		for _, o := range orders {
			if o.wrong > 0 {
				return fmt.Errorf("%d steals took something older than the one before", o.wrong)
			}
		}
		if s := d.Stats(); s.Pushes != s.Pops+s.Steals || d.Len() != 0 {
			return fmt.Errorf("%d items are left in an empty deque, by its counters %+v", d.Len(), s)
		}
		return nil
	}
	m.move(t, amount(*items, 2_000_000, 2_000_000, 1_000_000_000))
}

func TestDequeLosesAndDoublesNothing(t *testing.T) {
	claim.That(t, "Deque loses no item, takes none twice, and is robbed of the oldest first",
		"an owner and two thieves; bitmaps of what each took, sums, order, counters")
	d, err := heist.NewDeque[uint32](heist.DequeConfig{Capacity: 16})
	require.NoError(t, err)
	throughDeque(t, d)
}

func TestPortableDequeLosesAndDoublesNothing(t *testing.T) {
	claim.That(t, "PortableDeque loses no item, takes none twice, and is robbed of the oldest first",
		"an owner and two thieves; bitmaps of what each took, sums, order, counters")
	d, err := heist.NewPortableDeque[uint32](heist.DequeConfig{Capacity: 16})
	require.NoError(t, err)
	throughDeque(t, d)
}

// TestRingLosesAndDoublesNothing has an owner that pushes one by one and in batches, and pops, and
// thieves that move half of the ring to their own and empty that. All take from the same end, so
// each gets its items in order.
func TestRingLosesAndDoublesNothing(t *testing.T) {
	claim.That(t, "Ring loses no item, takes none twice, and is first in, first out for everybody",
		"an owner and two thieves that steal halves; bitmaps of what each took, sums, order")
	numbers := numbered()
	pointers := make([]*uint32, epochItems)
	for i := range pointers {
		pointers[i] = &numbers[i]
	}
	ring, err := heist.NewRing[uint32](0, nil)
	require.NoError(t, err)
	var orders [1 + thieves]order
	rings := []*heist.Ring[uint32]{ring}
	m := mover{fill: func(n int, k *taker) {
		for i := range orders {
			orders[i].last = -1
		}
		pop := func() bool {
			item := ring.Pop()
			if item != nil {
				orders[0].next(*item)
				k.take(*item)
			}
			return item != nil
		}
		random := mix(uint64(n))
		for i := 0; i < n; {
			random = mix(random)
			burst := pointers[i:min(n, i+1+int(random%128))]
			if random>>63 == 0 {
				i += ring.PushBatch(burst)
			} else {
				for _, item := range burst {
					if !ring.Push(item) {
						break
					}
					i++
				}
			}
			for pops := random >> 32 % 128; pops > 0 && pop(); pops-- {
			}
		}
		for pop() {
		}
	}}
	for i := range thieves {
		own, err := heist.NewRing[uint32](0, nil)
		require.NoError(t, err)
		rings = append(rings, own)
		m.drains = append(m.drains, func(k *taker) bool {
			item, n, r := ring.StealInto(own)
			for ; item != nil; item = own.Pop() {
				orders[1+i].next(*item)
				k.take(*item)
				n--
			}
			if n != 0 {
				orders[1+i].wrong++
			}
			return r != heist.Empty
		})
	}
	m.settled = func() error {
		for _, o := range orders {
			if o.wrong > 0 {
				return fmt.Errorf("%d items came in another order than they went in, or in another number than was said", o.wrong)
			}
		}
		for _, r := range rings {
			if r.Len() != 0 {
				return fmt.Errorf("%d items are left in an empty ring", r.Len())
			}
		}
		return nil
	}
	m.move(t, amount(*items, 2_000_000, 2_000_000, 1_000_000_000))
}

// TestInjectorLosesAndDoublesNothing has two producers, of which each pushes its half of
// an epoch in order, one by one and in batches, and two consumers. A consumer gets the
// items of a producer in that order.
func TestInjectorLosesAndDoublesNothing(t *testing.T) {
	claim.That(t, "Injector loses no item, takes none twice, and keeps each producer's order",
		"two producers and two consumers, one by one and in batches; bitmaps of what each took, sums, order")
	numbers := numbered()
	pointers := make([]*uint32, epochItems)
	for i := range pointers {
		pointers[i] = &numbers[i]
	}
	in := heist.NewInjector[uint32]()
	const producers, consumers = 2, 2
	var orders [consumers][producers]order
	produce := func(items []*uint32) {
		random := mix(uint64(len(items)))
		for len(items) > 0 {
			random = mix(random)
			burst := min(len(items), 1+int(random%128))
			if random>>61 == 0 {
				burst = 1
				in.Push(items[0])
			} else {
				in.PushBatch(items[:burst])
			}
			items = items[burst:]
			for in.Len() > 1<<16 { // lest the queue grows to the whole epoch
				runtime.Gosched()
			}
		}
	}
	m := mover{fill: func(n int, _ *taker) {
		for c := range orders {
			for p := range orders[c] {
				orders[c][p].last = -1
			}
		}
		var all sync.WaitGroup
		all.Go(func() { produce(pointers[:n/2]) })
		all.Go(func() { produce(pointers[n/2 : n]) })
		all.Wait()
	}}
	var half atomic.Int64
	for c := range consumers {
		batch := make([]*uint32, heist.MaxPull)
		m.drains = append(m.drains, func(k *taker) bool {
			n, r := in.PullBatch(batch)
			for _, item := range batch[:n] {
				producer := 0
				if int64(*item) >= half.Load() {
					producer = 1
				}
				orders[c][producer].next(*item)
				k.take(*item)
			}
			return r != heist.Empty
		})
	}
	fill := m.fill
	m.fill = func(n int, k *taker) {
		half.Store(int64(n / 2))
		fill(n, k)
	}
	m.settled = func() error {
		for _, of := range orders {
			for _, o := range of {
				if o.wrong > 0 {
					return fmt.Errorf("%d items of a producer came in another order than they went in", o.wrong)
				}
			}
		}
		if in.Len() != 0 || in.Ready() {
			return fmt.Errorf("%d items are left in an empty injector", in.Len())
		}
		return nil
	}
	m.move(t, amount(*items, 2_000_000, 2_000_000, 1_000_000_000))
}

func TestLostAndDoubledItemsAreFound(t *testing.T) {
	claim.That(t, "the counting of items can fail", "bitmaps with an item lost, doubled by one taker, doubled by two, and one taken for another")
	takeAll := func(takers []taker) {
		for i := range epochItems {
			takers[i%2].take(uint32(i))
		}
	}
	wrong := 0
	for name, spoil := range map[string]func(takers []taker){
		"lost":              func(takers []taker) { takers[1].taken[3] &^= 1 << 5 },
		"doubled by itself": func(takers []taker) { takers[0].take(64) },
		"doubled by two":    func(takers []taker) { takers[1].take(64) },
	} {
		takers := newTakers(2)
		takeAll(takers)
		spoil(takers)
		require.Error(t, endEpoch(takers, epochItems), name)
		wrong++
	}
	for name, spoil := range map[string]func(takers []taker){
		"one more":           func(takers []taker) { takers[0].take(0) },
		"one for another":    func(takers []taker) { takers[0].sum++ },
		"two for two others": func(takers []taker) { takers[0].xor ^= 3 },
	} {
		takers := newTakers(2)
		takeAll(takers)
		require.NoError(t, endEpoch(takers, epochItems))
		require.NoError(t, endAll(takers, 1, 0))
		spoil(takers)
		require.Error(t, endAll(takers, 1, 0), name)
		wrong++
	}
	claim.Amount(t, "%s faults", claim.Count(wrong))
}
