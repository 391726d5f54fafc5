package heist

import (
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/internal/testutil"
)

// asleepOn returns how many threads sleep on a word: as many as the kernel would move to
// another word, which is the same one here.
func asleepOn(t *testing.T, word *atomic.Uint32) int {
	t.Helper()
	const compareAndRequeuePrivate = 4 | 128
	at := uintptr(unsafe.Pointer(word))
	moved, _, errno := syscall.RawSyscall6(unix.SYS_FUTEX, at, compareAndRequeuePrivate, 0, math.MaxInt32, at, uintptr(word.Load()))
	if errno != 0 {
		t.Skip("this kernel does not tell who sleeps: ", errno)
	}
	return int(moved)
}

func TestWakeOfAllWakesAllAndCountsThem(t *testing.T) {
	testWakeOfAll(t, futex{FutexWait, FutexWake}, func(word *atomic.Uint32) int { return asleepOn(t, word) })
}

// The kernel reads the number to wake as a signed integer of 32 bits, and wakes one sleeper if that
// is not positive.
func TestWakeOfNobodyWakesNobody(t *testing.T) {
	var word atomic.Uint32
	wait := testutil.Together(2, func(int) {
		for word.Load() == 0 {
			FutexWait(&word, 0, -1)
		}
	})
	for asleepOn(t, &word) < 2 {
		runtime.Gosched()
	}
	for _, n := range []int{0, -1, math.MinInt32, math.MinInt, math.MinInt + 1} {
		require.Zero(t, FutexWake(&word, n), "%d", n)
	}
	require.Equal(t, 2, asleepOn(t, &word))
	word.Store(1)
	require.Equal(t, 2, FutexWake(&word, 3))
	wait()
}
