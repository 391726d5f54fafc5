// Package policy holds a scheduler's decisions: whom to steal from and in which order, how
// long to look, when to go to sleep and whom to wake. It has no queues, no threads and no
// clock, so package pool and the simulation of large machines (bench sim) run the same
// code.
//
//	bitmap.go  a set of sleepers
//	sleep.go   who sleeps and who searches; the protocol is in pool/sleep.md
//	order.go   the places in tiers, nearest first
//	search.go  one worker's search: victims and pauses
//	pace.go    how long the chunks of a loop are
package policy
