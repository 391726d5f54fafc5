//go:build !((amd64 || arm64) && gc && !purego && !race)

package heist

// pause is a short loop where there is no assembly for the CPU's hint.
//
//go:noinline
func pause(n int64) {
	for range n * 8 {
	}
}

func calibratePause() float64 { return measurePause(pause) }
