package heist

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist/internal/pad"
)

// # The injector
//
// An injector is a list of segments. A segment is a bounded queue for any number
// of producers and consumers in a circular array (Vyukov's): two indices that only
// grow, enq and deq, and in each slot a sequence number that says what the slot is
// ready for. Index i lives in slot i modulo the segment's length n:
//
//	seq = i      free: the producer that raises enq past i may fill it
//	seq = i+1    filled: the consumer that raises deq past i may empty it
//	seq = i+n    free for index i+n, one round later
//
// A producer counts the free slots from enq on, claims them with one CAS on enq and
// fills them in order. A consumer counts the filled slots from deq on, claims them with
// one CAS on deq and empties them. Neither claims a slot that is not ready, so neither
// ever waits for the other. The slots are reused, so a queue that is drained as fast as
// it is filled allocates nothing.
//
// When the slot at enq is not free, the segment is full. The producer seals it, by a
// bit in enq that makes every further claim fail, and then links the next segment
// behind it. The order matters: once an item is in the next segment, no item can enter
// this one any more, so the items of one producer stay in order. A consumer moves on to
// the next segment when this one is sealed and empty.
//
// # Slots are used again
//
// A burst leaves segments behind, and the next burst needs as many. At 16 bytes an item,
// a pool that is fed from outside would have the garbage collector run again and again. So
// the consumer that moves the head away from a segment looks whether all slots are free, and
// gives them to a new segment, whose indices go on where the old ones ended. The new one
// lies in a sync.Pool until a producer needs a segment, or the collector frees it.
//
// Only the slots are used again, and not the old segment, so the compare-and-swaps on head,
// tail and next never take a segment for another one. Some goroutines may still be in
// the old segment. A producer claims nothing there, because enq stays sealed. A
// consumer sees a slot that is filled for the index at which the old segment ended, once the
// new one is in use. So the consumer that leaves a segment sets deq to left first, which
// is past all indices, and the late one's claim fails.
//
// # The end
//
// Closing seals the last segment and links a segment behind it that was sealed from the
// start. A push has either claimed its slot before, and its item will be found, or it
// is refused.
//
// The list of bounded queues is the idea of LCRQ (Morrison and Afek, PPoPP 2013). A
// mutex around a growing ring is simpler. It was rejected because parking on a
// contended sync.Mutex costs a worker that is locked to its thread two thread switches.

const (
	firstSegment = 256  // 4 KiB
	maxSegment   = 4096 // 64 KiB

	// sealed is the sign bit of enq.
	sealed = -1 << 63

	// left is deq of a segment that consumers have left behind.
	left = math.MaxInt64

	// MaxPull is the most items that [Injector.PullBatch] takes at once. It is the
	// batch size of blitz-io, which shares the cost of a claim without emptying the
	// queue for the other workers.
	MaxPull = 64
)

// Injector is an unbounded queue of pointers, first in first out, for any number of
// producers and consumers. The items of one producer come out in the order of their
// pushes. No operation blocks.
//
// Create it with [NewInjector]. It must not be copied.
type Injector[T any] struct {
	_        pad.Line
	terminal *segment[T] // constant: the end of a closed injector
	spares   sync.Pool   // of empty *segment[T], for producers; consumers put them in

	_    pad.Line
	head atomic.Pointer[segment[T]] // consumers, by CAS
	_    pad.Line
	tail atomic.Pointer[segment[T]] // producers, by CAS
	_    pad.Line
}

type segment[T any] struct {
	_    pad.Line
	mask int64                      // constant
	slot []injected[T]              // constant slice
	next atomic.Pointer[segment[T]] // written once, by the first producer to link, or by Close
	_    pad.Line
	enq  atomic.Int64 // producers; negative once sealed
	_    pad.Line
	deq  atomic.Int64 // consumers
	_    pad.Line
}

// injected is a slot. The goroutine that claimed the index that seq stands for owns
// item; storing seq hands it on.
type injected[T any] struct {
	seq  atomic.Int64
	item *T
}

func newSegment[T any](n int64) *segment[T] {
	s := &segment[T]{mask: n - 1, slot: make([]injected[T], n)}
	for i := range s.slot {
		s.slot[i].seq.Store(int64(i))
	}
	return s
}

func (s *segment[T]) at(i int64) *injected[T] { return &s.slot[i&s.mask] }

// NewInjector returns an empty injector.
func NewInjector[T any]() *Injector[T] {
	in := &Injector[T]{terminal: new(segment[T])}
	in.terminal.enq.Store(sealed)
	s := newSegment[T](firstSegment)
	in.head.Store(s)
	in.tail.Store(s)
	return in
}

// Push adds item and returns true, or returns false if the injector is closed. A nil
// item panics.
//
// Cost: one compare-and-swap and one sequentially consistent store; an allocation
// only when a segment is full, and then mostly a small one. It ends with a full fence, see [Ring.Push].
func (in *Injector[T]) Push(item *T) bool {
	if item == nil {
		panic(nilItem)
	}
	for {
		s := in.tail.Load()
		e := s.enq.Load()
		if e < 0 {
			if !in.advance(s) {
				return false
			}
			continue
		}
		slot := s.at(e)
		switch ready := slot.seq.Load() - e; {
		case ready == 0:
			if s.enq.CompareAndSwap(e, e+1) {
				slot.item = item
				slot.seq.Store(e + 1)
				return true
			}
		case ready < 0:
			s.seal(e)
		}
		// ready > 0: another producer was faster.
	}
}

// PushBatch adds the items in order and returns how many of them it added: all, unless
// the injector is closed. Items of other producers can come in between only where a
// segment has no more room. A nil item panics before any item is added.
//
// Cost: one compare-and-swap for the batch, or for each segment that it touches.
func (in *Injector[T]) PushBatch(items []*T) int {
	for _, item := range items {
		if item == nil {
			panic(nilItem)
		}
	}
	done := 0
	for done < len(items) {
		s := in.tail.Load()
		e := s.enq.Load()
		if e < 0 {
			if !in.advance(s) {
				break
			}
			continue
		}
		rest := items[done:]
		n := s.ready(e, len(rest), 0)
		if n == 0 {
			if s.at(e).seq.Load() < e {
				s.seal(e)
			}
			continue
		}
		if !s.enq.CompareAndSwap(e, e+int64(n)) {
			continue
		}
		for i, item := range rest[:n] {
			slot := s.at(e + int64(i))
			slot.item = item
			slot.seq.Store(e + int64(i) + 1)
		}
		done += n
	}
	return done
}

// ready counts the slots from index i on, at most limit, whose sequence number is
// ahead of their index by want.
func (s *segment[T]) ready(i int64, limit int, want int64) int {
	n := 0
	for n < min(limit, len(s.slot)) && s.at(i+int64(n)).seq.Load() == i+int64(n)+want {
		n++
	}
	return n
}

// seal stops all further claims of slots, if enq is still e.
func (s *segment[T]) seal(e int64) { s.enq.CompareAndSwap(e, e|sealed) }

// advance moves the tail past a sealed segment. It returns false if the injector is
// closed, so that no segment follows.
//
//go:noinline
func (in *Injector[T]) advance(s *segment[T]) bool {
	next := s.next.Load()
	if next == nil {
		grown, _ := in.spares.Get().(*segment[T])
		if grown == nil {
			grown = newSegment[T](min(2*int64(len(s.slot)), maxSegment))
		}
		if s.next.CompareAndSwap(nil, grown) {
			next = grown
		} else {
			in.spares.Put(grown)
			next = s.next.Load()
		}
	}
	if next == in.terminal {
		return false
	}
	in.tail.CompareAndSwap(s, next)
	return true
}

// PullBatch takes the oldest items, as many as dst holds, up to [MaxPull], and
// returns how many. With [Retry] it took none because another consumer was
// faster or because a producer has not finished its push; with [Empty] there was
// nothing to take, or no room in dst.
//
// Cost: one compare-and-swap for the batch.
func (in *Injector[T]) PullBatch(dst []*T) (int, StealResult) {
	if len(dst) == 0 {
		return 0, Empty
	}
	for {
		s := in.head.Load()
		d := s.deq.Load()
		n := s.ready(d, min(len(dst), MaxPull), 1)
		if n == 0 { // else enq, which is the producers', need not come over
			e := s.enq.Load()
			if e&^sealed > d {
				return 0, Retry
			}
			next := s.next.Load()
			if e >= 0 || next == nil || next == in.terminal {
				return 0, Empty
			}
			if in.head.CompareAndSwap(s, next) {
				in.leave(s, d)
			}
			continue
		}
		if !s.deq.CompareAndSwap(d, d+int64(n)) {
			return 0, Retry
		}
		for i := range dst[:n] {
			slot := s.at(d + int64(i))
			dst[i] = slot.item
			slot.item = nil
			publish(&slot.seq, d+int64(i)+s.mask+1)
		}
		return n, Success
	}
}

// leave is called by the consumer that has moved the head away from s, which ended at an index. It keeps the slots for
// producers, unless a slower consumer still empties some, or longer segments come next.
func (in *Injector[T]) leave(s *segment[T], end int64) {
	s.deq.Store(left)
	if n := len(s.slot); n < maxSegment || s.ready(end, n, 0) < n {
		return
	}
	again := &segment[T]{mask: s.mask, slot: s.slot}
	again.enq.Store(end)
	again.deq.Store(end)
	in.spares.Put(again)
}

// Pop takes the oldest item. The results are those of [Injector.PullBatch].
func (in *Injector[T]) Pop() (*T, StealResult) {
	var one [1]*T
	_, r := in.PullBatch(one[:])
	return one[0], r
}

// Close makes every later push fail. Items that were pushed before can still be taken.
// Any goroutine may call it, any number of times.
func (in *Injector[T]) Close() {
	for {
		s := in.tail.Load()
		s.enq.Or(sealed)
		if s.next.CompareAndSwap(nil, in.terminal) || s.next.Load() == in.terminal {
			return
		}
		in.tail.CompareAndSwap(s, s.next.Load())
	}
}

// Ready reports whether there is an item to take. Workers that search, or are about to sleep, call
// Ready and not [Injector.Len]: an item whose push has only begun does not count yet,
// and its producer will wake a worker when it is ready. Ready reads the slot that the next item will be in, which the
// producer of that item writes, and nothing else that producers write.
func (in *Injector[T]) Ready() bool {
	for s := in.head.Load(); s != nil; s = s.next.Load() {
		d := s.deq.Load()
		for {
			if s.ready(d, 1, 1) > 0 {
				return true
			}
			now := s.deq.Load()
			if now == d {
				break
			}
			d = now
		}
		// While there is no later segment, enq is left alone: it is the producers', whom an idle worker that looks again and
		// again would slow down.
		if s.next.Load() == nil {
			return false
		}
		if e := s.enq.Load(); e >= 0 || e&^sealed > d {
			return false // items in later segments wait for the one that is missing here
		}
	}
	return false
}

// Len returns the approximate number of items, including those whose push has begun. It
// is exact while no goroutine pushes or takes.
func (in *Injector[T]) Len() int {
	n := int64(0)
	for s := in.head.Load(); s != nil; s = s.next.Load() {
		n += between(&s.deq, func() int64 { return s.enq.Load() &^ sealed })
	}
	return int(n)
}
