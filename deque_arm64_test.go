//go:build gc && !purego && !race

package heist

import "testing"

func init() {
	assemblyRows = []implementation{dequeRow("assembly, LL/SC", "arm64 ll/sc", withLSE(false))}
	if hasLSE {
		assemblyRows = append(assemblyRows, dequeRow("assembly, LSE", "arm64 lse", withLSE(true)))
	}
}

func withLSE(use bool) func(testing.TB) {
	return func(t testing.TB) {
		before := hasLSE
		hasLSE = use
		t.Cleanup(func() { hasLSE = before })
	}
}
