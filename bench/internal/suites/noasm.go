//go:build !((amd64 || arm64) && gc && !purego && !race)

package suites

// assembly says whether heist.Deque is assembly in this build.
const assembly = false
