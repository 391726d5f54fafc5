package par_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"log"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

func ExampleFor() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// The rows of a matrix product. The loop needs no hint about their size.
	a := [][]int{{1, 2}, {3, 4}, {5, 6}}
	b := [][]int{{1, 0, 2}, {0, 1, 3}}
	product := make([][]int, len(a))
	err = par.For(p, len(a), func(i int) {
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
	err = par.ForEach(p, accounts, func(a *account) { a.cents += a.cents / 50 })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(accounts)
	// Output: [{Ada 1020} {Bob 255} {Cyd 0}]
}

func ExampleMap() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	upper, err := par.Map(p, []string{"gold", "silver"}, strings.ToUpper)
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
	err = par.MapTo(p, numbers, numbers, func(n int) int { return n * n }) // in place
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

	// The mean needs a total and a count. The total is rounded the same way with any number of
	// workers.
	type sum struct {
		total float64
		n     int
	}
	total, err := par.Reduce(p, []float64{1.5, 2.5, 5}, func() sum { return sum{} },
		func(s sum, x float64) sum { return sum{s.total + x, s.n + 1} },
		func(a, b sum) sum { return sum{a.total + b.total, a.n + b.n} })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(total.total / float64(total.n))
	// Output: 3
}

// Each block of words is counted in a map of its own.
func ExampleReduce_histogram() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	words := strings.Fields("to steal or not to steal")
	counts, err := par.Reduce(p, words,
		func() map[string]int { return map[string]int{} },
		func(counts map[string]int, word string) map[string]int { counts[word]++; return counts },
		func(a, b map[string]int) map[string]int {
			for word, n := range b {
				a[word] += n
			}
			return a
		})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(counts)
	// Output: map[not:1 or:1 steal:2 to:2]
}

func ExampleScan() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// Where each item begins, if items of these lengths lie one after the other.
	lengths := []int{5, 3, 7, 1}
	ends := make([]int, len(lengths))
	err = par.Scan(p, ends, lengths, func(a, b int) int { return a + b })
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

	long, err := par.Filter(p, []string{"vault", "key", "getaway"}, func(s string) bool { return len(s) > 3 })
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

	// The first power of two that has more than one digit, and only even ones.
	powers := make([]int, 30)
	for i := range powers {
		powers[i] = 1 << i
	}
	i, err := par.Find(p, powers, func(n int) bool {
		return n > 9 && !strings.ContainsAny(fmt.Sprint(n), "13579")
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(i, powers[i])

	i, err = par.Find(p, powers, func(n int) bool { return n%3 == 0 })
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

	least, most, err := par.MinMax(p, []float64{2.5, -1, 7})
	fmt.Println(least, most, err)
	_, _, err = par.MinMax(p, []float64{})
	fmt.Println(err)
	// Output:
	// -1 7 <nil>
	// par: MinMax, MinFunc or MaxFunc was given an empty slice
}

func ExampleForSeq() {
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
	err = par.ForSeq(p, lines, func(line string) {
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

func ExampleMapSeq() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	words := strings.FieldsSeq("to steal or not to steal")
	lengths, err := par.MapSeq(p, words, func(word string) int { return len(word) })
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

	// The heat in a rod whose ends are kept at 0 and 64. Each step needs all of the step before.
	const n = 9
	var rods [2][n]float64
	rods[0][n-1], rods[1][n-1] = 64, 64
	const steps = 1000
	err = par.Phases(p, n-2, steps, func(step, lo, hi int) {
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
	if err := par.Sort(p, numbers); err != nil {
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
	err = par.SortFunc(p, words, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(words)
	// Output: [gem key vault getaway]
}

func ExampleForErr() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	safes := []string{"tin", "iron", "", "steel"}
	err = par.ForErr(p, len(safes), func(ctx context.Context, i int) error {
		if safes[i] == "" {
			return fmt.Errorf("safe %d is not there", i)
		}
		return ctx.Err() // a function that takes long looks at ctx now and then, or passes it on
	})
	fmt.Println(err)
	// Output: safe 2 is not there
}

func ExampleMapErr() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	numbers, err := par.MapErr(p, []string{"1", "2", "3"}, func(_ context.Context, s string) (int, error) {
		return strconv.Atoi(s)
	})
	fmt.Println(numbers, err)
	// Output: [1 2 3] <nil>
}

func ExampleJoinErrors() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	numbers, err := par.MapErr(par.JoinErrors(p), []string{"1", "two", "3", "four"}, func(_ context.Context, s string) (int, error) {
		return strconv.Atoi(s)
	})
	fmt.Println(numbers)
	fmt.Println(err)
	// Output:
	// [1 0 3 0]
	// strconv.Atoi: parsing "two": invalid syntax
	// strconv.Atoi: parsing "four": invalid syntax
}

// Lines are parsed at the same time and written in order.
func ExampleStream() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	lines := strings.Lines("1\n22\n333\nfour\n55555\n")
	for n, err := range par.Stream(p, lines, 64, func(_ context.Context, line string) (int, error) {
		return strconv.Atoi(strings.TrimSpace(line))
	}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(n)
	}
	// Output:
	// 1
	// 22
	// 333
	// strconv.Atoi: parsing "four": invalid syntax
}

func ExampleAsCompleted() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	sum := 0
	for n, err := range par.AsCompleted(p, slices.Values([]int{1, 2, 3, 4}), 8, func(_ context.Context, n int) (int, error) {
		return n * n, nil
	}) {
		if err != nil {
			log.Fatal(err)
		}
		sum += n
	}
	fmt.Println(sum)
	// Output: 30
}

func ExampleMergeFunc() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	known := []int{2, 3, 5, 7, 11}
	found := []int{1, 6, 7, 30}
	all := append(known, found...)
	if err := par.MergeFunc(p, all, len(known), cmp.Compare); err != nil {
		log.Fatal(err)
	}
	fmt.Println(all)
	// Output: [1 2 3 5 6 7 7 11 30]
}

func ExampleSortBy() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	words := []string{"vault", "key", "getaway", "gem"}
	err = par.SortBy(p, words, func(word string) int { return len(word) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(words, slices.IsSortedFunc(words, func(a, b string) int { return len(a) - len(b) }))
	// Output: [key gem vault getaway] true
}
