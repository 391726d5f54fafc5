//go:build gc && !purego

package numa

import (
	"sync/atomic"

	"github.com/klauspost/cpuid/v2"
)

// Linux keeps node<<12 | CPU in each CPU's register TSC_AUX, which programs read with RDPID or
// RDTSCP. That these instructions exist does not mean that the register is right: a hypervisor
// may lose what the kernel wrote, or show the number of its own CPU, and a sandbox may number
// the CPUs in its own way. So a number is believed only after the kernel, asked at the same
// moment, has given the same answer once. If the kernel gives another answer, the register is
// not used again.
//
// Zero needs more than that. It means CPU 0 of node 0, but a register that was never written is
// zero, too, and on CPU 0 it agrees with the kernel by accident. Zero is believed once another
// number has been right, because that number must have been written. Until then, which is
// always for a process that stays on CPU 0, one zero in zerosOnTrust is compared with the
// kernel. So a register that was never written misleads a process by a few answers in its life.
//
// Three alternatives were rejected. Comparing once when the process starts: that often happens
// on CPU 0. Moving a thread to another CPU to compare: that takes as long as a real-time
// process that runs there likes. Reading the limit of the segment 0x7b (LSL), as the kernel's
// own vDSO does without RDPID: the limit is never zero by accident and takes 14 ns where RDTSCP
// takes 22 and RDPID 4, but no CPUID bit announces it, and emulators that translate amd64
// programs end them at a LSL.

// A register is what is known about the TSC_AUX of this machine's CPUs.
type register struct {
	lies  atomic.Bool
	zeros atomic.Uint32               // reads of 0 before 0 was believed
	right [auxCPUs / 64]atomic.Uint64 // a bit for each CPU whose number was right
}

// auxCPUs is how many CPU numbers fit into TSC_AUX. The highest bits of a larger number run
// into the node, so that the comparison finds it wrong.
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

// zerosOnTrust: of so many zeros that are not yet believed, one is compared and the others are
// returned on trust. The system call takes some 200 ns, so it adds 3 ns to each.
const zerosOnTrust = 64

// doubt returns the caller's CPU and node when v, which was just read, is not yet believed: the
// kernel's answer, or v itself for most of the zeros.
//
//go:noinline
func (r *register) doubt(v uint32, read func() uint32, ask func() (cpu, node int)) (cpu, node int) {
	if v == 0 && r.zeros.Add(1)%zerosOnTrust != 1 {
		return 0, 0
	}
	return r.compare(read, ask)
}

// compare returns the kernel's answer, and records whether the register gives the same one.
func (r *register) compare(read func() uint32, ask func() (cpu, node int)) (cpu, node int) {
	// The thread can be moved between reading and asking, and even back before it reads again.
	// Hardly anything but a wrong register makes every try fail.
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
