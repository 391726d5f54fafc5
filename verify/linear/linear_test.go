package linear

import (
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
)

// client does one operation on the queue under test.
type client func(input) output

// recordAndCheck lets the clients race, each with a random choice among its kinds of
// operation, and has the history judged. It does so many times, for a history must be
// short to be judged quickly.
func recordAndCheck(t *testing.T, m porcupine.Model, newClients func() ([]client, [][]kind)) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HEIST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, "HEIST_SEED must be a number")
	}
	// Deque.Push is a release store without a fence: the owner may read the clock
	// before the store has left its core, and then the item seems to appear late.
	// Operations end when their stores are visible, so a fence comes before the
	// clock is read.
	var fence atomic.Int64
	histories, operations := 1500, 12
	if testing.Short() {
		histories = 300
	}
	for h := range histories {
		clients, kinds := newClients()
		records := make([][]porcupine.Operation, len(clients))
		var ready, done sync.WaitGroup
		ready.Add(len(clients))
		start := time.Now()
		for c := range clients {
			done.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(h*len(clients)+c)))
				ready.Done()
				ready.Wait()
				for i := range operations {
					in := input{kinds[c][rng.IntN(len(kinds[c]))], c*operations + i}
					if rng.IntN(4) == 0 {
						heist.Pause(rng.IntN(40))
					} else if rng.IntN(8) == 0 {
						runtime.Gosched()
					}
					call := time.Since(start)
					out := clients[c](in)
					fence.Add(1)
					records[c] = append(records[c], porcupine.Operation{
						ClientId: c, Input: in, Output: out,
						Call: int64(call), Return: int64(time.Since(start)),
					})
				}
			})
		}
		done.Wait()
		var history []porcupine.Operation
		for _, r := range records {
			history = append(history, r...)
		}
		require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(m, history, 30*time.Second),
			"history %d of HEIST_SEED=%d is not linearizable: %v", h, seed, history)
	}
}

func one(item *int) output {
	if item == nil {
		return output{result: heist.Empty}
	}
	return output{heist.Success, []int{*item}}
}

func pushed(ok bool) output {
	if ok {
		return output{result: heist.Success}
	}
	return output{result: heist.Empty}
}

func stolen(item *int, r heist.StealResult) output {
	if r != heist.Success {
		return output{result: r}
	}
	return one(item)
}

// anyDeque is what Deque and PortableDeque have in common.
type anyDeque interface {
	Push(*int) bool
	Pop() *int
	Steal() (*int, heist.StealResult)
}

func dequeClients(d anyDeque) ([]client, [][]kind) {
	owner := func(in input) output {
		if in.kind == push {
			return pushed(d.Push(&in.item))
		}
		return one(d.Pop())
	}
	thief := func(input) output { return stolen(d.Steal()) }
	return []client{owner, thief, thief}, [][]kind{{push, push, pop}, {steal}, {steal}}
}

func TestDequeIsLinearizable(t *testing.T) {
	for name, make := range map[string]func() (anyDeque, error){
		"Deque":         func() (anyDeque, error) { return heist.NewDeque[int](heist.DequeConfig{Capacity: 2}) },
		"PortableDeque": func() (anyDeque, error) { return heist.NewPortableDeque[int](heist.DequeConfig{Capacity: 2}) },
	} {
		t.Run(name, func(t *testing.T) {
			recordAndCheck(t, model(dequeSpec), func() ([]client, [][]kind) {
				d, err := make()
				require.NoError(t, err)
				return dequeClients(d)
			})
		})
	}
}

func TestRingIsLinearizable(t *testing.T) {
	const capacity = 4
	recordAndCheck(t, model(ringSpec(capacity)), func() ([]client, [][]kind) {
		r, err := heist.NewRing[int](capacity, nil)
		require.NoError(t, err)
		owner := func(in input) output {
			if in.kind == push {
				return pushed(r.Push(&in.item))
			}
			return one(r.Pop())
		}
		thief := func() client {
			own, err := heist.NewRing[int](capacity, nil)
			require.NoError(t, err)
			return func(input) output {
				first, n, result := r.StealInto(own)
				out := stolen(first, result)
				for range max(n-1, 0) {
					out.items = append(out.items, *own.Pop())
				}
				return out
			}
		}
		return []client{owner, thief(), thief()}, [][]kind{{push, push, pop}, {steal}, {steal}}
	})
}

func TestInjectorIsLinearizable(t *testing.T) {
	recordAndCheck(t, model(injectorSpec), func() ([]client, [][]kind) {
		in := heist.NewInjector[int]()
		c := func(op input) output {
			if op.kind == push {
				return pushed(in.Push(&op.item))
			}
			dst := make([]*int, 3)
			n, result := in.PullBatch(dst)
			out := output{result: result}
			for _, item := range dst[:n] {
				out.items = append(out.items, *item)
			}
			return out
		}
		return []client{c, c, c}, [][]kind{{push}, {push, steal}, {steal}}
	})
}

// A checker that accepts everything proves nothing: these histories are wrong, and it
// must say so.
func TestTheCheckerRefusesWrongHistories(t *testing.T) {
	at := func(c int, in input, out output, call, ret int64) porcupine.Operation {
		return porcupine.Operation{ClientId: c, Input: in, Output: out, Call: call, Return: ret}
	}
	ok := output{result: heist.Success}
	took := func(items ...int) output { return output{heist.Success, items} }
	for name, c := range map[string]struct {
		spec    spec
		history []porcupine.Operation
	}{
		"an item is taken twice": {dequeSpec, []porcupine.Operation{
			at(0, input{push, 1}, ok, 0, 1),
			at(0, input{pop, 0}, took(1), 2, 5),
			at(1, input{steal, 0}, took(1), 3, 6),
		}},
		"a deque is found empty that is not": {dequeSpec, []porcupine.Operation{
			at(0, input{push, 1}, ok, 0, 1),
			at(1, input{steal, 0}, output{result: heist.Empty}, 2, 3),
		}},
		"the owner gets the oldest item": {dequeSpec, []porcupine.Operation{
			at(0, input{push, 1}, ok, 0, 1), at(0, input{push, 2}, ok, 2, 3),
			at(0, input{pop, 0}, took(1), 4, 5),
		}},
		"a thief takes more than half of a ring": {ringSpec(4), []porcupine.Operation{
			at(0, input{push, 1}, ok, 0, 1), at(0, input{push, 2}, ok, 2, 3),
			at(1, input{steal, 0}, took(1, 2), 4, 5),
		}},
		"an injector changes the order": {injectorSpec, []porcupine.Operation{
			at(0, input{push, 1}, ok, 0, 1), at(0, input{push, 2}, ok, 2, 3),
			at(1, input{steal, 0}, took(2, 1), 4, 5),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(model(c.spec), c.history, time.Minute))
		})
	}
}
