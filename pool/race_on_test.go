//go:build race

package pool

// underRace is whether the race detector watches, which makes atomics some ten
// times slower.
const underRace = true
