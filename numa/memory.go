package numa

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/seed53057037/heist"
)

// Memory lies on no node until it is touched. The kernel then takes each page from the node
// that a policy names, by default the node of the thread that touches it. Memory of the Go heap
// is touched by whatever thread comes first, and is used again for something else. So memory
// that must lie on certain nodes is mapped outside of the heap, by Map or NewSlice.
//
// When a policy names several nodes, the kernel silently leaves out those that do not exist. So
// a policy's nodes are looked up before the kernel sees it.

// ErrMemoryPolicy is the error, possibly wrapped, on a system where the process cannot choose
// the nodes of its memory: any system other than Linux, a kernel that is built without
// CONFIG_NUMA, or a sandbox or container that forbids it.
var ErrMemoryPolicy = errors.New("this system does not let the process place memory")

var errClosed = errors.New("the mapping is closed")

// A Policy says on which nodes memory is taken when it is touched for the first time. Nodes are
// given by the system's numbers, as in [Node].ID; [AllowedNodes] lists the usable ones. A
// Policy that names other nodes is refused when it is used.
//
// The zero Policy is the thread's own, which numactl may have set and which otherwise is the
// same as [Local]. It asks nothing of the kernel, so it works everywhere on Linux.
type Policy struct {
	mode  mode
	nodes []int
}

type mode int

const (
	modeDefault mode = iota
	modeLocal
	modeBind
	modePrefer
	modeInterleave
	modeBlocks
)

var modeNames = [...]string{"Policy{}", "Local", "Bind", "Prefer", "Interleave", "Blocks"}

// Local takes each page from the node of the thread that touches it first, or from the next
// node if that one is full. See [Mapping.TouchOn].
func Local() Policy { return Policy{mode: modeLocal} }

// Bind takes memory from the given nodes and no others. When they are full the kernel kills
// processes rather than take memory elsewhere.
func Bind(nodes ...int) Policy { return Policy{modeBind, slices.Clone(nodes)} }

// Prefer takes memory from a node as long as it has some, and then from the next node.
func Prefer(node int) Policy { return Policy{modePrefer, []int{node}} }

// Interleave takes page after page from the given nodes in turn, by ascending number. It
// is for memory that threads of all nodes use alike: no node's memory becomes the
// bottleneck.
func Interleave(nodes ...int) Policy {
	return Policy{modeInterleave, normalize(slices.Clone(nodes))}
}

// Blocks divides the memory into len(nodes) parts, of the same size up to a page, and binds
// part i to nodes[i]. A node may be given several times. Blocks is for memory of which each
// thread uses its own part; see [Slice.Part].
func Blocks(nodes ...int) Policy { return Policy{modeBlocks, slices.Clone(nodes)} }

// String returns the policy as it is written in Go, such as "Bind(0, 2)".
func (p Policy) String() string {
	name := modeNames[p.mode]
	if p.mode == modeDefault {
		return name
	}
	return name + "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(p.nodes), " ", ", "), "[]") + ")"
}

// check reports an error if the process may not use the policy's nodes.
func (p Policy) check() error {
	if p.mode == modeDefault || p.mode == modeLocal {
		return nil
	}
	if len(p.nodes) == 0 {
		return errors.New("it names no node; give at least one, see AllowedNodes")
	}
	allowed, err := allowedNodes()
	if err != nil {
		return err
	}
	for _, node := range p.nodes {
		if !slices.Contains(allowed, node) {
			return fmt.Errorf("node %d is not among the nodes %v that the process may take memory from (those that have some and are in the cpuset of its cgroup)", node, allowed)
		}
	}
	return nil
}

// A run is a stretch of pages with one of the policies that the kernel has.
type run struct {
	from, to int // pages
	policy   Policy
}

// runs divides a number of pages into the runs of the policy.
func (p Policy) runs(pages int) []run {
	if p.mode != modeBlocks {
		return []run{{0, pages, p}}
	}
	runs := make([]run, len(p.nodes))
	for i, node := range p.nodes {
		runs[i] = run{partStart(pages, i, len(p.nodes)), partStart(pages, i+1, len(p.nodes)), Bind(node)}
	}
	return runs
}

// partStart returns the page at which part i begins; with i = parts, the end of the last part.
func partStart(pages, i, parts int) int {
	hi, lo := bits.Mul64(uint64(pages), uint64(i))
	start, _ := bits.Div64(hi, lo, uint64(parts))
	return int(start)
}

// AllowedNodes returns the nodes that the process may take memory from, by ascending number:
// those that have memory and are in its cpuset. It makes a system call. The error wraps
// [ErrMemoryPolicy] where the system does not place memory.
func AllowedNodes() ([]int, error) {
	nodes, err := allowedNodes()
	if err != nil {
		return nil, fmt.Errorf("numa: cannot ask for the nodes: %w", err)
	}
	return nodes, nil
}

var pageSize = os.Getpagesize()

// A Mapping is memory outside of the Go heap, for data without Go pointers, that lies on
// chosen nodes. [NewSlice] gives it a type.
//
// It is zero at first, aligned to a page, and takes space only where it has been touched. The
// garbage collector does not know this memory: it does not count against GOMEMLIMIT, must not
// hold Go pointers, and stays until Close is called. There is no finalizer, on purpose: slices
// of the memory do not keep the Mapping alive, so a finalizer would unmap memory that is still
// in use. The race detector does not watch this memory either.
//
// Any number of goroutines may use the memory and call the methods at the same time, except
// that Close must come after everything else: a goroutine that touches unmapped memory crashes
// the program, or meets what the system has put there since.
type Mapping struct {
	memory []byte // whole pages; nil after Close
	size   int    // the requested number of bytes
}

// Map maps the given number of bytes, which may be 0, with a policy. The policy takes effect
// when the kernel takes the pages, which is when they are touched; see [Mapping.Touch].
//
// The error says which size or node cannot be had and why, and wraps [ErrMemoryPolicy] where
// the process cannot place memory. Nothing is mapped then: the caller decides whether to go on
// without placement, with Policy{} on Linux and with make elsewhere.
func Map(bytes int, p Policy) (*Mapping, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("numa: cannot map %d bytes; the size must not be negative", bytes)
	}
	if bytes > math.MaxInt-pageSize {
		return nil, fmt.Errorf("numa: cannot map %d bytes: more than the address space", bytes)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("numa: cannot map with %v: %w", p, err)
	}
	memory, err := mapPages((bytes + pageSize - 1) / pageSize * pageSize)
	if err != nil {
		return nil, fmt.Errorf("numa: cannot map %d bytes: %w", bytes, err)
	}
	m := &Mapping{memory, bytes}
	if p.mode == modeDefault {
		return m, nil
	}
	if err := m.apply(p, setPolicy); err != nil {
		return nil, errors.Join(fmt.Errorf("numa: cannot map with %v: %w", p, err), m.Close())
	}
	return m, nil
}

// Bytes returns the memory, and nil after Close.
func (m *Mapping) Bytes() []byte { return m.memory[:m.size:m.size] }

// Close unmaps the memory. Slices of it must not be used any more. A second call returns an
// error and does nothing.
func (m *Mapping) Close() error {
	if m.memory == nil {
		return errClosed
	}
	if err := unmapPages(m.memory); err != nil {
		return fmt.Errorf("numa: cannot unmap %d bytes: %w", len(m.memory), err)
	}
	m.memory, m.size = nil, 0
	return nil
}

// SetPolicy gives the memory another policy. Pages that have been touched stay where they
// are; see [Mapping.Move]. With [Blocks], an error can leave some parts with the new
// policy.
func (m *Mapping) SetPolicy(p Policy) error {
	if err := m.change(p, setPolicy); err != nil {
		return fmt.Errorf("numa: cannot set %v: %w", p, err)
	}
	return nil
}

// Move gives the memory another policy, and moves the touched pages to where the policy says.
// The kernel copies each page, and a goroutine that touches it meanwhile waits.
//
// Move accepts [Bind], [Prefer] and [Blocks]. It refuses the other policies, because they do
// not say where a touched page belongs; Blocks with many parts distributes memory as Interleave
// does.
//
// If some pages cannot be moved, because the nodes are full, or because the pages are locked
// for a device or shared with a child process, Move moves the others and returns an error.
func (m *Mapping) Move(p Policy) error {
	switch p.mode {
	case modeDefault, modeLocal, modeInterleave:
		return fmt.Errorf("numa: cannot move to %v: it does not say where touched pages belong; use Bind, Prefer or Blocks, or SetPolicy for the pages to come", p)
	}
	if err := m.change(p, movePages); err != nil {
		return fmt.Errorf("numa: cannot move to %v: %w", p, err)
	}
	return nil
}

func (m *Mapping) change(p Policy, how func(memory []byte, p Policy) error) error {
	if m.memory == nil {
		return errClosed
	}
	if err := p.check(); err != nil {
		return err
	}
	return m.apply(p, how)
}

// apply calls how for each run of p, even after one call fails.
func (m *Mapping) apply(p Policy, how func(memory []byte, p Policy) error) error {
	var errs []error
	for _, r := range p.runs(m.pages()) {
		if r.from < r.to {
			errs = append(errs, how(m.memory[r.from*pageSize:r.to*pageSize], r.policy))
		}
	}
	return errors.Join(errs...)
}

func (m *Mapping) pages() int { return len(m.memory) / pageSize }

// HugePages asks the kernel to back the memory with huge pages where it can, which makes
// address translation cheaper for data that is visited at random. It is a hint for pages that
// have not been touched; Interleave then goes by huge pages. It fails on a kernel without huge
// pages.
func (m *Mapping) HugePages() error {
	if m.memory == nil {
		return errClosed
	}
	if err := adviseHugePages(m.memory); err != nil {
		return fmt.Errorf("numa: cannot ask for huge pages: %w", err)
	}
	return nil
}

// Touch makes the kernel take all pages now, on the calling thread, and keeps their contents.
// Later accesses then find memory where the policy wants it, without waiting for the kernel.
// Touch costs a page fault for each page. It fails only if the Mapping is closed.
func (m *Mapping) Touch() error {
	if m.memory == nil {
		return errClosed
	}
	touch(m.memory)
	return nil
}

// TouchOn divides the memory into len(cpus) parts, as [Blocks] does, and touches part i on a
// thread that is pinned to cpus[i]. With [Local], or with the zero Policy, which needs no
// permission to place memory, part i then lies on that CPU's node. With other policies it is a
// Touch by many threads. Pages that were touched before stay where they are.
//
// If the thread cannot be pinned to a CPU (see [heist.Pin]), TouchOn returns an error and that
// CPU's part is not touched; the others are.
func (m *Mapping) TouchOn(cpus ...int) error {
	if m.memory == nil {
		return errClosed
	}
	if len(cpus) == 0 {
		return errors.New("numa: TouchOn without a CPU; give at least one, see heist.Allowed")
	}
	errs := make([]error, len(cpus))
	var parts sync.WaitGroup
	for i, cpu := range cpus {
		from, to := partStart(m.pages(), i, len(cpus)), partStart(m.pages(), i+1, len(cpus))
		parts.Go(func() { errs[i] = touchOn(cpu, m.memory[from*pageSize:to*pageSize]) })
	}
	parts.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("numa: cannot touch on CPUs %v: %w", cpus, err)
	}
	return nil
}

func touchOn(cpu int, pages []byte) error {
	pinned, err := heist.Pin(cpu)
	if err != nil {
		return err
	}
	touch(pages)
	return pinned.Unpin()
}

// touch writes to each page, because most kernels let a page that is only read share their page
// of zeros. It writes atomically, because a goroutine may be writing there.
func touch(pages []byte) {
	for i := 0; i < len(pages); i += pageSize {
		atomic.OrUint32((*uint32)(unsafe.Pointer(&pages[i])), 0)
	}
}

// PageNodes returns the nodes of the pages that s lies in, in order and by the system's
// numbers; -1 stands for a page that has no memory of its own: nobody has touched it, or the
// kernel has swapped it out. Reading alone gives a page memory on some kernels; on most, such
// pages share a page of zeros, and are -1 as well. PageNodes works for any memory, Go's heap
// included. It makes a system call for every 4096 pages. The answer is a snapshot, because the
// kernel may move pages.
//
// The error wraps [ErrMemoryPolicy] where the system does not say.
func PageNodes[T any](s []T) ([]int, error) {
	size := len(s) * int(unsafe.Sizeof(*new(T)))
	if size == 0 {
		return nil, nil
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	first, last := from/uintptr(pageSize), (from+uintptr(size)-1)/uintptr(pageSize)
	nodes, err := nodesOfPages(first*uintptr(pageSize), int(last-first)+1)
	runtime.KeepAlive(s)
	if err != nil {
		return nil, fmt.Errorf("numa: cannot ask where pages are: %w", err)
	}
	return nodes, nil
}
