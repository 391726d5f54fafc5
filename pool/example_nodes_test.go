package pool_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

func ExampleWithTuning() {
	// For a machine whose nodes are far apart: a thief looks at its own node four times before it
	// turns to others, and seldom draws its victims from all nodes.
	p, err := pool.New(pool.WithTuning(pool.Tuning{Patience: 4, UniformLooks: 1.0 / 1024}))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	_, err = pool.New(pool.WithTuning(pool.Tuning{UniformLooks: 2}))
	fmt.Println(err)
	// Output: pool: Tuning.UniformLooks is 2; a probability must be at most 1
}

func ExampleTuning_latencies() {
	// Latencies as the benchmark command measures them: CPUs 0 and 1 are close to each other, CPU 2
	// is far from both.
	measured := `{"cpus": [0, 1, 2], "ns": [[0, 48, 97], [48, 0, 96], [97, 96, 0]]}`
	p, err := pool.New(pool.WithTuning(pool.Tuning{Latencies: strings.NewReader(measured)}))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	wrong := `{"cpus": [0, 1], "ns": [[0, 48], [-1, 0]]}`
	_, err = pool.New(pool.WithTuning(pool.Tuning{Latencies: strings.NewReader(wrong)}))
	fmt.Println(err)
	// Output: pool: Tuning.Latencies: from CPU 1 to CPU 0 it is -1 ns; it must be above 0
}

// Each node adds up the numbers in its own memory.
func ExampleOnNode() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	nodes := p.Nodes()
	parts := make([][]int, len(nodes)) // one for each node; see package numa for their memory
	for i := range parts {
		parts[i] = []int{1, 2, 3}
	}
	var sum atomic.Int64
	for i, node := range nodes {
		err := p.Submit(context.Background(), func(*pool.Worker) {
			for _, n := range parts[i] {
				sum.Add(int64(n))
			}
		}, pool.OnNode(node))
		if err != nil {
			log.Fatal(err)
		}
	}
	p.Close() // returns when all tasks have ended
	fmt.Println(sum.Load() == int64(6*len(nodes)))
	fmt.Println(p.Submit(context.Background(), func(*pool.Worker) {}, pool.OnNode(-1)) != nil) // there is no such node
	// Output:
	// true
	// true
}

// OnNode can be combined with other options.
func ExampleOnNode_priority() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	last := p.Nodes()[len(p.Nodes())-1]
	err = p.Submit(context.Background(), func(*pool.Worker) { fmt.Println("at once, if possible there") }, pool.OnNode(last), pool.PriorityHigh)
	if err != nil {
		log.Fatal(err)
	}
	p.Close()
	// Output: at once, if possible there
}

func ExampleWorker_Node() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	err = p.Run(func(w *pool.Worker) { fmt.Println(slices.Contains(p.Nodes(), w.Node())) })
	if err != nil {
		log.Fatal(err)
	}
	// Output: true
}

// A simulation goes over the same cells again and again. Cells that a node's workers have processed
// are likely to be in that node's caches and memory the next time.
func ExampleAffinity() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	cells := make([]int, 100_000)
	affinity := new(pool.Affinity) // for this loop
	for range 10 {
		err := par.For(p, len(cells), func(i int) { cells[i] += i }, affinity.Granularity())
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(cells[1], cells[99_999])
	// Output: 10 999990
}

func ExampleTuning_isolate() {
	// A worker that has a CPU to itself.
	p, err := pool.New(pool.WithWorkers(1), pool.WithTuning(pool.Tuning{Isolate: true}))
	if err != nil { // this process has one CPU, or its system does not bind threads
		p, err = pool.New(pool.WithWorkers(1))
	}
	if err != nil {
		log.Fatal(err)
	}
	answer := make(chan int)
	if err := p.Go(func(*pool.Worker) { answer <- 6 * 7 }); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-answer)
	p.Close() // gives the CPU back
	// Output: 42
}

func ExamplePool_StealMatrix() {
	p, err := pool.New(pool.WithWorkers(4))
	if err != nil {
		log.Fatal(err)
	}
	for range 1000 {
		if err := p.Go(func(*pool.Worker) {}); err != nil {
			log.Fatal(err)
		}
	}
	p.Close()

	sum := uint64(0)
	for thief, victims := range p.StealMatrix() {
		for victim, n := range victims {
			if thief != victim {
				sum += n
			}
		}
	}
	// A worker that waits for a fork may take one of its own, which the matrix counts too. Tasks
	// are taken only from other workers.
	fmt.Println("all steals were counted:", sum == p.Stats().Total().Steals)
	// Output: all steals were counted: true
}

// The system may move a worker whose CPU is busy, but only among the CPUs under the same cache.
func ExampleWithPinning() {
	p, err := pool.New(pool.WithPinning(pool.PinL3))
	if errors.Is(err, heist.ErrPinning) {
		p, err = pool.New(pool.WithPinning(pool.PinNone)) // the system may move them anywhere
	}
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	total, err := par.Sum(p, []int{1, 2, 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(total)
	// Output: 6
}
