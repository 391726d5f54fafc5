//go:build (amd64 || arm64) && gc && !purego && !race

package heist

//go:noescape
func ticks() int64

func calibrateTicks() float64 { return measureTicks() }
