// Package sha1node computes the SHA-1 digests of which the nodes of the Unbalanced
// Tree Search are made.
//
// Such a message fits into one block. Crypto/sha1 spends more time around that block
// than in it, copying the message to a buffer and the digest from its state, and a
// benchmark of schedulers would be one of hash interfaces. Here the message is put
// together in registers. It is no replacement for crypto/sha1 otherwise.
package sha1node

import (
	"crypto/sha1"
	"encoding/binary"
)

// Digest is a SHA-1 digest.
type Digest = [sha1.Size]byte

// Child sets child to the SHA-1 digest of parent, followed by index in big-endian
// order. The two may be the same.
func Child(child, parent *Digest, index uint32) {
	if accelerated {
		childSHA(child, parent, index)
		return
	}
	portable(child, parent, index)
}

func portable(child, parent *Digest, index uint32) {
	var message [sha1.Size + 4]byte
	copy(message[:], parent[:])
	binary.BigEndian.PutUint32(message[sha1.Size:], index)
	*child = sha1.Sum(message[:])
}
