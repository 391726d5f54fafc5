package main

import (
	"context"
	"errors"
	"sync"

	"github.com/alitto/pond/v2"
	"github.com/panjf2000/ants/v2"
	"github.com/sourcegraph/conc/iter"
	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

const limit = 4

var errEmpty = errors.New("a word is empty")

// With errgroup, the first error cancels the context, and Wait returns it. A heist group does the same, and its
// functions that have not begun never begin.

func errgroupBefore(ctx context.Context, words []string) ([]int, error) {
	lengths := make([]int, len(words))
	g, _ := errgroup.WithContext(ctx)
	g.SetLimit(limit)
	for i, word := range words {
		g.Go(func() (err error) {
			lengths[i], err = length(word)
			return err
		})
	}
	return lengths, g.Wait()
}

func errgroupAfter(ctx context.Context, words []string) ([]int, error) {
	lengths := make([]int, len(words))
	g, _ := pool.NewGroup(pool.Default().With(ctx))
	g.SetLimit(limit)
	for i, word := range words {
		g.Go(func() (err error) {
			lengths[i], err = length(word)
			return err
		})
	}
	return lengths, g.Wait()
}

// With conc, the function gets a pointer, and no context. Both return the results in order.

func concBefore(_ context.Context, words []string) ([]int, error) {
	return iter.MapErr(words, func(word *string) (int, error) { return length(*word) })
}

func concAfter(ctx context.Context, words []string) ([]int, error) {
	return par.MapErr(pool.Default().With(ctx), words, func(_ context.Context, word string) (int, error) { return length(word) })
}

// With ants, a pool runs functions, and the caller waits by its own means. A group waits, and collects errors.

func antsBefore(_ context.Context, words []string) ([]int, error) {
	p, err := ants.NewPool(limit)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	lengths, errs := make([]int, len(words)), make([]error, len(words))
	var wg sync.WaitGroup
	for i, word := range words {
		wg.Add(1)
		if err := p.Submit(func() {
			defer wg.Done()
			lengths[i], errs[i] = length(word)
		}); err != nil {
			wg.Done()
			errs[i] = err
		}
	}
	wg.Wait()
	return lengths, errors.Join(errs...)
}

func antsAfter(ctx context.Context, words []string) ([]int, error) {
	p, err := pool.New(pool.WithWorkers(limit))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	lengths := make([]int, len(words))
	g, _ := pool.NewGroup(p.With(ctx))
	g.JoinErrors()
	for i, word := range words {
		g.Go(func() (err error) {
			lengths[i], err = length(word)
			return err
		})
	}
	return lengths, g.Wait()
}

// With pond, a group of a result pool returns its results in the order of Submit, as GroupOf does.

func pondBefore(ctx context.Context, words []string) ([]int, error) {
	p := pond.NewResultPool[int](limit)
	defer p.StopAndWait()
	g := p.NewGroupContext(ctx)
	for _, word := range words {
		g.SubmitErr(func() (int, error) { return length(word) })
	}
	return g.Wait()
}

func pondAfter(ctx context.Context, words []string) ([]int, error) {
	g, _ := pool.GroupOf[int](pool.Default().With(ctx))
	g.AtMost(limit)
	for _, word := range words {
		g.Go(func() (int, error) { return length(word) })
	}
	return g.Wait()
}
