package suites

// uts-t1 and uts-t3: the trees T1 and T3 of the Unbalanced Tree Search benchmark
// (Olivier, Huan, Liu, Prins, Dinan, Sadayappan, Tseng: "UTS: An Unbalanced Tree
// Search Benchmark", LCPC 2006). A tree is not stored: each node is a SHA-1 digest,
// which determines the number of its children and their digests.
//
//	root       SHA1(16 zero bytes, seed)               numbers have 4 bytes, big-endian
//	child i    SHA1(digest of the parent, i)           i counts from 0
//	u          the last 4 bytes of the digest modulo 2^31, divided by 2^31
//
//	T1, geometric: seed 19, b = 4, depth 10. A node of a depth below 10 has
//	           floor(log(1-u) / log(1-p)) children, p = 1/(1+b), at most 100; a node
//	           at depth 10 has none. 4,130,071 nodes.
//	T3, binomial: seed 42, b = 2000, q = 0.124875, m = 8. The root has b children;
//	           any other node has m children if u < q, and else none. 4,112,897
//	           nodes, the deepest at depth 1572.
//
// The answer is the number of nodes. The children of a node are a range that is
// halved, the first half rounded down, and the halves are counted as a fork. A range
// of a single child is not halved: its digest is computed, and its children counted.
// There is no cut-off. The metric is ns per node, SHA-1 included.
//
// A message fits into one block of SHA-1, and each language calls its function for a
// block: package sha1node, the crate's compress, OpenSSL's SHA1_Transform. With buffers
// around the block Go took twice as long as Rust, and the case compared the buffers.
// log(1-p), which is the same for all nodes, is computed once per tree.

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/bench/internal/sha1node"
	"github.com/seed53057037/heist/pool"
)

func geometricCase() runner.Case {
	tree := func(env runner.Env) *utsTree {
		if env.Tiny {
			return &utsTree{seed: 19, b: 4, depth: 4, nodes: 944, deepest: 4}
		}
		return &utsTree{seed: 19, b: 4, depth: 10, nodes: 4130071, deepest: 10}
	}
	short := func(env runner.Env) *utsTree {
		if env.Tiny {
			return tree(env)
		}
		return &utsTree{seed: 19, b: 4, depth: 7, nodes: 63914}
	}
	return utsCase("uts-t1", "geometric", "is cut off at depth 7", tree, short)
}

func binomialCase() runner.Case {
	tree := func(env runner.Env) *utsTree {
		if env.Tiny {
			return &utsTree{seed: 42, b: 20, q: 0.124875, m: 8, nodes: 6213, deepest: 67}
		}
		return &utsTree{seed: 42, b: 2000, q: 0.124875, m: 8, nodes: 4112897, deepest: 1572}
	}
	short := func(env runner.Env) *utsTree {
		if env.Tiny {
			return tree(env)
		}
		return &utsTree{seed: 42, b: 100, q: 0.124875, m: 8, nodes: 6797}
	}
	return utsCase("uts-t3", "binomial", "has 100 children at the root", tree, short)
}

// utsNotes says what SHA-1 the others use.
var utsNotes = map[string]string{
	"rayon":        "has the SHA-1 block of the crate sha1, heist that of Go: the ratio is also one of the two",
	"tbb":          "has the SHA-1 block of OpenSSL, heist that of Go: the ratio is also one of the two",
	"forkjoinpool": "has the JDK's SHA-1, which offers no single block: its digests are copied and allocated",
}

// utsCase is a case with the given tree. Goroutines count a shorter one.
func utsCase(name, kind, shortened string, tree, short func(runner.Env) *utsTree) runner.Case {
	tree = once(tree)
	goroutine := utsOff("goroutine", short, (*utsTree).goroutines)
	goroutine.Note = fmt.Sprintf("counts a tree that %s, the whole would take seconds; the figure is per node", shortened)
	others := foreign("ns/node")
	for i := range others {
		others[i].Note = utsNotes[others[i].Name]
	}
	on := func(name string, counter func(*utsTree) func(*pool.Worker, family) int, watch bool) runner.Impl {
		return forked(name, time.Nanosecond, func(env runner.Env) (job[int], func(*pool.Worker) int) {
			t := tree(env)
			j := t.job()
			if watch {
				j.watch = t.steals
			}
			count := counter(t)
			return j, func(w *pool.Worker) int { return 1 + count(w, t.root()) }
		})
	}
	return runner.Case{
		Name:    name,
		About:   fmt.Sprintf("count a %s tree of 4.1 million nodes, every child is a SHA-1 digest and a fork; time per node", kind),
		Metrics: lower("ns/node"),
		Workers: oneAndAsked,
		Impls: append([]runner.Impl{
			on("heist-recursive", (*utsTree).recursive, kind == "binomial"),
			on("heist-join", (*utsTree).joins, false),
			utsOff("serial", tree, (*utsTree).serial),
			goroutine,
		}, others...),
	}
}

func utsOff(name string, tree func(runner.Env) *utsTree, count func(*utsTree, family) int) runner.Impl {
	return called(name, time.Nanosecond, func(env runner.Env) (job[int], func() int) {
		t := tree(env)
		return t.job(), func() int { return 1 + count(t, t.root()) }
	})
}

// utsTree is the definition of a tree: binomial if m is not 0, else geometric.
type utsTree struct {
	seed  uint32
	b     int
	depth int32   // geometric: nodes at this depth have no children
	q     float64 // binomial: the probability of having children
	m     uint32  // binomial: how many children

	nodes   int // the number of nodes
	deepest int // the depth of the deepest node

	took time.Duration // to count it without forks; see steals

	logq float64 // geometric: log(1-p), which root computes
}

// steals relates a lap to the bounds for work stealing. T1 is the time without forks. D is T1 times
// the share of all nodes that lie on the longest way from the root; the forks between two nodes of
// the way are not counted.
func (t *utsTree) steals(p *pool.Pool) func() (string, []runner.Extra) {
	if t.took == 0 {
		start := time.Now()
		runtime.KeepAlive(t.serial(t.root())) // so that the compiler keeps the call
		t.took = time.Since(start)
	}
	report := boundsOf(p)
	return func() (string, []runner.Extra) {
		return report(t.took, t.took*time.Duration(t.deepest)/time.Duration(t.nodes))
	}
}

func (t *utsTree) job() job[int] { return adding("the nodes of the tree", t.nodes, t.nodes) }

// family is some of the children of a node. It is a fork's argument, by value, as in the
// other languages. Go keeps a struct of up to four fields and 32 bytes in registers; with
// six loose fields family was copied in memory, and the case took twice as long.
type family struct {
	id01, id23 uint64 // of the parent
	parent     parent
	children   children
}

type parent struct {
	id4   uint32
	depth int32
}

type children struct{ lo, hi uint32 }

func (f family) size() uint32 { return f.children.hi - f.children.lo }

func (t *utsTree) root() family {
	var origin [20]byte
	binary.BigEndian.PutUint32(origin[16:], t.seed)
	t.logq = math.Log(1 - 1/(1+float64(t.b)))
	return t.family(sha1node.Sum(origin[:]), 0)
}

// child returns the family of the first child, which is empty if it has no children.
func (t *utsTree) child(f family) family {
	id := sha1node.Digest{A: f.id01, B: f.id23, C: f.parent.id4}
	return t.family(id.Child(f.children.lo), f.parent.depth+1)
}

// family returns all children of a node.
func (t *utsTree) family(id sha1node.Digest, depth int32) family {
	return family{id.A, id.B, parent{id.C, depth}, children{0, t.children(id.C, depth)}}
}

// children is the number of a node's children.
func (t *utsTree) children(id4 uint32, depth int32) uint32 {
	const most = 100
	u := float64(id4&math.MaxInt32) / (1 << 31)
	switch {
	case t.m == 0 && depth >= t.depth:
		return 0
	case t.m == 0:
		return uint32(min(most, math.Floor(math.Log(1-u)/t.logq)))
	case depth == 0:
		return uint32(t.b)
	case u < t.q:
		return t.m
	}
	return 0
}

// halve splits a family of several children.
func (f family) halve() (lower, upper family) {
	lower, upper = f, f
	middle := f.children.lo + f.size()/2
	lower.children.hi, upper.children.lo = middle, middle
	return lower, upper
}

func (t *utsTree) serial(f family) int {
	nodes := 0
	for ; f.size() > 0; f.children.lo++ {
		nodes += 1 + t.serial(t.child(f))
	}
	return nodes
}

func (t *utsTree) recursive() func(*pool.Worker, family) int {
	var count func(on *pool.Fork[family, int], f family) int
	count = func(on *pool.Fork[family, int], f family) int {
		switch f.size() {
		case 0:
			return 0
		case 1:
			return 1 + count(on, t.child(f))
		}
		x, y := on.Join(f.halve())
		return x + y
	}
	return pool.Recursive(count).Call
}

func (t *utsTree) joins() func(*pool.Worker, family) int {
	var count func(w *pool.Worker, f family) int
	count = func(w *pool.Worker, f family) int {
		switch f.size() {
		case 0:
			return 0
		case 1:
			return 1 + count(w, t.child(f))
		}
		lower, upper := f.halve()
		x, y := pool.Join(w, count, lower, count, upper)
		return x + y
	}
	return count
}

func (t *utsTree) goroutines(f family) int {
	switch f.size() {
	case 0:
		return 0
	case 1:
		return 1 + t.goroutines(t.child(f))
	}
	lower, upper := f.halve()
	var x, y int
	both(func() { x = t.goroutines(lower) }, func() { y = t.goroutines(upper) })
	return x + y
}
