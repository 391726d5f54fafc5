package pool_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/pool"
)

// The number of ways to put eight queens on a chessboard. A recursion's argument can be of any type.
// It is copied into the fork, so small types are best.
var fib = pool.Recursive(func(f *pool.Fork[int, int], n int) int {
	if n < 2 {
		return n
	}
	x, y := f.Join(n-1, n-2) // both halves, maybe at the same time
	return x + y
})

func ExampleRecursive() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	const n = 8
	type board struct{ row, columns, left, right uint }
	queens := pool.Recursive(func(f *pool.Fork[board, int], b board) int {
		if b.row == n {
			return 1
		}
		var next []board
		for c := uint(0); c < n; c++ {
			queen := uint(1) << c
			if (b.columns|b.left|b.right)&queen == 0 {
				next = append(next, board{b.row + 1, b.columns | queen, (b.left | queen) << 1, (b.right | queen) >> 1})
			}
		}
		ways := make([]int, len(next))
		f.JoinAll(next, ways)
		total := 0
		for _, w := range ways {
			total += w
		}
		return total
	})
	ways, err := queens.Run(p, board{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ways)
	// Output: 92
}

func ExampleRecursion_Run() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// fib is made once, as in the package's first example: var fib = pool.Recursive(...)
	ctx, cancel := context.WithCancel(context.Background())
	n, err := fib.Run(p.With(ctx), 20)
	fmt.Println(n, err)

	cancel()
	_, err = fib.Run(p.With(ctx), 20)
	fmt.Println(err)
	// Output:
	// 6765 <nil>
	// context canceled
}

// Call is for a function that already has a worker: in a task or in another fork.
func ExampleRecursion_Call() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	g, _ := pool.NewGroup(p)
	var a, b int
	g.GoWorker(func(w *pool.Worker) error {
		a, b = fib.Call(w, 10), fib.Call(w, 11)
		return nil
	})
	if err := g.Wait(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(a, b)
	// Output: 55 89
}

func ExampleFork_Join() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	type tree struct {
		left, right *tree
	}
	depth := pool.Recursive(func(f *pool.Fork[*tree, int], t *tree) int {
		if t == nil {
			return 0
		}
		left, right := f.Join(t.left, t.right)
		return 1 + max(left, right)
	})
	n, err := depth.Run(p, &tree{left: &tree{right: &tree{}}, right: &tree{}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n)
	// Output: 3
}

func ExampleFork_JoinAll() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	root, err := os.MkdirTemp("", "heist")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	for _, name := range []string{"plan", "loot/gold", "loot/silver", "loot/more/copper"} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			log.Fatal(err)
		}
	}

	// files counts the files below a directory, its subdirectories in parallel.
	files := pool.Recursive(func(f *pool.Fork[string, int], dir string) int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return 0
		}
		n := 0
		var below []string
		for _, e := range entries {
			if e.IsDir() {
				below = append(below, filepath.Join(dir, e.Name()))
			} else {
				n++
			}
		}
		numbers := make([]int, len(below))
		f.JoinAll(below, numbers)
		for _, more := range numbers {
			n += more
		}
		return n
	})
	n, err := files.Run(p, root)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "files")
	// Output: 4 files
}

// The recursion counts by its worker's ID, so no other worker writes the same counter.
func ExampleFork_Worker() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	calls := make([]struct {
		n int
		_ [120]byte // a cache line of its own
	}, p.Slots())
	count := pool.Recursive(func(f *pool.Fork[int, int], n int) int {
		calls[f.Worker().ID()].n++
		if n > 0 {
			f.Join(n-1, n-1)
		}
		return 0
	})
	if _, err := count.Run(p, 9); err != nil {
		log.Fatal(err)
	}
	total := 0
	for _, c := range calls {
		total += c.n
	}
	fmt.Println(total, "calls")
	// Output: 1023 calls
}

func ExampleWorker_Scope() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// A walk through a graph: the first call to reach a node visits it.
	graph := [][]int{{1, 2}, {2, 3}, {0, 4}, {4}, {}, {0}}
	seen := make([]atomic.Bool, len(graph))
	err = p.Run(func(w *pool.Worker) {
		w.Scope(func(s *pool.Scope) {
			var visit func(w *pool.Worker, node int)
			visit = func(w *pool.Worker, node int) {
				if seen[node].Swap(true) {
					return
				}
				for _, next := range graph[node] {
					s.Go(w, func(w *pool.Worker) { visit(w, next) })
				}
			}
			visit(w, 0)
		}) // returns when all children have ended
	})
	if err != nil {
		log.Fatal(err)
	}
	for node := range seen {
		fmt.Print(node, ":", seen[node].Load(), " ")
	}
	// Output: 0:true 1:true 2:true 3:true 4:true 5:false
}

func ExampleScope_Go() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	var lengths [3]int
	err = p.Run(func(w *pool.Worker) {
		w.Scope(func(s *pool.Scope) {
			for i, word := range []string{"vault", "key", "getaway"} {
				s.Go(w, func(*pool.Worker) { lengths[i] = len(word) })
			}
		})
		fmt.Println(lengths)
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: [5 3 7]
}

func ExamplePool_With() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = fib.Run(p.With(ctx), 90) // would take centuries
	fmt.Println(err)
	// Output: context deadline exceeded
}

func ExampleWorker_With() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// Only a part of the computation has a deadline. If that part is late, a guess takes the place of
	// its result.
	err = p.Run(func(w *pool.Worker) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		n, err := fib.Run(w.With(ctx), 90)
		if err != nil {
			n = -1
		}
		fmt.Println(n, fib.Call(w, 10))
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: -1 55
}

func ExampleView_Run() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	ctx, cancel := context.WithCancelCause(context.Background())
	err = p.With(ctx).Run(func(w *pool.Worker) {
		fmt.Println("begun")
		cancel(fmt.Errorf("the alarm went off"))
		for {
			fib.Call(w, 20) // soon after the alarm, unwinds instead of returning
		}
	})
	fmt.Println(err)
	// Output:
	// begun
	// the alarm went off
}

// A caller that has no worker runs two functions at the same time.
func ExampleDo() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	var lines, words int
	text := "a b\nc d e\n"
	if err := pool.Do(p,
		func(*pool.Worker) { lines = strings.Count(text, "\n") },
		func(*pool.Worker) { words = len(strings.Fields(text)) },
	); err != nil {
		log.Fatal(err)
	}
	fmt.Println(lines, words)
	// Output: 2 5
}

// A library function takes a place. A caller that has no pool passes the serial place.
func ExampleSerial() {
	double := func(at pool.Place, s []int) error {
		return pool.ForRange(at, len(s), func(lo, hi int) {
			for i := range s[lo:hi] {
				s[lo+i] *= 2
			}
		})
	}
	s := []int{1, 2, 3}
	if err := double(pool.Serial(), s); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s)
	// Output: [2 4 6]
}

var errSolved = errors.New("solved")

// queens looks for one solution of the queens problem on a board of 8 by 8, and stops when it has one.
var queens = pool.Recursive(func(f *pool.Fork[[]int, int], placed []int) int {
	if len(placed) == 8 {
		f.Worker().Stop(errSolved)
	}
	var next [][]int
	for column := range 8 {
		free := true
		for row, other := range placed {
			free = free && other != column && other-column != len(placed)-row && column-other != len(placed)-row
		}
		if free {
			next = append(next, append(placed[:len(placed):len(placed)], column))
		}
	}
	results := make([]int, len(next))
	f.JoinAll(next, results)
	return 0
})

// The first solution ends the search on all workers.
func ExampleWorker_Stop() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	_, err = queens.Run(p.With(context.Background()), nil)
	fmt.Println(err)
	// Output: solved
}
