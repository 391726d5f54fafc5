//go:build gc && !purego

package sha1node

import "github.com/klauspost/cpuid/v2"

// accelerated says whether the CPU has the instructions for SHA-1. Such a CPU has SSSE3
// and SSE4.1, too.
var accelerated = cpuid.CPU.Supports(cpuid.SHA, cpuid.SSSE3, cpuid.SSE4)

func childSHA(a, b uint64, c, index uint32) (x, y uint64, z uint32)
