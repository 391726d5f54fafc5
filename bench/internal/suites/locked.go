package suites

import (
	"sync"

	"github.com/seed53057037/heist"
)

// item is an element of the queues in suite deque.
type item struct{ n int }

// newItems returns n items, numbered from 1.
func newItems(n int) []item {
	items := make([]item, n)
	for i := range items {
		items[i].n = i + 1
	}
	return items
}

// locked is the peer "mutex": the obvious double-ended queue, a growing circular
// buffer and a mutex.
type locked struct {
	mu    sync.Mutex
	slots []*item // a power of two
	top   int     // index of the oldest item; indices are modulo the number of slots
	size  int
}

func newLocked(capacity int) *locked { return &locked{slots: make([]*item, capacity)} }

// Push adds an item at the bottom.
func (q *locked) Push(it *item) bool {
	q.mu.Lock()
	q.push(it)
	q.mu.Unlock()
	return true
}

// Pop takes the newest item.
func (q *locked) Pop() *item {
	q.mu.Lock()
	if q.size == 0 {
		q.mu.Unlock()
		return nil
	}
	q.size--
	slot := &q.slots[(q.top+q.size)&(len(q.slots)-1)]
	it := *slot
	*slot = nil
	q.mu.Unlock()
	return it
}

// Steal takes the oldest item.
func (q *locked) Steal() (*item, heist.StealResult) {
	q.mu.Lock()
	if q.size == 0 {
		q.mu.Unlock()
		return nil, heist.Empty
	}
	it := q.shift()
	q.mu.Unlock()
	return it, heist.Success
}

// PullBatch takes as many of the oldest items as there are and fit.
func (q *locked) PullBatch(dst []*item) int {
	q.mu.Lock()
	n := min(len(dst), q.size)
	for i := range n {
		dst[i] = q.shift()
	}
	q.mu.Unlock()
	return n
}

// StealInto takes the older half, returns the first and puts the others into dst.
// It holds one lock at a time, so that two thieves cannot wait for each other.
// Only this thief uses the buffer.
func (q *locked) StealInto(dst *locked, buffer []*item) (first *item, n int) {
	q.mu.Lock()
	n = (q.size + 1) / 2
	for i := range n {
		buffer[i] = q.shift()
	}
	q.mu.Unlock()
	if n == 0 {
		return nil, 0
	}
	dst.mu.Lock()
	for _, it := range buffer[1:n] {
		dst.push(it)
	}
	dst.mu.Unlock()
	return buffer[0], n
}

// push and shift need the mutex, and shift needs an item in the queue.

func (q *locked) push(it *item) {
	if q.size == len(q.slots) {
		q.grow()
	}
	q.slots[(q.top+q.size)&(len(q.slots)-1)] = it
	q.size++
}

func (q *locked) shift() *item {
	slot := &q.slots[q.top]
	it := *slot
	*slot = nil
	q.top = (q.top + 1) & (len(q.slots) - 1)
	q.size--
	return it
}

func (q *locked) grow() {
	slots := make([]*item, 2*len(q.slots))
	n := copy(slots, q.slots[q.top:])
	copy(slots[n:], q.slots[:q.top])
	q.slots, q.top = slots, 0
}

// buffered is the peer "channel". A channel has one end to take from, so Pop and
// Steal are the same and the oldest item comes first.
type buffered chan *item

// Push adds an item unless the channel is full.
func (q buffered) Push(it *item) bool {
	select {
	case q <- it:
		return true
	default:
		return false
	}
}

// Pop takes the oldest item.
func (q buffered) Pop() *item {
	select {
	case it := <-q:
		return it
	default:
		return nil
	}
}

// Steal takes the oldest item.
func (q buffered) Steal() (*item, heist.StealResult) {
	if it := q.Pop(); it != nil {
		return it, heist.Success
	}
	return nil, heist.Empty
}
