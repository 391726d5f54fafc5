package pool_test

import (
	"fmt"
	"log"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

func ExampleForRange() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// One atomic addition for each range, not for each item.
	text := strings.Repeat("to steal or not to steal ", 1000)
	var spaces atomic.Int64
	err = pool.ForRange(p, len(text), func(lo, hi int) {
		spaces.Add(int64(strings.Count(text[lo:hi], " ")))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(spaces.Load())
	// Output: 6000
}

func ExampleForRange_worker() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// Each worker has a histogram of its own. They are added up at the end.
	text := strings.Repeat("abracadabra", 1000)
	counts := make([][256]int, p.Slots())
	err = pool.ForRange(p, len(text), func(w *pool.Worker, lo, hi int) {
		mine := &counts[w.ID()]
		for _, c := range []byte(text[lo:hi]) {
			mine[c]++
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	var total [256]int
	for i := range counts {
		for c, n := range counts[i] {
			total[c] += n
		}
	}
	fmt.Println(total['a'], total['b'], total['z'])
	// Output: 5000 2000 0
}

func ExampleGrain() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// The body needs space in proportion to its range, so the length of a range is bounded.
	const most = 64
	var longest atomic.Int64
	err = pool.ForRange(p, 1000, func(lo, hi int) {
		var buffer [most]int
		work := buffer[:hi-lo]
		for {
			n := longest.Load()
			if int64(len(work)) <= n || longest.CompareAndSwap(n, int64(len(work))) {
				break
			}
		}
	}, pool.Grain(most))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(longest.Load() <= most)
	// Output: true
}

func ExampleGranularity() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// The caller chooses the granularity at run time. Granularity{} is the same as passing none.
	sum := func(numbers []int, g pool.Granularity) int64 {
		var total atomic.Int64
		err := pool.ForRange(p, len(numbers), func(lo, hi int) {
			part := 0
			for _, n := range numbers[lo:hi] {
				part += n
			}
			total.Add(int64(part))
		}, g)
		if err != nil {
			log.Fatal(err)
		}
		return total.Load()
	}
	numbers := []int{1, 2, 3, 4, 5}
	fmt.Println(sum(numbers, pool.Granularity{}), sum(numbers, pool.Grain(2)))
	// Output: 15 15
}

func ExampleAdaptiveGrain() {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	grain := new(pool.AdaptiveGrain) // one for each loop of the program
	numbers := make([]int, 10_000)
	fmt.Println("first:", grain.Grain())
	for range 100 { // if the machine stalls during a run, that run makes the grain smaller
		err = par.For(p, len(numbers), func(i int) { numbers[i]++ }, grain.Granularity())
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("grown, for nobody steals here:", grain.Grain() > 1000)
	// Output:
	// first: 1000
	// grown, for nobody steals here: true
}

func ExampleChunks() {
	p, err := pool.New(pool.WithWorkers(2))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// An even split: one range for each worker.
	var ranges atomic.Int64
	err = pool.ForRange(p, 1000, func(lo, hi int) { ranges.Add(1) }, pool.Chunks(1))
	fmt.Println(ranges.Load(), err)
	// Output: 2 <nil>
}

func ExampleGranularity_AtMost() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// A background loop leaves workers to other calls.
	var sum atomic.Int64
	err = par.For(p, 1000, func(i int) { sum.Add(int64(i)) }, pool.Granularity{}.AtMost(2))
	fmt.Println(sum.Load(), err)
	// Output: 499500 <nil>
}

func ExampleWorker_Merging() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// Each range counts words in a table of its own, and adds it to that of all. The fewer ranges, the fewer tables.
	words := strings.Fields(strings.Repeat("to steal or not to steal ", 10_000))
	var lock sync.Mutex
	all := map[string]int{}
	err = pool.ForRange(p, len(words), func(w *pool.Worker, lo, hi int) {
		begin := heist.Ticks()
		table := map[string]int{}
		for _, word := range words[lo:hi] {
			table[word]++
		}
		counted := heist.Ticks()
		lock.Lock()
		defer lock.Unlock()
		locked := heist.Ticks()
		for word, n := range table {
			all[word] += n
		}
		w.Merging(float64(heist.Ticks()-locked) / float64(max(counted-begin, 1)))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(all["steal"])
	// Output: 20000
}
