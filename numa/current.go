package numa

// CurrentCPU returns the CPU that the caller runs on at this moment, by the system's
// number, or -1 where the system does not tell. It is a hint: unless its thread is
// pinned, see [heist.Pin], the caller may run on another CPU before it has read the
// answer.
//
// Anybody may call it. Cost: on Linux on amd64, where a register holds the number, 8 ns, and
// 14 ns as long as the process has been on no other CPU than 0; 20 ns more on CPUs that have
// RDTSCP but not RDPID, such as Intel's servers before 2021. On other Linux systems, in
// purego builds, and where the register has been found to lie, a system call of 100 to
// 200 ns. On systems other than Linux it is always -1.
func CurrentCPU() int {
	cpu, _ := current()
	return cpu
}

// Current is [CurrentCPU] with the CPU's memory node, by the system's number, which is a
// [Node]'s ID and not an index into [Topology].Nodes. Both are of the same moment, and
// both -1 where the system does not tell.
func Current() (cpu, node int) { return current() }
