// Package pipeline puts streams in a row. A pipeline begins with a sequence whose values come with errors: the results of [par.Stream] or
// [par.AsCompleted], or a source that can fail. Each [Stage] has a window and a place of its own, [Batches] collects values, and what
// ranges over the last of them has all results and the first error. To leave the loop ends all stages.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"time"

	"github.com/seed53057037/heist/internal/panics"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// Stage is [par.Stream] for values that come with errors: it returns f of each value, in the order of the values, and computes several at a
// time. The first error, be it a value's or f's, comes after the results before it, and ends the stage.
//
// All stages of a pipeline run their sources and loops in the goroutine that ranges over the last one, and compute wherever a worker of their places
// has time. Cost: that of par.Stream, and 20 ns for each value.
func Stage[T, R any](at pool.Place, values iter.Seq2[T, error], window int, f func(ctx context.Context, v T) (R, error)) iter.Seq2[R, error] {
	switch {
	case f == nil:
		return failed[R](errors.New("pipeline: Stage was given a nil function"))
	case values == nil:
		return failed[R](errNilSequence("Stage"))
	case window < 1:
		return failed[R](fmt.Errorf("pipeline: Stage was given a window of %d values; it must be 1 or more", window))
	}
	type result struct {
		v   T
		err error
	}
	results := func(yield func(result) bool) {
		for v, err := range values {
			if !yield(result{v, err}) || err != nil {
				return
			}
		}
	}
	return par.Stream(at, results, window, func(ctx context.Context, r result) (none R, err error) {
		if r.err != nil {
			return none, r.err
		}
		return f(ctx, r.v)
	})
}

func failed[R any](err error) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		yield(none, err)
	}
}

func errNilSequence(method string) error {
	return fmt.Errorf("pipeline: %s was given a nil sequence", method)
}

// Batches collects values into slices of n, in their order; the last one may be shorter. A batch that is not full is yielded even so when its first
// value has waited for the time within; 0 is for as long as it takes. The first error ends it, after a batch of the values before it. Each batch is
// a slice of its own.
//
// With a time, the sequence runs in a goroutine of its own, at most one value ahead. So it must not use the worker of the caller, but may use the pool; its
// panics continue in the caller; and who leaves the loop waits until the sequence has come to its next value or its end.
func Batches[T any](values iter.Seq2[T, error], n int, within time.Duration) iter.Seq2[[]T, error] {
	switch {
	case values == nil:
		return failed[[]T](errNilSequence("Batches"))
	case n < 1:
		return failed[[]T](fmt.Errorf("pipeline: Batches was given batches of %d values; they have at least 1", n))
	case within < 0:
		return failed[[]T](fmt.Errorf("pipeline: Batches was given the time %v; it must be positive, or 0 for no bound", within))
	case within == 0:
		return func(yield func([]T, error) bool) {
			c := collector[T]{n: n, yield: yield}
			for v, err := range values {
				if !c.add(v, err) {
					return
				}
			}
			c.flush()
		}
	}
	return func(yield func([]T, error) bool) { inTime(values, within, &collector[T]{n: n, yield: yield}) }
}

// collector is a batch that is being filled.
type collector[T any] struct {
	n     int
	yield func([]T, error) bool
	batch []T
}

// add takes a value and says whether there is to be another.
func (c *collector[T]) add(v T, err error) bool {
	if err != nil {
		if c.flush() {
			c.yield(nil, err)
		}
		return false
	}
	if c.batch == nil {
		c.batch = make([]T, 0, min(c.n, 1<<10))
	}
	c.batch = append(c.batch, v)
	return len(c.batch) < c.n || c.flush()
}

// flush yields what there is, and says whether there is to be more.
func (c *collector[T]) flush() bool {
	batch := c.batch
	c.batch = nil
	return len(batch) == 0 || c.yield(batch, nil)
}

// inTime fills batches in the caller, from values that another goroutine takes from the sequence.
func inTime[T any](values iter.Seq2[T, error], within time.Duration, c *collector[T]) {
	type result struct {
		v   T
		err error
	}
	results, enough, ended := make(chan result), make(chan struct{}), make(chan struct{})
	var ending any // of the sequence: what it panicked with, if it did; written before results and ended are closed
	returned := false
	go func() {
		defer close(ended)
		defer close(results)
		defer func() {
			if !returned {
				ending = panics.Recovered(recover())
			}
		}()
		for v, err := range values {
			select {
			case results <- result{v, err}:
				continue
			case <-enough:
			}
			break // now the sequence ends, and may panic as it does
		}
		returned = true
	}()
	defer func() {
		close(enough)
		<-ended
		switch {
		case ending != nil:
			panic(ending)
		case !returned:
			runtime.Goexit()
		}
	}()
	due := time.NewTimer(within)
	defer due.Stop()
	for {
		select {
		case r, ok := <-results:
			if !ok {
				if returned {
					c.flush()
				}
				return
			}
			if len(c.batch) == 0 {
				due.Reset(within)
			}
			if !c.add(r.v, r.err) {
				return
			}
		case <-due.C:
			if !c.flush() {
				return
			}
		}
	}
}
