//go:build gc && !purego

package numa

import (
	"os"
	"regexp"
	"testing"

	"github.com/klauspost/cpuid/v2"
	"github.com/stretchr/testify/require"
)

// instructions returns those that this CPU has, by name.
func instructions() map[string]func() uint32 {
	has := make(map[string]func() uint32)
	if hasRDPID() {
		has["RDPID"] = rdpid
	}
	if cpuid.CPU.Supports(cpuid.RDTSCP) {
		has["RDTSCP"] = rdtscp
	}
	return has
}

func registerWays() []way {
	var ways []way
	for name, read := range instructions() {
		ways = append(ways, way{name, func() (cpu, node int) { return splitAux(read()) }})
	}
	return ways
}

func TestCPUIDIsReadAsTheKernelReadsIt(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip("the kernel does not list the CPU's features: ", err)
	}
	require.Equal(t, regexp.MustCompile(`(?m)^flags\b.* rdpid\b`).Match(info), hasRDPID())
}

func TestTrueRegisterIsBelievedAfterOneComparison(t *testing.T) {
	for name, read := range instructions() {
		r := newRegister(true)
		onEachCPU(t, func(want int) {
			compared := 0
			cpu, node := r.compare(read, func() (int, int) { compared++; return getcpu() })
			require.Equal(t, want, cpu, name)
			require.Equal(t, 1, compared)
			require.False(t, r.lies.Load())
			require.Equal(t, cpu != 0 || node != 0, r.wasRight(uint32(node*auxCPUs+cpu)))
		})
	}
}

// A script answers for the register and the kernel, one value after the other.
func script[T any](values ...T) func() T {
	i := -1
	return func() T {
		i = min(i+1, len(values)-1)
		return values[i]
	}
}

func kernelSays(cpu, node int) func() (int, int) {
	return func() (int, int) { return cpu, node }
}

const cpu7OfNode2 = 2<<12 | 7

func TestZeroIsBelievedAfterAnotherNumberOnly(t *testing.T) {
	r := newRegister(true)
	for range 10 { // on CPU 0
		cpu, node := r.compare(script[uint32](0), kernelSays(0, 0))
		require.Equal(t, []int{0, 0}, []int{cpu, node})
		require.False(t, r.wasRight(0))
		require.False(t, r.lies.Load())
	}
	cpu, node := r.compare(script[uint32](cpu7OfNode2), kernelSays(7, 2))
	require.Equal(t, []int{7, 2}, []int{cpu, node})
	require.True(t, r.wasRight(cpu7OfNode2))
	require.True(t, r.wasRight(0))
	require.False(t, r.wasRight(6), "each number is compared for itself")
}

// The process is on CPU 0 for a while, and then on others.
func TestRegisterThatNobodyWroteMisleadsAFewTimesOnly(t *testing.T) {
	for started := range 2 * zerosOnTrust {
		r := newRegister(true)
		compared := 0
		for range started {
			r.doubt(0, script[uint32](0), func() (int, int) { compared++; return 0, 0 })
		}
		require.Equal(t, (started+zerosOnTrust-1)/zerosOnTrust, compared)

		misled := 0
		for !r.lies.Load() {
			if cpu, _ := r.doubt(0, script[uint32](0), kernelSays(7, 2)); cpu != 7 {
				misled++
			}
			require.Less(t, misled, zerosOnTrust)
		}
	}
}

func TestRegisterThatLiesIsNotUsedAgain(t *testing.T) {
	for name, lie := range map[string]uint32{
		"another CPU":      2<<12 | 6,
		"another node":     1<<12 | 7,
		"never written":    0,
		"something random": 0xdeadbeef,
	} {
		r := newRegister(true)
		cpu, node := r.compare(script(lie), kernelSays(7, 2))
		require.Equal(t, []int{7, 2}, []int{cpu, node}, name)
		require.True(t, r.lies.Load(), name)
	}
	require.True(t, newRegister(false).lies.Load(), "one that does not exist")
}

func TestTheHighestCPUOfTheRegisterIsBelieved(t *testing.T) {
	const highest = auxCPUs - 1
	r := newRegister(true)
	cpu, node := r.compare(script[uint32](3<<12|highest), kernelSays(highest, 3))
	require.Equal(t, []int{highest, 3}, []int{cpu, node})
	require.True(t, r.wasRight(3<<12|highest))
	require.False(t, r.wasRight(3<<12|highest-1))
}

func TestMoreCPUsThanTheRegisterHasRoomForAreALie(t *testing.T) {
	r := newRegister(true)
	cpu, node := r.compare(script[uint32](3<<12|4100), kernelSays(4100, 3))
	require.Equal(t, []int{4100, 3}, []int{cpu, node})
	require.True(t, r.lies.Load())
}

func TestMoveDuringTheComparisonIsNoLie(t *testing.T) {
	for name, read := range map[string]func() uint32{
		"away":                script[uint32](6, 7),
		"there and back once": script[uint32](6, 6, cpu7OfNode2),
	} {
		r := newRegister(true)
		cpu, node := r.compare(read, kernelSays(7, 2))
		require.Equal(t, []int{7, 2}, []int{cpu, node}, name)
		require.False(t, r.lies.Load(), name)
	}
}

func TestRegisterIsNotBelievedWhereTheKernelDoesNotTell(t *testing.T) {
	r := newRegister(true)
	cpu, node := r.compare(script[uint32](cpu7OfNode2), kernelSays(-1, -1))
	require.Equal(t, []int{-1, -1}, []int{cpu, node})
	require.False(t, r.wasRight(cpu7OfNode2))
	require.False(t, r.lies.Load())
}
