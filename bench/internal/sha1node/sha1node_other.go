//go:build !amd64 || !gc || purego

package sha1node

const accelerated = false

func childSHA(a, b uint64, c, index uint32) (x, y uint64, z uint32) { panic("not there") }
