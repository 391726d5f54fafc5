package sim

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/seed53057037/heist/bench/internal/sha1node"
)

// tree is the work of a load that forks and joins. It is laid out before the run, breadth
// first, so that the children of a node are a range of indices. A node takes its time, and
// then its children are counted as in suite forkjoin: their range is halved and the halves
// are forked, until a range is a single node.
type tree struct {
	children []int32 // the children of node i begin at children[i] and end at children[i+1]
	cost     []int32 // of each node, in nanoseconds
	after    int32   // what a node with children takes after they have ended
	lines    int     // cache lines that a thief needs from the victim besides the work itself

	work  int64 // the time of all nodes
	span  int64 // the time of the longest chain of nodes
	depth int   // of the longest chain, in nodes
}

func (t *tree) nodes() int { return len(t.cost) }

// grow makes a tree: expand returns a node's time and adds its children to the end.
func grow[N any](root N, lines int, expand func(n N, index int, add func(N)) (cost int32)) *tree {
	t := &tree{lines: lines, children: []int32{1}}
	nodes := []N{root}
	for i := 0; i < len(nodes); i++ {
		t.cost = append(t.cost, expand(nodes[i], i, func(child N) { nodes = append(nodes, child) }))
		t.children = append(t.children, int32(len(nodes)))
	}
	t.measure()
	return t
}

// measure computes work, span and depth, from the leaves up.
func (t *tree) measure() {
	t.work = 0
	span, depth := make([]int64, t.nodes()), make([]int32, t.nodes())
	for i := t.nodes() - 1; i >= 0; i-- {
		own := int64(t.cost[i])
		if t.children[i] < t.children[i+1] {
			own += int64(t.after)
		}
		t.work += own
		for child := t.children[i]; child < t.children[i+1]; child++ {
			span[i] = max(span[i], span[child])
			depth[i] = max(depth[i], depth[child])
		}
		span[i] += own
		depth[i]++
	}
	t.span, t.depth = span[0], int(depth[0])
}

// utsNode is a node of an Unbalanced Tree Search, see suite forkjoin.
type utsNode struct {
	id    sha1node.Digest
	depth int
}

// uts makes a tree of the Unbalanced Tree Search, with the definitions of suite forkjoin.
// Children says how many children a node has, given its depth and its number from 0 to 1.
func uts(seed, cost int32, children func(depth int, u float64) int) *tree {
	var origin [20]byte
	binary.BigEndian.PutUint32(origin[16:], uint32(seed))
	return grow(utsNode{id: sha1node.Sum(origin[:])}, 1, func(n utsNode, _ int, add func(utsNode)) int32 {
		u := float64(n.id.C&math.MaxInt32) / (1 << 31)
		for i := range children(n.depth, u) {
			add(utsNode{n.id.Child(uint32(i)), n.depth + 1})
		}
		return cost
	})
}

// geometric is T1 of that benchmark, cut off at another depth.
func geometric(cutoff int, cost int32) *tree {
	const b, most = 4, 100
	logq := math.Log(1 - 1/(1+float64(b)))
	return uts(19, cost, func(depth int, u float64) int {
		if depth >= cutoff {
			return 0
		}
		return int(min(most, math.Floor(math.Log(1-u)/logq)))
	})
}

// binomial is T3 of that benchmark with another number of children of the root, and fewer of
// the other nodes: 0.96 on average instead of 0.999, lest the longest chain be longer than the run.
func binomial(b int, cost int32) *tree {
	const q, m = 0.12, 8
	return uts(42, cost, func(depth int, u float64) int {
		switch {
		case depth == 0:
			return b
		case u < q:
			return m
		}
		return 0
	})
}

// fibonacci is the recursion of fib, every call a node. A leaf takes from a quarter of cost
// to seven quarters.
func fibonacci(n int, cost int32) *tree {
	random := rand.New(rand.NewPCG(1, 1))
	return grow(n, 32, func(n, _ int, add func(int)) int32 {
		if n < 2 {
			return cost/4 + random.Int32N(cost*3/2)
		}
		add(n - 1)
		add(n - 2)
		return cost / 4
	})
}

// combining is fibonacci in which a call takes the time after, once its two calls have ended.
func combining(n int, cost, after int32) *tree {
	t := fibonacci(n, cost)
	t.after = after
	t.measure()
	return t
}

// skewed divides a range again and again, into a tenth and nine tenths. A part of at most
// grain elements is a leaf, which takes each for every element.
func skewed(elements, grain, each int32) *tree {
	const division = 200 // the time of a division
	return grow(elements, 64, func(n int32, _ int, add func(int32)) int32 {
		if n <= grain {
			return n * each
		}
		add(n / 10)
		add(n - n/10)
		return division
	})
}
