//go:build !linux

package numa

import "runtime"

// Read returns a topology of one node with runtime.NumCPU CPUs, and no error:
// this system tells no more. On Linux it reads /sys and /proc; see [ReadRoot].
func Read() (*Topology, error) {
	return oneNode(firstCPUs(runtime.NumCPU())), nil
}
