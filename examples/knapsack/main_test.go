package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed53057037/heist/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// best solves by dynamic programming: the best value for each capacity, item by item.
func best(items []item, capacity int) int {
	values := make([]int, capacity+1)
	for _, i := range items {
		for c := capacity; c >= i.weight; c-- {
			values[c] = max(values[c], values[c-i.weight]+i.value)
		}
	}
	return values[capacity]
}

// check says what is wrong with a solution in itself.
func check(t *testing.T, found solution, capacity int) {
	var weight, value int
	for _, i := range found.items {
		weight += i.weight
		value += i.value
	}
	if weight != found.weight || value != found.value || weight > capacity {
		t.Errorf("%+v weighs %d of %d and is worth %d", found, weight, capacity, value)
	}
}

func newPool(t *testing.T) *pool.Pool {
	p, err := pool.New(pool.WithWorkers(4))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestAgainstDynamicProgramming(t *testing.T) {
	p := newPool(t)
	for seed := range uint64(60) {
		items, capacity := randomItems(1+int(seed)%30, seed)
		for _, at := range []pool.Place{p, pool.Serial()} {
			found, err := solve(at, items, capacity)
			if err != nil {
				t.Fatal(err)
			}
			check(t, found, capacity)
			if want := best(items, capacity); found.value != want {
				t.Errorf("seed %d: got value %d, want %d", seed, found.value, want)
			}
		}
	}
}

// With values that are the weights, the bound is the capacity, and many sets reach it. To look at all of them would take for ever.
func TestStopsAtTheBound(t *testing.T) {
	items, capacity := randomItems(maxItems, 1)
	for i := range items {
		items[i].value = items[i].weight
	}
	found, err := solve(newPool(t), items, capacity)
	if err != nil || found.value != capacity {
		t.Errorf("got value %d and error %v, want %d", found.value, err, capacity)
	}
	check(t, found, capacity)
}

// Even weights never fill an odd capacity, so only the end of the time ends this search.
func endless() (items []item, capacity int) {
	items, capacity = randomItems(maxItems, 1)
	for i := range items {
		items[i].weight &^= 1
		items[i].value = items[i].weight
	}
	return items, capacity | 1
}

func TestLimit(t *testing.T) {
	items, capacity := endless()
	p := newPool(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errLimit)
	defer cancel()
	found, err := solve(p.With(ctx), items, capacity)
	if !errors.Is(err, errLimit) || found.value == 0 {
		t.Errorf("got value %d and error %v, want some value and %v", found.value, err, errLimit)
	}
	check(t, found, capacity)
}

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-items", "20", "-seed", "7"}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "of 20 items") || !strings.Contains(out.String(), "nothing is better") {
		t.Errorf("got %q, want the best of 20 items", &out)
	}
	out.Reset()
	if err := run(t.Context(), []string{"-limit", "1ns"}, &out); err != nil || !strings.Contains(out.String(), "there may be better ones") {
		t.Errorf("got %q and error %v, want that there may be better ones", &out, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, nil, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that of the context", err)
	}
}

func TestUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"want 1 to 64":  {"-items", "65"},
		"want 0 or":     {"-limit", "-1s"},
		"invalid value": {"-seed", "-1"},
		"unexpected":    {"7"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", args, err, want)
		}
	}
}
