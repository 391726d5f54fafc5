package par

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

func forSizes(t *testing.T, test func(t *testing.T, p *pool.Pool)) {
	for _, n := range []int{1, 2, 4, 16} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { test(t, pools.New(t, pool.WithWorkers(n))) })
	}
}

// requireAtRest waits until all workers are idle.
func requireAtRest(t testing.TB, p *pool.Pool) {
	t.Helper()
	require.True(t, testutil.Eventually(func() (rests bool) {
		err := p.Run(func(w *pool.Worker) { rests = w.Idle() == p.Workers()-1 }) // the guest computes in the place of one
		return err == nil && rests
	}), "the pool does not come to rest")
}

// tally counts how often each item ran.
type tally []atomic.Int32

// once says what is wrong if not every entry of the tally is 1.
func (c tally) once() error {
	for i := range c {
		if n := c[i].Load(); n != 1 {
			return fmt.Errorf("item %d of %d ran %d times", i, len(c), n)
		}
	}
	return nil
}

func newGroup(p *pool.Pool) *pool.Group {
	g, _ := pool.NewGroup(p)
	return g
}

// work takes about n ns.
func work(n int) {
	x := uint(n)
	for i := range n {
		x = x*31 + uint(i)
	}
	if x == 1<<31-1 {
		worked.Add(1)
	}
}

var worked atomic.Int64 // the compiler must not see that the result is unused

func granularities() map[string][]pool.Granularity {
	return map[string][]pool.Granularity{
		"default":   nil,
		"grain 1":   {pool.Grain(1)},
		"grain max": {pool.Grain(math.MaxInt)},
		"chunks":    {pool.Chunks(3)},
		"adaptive":  {new(pool.AdaptiveGrain).Granularity()},
	}
}

type gate chan struct{}

func (g gate) open() { close(g) }

// await waits for the gate to open, but not for ever.
func (g gate) await() {
	select {
	case <-g:
	case <-time.After(100 * time.Millisecond):
	}
}

func goroutineID() (id int) {
	buf := make([]byte, 64)
	_, err := fmt.Sscanf(string(bytes.TrimPrefix(buf[:runtime.Stack(buf, false)], []byte("goroutine "))), "%d", &id)
	if err != nil {
		panic(err)
	}
	return id
}

// patientItems is how many lingering items take as long as testutil.Patience.
const patientItems = int(testutil.Patience / time.Millisecond)

// meet is where two goroutines meet.
type meet struct {
	first atomic.Int64
	met   atomic.Bool
}

// here takes a while, unless two have met already.
func (m *meet) here() {
	if m.met.Load() {
		return
	}
	id := int64(goroutineID())
	if !m.first.CompareAndSwap(0, id) && m.first.Load() != id {
		m.met.Store(true)
	}
	for begin := time.Now(); !m.met.Load() && time.Since(begin) < time.Millisecond; runtime.Gosched() {
	}
}

// object is something that should be collected.
type object [64]byte

func garbage() (*object, weak.Pointer[object]) {
	o := new(object)
	return o, weak.Make(o)
}

func requireCollected(t *testing.T, objects ...weak.Pointer[object]) {
	t.Helper()
	for i, o := range objects {
		require.True(t, o.Value() == nil || testutil.Eventually(func() bool {
			runtime.GC()
			return o.Value() == nil
		}), "object %d is kept alive", i)
	}
}

var errStolen = errors.New("the loot was stolen")

// canceller cancels a call when its function runs for the after-th time.
type canceller struct {
	after  int64
	cancel context.CancelCauseFunc
	atomic.Int64
}

func (c *canceller) tick() {
	if c.Add(1) == c.after {
		c.cancel(errStolen)
	}
}

// inPlaces are the kinds of places.
var inPlaces = map[string]func(p *pool.Pool, f func(at pool.Place) error) error{
	"outside": func(p *pool.Pool, f func(at pool.Place) error) error { return f(p) },
	"guest": func(p *pool.Pool, f func(at pool.Place) error) (err error) {
		return errors.Join(p.Run(func(w *pool.Worker) { err = f(w) }), err)
	},
	"task": func(p *pool.Pool, f func(at pool.Place) error) error {
		_, err := pool.Async(p, func(w *pool.Worker) (struct{}, error) { return struct{}{}, f(w) }).Wait(context.Background())
		return err
	},
	"pool in a task": func(p *pool.Pool, f func(at pool.Place) error) error {
		_, err := pool.Async(p, func(*pool.Worker) (struct{}, error) { return struct{}{}, f(p) }).Wait(context.Background())
		return err
	},
}

// explode is a function to look for in stacks.
//
//go:noinline
func explode(v any) int { panic(v) }

// allocsPerRun is testing.AllocsPerRun, the least of three, see pool's.
func allocsPerRun(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for range 2 {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}

func (m *meet) result() error {
	if !m.met.Load() {
		return errors.New("nobody came")
	}
	return nil
}
