//go:build !amd64 || !gc || purego

package sha1node

const accelerated = false

func childSHA(child, parent *Digest, index uint32) { portable(child, parent, index) }
