//go:build gc && !purego && !race

package heist

import "testing"

// implementations has a row for each way in which the assembly does its
// compare-and-swap; a CPU without LSE has only one.
var implementations = armImplementations(hasLSE)

func armImplementations(cpuHasLSE bool) []implementation {
	rows := []implementation{
		dequeRow("assembly, LL/SC", "arm64 ll/sc", withLSE(false)),
		portableRow(),
	}
	if cpuHasLSE {
		rows = append(rows, dequeRow("assembly, LSE", "arm64 lse", withLSE(true)))
	}
	return rows
}

func withLSE(use bool) func(testing.TB) {
	return func(t testing.TB) {
		before := hasLSE
		hasLSE = use
		t.Cleanup(func() { hasLSE = before })
	}
}
