package pad_test

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/pad"
)

// TestNoTwoSlicesShareALine, however the allocator places them.
func TestNoTwoSlicesShareALine(t *testing.T) {
	type odd struct{ a, b, c uint64 }
	const n = 3
	size := n * unsafe.Sizeof(odd{})
	all := make([][]odd, 1000)
	starts := make([]uintptr, len(all))
	for i := range all {
		all[i] = pad.Slice[odd](n)
		require.Len(t, all[i], n)
		require.Equal(t, n, cap(all[i]), "the room is nobody's")
		starts[i] = uintptr(unsafe.Pointer(&all[i][0]))
	}
	slices.Sort(starts)
	for i := range starts[1:] {
		require.GreaterOrEqual(t, starts[i+1]-starts[i], size+pad.Size)
	}
}

// TestFetchIsOnlyAHint: it changes nothing, and no address makes it fail.
func TestFetchIsOnlyAHint(t *testing.T) {
	lines := pad.Slice[byte](pad.Size)
	for i := range lines {
		lines[i] = byte(i)
	}
	pad.Fetch(unsafe.Pointer(&lines[0]))
	pad.Fetch(nil)
	for i := range lines {
		require.Equal(t, byte(i), lines[i])
	}
}
