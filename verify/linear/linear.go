// Package linear checks that heist's queues are linearizable: whatever threads do to a
// queue at the same time, the results are those of the same operations in some order,
// one after the other.
//
// A history is recorded from the real queue and judged by porcupine. The
// specifications below are the queues' contracts in their shortest form.
package linear

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/seed53057037/heist"
)

type kind int

const (
	push  kind = iota // by the owner; by any thread in an injector
	pop               // by the owner, one item from its end
	steal             // by any thread, from the other end
	shut              // by any thread: closes an injector
)

type input struct {
	kind  kind
	items []int // the items pushed
}

type output struct {
	result heist.StealResult // Success: accepted, or taken. Empty: refused, or the queue is empty.
	items  []int             // the items accepted or taken, in the queue's order
}

// queue is the state of a deque, a ring or an injector.
type queue struct {
	items  []int // oldest first
	closed bool
}

// spec says what an operation may do to a queue. Ok is false if the output is
// impossible.
type spec func(q queue, in input, out output) (ok bool, after queue)

// model is the spec for a queue that begins with some items.
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

// accepts checks a push into a queue with the given room: the queue took the first of
// the pushed items, or refused them for lack of room.
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

// takes checks that an operation took the oldest items, at most limit of them, or found
// the queue empty.
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

// dequeSpec is for a deque that holds at most limit items, if limit is not 0.
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
			// The ring may accept less of a batch than fits: thieves make room after
			// the owner has looked.
			return accepts(q, in, out, capacity-len(q.items))
		case pop:
			return takes(q, out, 1)
		}
		// The thief may have seen the ring before the owner's latest pushes, so
		// half of the present items is an upper bound.
		return takes(q, out, (len(q.items)+1)/2)
	}
}

// injectorSpec requires that a batch goes in as a whole. The injector promises that only
// for batches that do not cross from one segment into the next.
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
