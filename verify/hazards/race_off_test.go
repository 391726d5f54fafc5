//go:build !race

package hazards

const underRace = false
