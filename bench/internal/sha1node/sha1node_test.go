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
		index := binary.BigEndian.Uint32(message[sha1.Size:])
		parent := Digest{
			binary.BigEndian.Uint64(message[:]), binary.BigEndian.Uint64(message[8:]),
			binary.BigEndian.Uint32(message[16:]),
		}
		want := Sum(message[:])
		require.Equal(t, want, parent.Child(index))
		require.Equal(t, want, parent.portable(index))
	}
}

func TestSumIsTheDigestInOrder(t *testing.T) {
	d := Sum([]byte("abc")) // FIPS 180-4's example
	assert.Equal(t, Digest{0xa9993e364706816a, 0xba3e25717850c26c, 0x9cd0d89d}, d)
}

func TestChildDoesNotAllocate(t *testing.T) {
	var d Digest
	assert.Zero(t, testing.AllocsPerRun(100, func() { d = d.Child(7) }))
}

func BenchmarkChild(b *testing.B) {
	var d Digest
	for b.Loop() {
		d = d.Child(7)
	}
}

func BenchmarkPortable(b *testing.B) {
	var d Digest
	for b.Loop() {
		d = d.portable(7)
	}
}
