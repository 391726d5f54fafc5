//go:build gc && !purego

package numa

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist/internal/testutil"
)

func TestWithoutAVDSOTheKernelIsAsked(t *testing.T) {
	require.Zero(t, findGetcpu(nil, nil))
	require.Zero(t, findGetcpu([][2]uintptr{{33, 0}, {6, 4096}}, nil))
	require.Zero(t, findGetcpu([][2]uintptr{{33, 1}}, errors.New("no auxiliary vector")))

	defer func(was uintptr) { vdsoGetcpu = was }(vdsoGetcpu)
	vdsoGetcpu = 0
	onEachCPU(t, func(want int) { require.Equal(t, want, CurrentCPU()) })
}

// vdso returns a copy of this process's vDSO.
func vdso(t *testing.T) []byte {
	t.Helper()
	auxv, err := unix.Auxv()
	require.NoError(t, err)
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip(err)
	}
	defer memory.Close()
	for _, entry := range auxv {
		if entry[0] == 33 {
			image, _ := io.ReadAll(io.NewSectionReader(memory, int64(entry[1]), 1<<16)) // it ends with an error
			return image
		}
	}
	t.Skip("no vDSO")
	return nil
}

func TestOnlyAnAMD64LibraryWithSuchAFunctionIsCalled(t *testing.T) {
	image := vdso(t)
	base := uintptr(unsafe.Pointer(unsafe.SliceData(image)))
	found := findFunction(base, "__vdso_getcpu")
	if found == 0 {
		t.Skip("this vDSO has no getcpu")
	}
	require.Zero(t, findFunction(base, "__vdso_getcp"))
	require.Zero(t, findFunction(base, "LINUX_2.6"), "a symbol that is no function")

	file, err := elf.NewFile(bytes.NewReader(image))
	require.NoError(t, err)
	symbols, err := file.DynamicSymbols()
	require.NoError(t, err)
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			require.Equal(t, base+uintptr(s.Value), findFunction(base, s.Name), s.Name)
		}
	}

	// with returns what is found in an image that is different at an offset.
	with := func(offset uint64, value ...byte) uintptr {
		was := append([]byte(nil), image[offset:offset+uint64(len(value))]...)
		defer copy(image[offset:], was)
		copy(image[offset:], value)
		return findFunction(base, "__vdso_getcpu")
	}
	require.Zero(t, with(1, 'e'), "no ELF")
	require.Zero(t, with(18, byte(elf.EM_AARCH64)), "an emulator's host")
	require.Zero(t, with(56, 0, 0), "no program headers")

	dynamic := file.SectionByType(elf.SHT_DYNAMIC)
	tag := func(tag elf.DynTag) uint64 {
		for at := dynamic.Offset; ; at += 16 {
			switch elf.DynTag(binary.LittleEndian.Uint64(image[at:])) {
			case tag:
				return at
			case elf.DT_NULL:
				t.Skip("this vDSO has no ", tag)
			}
		}
	}
	unknown := []byte{0xff, 0xff, 0xff, 0x6f, 0, 0, 0, 0}
	require.Equal(t, found, with(tag(elf.DT_HASH), unknown...), "by the other hash table")
	require.Equal(t, found, with(tag(elf.DT_GNU_HASH), unknown...))
	copy(image[tag(elf.DT_HASH):], unknown)
	require.Zero(t, with(tag(elf.DT_GNU_HASH), unknown...), "no hash table")
}

// Signals, which profiles and the collector send, find a thread in the kernel's function, on the stack of a
// goroutine that is about to grow.
func TestSignalsMayComeWhileTheKernelsFunctionRuns(t *testing.T) {
	require.NoError(t, pprof.StartCPUProfile(io.Discard))
	defer pprof.StopCPUProfile()
	for range testutil.Stress(50) {
		wait := testutil.Together(8, func(int) {
			for range 5000 {
				if cpu, node := Current(); cpu < 0 || node < 0 || cpu >= 1<<13 {
					t.Errorf("CPU %d of node %d", cpu, node)
				}
			}
		})
		runtime.GC()
		wait()
	}
}
