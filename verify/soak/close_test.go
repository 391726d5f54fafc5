package soak

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

var closes = flag.Int("closes", 0, "how many pools TestCloseAlwaysEnds closes; 0 is 1000, 100 with -short, 100,000 for a claim")

// busyPool is a pool that is closed while goroutines give it work, and what they count.
type busyPool struct {
	*pool.Pool
	bound    int
	accepted atomic.Int64
	ran      atomic.Int64 // tasks
	calls    atomic.Int64 // functions that ran in a Run, not as tasks
	faults
}

func (b *busyPool) task(*pool.Worker) { b.ran.Add(1) }

// parent is a task that queues another one.
func (b *busyPool) parent(w *pool.Worker) {
	b.ran.Add(1)
	b.answer(1, w.Go(b.task))
}

// answer counts what was accepted, and says whether the pool may accept more.
func (b *busyPool) answer(n int, err error) bool {
	switch {
	case err == nil:
		b.accepted.Add(int64(n))
	case errors.Is(err, pool.ErrClosed):
		return false
	case errors.Is(err, pool.ErrFull) && b.bound > 0, errors.Is(err, context.Canceled):
	default:
		b.fail("the pool answered: %w", err)
	}
	return true
}

// submit gives the pool work until it refuses that.
func (b *busyPool) submit(random *rand.Rand) {
	for goesOn := true; goesOn; {
		switch random.IntN(12) {
		case 0:
			goesOn = b.answer(1, b.Go(b.task))
		case 1:
			goesOn = b.answer(1, b.Go(b.parent))
		case 2:
			goesOn = b.answer(1, b.Submit(context.Background(), b.task, []pool.TaskOption{pool.PriorityHigh, pool.PriorityNormal, pool.PriorityLow}[random.IntN(3)]))
		case 3:
			ctx, cancel := context.WithCancel(context.Background())
			go cancel()
			goesOn = b.answer(1, b.Submit(ctx, b.task))
			cancel()
		case 4:
			goesOn = b.answer(1, b.TrySubmit(b.parent))
		case 5:
			fs := make([]func(*pool.Worker), 1+random.IntN(8))
			for i := range fs {
				fs[i] = b.task
			}
			n, err := b.SubmitAll(context.Background(), fs)
			b.accepted.Add(int64(n))
			goesOn = b.answer(0, err)
			if err == nil && n < len(fs) {
				b.fail("SubmitAll queued %d of %d without an error", n, len(fs))
			}
		case 6:
			future := pool.Async(b.Pool, func(w *pool.Worker) (int, error) { b.parent(w); return 1, nil })
			_, err := future.Wait(context.Background())
			goesOn = b.answer(1, err)
		case 7:
			var members atomic.Int64
			g, _ := pool.NewGroup(b)
			n := 1 + random.IntN(3)
			if random.IntN(2) == 0 {
				g.SetLimit(1)
			}
			for range n {
				g.Go(func() error { b.ran.Add(1); members.Add(1); return nil })
			}
			err := g.Wait()
			goesOn = b.answer(n, err)
			if done := int(members.Load()) + g.Skipped(); err != nil {
				b.accepted.Add(int64(done))
				if done >= n {
					b.fail("all %d functions of a group were done or skipped, and its error is %w", n, err)
				}
			}
		case 8:
			goesOn = b.answer(1, b.Submit(context.Background(), b.task, pool.Delay(time.Duration(random.IntN(100))*time.Microsecond)))
		case 9:
			ran := false
			err := b.Run(func(w *pool.Worker) {
				w.Do(func(*pool.Worker) { b.calls.Add(1) }, func(*pool.Worker) { b.calls.Add(1) })
				if random.IntN(2) == 0 {
					b.answer(1, w.Go(b.task))
				}
				ran = true
			})
			if ran != (err == nil) {
				b.fail("Run returned %w, and the function ran: %v", err, ran)
			}
			goesOn = b.answer(0, err)
		case 10:
			var items atomic.Int64
			n := 1 + random.IntN(200)
			err := par.For(b.Pool, n, func(int) { items.Add(1) })
			if all := items.Load() == int64(n); all != (err == nil) {
				b.fail("For returned %w after %d of %d items", err, items.Load(), n)
			}
			goesOn = b.answer(0, err)
		case 11:
			startBy := pool.StartBy(time.Now().Add(time.Duration(random.IntN(50))*time.Microsecond), b.task)
			goesOn = b.answer(1, b.Submit(context.Background(), b.task, startBy))
		}
	}
}

// disturb resizes and pauses the pool until it is closed.
func (b *busyPool) disturb(random *rand.Rand, most int) {
	for {
		var err error
		switch random.IntN(3) {
		case 0:
			err = b.Resize(1 + random.IntN(most))
		case 1:
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(100))*time.Microsecond)
			err = b.Pause(ctx)
			cancel()
		case 2:
			b.Resume()
			spinFor(time.Duration(random.IntN(20)) * time.Microsecond)
		}
		if errors.Is(err, pool.ErrClosed) {
			return
		}
	}
}

// closeIt closes the pool in one of the ways that there are.
func (b *busyPool) closeIt(random *rand.Rand) error {
	switch random.IntN(3) {
	case 0:
		return b.Shutdown(context.Background())
	case 1:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(50))*time.Microsecond)
		defer cancel()
		if err := b.Shutdown(ctx); !errors.As(err, new(*pool.UnfinishedError)) {
			return err
		}
	}
	return b.Close()
}

// closeUnderWork does a round, and returns how many tasks were accepted.
func closeUnderWork(t *testing.T, seed uint64) int64 {
	defer func() {
		if t.Failed() {
			t.Logf("it was the pool of -seed=%d -closes=1", seed)
		}
	}()
	random := rand.New(rand.NewPCG(seed, 2))
	const most = 4
	b := &busyPool{}
	options := []pool.Option{pool.WithWorkers(1 + random.IntN(most)), pool.WithTuning(pool.Tuning{MaxWorkers: most})}
	if random.IntN(3) == 0 {
		b.bound = 1 + random.IntN(20)
		options = append(options, pool.WithQueueBound(b.bound))
	}
	var err error
	b.Pool, err = pool.New(options...)
	require.NoError(t, err)
	var others, spinners sync.WaitGroup
	var stop atomic.Bool
	if random.IntN(8) == 0 {
		for range runtime.GOMAXPROCS(0) {
			spinners.Go(func() {
				for !stop.Load() {
				}
			})
		}
	}
	for range 4 {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		others.Go(func() { b.submit(own) })
	}
	if random.IntN(2) == 0 {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		others.Go(func() { b.disturb(own, most) })
	}
	mustEnd(t, func() {
		if random.IntN(2) == 0 { // on one CPU nothing is submitted otherwise
			runtime.Gosched()
		}
		spinFor(time.Duration(random.IntN(300)) * time.Microsecond)
		if err := b.closeIt(random); err != nil {
			b.fail("Close: %w", err)
		}
		ran := b.ran.Load()
		others.Wait()
		if more := b.ran.Load() - ran; more > 0 {
			b.fail("%d tasks ran when Close had returned", more)
		}
	})
	stop.Store(true)
	spinners.Wait()
	if ran, skipped, accepted := b.ran.Load(), int64(b.Stats().Skipped), b.accepted.Load(); ran+skipped != accepted {
		b.fail("%d tasks were accepted, %d ran and %d were skipped", accepted, ran, skipped)
	}
	require.NoError(t, b.err())
	return b.accepted.Load()
}

func TestCloseAlwaysEnds(t *testing.T) {
	claim.That(t, "Close ends under work, and what was accepted is done when it has",
		"pools that are closed after a random time while goroutines submit in all ways, pause and resize; accepted is compared with run and skipped")
	first, n := chosenSeed(), amount(*closes, 100, 1000, 100_000)
	t.Logf("-seed=%d", first)
	var tasks int64
	for i := range uint64(n) {
		tasks += closeUnderWork(t, first+i)
	}
	t.Logf("%d pools, %d tasks", n, tasks)
	require.NotZero(t, tasks)
	claim.Amount(t, "%s pools, %s tasks", claim.Count(n), claim.Count(tasks))
}
