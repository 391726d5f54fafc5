package linear

import (
	"cmp"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/verify/claim"
)

// client is one thread of a history. It does operations of these kinds, in random order, with
// pushes of at most batch items. batch is at most the constant most.
type client struct {
	do    func(input) output
	kinds []kind
	batch int
}

const most = 3

// scene is a queue, fresh for one history, with its clients and with what it promises them.
type scene struct {
	model   porcupine.Model
	clients []client
}

// each is how many operations a client does, and long how many the first one may do while
// the others sleep in between. A history must be short to be judged quickly.
const (
	each = 12
	long = 500
)

// weather is what befalls the threads of a history besides one another.
type weather struct {
	locked     bool // each goroutine to its thread, so that the system's scheduler sees it
	collecting bool // write barriers are on, and threads are stopped at odd moments
	// sleepy has all threads but one sleep before each operation. A thread that wakes up interrupts
	// that one wherever it is, which hardly anything else does on a single CPU.
	sleepy bool
	shake  func(*rand.Rand) // now and then, between two operations
}

func weatherOf(rng *rand.Rand) weather {
	w := weather{locked: rng.IntN(4) == 0, collecting: rng.IntN(32) == 0, sleepy: rng.IntN(32) == 0}
	switch rng.IntN(4) {
	case 0:
		w.shake = func(*rand.Rand) { runtime.Gosched() }
	case 1:
		w.shake = func(*rand.Rand) { heist.Yield() }
	case 2:
		w.shake = func(rng *rand.Rand) { heist.Pause(rng.IntN(40)) }
	default:
		w.shake = func(*rand.Rand) {}
	}
	return w
}

// sleep is for threads; time.Sleep takes a millisecond.
func sleep(rng *rand.Rand) {
	var nobodyWakes atomic.Uint32
	heist.FutexWait(&nobodyWakes, 0, time.Duration(1+rng.IntN(20))*time.Microsecond)
}

// record lets the clients race.
func (s scene) record(seed, number uint64) []porcupine.Operation {
	w := weatherOf(rand.New(rand.NewPCG(seed, number<<8)))
	if w.collecting {
		defer collect()()
	}
	// As many clients as can run at the same time begin at the same time.
	var missing, asleep atomic.Int32
	missing.Store(int32(min(len(s.clients), runtime.GOMAXPROCS(0))))
	if w.sleepy {
		asleep.Store(int32(len(s.clients) - 1))
	}
	records := make([][]porcupine.Operation, len(s.clients))
	var done sync.WaitGroup
	start := time.Now()
	for id, c := range s.clients {
		done.Go(func() {
			if w.locked {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			rng := rand.New(rand.NewPCG(seed, number<<8+uint64(id)+1))
			// Deque.Push is a release store without a fence: the owner may read the
			// clock before the store has left its core, and then the item seems to
			// appear late. Operations end when their stores are visible, so a fence
			// comes before the clock is read.
			var fence atomic.Int64
			ops := make([]porcupine.Operation, 0, each)
			missing.Add(-1)
			for turn := 1; missing.Load() > 0 && turn < 200_000; turn++ {
				if turn%20_000 == 0 {
					heist.Yield() // there may be fewer CPUs than Ps, or others at work
				}
			}
			for i := 0; i < each || id == 0 && asleep.Load() > 0 && i < long; i++ {
				in := c.choose(rng, id*long*most+i*most)
				if w.sleepy && id > 0 {
					sleep(rng)
				} else if rng.IntN(4) == 0 {
					w.shake(rng)
				}
				call := time.Since(start)
				out := c.do(in)
				fence.Add(1)
				ops = append(ops, porcupine.Operation{
					ClientId: id, Input: in, Output: out,
					Call: int64(call), Return: int64(time.Since(start)),
				})
			}
			asleep.Add(-1)
			records[id] = ops
		})
	}
	done.Wait()
	return slices.Concat(records...)
}

// choose returns what to do next, with items that are numbered from first on.
func (c client) choose(rng *rand.Rand, first int) input {
	in := input{kind: c.kinds[rng.IntN(len(c.kinds))]}
	if in.kind == push {
		for i := range 1 + rng.IntN(c.batch) {
			in.items = append(in.items, first+i)
		}
	}
	return in
}

// collect keeps the garbage collector running until stop is called.
func collect() (stop func()) {
	var enough atomic.Bool
	var over sync.WaitGroup
	over.Go(func() {
		for !enough.Load() {
			runtime.GC()
		}
	})
	return func() {
		enough.Store(true)
		over.Wait()
	}
}

// historiesKey is the attribute by which a test says how many histories it had judged.
const historiesKey = "histories"

// amounts is how many histories each test has judged.
func amounts() int {
	switch {
	case testutil.Short():
		return 1000
	case claim.Full():
		return 30_000
	}
	return 3000
}

// check records histories of scenes and has them judged. It says how many operations
// were done, and how many of them at the same time as one of another thread.
func check(t *testing.T, histories int, stage func(*rand.Rand) scene) (operations, together int) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HEIST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, "HEIST_SEED must be a number")
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for h := range histories {
		s := stage(rng)
		history := s.record(seed, uint64(h))
		require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(s.model, history, 30*time.Second),
			"history %d of HEIST_SEED=%d is not linearizable: %v", h, seed, history)
		operations += len(history)
		together += overlapping(history)
	}
	t.Attr(historiesKey, strconv.Itoa(histories))
	return operations, together
}

// overlapping counts the operations that began before another one had ended.
func overlapping(history []porcupine.Operation) (n int) {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	end := int64(-1)
	for _, op := range history {
		if op.Call < end {
			n++
		}
		end = max(end, op.Return)
	}
	return n
}
