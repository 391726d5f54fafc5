//go:build gc && !purego && !race

package heist

import "github.com/klauspost/cpuid/v2"

// hasLSE selects the CAS instructions of LSE over pairs of exclusive loads and stores
// in the assembly. It is written once, here.
var hasLSE = cpuid.CPU.Supports(cpuid.ATOMICS)
