package pool

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBitmapTakesTheLastChoiceLast(t *testing.T) {
	for _, last := range []int{0, 5, 64, 129} {
		b := newBitmap(130)
		for i := range 130 {
			b.set(i)
		}
		for range 129 {
			i, ok := b.takeBut(last)
			require.True(t, ok)
			require.NotEqual(t, last, i)
		}
		i, ok := b.takeBut(last)
		require.True(t, ok)
		require.Equal(t, last, i)
		_, ok = b.takeBut(last)
		require.False(t, ok)
	}
}

func TestBitmapTakesTheLowestNumberFirst(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 200} {
		b := newBitmap(n)
		_, ok := b.take()
		require.False(t, ok)
		for i := n - 1; i >= 0; i-- {
			require.False(t, b.has(i))
			b.set(i)
			require.True(t, b.has(i))
		}
		b.set(0) // setting twice is setting once
		for i := range n {
			got, ok := b.take()
			require.True(t, ok)
			require.Equal(t, i, got)
			require.False(t, b.has(i))
			require.False(t, b.clear(i))
		}
		_, ok = b.take()
		require.False(t, ok)
	}
}

func TestBitmapClearSaysWhoClearedIt(t *testing.T) {
	const n = 130
	b := newBitmap(n)
	for range stress(1000) {
		for i := range n {
			b.set(i)
		}
		var cleared atomic.Int64
		together(4, func(who int) {
			for i := range n {
				if who%2 == 0 {
					if b.clear((i + who*n/4) % n) {
						cleared.Add(1)
					}
				} else if _, ok := b.take(); ok {
					cleared.Add(1)
				}
			}
		})()
		require.EqualValues(t, n, cleared.Load())
	}
}
