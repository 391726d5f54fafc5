package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/numa"
)

// VictimOrder says in which order thieves go through the other workers, see
// [WithVictimOrder]: [ByTopology], [Uniform], or what [ReadLatencies] returns.
type VictimOrder struct {
	kind   orderKind
	levels map[[2]int]int // by measurement: how far apart two CPUs are

	uniform  *float64 // nil for the default
	patience int
}

type orderKind int

const (
	orderByTopology orderKind = iota
	orderUniform
	orderByLatency
)

// ByTopology begins with workers on the same core, then come those under the same L3 cache,
// those on the same package or node, and then other nodes by their distance. Within a tier
// it begins at random. It is the default. Workers of which nobody knows where they run
// count as on the same node.
func ByTopology() VictimOrder { return VictimOrder{} }

// Uniform draws each victim independently, and uniformly from all places but the thief's own; nobody is
// preferred, not even who had something the last time. Those for guests are among the places. It is
// the choice for which Blumofe and Leiserson proved their bound on steal attempts. Only the last look
// before a worker sleeps visits every place once.
func Uniform() VictimOrder { return VictimOrder{kind: orderUniform} }

// WithUniformLooks returns the order with the probability, from 0 to 1, with which a thief's look at the other
// workers draws its victims, each uniformly from all others, instead of going from near to far.
// The more such looks there are, the closer the number of steal attempts is to Blumofe and
// Leiserson's bound, and the fewer steals are near. The default is 1/8, see bench sim, and 0 if
// all workers are equally far from one another. With [Uniform] it is always 1.
func (o VictimOrder) WithUniformLooks(probability float64) VictimOrder {
	o.uniform = &probability
	return o
}

// WithPatience returns the order with how many looks a thief takes at the workers on its own node before it
// turns to other nodes. Between two looks it spins, 50 ns at first, and longer each time. On
// a machine with one node it changes nothing. The default is 0.
func (o VictimOrder) WithPatience(looks int) VictimOrder {
	o.patience = looks
	return o
}

// ReadLatencies reads measured latencies between CPUs, as `go run ./bench c2c -matrix FILE`
// writes them, and makes tiers of them: what is at most a quarter slower than the fastest of
// a tier belongs to it. The document has the CPUs' numbers and the nanoseconds that a cache
// line takes from one to the other:
//
//	{"cpus": [0, 1, 2], "ns": [[0, 48, 97], [48, 0, 96], [97, 96, 0]]}
//
// The error says which number is wrong. Workers on CPUs that the document does not name come
// last.
func ReadLatencies(r io.Reader) (VictimOrder, error) {
	var doc struct {
		CPUs []int       `json:"cpus"`
		NS   [][]float64 `json:"ns"`
	}
	if r == nil {
		return VictimOrder{}, errors.New("pool: ReadLatencies was given a nil reader")
	}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return VictimOrder{}, fmt.Errorf("pool: latencies: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return VictimOrder{}, errors.New("pool: latencies: something follows the document; there must be one only")
	}
	if len(doc.CPUs) == 0 {
		return VictimOrder{}, errors.New("pool: latencies: no CPUs; the document must have them as \"cpus\"")
	}
	if len(doc.NS) != len(doc.CPUs) {
		return VictimOrder{}, fmt.Errorf("pool: latencies: %d rows for %d CPUs", len(doc.NS), len(doc.CPUs))
	}
	var all []float64
	for i, row := range doc.NS {
		if slices.Contains(doc.CPUs[:i], doc.CPUs[i]) {
			return VictimOrder{}, fmt.Errorf("pool: latencies: CPU %d is there twice", doc.CPUs[i])
		}
		if len(row) != len(doc.CPUs) {
			return VictimOrder{}, fmt.Errorf("pool: latencies: the row of CPU %d has %d numbers for %d CPUs", doc.CPUs[i], len(row), len(doc.CPUs))
		}
		for j, ns := range row {
			if i == j {
				continue
			}
			if !(ns > 0) {
				return VictimOrder{}, fmt.Errorf("pool: latencies: from CPU %d to CPU %d it is %v ns; it must be above 0", doc.CPUs[i], doc.CPUs[j], ns)
			}
			if ns >= math.MaxInt32 {
				return VictimOrder{}, fmt.Errorf("pool: latencies: from CPU %d to CPU %d it is %v ns; it must be less than two seconds", doc.CPUs[i], doc.CPUs[j], ns)
			}
			all = append(all, ns)
		}
	}
	slices.Sort(all)
	o := VictimOrder{kind: orderByLatency, levels: make(map[[2]int]int)}
	firsts := tiersOf(all)
	for i, row := range doc.NS {
		for j, ns := range row {
			if i != j {
				tier, found := slices.BinarySearch(firsts, ns)
				if !found {
					tier--
				}
				// Even the slowest that was measured comes before what was not.
				o.levels[[2]int{doc.CPUs[i], doc.CPUs[j]}] = int(min(math.Ceil(firsts[tier]*tierRatio), unmeasured-1))
			}
		}
	}
	return o, nil
}

// tierRatio is how much slower the slowest of a tier of latencies is than the fastest: two
// measurements of the same distance differ by less, tiers of real machines by more.
const tierRatio = 1.25

// tiersOf returns the lowest latency of each tier.
func tiersOf(sorted []float64) (firsts []float64) {
	for _, ns := range sorted {
		if len(firsts) == 0 || ns > firsts[len(firsts)-1]*tierRatio {
			firsts = append(firsts, ns)
		}
	}
	return firsts
}

// unmeasured is the distance of a CPU that was not measured.
const unmeasured = math.MaxInt32

// between returns how far apart two sites are.
func (o *VictimOrder) between(t *numa.Topology, a, b *site) int {
	x, y := a.cpus[0], b.cpus[0]
	switch o.kind {
	case orderUniform:
		return policy.SameNode
	case orderByLatency:
		if x == y {
			return policy.SameCore
		}
		if level, ok := o.levels[[2]int{x, y}]; ok {
			return level
		}
		return unmeasured
	}
	return max(policy.Distance(t, x, y), a.width, b.width)
}

// near returns the greatest distance within a node.
func (o *VictimOrder) near(t *numa.Topology, cpus []int) int {
	near := policy.SameNode
	if o.kind != orderByLatency || t == nil {
		return near
	}
	for _, x := range cpus {
		for _, y := range cpus {
			if level, ok := o.levels[[2]int{x, y}]; ok && t.NodeOf(x) == t.NodeOf(y) {
				near = max(near, level)
			}
		}
	}
	return near
}

// name names the tier of a distance.
func (o *VictimOrder) name(distance int) string {
	switch {
	case o.kind == orderUniform:
		return "all"
	case o.kind == orderByLatency && distance == unmeasured:
		return "not measured"
	case o.kind == orderByLatency && distance > policy.SameCore:
		return fmt.Sprintf("up to %d ns", distance)
	case distance == policy.SameCore:
		return "same core"
	case distance == policy.SameCache:
		return "same L3"
	case distance == policy.SameNode:
		return "same node"
	}
	return fmt.Sprintf("nodes at distance %d", distance)
}
