package par_test

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// small is a pool for the examples.
func small() *pool.Pool {
	p, err := pool.New(pool.WithWorkers(2))
	if err != nil {
		panic(err)
	}
	return p
}

func ExampleMapRange() {
	p := small()
	defer p.Close()
	squares, err := par.MapRange(p, 5, func(out []int, lo, hi int) {
		for i := range out {
			out[i] = (lo + i) * (lo + i)
		}
	})
	fmt.Println(squares, err)
	// Output: [0 1 4 9 16] <nil>
}

func ExampleReduceRange() {
	p := small()
	defer p.Close()
	xs, ys := []float64{1, 2, 3}, []float64{4, 5, 6}
	dot, err := par.ReduceRange(p, len(xs), func(lo, hi int) (sum float64) {
		for i := lo; i < hi; i++ {
			sum += xs[i] * ys[i]
		}
		return sum
	}, func(a, b float64) float64 { return a + b })
	fmt.Println(dot, err)
	// Output: 32 <nil>
}

func ExampleSum() {
	p := small()
	defer p.Close()
	fmt.Println(par.Sum(p, []int{1, 2, 3, 4}))
	// Output: 10 <nil>
}

func ExampleSums() {
	p := small()
	defer p.Close()
	s := []int{1, 2, 3, 4}
	fmt.Println(par.Sums(p, s, s), s)
	// Output: <nil> [1 3 6 10]
}

// Where each word of a text begins, computed from the lengths of the words.
func ExampleScanRange() {
	p := small()
	defer p.Close()
	words := []string{"to", "be", "or", "not"}
	begins := make([]int, len(words))
	length := func(lo, hi int) (n int) {
		for _, w := range words[lo:hi] {
			n += len(w) + 1
		}
		return n
	}
	err := par.ScanRange(p, len(words), length, func(a, b int) int { return a + b },
		func(before, lo, hi int) int {
			for i := lo; i < hi; i++ {
				begins[i] = before
				before += len(words[i]) + 1
			}
			return before
		})
	fmt.Println(begins, err)
	// Output: [0 3 6 9] <nil>
}

func ExampleCount() {
	p := small()
	defer p.Close()
	fmt.Println(par.Count(p, []string{"a", "bb", "cc"}, func(s string) bool { return len(s) == 2 }))
	// Output: 2 <nil>
}

func ExampleCountRange() {
	p := small()
	defer p.Close()
	text := "to be or not to be"
	fmt.Println(par.CountRange(p, len(text), func(lo, hi int) int { return strings.Count(text[lo:hi], "b") }))
	// Output: 2 <nil>
}

func ExampleFindRange() {
	p := small()
	defer p.Close()
	text := "to be or not to be"
	fmt.Println(par.FindRange(p, len(text), func(lo, hi int) int {
		if i := strings.IndexByte(text[lo:hi], 'b'); i >= 0 {
			return lo + i
		}
		return -1
	}))
	// Output: 3 <nil>
}

func ExampleAny() {
	p := small()
	defer p.Close()
	fmt.Println(par.Any(p, []int{1, 2, 3}, func(n int) bool { return n > 2 }))
	fmt.Println(par.All(p, []int{1, 2, 3}, func(n int) bool { return n > 2 }))
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleMinFunc() {
	p := small()
	defer p.Close()
	byLength := func(a, b string) int { return cmp.Compare(len(a), len(b)) }
	words := []string{"be", "or", "not"}
	fmt.Println(par.MinFunc(p, words, byLength))
	fmt.Println(par.MaxFunc(p, words, byLength))
	// Output:
	// be <nil>
	// not <nil>
}

func ExamplePartition() {
	p := small()
	defer p.Close()
	fmt.Println(par.Partition(p, []int{1, 2, 3, 4, 5}, func(n int) bool { return n%2 == 0 }))
	// Output: [2 4] [1 3 5] <nil>
}

func ExampleFlatMap() {
	p := small()
	defer p.Close()
	fmt.Println(par.FlatMap(p, []string{"a b", "", "c"}, func(out []string, s string) []string {
		return append(out, strings.Fields(s)...)
	}))
	// Output: [a b c] <nil>
}

func ExampleFilterRange() {
	p := small()
	defer p.Close()
	fmt.Println(par.FilterRange(p, 30, func(out []int, lo, hi int) []int {
		for i := lo; i < hi; i++ {
			if i%7 == 0 {
				out = append(out, i)
			}
		}
		return out
	}))
	// Output: [0 7 14 21 28] <nil>
}

func ExampleDedup() {
	p := small()
	defer p.Close()
	fmt.Println(par.Dedup(p, []int{1, 1, 2, 3, 3, 3}))
	// Output: [1 2 3] <nil>
}

func ExampleGroupBy() {
	p := small()
	defer p.Close()
	fmt.Println(par.GroupBy(p, []string{"a", "bb", "c", "dd"}, func(s string) int { return len(s) }))
	// Output: map[1:[a c] 2:[bb dd]] <nil>
}

func ExampleShuffle() {
	p := small()
	defer p.Close()
	a, b := []int{1, 2, 3, 4, 5, 6, 7, 8}, []int{1, 2, 3, 4, 5, 6, 7, 8}
	fmt.Println(par.Shuffle(p, a, 1), par.Shuffle(p, b, 1), fmt.Sprint(a) == fmt.Sprint(b))
	// Output: <nil> <nil> true
}
