package policy

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBitmapLeavesOneNumberAlone(t *testing.T) {
	for _, not := range []int{0, 5, 64, 129} {
		b := NewBitmap(130)
		for i := range 130 {
			b.Set(i)
		}
		for range 129 {
			i, ok := b.TakeUnless(not)
			require.True(t, ok)
			require.NotEqual(t, not, i)
		}
		_, ok := b.TakeUnless(not)
		require.False(t, ok)
		require.True(t, b.Has(not))
	}
}

func TestBitmapTakesTheLowestNumberFirst(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 200} {
		b := NewBitmap(n)
		_, ok := b.TakeUnless(-1)
		require.False(t, ok)
		for i := n - 1; i >= 0; i-- {
			require.False(t, b.Has(i))
			b.Set(i)
			require.True(t, b.Has(i))
		}
		b.Set(0) // setting twice is setting once
		for i := range n {
			got, ok := b.TakeUnless(-1)
			require.True(t, ok)
			require.Equal(t, i, got)
			require.False(t, b.Has(i))
			require.False(t, b.Clear(i))
		}
		_, ok = b.TakeUnless(-1)
		require.False(t, ok)
	}
}

func TestBitmapClearSaysWhoClearedIt(t *testing.T) {
	const n = 130
	b := NewBitmap(n)
	for range 200 {
		for i := range n {
			b.Set(i)
		}
		var cleared atomic.Int64
		var wg sync.WaitGroup
		for who := range 4 {
			wg.Go(func() {
				for i := range n {
					if who%2 == 0 {
						if b.Clear((i + who*n/4) % n) {
							cleared.Add(1)
						}
					} else if _, ok := b.TakeUnless(-1); ok {
						cleared.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, n, cleared.Load())
	}
}
