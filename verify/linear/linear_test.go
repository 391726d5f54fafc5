package linear

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/verify/claim"
)

const how = "histories of racing threads, checked by porcupine against a sequential specification"

// said is what a test reports as its amount.
func said(t *testing.T, histories, operations, together int) {
	claim.Amount(t, "%s histories, %s operations, %s of them while another one ran",
		claim.Count(histories), claim.Count(operations), claim.Count(together))
}

func pointers(items []int) []*int {
	var ps []*int
	for i := range items {
		ps = append(ps, &items[i])
	}
	return ps
}

// took is the output of an operation that took items, or none.
func took(r heist.StealResult, items ...*int) output {
	out := output{result: r}
	for _, item := range items {
		if item != nil {
			out.items = append(out.items, *item)
		}
	}
	return out
}

func popped(item *int) output {
	if item == nil {
		return took(heist.Empty)
	}
	return took(heist.Success, item)
}

// queueOfBatches is what Ring and Injector have in common.
type queueOfBatches interface {
	Push(*int) bool
	PushBatch([]*int) int
}

// pushTo pushes one item by Push and several by PushBatch.
func pushTo(q queueOfBatches, in input) output {
	n := 0
	if len(in.items) > 1 {
		n = q.PushBatch(pointers(in.items))
	} else if q.Push(&in.items[0]) {
		n = 1
	}
	return accepted(in, n)
}

func accepted(in input, n int) output {
	if n == 0 {
		return output{result: heist.Empty}
	}
	return output{heist.Success, in.items[:n]}
}

// anyDeque is what Deque and PortableDeque have in common.
type anyDeque interface {
	Push(*int) bool
	Pop() *int
	PopFrom(base int64) *int
	Steal() (*int, heist.StealResult)
	StealAt() (*int, int64, heist.StealResult)
}

// dequeScene has an owner and two thieves, and a deque that grows, or is soon at its
// limit.
func dequeScene(t *testing.T, rng *rand.Rand, portable bool) scene {
	config := heist.DequeConfig{Capacity: 1 << rng.IntN(3), Limit: rng.IntN(6)}
	var d anyDeque
	var err error
	if portable {
		d, err = heist.NewPortableDeque[int](config)
	} else {
		d, err = heist.NewDeque[int](config)
	}
	require.NoError(t, err)
	take := d.Pop
	if rng.IntN(2) == 0 {
		take = func() *int { return d.PopFrom(0) }
	}
	owner := func(in input) output {
		if in.kind == pop {
			return popped(take())
		}
		if d.Push(&in.items[0]) {
			return accepted(in, 1)
		}
		return accepted(in, 0)
	}
	thief := client{do: func(input) output {
		item, r := d.Steal()
		return took(r, item)
	}, kinds: []kind{steal}}
	other := client{do: func(input) output {
		item, _, r := d.StealAt()
		return took(r, item)
	}, kinds: []kind{steal}}
	return scene{
		model(dequeSpec(config.Limit)),
		[]client{{owner, []kind{push, push, pop}, 1}, thief, other},
	}
}

func TestDequeIsLinearizable(t *testing.T) {
	claim.That(t, "Deque is linearizable, while it grows and at its limit", how)
	n := amounts()
	operations, together := check(t, n, func(rng *rand.Rand) scene { return dequeScene(t, rng, false) })
	said(t, n, operations, together)
}

func TestPortableDequeIsLinearizable(t *testing.T) {
	claim.That(t, "PortableDeque is linearizable, while it grows and at its limit", how)
	n := amounts()
	operations, together := check(t, n, func(rng *rand.Rand) scene { return dequeScene(t, rng, true) })
	said(t, n, operations, together)
}

func newRing(t *testing.T, capacity int) *heist.Ring[int] {
	r, err := heist.NewRing[int](capacity, nil)
	require.NoError(t, err)
	return r
}

func TestRingIsLinearizable(t *testing.T) {
	claim.That(t, "Ring is linearizable, with batches and stolen halves", how)
	n := amounts()
	operations, together := check(t, n, func(rng *rand.Rand) scene {
		capacity := 2 << rng.IntN(3)
		r := newRing(t, capacity)
		owner := func(in input) output {
			if in.kind == pop {
				return popped(r.Pop())
			}
			return pushTo(r, in)
		}
		thief := func() client {
			own := newRing(t, capacity)
			return client{do: func(input) output {
				first, n, result := r.StealInto(own)
				out := took(result, first)
				for range n - 1 {
					out.items = append(out.items, *own.Pop())
				}
				return out
			}, kinds: []kind{steal}}
		}
		return scene{
			model(ringSpec(capacity)),
			[]client{{owner, []kind{push, push, pop}, most}, thief(), thief()},
		}
	})
	said(t, n, operations, together)
}

func injectorClient(in *heist.Injector[int], room, batch int, kinds ...kind) client {
	return client{func(op input) output {
		switch op.kind {
		case push:
			return pushTo(in, op)
		case shut:
			in.Close()
			return output{result: heist.Success}
		}
		dst := make([]*int, room)
		n, result := in.PullBatch(dst)
		return took(result, dst[:n]...)
	}, kinds, batch}
}

func TestInjectorIsLinearizable(t *testing.T) {
	claim.That(t, "Injector is linearizable, with batches, while somebody closes it", how)
	n := amounts()
	operations, together := check(t, n, func(rng *rand.Rand) scene {
		in := heist.NewInjector[int]()
		last := []kind{steal, steal, steal, push, push, push, push, push, push, push, push, shut}
		return scene{model(injectorSpec), []client{
			injectorClient(in, 2+rng.IntN(3), most, push, steal, steal), // stays in one segment
			injectorClient(in, 1+rng.IntN(4), most, push, push, steal),
			injectorClient(in, 1+rng.IntN(4), most, last...),
		}}
	})
	said(t, n, operations, together)
}

// A segment is left when it is full, so this injector is nearly full when the history
// begins, and is emptied by large pulls.
func TestInjectorIsLinearizableFromSegmentToSegment(t *testing.T) {
	claim.That(t, "Injector is linearizable where one segment follows another", how)
	const firstSegment = 256
	n := amounts() / 2
	operations, together := check(t, n, func(rng *rand.Rand) scene {
		in := heist.NewInjector[int]()
		before := make([]int, firstSegment-rng.IntN(8))
		for i := range before {
			before[i] = -i
		}
		require.Equal(t, len(before), in.PushBatch(pointers(before)))
		return scene{model(injectorSpec, before...), []client{
			injectorClient(in, heist.MaxPull, 1, push, push, push, steal),
			injectorClient(in, heist.MaxPull, 1, push, push, steal),
			injectorClient(in, heist.MaxPull, 1, push, steal, steal, shut),
		}}
	})
	said(t, n, operations, together)
}

// A checker that accepts everything proves nothing: these histories are wrong, and it
// must say so.
func TestTheCheckerRefusesWrongHistories(t *testing.T) {
	claim.That(t, "the checker refuses wrong histories", "a history with one wrong answer for each rule of the specifications")
	at := func(c int, k kind, pushed []int, out output, call, ret int64) porcupine.Operation {
		return porcupine.Operation{ClientId: c, Input: input{k, pushed}, Output: out, Call: call, Return: ret}
	}
	success := func(items ...int) output { return output{heist.Success, items} }
	refused := output{result: heist.Empty}
	in := func(items ...int) []int { return items }
	wrong := map[string]struct {
		spec    spec
		history []porcupine.Operation
	}{
		"an item is taken twice": {dequeSpec(0), []porcupine.Operation{
			at(0, push, in(1), success(1), 0, 1),
			at(0, pop, nil, success(1), 2, 5),
			at(1, steal, nil, success(1), 3, 6),
		}},
		"a deque is found empty that is not": {dequeSpec(0), []porcupine.Operation{
			at(0, push, in(1), success(1), 0, 1),
			at(1, steal, nil, refused, 2, 3),
		}},
		"the owner finds a deque empty that is not": {dequeSpec(0), []porcupine.Operation{
			at(0, push, in(1), success(1), 0, 1),
			at(0, pop, nil, refused, 2, 3),
		}},
		"the owner gets the oldest item": {dequeSpec(0), []porcupine.Operation{
			at(0, push, in(1), success(1), 0, 1), at(0, push, in(2), success(2), 2, 3),
			at(0, pop, nil, success(1), 4, 5),
		}},
		"a deque without a limit refuses an item": {dequeSpec(0), []porcupine.Operation{
			at(0, push, in(1), refused, 0, 1),
		}},
		"a deque refuses an item below its limit": {dequeSpec(2), []porcupine.Operation{
			at(0, push, in(1), success(1), 0, 1), at(0, push, in(2), refused, 2, 3),
		}},
		"a deque accepts an item at its limit": {dequeSpec(1), []porcupine.Operation{
			at(0, push, in(1), success(1), 0, 1), at(0, push, in(2), success(2), 2, 3),
		}},
		"a thief takes more than half of a ring": {ringSpec(4), []porcupine.Operation{
			at(0, push, in(1, 2), success(1, 2), 0, 1),
			at(1, steal, nil, success(1, 2), 4, 5),
		}},
		"a ring takes more than fits": {ringSpec(2), []porcupine.Operation{
			at(0, push, in(1, 2, 3), success(1, 2, 3), 0, 1),
		}},
		"a ring takes the end of a batch": {ringSpec(2), []porcupine.Operation{
			at(0, push, in(1, 2, 3), success(2, 3), 0, 1),
		}},
		"an injector changes the order": {injectorSpec, []porcupine.Operation{
			at(0, push, in(1), success(1), 0, 1), at(0, push, in(2), success(2), 2, 3),
			at(1, steal, nil, success(2, 1), 4, 5),
		}},
		"a batch is torn": {injectorSpec, []porcupine.Operation{
			at(0, push, in(1, 2), success(1, 2), 0, 5), at(1, push, in(3), success(3), 0, 5),
			at(2, steal, nil, success(1, 3, 2), 6, 7),
		}},
		"an injector takes a part of a batch": {injectorSpec, []porcupine.Operation{
			at(0, push, in(1, 2), success(1), 0, 1),
		}},
		"a closed injector accepts an item": {injectorSpec, []porcupine.Operation{
			at(0, shut, nil, success(), 0, 1),
			at(1, push, in(1), success(1), 2, 3),
		}},
		"an open injector refuses an item": {injectorSpec, []porcupine.Operation{
			at(1, push, in(1), refused, 0, 1),
			at(0, shut, nil, success(), 2, 3),
		}},
		"a closed injector loses an item": {injectorSpec, []porcupine.Operation{
			at(1, push, in(1), success(1), 0, 1),
			at(0, shut, nil, success(), 2, 3),
			at(1, steal, nil, refused, 4, 5),
		}},
	}
	for name, c := range wrong {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(model(c.spec), c.history, time.Minute))
		})
	}
	claim.Amount(t, "%s histories, all refused", claim.Count(len(wrong)))
}
