package pool_test

import (
	"bufio"
	"cmp"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed53057037/heist/pool"
)

func ExampleFor() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// The rows of a product of matrices. Nothing needs to be said about their size.
	a := [][]int{{1, 2}, {3, 4}, {5, 6}}
	b := [][]int{{1, 0, 2}, {0, 1, 3}}
	product := make([][]int, len(a))
	err = pool.For(p, len(a), func(i int) {
		product[i] = make([]int, len(b[0]))
		for k, x := range a[i] {
			for j, y := range b[k] {
				product[i][j] += x * y
			}
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(product)
	// Output: [[1 2 8] [3 4 18] [5 6 28]]
}

func ExampleForRange() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// One atomic addition for a range, not for each item.
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

func ExampleForWorker() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// A histogram for each worker, and at the end their sum.
	text := strings.Repeat("abracadabra", 1000)
	counts := make([][256]int, p.Slots())
	err = pool.ForWorker(p, len(text), func(w *pool.Worker, lo, hi int) {
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

func ExampleForEach() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	type account struct {
		owner string
		cents int
	}
	accounts := []account{{"Ada", 1000}, {"Bob", 250}, {"Cyd", 0}}
	err = pool.ForEach(p, accounts, func(a *account) { a.cents += a.cents / 50 })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(accounts)
	// Output: [{Ada 1020} {Bob 255} {Cyd 0}]
}

func ExampleGrain() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// What is done with a range needs space that grows with it, so it is bounded.
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

func ExampleLazy() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// A granularity that is chosen at run time; Lazy is the same as none.
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
	fmt.Println(sum(numbers, pool.Lazy), sum(numbers, pool.Grain(2)))
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
	for range 3 {
		err = pool.For(p, len(numbers), func(i int) { numbers[i]++ }, grain.Granularity())
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("grown, for nobody steals here:", grain.Grain() > 1000)
	// Output:
	// first: 1000
	// grown, for nobody steals here: true
}

func ExampleMap() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	upper, err := pool.Map(p, []string{"gold", "silver"}, strings.ToUpper)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(upper)
	// Output: [GOLD SILVER]
}

func ExampleMapTo() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	numbers := []int{1, 2, 3}
	err = pool.MapTo(p, numbers, numbers, func(n int) int { return n * n }) // in place
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(numbers)
	// Output: [1 4 9]
}

func ExampleReduce() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// The mean needs two numbers. The sums are rounded alike with any number of workers.
	type sum struct {
		total float64
		n     int
	}
	total, err := pool.Reduce(p, []float64{1.5, 2.5, 5}, sum{},
		func(s sum, x float64) sum { return sum{s.total + x, s.n + 1} },
		func(a, b sum) sum { return sum{a.total + b.total, a.n + b.n} })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(total.total / float64(total.n))
	// Output: 3
}

func ExampleScan() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// Where each of these begins, if they lie one after the other.
	lengths := []int{5, 3, 7, 1}
	ends := make([]int, len(lengths))
	err = pool.Scan(p, ends, lengths, func(a, b int) int { return a + b })
	if err != nil {
		log.Fatal(err)
	}
	for i, length := range lengths {
		fmt.Print(ends[i]-length, " ")
	}
	fmt.Println("of", ends[len(ends)-1])
	// Output: 0 5 8 15 of 16
}

func ExampleFilter() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	long, err := pool.Filter(p, []string{"vault", "key", "getaway"}, func(s string) bool { return len(s) > 3 })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(long)
	// Output: [vault getaway]
}

func ExampleFind() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// The first power of two whose digits are all even and which has more than one.
	powers := make([]int, 30)
	for i := range powers {
		powers[i] = 1 << i
	}
	i, err := pool.Find(p, powers, func(n int) bool {
		return n > 9 && !strings.ContainsAny(fmt.Sprint(n), "13579")
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(i, powers[i])

	i, err = pool.Find(p, powers, func(n int) bool { return n%3 == 0 })
	fmt.Println(i, err)
	// Output:
	// 6 64
	// -1 <nil>
}

func ExampleMinMax() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	least, most, err := pool.MinMax(p, []float64{2.5, -1, 7})
	fmt.Println(least, most, err)
	_, _, err = pool.MinMax(p, []float64{})
	fmt.Println(err)
	// Output:
	// -1 7 <nil>
	// pool: MinMax was given an empty slice
}

func ExampleEach() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// The lines come one by one, from a reader that only the caller touches.
	lines := func(yield func(string) bool) {
		text := bufio.NewScanner(strings.NewReader("3 gold\n5 silver\n8 copper\n"))
		for text.Scan() && yield(text.Text()) {
		}
	}
	var pieces atomic.Int64
	err = pool.Each(p, lines, func(line string) {
		var n int64
		if _, err := fmt.Sscan(line, &n); err == nil {
			pieces.Add(n)
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pieces.Load())
	// Output: 16
}

func ExampleCollect() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	words := strings.FieldsSeq("to steal or not to steal")
	lengths, err := pool.Collect(p, words, func(word string) int { return len(word) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lengths)
	// Output: [2 5 2 3 2 5]
}

func ExamplePhases() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// The heat in a rod whose ends are kept at 0 and 64. Each step needs all of the one
	// before.
	const n = 9
	var rods [2][n]float64
	rods[0][n-1], rods[1][n-1] = 64, 64
	const steps = 1000
	err = pool.Phases(p, n-2, steps, func(step, lo, hi int) {
		from, to := &rods[step%2], &rods[1-step%2]
		for i := lo + 1; i < hi+1; i++ {
			to[i] = (from[i-1] + from[i+1]) / 2
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, heat := range rods[steps%2] {
		fmt.Printf("%.0f ", heat)
	}
	// Output: 0 8 16 24 32 40 48 56 64
}

func ExampleSort() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	numbers := []int{3, 1, 4, 1, 5, 9, 2, 6}
	if err := pool.Sort(p, numbers); err != nil {
		log.Fatal(err)
	}
	fmt.Println(numbers)
	// Output: [1 1 2 3 4 5 6 9]
}

func ExampleSortFunc() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	words := []string{"vault", "key", "getaway", "gem"}
	err = pool.SortFunc(p, words, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(words)
	// Output: [gem key vault getaway]
}

func ExampleSortStableFunc() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	words := []string{"vault", "key", "getaway", "gem"}
	err = pool.SortStableFunc(p, words, func(a, b string) int { return len(a) - len(b) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(words, slices.IsSortedFunc(words, func(a, b string) int { return len(a) - len(b) }))
	// Output: [key gem vault getaway] true
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

	// A loop in the background leaves workers for others.
	var sum atomic.Int64
	err = pool.For(p, 1000, func(i int) { sum.Add(int64(i)) }, pool.Lazy.AtMost(2))
	fmt.Println(sum.Load(), err)
	// Output: 499500 <nil>
}
