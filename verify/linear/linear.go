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
)

type input struct {
	kind kind
	item int // what is pushed
}

type output struct {
	result heist.StealResult // Success: accepted, or taken. Empty: refused, or nothing there.
	items  []int             // what was taken, in the queue's order
}

// spec says what an operation may do to the items of a queue, oldest first. Ok is
// false if the output is impossible.
type spec func(items []int, in input, out output) (ok bool, after []int)

func model(step spec) porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return []int(nil) },
		Equal: func(a, b any) bool { return slices.Equal(a.([]int), b.([]int)) },
		Step: func(state, in, out any) (bool, any) {
			items := state.([]int)
			if out.(output).result == heist.Retry {
				return true, items // a lost race changes nothing and says nothing
			}
			ok, after := step(items, in.(input), out.(output))
			return ok, after
		},
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%v -> %v", in, out)
		},
	}
}

// takes checks that out took a prefix of items, of at most limit items, or nothing
// from an empty queue.
func takes(items []int, out output, limit int) (bool, []int) {
	if out.result == heist.Empty {
		return len(items) == 0, items
	}
	n := len(out.items)
	if n < 1 || n > limit || n > len(items) || !slices.Equal(items[:n], out.items) {
		return false, nil
	}
	return true, items[n:]
}

func dequeSpec(items []int, in input, out output) (bool, []int) {
	switch {
	case in.kind == push:
		return out.result == heist.Success, append(slices.Clip(items), in.item)
	case in.kind == steal:
		return takes(items, out, 1)
	case out.result == heist.Empty:
		return len(items) == 0, items
	}
	last := len(items) - 1
	if last < 0 || !slices.Equal(out.items, items[last:]) {
		return false, nil
	}
	return true, items[:last]
}

func ringSpec(capacity int) spec {
	return func(items []int, in input, out output) (bool, []int) {
		switch in.kind {
		case push:
			if out.result == heist.Empty {
				return len(items) == capacity, items
			}
			return len(items) < capacity, append(slices.Clip(items), in.item)
		case pop:
			return takes(items, out, 1)
		}
		// The thief may have seen the ring before the owner's latest pushes, so
		// half of what there is now is the most.
		return takes(items, out, min((len(items)+1)/2, capacity/2))
	}
}

func injectorSpec(items []int, in input, out output) (bool, []int) {
	if in.kind == push {
		return out.result == heist.Success, append(slices.Clip(items), in.item)
	}
	return takes(items, out, heist.MaxPull)
}
