//go:build !(amd64 && gc && !purego)

package numa

func current() (cpu, node int) { return getcpu() }
