//go:build !linux

package numa

func current() (cpu, node int) { return -1, -1 }
