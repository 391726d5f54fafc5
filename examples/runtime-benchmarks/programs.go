package main

import "github.com/seed53057037/heist/pool"

var fib = pool.Recursive(func(f *pool.Fork[int, int], n int) int {
	if n < 2 {
		return n
	}
	x, y := f.Join(n-1, n-2)
	return x + y
})

func fibonacci(n int) func(*pool.Pool) (int, error) {
	want, next := 0, 1
	for range n {
		want, next = next, want+next
	}
	return func(p *pool.Pool) (int, error) {
		got, err := fib.Run(p, n)
		return check(got, want, err)
	}
}

// nodes are some children of a node of skynet, one after the other. Each has ten children, or is a leaf and has the number of its
// place.
type nodes struct{ first, leaves, n int }

// Half of the children are forked, then half of these: a fork for each child, as if they were forked one by one.
var countLeaves = pool.Recursive(func(f *pool.Fork[nodes, int], s nodes) int {
	if s.n == 1 {
		if s.leaves == 1 {
			return s.first
		}
		s.leaves, s.n = s.leaves/10, 10
	}
	half := s.n / 2
	x, y := f.Join(nodes{s.first, s.leaves, half}, nodes{s.first + half*s.leaves, s.leaves, s.n - half})
	return x + y
})

func skynet(depth int) func(*pool.Pool) (int, error) {
	leaves := 1
	for range depth {
		leaves *= 10
	}
	return func(p *pool.Pool) (int, error) {
		got, err := countLeaves.Run(p, nodes{0, leaves, 1})
		return check(got, leaves*(leaves-1)/2, err)
	}
}

// board has queens in its first rows. Those of the next one are tried from a column on.
type board struct {
	queens       [16]int8
	n, row, from int8
}

// next returns the first column, from the one on that is to be tried, that no queen attacks; n if there is none.
func (b *board) next() int8 {
	for column := b.from; column < b.n; column++ {
		free := true
		for row, queen := range b.queens[:b.row] {
			apart := b.row - int8(row)
			if queen == column || queen == column-apart || queen == column+apart {
				free = false
				break
			}
		}
		if free {
			return column
		}
	}
	return b.n
}

// A queen in a column is forked, and then one in each column after it.
var countQueens = pool.Recursive(func(f *pool.Fork[board, int], b board) int {
	if b.row == b.n {
		return 1
	}
	column := b.next()
	if column == b.n {
		return 0
	}
	placed, others := b, b
	placed.queens[b.row], placed.row, placed.from = column, b.row+1, 0
	others.from = column + 1
	x, y := f.Join(others, placed)
	return x + y
})

// solutions are the answers for so many queens.
var solutions = []int{1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365596, 2279184, 14772512}

func nqueens(n int) func(*pool.Pool) (int, error) {
	return func(p *pool.Pool) (int, error) {
		n := min(n, len(solutions)-1)
		got, err := countQueens.Run(p, board{n: int8(n)})
		return check(got, solutions[n], err)
	}
}

// matrices are two factors and their product, by rows.
type matrices struct {
	a, b, c []int32
	rows    int
}

const blockSize = 32

// product adds the product of a block of a and one of b to one of c, all of size by size and given by where they begin. If pair is set
// it is two products instead: this one, and that with the blocks of b and c to the right.
type product struct {
	of      *matrices
	a, b, c int32
	size    int32
	pair    bool
}

var multiply = pool.Recursive(func(f *pool.Fork[product, struct{}], t product) struct{} {
	if t.pair {
		t.pair = false
		right := t
		right.b, right.c = t.b+t.size, t.c+t.size
		f.Join(t, right)
		return struct{}{}
	}
	if t.size <= blockSize {
		t.of.multiplyBlocks(int(t.a), int(t.b), int(t.c))
		return struct{}{}
	}
	k, down := t.size/2, t.size/2*int32(t.of.rows)
	upper := product{t.of, t.a, t.b, t.c, k, true}
	lower := product{t.of, t.a + down, t.b, t.c + down, k, true}
	f.Join(upper, lower)
	// Only then the other halves of the sums, so that nobody else writes to the same block.
	upper.a, upper.b, lower.a, lower.b = t.a+k, t.b+down, t.a+down+k, t.b+down
	f.Join(upper, lower)
	return struct{}{}
})

func (m *matrices) multiplyBlocks(a, b, c int) {
	for i := range blockSize {
		to := m.c[c+i*m.rows:][:blockSize]
		for k, x := range m.a[a+i*m.rows:][:blockSize] {
			for j, y := range m.b[b+k*m.rows:][:blockSize] {
				to[j] += x * y
			}
		}
	}
}

func matmul(n int) func(*pool.Pool) (int, error) {
	return func(p *pool.Pool) (int, error) {
		m := &matrices{make([]int32, n*n), make([]int32, n*n), make([]int32, n*n), n}
		for i := range m.a {
			m.a[i], m.b[i] = 1, 1
		}
		_, err := multiply.Run(p, product{m, 0, 0, 0, int32(n), false})
		for _, v := range m.c {
			if int(v) != n {
				return check(int(v), n, err)
			}
		}
		return n, err
	}
}
