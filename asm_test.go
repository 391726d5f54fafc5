//go:build (amd64 || arm64) && gc && !purego && !race

package heist

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The assembly's symbols exist only in builds that have it, so a build that this
// file is part of and that passes this test has executed them. The lines that it
// logs are for a reader who must prove that a machine or an emulator did so.
func TestAssemblyRuns(t *testing.T) {
	for _, im := range assemblyRows {
		t.Run(im.name, func(t *testing.T) {
			im.use(t)
			d := new(deque)
			require.True(t, d.makeRoom())
			items := newItems(3)
			for i, it := range items {
				*d.array.Load().at(int64(i)) = unsafe.Pointer(it)
				asmPush(d)
				require.EqualValues(t, i+1, d.bottom.Load())
			}

			stolen, index, r := asmSteal(d)
			require.Equal(t, Success, r)
			require.Zero(t, index)
			require.Same(t, items[0], (*item)(stolen))
			require.EqualValues(t, 1, d.top.Load())

			require.Same(t, items[2], (*item)(asmPop(d)))
			require.EqualValues(t, 2, d.bottom.Load())
			require.EqualValues(t, 1, d.taken.Load())

			require.Same(t, items[1], (*item)(asmPop(d)), "the last one, by its compare-and-swap")
			require.EqualValues(t, 2, d.bottom.Load())
			require.EqualValues(t, 2, d.top.Load())
			require.EqualValues(t, 1, d.last.Load())

			require.Zero(t, asmPop(d))
			require.EqualValues(t, 2, d.bottom.Load(), "a pop of nothing puts bottom back")
			stolen, _, r = asmSteal(d)
			require.Equal(t, Empty, r)
			require.Zero(t, stolen)

			t.Log("executed assembly:", im.assembly)
		})
	}
}
