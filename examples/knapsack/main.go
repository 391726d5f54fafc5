// Knapsack shows a search by branch and bound that forks at every node. It ends as soon as a worker reaches a
// value that nothing can exceed, or when its time is over.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/seed53057037/heist/examples/internal/cli"
	"github.com/seed53057037/heist/pool"
)

const maxItems = 64 // a set of items is a uint64

var (
	errReached = errors.New("the upper bound is reached")
	errLimit   = errors.New("the time is over")
)

func main() { cli.Main(run, os.Interrupt, syscall.SIGTERM) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("knapsack", flag.ContinueOnError)
	n := flags.Int("items", 50, "choose from this `number` of items, 1 to 64")
	seed := flags.Uint64("seed", 1, "draw the items from this `seed`")
	limit := flags.Duration("limit", 0, "search for so `long` at most; 0 is until the best is found")
	if err := cli.Parse(flags, "", args, stdout); err != nil {
		return err
	}
	switch {
	case *n < 1 || *n > maxItems:
		return cli.Usagef("-items is %d, want 1 to %d", *n, maxItems)
	case *limit < 0:
		return cli.Usagef("-limit is %v, want 0 or more", *limit)
	case *limit > 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, *limit, errLimit)
		defer cancel()
	}
	p, err := pool.New()
	if err != nil {
		return err
	}
	defer p.Close()

	items, capacity := randomItems(*n, *seed)
	found, err := solve(p.With(ctx), items, capacity)
	proof := "nothing is better"
	switch {
	case errors.Is(err, errLimit):
		proof = "there may be better ones"
	case err != nil:
		return fmt.Errorf("ended early: %w", err)
	}
	_, err = fmt.Fprintf(stdout, "%d of %d items, of weight %d in %d and value %d; %s\n",
		len(found.items), *n, found.weight, capacity, found.value, proof)
	return err
}

type item struct{ weight, value int }

// randomItems returns items whose values are near their weights, which makes the search longer.
func randomItems(n int, seed uint64) (items []item, capacity int) {
	random := rand.New(rand.NewPCG(seed, 0))
	for range n {
		weight := 100 + random.IntN(900)
		items = append(items, item{weight, weight + random.IntN(100)})
		capacity += weight
	}
	return items, capacity / 2
}

type solution struct {
	items         []item
	weight, value int
}

// solve returns the best items that fit. With an error they are the best found so far.
func solve(at pool.Place, items []item, capacity int) (solution, error) {
	s := &search{items: slices.Clone(items)}
	slices.SortFunc(s.items, func(a, b item) int { // the best by weight first, as node.bound requires
		return cmp.Compare(b.value*a.weight, a.value*b.weight)
	})
	root := node{search: s, room: capacity}
	s.bound = root.bound()
	_, err := branch.Run(at.With(at.Context()), root) // a call that Stop ends
	if errors.Is(err, errReached) {
		err = nil
	}
	return s.solution(), err
}

// search is what all nodes of a search share.
type search struct {
	items []item
	bound int // no value is greater
	value atomic.Int64

	mu   sync.Mutex
	best node // the node of that value
}

// node is a set of items, chosen from the items before next.
type node struct {
	search *search
	next   int
	room   int
	value  int
	taken  uint64
}

var branch = pool.Recursive(func(f *pool.Fork[node, struct{}], n node) struct{} {
	s := n.search
	s.offer(n)
	if n.value == s.bound {
		f.Worker().Stop(errReached)
	}
	if n.next == len(s.items) || n.bound() <= int(s.value.Load()) {
		return struct{}{}
	}
	next := s.items[n.next]
	without, with := n, n
	without.next++
	with.next++
	if next.weight > n.room {
		return f.Call(without)
	}
	with.room -= next.weight
	with.value += next.value
	with.taken |= 1 << n.next
	f.Join(with, without) // the first one runs at once, so good values come early
	return struct{}{}
})

func (s *search) offer(n node) {
	if n.value <= int(s.value.Load()) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.value > s.best.value {
		s.best = n
		s.value.Store(int64(n.value))
	}
}

// bound is the value that the node would have if the rest of the items could be cut.
func (n node) bound() int {
	value, room := n.value, n.room
	for _, i := range n.search.items[n.next:] {
		if i.weight > room {
			return value + i.value*room/i.weight
		}
		value += i.value
		room -= i.weight
	}
	return value
}

func (s *search) solution() solution {
	found := solution{value: s.best.value}
	for i, item := range s.items {
		if s.best.taken&(1<<i) != 0 {
			found.items = append(found.items, item)
			found.weight += item.weight
		}
	}
	return found
}
