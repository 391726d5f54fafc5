package suites

// nqueens12: count the ways to place 12 queens on a board of 12 by 12 so that none
// attacks another; there are 14,200. A board is three masks with one bit per column of
// the next row: the columns without a queen, and for either diagonal the columns that
// the queens above attack, which move by one with each row. The candidates of a row
// are the free columns that no diagonal attacks.
//
// Every row forks for its candidates, down to the last. A set of several candidates
// is split into its lower half, rounded down, and the others, and the two sets are
// counted as a fork. A single candidate is placed and the next row counted. There is
// no cut-off. The 856,188 placements make 314,729 forks. The metric is ms for all.

import (
	"math/bits"
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

func queensCase() runner.Case {
	return runner.Case{
		Name:    "nqueens12",
		About:   "all solutions for 12 queens, a fork for every candidate of every row; time for all",
		Metrics: lower("ms"),
		Workers: oneAndAsked,
		Impls: append([]runner.Impl{
			queensOn("heist-recursive", queensRecursive.Call),
			queensOn("heist-join", queensJoin),
			queensOff("serial", queens),
			queensOff("goroutine", queensGo),
		}, foreign("ms")...),
	}
}

func queensOn(name string, count func(*pool.Worker, board) int) runner.Impl {
	return forked(name, time.Millisecond, func(env runner.Env) (job[int], func(*pool.Worker) int) {
		n := queensSize(env)
		return queensJob(n), func(w *pool.Worker) int { return count(w, emptyBoard(n)) }
	})
}

func queensOff(name string, count func(board) int) runner.Impl {
	return called(name, time.Millisecond, func(env runner.Env) (job[int], func() int) {
		n := queensSize(env)
		return queensJob(n), func() int { return count(emptyBoard(n)) }
	})
}

func queensSize(env runner.Env) int { return env.Size(12, 6) }

func queensJob(n int) job[int] {
	want := map[int]int{6: 4, 12: 14200}
	return adding("the solutions for the queens", 1, want[n])
}

// board is a board with its first rows filled.
type board struct {
	free        uint32 // columns without a queen
	left, right uint32 // columns of the next row that a diagonal attacks
	todo        uint32 // candidates of the next row that are still to be tried
}

func emptyBoard(n int) board {
	all := uint32(1)<<n - 1
	return board{free: all, todo: all}
}

// place puts a queen into a column, which is given as its bit.
func (b board) place(column uint32) board {
	b.free ^= column
	b.left = (b.left | column) << 1
	b.right = (b.right | column) >> 1
	b.todo = b.free &^ (b.left | b.right)
	return b
}

// halve splits the candidates.
func (b board) halve() (lower, upper board) {
	lower, upper = b, b
	for range bits.OnesCount32(b.todo) / 2 {
		upper.todo &= upper.todo - 1
	}
	lower.todo ^= upper.todo
	return lower, upper
}

// settled says whether there is nothing to fork: no candidate or a single one.
func (b board) settled() bool { return b.todo&(b.todo-1) == 0 }

func queens(b board) int {
	if b.free == 0 {
		return 1
	}
	sum := 0
	for todo := b.todo; todo != 0; todo &= todo - 1 {
		sum += queens(b.place(todo & -todo))
	}
	return sum
}

// queensRecursive forks the two sets, too. One JoinAll for a row's candidates takes
// longer, as it makes and copies all boards of a row before it looks at the
// first.
var queensRecursive = pool.Recursive(func(f *pool.Fork[board, int], b board) int {
	for b.settled() {
		if b.free == 0 {
			return 1
		}
		if b.todo == 0 {
			return 0
		}
		b = b.place(b.todo)
	}
	lower, upper := b.halve()
	x, y := f.Join(lower, upper)
	return x + y
})

func queensJoin(w *pool.Worker, b board) int {
	for b.settled() {
		if b.free == 0 {
			return 1
		}
		if b.todo == 0 {
			return 0
		}
		b = b.place(b.todo)
	}
	lower, upper := b.halve()
	x, y := pool.Join(w, queensJoin, lower, queensJoin, upper)
	return x + y
}

func queensGo(b board) int {
	for b.settled() {
		if b.free == 0 {
			return 1
		}
		if b.todo == 0 {
			return 0
		}
		b = b.place(b.todo)
	}
	lower, upper := b.halve()
	var x, y int
	both(func() { x = queensGo(lower) }, func() { y = queensGo(upper) })
	return x + y
}
