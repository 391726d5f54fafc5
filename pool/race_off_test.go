//go:build !race

package pool

const underRace = false
