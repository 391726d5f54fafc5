//go:build !linux

package pool

// quota would say how many CPUs the process may use on average.
func quota() string { return "not known" }

// onlineCPUs would say how many CPUs the machine has online.
func onlineCPUs() int { return 0 }
