//go:build !((amd64 || arm64) && gc && !purego && !race)

package heist

import "time"

var clockStart = time.Now()

func ticks() int64 { return int64(time.Since(clockStart)) }

func calibrateTicks() float64 { return 1 }
