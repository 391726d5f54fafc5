// Package soak runs the pool and the queues for a long time, and counts.
//
// A round of the soak is a program: trees of forks, loops, tasks, groups, panics,
// cancellations and more, made from a seed (program.go). It runs on a pool that is resized,
// paused and closed meanwhile (run.go, do.go, loops.go), and is then judged: a serial walk
// through the same program says how often each leaf had to run, and what the results had to
// be (judge.go).
//
//	go test ./verify/soak -run TestSoak -duration=8h
//	go test ./verify/soak -run TestSoak -seed=N -rounds=1    # the program of seed N again
package soak
