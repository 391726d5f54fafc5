package suites

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/peers"
)

// dequeSuite measures the queues of the root package by themselves, without a
// scheduler around them.
//
// In the cases that take a few nanoseconds every implementation has a loop of its
// own. A common loop, over an interface or a type parameter, would make every
// call indirect: that costs as much as the operation itself, and prevents the
// inlining that is half of the difference between Go and assembly.
func dequeSuite() runner.Suite {
	return runner.Suite{
		Name:    "deque",
		Crosses: true,
		About:   "the queues by themselves",
		Cases: []runner.Case{
			pushPopCase(),
			stealCase(),
			stealContendedCase(),
			ringPushPopCase(),
			ringStealHalfCase(),
			injectorCase(),
		},
	}
}

const (
	// burst is how many items are pushed before the first is popped.
	burst = 64
	// depth is how many items a deque holds before it is stolen empty: enough to make
	// the clock's share small, few enough for the first-level cache.
	depth = 2048
)

// pairs is a lap of many bursts. Each pushes all items and pops them.
func pairs(env runner.Env, burstOf func(items []item) error) lap {
	items, bursts := newItems(burst), env.Size(1000, 10)
	return func() (runner.Lap, error) {
		return timed(bursts*burst, func() error {
			for range bursts {
				if err := burstOf(items); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// heistAsm is the implementation heist-asm of a case. Start gets the deque.
func heistAsm(start func(runner.Env, *heist.Deque[item]) lap) runner.Impl {
	return lapped("heist-asm", func(env runner.Env) (lap, func(), error) {
		if !heist.Assembly {
			return nil, nil, runner.Missing{Reason: "this build has no assembly (purego, race or architecture)"}
		}
		d, err := heist.NewDeque[item](heist.DequeConfig{Capacity: depth})
		if err != nil {
			return nil, nil, err
		}
		return start(env, d), nil, nil
	})
}

// heistGo is the implementation heist-go of a case. Start gets the deque.
func heistGo(start func(runner.Env, *heist.PortableDeque[item]) lap) runner.Impl {
	return lapped("heist-go", func(env runner.Env) (lap, func(), error) {
		d, err := heist.NewPortableDeque[item](heist.DequeConfig{Capacity: depth})
		if err != nil {
			return nil, nil, err
		}
		return start(env, d), nil, nil
	})
}

// plain is an implementation that needs nothing but its lap.
func plain(name string, start func(runner.Env) lap) runner.Impl {
	return lapped(name, func(env runner.Env) (lap, func(), error) { return start(env), nil, nil })
}

// wrongItem says that got came instead of item number want.
func wrongItem(got *item, want int) error {
	n := 0 // no item
	if got != nil {
		n = got.n
	}
	return runner.Wrong{What: "the number of the item taken", Got: n, Want: want}
}

// pushPopCase measures an owner alone: 64 items pushed, then popped, over and
// over, in ns per push and pop together. Nothing is stolen; steal-contended has the
// cost of a pop beside thieves. The order of the items is checked: last in first
// out, but first in first out for the channel, which has no other order.
func pushPopCase() runner.Case {
	return runner.Case{
		Name:    "push-pop",
		About:   "push 64 items and pop them again, no thieves; time per push and pop",
		Metrics: lower("ns/op"),
		Workers: single,
		Impls: []runner.Impl{
			heistAsm(func(env runner.Env, d *heist.Deque[item]) lap {
				return pairs(env, func(items []item) error {
					for i := range items {
						d.Push(&items[i])
					}
					for i := len(items) - 1; i >= 0; i-- {
						if got := d.Pop(); got != &items[i] {
							return wrongItem(got, i+1)
						}
					}
					return nil
				})
			}),
			heistGo(func(env runner.Env, d *heist.PortableDeque[item]) lap {
				return pairs(env, func(items []item) error {
					for i := range items {
						d.Push(&items[i])
					}
					for i := len(items) - 1; i >= 0; i-- {
						if got := d.Pop(); got != &items[i] {
							return wrongItem(got, i+1)
						}
					}
					return nil
				})
			}),
			plain("mutex", func(env runner.Env) lap {
				d := newLocked(depth)
				return pairs(env, func(items []item) error {
					for i := range items {
						d.Push(&items[i])
					}
					for i := len(items) - 1; i >= 0; i-- {
						if got := d.Pop(); got != &items[i] {
							return wrongItem(got, i+1)
						}
					}
					return nil
				})
			}),
			plain("channel", func(env runner.Env) lap {
				d := make(buffered, depth)
				return pairs(env, func(items []item) error {
					for i := range items {
						d.Push(&items[i])
					}
					for i := range items {
						if got := d.Pop(); got != &items[i] {
							return wrongItem(got, i+1)
						}
					}
					return nil
				})
			}),
			peers.Crossbeam(lower("ns/op")),
		},
	}
}

// stealCase measures a thief alone: a deque is filled, untimed, and stolen empty,
// in ns per item. Everything is in the thief's cache and no other thread is there,
// so this is the least cost of a steal. The order is checked: oldest first.
func stealCase() runner.Case {
	steals := func(env runner.Env, push func(*item) bool, empty func(items []item) error) lap {
		items := newItems(env.Size(depth, 100))
		return func() (runner.Lap, error) {
			for i := range items {
				push(&items[i])
			}
			return timed(len(items), func() error { return empty(items) })
		}
	}
	return runner.Case{
		Name:    "steal",
		About:   "steal a full deque empty, no contention; time per item",
		Metrics: lower("ns/steal"),
		Workers: single,
		Impls: []runner.Impl{
			heistAsm(func(env runner.Env, d *heist.Deque[item]) lap {
				return steals(env, d.Push, func(items []item) error {
					for i := range items {
						if got, _ := d.Steal(); got != &items[i] {
							return wrongItem(got, i+1)
						}
					}
					return nil
				})
			}),
			heistGo(func(env runner.Env, d *heist.PortableDeque[item]) lap {
				return steals(env, d.Push, func(items []item) error {
					for i := range items {
						if got, _ := d.Steal(); got != &items[i] {
							return wrongItem(got, i+1)
						}
					}
					return nil
				})
			}),
			plain("mutex", func(env runner.Env) lap {
				d := newLocked(depth)
				return steals(env, d.Push, func(items []item) error {
					for i := range items {
						if got, _ := d.Steal(); got != &items[i] {
							return wrongItem(got, i+1)
						}
					}
					return nil
				})
			}),
			plain("channel", func(env runner.Env) lap {
				d := make(buffered, depth)
				return steals(env, d.Push, func(items []item) error {
					for i := range items {
						if got, _ := d.Steal(); got != &items[i] {
							return wrongItem(got, i+1)
						}
					}
					return nil
				})
			}),
			peers.Crossbeam(lower("ns/steal")),
		},
	}
}

// stealContendedCase measures an owner and thieves at once, in ns of elapsed time per
// item. The owner pushes 64 items and pops 32, again and again, while the thieves, one
// less than there are workers, steal all the time, until every item is taken. Each item
// must be taken once. The thieves' share is chance; it is printed below the table, since
// an item that changes caches costs more than one that stays. All implementations are
// called through an interface.
func stealContendedCase() runner.Case {
	contended := func(env runner.Env, d stealable) lap {
		items := newItems(env.Size(100_000, 1000))
		return func() (runner.Lap, error) { return contend(d, items, env.Workers-1) }
	}
	return runner.Case{
		Name:    "steal-contended",
		About:   "an owner pushes and pops while thieves steal; time per item taken",
		Metrics: lower("ns/item"),
		Workers: atLeastTwo,
		Impls: []runner.Impl{
			heistAsm(func(env runner.Env, d *heist.Deque[item]) lap { return contended(env, d) }),
			heistGo(func(env runner.Env, d *heist.PortableDeque[item]) lap { return contended(env, d) }),
			plain("mutex", func(env runner.Env) lap { return contended(env, newLocked(depth)) }),
			plain("channel", func(env runner.Env) lap { return contended(env, make(buffered, depth)) }),
			peers.Crossbeam(lower("ns/item")),
		},
	}
}

// stealable is the interface of steal-contended to a queue.
type stealable interface {
	Push(*item) bool
	Pop() *item
	Steal() (*item, heist.StealResult)
}

// taken is what one goroutine took. Only that goroutine writes it, and it has its
// cache lines to itself: 128 bytes, since CPUs fetch pairs of lines together.
type taken struct {
	count, sum int
	_          [128 - 2*unsafe.Sizeof(int(0))]byte
}

func (l *taken) add(it *item) {
	l.count++
	l.sum += it.n
}

func contend(d stealable, items []item, thieves int) (runner.Lap, error) {
	takers := make([]taken, 1+thieves)
	var allPushed atomic.Bool
	var ready, done sync.WaitGroup
	ready.Add(thieves)
	for i := range thieves {
		done.Go(func() {
			ready.Done()
			thieve(d, &takers[1+i], &allPushed)
		})
	}
	ready.Wait()

	start := time.Now()
	own := &takers[0]
	for i := range items {
		for !d.Push(&items[i]) { // false from a full channel
			if it := d.Pop(); it != nil {
				own.add(it)
			}
		}
		if (i+1)%burst == 0 {
			popUpTo(burst/2, d, own)
		}
	}
	popUpTo(len(items), d, own)
	allPushed.Store(true)
	done.Wait()
	took := time.Since(start)

	var total taken
	for _, l := range takers {
		total.count += l.count
		total.sum += l.sum
	}
	n := len(items)
	if err := runner.Check("the number of items taken", total.count, n); err != nil {
		return runner.Lap{}, err
	}
	stolen := 100 * float64(n-own.count) / float64(n)
	return runner.Lap{Ops: n, Took: took, Detail: fmt.Sprintf("%.0f%% of the items were stolen\n", stolen)},
		runner.Check("the sum of the items taken", total.sum, n*(n+1)/2)
}

func popUpTo(n int, d stealable, own *taken) {
	for range n {
		it := d.Pop()
		if it == nil {
			return
		}
		own.add(it)
	}
}

// thieve steals until everything has been pushed and the queue is empty. It reads
// allPushed first: an item may be pushed right after the queue was empty.
func thieve(d stealable, l *taken, allPushed *atomic.Bool) {
	for {
		over := allPushed.Load()
		it, result := d.Steal()
		switch {
		case result == heist.Success:
			l.add(it)
		case result == heist.Empty && over:
			return
		case result == heist.Empty:
			runtime.Gosched()
		}
	}
}

// ringCapacity is the size of the rings: that of a P's run queue in Go's own
// scheduler.
const ringCapacity = 256

func newRing() (*heist.Ring[item], error) {
	return heist.NewRing(ringCapacity, heist.NewInjector[item]())
}

// ringPushPopCase measures the owner of a run queue alone: 64 items pushed, then
// popped, first in first out, in ns per push and pop together. The ring never
// fills, so its overflow is not measured.
func ringPushPopCase() runner.Case {
	return runner.Case{
		Name:    "ring-push-pop",
		About:   "push 64 items to a run queue and pop them again; time per push and pop",
		Metrics: lower("ns/op"),
		Workers: single,
		Impls: []runner.Impl{
			lapped("heist", func(env runner.Env) (lap, func(), error) {
				r, err := newRing()
				return pairs(env, func(items []item) error {
					for i := range items {
						r.Push(&items[i])
					}
					for i := range items {
						if got := r.Pop(); got != &items[i] {
							return wrongItem(got, i+1)
						}
					}
					return nil
				}), nil, err
			}),
			plain("mutex", func(env runner.Env) lap {
				r := newLocked(ringCapacity)
				return pairs(env, func(items []item) error {
					for i := range items {
						r.Push(&items[i])
					}
					for i := range items {
						if got, _ := r.Steal(); got != &items[i] {
							return wrongItem(got, i+1)
						}
					}
					return nil
				})
			}),
			plain("channel", func(env runner.Env) lap {
				r := make(buffered, ringCapacity)
				return pairs(env, func(items []item) error {
					for i := range items {
						r.Push(&items[i])
					}
					for i := range items {
						if got := r.Pop(); got != &items[i] {
							return wrongItem(got, i+1)
						}
					}
					return nil
				})
			}),
		},
	}
}

// ringStealHalfCase measures a thief that takes half of another's run queue, in ns
// per item moved: of 256 items the steal returns one and puts 127 into the thief's
// own queue. Filling the queues, and emptying and checking both afterwards, is
// not timed. There is no contention. A channel has no such operation, so its items
// are moved one by one.
func ringStealHalfCase() runner.Case {
	return runner.Case{
		Name:    "ring-steal-half",
		About:   "steal half of a full run queue; time per item moved",
		Metrics: lower("ns/item"),
		Workers: single,
		Impls: []runner.Impl{
			lapped("heist", func(env runner.Env) (lap, func(), error) {
				r, err := newHalves(env, newRing, func(r *heist.Ring[item]) *item { return r.Pop() })
				if err != nil {
					return nil, nil, err
				}
				return r.lap(
					func(r *heist.Ring[item], it *item) { r.Push(it) },
					func(i int) (*item, int) {
						first, n, _ := r.victims[i].StealInto(r.thieves[i])
						return first, n
					}), nil, nil
			}),
			lapped("mutex", func(env runner.Env) (lap, func(), error) {
				r, err := newHalves(env,
					func() (*locked, error) { return newLocked(ringCapacity), nil },
					func(r *locked) *item { it, _ := r.Steal(); return it })
				buffer := make([]*item, ringCapacity)
				return r.lap(
					func(r *locked, it *item) { r.Push(it) },
					func(i int) (*item, int) { return r.victims[i].StealInto(r.thieves[i], buffer) },
				), nil, err
			}),
			lapped("channel", func(env runner.Env) (lap, func(), error) {
				r, err := newHalves(env,
					func() (buffered, error) { return make(buffered, ringCapacity), nil }, buffered.Pop)
				return r.lap(
					func(r buffered, it *item) { r.Push(it) },
					func(i int) (*item, int) {
						victim, thief := r.victims[i], r.thieves[i]
						n := (len(victim) + 1) / 2
						first := <-victim
						for range n - 1 {
							thief <- <-victim
						}
						return first, n
					}), nil, err
			}),
		},
	}
}

// halves are pairs of queues of one kind, a victim and a thief. There are many, so
// that the clock is read once for thousands of items.
type halves[Q any] struct {
	items            []item
	victims, thieves []Q
	pop              func(Q) *item
}

func newHalves[Q any](env runner.Env, newQueue func() (Q, error), pop func(Q) *item) (*halves[Q], error) {
	pairs := env.Size(64, 2)
	h := &halves[Q]{items: newItems(ringCapacity), pop: pop}
	for range pairs {
		victim, err := newQueue()
		if err != nil {
			return nil, err
		}
		thief, err := newQueue()
		if err != nil {
			return nil, err
		}
		h.victims, h.thieves = append(h.victims, victim), append(h.thieves, thief)
	}
	return h, nil
}

// lap steals once from every victim. Steal moves half of the i-th victim's items
// to the i-th thief and returns the first and their number.
func (h *halves[Q]) lap(push func(Q, *item), steal func(i int) (*item, int)) lap {
	const half = ringCapacity / 2
	firsts := make([]*item, len(h.victims))
	counts := make([]int, len(h.victims))
	return func() (runner.Lap, error) {
		for _, victim := range h.victims {
			for i := range h.items {
				push(victim, &h.items[i])
			}
		}
		start := time.Now()
		for i := range h.victims {
			firsts[i], counts[i] = steal(i)
		}
		l := runner.Lap{Ops: half * len(h.victims), Took: time.Since(start)}
		for i := range h.victims {
			if err := runner.Check("the number of items stolen", counts[i], half); err != nil {
				return l, err
			}
			if firsts[i] != &h.items[0] {
				return l, wrongItem(firsts[i], 1)
			}
			if err := h.drain(h.thieves[i], 1, half); err != nil {
				return l, err
			}
			if err := h.drain(h.victims[i], half, ringCapacity); err != nil {
				return l, err
			}
		}
		return l, nil
	}
}

// drain empties q, which must hold the items from..to-1 in order.
func (h *halves[Q]) drain(q Q, from, to int) error {
	for i := from; i < to; i++ {
		if got := h.pop(q); got != &h.items[i] {
			return wrongItem(got, i+1)
		}
	}
	if left := h.pop(q); left != nil {
		return fmt.Errorf("left item %d in a queue that should be empty", left.n)
	}
	return nil
}

// injectorCase measures the queue between a service and its workers, in ns of elapsed
// time per item: one goroutine pushes item after item while another pulls them in
// batches of 64. With one producer the order is checked. How many batches are full is
// chance. A channel gives one item at a time; it has room for all, so that its
// producer never waits.
func injectorCase() runner.Case {
	return runner.Case{
		Name:    "injector",
		About:   "one goroutine pushes, another pulls in batches of 64; time per item",
		Metrics: lower("ns/item"),
		Workers: func(int) []int { return []int{2} },
		Impls: []runner.Impl{
			plain("heist", func(env runner.Env) lap {
				q := heist.NewInjector[item]()
				return relay(env,
					func(items []item) {
						for i := range items {
							q.Push(&items[i])
						}
					},
					func(dst []*item) int { n, _ := q.PullBatch(dst); return n })
			}),
			plain("mutex", func(env runner.Env) lap {
				q := newLocked(depth)
				return relay(env,
					func(items []item) {
						for i := range items {
							q.Push(&items[i])
						}
					},
					q.PullBatch)
			}),
			plain("channel", func(env runner.Env) lap {
				q := make(buffered, relayed)
				return relay(env,
					func(items []item) {
						for i := range items {
							q <- &items[i]
						}
					},
					func(dst []*item) int { dst[0] = <-q; return 1 })
			}),
		},
	}
}

// relayed is how many items pass through the injector in a lap.
const relayed = 1 << 16

func relay(env runner.Env, push func([]item), pull func(dst []*item) int) lap {
	items := newItems(env.Size(relayed, 1000))
	batch := make([]*item, 64)
	return func() (runner.Lap, error) {
		return timed(len(items), func() error {
			var producer sync.WaitGroup
			producer.Go(func() { push(items) })
			defer producer.Wait()
			deadline := time.Now().Add(patience)
			for next := 0; next < len(items); {
				n := pull(batch)
				for _, it := range batch[:n] {
					if it != &items[next] {
						return wrongItem(it, next+1)
					}
					next++
				}
				if n > 0 {
					continue
				}
				if time.Now().After(deadline) {
					return runner.Check("the number of items pulled", next, len(items))
				}
				runtime.Gosched()
			}
			return nil
		})
	}
}
