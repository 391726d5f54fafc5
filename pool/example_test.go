package pool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool"
)

func ExampleNew() {
	// For a service beside other busy processes: a fixed number of workers, and the
	// system decides where they run.
	p, err := pool.New(pool.WithWorkers(4), pool.WithPinning(pool.PinNone))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	fmt.Println("workers:", p.Workers())
	pinning, _ := p.Pinning()
	fmt.Println("pinned:", pinning != pool.PinNone)

	_, err = pool.New(pool.WithWorkers(0))
	fmt.Println(err)
	// Output:
	// workers: 4
	// pinned: false
	// pool: WithWorkers(0): the number of workers must be from 1 to 8192
}

func ExampleJoin() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// The sum of a slice, in halves. Below a thousand numbers a fork is not worth it.
	var sum func(w *pool.Worker, s []int) int
	sum = func(w *pool.Worker, s []int) int {
		if len(s) < 1000 {
			total := 0
			for _, n := range s {
				total += n
			}
			return total
		}
		half := len(s) / 2
		left, right := pool.Join(w, sum, s[:half], sum, s[half:])
		return left + right
	}

	numbers := make([]int, 10_000)
	for i := range numbers {
		numbers[i] = i
	}
	err = p.Run(func(w *pool.Worker) { fmt.Println(sum(w, numbers)) })
	if err != nil {
		log.Fatal(err)
	}
	// Output: 49995000
}

// The halves of a Join may be of different types.
func ExampleJoin_types() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	text := "stolen goods never prosper"
	upper := func(_ *pool.Worker, s string) string { return strings.ToUpper(s) }
	letters := func(_ *pool.Worker, s []byte) int { return len(s) - slices.Index(s, ' ') }
	err = p.Run(func(w *pool.Worker) {
		shout, rest := pool.Join(w, upper, text, letters, []byte(text))
		fmt.Println(shout, rest)
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: STOLEN GOODS NEVER PROSPER 20
}

func ExampleWorker_Do() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	var words, lines int
	text := "all the king's horses\nand all the king's men"
	err = p.Run(func(w *pool.Worker) {
		w.Do(
			func(*pool.Worker) { words = len(strings.Fields(text)) },
			func(*pool.Worker) { lines = len(strings.Split(text, "\n")) },
		)
		fmt.Println(words, "words in", lines, "lines")
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 9 words in 2 lines
}

func ExampleWorker_Go() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// Each task queues three others, to a depth of two.
	var tasks sync.WaitGroup
	var visited atomic.Int64
	var visit func(w *pool.Worker, depth int)
	visit = func(w *pool.Worker, depth int) {
		defer tasks.Done()
		visited.Add(1)
		for range 3 * min(depth, 1) {
			tasks.Add(1)
			if err := w.Go(func(w *pool.Worker) { visit(w, depth-1) }); err != nil {
				tasks.Done() // refused, because the pool is being closed
			}
		}
	}
	tasks.Add(1)
	if err := p.Go(func(w *pool.Worker) { visit(w, 2) }); err != nil {
		log.Fatal(err)
	}
	tasks.Wait()
	fmt.Println(visited.Load())
	// Output: 13
}

func ExamplePool_Go() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	var sum atomic.Int64
	for i := range 100 {
		if err := p.Go(func(*pool.Worker) { sum.Add(int64(i)) }); err != nil {
			log.Fatal(err)
		}
	}
	p.Close() // returns when all 100 are done
	fmt.Println(sum.Load())
	fmt.Println(p.Go(func(*pool.Worker) {}))
	// Output:
	// 4950
	// pool: the pool is closed
}

func ExamplePool_Run() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// Run calls the function at once and in this goroutine, so it may use its variables.
	var largest, smallest int
	numbers := []int{3, 1, 4, 1, 5, 9, 2, 6}
	err = p.Run(func(w *pool.Worker) {
		largest, smallest = pool.Join(w,
			func(_ *pool.Worker, s []int) int { return slices.Max(s) }, numbers,
			func(_ *pool.Worker, s []int) int { return slices.Min(s) }, numbers)
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(smallest, largest)
	// Output: 1 9
}

func ExamplePool_Close() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	var leaves atomic.Int64
	var tree func(depth int) func(w *pool.Worker)
	tree = func(depth int) func(w *pool.Worker) {
		return func(w *pool.Worker) {
			if depth == 0 {
				leaves.Add(1)
				return
			}
			for range 2 {
				if err := w.Go(tree(depth - 1)); err != nil {
					log.Println(err)
				}
			}
		}
	}
	if err := p.Go(tree(10)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Close(), leaves.Load()) // it waits for what the tasks add, too
	fmt.Println(p.Close())
	fmt.Println(errors.Is(p.Run(func(*pool.Worker) {}), pool.ErrClosed))
	// Output:
	// <nil> 1024
	// pool: the pool is closed
	// true
}

func ExampleNewGroup() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	g, ctx := pool.NewGroup(p)
	g.Go(func() error { return errors.New("the safe is empty") })
	g.Go(func() error {
		<-ctx.Done() // the first error cancels the others
		return ctx.Err()
	})
	fmt.Println(g.Wait())
	fmt.Println(context.Cause(ctx))
	// Output:
	// the safe is empty
	// the safe is empty
}

func ExampleGroup_GoWorker() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	var count func(w *pool.Worker, n int) int // the nodes of a binary tree
	count = func(w *pool.Worker, n int) int {
		if n == 0 {
			return 1
		}
		left, right := pool.Join(w, count, n-1, count, n-1)
		return left + right + 1
	}
	g, _ := pool.NewGroup(p)
	nodes := make([]int, 5)
	for i := range nodes {
		g.GoWorker(func(w *pool.Worker) error {
			nodes[i] = count(w, i)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(nodes)
	// Output: [1 3 7 15 31]
}

func ExamplePanicError() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	g, _ := pool.NewGroup(p)
	g.Go(func() error { panic(fmt.Errorf("reading the plan: %w", io.ErrUnexpectedEOF)) })

	func() {
		defer func() {
			e := recover().(*pool.PanicError)
			fmt.Println(e.Value)
			fmt.Println(errors.Is(e, io.ErrUnexpectedEOF))
			fmt.Println(strings.Contains(string(e.Stack), "ExamplePanicError"))
		}()
		_ = g.Wait()
	}()
	// Output:
	// reading the plan: unexpected EOF
	// true
	// true
}

func ExampleWithCPUs() {
	cpus, err := heist.Allowed()
	if err != nil {
		log.Fatal(err)
	}
	// One worker, on the last CPU; the others are left to the rest of the process.
	p, err := pool.New(pool.WithCPUs(cpus[len(cpus)-1]))
	if errors.Is(err, heist.ErrPinning) {
		p, err = pool.New(pool.WithWorkers(1)) // this system does not bind threads
	}
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	fmt.Println("workers:", p.Workers())
	// Output: workers: 1
}

func ExamplePool_Stats() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	for range 1000 {
		if err := p.Go(func(*pool.Worker) {}); err != nil {
			log.Fatal(err)
		}
	}
	p.Close()

	stats := p.Stats()
	fmt.Println("all tasks were counted:", stats.Total().Tasks == 1000)
	for id, w := range stats.Workers[:p.Workers()] {
		if w.Items < w.Steals {
			fmt.Println("worker", id, "stole nothing, and counted it")
		}
	}
	// Output: all tasks were counted: true
}

// A library needs no pool of its own.
func ExampleDefault() {
	s := make([]int, 1000)
	err := pool.ForRange(pool.Default(), len(s), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			s[i] = i * i
		}
	})
	fmt.Println(s[30], err)
	// Output: 900 <nil>
}

// A function that recovers every panic must pass on the one that ends a cancelled call.
func ExampleIsUnwind() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	ctx, cancel := context.WithCancel(context.Background())
	err = p.With(ctx).Run(func(w *pool.Worker) {
		defer func() {
			if v := recover(); pool.IsUnwind(v) {
				panic(v)
			} else if v != nil {
				log.Print("recovered ", v)
			}
		}()
		cancel()
		for { // something that takes long
			w.Do(func(*pool.Worker) {}, func(*pool.Worker) {})
		}
	})
	fmt.Println(err)
	// Output: context canceled
}
