// Package sha1node computes the SHA-1 digests of the Unbalanced Tree Search's nodes.
//
// The message of a node fits into one block. Crypto/sha1 spends more time around that
// block than in it, copying the message to a buffer and the digest from its state, and a
// benchmark of schedulers would become one of hash interfaces. Here the message is put
// together in registers. For other messages it is no replacement for crypto/sha1.
package sha1node

import (
	"crypto/sha1"
	"encoding/binary"
)

// Digest is a SHA-1 digest as numbers: its bytes 0 to 7, 8 to 15 and 16 to 19 in
// big-endian order. Go keeps such a struct in registers, but not an array of bytes.
type Digest struct {
	A, B uint64
	C    uint32
}

// Sum is SHA-1 of any message.
func Sum(message []byte) Digest {
	d := sha1.Sum(message)
	return Digest{binary.BigEndian.Uint64(d[:]), binary.BigEndian.Uint64(d[8:]), binary.BigEndian.Uint32(d[16:])}
}

// Child returns the SHA-1 digest of the parent's digest, followed by index in big-endian
// order.
func (d Digest) Child(index uint32) Digest {
	if accelerated {
		x, y, z := childSHA(d.A, d.B, d.C, index)
		return Digest{x, y, z}
	}
	return d.portable(index)
}

func (d Digest) portable(index uint32) Digest {
	message := make([]byte, 0, sha1.Size+4)
	message = binary.BigEndian.AppendUint64(message, d.A)
	message = binary.BigEndian.AppendUint64(message, d.B)
	message = binary.BigEndian.AppendUint32(message, d.C)
	return Sum(binary.BigEndian.AppendUint32(message, index))
}
