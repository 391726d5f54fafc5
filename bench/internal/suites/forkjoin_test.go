package suites

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/runner"
)

func TestRandomIsSplitmix64(t *testing.T) {
	// The generator as it is published, with a state.
	state := uint64(1)
	for i := range 100 {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb
		require.Equal(t, z^(z>>31), random(i))
	}
	assert.Equal(t, uint64(0x910a2dec89025cc1), random(0))
}

func TestQueens(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 0, 3: 0, 4: 2, 5: 10, 6: 4, 7: 40, 8: 92, 12: 14200} {
		assert.Equal(t, want, queens(emptyBoard(n)), "%d queens", n)
		assert.Equal(t, want, queensGo(emptyBoard(n)), "%d queens", n)
	}
}

// TestUTS holds the figures that the authors of the benchmark publish for their
// sample trees.
func TestUTS(t *testing.T) {
	var deepest func(t *utsTree, f family) (nodes int, depth int32)
	deepest = func(t *utsTree, f family) (nodes int, depth int32) {
		for ; f.size() > 0; f.children.lo++ {
			n, d := deepest(t, t.child(f))
			nodes += 1 + n
			depth = max(depth, d, f.parent.depth+1)
		}
		return nodes, depth
	}
	for _, test := range []struct {
		name  string
		tree  utsTree
		nodes int
		depth int32
	}{
		{"T1", utsTree{seed: 19, b: 4, depth: 10}, 4130071, 10},
		{"T3", utsTree{seed: 42, b: 2000, q: 0.124875, m: 8}, 4112897, 1572},
		{"tests' T3", utsTree{seed: 42, b: 20, q: 0.124875, m: 8}, 6213, 67},
	} {
		nodes, depth := deepest(&test.tree, test.tree.root())
		assert.Equal(t, test.nodes, 1+nodes, test.name)
		assert.Equal(t, test.depth, depth, test.name)
	}
}

func TestSkynet(t *testing.T) {
	assert.Equal(t, 499999500000, skynet(siblings{size: 1_000_000, n: 1}))
	assert.Equal(t, 0, skynetGo(siblings{size: 1, n: 1}))
}

func TestMergesort(t *testing.T) {
	for _, n := range []int{0, 1, 2, 23, 24, 47, 2048, 2049, 8193, 20_000} {
		for _, away := range []bool{false, true} {
			for name, f := range map[string]func(sorting){"serial": mergesort, "goroutine": mergesortGo} {
				in := sorting{make([]int64, n), make([]int64, n), away}
				for i := range n {
					in.from[i] = int64(random(i)) % 1000 // with equal elements
				}
				want := slices.Sorted(slices.Values(in.from))
				f(in)
				got := in.from
				if away {
					got = in.other
				}
				assert.True(t, slices.Equal(want, got), "%s, %d elements, away: %v", name, n, away)
			}
		}
	}
}

func TestMergesortCheckFindsWhatIsWrong(t *testing.T) {
	m := newMergesort(runner.Env{Tiny: true})
	in, j := m.in, m.job
	sort := func(spoil func()) error {
		_, err := j.lap(nil, func() ([]int64, error) { mergesort(in); spoil(); return in.from, nil })()
		return err
	}
	assert.NoError(t, sort(func() {}))
	assert.ErrorContains(t, sort(func() { in.from[7], in.from[8] = in.from[8], in.from[7] }), "out of order")
	assert.ErrorContains(t, sort(func() { in.from[7] = in.from[8] }), "fingerprint")
}

func TestMatmulCheckFindsWhatIsWrong(t *testing.T) {
	p, j := matmulJob(runner.Env{Tiny: true})
	multiply := func(spoil func()) error {
		_, err := j.lap(nil, func() (*product, error) { matmul(p.whole()); spoil(); return p, nil })()
		return err
	}
	assert.NoError(t, multiply(func() {}))
	assert.ErrorContains(t, multiply(func() { p.c[3] += 0.1 }), "checksum")
	i, k := 5, 77
	naive := 0.0
	for x := range p.n {
		naive += p.a[i*p.n+x] * p.b[x*p.n+k]
	}
	matmul(p.whole())
	assert.InDelta(t, naive, p.c[i*p.n+k], 1e-9)
}
