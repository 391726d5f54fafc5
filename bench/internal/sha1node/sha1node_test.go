package sha1node

import (
	"crypto/sha1"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChildIsSHA1(t *testing.T) {
	t.Logf("with the CPU's instructions: %v", accelerated)
	random := rand.NewChaCha8([32]byte{19})
	for range 10_000 {
		var message [sha1.Size + 4]byte
		_, _ = random.Read(message[:]) // never fails
		parent, index := Digest(message[:sha1.Size]), binary.BigEndian.Uint32(message[sha1.Size:])
		want := sha1.Sum(message[:])

		kept := parent
		var child Digest
		Child(&child, &parent, index)
		require.Equal(t, want, child)
		require.Equal(t, kept, parent)

		child = Digest{1, 2, 3}
		portable(&child, &parent, index)
		require.Equal(t, want, child)

		Child(&parent, &parent, index)
		require.Equal(t, want, parent, "in place")
	}
}

func TestChildDoesNotAllocate(t *testing.T) {
	var d Digest
	assert.Zero(t, testing.AllocsPerRun(100, func() { Child(&d, &d, 7) }))
}

func BenchmarkChild(b *testing.B) {
	var d Digest
	for b.Loop() {
		Child(&d, &d, 7)
	}
}

func BenchmarkPortable(b *testing.B) {
	var d Digest
	for b.Loop() {
		portable(&d, &d, 7)
	}
}
