package pool_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/seed53057037/heist/pool"
)

// double is a loop's body. The code for an item stands in its Run, so no function is called for each
// item.
type double []int

func (s double) Run(lo, hi int) {
	for i := lo; i < hi; i++ {
		s[i] *= 2
	}
}

// Func says that the body calls no function of a user.
func (s double) Func() any { return nil }

func ExampleForBody() {
	p, err := pool.New(pool.WithWorkers(2))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	s := []int{1, 2, 3}
	err = pool.ForBody(p, len(s), double(s))
	fmt.Println(err, s)
	// Output: <nil> [2 4 6]
}

// A sum that is done in the caller alone if there is little to add.
func ExampleGranularity_Probe() {
	p, err := pool.New(pool.WithWorkers(2))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	s := []int{1, 2, 3}
	sum := 0
	done, others, err := pool.Granularity{}.Probe(p, len(s), nil, func(lo, hi int) (more bool) {
		for _, x := range s[lo:hi] {
			sum += x
		}
		return true
	})
	if err == nil && done < len(s) {
		var rest atomic.Int64
		err = pool.ForBody(p, len(s)-done, adding{s[done:], &rest}, others)
		sum += int(rest.Load())
	}
	fmt.Println(sum, err)
	// Output: 6 <nil>
}

type adding struct {
	s   []int
	sum *atomic.Int64
}

func (b adding) Func() any { return nil }

func (b adding) Run(lo, hi int) {
	for _, x := range b.s[lo:hi] {
		b.sum.Add(int64(x))
	}
}

// The work is cut in two if a worker is idle. Otherwise the caller does all of it.
func ExampleWorker_Idle() {
	p, err := pool.New(pool.WithWorkers(2))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	parts := 0
	err = pool.Do(p, func(w *pool.Worker) { parts = min(w.Idle(), 1) + 1 })
	fmt.Println(parts >= 1, err)
	// Output: true <nil>
}

func ExampleWorker_Checkpoint() {
	p, err := pool.New(pool.WithWorkers(2))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(context.Background())
	err = pool.Do(p.With(ctx), func(w *pool.Worker) {
		for round := 0; ; round++ {
			w.Checkpoint()
			if round == 1000 {
				cancel()
			}
		}
	})
	fmt.Println(err)
	// Output: context canceled
}

// Both slices must change together, so a cancellation must not end the loop halfway.
func ExampleWorker_Uncancelled() {
	p, err := pool.New(pool.WithWorkers(2))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	a, b := make([]int, 1000), make([]int, 1000)
	err = pool.Do(p.With(context.Background()), func(w *pool.Worker) {
		w.Uncancelled(func(cancelled func() bool) {
			if !cancelled() {
				_ = pool.ForRange(w, len(a), func(lo, hi int) {
					for i := lo; i < hi; i++ {
						a[i], b[i] = i, -i
					}
				})
			}
		})
	})
	fmt.Println(a[999], b[999], err)
	// Output: 999 -999 <nil>
}

func ExampleGranularity_InOrder() {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	last := 0
	err = pool.ForRange(p, 1000, func(lo, hi int) { last = hi }, pool.Granularity{}.InOrder())
	fmt.Println(last, err)
	// Output: 1000 <nil>
}

func ExampleGranularity_FromEnd() {
	err := pool.ForRange(pool.Serial(), 10, func(lo, hi int) { fmt.Println(lo, hi) }, pool.Grain(4).FromEnd())
	fmt.Println(err)
	// Output:
	// 6 10
	// 2 6
	// 0 2
	// <nil>
}

// The first result ends the search: ranges that have not begun are skipped. A body with a worker would call its Stop.
func ExampleForRange_search() {
	p, err := pool.New()
	if err != nil {
		panic(err)
	}
	defer p.Close()

	errFound := errors.New("found")
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var where atomic.Int64
	err = pool.ForRange(p.With(ctx), 1_000_000, func(lo, hi int) {
		if lo <= 12 && 12 < hi {
			where.Store(12)
			cancel(errFound)
		}
	})
	if err != nil && !errors.Is(err, errFound) { // nil if the other ranges had all run before
		panic(err)
	}
	fmt.Println(where.Load())
	// Output: 12
}
