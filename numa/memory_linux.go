package numa

import (
	"fmt"
	"math/bits"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxNodes is the most nodes that Linux can be built for (NODES_SHIFT is 10 at most). A mask
// longer than the kernel's costs nothing.
const maxNodes = 1024

// A nodeMask is a set of nodes in the kernel's layout.
type nodeMask [maxNodes / bits.UintSize]uintptr

func (m *nodeMask) set(node int) { m[node/bits.UintSize] |= 1 << (node % bits.UintSize) }

func (m *nodeMask) nodes() []int {
	var nodes []int
	for i, word := range m {
		for ; word != 0; word &= word - 1 {
			nodes = append(nodes, i*bits.UintSize+bits.TrailingZeros(uint(word)))
		}
	}
	return nodes
}

// The kernel subtracts one from the number of bits that it is given.
const maskBits = maxNodes + 1

// refusal explains the errors of the system calls that map and place memory.
func refusal(call string, err error) error {
	wrapped := os.NewSyscallError(call, err)
	switch err {
	case unix.ENOSYS:
		return fmt.Errorf("%w: %w (the kernel is built without CONFIG_NUMA, or a sandbox does not have the call)", ErrMemoryPolicy, wrapped)
	case unix.EPERM:
		return fmt.Errorf("%w: %w (a seccomp profile forbids it; a container needs the capability SYS_NICE or another profile)", ErrMemoryPolicy, wrapped)
	case unix.EIO:
		return fmt.Errorf("%w (some pages stayed where they were: the nodes are full, or the pages are locked for a device or shared with a child process)", wrapped)
	case unix.EINVAL:
		return fmt.Errorf("%w (the kernel does not know what was asked for, or the nodes have just lost their memory)", wrapped)
	case unix.ENOMEM:
		return fmt.Errorf("%w (ask for less, or look at ulimit -v, vm.overcommit_memory and vm.max_map_count)", wrapped)
	}
	return wrapped
}

// getMempolicy returns the mode and nodes that the flags ask for.
func getMempolicy(addr uintptr, flags int) (mode int32, mask nodeMask, err error) {
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(&mask)), maskBits, addr, uintptr(flags), 0)
	if errno != 0 {
		return 0, mask, refusal("get_mempolicy", errno)
	}
	return mode, mask, nil
}

func allowedNodes() ([]int, error) {
	_, mask, err := getMempolicy(0, unix.MPOL_F_MEMS_ALLOWED)
	return mask.nodes(), err
}

func mapPages(n int) ([]byte, error) {
	if n == 0 {
		return []byte{}, nil
	}
	memory, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	return memory, refusal("mmap", err)
}

func unmapPages(memory []byte) error {
	if len(memory) == 0 {
		return nil
	}
	return refusal("munmap", unix.Munmap(memory))
}

func adviseHugePages(memory []byte) error {
	if len(memory) == 0 {
		return nil
	}
	return refusal("madvise", unix.Madvise(memory, unix.MADV_HUGEPAGE))
}

// kernelModes lacks modeBlocks, which is made of binds.
var kernelModes = [...]uintptr{
	modeDefault:    unix.MPOL_DEFAULT,
	modeLocal:      unix.MPOL_LOCAL,
	modeBind:       unix.MPOL_BIND,
	modePrefer:     unix.MPOL_PREFERRED,
	modeInterleave: unix.MPOL_INTERLEAVE,
}

func setPolicy(memory []byte, p Policy) error { return mbind(memory, p, 0) }

func movePages(memory []byte, p Policy) error {
	return mbind(memory, p, unix.MPOL_MF_MOVE|unix.MPOL_MF_STRICT)
}

func mbind(memory []byte, p Policy, flags uintptr) error {
	var mask nodeMask
	for _, node := range p.nodes {
		mask.set(node)
	}
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&memory[0])), uintptr(len(memory)), kernelModes[p.mode], uintptr(unsafe.Pointer(&mask)), maskBits, flags)
	if errno != 0 {
		return refusal("mbind", errno)
	}
	return nil
}

// nodesOfPages returns the nodes of n pages, with -1 for those without memory of their own.
func nodesOfPages(first uintptr, n int) ([]int, error) {
	const pagesPerCall = 4096 // whose addresses and answers take 48 kB
	nodes := make([]int, 0, n)
	pages := make([]uintptr, min(n, pagesPerCall))
	status := make([]int32, len(pages))
	for len(nodes) < n {
		pages = pages[:min(len(pages), n-len(nodes))]
		for i := range pages {
			pages[i] = first + uintptr(len(nodes)+i)*uintptr(pageSize)
		}
		// Without target nodes, move_pages reports where the pages are.
		_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(len(pages)), uintptr(unsafe.Pointer(&pages[0])), 0, uintptr(unsafe.Pointer(&status[0])), 0)
		if errno != 0 {
			return nil, refusal("move_pages", errno)
		}
		for i := range pages {
			node, err := nodeOfStatus(status[i])
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// nodeOfStatus reads an answer of move_pages: a node, or a negative error number.
func nodeOfStatus(status int32) (node int, err error) {
	if status >= 0 {
		return int(status), nil
	}
	// EFAULT means the kernel's page of zeros, which most kernels let pages share that were only read.
	if errno := unix.Errno(-status); errno != unix.ENOENT && errno != unix.EFAULT {
		return -1, refusal("move_pages", errno)
	}
	return -1, nil
}
