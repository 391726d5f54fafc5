package pool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/numa"
)

// latencies holds the measured distances between CPUs. If it is nil, the topology gives the distances: workers on
// the same core are nearest, then come those under the same L3 cache, those on the same package or node, and then
// other nodes by their distance. Workers whose CPUs are not known count as on the same node.
type latencies map[[2]int]int

// readLatencies reads a document as in [Tuning] and divides its latencies into tiers: a latency that is at most a
// quarter above the lowest of a tier belongs to the tier.
func readLatencies(r io.Reader) (latencies, error) {
	var doc struct {
		CPUs []int       `json:"cpus"`
		NS   [][]float64 `json:"ns"`
	}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("pool: Tuning.Latencies: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("pool: Tuning.Latencies: something follows the document; there must be one only")
	}
	if len(doc.CPUs) == 0 {
		return nil, errors.New("pool: Tuning.Latencies: no CPUs; the document must have them as \"cpus\"")
	}
	if len(doc.NS) != len(doc.CPUs) {
		return nil, fmt.Errorf("pool: Tuning.Latencies: %d rows for %d CPUs", len(doc.NS), len(doc.CPUs))
	}
	var all []float64
	for i, row := range doc.NS {
		if slices.Contains(doc.CPUs[:i], doc.CPUs[i]) {
			return nil, fmt.Errorf("pool: Tuning.Latencies: CPU %d is there twice", doc.CPUs[i])
		}
		if len(row) != len(doc.CPUs) {
			return nil, fmt.Errorf("pool: Tuning.Latencies: the row of CPU %d has %d numbers for %d CPUs", doc.CPUs[i], len(row), len(doc.CPUs))
		}
		for j, ns := range row {
			if i == j {
				continue
			}
			if !(ns > 0) {
				return nil, fmt.Errorf("pool: Tuning.Latencies: from CPU %d to CPU %d it is %v ns; it must be above 0", doc.CPUs[i], doc.CPUs[j], ns)
			}
			if ns >= math.MaxInt32 {
				return nil, fmt.Errorf("pool: Tuning.Latencies: from CPU %d to CPU %d it is %v ns; it must be less than two seconds", doc.CPUs[i], doc.CPUs[j], ns)
			}
			all = append(all, ns)
		}
	}
	slices.Sort(all)
	l := make(latencies)
	firsts := tiersOf(all)
	for i, row := range doc.NS {
		for j, ns := range row {
			if i != j {
				tier, found := slices.BinarySearch(firsts, ns)
				if !found {
					tier--
				}
				// Even the greatest measured distance is below unmeasured.
				l[[2]int{doc.CPUs[i], doc.CPUs[j]}] = int(min(math.Ceil(firsts[tier]*tierRatio), unmeasured-1))
			}
		}
	}
	return l, nil
}

// tierRatio bounds the ratio of the highest latency of a tier to the lowest: two measurements of the same distance
// differ by less, tiers of real machines by more.
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

// between returns how far apart two placements are.
func (l latencies) between(t *numa.Topology, a, b *core.Placement) int {
	x, y := a.CPUs[0], b.CPUs[0]
	if l == nil {
		return max(policy.Distance(t, x, y), a.Width, b.Width)
	}
	if x == y {
		return policy.SameCore
	}
	if level, ok := l[[2]int{x, y}]; ok {
		return level
	}
	return unmeasured
}

// near returns the greatest distance within a node.
func (l latencies) near(t *numa.Topology, cpus []int) int {
	near := policy.SameNode
	if l == nil || t == nil {
		return near
	}
	for _, x := range cpus {
		for _, y := range cpus {
			if level, ok := l[[2]int{x, y}]; ok && t.NodeOf(x) == t.NodeOf(y) {
				near = max(near, level)
			}
		}
	}
	return near
}

// name names the tier of a distance.
func (l latencies) name(distance int) string {
	switch {
	case l != nil && distance == unmeasured:
		return "not measured"
	case l != nil && distance > policy.SameCore:
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
