package sim

import "github.com/seed53057037/heist/internal/policy"

// The costs of all steps, in nanoseconds.
//
//	sameCore, sameCache, sameNode, perDistance
//	        The way of a changed cache line. Published one-way latencies: 23 within an L3,
//	        107 between two L3s of a package (EPYC 7R13, Milan), 51 within a package (Xeon
//	        Platinum 8375C), 115 as the median over a package (EPYC 7773X), all from
//	        nviennot/core-to-core-latency; 16 to 20 between threads of a core (Core
//	        i9-7900X). Between nodes it is 80 times the distance over 10: 96 at distance
//	        12, 168 at 21, 256 at 32.
//	hit     A victim that has not changed since the last look: its lines are in the L2, 14
//	        cycles, and the loads overlap. A step of the loop over victims takes as long.
//	rmw     An atomic change of a line in the CPU's cache: 2.2 for XCHG, 2.3 for CAS on an
//	        EPYC 9004.
//	fork    A private fork and its join: 1.9 over the call, measured with fib(35).
//	yield   sched_yield with no other thread to run, with the Go runtime around it.
//	        Assumption.
//	park    The futex call of a thread that goes to sleep, until the CPU is idle. Assumption.
//	waker   The futex call of the waker: 5 us, measured on the same EPYC.
//	woken   From the waker's call until the woken worker runs: 3.7 us at the median there.
//	deep    The same after deepAfter of sleep, when the core sleeps deeply. Assumption.
//	handOver
//	        From one goroutine to another one on the same CPU that waits in the Go runtime
//	        meanwhile. Assumption: a switch of goroutines.
//	ready   Making a goroutine run that waits in the Go runtime, if its CPU is awake.
//	        Assumption. If its CPU sleeps, this takes waker.
//	overlap Cache lines of a task's data that are on their way at the same time. Assumption:
//	        fewer than a core can wait for.
const (
	sameCore    = 15
	sameCache   = 40
	sameNode    = 80
	perDistance = 8

	hit  = 4
	rmw  = 5
	fork = 2

	yield     = 1_000
	park      = 1_000
	waker     = 5_000
	woken     = 3_700
	deep      = 30_000
	deepAfter = 200_000

	handOver = 300
	ready    = 500

	overlap = 8
)

// line returns how long a cache line takes over a distance of package policy.
func line(distance int) int64 {
	switch distance {
	case policy.SameCore:
		return sameCore
	case policy.SameCache:
		return sameCache
	case policy.SameNode:
		return sameNode
	}
	return perDistance * int64(distance)
}

// fetch returns how long a task's data take: so many lines, of which each takes so long.
func fetch(lines int, each int64) int64 {
	return int64(lines+overlap-1) / overlap * each
}
