//go:build !((amd64 || arm64) && gc && !purego && !race)

package heist

var clockStart = nanotime()

func ticks() int64 { return nanotime() - clockStart }

func calibrateTicks() float64 { return 1 }
