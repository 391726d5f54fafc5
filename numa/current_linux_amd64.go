//go:build gc && !purego

package numa

import (
	"sync/atomic"

	"github.com/klauspost/cpuid/v2"
)

// Linux keeps node<<12 | CPU in each CPU's register TSC_AUX, which programs read with
// RDPID or RDTSCP. That these instructions exist does not mean that the register tells
// the truth: a hypervisor may lose what the kernel wrote, or show its own CPU's, and a
// sandbox may number the CPUs in its own way. So a number is believed only after the
// kernel, asked at the same moment, once gave the same answer. If it gives another, the
// register is not used again.
//
// Zero needs more than that. It is CPU 0 of node 0, and also what a register holds that
// nobody has written: on CPU 0 the two agree by accident. It is believed once another
// number has been right, for that must have been written. Until then, which is always for a
// process that stays on CPU 0, every so many zeros are compared with the kernel. So a
// register that was never written misleads a process by a few answers in its life.
//
// What was not done: to compare once when the process starts, which happens on CPU 0 often
// enough; to move a thread to another CPU for it, which takes as long as a real-time
// process that runs there likes. The limit of the segment 0x7b (LSL), which is where the
// kernel's own vDSO looks without RDPID, is never zero by accident and takes 14 ns where RDTSCP
// takes 22 and RDPID 4; but no CPUID bit announces it, and emulators that translate amd64
// programs end them at a LSL.

// A register is what is known about the TSC_AUX of this machine's CPUs.
type register struct {
	lies  atomic.Bool
	zeros atomic.Uint32               // how often it was 0 before that was believed
	right [auxCPUs / 64]atomic.Uint64 // a bit for each CPU whose number was right
}

// auxCPUs is how many CPUs have a place in TSC_AUX. Of a larger number the highest bits run
// into the node, so that it is found to be wrong.
const auxCPUs = 1 << 12

func splitAux(v uint32) (cpu, node int) { return int(v % auxCPUs), int(v / auxCPUs) }

var (
	useRDPID = hasRDPID()
	tscAux   = newRegister(useRDPID || cpuid.CPU.Supports(cpuid.RDTSCP))
)

func newRegister(exists bool) *register {
	r := new(register)
	r.lies.Store(!exists)
	return r
}

func current() (cpu, node int) {
	if tscAux.lies.Load() {
		return getcpu()
	}
	v := readAux()
	if tscAux.wasRight(v) {
		return splitAux(v)
	}
	return tscAux.doubt(v, readAux, getcpu)
}

func readAux() uint32 {
	if useRDPID {
		return rdpid()
	}
	return rdtscp()
}

func (r *register) wasRight(v uint32) bool {
	return r.right[v%auxCPUs/64].Load()&(1<<(v%64)) != 0
}

func (r *register) believe(cpu int) { r.right[cpu/64].Or(1 << (cpu % 64)) }

// zerosOnTrust is how many zeros that are not yet believed go with one that is compared. The
// system call takes some 200 ns, so that it adds 3 ns to each.
const zerosOnTrust = 64

// doubt returns where the caller is when v, which was just read, is not yet believed: what the
// kernel says, except for most of the zeros.
//
//go:noinline
func (r *register) doubt(v uint32, read func() uint32, ask func() (cpu, node int)) (cpu, node int) {
	if v == 0 && r.zeros.Add(1)%zerosOnTrust != 1 {
		return 0, 0
	}
	return r.compare(read, ask)
}

// compare returns what the kernel says, and takes notice of whether the register says the
// same.
func (r *register) compare(read func() uint32, ask func() (cpu, node int)) (cpu, node int) {
	// The thread can be moved between reading and asking, and even be back to read again.
	// Hardly anything but a lie makes every try fail.
	const tries = 4
	for range tries {
		before := read()
		cpu, node = ask()
		if cpu < 0 || read() != before {
			return cpu, node // nothing to compare with
		}
		if c, n := splitAux(before); c == cpu && n == node {
			if before != 0 {
				r.believe(cpu)
				r.believe(0)
			}
			return cpu, node
		}
	}
	r.lies.Store(true)
	return cpu, node
}

// hasRDPID reports whether the CPU has RDPID, by CPUID; the cpuid package does not know it.
func hasRDPID() bool

// rdpid returns TSC_AUX.
func rdpid() uint32

// rdtscp returns TSC_AUX.
func rdtscp() uint32
