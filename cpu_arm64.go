//go:build gc && !purego && !race

package heist

import "github.com/klauspost/cpuid/v2"

// hasLSE selects CASAL over LDAXR/STLXR in the assembly. It is written once, here.
var hasLSE = cpuid.CPU.Supports(cpuid.ATOMICS)
