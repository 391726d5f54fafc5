package pool

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

// The soak grows random trees in which everything nests in everything: joins of
// several types, Do, groups, Run, detached tasks, panics that are recovered
// somewhere above, and collections of garbage. A tree's value depends on its seed
// alone, so that a walk without a pool tells what is right.

// plant is a node of a random tree.
type plant struct {
	seed  uint64
	depth int
	*scope
}

// scope is a Run, a task or a group's function. No function of a tree may run any
// more when its scope is over.
type scope struct {
	over   atomic.Bool
	faults *faults
}

// faults are what went wrong in a round.
type faults struct {
	mu   sync.Mutex
	told []string
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, fmt.Sprintf(format, args...))
}

func (n plant) child(i uint64) plant {
	r := rand.New(rand.NewPCG(n.seed, i))
	n.seed, n.depth = r.Uint64(), n.depth-1-r.IntN(2)
	return n
}

// growInScope grows a tree whose scope ends when run returns. Then what a panic left behind has
// ended, too.
func growInScope(run func(f func(w *Worker)) error, n plant) (value uint64) {
	n.scope = &scope{faults: n.faults}
	if err := run(func(w *Worker) { value = tryGrow(w, n) }); err != nil {
		n.faults.add("tree %d: %v", n.seed, err)
	}
	n.over.Store(true)
	return value
}

func inGroup(p *Pool) func(f func(w *Worker)) error {
	return func(f func(w *Worker)) error {
		g := newGroup(p)
		g.Go(func() error { return nil })
		g.GoWorker(func(w *Worker) error { f(w); return nil })
		return g.Wait()
	}
}

func alone(f func(w *Worker)) error {
	f(nil)
	return nil
}

// grow returns the value of a tree, or panics with the value of a node. It runs
// without a pool if w is nil.
func grow(w *Worker, n plant) uint64 {
	if n.over.Load() {
		n.faults.add("tree %d, depth %d: it ran when its scope was over", n.seed, n.depth)
	}
	kind := rand.New(rand.NewPCG(n.seed, 0)).IntN(20)
	switch {
	case n.depth > 0 && w == nil:
		return growAlone(n, kind)
	case n.depth > 0:
		return growTogether(w, n, kind)
	case kind == 0:
		panic(n.seed)
	case kind == 1 && w != nil && n.seed%32 == 0:
		runtime.GC()
	case kind == 2:
		runtime.Gosched()
	}
	return n.seed
}

func growTogether(w *Worker, n plant, kind int) uint64 {
	a, b, c := n.child(1), n.child(2), n.child(3)
	var x, y, z uint64
	switch {
	case kind < 6:
		x, y = Join(w, grow, a, grow, b)
	case kind < 8: // another type of fork
		var p *uint64
		x, p = Join(w, grow, a, func(w *Worker, b *plant) *uint64 { v := grow(w, *b); return &v }, &b)
		y = *p
	case kind < 10: // and another one
		var s string
		x, s = Join(w, grow, a, func(w *Worker, b [2]plant) string { return strconv.FormatUint(grow(w, b[1]), 10) }, [2]plant{1: b})
		y, _ = strconv.ParseUint(s, 10, 64)
	case kind < 13:
		w.Do(
			func(w *Worker) { x = grow(w, a) },
			func(w *Worker) { y = grow(w, b) },
			func(w *Worker) { z = grow(w, c) })
	case kind < 15:
		x = tryGrow(w, a)
		y = grow(w, b)
	case kind < 16:
		x = growInScope(inGroup(w.Pool()), a)
		y = growInScope(inGroup(w.Pool()), b)
	case kind < 18:
		x = growInScope(w.Pool().Run, a)
		y = growInScope(w.Pool().Run, b)
	default: // a detached task, which checks itself
		b.scope = &scope{faults: b.faults}
		err := w.Go(func(w *Worker) {
			if want, got := growInScope(alone, b), tryGrow(w, b); got != want {
				b.faults.add("detached tree %d, depth %d: %d instead of %d", b.seed, b.depth, got, want)
			}
		})
		if err != nil {
			b.faults.add("detached tree %d: %v", b.seed, err)
		}
		x = grow(w, a)
	}
	return 5*x + 3*y + z
}

func growAlone(n plant, kind int) uint64 {
	a, b, c := n.child(1), n.child(2), n.child(3)
	var x, y, z uint64
	switch {
	case kind < 10:
		x = grow(nil, a)
		y = grow(nil, b)
	case kind < 13:
		x = grow(nil, a)
		y = grow(nil, b)
		z = grow(nil, c)
	case kind < 15:
		x = tryGrow(nil, a)
		y = grow(nil, b)
	case kind < 18:
		x = growInScope(alone, a)
		y = growInScope(alone, b)
	default:
		x = grow(nil, a)
	}
	return 5*x + 3*y + z
}

// tryGrow recovers the panic of a tree and makes a value of it.
func tryGrow(w *Worker, n plant) (value uint64) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case uint64:
			value = v + 1
		case *PanicError:
			value = v.Value.(uint64) + 1
		default:
			panic(v)
		}
	}()
	return grow(w, n)
}

func TestSoak(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HEIST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("HEIST_SEED=%d", seed)
	deadline := time.Now().Add(time.Duration(testutil.Stress(2000)) * time.Millisecond)
	for round := uint64(0); time.Now().Before(deadline) && !t.Failed(); round++ {
		r := rand.New(rand.NewPCG(seed, round))
		p := newPool(t, WithWorkers(1+r.IntN(6)))
		goroutines := 1 + r.IntN(4)
		var faults faults
		testutil.Together(goroutines, func(who int) {
			r := rand.New(rand.NewPCG(seed, round<<32+uint64(who)))
			for range 5 {
				n := plant{seed: r.Uint64(), depth: 12, scope: &scope{faults: &faults}}
				if want, got := growInScope(alone, n), growInScope(p.Run, n); got != want {
					t.Errorf("tree %d: %d instead of %d", n.seed, got, want)
				}
			}
		})()
		requireAtRest(t, p)
		require.Empty(t, faults.told)
		requireCloses(t, p)
	}
}
