package goruntime

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// A goroutine's stack is copied to another place when it has become too small, and when the
// collector finds it much too large. Frames of forks don't lie there, but arguments, results
// and the user's own pointers do, in the middle of a join.

// branch is a place in a tree of joins.
type branch struct {
	depth int // of the tree below
	stack int // how many calls deep each node goes before it joins
}

// moves counts how often a stack lay elsewhere after a join.
var moves atomic.Uint64

// tree returns the number of the tree's nodes. Each node goes down its stack, keeps a pointer
// to what lies there across the join, and compares.
var tree = pool.Recursive(func(f *pool.Fork[branch, int], b branch) int {
	return descend(f, b, b.stack)
})

//go:noinline
func descend(f *pool.Fork[branch, int], b branch, calls int) int {
	var room [48]int // on the stack: it would not escape
	for i := range room {
		room[i] = b.depth<<16 + calls + i
	}
	inside := &room[calls%len(room)]
	before := uintptr(unsafe.Pointer(inside))
	nodes := 1
	switch {
	case calls > 0:
		nodes = descend(f, b, calls-1)
	case b.depth > 0:
		// One branch needs a much larger stack than the other, and goes deeper.
		x, y := f.Join(branch{b.depth - 1, b.stack * 2 % 500}, branch{b.depth - 1, b.stack / 2})
		nodes += x + y
	}
	if uintptr(unsafe.Pointer(inside)) != before {
		moves.Add(1)
	}
	*inside++
	for i := range room {
		want := b.depth<<16 + calls + i
		if i == calls%len(room) {
			want++
		}
		if room[i] != want {
			panic(fmt.Sprintf("word %d of a stack frame is %d and not %d", i, room[i], want))
		}
	}
	return nodes
}

// TestStacksMoveInTheMiddleOfAJoin has every call in a goroutine of its own, whose stack is
// small at first, and garbage collections, which shrink what the workers do not use.
func TestStacksMoveInTheMiddleOfAJoin(t *testing.T) {
	claim.That(t, "stacks may grow, shrink and move in the middle of a join",
		"trees of joins that go down 500 calls, with pointers into the stack, while the collector shrinks stacks")
	p, err := pool.New(pool.WithWorkers(4))
	require.NoError(t, err)
	defer p.Close()
	end := everyMillisecond(func(int) { runtime.GC() })
	const depth = 9
	var joins uint64
	moves.Store(0)
	for begin := time.Now(); time.Since(begin) < duration(); {
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				nodes, err := tree.Run(p, branch{depth, 7})
				if err != nil || nodes != 1<<(depth+1)-1 {
					t.Errorf("%d nodes, %v", nodes, err)
				}
			})
		}
		callers.Wait()
		joins += 4 * (1<<depth - 1)
	}
	end()
	steals := p.Stats().Total().Steals
	require.NotZero(t, moves.Load())
	require.NotZero(t, steals)
	claim.Amount(t, "%s joins, %s steals, a stack elsewhere after %s calls", claim.Count(joins), claim.Count(steals), claim.Count(moves.Load()))
}
