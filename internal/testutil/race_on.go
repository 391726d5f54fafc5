//go:build race

package testutil

// UnderRace reports whether the race detector is on.
const UnderRace = true
