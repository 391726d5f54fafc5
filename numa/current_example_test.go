package numa_test

import (
	"fmt"

	"github.com/seed53057037/heist/numa"
)

// Counters of which each CPU has its own, so that threads seldom meet. The hint may be out of
// date when it is used, so real counters are atomic all the same.
func ExampleCurrentCPU() {
	counters := make([]int, 64)
	cpu := max(numa.CurrentCPU(), 0) // unknown is as good as any
	counters[cpu%len(counters)]++
}

func ExampleCurrent() {
	if cpu, node := numa.Current(); cpu >= 0 {
		fmt.Printf("was on CPU %d of node %d\n", cpu, node)
	}
}
