package c2c

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/numa"
)

// Tier is the pairs of CPUs that are equally close.
type Tier struct {
	Name  string // of the case in the contract's lines
	About string
	Pairs []Pair
}

// The tiers by name, the closest first.
const (
	sameCore = iota
	sameL3
	sameNode
	remote
)

// Tiers sorts the pairs of these CPUs of t by what the two have in common, the closest first.
// It always returns the same tiers; a tier that the machine lacks has no pairs.
func Tiers(t *numa.Topology, cpus numa.Set) []Tier {
	tiers := []Tier{
		sameCore: {Name: "same-core", About: "a cache line's way between the hardware threads of a core"},
		sameL3:   {Name: "same-l3", About: "a cache line's way between cores that share an L3"},
		sameNode: {Name: "same-node", About: "a cache line's way between cores of a node or package that share no L3"},
		remote:   {Name: "remote", About: "a cache line's way between cores of different nodes and packages"},
	}
	places := make(map[int]numa.CPU)
	for _, cpu := range t.CPUs {
		places[cpu.ID] = cpu
	}
	for i, a := range cpus {
		for _, b := range cpus[i+1:] {
			tier := &tiers[tierOf(places[a], places[b])]
			tier.Pairs = append(tier.Pairs, Pair{a, b})
		}
	}
	return tiers
}

func tierOf(a, b numa.CPU) int {
	same := func(x, y int) bool { return x >= 0 && x == y }
	switch {
	case same(a.Core, b.Core):
		return sameCore
	case same(a.L3, b.L3):
		return sameL3
	case same(a.Node, b.Node), same(a.Package, b.Package):
		return sameNode
	}
	return remote
}

// Some returns the tier with at most n of its pairs, evenly spread.
func (t Tier) Some(n int) Tier {
	all := t.Pairs
	if len(all) <= n {
		return t
	}
	t.Pairs = make([]Pair, n)
	for i := range t.Pairs {
		t.Pairs[i] = all[i*len(all)/n]
	}
	return t
}

// Measure measures each pair once, one after the other, for about d in all, and returns
// their medians, in nanoseconds one way. See [Pair.Measure].
func (t Tier) Measure(d time.Duration) ([]float64, error) {
	ways := make([]float64, len(t.Pairs))
	for i, pair := range t.Pairs {
		way, err := pair.Measure(d / time.Duration(len(t.Pairs)))
		if err != nil {
			return nil, err
		}
		ways[i] = way.Median
	}
	return ways, nil
}

// Choose reads a list of CPUs in the kernel's format. Without a list it chooses all CPUs that
// the process may use. A list that is empty or names other CPUs is an error.
func Choose(t *numa.Topology, list string, given bool) (numa.Set, error) {
	if !given {
		return t.Allowed, nil
	}
	cpus, err := numa.ParseSet(list)
	if err != nil {
		return nil, err
	}
	if len(cpus) == 0 {
		return nil, fmt.Errorf("there is no CPU in the list %q; this process may use %v", list, t.Allowed)
	}
	for _, cpu := range cpus {
		if !t.Allowed.Contains(cpu) {
			return nil, fmt.Errorf("CPU %d is not there for this process; it may use %v", cpu, t.Allowed)
		}
	}
	return cpus, nil
}

// Sweep is what was measured between some CPUs.
type Sweep struct {
	CPUs  numa.Set
	Tiers []Tier // only those with pairs

	ways map[Pair][]float64 // nanoseconds, one for each round
}

// Run measures all pairs of the CPUs in turn, in so many rounds of about d each. So a
// disturbance of the machine spoils one round of many pairs, not all rounds of one. A pair
// takes a good part of a millisecond however short d is, and 256 CPUs have 32640 pairs.
func Run(t *numa.Topology, cpus numa.Set, rounds int, d time.Duration) (*Sweep, error) {
	s := &Sweep{CPUs: cpus, ways: make(map[Pair][]float64)}
	pairs := len(cpus) * (len(cpus) - 1) / 2
	for _, tier := range Tiers(t, cpus) {
		if len(tier.Pairs) > 0 {
			s.Tiers = append(s.Tiers, tier)
		}
	}
	for range rounds {
		for _, tier := range s.Tiers {
			share := d * time.Duration(len(tier.Pairs)) / time.Duration(pairs)
			if err := s.measure(tier, share); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// glancePairs is the most pairs of a tier for Sample, and glanceRounds how often it measures.
const glancePairs, glanceRounds = 16, 5

// Sample returns the sweep of some pairs of each tier, in rounds of about d each. See [Run] for the least that they take.
func Sample(t *numa.Topology, d time.Duration) (*Sweep, error) {
	s := &Sweep{CPUs: t.Allowed, ways: make(map[Pair][]float64)}
	for _, tier := range Tiers(t, t.Allowed) {
		if len(tier.Pairs) > 0 {
			s.Tiers = append(s.Tiers, tier.Some(glancePairs))
		}
	}
	for range glanceRounds {
		for _, tier := range s.Tiers {
			if err := s.measure(tier, d); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// Glance returns the median way between CPUs of the topology, of some pairs of each tier; 0 where there is none, or where threads
// cannot be bound.
func Glance(t *numa.Topology, d time.Duration) float64 {
	s, err := Sample(t, d)
	if err != nil || len(s.Tiers) == 0 {
		return 0
	}
	return contract.Summarise(slices.Concat(slices.Collect(maps.Values(s.ways))...)).Median
}

// measure adds a round of a tier's pairs, which takes about d.
func (s *Sweep) measure(tier Tier, d time.Duration) error {
	ways, err := tier.Measure(d)
	for i, way := range ways {
		s.ways[tier.Pairs[i]] = append(s.ways[tier.Pairs[i]], way)
	}
	return err
}

// Between returns the way from one CPU to another: the median of the rounds, the least and
// the greatest. It is the same in both directions, and 0 from a CPU to itself.
func (s *Sweep) Between(a, b int) contract.Spread {
	if a == b {
		return contract.Spread{}
	}
	return contract.Summarise(s.ways[Pair{min(a, b), max(a, b)}])
}

// Lines returns a line of the contract for each tier. Each round has a median over the tier's
// pairs; the line gives the median, the least and the greatest of those.
func (s *Sweep) Lines() []contract.Line {
	var lines []contract.Line
	for _, tier := range s.Tiers {
		lines = append(lines, contract.Line{
			Suite: "c2c", Case: tier.Name, Impl: "heist", Workers: 2, Metric: "ns", Better: contract.Lower,
		}.Over(s.rounds(tier)))
	}
	return lines
}

// rounds returns the median over the tier's pairs in each round.
func (s *Sweep) rounds(tier Tier) []float64 {
	medians := make([]float64, len(s.ways[tier.Pairs[0]]))
	for round := range medians {
		var ways []float64
		for _, pair := range tier.Pairs {
			ways = append(ways, s.ways[pair][round])
		}
		medians[round] = contract.Summarise(ways).Median
	}
	return medians
}

// Matrix is the ways between CPUs as files keep them.
type Matrix struct {
	CPUs []int `json:"cpus"`

	// NS has a row for each of CPUs, with the nanoseconds of one way to each of CPUs in the
	// same order; 0 to itself.
	NS [][]float64 `json:"ns"`
}

// Write writes the matrix as a line of JSON.
func (m Matrix) Write(w io.Writer) error { return json.NewEncoder(w).Encode(m) }

// Matrix returns the medians, to a tenth of a nanosecond.
func (s *Sweep) Matrix() Matrix {
	m := Matrix{CPUs: slices.Clone(s.CPUs), NS: make([][]float64, len(s.CPUs))}
	for i, from := range s.CPUs {
		for _, to := range s.CPUs {
			m.NS[i] = append(m.NS[i], math.Round(10*s.Between(from, to).Median)/10)
		}
	}
	return m
}
