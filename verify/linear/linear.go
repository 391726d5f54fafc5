// Package linear checks that heist's queues are linearizable: that whatever threads
// did to a queue at the same time, the results are those of some order in which one
// operation came after the other.
//
// A history is recorded from the real queue and judged by porcupine. The
// specifications below are the queues' contracts, as short as they can be said.
package linear

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/seed53057037/heist"
)

type kind int

const (
	push  kind = iota // by the owner; by anybody in an injector
	pop               // by the owner, one item from its end
	steal             // by anybody, from the other end
	shut              // by anybody: closes an injector
)

type input struct {
	kind  kind
	items []int // what is pushed
}

type output struct {
	result heist.StealResult // Success: accepted, or taken. Empty: refused, or nothing there.
	items  []int             // what was accepted, or taken, in the queue's order
}

// queue is the state of any of the three.
type queue struct {
	items  []int // oldest first
	closed bool
}

// spec says what an operation may do to a queue. Ok is false if the output is
// impossible.
type spec func(q queue, in input, out output) (ok bool, after queue)

// model is the spec for a queue that holds some items at the beginning.
func model(step spec, items ...int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return queue{items: items} },
		Equal: func(a, b any) bool {
			p, q := a.(queue), b.(queue)
			return p.closed == q.closed && slices.Equal(p.items, q.items)
		},
		Step: func(state, in, out any) (bool, any) {
			q := state.(queue)
			if out.(output).result == heist.Retry {
				return true, q // a lost race changes nothing and says nothing
			}
			ok, after := step(q, in.(input), out.(output))
			return ok, after
		},
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%v -> %v", in, out)
		},
	}
}

// accepts checks that the queue, which has room for so many items, took the first of
// those that were pushed, or refused them for lack of room.
func accepts(q queue, in input, out output, room int) (bool, queue) {
	n := len(out.items)
	if n == 0 {
		return room <= 0 && out.result == heist.Empty, q
	}
	if n > min(room, len(in.items)) || !slices.Equal(in.items[:n], out.items) {
		return false, q
	}
	q.items = append(slices.Clip(q.items), out.items...)
	return true, q
}

// takes checks that out took the oldest items, at most limit of them, or nothing from
// an empty queue.
func takes(q queue, out output, limit int) (bool, queue) {
	n := len(out.items)
	if out.result == heist.Empty {
		return len(q.items) == 0 && n == 0, q
	}
	if n < 1 || n > min(limit, len(q.items)) || !slices.Equal(q.items[:n], out.items) {
		return false, q
	}
	q.items = q.items[n:]
	return true, q
}

// dequeSpec is for a deque that refuses more items than limit, if that is not 0.
func dequeSpec(limit int) spec {
	return func(q queue, in input, out output) (bool, queue) {
		switch {
		case in.kind == push && limit == 0:
			return accepts(q, in, out, len(in.items))
		case in.kind == push:
			return accepts(q, in, out, limit-len(q.items))
		case in.kind == steal:
			return takes(q, out, 1)
		case out.result == heist.Empty:
			return len(q.items) == 0, q
		}
		last := len(q.items) - 1
		if last < 0 || !slices.Equal(q.items[last:], out.items) {
			return false, q
		}
		q.items = q.items[:last]
		return true, q
	}
}

func ringSpec(capacity int) spec {
	return func(q queue, in input, out output) (bool, queue) {
		switch in.kind {
		case push:
			// Of a batch there may be less than fits: thieves make room after
			// the owner has looked.
			return accepts(q, in, out, capacity-len(q.items))
		case pop:
			return takes(q, out, 1)
		}
		// The thief may have seen the ring before the owner's latest pushes, so
		// half of what there is now is the most.
		return takes(q, out, (len(q.items)+1)/2)
	}
}

// injectorSpec has batches go in as a whole, which is promised only as long as they
// do not cross from one segment into the next.
func injectorSpec(q queue, in input, out output) (bool, queue) {
	switch in.kind {
	case shut:
		q.closed = true
		return true, q
	case push:
		room := len(in.items)
		if q.closed {
			room = 0
		}
		ok, after := accepts(q, in, out, room)
		return ok && len(out.items) == room, after
	}
	return takes(q, out, heist.MaxPull)
}
