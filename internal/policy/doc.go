// Package policy holds a scheduler's decisions: which victims to steal from and in which
// order, how long to look, when to go to sleep and which place to wake. It has no queues,
// no threads and no clock, so package pool and the simulation of large machines (bench
// sim) run the same code.
//
//	bitmap.go  a set of sleepers
//	sleep.go   which places sleep and how many workers search; the protocol is in internal/core/sleep.md
//	order.go   the places in tiers, nearest first
//	search.go  one worker's search: victims and pauses
//	pace.go    how long the chunks of a loop are
package policy
