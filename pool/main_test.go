package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/internal/testutil"
)

// Where time alone decides what waits, a busy machine would have others begin beside workers that a test has compute.
func init() {
	if goroutineStatuses().at == 0 {
		blindLooks.Store(int32(time.Second / 2 / monitorPeriod))
	}
}

// noticeSoon is for a test of tasks that wait: where time alone decides, it decides as soon as it does for users.
func noticeSoon(t *testing.T) {
	before := blindLooks.Swap(0)
	t.Cleanup(func() { blindLooks.Store(before) })
}

// closed says whether the channel was closed, or sent to.
func closed[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-time.After(testutil.Patience):
		return false
	}
}

// gate holds functions up so that steals happen in a certain order.
type gate chan struct{}

func (g gate) open() { close(g) }

// await waits for the gate to open, but not for ever: in the end it is the pool that decides which thief
// steals what.
func (g gate) await() {
	select {
	case <-g:
	case <-time.After(100 * time.Millisecond):
	}
}

// untilGiveWayIsDue computes until a worker that gave way before should do so again. It goes by the
// clock, because the cost of a pause was measured at some speed of the CPU, which may have changed.
func untilGiveWayIsDue() {
	for end := heist.Ticks() + heist.TicksIn(2*giveWayPeriod); heist.Ticks() < end; {
	}
}

// collectAllTheTime keeps the garbage collector running until stop is called.
func collectAllTheTime() (stop func()) {
	var enough atomic.Bool
	wait := testutil.Together(1, func(int) {
		for !enough.Load() {
			runtime.GC()
		}
	})
	return func() {
		enough.Store(true)
		wait()
	}
}

// sizes are numbers of workers: one, and more than most machines have CPUs.
var sizes = []int{1, 2, 4, 16, 64}

func forSizes(t *testing.T, test func(t *testing.T, p *Pool)) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) { test(t, newPool(t, WithWorkers(n))) })
	}
}

// newPool returns a pool that must, at the end of the test, come to rest as it was at the beginning, and
// close.
func newPool(t testing.TB, options ...Option) *Pool {
	t.Helper()
	p, err := New(options...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if p.core.Closing.Load() {
			return
		}
		if t.Failed() { // leave nothing behind that disturbs others
			go p.Close()
			return
		}
		requireAtRest(t, p)
		requireCloses(t, p)
	})
	return p
}

// cancellable returns a place within at, with a context that can be cancelled.
func cancellable(at Place) (*View, context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(at.Context())
	return at.With(ctx), ctx, cancel
}

// tryAsync is Async, but with the error of what is refused.
func tryAsync[T any](p *Pool, f func(w *Worker) (T, error), options ...TaskOption) (*Future[T], error) {
	future := Async(p.Try(), f, options...)
	if p.usable() != nil || future.Ready() && future.f.call == nil && future.err != nil && future.err != ErrLate { // late is accepted
		_, err := future.Wait(background)
		return nil, err
	}
	return future, nil
}

func requireCloses(t testing.TB, p *Pool) {
	t.Helper()
	err := errors.New("Close did not return")
	returned := testutil.Returns(func() { err = p.Close() })
	require.True(t, returned, "Close hangs")
	require.NoError(t, err)
}

// requireAtRest waits until the pool is idle, and checks that nothing is left anywhere.
func requireAtRest(t testing.TB, p *Pool) {
	t.Helper()
	var why string
	rests := testutil.Eventually(func() bool {
		why = unrest(p)
		return why == ""
	})
	require.True(t, rests, "the pool does not come to rest: %s", why)
	p.workers.each(func(w *Worker) {
		if p.latency && w.place != nil {
			return // the worker watches
		}
		for _, s := range w.stacks {
			require.Empty(t, leftovers(s), "in the fork stack %T of worker %d", s, w.id)
		}
		require.Nil(t, w.children.branch.Load(), "worker %d is in a scope", w.id)
		if d := w.children.deque.Load(); d != nil {
			require.Zero(t, d.Len(), "children in the deque of worker %d", w.id)
			require.LessOrEqual(t, d.Stats().Grows, uint64(keptGrows), "the deque of worker %d has grown", w.id)
		}
	})
}

// unrest says what keeps a pool from being at rest.
func unrest(p *Pool) string {
	state := p.core.Sleep.Load()
	hot, size := 0, p.core.Size() // Workers may resize
	if p.latency {
		hot = 1
	}
	switch {
	case p.core.Waits() != 0:
		return fmt.Sprintf("%d workers wait", p.core.Waits())
	case p.core.Active() != 0:
		return fmt.Sprintf("%d workers are not idle", p.core.Active())
	case state.Searching() != hot:
		return fmt.Sprintf("%d workers search", state.Searching())
	case state.Sleepers() != size-hot:
		return fmt.Sprintf("parked - guests is %d with %d workers", state.Sleepers(), size)
	case p.anyTask():
		return "a task lies in a queue"
	case state.HasGuests():
		return "there are guests"
	case openPlaces(p) != size:
		return fmt.Sprintf("%d places of %d are open", openPlaces(p), size)
	}
	parked := 0
	for i, pl := range p.victims() {
		if n := pl.core.Owed(); n != 0 {
			return fmt.Sprintf("%d want place %d back", n, i)
		}
		asleep := p.core.Sleep.Parked(pl.index)
		if asleep {
			parked++
		}
		if linked := pl.core.First() != nil; asleep && i >= size || linked && (asleep || hot == 0) {
			return fmt.Sprintf("place %d of %d is asleep %v, and somebody is linked to it: %v", i, size, asleep, linked)
		}
	}
	if parked != size-hot {
		return fmt.Sprintf("%d places of %d have their bits set", parked, size)
	}
	for r, node := range p.rosters() {
		switch {
		case r.AnyFork(true):
			return "a fork lies in a fork stack"
		case r.Place() == nil && r.First() != nil:
			return fmt.Sprintf("a guest is on a roster of node %d", node)
		}
	}
	return ""
}

// openPlaces returns how many places are open.
func openPlaces(p *Pool) (n int) {
	p.core.EachOpen(func(*core.Place) { n++ })
	return n
}

// leftovers says what is wrong with the fork stack of a pool at rest: its indices
// must be 0 and its frames as if they had never been used.
func leftovers(s forkStack) string { return s.(interface{ leftovers() string }).leftovers() }

func (s *frames[W, R]) leftovers() string {
	if s.bottom != 0 {
		return fmt.Sprintf("the depth is %d", s.bottom)
	}
	if public := s.public.Load(); public != 0 {
		return fmt.Sprintf("the borders of the public frames are %x", public)
	}
	for _, block := range *s.blocks.Load() {
		for i := range block {
			if f := reflect.ValueOf(&block[i]).Elem(); !f.IsZero() {
				return fmt.Sprintf("a frame %d is not clear: %+v", i, f)
			}
		}
	}
	return ""
}

// whenParked waits until all workers sleep, and looks at nothing else.
func whenParked(p *Pool) bool {
	return testutil.Eventually(func() bool {
		state := p.core.Sleep.Load()
		return state.Searching() == 0 && state.Sleepers() == p.Workers()
	})
}

func newGroup(p *Pool) *Group {
	g, _ := NewGroup(p)
	return g
}

// fib is the smallest fork-join program.
func fib(w *Worker, n int) int {
	if n < 2 {
		return n
	}
	x, y := Join(w, fib, n-1, fib, n-2)
	return x + y
}

func serialFib(n int) int {
	a, b := 0, 1
	for range n {
		a, b = b, a+b
	}
	return a
}

// stolenJoin runs f and g in a join whose g is stolen for certain: f does not begin
// before g has.
func stolenJoin[X, Y any](w *Worker, f func(*Worker) X, g func(*Worker) Y) (X, Y) {
	begun := make(chan struct{})
	return Join(w,
		func(w *Worker, _ int) X {
			testutil.Compute(begun) // a wait would lend the place, and what is stolen there is no theft
			return f(w)
		}, 0,
		func(w *Worker, _ int) Y {
			close(begun)
			return g(w)
		}, 0)
}

// childVariable is set in a process that a test started to do something from which
// the test process would not recover.
const childVariable = "HEIST_TEST_CHILD"

func inChild() bool { return os.Getenv(childVariable) != "" }

// child runs the calling test, in which inChild is true, in a process of its own
// and returns what that printed and how it ended.
func child(t *testing.T, environment ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	c.Env = append(os.Environ(), childVariable+"=1")
	c.Env = append(c.Env, environment...)
	output, err := c.CombinedOutput()
	if errors.Is(err, syscall.ENOEXEC) {
		t.Skip("this binary runs in an emulator and cannot start itself")
	}
	return string(output), err
}

// setState sets the pool's state, for a worker that is alone or a test that takes the liberty. If the
// pool is hungry then, it raises the worker's alarm, as a thief would.
func setState(w *Worker, state policy.State) {
	if w.pool.core.Sleep.Add(state-w.pool.core.Sleep.Load()) >= policy.OneSleeper {
		w.alarm()
	}
}

// allocsPerRun is the least of three results of testing.AllocsPerRun, because they include what a busy
// pool does once, such as beginning to look at the network.
func allocsPerRun(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for range 2 {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}

// allocs returns how many allocations a call of f makes while all workers of the pool are busy, because
// waiting for a stolen fork allocates. It is the least of some calls, because the runtime may allocate
// meanwhile.
func allocs(p *Pool, f func()) float64 {
	for range p.Workers() {
		defer occupy(p)()
	}
	least := testing.AllocsPerRun(1, f)
	for range 300 {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

// both is Join for closures.
func both[X, Y any](w *Worker, f func(*Worker) X, g func(*Worker) Y) (X, Y) {
	return Join(w, apply[X], f, apply[Y], g)
}

func apply[R any](w *Worker, f func(*Worker) R) R { return f(w) }

// For is package par's, which this one cannot import.
func For(at Place, n int, f func(i int), g ...Granularity) error {
	return ForBody(at, n, forBody(f), g...)
}

type forBody func(i int)

func (f forBody) Func() any { return (func(i int))(f) }

func (f forBody) Run(lo, hi int) {
	for i := lo; i < hi; i++ {
		f(i)
	}
}

// submitOn submits f to a node.
func submitOn(p *Pool, ctx context.Context, node int, f func(w *Worker), options ...TaskOption) error {
	return p.Submit(ctx, f, append(options[:len(options):len(options)], OnNode(node))...)
}
