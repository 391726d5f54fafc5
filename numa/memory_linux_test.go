package numa

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
)

// nodesForTest returns the nodes to place memory on, and skips the test where the kernel
// does not place any or there are fewer than it needs.
func nodesForTest(t *testing.T, atLeast int) []int {
	t.Helper()
	nodes, err := AllowedNodes()
	if errors.Is(err, ErrMemoryPolicy) {
		t.Skip(err)
	}
	require.NoError(t, err)
	if len(nodes) < atLeast {
		t.Skipf("the process has the nodes %v, the test needs %d", nodes, atLeast)
	}
	return nodes
}

// mapForTest maps so many pages, closes them in the end, and skips the test where the kernel
// does not place memory. Huge pages would make interleaving and moving coarser.
func mapForTest(t *testing.T, pages int, p Policy) *Mapping {
	t.Helper()
	m, err := Map(pages*pageSize, p)
	if errors.Is(err, ErrMemoryPolicy) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		if m.Bytes() != nil {
			require.NoError(t, m.Close())
		}
	})
	if err := unix.Madvise(m.Bytes(), unix.MADV_NOHUGEPAGE); err != nil {
		require.ErrorIs(t, err, unix.EINVAL, "of a kernel without huge pages")
	}
	return m
}

// nodesOf is PageNodes for a test, which is skipped where the kernel does not tell.
func nodesOf[T any](t *testing.T, s []T) []int {
	t.Helper()
	nodes, err := PageNodes(s)
	if errors.Is(err, ErrMemoryPolicy) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return nodes
}

// requireOn checks that each page of s is on one of the nodes.
func requireOn[T any](t *testing.T, s []T, nodes ...int) {
	t.Helper()
	for page, node := range nodesOf(t, s) {
		require.Contains(t, nodes, node, "page %d", page)
	}
}

// withoutSyscall runs body on a thread on which the kernel refuses a system call.
func withoutSyscall(t *testing.T, call uint32, errno unix.Errno, body func()) {
	t.Helper()
	done, why := make(chan struct{}), error(nil)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread must end with the goroutine
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if why = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); why == nil {
			why = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
		}
		if why == nil {
			body()
		}
	}()
	<-done
	if why != nil {
		t.Skip("the kernel does not filter system calls: ", why)
	}
}

func TestMemoryIsZeroAndAligned(t *testing.T) {
	for _, size := range []int{0, 1, pageSize - 1, pageSize, pageSize + 1, 100*pageSize + 7} {
		m, err := Map(size, Policy{})
		require.NoError(t, err)
		memory := m.Bytes()
		require.NotNil(t, memory)
		require.Len(t, memory, size)
		require.Equal(t, size, cap(memory))
		require.Equal(t, make([]byte, size), memory)
		if size > 0 {
			require.Zero(t, uintptr(unsafe.Pointer(&memory[0]))%uintptr(pageSize))
			memory[size-1] = 1
		}
		require.NoError(t, m.Touch())
		require.NoError(t, m.Close())
	}
}

func TestMemoryThatTheSystemDoesNotHaveIsAnError(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("a large part of these addresses can be had")
	}
	m, err := Map(math.MaxInt/2, Policy{})
	require.ErrorIs(t, err, unix.ENOMEM)
	require.ErrorContains(t, err, "mmap: cannot allocate memory (ask for less, or look at ulimit -v, vm.overcommit_memory and vm.max_map_count)")
	require.Nil(t, m)
}

func TestMemoryIsBoundToItsNode(t *testing.T) {
	for _, node := range nodesForTest(t, 1) {
		for _, p := range []Policy{Bind(node), Bind(node, node), Prefer(node), Interleave(node), Blocks(node)} {
			m := mapForTest(t, 64, p)
			require.NoError(t, m.Touch())
			requireOn(t, m.Bytes(), node)
		}
	}
}

func TestMemoryBoundToSeveralNodesIsOnThem(t *testing.T) {
	nodes := nodesForTest(t, 2)
	for i := range nodes {
		others := slices.Delete(slices.Clone(nodes), i, i+1)
		m := mapForTest(t, 64, Bind(others...))
		require.NoError(t, m.Touch())
		requireOn(t, m.Bytes(), others...)
	}
}

func TestMemoryInterleaveAlternates(t *testing.T) {
	nodes := nodesForTest(t, 1)
	backwards := slices.Clone(nodes)
	slices.Reverse(backwards)
	m := mapForTest(t, 64, Interleave(backwards...))
	require.NoError(t, m.Touch())
	is := nodesOf(t, m.Bytes())
	require.Len(t, is, 64)
	turn := slices.Index(nodes, is[0])
	for page, node := range is {
		require.Equal(t, nodes[(turn+page)%len(nodes)], node, "page %d of %v", page, is)
	}
}

func TestMemoryBlocksLieOnTheirNodes(t *testing.T) {
	nodes := nodesForTest(t, 1)
	backwards := slices.Clone(nodes)
	slices.Reverse(backwards)
	order := slices.Concat(nodes, backwards) // so that nodes come twice
	m := mapForTest(t, 100, Blocks(order...))
	require.NoError(t, m.Touch())
	for i, node := range order {
		part := m.Bytes()[partStart(100, i, len(order))*pageSize : partStart(100, i+1, len(order))*pageSize]
		require.NotEmpty(t, part)
		requireOn(t, part, node)
	}
}

func TestMemoryOfFewerPagesThanBlocksIsStillOnOneOfThem(t *testing.T) {
	nodes := nodesForTest(t, 1)
	order := slices.Repeat(nodes, 5)
	for _, pages := range []int{0, 1, 3} {
		m, err := Map(pages*pageSize, Blocks(order...))
		require.NoError(t, err)
		require.NoError(t, m.Touch())
		requireOn(t, m.Bytes(), nodes...)
		require.NoError(t, m.Close())
	}
}

// A thread of each node touches a part of the memory, once without a policy and once with Local.
func TestMemoryTouchOnPlacesPartsNextToTheirCPUs(t *testing.T) {
	allowed := nodesForTest(t, 1)
	topology, err := Read()
	require.NoError(t, err)
	var cpus, nodes []int
	for _, n := range slices.Backward(topology.Nodes) {
		if local := n.CPUs.and(topology.Allowed); local.Len() > 0 && slices.Contains(allowed, n.ID) {
			cpus, nodes = append(cpus, local[0]), append(nodes, n.ID)
		}
	}
	for _, p := range []Policy{{}, Local()} {
		m := mapForTest(t, 64, p)
		require.NoError(t, m.TouchOn(cpus...))
		for i, node := range nodes {
			requireOn(t, m.Bytes()[partStart(64, i, len(cpus))*pageSize:partStart(64, i+1, len(cpus))*pageSize], node)
		}
	}
}

func TestMemoryTouchOnNamesTheCPUItCannotUse(t *testing.T) {
	cpus, err := heist.Allowed()
	require.NoError(t, err)
	m := mapForTest(t, 4, Policy{})
	wrong := cpus[len(cpus)-1] + 1
	require.ErrorContains(t, m.TouchOn(cpus[0], wrong), fmt.Sprintf("numa: cannot touch on CPUs [%d %d]: heist: cannot pin to CPU %[2]d", cpus[0], wrong))
	require.EqualError(t, m.TouchOn(), "numa: TouchOn without a CPU; give at least one, see heist.Allowed")
	nodes := nodesOf(t, m.Bytes())
	require.NotContains(t, nodes[:2], -1)
	require.Equal(t, []int{-1, -1}, nodes[2:], "its part is left alone")
}

func TestMemoryTouchKeepsWhatIsThere(t *testing.T) {
	cpus, err := heist.Allowed()
	require.NoError(t, err)
	m := mapForTest(t, 256, Policy{})
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&m.Bytes()[0])), len(m.Bytes())/4)
	stop, writer := atomic.Bool{}, make(chan uint32)
	go func() { // writes to the pages while they are touched
		rounds := uint32(0)
		for !stop.Load() {
			for i := 0; i < len(words); i += pageSize / 4 {
				atomic.AddUint32(&words[i], 1)
			}
			rounds++
		}
		writer <- rounds
	}()
	for range 50 {
		require.NoError(t, m.Touch())
		require.NoError(t, m.TouchOn(cpus...))
	}
	stop.Store(true)
	rounds := <-writer
	for i := 0; i < len(words); i += pageSize / 4 {
		require.Equal(t, rounds, words[i])
	}
}

func TestMemoryMovesWithItsContents(t *testing.T) {
	nodes := nodesForTest(t, 1)
	first, last := nodes[0], nodes[len(nodes)-1]
	m := mapForTest(t, 64, Bind(first))
	content := bytes.Repeat([]byte("moved "), len(m.Bytes()))[:48*pageSize]
	copy(m.Bytes(), content)
	untouched := m.Bytes()[48*pageSize:]
	for _, c := range []struct {
		p  Policy
		on []int
	}{{Bind(last), []int{last}}, {Prefer(first), []int{first}}, {Bind(last, first), nodes}, {Blocks(last), []int{last}}} {
		require.NoError(t, m.Move(c.p))
		requireOn(t, m.Bytes()[:48*pageSize], c.on...)
		requireOn(t, untouched, -1)
		require.True(t, bytes.Equal(content, m.Bytes()[:48*pageSize]))
	}
	require.NoError(t, m.Move(Blocks(nodes...)))
	require.NoError(t, m.Touch())
	for i, node := range nodes {
		requireOn(t, m.Bytes()[partStart(64, i, len(nodes))*pageSize:partStart(64, i+1, len(nodes))*pageSize], node)
	}
}

func TestMemoryDoesNotMoveToAPolicyWithoutAPlace(t *testing.T) {
	nodes := nodesForTest(t, 1)
	m := mapForTest(t, 1, Policy{})
	for _, p := range []Policy{{}, Local(), Interleave(nodes...)} {
		require.EqualError(t, m.Move(p), "numa: cannot move to "+p.String()+": it does not say where touched pages belong; use Bind, Prefer or Blocks, or SetPolicy for the pages to come")
	}
}

func TestMemorySetPolicyIsForPagesToCome(t *testing.T) {
	nodes := nodesForTest(t, 2)
	m := mapForTest(t, 64, Bind(nodes[0]))
	touch(m.Bytes()[:32*pageSize])
	require.NoError(t, m.SetPolicy(Bind(nodes[1])))
	require.NoError(t, m.Touch())
	requireOn(t, m.Bytes()[:32*pageSize], nodes[0])
	requireOn(t, m.Bytes()[32*pageSize:], nodes[1])
}

func TestMemoryPolicyIsWhatTheKernelHas(t *testing.T) {
	nodes := nodesForTest(t, 1)
	m := mapForTest(t, 8, Policy{})
	for _, c := range []struct {
		p     Policy
		mode  int32
		nodes []int
	}{
		{Bind(nodes...), unix.MPOL_BIND, nodes},
		{Interleave(nodes...), unix.MPOL_INTERLEAVE, nodes},
		{Prefer(nodes[0]), unix.MPOL_PREFERRED, nodes[:1]},
		{Blocks(nodes...), unix.MPOL_BIND, nodes[:1]}, // the first page
		{Policy{}, unix.MPOL_DEFAULT, nil},
	} {
		require.NoError(t, m.SetPolicy(c.p))
		mode, mask, err := getMempolicy(uintptr(unsafe.Pointer(&m.Bytes()[0])), unix.MPOL_F_ADDR)
		require.NoError(t, err)
		require.Equal(t, c.mode, mode, c.p)
		require.Equal(t, c.nodes, mask.nodes(), c.p)
	}
	require.NoError(t, m.SetPolicy(Local()))
}

func TestMemoryOfAMissingNodeIsAnErrorNotAFallback(t *testing.T) {
	nodes := nodesForTest(t, 1)
	there := nodes[0]
	m := mapForTest(t, 4, Bind(there))
	for _, missing := range []int{-1, nodes[len(nodes)-1] + 1, 1023, 1024, 1 << 20, math.MaxInt, math.MinInt} {
		for _, p := range []Policy{Bind(missing), Bind(there, missing), Prefer(missing), Interleave(there, missing), Blocks(there, missing)} {
			want := fmt.Sprintf("%v: node %d is not among the nodes %v that the process may take memory from", p, missing, nodes)
			got, err := Map(1, p)
			require.ErrorContains(t, err, "numa: cannot map with "+want)
			require.NotErrorIs(t, err, ErrMemoryPolicy)
			require.Nil(t, got)
			require.ErrorContains(t, m.SetPolicy(p), "numa: cannot set "+want)
			if p.mode != modeInterleave {
				require.ErrorContains(t, m.Move(p), "numa: cannot move to "+want)
			}
		}
	}
	require.NoError(t, m.Touch())
	requireOn(t, m.Bytes(), there)
}

// On a machine of one node there is no node to take away, so this passes the kernel a node that the
// package did not look up.
func TestMemoryOfAMissingNodeIsRefusedByTheKernelToo(t *testing.T) {
	nodes := nodesForTest(t, 1)
	m := mapForTest(t, 1, Policy{})
	err := setPolicy(m.memory, Bind(nodes[len(nodes)-1]+1))
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, "mbind: invalid argument (the kernel does not know what was asked for")
}

func TestMemoryRefusedByTheKernelIsAnError(t *testing.T) {
	node := nodesForTest(t, 1)[0]
	m := mapForTest(t, 1, Policy{})
	for _, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS} {
		requireRefused := func(err error, call string) {
			t.Helper()
			require.ErrorIs(t, err, ErrMemoryPolicy)
			require.ErrorIs(t, err, errno)
			require.ErrorContains(t, err, call)
		}
		withoutSyscall(t, unix.SYS_MBIND, errno, func() {
			_, err := Map(pageSize, Bind(node))
			requireRefused(err, "numa: cannot map with Bind(")
			_, err = NewSlice[int](pageSize, Local())
			requireRefused(err, "numa: cannot map with Local(): "+ErrMemoryPolicy.Error()+": mbind")
			requireRefused(m.SetPolicy(Prefer(node)), "mbind")
			requireRefused(m.Move(Prefer(node)), "mbind")
			_, err = Map(pageSize, Policy{})
			require.NoError(t, err, "this one asks for nothing")
		})
		withoutSyscall(t, unix.SYS_GET_MEMPOLICY, errno, func() {
			_, err := AllowedNodes()
			requireRefused(err, "numa: cannot ask for the nodes")
			_, err = Map(pageSize, Bind(node))
			requireRefused(err, "numa: cannot map with Bind(")
		})
		withoutSyscall(t, unix.SYS_MOVE_PAGES, errno, func() {
			_, err := PageNodes(m.Bytes())
			requireRefused(err, "numa: cannot ask where pages are")
		})
	}
	withoutSyscall(t, unix.SYS_MBIND, unix.EIO, func() {
		err := m.Move(Bind(node))
		require.ErrorIs(t, err, unix.EIO)
		require.NotErrorIs(t, err, ErrMemoryPolicy)
		require.ErrorContains(t, err, "some pages stayed where they were")
	})
}

// TestMemoryThatCannotBePlacedIsNotMapped: an error leaves nothing behind that only its caller could unmap.
func TestMemoryThatCannotBePlacedIsNotMapped(t *testing.T) {
	node := nodesForTest(t, 1)[0]
	const size, times = 64 << 20, 50
	addresses := func() (pages int) {
		statm, err := os.ReadFile("/proc/self/statm")
		require.NoError(t, err)
		_, err = fmt.Sscan(string(statm), &pages)
		require.NoError(t, err)
		return pages
	}
	withoutSyscall(t, unix.SYS_MBIND, unix.EPERM, func() {
		before := addresses()
		for range times {
			m, err := Map(size, Bind(node))
			require.ErrorIs(t, err, unix.EPERM)
			require.Nil(t, m)
		}
		require.Less(t, addresses()-before, times*(size/pageSize)/2)
	})
}

func TestMemoryThatNobodyTouchedIsOnNoNode(t *testing.T) {
	nodes := nodesForTest(t, 1)
	m := mapForTest(t, 5, Policy{})
	requireOn(t, m.Bytes(), -1)
	m.Bytes()[2*pageSize] = 1
	require.Zero(t, m.Bytes()[3*pageSize])
	is := nodesOf(t, m.Bytes())
	require.Contains(t, nodes, is[2])
	require.Contains(t, append(nodes, -1), is[3], "whether reading takes memory is up to the kernel")
	is[2], is[3] = -1, -1
	require.Equal(t, []int{-1, -1, -1, -1, -1}, is)
}

// TestMemoryThatWasOnlyReadIsTakenByTouch, whether the kernel has given it memory or a page of zeros that it shares.
func TestMemoryThatWasOnlyReadIsTakenByTouch(t *testing.T) {
	nodes := nodesForTest(t, 1)
	m := mapForTest(t, 5, Policy{})
	for page := range 5 {
		require.Zero(t, m.Bytes()[page*pageSize])
	}
	require.NoError(t, m.Touch())
	requireOn(t, m.Bytes(), nodes...)
}

func TestMemoryPagesAreCountedFromTheFirstToTheLast(t *testing.T) {
	m := mapForTest(t, 3, Policy{})
	b := m.Bytes()
	for _, c := range []struct{ from, to, pages int }{
		{0, 0, 0}, {0, 1, 1}, {0, pageSize, 1}, {0, pageSize + 1, 2}, {pageSize - 1, pageSize + 1, 2},
		{pageSize - 1, 2*pageSize + 1, 3}, {pageSize, 2 * pageSize, 1}, {0, 3 * pageSize, 3},
	} {
		require.Len(t, nodesOf(t, b[c.from:c.to]), c.pages, c)
	}
	require.Empty(t, nodesOf(t, make([]struct{}, 5)))
	require.Empty(t, nodesOf(t, []int(nil)))

	heap := make([]uint64, 3*pageSize) // on Go's heap; the pages below are more than one call asks for
	for i := range heap {
		heap[i] = 1
	}
	require.NotContains(t, nodesOf(t, heap), -1)
	require.Len(t, nodesOf(t, mapForTest(t, 10_000, Policy{}).Bytes()), 10_000)
}

func TestMemoryAnswersOfTheKernelAreRead(t *testing.T) {
	for status, want := range map[int32]int{0: 0, 3: 3, -int32(unix.ENOENT): -1, -int32(unix.EFAULT): -1} {
		node, err := nodeOfStatus(status)
		require.NoError(t, err)
		require.Equal(t, want, node)
	}
	_, err := nodeOfStatus(-int32(unix.EBUSY))
	require.ErrorIs(t, err, unix.EBUSY)
}

func TestMemoryNodeMaskHasAnyNumberOfNodes(t *testing.T) {
	var m nodeMask
	want := []int{0, 1, 31, 32, 63, 64, 127, 128, 1023}
	for _, node := range want {
		m.set(node)
	}
	require.Equal(t, want, m.nodes())
}

func TestMemoryOfAClosedMappingIsGone(t *testing.T) {
	m, err := Map(pageSize, Policy{})
	require.NoError(t, err)
	require.NoError(t, m.Close())
	require.Nil(t, m.Bytes())
	for _, err := range []error{m.Close(), m.SetPolicy(Policy{}), m.Move(Bind(0)), m.Touch(), m.TouchOn(0), m.HugePages()} {
		require.ErrorIs(t, err, errClosed)
	}
}

// A leak would be found twice: in the list of mappings, and on a 32-bit system when the addresses
// run out.
func TestMemoryIsUnmappedByClose(t *testing.T) {
	const size = 64 << 20
	for range 100 {
		m, err := Map(size, Policy{})
		require.NoError(t, err)
		m.Bytes()[size-1] = 1
		from := uint64(uintptr(unsafe.Pointer(&m.Bytes()[0])))
		require.True(t, mapped(t, from, from+size))
		require.NoError(t, m.Close())
		require.False(t, mapped(t, from, from+size))
	}
}

// mapped reports whether the whole range is mapped.
func mapped(t *testing.T, from, to uint64) bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		var first, end uint64
		_, err := fmt.Sscanf(line, "%x-%x", &first, &end)
		require.NoError(t, err, line)
		if first <= from && from < end {
			from = end
		}
	}
	return from >= to
}

func TestMemoryOutlivesAMappingThatNobodyHolds(t *testing.T) {
	m, err := Map(pageSize, Policy{})
	require.NoError(t, err)
	memory := m.Bytes()
	m = nil
	for range 3 {
		runtime.GC()
	}
	memory[0] = 1 // would crash
	require.NoError(t, unmapPages(memory[:pageSize:pageSize]))
}

func TestMemoryIsMarkedForHugePages(t *testing.T) {
	m, err := Map(8<<20, Policy{})
	require.NoError(t, err)
	defer m.Close()
	const noAdvice = 12345
	if unix.Madvise(m.Bytes(), noAdvice) == nil {
		t.Skip("an emulator takes any advice and forgets it")
	}
	if err := m.HugePages(); err != nil {
		require.ErrorIs(t, err, unix.EINVAL)
		require.ErrorContains(t, err, "numa: cannot ask for huge pages: madvise")
		require.NoDirExists(t, "/sys/kernel/mm/transparent_hugepage")
		t.Skip("the kernel has no huge pages")
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil || !strings.Contains(string(smaps), "VmFlags:") {
		t.Skip("the kernel does not show the flags of mappings")
	}
	at, here := uint64(uintptr(unsafe.Pointer(&m.Bytes()[0]))), false
	for line := range strings.Lines(string(smaps)) {
		var first, end uint64
		if n, _ := fmt.Sscanf(line, "%x-%x", &first, &end); n == 2 {
			here = first <= at && at < end
		} else if flags, found := strings.CutPrefix(line, "VmFlags:"); found && here {
			require.Contains(t, strings.Fields(flags), "hg")
			return
		}
	}
	require.Fail(t, "the kernel does not list the mapping")
}
