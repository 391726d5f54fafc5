package numa

// CurrentCPU returns the CPU that the caller runs on at this moment, by the system's number,
// or -1 if the system does not say. It is a hint: unless its thread is pinned (see
// [heist.Pin]), the caller may be on another CPU before it has read the answer.
//
// Any goroutine may call it. Cost: on Linux on amd64, where the kernel's vDSO tells, 23 ns
// (a Zen 5 whose hypervisor hides RDPID, so that the vDSO reads a segment's limit); on other
// Linux systems, in purego builds, and where there is no vDSO, a system call of 100 to 1,200 ns.
// On systems other than Linux the result is always -1.
func CurrentCPU() int {
	cpu, _ := current()
	return cpu
}

// Current is [CurrentCPU] and also returns the CPU's memory node, by the system's number,
// which is a [Node]'s ID and not an index into [Topology].Nodes. Both are from the same
// moment, and both are -1 if the system does not say.
func Current() (cpu, node int) { return current() }
