package suites

// matmul: C = A B for matrices of 512 by 512 float64, stored by rows. The elements
// of A and then those of B, row by row, are the numbers of splitmix64 with seed 1,
// each the upper 53 bits divided by 2^53.
//
// C is halved along its longer side, by rows if both sides are equal, and the halves
// are forked, down to blocks of 64 by 64: 63 forks. A block is set to zero and then
// computed by loops over k in steps of 64, and inside over i, k and j; the innermost
// adds A[i][k] times a row of B to a row of C. In Go the loops over i, k and j are
// gonum's, with the innermost in assembly, as Go's compiler does not make vector
// instructions. The serial row has the same blocks.
//
// The answer is the sum of C[i][j] (1 + i mod 7) (1 + j mod 5). It must equal the
// same sum computed as two vectors times the matrices, within a relative 1e-9:
// compilers may fuse the multiplication and the addition. The metric is ms.

import (
	"math"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

const matmulBlock = 64

func matmulCase() runner.Case {
	others := foreign("ms")
	for i := range others {
		others[i].Note = "has a compiler that uses the CPU's widest vectors in the innermost loop; gonum's assembly has two elements in one"
	}
	return runner.Case{
		Name:    "matmul",
		About:   "product of two matrices of 512 by 512 float64 in blocks of 64 by 64; time for all",
		Metrics: lower("ms"),
		Workers: oneAndAsked,
		Impls: append([]runner.Impl{
			matmulOn("heist-recursive", matmulRecursive.Call),
			matmulOn("heist-join", matmulJoin),
			matmulOff("serial", matmul),
			matmulOff("goroutine", matmulGo),
		}, others...),
	}
}

func matmulOn(name string, multiply func(*pool.Worker, block) none) runner.Impl {
	return forked(name, time.Millisecond, func(env runner.Env) (job[*product], func(*pool.Worker) *product) {
		p, j := matmulJob(env)
		return j, func(w *pool.Worker) *product { multiply(w, p.whole()); return p }
	})
}

func matmulOff(name string, multiply func(block)) runner.Impl {
	return called(name, time.Millisecond, func(env runner.Env) (job[*product], func() *product) {
		p, j := matmulJob(env)
		return j, func() *product { multiply(p.whole()); return p }
	})
}

func matmulJob(env runner.Env) (*product, job[*product]) {
	p := newProduct(env.Size(512, 128))
	want := p.want()
	return p, job[*product]{ops: 1, check: func(p *product) error {
		if got := p.checksum(); math.Abs(got-want) > 1e-9*want {
			return runner.Wrong{What: "the checksum of the product", Got: got, Want: want}
		}
		return nil
	}}
}

// product is two square matrices and a third for their product.
type product struct {
	n       int
	a, b, c []float64
}

func newProduct(n int) *product {
	p := &product{n: n, a: make([]float64, n*n), b: make([]float64, n*n), c: make([]float64, n*n)}
	for i := range n * n {
		p.a[i] = float64(random(i)>>11) / (1 << 53)
		p.b[i] = float64(random(n*n+i)>>11) / (1 << 53)
	}
	return p
}

// The weights of the checksum.
func rowWeight(i int) float64    { return float64(1 + i%7) }
func columnWeight(j int) float64 { return float64(1 + j%5) }

func (p *product) checksum() float64 {
	sum := 0.0
	for i := range p.n {
		for j := range p.n {
			sum += p.c[i*p.n+j] * rowWeight(i) * columnWeight(j)
		}
	}
	return sum
}

// want computes the checksum without the product.
func (p *product) want() float64 {
	sum := 0.0
	for k := range p.n {
		column, row := 0.0, 0.0
		for i := range p.n {
			column += rowWeight(i) * p.a[i*p.n+k]
			row += p.b[k*p.n+i] * columnWeight(i)
		}
		sum += column * row
	}
	return sum
}

// block is a part of the product.
type block struct {
	*product
	row, column   int // its first row and column
	rows, columns int
}

func (p *product) whole() block { return block{p, 0, 0, p.n, p.n} }

// small says whether the block is computed by loops.
func (b block) small() bool { return max(b.rows, b.columns) <= matmulBlock }

func (b block) halve() (first, second block) {
	first, second = b, b
	if b.rows >= b.columns {
		first.rows = b.rows / 2
		second.rows -= first.rows
		second.row += first.rows
	} else {
		first.columns = b.columns / 2
		second.columns -= first.columns
		second.column += first.columns
	}
	return first, second
}

// compute is the loops; gonum has the inner ones.
func (b block) compute() {
	for i := b.row; i < b.row+b.rows; i++ {
		clear(b.c[i*b.n+b.column:][:b.columns])
	}
	part := func(of []float64, row, column, rows, columns int) blas64.General {
		return blas64.General{Rows: rows, Cols: columns, Stride: b.n, Data: of[row*b.n+column : (row+rows-1)*b.n+column+columns]}
	}
	c := part(b.c, b.row, b.column, b.rows, b.columns)
	for from := 0; from < b.n; from += matmulBlock {
		k := min(matmulBlock, b.n-from)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, part(b.a, b.row, from, b.rows, k), part(b.b, from, b.column, k, b.columns), 1, c)
	}
}

func matmul(b block) {
	if b.small() {
		b.compute()
		return
	}
	first, second := b.halve()
	matmul(first)
	matmul(second)
}

var matmulRecursive = pool.Recursive(func(f *pool.Fork[block, none], b block) none {
	if b.small() {
		b.compute()
		return none{}
	}
	f.Join(b.halve())
	return none{}
})

func matmulJoin(w *pool.Worker, b block) none {
	if b.small() {
		b.compute()
		return none{}
	}
	first, second := b.halve()
	pool.Join(w, matmulJoin, first, matmulJoin, second)
	return none{}
}

func matmulGo(b block) {
	if b.small() {
		b.compute()
		return
	}
	first, second := b.halve()
	both(func() { matmulGo(first) }, func() { matmulGo(second) })
}
