package gauge

import (
	"os"
	"strconv"
	"sync"
	"time"
)

// speedIs is the environment variable with the speed of this machine.
const speedIs = "HEIST_BENCH_SPEED"

// speed is how many rounds Busy does in a millisecond. The first process of a benchmark measures it, and the fastest of
// several tries counts: the others were disturbed. Its children inherit the figure, so that the chores of all
// implementations are equally long.
var speed = sync.OnceValue(func() int {
	if s, err := strconv.Atoi(os.Getenv(speedIs)); err == nil && s > 0 {
		return s
	}
	const rounds = 200_000
	took := time.Duration(1 << 62)
	for range 5 {
		start := time.Now()
		if Busy(rounds) == 0 { // never, but the compiler keeps the call
			return 1
		}
		took = min(took, time.Since(start))
	}
	s := max(1, int(rounds*time.Millisecond/took))
	_ = os.Setenv(speedIs, strconv.Itoa(s)) // it fails only for a bad name
	return s
})

// Calibrate measures how fast this process computes, for itself and the processes that it starts from now on.
func Calibrate() { speed() }

// Rounds returns how many rounds Busy does in this time.
func Rounds(length time.Duration) int {
	return int(int64(speed()) * int64(length) / int64(time.Millisecond))
}

// Busy computes the given number of rounds. The answer is never 0.
func Busy(rounds int) uint64 {
	x := uint64(1)
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// Chore is a computation of a certain length, without memory. The zero chore gives a wrong answer.
type Chore struct {
	rounds int
	answer uint64
}

// NewChore returns a chore of so many rounds.
func NewChore(rounds int) Chore { return Chore{rounds, Busy(rounds)} }

// Do computes, and says whether the answer is right.
func (c Chore) Do() bool { return Busy(c.rounds) == c.answer }
