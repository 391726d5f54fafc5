package machine

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/child"
	"github.com/seed53057037/heist/verify/goruntime/load"
)

func init() {
	programs["threads"] = useFewThreads
	programs["grow"] = growForEver
	programs["flood"] = floodForEver
	programs["limits"] = stayWithinLimits
}

// limitVariable tells a child how many threads, or how much memory, there are.
const limitVariable = "HEIST_LIMIT"

func limited(n int) string { return limitVariable + "=" + strconv.Itoa(n) }

func limit() (uint64, error) { return strconv.ParseUint(os.Getenv(limitVariable), 10, 64) }

// loneUser is a user who has no other processes: the limit counts the threads of all.
const loneUser = 1_951_000_000

// useFewThreads needs some 40 threads in the end: it has a pool grow, and lends places.
func useFewThreads() error {
	n, err := limit()
	if err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}); err != nil {
		return err
	}
	if err := syscall.Setuid(loneUser + int(n)); err != nil {
		return err
	}
	p, err := pool.New(pool.WithPinning(pool.PinCores), pool.WithWorkers(8), pool.WithTuning(pool.Tuning{MaxWorkers: 24}))
	if err != nil {
		return err
	}
	if _, err := load.Pool(p); err != nil {
		return err
	}
	if err := p.Resize(24); err != nil {
		return err
	}
	var blocked, over sync.WaitGroup
	release := make(chan struct{})
	blocked.Add(8)
	over.Add(8)
	for range 8 {
		if err := p.Go(func(w *pool.Worker) {
			w.Block(func() { blocked.Done(); <-release })
			over.Done()
		}); err != nil {
			return err
		}
	}
	blocked.Wait()
	c, err := load.Pool(p)
	close(release)
	over.Wait()
	if err := errors.Join(err, p.Close()); err != nil {
		return err
	}
	return child.Tell(c)
}

// noThread is what the Go runtime says when it gets no thread. With cgo it says so in other words.
var noThread = regexp.MustCompile(`runtime: failed to create new OS thread \(have \d+ already; errno=11\)|` +
	`runtime/cgo: pthread_create failed: Resource temporarily unavailable`)

func TestWithoutThreadsAPoolWorksOrGoEndsTheProcess(t *testing.T) {
	claim.That(t, "when no more threads can be had a pool works, or Go's runtime ends the process and says so: nothing hangs",
		"children of a user with RLIMIT_NPROC from 1 on, with pools that pin, grow and lend places")
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	step := 6
	if claim.Full() {
		step = 1
	}
	works, ends := 0, 0
	for n := 1; works < 2; n += step {
		require.Less(t, n, 300, "there are threads enough, and it does not work")
		c := child.Command(t, "threads", limited(n))
		_, stderr, err := child.Run(c)
		if err == nil {
			works++
			continue
		}
		require.Regexp(t, noThread, firstLines(stderr))
		require.Equal(t, 2, c.ProcessState.ExitCode())
		ends++
	}
	require.NotZero(t, ends)
	claim.Amount(t, "%d limits: %d ends with Go's message, and with more threads all work done", works+ends, ends)
}

// firstLines returns the part of a message that is worth reading.
func firstLines(text string) string { return text[:min(len(text), 500)] }

// limitMemory lets the process have so many bytes more to write to: heap and stacks, but not the
// addresses that the runtime only reserves.
func limitMemory(bytes uint64) error {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var pages, ignored uint64
	if _, err := fmt.Sscan(string(text), &ignored, &ignored, &ignored, &ignored, &ignored, &pages); err != nil {
		return err
	}
	n := pages*uint64(os.Getpagesize()) + bytes
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: n, Max: n})
}

// numbered is an item that knows whether it was freed, of the size of a cache line.
type numbered struct {
	number, check int
	_             [6]int
}

func newNumbered(i int) *numbered { return &numbered{number: i, check: ^i} }

func (n *numbered) isWhole() bool { return n != nil && n.check == ^n.number }

// growForEver pushes until memory runs out, while thieves compare what they take with what came
// before. They take a quarter, so that the rest needs ever more memory. It prints what is wrong.
func growForEver() error {
	n, err := limit()
	if err != nil {
		return err
	}
	if err := limitMemory(n); err != nil {
		return err
	}
	d, err := heist.NewDeque[numbered](heist.DequeConfig{Capacity: 2})
	if err != nil {
		return err
	}
	var pushed, stolen atomic.Int64
	for range 2 {
		go func() {
			for last := -1; ; {
				if stolen.Load() >= pushed.Load()/4 {
					runtime.Gosched()
					continue
				}
				it, r := d.Steal()
				if r != heist.Success {
					continue
				}
				stolen.Add(1)
				if !it.isWhole() || it.number <= last || it.number > int(pushed.Load()) {
					fmt.Printf("a thief took %+v after number %d\n", it, last)
				}
				last = it.number
			}
		}()
	}
	for i := 0; ; i++ {
		pushed.Store(int64(i))
		if !d.Push(newNumbered(i)) {
			fmt.Println("a push without a limit was refused")
		}
	}
}

// floodForEver submits more tasks than can run before memory runs out.
func floodForEver() error {
	n, err := limit()
	if err != nil {
		return err
	}
	if err := limitMemory(n); err != nil {
		return err
	}
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		return err
	}
	if err := p.Go(func(*pool.Worker) { testutil.Compute(nil) }); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := p.Go(func(*pool.Worker) { fmt.Println("task", i, "ran") }); err != nil {
			fmt.Println(err)
		}
	}
}

// outOfMemory is what the Go runtime says when it gets no memory, or, with cgo, none for a stack. Its collector (Go 1.26) does
// not ask whether it got memory for a queue of spans, and writes to that nil pointer.
var outOfMemory = regexp.MustCompile(`(?m)^(fatal error|runtime): .*(out of memory|cannot allocate)|` +
	`^runtime/cgo: pthread_create failed|` +
	`(?s)^SIGSEGV: segmentation violation\n[^\n]* addr=0x0\n.*^goroutine 0 .*^runtime\.\(\*spanQueue\)\.tryDrain`)

func TestWithoutMemoryGoEndsTheProcess(t *testing.T) {
	claim.That(t, "when memory ends while a deque or an injector grows, Go's runtime ends the process and says so: nothing is corrupt before",
		"children with RLIMIT_DATA, and thieves that check each item until the end")
	sizes := []int{64}
	if claim.Full() {
		sizes = []int{32, 48, 64, 65, 66, 80, 96, 100, 128, 200, 256}
	}
	ends := 0
	for _, size := range sizes {
		for _, program := range []string{"grow", "flood"} {
			c := child.Command(t, program, limited(size<<20))
			stdout, stderr, err := child.Run(c)
			require.Error(t, err)
			require.Empty(t, stdout)
			require.Regexp(t, outOfMemory, firstLines(stderr))
			require.Equal(t, 2, c.ProcessState.ExitCode())
			ends++
		}
	}
	claim.Amount(t, "%d ends with Go's message, with %d sizes of memory", ends, len(sizes))
}

// refusals counts what was accepted and what was refused.
type refusals struct{ Accepted, Refused, Whole int }

func (r *refusals) count(accepted bool) {
	if accepted {
		r.Accepted++
	} else {
		r.Refused++
	}
}

// attemptsAtLimit is so many that their items would not fit into the available memory.
const attemptsAtLimit, queueLimit = 4_000_000, 1000

func stayWithinLimits() error {
	n, err := limit()
	if err != nil {
		return err
	}
	if err := limitMemory(n); err != nil {
		return err
	}
	result := make(map[string]*refusals)
	var r *refusals
	begin := func(name string) { r = new(refusals); result[name] = r }
	check := func(it *numbered) bool {
		if it.isWhole() {
			r.Whole++
		}
		return it != nil
	}

	begin("Deque")
	d, err := heist.NewDeque[numbered](heist.DequeConfig{Limit: queueLimit})
	if err != nil {
		return err
	}
	for i := range attemptsAtLimit {
		r.count(d.Push(newNumbered(i)))
	}
	for check(d.Pop()) {
	}

	begin("Ring")
	ring, err := heist.NewRing[numbered](1024, nil)
	if err != nil {
		return err
	}
	for i := range attemptsAtLimit {
		r.count(ring.Push(newNumbered(i)))
	}
	for check(ring.Pop()) {
	}

	begin("Pool")
	p, err := pool.New(pool.WithWorkers(1), pool.WithPinning(pool.PinNone), pool.WithQueueBound(queueLimit))
	if err != nil {
		return err
	}
	begun, release := make(chan struct{}), make(chan struct{})
	if err := p.Go(func(*pool.Worker) { close(begun); testutil.Compute(release) }); err != nil {
		return err
	}
	<-begun
	for i := range attemptsAtLimit {
		it := newNumbered(i)
		err := p.TrySubmit(func(*pool.Worker) { check(it) })
		if err != nil && !errors.Is(err, pool.ErrFull) {
			return err
		}
		r.count(err == nil)
	}
	close(release)
	if err := p.Close(); err != nil {
		return err
	}
	return child.Tell(result)
}

func TestQueuesWithALimitRefuseInsteadOfGrowing(t *testing.T) {
	claim.That(t, "queues with a limit refuse what does not fit, and keep what they have accepted",
		"pushes into full queues in a child with RLIMIT_DATA, until garbage of many times that size was made")
	var result map[string]*refusals
	child.Result(t, child.Command(t, "limits", limited(192<<20)), &result)
	accepted, refused := 0, 0
	for name, want := range map[string]int{"Deque": queueLimit, "Ring": 1024, "Pool": queueLimit} {
		require.Equal(t, refusals{want, attemptsAtLimit - want, want}, *result[name], name)
		accepted += result[name].Accepted
		refused += result[name].Refused
	}
	claim.Amount(t, "%s pushes refused, %s accepted and found whole", claim.Count(refused), claim.Count(accepted))
}
