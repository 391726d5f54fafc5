//go:build gc && !purego

package numa

import (
	"debug/elf"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel maps a small library into each process, the vDSO, whose getcpu needs no system call: it reads
// the CPU and the node from a register (RDPID), or else from the limit of a segment (LSL), whichever this
// kernel has set up for this CPU. Go's own clock calls the same library.
//
// Two alternatives were rejected. Reading the register here, by RDPID or RDTSCP: a hypervisor may hide both
// instructions, or lose what the kernel wrote to the register, so that each number had to be compared with
// the kernel's before it was believed. Reading the limit here: no CPUID bit announces it, and emulators that
// translate amd64 programs end them at a LSL; they bring a vDSO of their own, or none.

// vdsoGetcpu is the address of the vDSO's getcpu, or 0. It is set before main, and constant.
var vdsoGetcpu = findGetcpu(unix.Auxv())

func current() (cpu, node int) {
	if vdsoGetcpu == 0 {
		return getcpu()
	}
	c, n := callGetcpu(vdsoGetcpu)
	return int(c), int(n)
}

// callGetcpu calls the C function at fn.
func callGetcpu(fn uintptr) (cpu, node uint32)

func findGetcpu(auxv [][2]uintptr, err error) uintptr {
	const sysinfoEHDR = 33 // AT_SYSINFO_EHDR of <linux/auxvec.h>: where the vDSO begins
	for _, entry := range auxv {
		if entry[0] == sysinfoEHDR && entry[1] != 0 && err == nil {
			return findFunction(entry[1], "__vdso_getcpu")
		}
	}
	return 0
}

// findFunction returns the address of a function of the shared library whose ELF header is at base, or 0. It
// reads what the program headers have mapped. The sections, which elf.NewFile reads, need not be.
func findFunction(base uintptr, name string) uintptr {
	header := element[elf.Header64](base, 0)
	if string(header.Ident[:4]) != elf.ELFMAG || elf.Machine(header.Machine) != elf.EM_X86_64 {
		return 0
	}
	var shift, dynamic uintptr // what is added to the library's addresses; a table
	for i := uint32(header.Phnum); i > 0; i-- {
		switch p := element[elf.Prog64](base+uintptr(header.Phoff), i-1); elf.ProgType(p.Type) {
		case elf.PT_LOAD:
			shift = base + uintptr(p.Off-p.Vaddr) // the first one's counts
		case elf.PT_DYNAMIC:
			dynamic = base + uintptr(p.Off)
		}
	}
	if dynamic == 0 {
		return 0
	}
	tables := make(map[elf.DynTag]uintptr)
	for d := element[elf.Dyn64](dynamic, 0); d.Tag != int64(elf.DT_NULL); d = element[elf.Dyn64](dynamic, 0) {
		tables[elf.DynTag(d.Tag)] = shift + uintptr(d.Val)
		dynamic += unsafe.Sizeof(*d)
	}
	for i := range symbols(tables[elf.DT_HASH], tables[elf.DT_GNU_HASH]) {
		s := element[elf.Sym64](tables[elf.DT_SYMTAB], i)
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && elf.SectionIndex(s.Shndx) != elf.SHN_UNDEF &&
			unix.BytePtrToString(element[byte](tables[elf.DT_STRTAB], s.Name)) == name {
			return shift + uintptr(s.Value)
		}
	}
	return 0
}

// symbols returns how many there are, by one of the two kinds of hash table.
func symbols(hash, gnuHash uintptr) uint32 {
	switch {
	case hash != 0:
		return *element[uint32](hash, 1)
	case gnuHash == 0:
		return 0
	}
	buckets, first, filter := *element[uint32](gnuHash, 0), *element[uint32](gnuHash, 1), *element[uint32](gnuHash, 2)
	lists := gnuHash + 16 + 8*uintptr(filter)
	last := uint32(0)
	for i := range buckets {
		last = max(last, *element[uint32](lists, i))
	}
	for last >= first && *element[uint32](lists, buckets+last-first)&1 == 0 { // a list's end is odd
		last++
	}
	return last + 1
}

// element returns a pointer to element i of a table outside the Go heap.
func element[T any](table uintptr, i uint32) *T {
	table += uintptr(i) * unsafe.Sizeof(*new(T))
	return *(**T)(unsafe.Pointer(&table))
}
