// Package load uses all of heist at once, and checks the results: deques, with and without
// assembly, rings, injectors, and a pool with forks, loops, tasks and groups. Tests run it
// while the Go runtime or the machine misbehaves.
package load

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// Counts says how much was done.
type Counts struct {
	Items       uint64 // that went through a queue
	Forks       uint64
	Tasks       uint64
	Steals      uint64 // of the pool's thieves
	Parks       uint64 // how often a worker went to sleep
	Collections uint64 // of garbage, in the whole process
}

// String returns the counts as a claim states them.
func (c Counts) String() string {
	return fmt.Sprintf("%s items, %s forks, %s tasks, %s parks, %s collections",
		claim.Count(c.Items), claim.Count(c.Forks), claim.Count(c.Tasks), claim.Count(c.Parks), claim.Count(c.Collections))
}

// add adds other counts. The collections stay, as they are the process's.
func (c *Counts) add(o Counts) {
	c.Items += o.Items
	c.Forks += o.Forks
	c.Tasks += o.Tasks
	c.Steals += o.Steals
	c.Parks += o.Parks
}

// For uses everything for some time, and at least once. The options are the pool's.
func For(d time.Duration, options ...pool.Option) (Counts, error) {
	var c Counts
	begin := time.Now()
	for {
		one, err := Once(options...)
		c.add(one)
		if err != nil {
			return c, err
		}
		if time.Since(begin) >= d {
			break
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c.Collections = uint64(m.NumGC)
	return c, nil
}

// Once uses everything once, for some 10 ms on an ordinary day.
func Once(options ...pool.Option) (Counts, error) {
	var both [2]Counts
	var errs [2]error
	together(
		func() { both[0].Items, errs[0] = queues() },
		func() { both[1], errs[1] = inPool(options) },
	)
	both[0].add(both[1])
	return both[0], errors.Join(errs[:]...)
}

func together(fs ...func()) {
	var group sync.WaitGroup
	for _, f := range fs {
		group.Go(f)
	}
	group.Wait()
}

// inPool opens a pool, uses it and closes it.
func inPool(options []pool.Option) (Counts, error) {
	p, err := pool.New(options...)
	if err != nil {
		return Counts{}, err
	}
	c, err := Pool(p)
	return c, errors.Join(err, p.Close())
}

// Pool uses the pool in several ways at once.
func Pool(p *pool.Pool) (Counts, error) {
	before := p.Stats().Total()
	var c Counts
	var errs [4]error
	together(
		func() { c.Forks, errs[0] = forks(p) },
		func() { errs[1] = loops(p) },
		func() { errs[2] = tasks(p) },
		func() { errs[3] = groups(p) },
	)
	s := p.Stats().Total()
	c.Tasks, c.Steals, c.Parks = s.Tasks-before.Tasks, s.Steals-before.Steals, s.Parks-before.Parks
	return c, errors.Join(errs[:]...)
}

var fib = pool.Recursive(func(f *pool.Fork[int, int], n int) int {
	if n < 2 {
		return n
	}
	x, y := f.Join(n-1, n-2)
	return x + y
})

// forks forks at every level, and returns the number of forks. Fib(n) adds up fib(n+1)-1 times.
func forks(p *pool.Pool) (uint64, error) {
	const n, want, additions = 18, 2584, 4180
	got, err := fib.Run(p, n)
	if err == nil && got != want {
		err = fmt.Errorf("fib(%d) is %d and not %d", n, want, got)
	}
	return additions, err
}

// loops sorts data that only forks can reach meanwhile, and lets a loop allocate the items that it counts.
func loops(p *pool.Pool) error {
	numbers := make([]int, 20_000)
	for i := range numbers {
		numbers[i] = (i * 7919) % len(numbers)
	}
	if err := par.Sort(p, numbers); err != nil {
		return err
	}
	for i, n := range numbers {
		if n != i {
			return fmt.Errorf("number %d of a permutation is %d after sorting", i, n)
		}
	}
	made := make([]*item, 500)
	if err := par.For(p, len(made), func(i int) { made[i] = newItem(i) }, pool.Grain(10)); err != nil {
		return err
	}
	l := newLedger(len(made))
	for _, it := range made {
		l.enter(it)
	}
	return l.balance()
}

// tasks submits tasks from outside, each of which spawns another, and forgets them. Only the
// pool's queues hold their closures and what these point to.
func tasks(p *pool.Pool) error {
	const n = 200
	l := newLedger(2 * n)
	var left sync.WaitGroup
	left.Add(2 * n)
	for i := range n {
		it := newItem(i)
		if err := p.Go(func(w *pool.Worker) {
			l.enter(it)
			it := newItem(n + i)
			if err := w.Go(func(*pool.Worker) { l.enter(it); left.Done() }); err != nil {
				l.wrong(err)
				left.Done()
			}
			left.Done()
		}); err != nil {
			return err
		}
	}
	left.Wait()
	return l.balance()
}

// groups waits for groups of tasks inside tasks.
func groups(p *pool.Pool) error {
	const outer, inner = 8, 16
	l := newLedger(outer * inner)
	g, _ := pool.NewGroup(p)
	for i := range outer {
		g.Go(func() error {
			g, _ := pool.NewGroup(p)
			for j := range inner {
				it := newItem(i*inner + j)
				g.Go(func() error { l.enter(it); return nil })
			}
			return g.Wait()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return l.balance()
}

// item is an element of the queues. Its checksum reveals memory that was freed, and clobbered
// or reused, while a queue still held it.
type item struct{ id, sum uint64 }

func checksum(id uint64) uint64 { return (id + 1) * 0x9E3779B97F4A7C15 }

func newItem(id int) *item { return &item{uint64(id), checksum(uint64(id))} }

// ledger counts how often each item was taken.
type ledger struct {
	times []atomic.Uint32
	first atomic.Pointer[error] // the first error
}

func newLedger(n int) *ledger { return &ledger{times: make([]atomic.Uint32, n)} }

func (l *ledger) wrong(err error) { l.first.CompareAndSwap(nil, &err) }

func (l *ledger) enter(it *item) {
	if it == nil || it.sum != checksum(it.id) || it.id >= uint64(len(l.times)) {
		l.wrong(fmt.Errorf("%+v was never queued, or its memory was freed", it))
		return
	}
	l.times[it.id].Add(1)
}

// balance says whether each item was taken once.
func (l *ledger) balance() error {
	if err := l.first.Load(); err != nil {
		return *err
	}
	for i := range l.times {
		if times := l.times[i].Load(); times != 1 {
			return fmt.Errorf("item %d of %d was taken %d times", i, len(l.times), times)
		}
	}
	return nil
}
