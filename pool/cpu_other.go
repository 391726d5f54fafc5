//go:build !linux

package pool

// currentCPU is unknown here, and no worker is pinned.
func currentCPU() int { return -1 }
