// Package c2c measures how long a cache line takes from one CPU to another.
//
//	pair.go    two threads that bounce a line
//	sweep.go   all pairs of CPUs, by how close they are
//	table.go   the result for a terminal, and as lines of the contract
//	svg.go     the result as a picture
package c2c

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/internal/pad"
)

const (
	// batch is how many round trips are timed together: some 5 us, so that reading the clock
	// does not matter, and an interrupt spoils few.
	batch = 50

	// leastBatches is the least number of batches, so that the median batch is an undisturbed
	// one. One more runs before them and is not counted.
	leastBatches = 9

	// longest is how long after d a measurement ends even with fewer batches. On an overloaded
	// machine the two threads seldom run at the same time.
	longest = time.Second

	// spins is how often a thread looks before it reads the clock: a few times the longest
	// way between two CPUs.
	spins = 1 << 12

	// yieldAfter is how long a thread waits before it lets others have its CPU. Until then its
	// partner may return from an interrupt, and on a loaded machine the moments in which both
	// run are too few to give one up.
	yieldAfter = time.Millisecond

	// patience is how long a partner may be away. On a loaded machine that is a fraction of
	// a second; a partner that is away for longer never comes.
	patience = 10 * time.Second
)

// Pair is two different CPUs.
type Pair struct{ First, Second int }

// Measure measures the way between the two CPUs and returns the median, the least and the
// greatest of the batches, in nanoseconds. It takes about d, or as long as ten batches of
// 50 round trips.
//
// Two threads, one bound to each CPU, take turns at one word: each reads the word until it
// is its turn, and gives the turn to the other by a compare-and-swap. One way is half of
// such a round trip: the line is fetched to be read and then taken over to be written,
// which is the cost of telling another CPU something.
//
// Measure returns [heist.ErrPinning], wrapped, where threads are not bound to CPUs, and an
// error for a CPU that the process may not use. It needs two Ps; if there are fewer, it
// raises GOMAXPROCS for the time.
func (p Pair) Measure(d time.Duration) (contract.Spread, error) {
	if runtime.GOMAXPROCS(0) < 2 {
		// With one P they would take turns at the P.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	}
	line := line{patience: patience}
	var ways []float64
	var both errgroup.Group
	both.Go(line.player(p.First, func() (err error) {
		ways, err = line.serve(d)
		return err
	}))
	both.Go(line.player(p.Second, line.answer))
	if err := both.Wait(); err != nil {
		return contract.Spread{}, fmt.Errorf("CPUs %d and %d: %w", p.First, p.Second, err)
	}
	return contract.Summarise(ways), nil
}

// line is a cache line that the two threads write to, with padding on both sides for the
// lines that CPUs may fetch along with it.
type line struct {
	_    pad.Line
	turn atomic.Uint32 // a player gives it to the other; a player that stops, to nobody
	_    pad.Line

	patience time.Duration // constant
}

// The values of line.turn.
const (
	servers uint32 = iota
	answerers
	nobodys
)

// errGone says that the partner has stopped. The partner itself returns the reason, if any.
var errGone = errors.New("the partner has stopped")

// player returns a function that plays on a CPU. When it ends, for whatever reason, its partner sees that.
func (l *line) player(cpu int, play func() error) func() error {
	return func() error {
		defer l.turn.Store(nobodys)
		pin, err := heist.Pin(cpu)
		if err != nil {
			return err
		}
		if err = play(); err == errGone {
			err = nil
		}
		return errors.Join(err, pin.Unpin())
	}
}

// serve plays batches for about d and returns the nanoseconds of one way in each.
func (l *line) serve(d time.Duration) ([]float64, error) {
	ways := make([]float64, 0, 1<<10)
	start := time.Now()
	for played := 0; ; played++ {
		began := time.Now()
		switch spent := began.Sub(start); {
		case played > leastBatches && spent >= d, played > 1 && spent >= d+longest:
			return ways, nil
		}
		for range batch {
			if err := l.give(servers, answerers); err != nil {
				return nil, err
			}
		}
		took := time.Since(began)
		if played > 0 { // in the first batch the partner was late
			ways = append(ways, float64(took.Nanoseconds())/(2*batch))
		}
	}
}

// answer plays until the partner stops.
func (l *line) answer() error {
	if err := l.await(answerers); err != nil {
		return err
	}
	for {
		if err := l.give(answerers, servers); err != nil {
			return err
		}
	}
}

// give hands the turn from one player to the other, and waits to get it back.
func (l *line) give(from, to uint32) error {
	if !l.turn.CompareAndSwap(from, to) {
		return errGone
	}
	return l.await(from)
}

// await waits for a turn.
func (l *line) await(turn uint32) error {
	if came, err := l.look(turn); came {
		return err
	}
	return l.awaitLong(turn)
}

// look looks for a turn for a while. It reports whether the turn came, or never will.
func (l *line) look(turn uint32) (came bool, err error) {
	for range spins {
		switch l.turn.Load() {
		case turn:
			return true, nil
		case nobodys:
			return true, errGone
		}
	}
	return false, nil
}

// awaitLong waits for a partner that has lost its CPU, or has not got it yet.
//
//go:noinline
func (l *line) awaitLong(turn uint32) error {
	start := time.Now()
	for {
		if came, err := l.look(turn); came {
			return err
		}
		switch waited := time.Since(start); {
		case waited >= l.patience:
			return fmt.Errorf("one has not answered the other for %v; leave the machine some time", l.patience)
		case waited >= yieldAfter:
			heist.Yield()     // another goroutine may want this CPU
			runtime.Gosched() // the partner may want a P
		}
	}
}
