package sim

// queue is a run queue, first in first out, of indices of requests.
type queue struct {
	items []int32
	head  int
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(items ...int32) {
	if q.head > len(q.items)/2 {
		q.items = q.items[:copy(q.items, q.items[q.head:])]
		q.head = 0
	}
	q.items = append(q.items, items...)
}

// take removes the n oldest. They are valid until the next push.
func (q *queue) take(n int) []int32 {
	taken := q.items[q.head : q.head+n]
	q.head += n
	return taken
}
