//go:build gc && !purego && !race

package heist

// pause executes PAUSE n times. n is from 1 to pauseBurst.
func pause(n int64)

func calibratePause() float64 { return measurePause(pause) }
