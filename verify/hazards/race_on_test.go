//go:build race

package hazards

// underRace is whether the race detector watches, which makes atomics some ten
// times slower.
const underRace = true
