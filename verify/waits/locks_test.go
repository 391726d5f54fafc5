package waits

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed53057037/heist/errgroup"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// lock calls f while no other call of the same lock does, or the first of them. Where it waits it calls wait.
type lock func(wait func(func()), f func())

// locks make one lock of each kind.
var locks = map[string]func() lock{
	"Mutex": func() lock {
		var mu sync.Mutex
		return func(wait func(func()), f func()) {
			wait(mu.Lock)
			defer mu.Unlock()
			f()
		}
	},
	"RWMutex": func() lock {
		var mu sync.RWMutex
		var turn atomic.Int32
		return func(wait func(func()), f func()) {
			if turn.Add(1)%3 == 0 {
				wait(mu.Lock)
				defer mu.Unlock()
			} else {
				wait(mu.RLock)
				defer mu.RUnlock()
			}
			f()
		}
	},
	"Once": func() lock { // the first call holds it, and the others wait for that one's end
		var once sync.Once
		var called atomic.Bool
		return func(wait func(func()), f func()) {
			first, ran := called.CompareAndSwap(false, true), false
			do := func() {
				once.Do(func() {
					if first {
						f()
						ran = true
					}
				})
			}
			if first {
				do()
			} else {
				wait(do)
			}
			if !ran {
				f()
			}
		}
	},
	"Cond": func() lock {
		var mu sync.Mutex
		cond, busy := sync.NewCond(&mu), false
		return func(wait func(func()), f func()) {
			wait(func() {
				mu.Lock()
				for busy {
					cond.Wait()
				}
				busy = true
				mu.Unlock()
			})
			f()
			wait(mu.Lock)
			busy = false
			mu.Unlock()
			cond.Broadcast()
		}
	},
	"WaitGroup": func() lock { // each waits for the one before
		var last atomic.Pointer[sync.WaitGroup]
		return func(wait func(func()), f func()) {
			mine := new(sync.WaitGroup)
			mine.Add(1)
			defer mine.Done()
			if before := last.Swap(mine); before != nil {
				wait(before.Wait)
			}
			f()
		}
	},
	"channel": func() lock {
		c := make(chan struct{}, 1)
		return func(wait func(func()), f func()) {
			wait(func() { c <- struct{}{} })
			defer func() { <-c }()
			f()
		}
	},
	"context": func() lock { // each waits for the end of the context of the one before
		var last atomic.Pointer[context.Context]
		return func(wait func(func()), f func()) {
			mine, end := context.WithCancel(context.Background())
			defer end()
			if before := last.Swap(&mine); before != nil {
				wait(func() { <-(*before).Done() })
			}
			f()
		}
	},
}

// gate is something that one waits for until another opens it.
type gate struct{ wait, open func() }

var gates = map[string]func() gate{
	"channel": func() gate {
		c := make(chan struct{})
		return gate{func() { <-c }, func() { close(c) }}
	},
	"select": func() gate {
		c, never := make(chan struct{}), make(chan struct{})
		return gate{func() {
			select {
			case <-c:
			case <-never:
			}
		}, func() { close(c) }}
	},
	"WaitGroup": func() gate {
		var wg sync.WaitGroup
		wg.Add(1)
		return gate{wg.Wait, wg.Done}
	},
	"Mutex": func() gate {
		var mu sync.Mutex
		mu.Lock()
		return gate{func() { mu.Lock(); defer mu.Unlock() }, mu.Unlock}
	},
	"RWMutex": func() gate {
		var mu sync.RWMutex
		mu.Lock()
		return gate{func() { mu.RLock(); defer mu.RUnlock() }, mu.Unlock}
	},
	"Cond": func() gate {
		var mu sync.Mutex
		cond, is := sync.NewCond(&mu), false
		return gate{func() {
			mu.Lock()
			defer mu.Unlock()
			for !is {
				cond.Wait()
			}
		}, func() {
			mu.Lock()
			defer mu.Unlock()
			is = true
			cond.Broadcast()
		}}
	},
}

// where a call is made: at a pool, which knows the caller as its worker, or not.
type where struct {
	p, other *pool.Pool
	at       pool.Place
}

func (x where) with(f func(w *pool.Worker)) error {
	if w, ok := x.at.(*pool.Worker); ok {
		f(w)
		return nil
	}
	return x.p.Run(f)
}

const (
	few   = 4
	items = 3000 // of a sort that divides itself
)

// seq yields n numbers.
func seq(n int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

func inGroup(g interface {
	Go(f func() error)
	Wait() error
}, f func()) error {
	for range few {
		g.Go(func() error { f(); return nil })
	}
	return g.Wait()
}

// calls are the calls of pool and par that wait for functions, each with functions that call f some times.
var calls = map[string]func(x where, f func()) error{
	"Run": func(x where, f func()) error { return x.p.Run(func(*pool.Worker) { f() }) },
	"Do": func(x where, f func()) error {
		g := func(*pool.Worker) { f() }
		return pool.Do(x.at, g, g, g)
	},
	"Join": func(x where, f func()) error {
		g := func(w *pool.Worker, _ int) int { f(); return 0 }
		return x.with(func(w *pool.Worker) { pool.Join(w, g, 0, g, 0) })
	},
	"Recursive": func(x where, f func()) error {
		tree := pool.Recursive(func(k *pool.Fork[int, int], depth int) int {
			if depth == 0 {
				f()
				return 1
			}
			a, b := k.Join(depth-1, depth-1)
			return a + b
		})
		n, err := tree.Run(x.at, 2)
		if err == nil && n != 4 {
			err = fmt.Errorf("%d leaves", n)
		}
		return err
	},
	"Scope": func(x where, f func()) error {
		return x.with(func(w *pool.Worker) {
			w.Scope(func(s *pool.Scope) {
				for range few {
					s.Go(w, func(w *pool.Worker) { s.Go(w, func(*pool.Worker) { f() }) })
				}
				f()
			})
		})
	},
	"For":            func(x where, f func()) error { return par.For(x.at, few, func(int) { f() }) },
	"For, Grain(1)":  func(x where, f func()) error { return par.For(x.at, few, func(int) { f() }, pool.Grain(1)) },
	"For, Chunks(2)": func(x where, f func()) error { return par.For(x.at, few, func(int) { f() }, pool.Chunks(2)) },
	"ForErr": func(x where, f func()) error {
		return par.ForErr(x.at, few, func(context.Context, int) error { f(); return nil })
	},
	"Map": func(x where, f func()) error {
		_, err := par.Map(x.at, make([]int, few), func(i int) int { f(); return i })
		return err
	},
	"Reduce": func(x where, f func()) error {
		_, err := par.Reduce(x.at, make([]int, few), func() int { return 0 }, func(a, b int) int { f(); return a + b }, func(a, b int) int { return a + b })
		return err
	},
	"Sort": func(x where, f func()) error {
		s := make([]int, items)
		for i := range s {
			s[i] = i * 7919 % items
		}
		var compared atomic.Int64
		err := par.SortFunc(x.at, s, func(a, b int) int {
			if compared.Add(1)%(4*items) == 1 {
				f()
			}
			return a - b
		})
		if err == nil && !slices.IsSorted(s) {
			err = errors.New("not sorted")
		}
		return err
	},
	"Stream": func(x where, f func()) error {
		for _, err := range par.Stream(x.at, seq(few), 2, func(context.Context, int) (int, error) { f(); return 0, nil }) {
			if err != nil {
				return err
			}
		}
		return nil
	},
	"AsCompleted": func(x where, f func()) error {
		for _, err := range par.AsCompleted(x.at, seq(few), few, func(context.Context, int) (int, error) { f(); return 0, nil }) {
			if err != nil {
				return err
			}
		}
		return nil
	},
	"ForSeq": func(x where, f func()) error { return par.ForSeq(x.at, seq(few), func(int) { f() }) },
	"Group": func(x where, f func()) error {
		g, _ := pool.NewGroup(x.p)
		return inGroup(g, f)
	},
	"Group at its limit": func(x where, f func()) error {
		g, _ := pool.NewGroup(x.p)
		g.SetLimit(1)
		return inGroup(g, f)
	},
	"Group of AtMost(1)": func(x where, f func()) error {
		g, _ := pool.NewGroup(x.p)
		g.AtMost(1)
		return inGroup(g, f)
	},
	"GroupOf": func(x where, f func()) error {
		g, _ := pool.GroupOf[int](x.p)
		for range few {
			g.Go(func() (int, error) { f(); return 0, nil })
		}
		_, err := g.Wait()
		return err
	},
	"errgroup at its limit": func(_ where, f func()) error {
		var g errgroup.Group
		g.SetLimit(1)
		return inGroup(&g, f)
	},
	"First": func(x where, f func()) error {
		g := func(context.Context, *pool.Worker) (int, error) { f(); return 0, nil }
		_, err := pool.First(x.p, g, g, g)
		return err
	},
	"Future": func(x where, f func()) error {
		_, err := pool.Async(x.p, func(*pool.Worker) (int, error) { f(); return 0, nil }).Wait(context.Background())
		return err
	},
	"Future, not in place": func(x where, f func()) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		_, err := pool.Async(x.p, func(*pool.Worker) (int, error) { f(); return 0, nil }).Wait(ctx)
		return err
	},
	"Broadcast": func(x where, f func()) error {
		return x.p.Broadcast(context.Background(), func(*pool.Worker) error { f(); return nil })
	},
	"For in another pool": func(x where, f func()) error { return par.For(x.other, few, func(int) { f() }, pool.Grain(1)) },
	"Group in another pool": func(x where, f func()) error {
		g, _ := pool.NewGroup(x.other)
		return inGroup(g, f)
	},
	"there and back": func(x where, f func()) error {
		g, _ := pool.NewGroup(x.other)
		return inGroup(g, func() { _ = par.For(x.p, 2, func(int) { f() }, pool.Grain(1)) })
	},
	"Close of another pool": func(_ where, f func()) error {
		q, err := pool.New(pool.WithWorkers(1))
		if err != nil {
			return err
		}
		for range few {
			err = errors.Join(err, q.Go(func(*pool.Worker) { f() }))
		}
		return errors.Join(err, q.Close())
	},
}

// callers make a call in a pool in each way that there is.
var callers = []func(x where, call func(x where)){
	func(x where, call func(x where)) { _ = x.p.Go(func(w *pool.Worker) { x.at = w; call(x) }) },
	func(x where, call func(x where)) { _ = x.p.Go(func(*pool.Worker) { call(x) }) },
	func(x where, call func(x where)) {
		go func() { _ = x.p.Run(func(w *pool.Worker) { x.at = w; call(x) }) }()
	},
	func(x where, call func(x where)) { go call(x) },
}

// run has some callers make a call at the same time, and returns when these have ended and what comes after them has.
func (x where) run(call func(x where) error, after func()) error {
	var left sync.WaitGroup
	left.Add(2 * len(callers))
	errs := make(chan error, 2*len(callers))
	for i := range 2 * len(callers) {
		callers[i%len(callers)](x, func(x where) {
			defer left.Done()
			errs <- call(x)
		})
	}
	after()
	left.Wait()
	close(errs)
	var all error
	for err := range errs {
		all = errors.Join(all, err)
	}
	return all
}

// forCalls runs a program for each call, number of workers and kind of what is waited for, some times.
func forCalls[T any](t *testing.T, how manner, kinds map[string]func() T, program func(x where, call func(x where, f func()) error, of func() T) error) int {
	programs := 0
	other := newPool(t, pool.WithWorkers(1))
	for _, workers := range sizes {
		p := newPool(t, pool.WithWorkers(workers))
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			for _, kind := range slices.Sorted(maps.Keys(kinds)) {
				for range how.rounds() {
					mustEnd(t, func() {
						if err := program(where{p, other, p}, calls[name], kinds[kind]); err != nil {
							t.Errorf("%s, %s: %v", name, kind, err)
						}
					}, "%s, %s, %d workers, %s: the program", name, kind, workers, how.name)
					programs++
				}
			}
		}
	}
	return programs
}

// holdAcross has callers hold a lock across a call in whose functions they hold another one.
func holdAcross(how manner) func(x where, call func(x where, f func()) error, of func() lock) error {
	return func(x where, call func(x where, f func()) error, of func() lock) error {
		wait := func(f func()) { how.wait(x.p, f) }
		outer, inner := of(), of()
		return x.run(func(x where) (err error) {
			outer(wait, func() {
				err = call(x, func() { inner(wait, func() {}) })
			})
			return err
		}, func() {})
	}
}

// waitAcross has callers make calls whose functions wait until a task has run that is queued behind them.
func waitAcross(how manner) func(x where, call func(x where, f func()) error, of func() gate) error {
	return func(x where, call func(x where, f func()) error, of func() gate) error {
		first, second := of(), of()
		return x.run(func(x where) error {
			return call(x, func() {
				how.wait(x.p, first.wait)
				how.wait(x.p, second.wait)
			})
		}, func() {
			_ = x.p.Go(func(*pool.Worker) { how.wait(x.p, first.wait); second.open() })
			_ = x.p.Go(func(*pool.Worker) { first.open() })
		})
	}
}

func TestLocksMayBeHeldAcrossCalls(t *testing.T) {
	claim.That(t, "no hang: a lock that heist does not know of may be held, and waited for, across each blocking call",
		"tasks, guests and goroutines that call while they hold a lock, and lock another one inside, on 1, 2, 4 and 16 workers")
	n := forCalls(t, unsaid, locks, holdAcross(unsaid))
	claim.Amount(t, "%s programs of %d kinds of locks and %d calls", claim.Count(n), len(locks), len(calls))
}

func TestLocksMayBeHeldAcrossCallsWithBlock(t *testing.T) { forCalls(t, said, locks, holdAcross(said)) }

func TestFunctionsOfCallsMayWaitForTasksBehindThem(t *testing.T) {
	claim.That(t, "no hang: the functions of each blocking call may wait, in ways that heist does not know of, for tasks that are queued later",
		"calls of tasks, guests and goroutines whose functions wait for a task behind them, which waits for one behind it")
	n := forCalls(t, unsaid, gates, waitAcross(unsaid))
	claim.Amount(t, "%s programs of %d kinds of waits and %d calls", claim.Count(n), len(gates), len(calls))
}

func TestFunctionsOfCallsMayWaitForTasksBehindThemWithBlock(t *testing.T) {
	forCalls(t, said, gates, waitAcross(said))
}

// controls are what one does to a pool from outside. Who pauses waits until the tasks that have begun end, so nothing may be held meanwhile.
var controls = map[string]func(p *pool.Pool, hold func(f func())) error{
	"Pause": func(p *pool.Pool, _ func(f func())) error {
		defer p.Resume()
		return p.Pause(context.Background())
	},
	"Resize": func(p *pool.Pool, hold func(f func())) (err error) {
		n := p.Workers()
		hold(func() { err = errors.Join(p.Resize(1), p.Resize(n)) })
		return err
	},
}

// testControl has tasks wait for a lock while somebody pauses the pool or changes its size.
func testControl(t *testing.T, how manner) (programs int) {
	for _, workers := range sizes {
		p := newPool(t, pool.WithWorkers(workers))
		for name, control := range controls {
			for kind, of := range locks {
				for range how.rounds() {
					mustEnd(t, func() {
						l := of()
						hold := func(f func()) { l(func(f func()) { how.wait(p, f) }, f) }
						var err error
						ran := where{p: p, at: p}.run(func(where) error { hold(func() {}); return nil }, func() { err = control(p, hold) })
						if err := errors.Join(err, ran); err != nil {
							t.Error(err)
						}
					}, "%s, %s, %d workers, %s: the program", name, kind, workers, how.name)
					programs++
				}
			}
		}
	}
	return programs
}

func TestTasksMayWaitForLocksBesidePauseAndResize(t *testing.T) {
	claim.That(t, "no hang: a pool may be paused, and its size changed, while tasks wait for a lock that heist does not know of",
		"Pause, Resume, and Resize by who holds the lock, beside tasks and guests that wait for it")
	claim.Amount(t, "%s programs", claim.Count(testControl(t, unsaid)))
}

func TestTasksMayWaitForLocksBesidePauseAndResizeWithBlock(t *testing.T) { testControl(t, said) }
