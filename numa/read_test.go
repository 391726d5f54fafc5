package numa

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// files are the files of a tree, by path below sys/devices/system, or from the
// root if the path starts with a slash.
type files map[string]string

// treePath returns a file's path below the tree's root.
func treePath(file string) string {
	if rooted, ok := strings.CutPrefix(file, "/"); ok {
		return rooted
	}
	return path.Join("sys/devices/system", file)
}

// write makes the tree in a folder of its own.
func (f files) write(t testing.TB) (root string) {
	t.Helper()
	root = t.TempDir()
	for file, content := range f {
		at := filepath.Join(root, filepath.FromSlash(treePath(file)))
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o777))
		require.NoError(t, os.WriteFile(at, []byte(content), 0o666))
	}
	return root
}

// inMemory makes the tree without touching the disk.
func (f files) inMemory() fstest.MapFS {
	tree := fstest.MapFS{}
	for file, content := range f {
		tree[treePath(file)] = &fstest.MapFile{Data: []byte(content)}
	}
	return tree
}

// packed makes the tree a zip archive in memory, which finds a file among many faster than
// inMemory.
func (f files) packed(t testing.TB) fs.FS {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for file, content := range f {
		at, err := w.CreateHeader(&zip.FileHeader{Name: treePath(file), Method: zip.Store})
		require.NoError(t, err)
		_, err = at.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	r, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	require.NoError(t, err)
	return r
}

// with returns the files with some of them replaced.
func (f files) with(others files) files {
	all := maps.Clone(f)
	maps.Copy(all, others)
	return all
}

// smt is a machine of two nodes, each a package with an L3 and two cores of two
// threads: CPUs 0-1 and 4-5, and 2-3 and 6-7.
func smt() files {
	f := files{
		"cpu/present":         "0-7\n",
		"cpu/online":          "0-7\n",
		"node/online":         "0-1\n",
		"node/node0/cpulist":  "0-1,4-5\n",
		"node/node1/cpulist":  "2-3,6-7\n",
		"node/node0/distance": "10 21\n",
		"node/node1/distance": "21 10\n",
		"node/node0/meminfo":  "\nNode 0 MemTotal:        1024 kB\nNode 0 MemFree: 1 kB\n",
		"node/node1/meminfo":  "\nNode 1 MemTotal:        2048 kB\nNode 1 MemFree: 1 kB\n",
		"/proc/meminfo":       "MemTotal:           3072 kB\nMemFree:        1 kB\n",
	}
	for cpu := range 8 {
		core := cpu % 4
		siblings := fmt.Sprintf("%d,%d\n", core, core+4)
		node := []string{"0-1,4-5\n", "2-3,6-7\n"}[core/2]
		dir := fmt.Sprintf("cpu/cpu%d/", cpu)
		f[dir+"topology/physical_package_id"] = fmt.Sprintln(core / 2)
		f[dir+"topology/package_cpus_list"] = node
		f[dir+"topology/core_id"] = fmt.Sprintln(core % 2)
		f[dir+"topology/core_cpus_list"] = siblings
		f[dir+"cache/index0/level"] = "1\n"
		f[dir+"cache/index3/level"] = "3\n"
		f[dir+"cache/index3/type"] = "Unified\n"
		f[dir+"cache/index3/shared_cpu_list"] = node
	}
	return f
}

// requireUsable checks what holds for every topology, however broken its
// sources.
func requireUsable(t testing.TB, got *Topology) {
	t.Helper()
	require.NotNil(t, got)
	require.NotEmpty(t, got.Nodes)
	require.NotEmpty(t, got.CPUs)
	require.NotEmpty(t, got.Allowed)
	require.Equal(t, got.Allowed, got.Allowed.and(got.Online))
	require.Equal(t, got.Online, got.Online.and(got.Complete))
	var ids Set
	for _, cpu := range got.CPUs {
		ids = append(ids, cpu.ID)
		if cpu.Node != got.NodeOf(cpu.ID) {
			require.Equal(t, cpu.Node, got.NodeOf(cpu.ID))
		}
	}
	require.Equal(t, got.Online, ids)

	var nodes []Set
	for i, node := range got.Nodes {
		nodes = append(nodes, node.CPUs)
		require.True(t, i == 0 || got.Nodes[i-1].ID < node.ID)
		require.GreaterOrEqual(t, node.MemoryBytes, int64(0))
		if node.Distances != nil {
			require.Len(t, node.Distances, len(got.Nodes))
		}
		for j := range got.Nodes {
			require.Positive(t, got.Distance(i, j))
		}
	}
	require.True(t, slices.ContainsFunc(nodes, func(s Set) bool { return s.Len() > 0 }))

	all := append(slices.Clone(kinds), kind{"nodes",
		func(*Topology) *[]Set { return &nodes }, func(c *CPU) *int { return &c.Node }})
	for _, k := range all {
		groups := *k.groups(got)
		members := make([]Set, len(groups))
		for _, cpu := range got.CPUs {
			if i := *k.index(&cpu); i != -1 {
				members[i] = append(members[i], cpu.ID)
			}
		}
		require.Equal(t, lists(members), lists(groups), k.name)
	}
	for _, k := range kinds {
		require.True(t, slices.IsSortedFunc(*k.groups(got), func(a, b Set) int { return a[0] - b[0] }), k.name)
	}
	for _, cpu := range got.CPUs {
		if cpu.Capacity < 0 || cpu.Capacity > maxCapacity {
			require.Fail(t, "capacity", cpu)
		}
		if cpu.Core < 0 && cpu.SMT != 0 || cpu.Core >= 0 && got.Cores[cpu.Core][cpu.SMT] != cpu.ID {
			require.Fail(t, "rank", cpu)
		}
	}
	require.NotEmpty(t, got.String())
}

// readSound reads a tree in which nothing is wrong. It is kept in memory, since
// a hundred small files take a tenth of a second on some disks.
func readSound(t *testing.T, f files) *Topology {
	t.Helper()
	got, err := read(f.inMemory(), "", nil)
	require.NoError(t, err)
	requireUsable(t, got)
	return got
}

func lists(sets []Set) []string {
	all := []string{}
	for _, s := range sets {
		all = append(all, s.String())
	}
	return all
}

func TestTwoNodesWithDistances(t *testing.T) {
	got, err := ReadRoot(smt().write(t))
	require.NoError(t, err)
	requireUsable(t, got)
	require.Equal(t, []Node{
		{ID: 0, CPUs: Set{0, 1, 4, 5}, MemoryBytes: 1 << 20, Distances: []int{10, 21}},
		{ID: 1, CPUs: Set{2, 3, 6, 7}, MemoryBytes: 2 << 20, Distances: []int{21, 10}},
	}, got.Nodes)
	require.Equal(t, "0-7", got.Complete.String())
	require.Equal(t, "0-7", got.Online.String())
	require.Equal(t, "0-7", got.Allowed.String())
	require.Equal(t, 1, got.NodeOf(6))
	require.Equal(t, 21, got.Distance(got.NodeOf(0), got.NodeOf(6)))
	require.Equal(t, 10, got.Distance(1, 1))
}

// TestDistancesMayDifferByDirection: each node's file is its own row, from it to the others.
func TestDistancesMayDifferByDirection(t *testing.T) {
	got := readSound(t, smt().with(files{
		"node/online":         "0-2\n",
		"node/node2/cpulist":  "\n",
		"node/node0/distance": "10 17 65535\n",
		"node/node1/distance": "28 10 12\n",
		"node/node2/distance": "11 31 10\n",
	}))
	for from, row := range [][]int{{10, 17, 65535}, {28, 10, 12}, {11, 31, 10}} {
		require.Equal(t, row, got.Nodes[from].Distances)
		for to, distance := range row {
			require.Equal(t, distance, got.Distance(from, to), "from %d to %d", from, to)
		}
	}
	require.Contains(t, got.String(), "distances 28 10 12\n")
	requireRoundTrip(t, got)

	// One row is unknown. The known distance is not used for the way back.
	got, err := read(smt().with(files{"node/node0/distance": "10\n"}).inMemory(), "", nil)
	require.ErrorContains(t, err, "1 distances for 2 nodes")
	require.Equal(t, []int{20, 21}, []int{got.Distance(0, 1), got.Distance(1, 0)})

	// A row is missing: 20 is a guess, and the error says so.
	f := smt()
	delete(f, "node/node1/distance")
	got, err = read(f.inMemory(), "", nil)
	require.EqualError(t, err, "numa: "+filepath.FromSlash("sys/devices/system/node/node1/distance")+": file does not exist; the other nodes count as 20 away")
	require.Equal(t, []int{21, 20}, []int{got.Distance(0, 1), got.Distance(1, 0)})
}

// TestAbsurdMemoryIsUnknown: the result is 0 and an error that quotes the file, not another number.
func TestAbsurdMemoryIsUnknown(t *testing.T) {
	for _, total := range []string{
		"-1 kB", "-9223372036854775808 kB", "-0x1 kB", "9007199254740992 kB", "9223372036854775807 kB",
		"9223372036854775808 kB", "18014398509481984 kB", "18446744073709551615 kB", "99999999999999999999999999 kB",
		"", "kB", " kB", "x kB", "1e3 kB", "1.5 kB", "0x10 kB", "0b1 kB", "1_000 kB", "1,024 kB", "1 024 kB", "1024", "1024 B", "1024 KB", "1024 MB",
		"1024 kB kB", "1024kB", "NaN kB", "Inf kB", "\x00 kB", "\n1024 kB",
	} {
		for file, f := range map[string]files{
			"node/node1/meminfo": smt(),
			"/proc/meminfo":      {"cpu/present": "0\n", "cpu/online": "0\n"},
		} {
			text := "Node 1 MemTotal: " + total + "\nNode 1 MemFree: 1 kB\n"
			got, err := read(f.with(files{file: text}).inMemory(), "", nil)
			requireUsable(t, got)
			require.Zero(t, got.Nodes[len(got.Nodes)-1].MemoryBytes, "%q", total)
			require.ErrorContains(t, err, "numa: "+filepath.FromSlash(treePath(file))+": MemTotal ", "%q", total)
			require.ErrorContains(t, err, "is no number of kB", "%q", total)
			require.Less(t, len(err.Error()), 200)
			require.NotContains(t, err.Error(), "\n", "it is one error")
		}
	}
	for total, want := range map[string]int64{
		"0 kB": 0, "1 kB": 1024, "007 kB": 7 << 10, "9007199254740991 kB": 9007199254740991 << 10, // the most that fits
	} {
		got := readSound(t, smt().with(files{"node/node1/meminfo": "Node 1 MemTotal:\t" + total + " \n"}))
		require.Equal(t, want, got.Nodes[1].MemoryBytes, "%q", total)
		requireRoundTrip(t, got)
	}
}

func TestHardwareThreadsShareACore(t *testing.T) {
	got := readSound(t, smt())
	require.Equal(t, []string{"0,4", "1,5", "2,6", "3,7"}, lists(got.Cores))
	require.Equal(t, []string{"0-1,4-5", "2-3,6-7"}, lists(got.Packages))
	require.Equal(t, []string{"0-1,4-5", "2-3,6-7"}, lists(got.L3))
	require.Equal(t, CPU{ID: 3, Node: 1, Package: 1, Die: -1, Cluster: -1, Core: 3, L2: -1, L3: 1, SMT: 0}, got.CPUs[3])
	require.Equal(t, CPU{ID: 7, Node: 1, Package: 1, Die: -1, Cluster: -1, Core: 3, L2: -1, L3: 1, SMT: 1}, got.CPUs[7])
}

func TestWithoutNodeFoldersThereIsOneNode(t *testing.T) {
	f := smt()
	maps.DeleteFunc(f, func(file, _ string) bool { return strings.HasPrefix(file, "node/") })
	got := readSound(t, f)
	require.Equal(t, []Node{{ID: 0, CPUs: got.Online, MemoryBytes: 3 << 20}}, got.Nodes)
	require.Equal(t, 10, got.Distance(0, 0))
	require.Len(t, got.Cores, 4)
}

func TestWithoutCPUFoldersOnlyTheGroupsAreUnknown(t *testing.T) {
	f := smt()
	maps.DeleteFunc(f, func(file, _ string) bool { return strings.HasPrefix(file, "cpu/cpu") })
	got := readSound(t, f)
	require.Equal(t, "0-7", got.Online.String())
	require.Len(t, got.Nodes, 2)
	for _, k := range kinds {
		require.Empty(t, *k.groups(got), k.name)
	}
	require.Equal(t, CPU{ID: 2, Node: 1, Package: -1, Die: -1, Cluster: -1, Core: -1, L2: -1, L3: -1}, got.CPUs[2])
}

func TestNodesMayLackCPUsOrMemory(t *testing.T) {
	got := readSound(t, smt().with(files{
		"node/online":         "0-2\n",
		"node/node0/distance": "10 21 17\n",
		"node/node1/distance": "21 10 28\n",
		"node/node1/meminfo":  "Node 1 MemTotal: 0 kB\n",
		"node/node2/cpulist":  "\n",
		"node/node2/distance": "17 28 10\n",
		"node/node2/meminfo":  "Node 2 MemTotal: 4 kB\n",
	}))
	require.Len(t, got.Nodes, 3)
	require.Zero(t, got.Nodes[1].MemoryBytes)
	require.Equal(t, Node{ID: 2, MemoryBytes: 4096, Distances: []int{17, 28, 10}}, got.Nodes[2])
	require.Contains(t, got.String(), "node 2: no CPUs")
}

func TestNodeNumbersMayHaveGaps(t *testing.T) {
	f := smt()
	for file, content := range maps.Clone(f) {
		if rest, ok := strings.CutPrefix(file, "node/node1/"); ok {
			f["node/node16/"+rest] = strings.ReplaceAll(content, "Node 1 ", "Node 16 ")
			delete(f, file)
		}
	}
	f["node/online"] = "0,16\n"
	got := readSound(t, f)
	require.Equal(t, 16, got.Nodes[1].ID)
	require.Equal(t, 1, got.NodeOf(7))
	require.Equal(t, 21, got.Distance(0, 1))
	require.EqualValues(t, 2<<20, got.Nodes[1].MemoryBytes)
}

func TestOfflineCPUsAreInNoGroup(t *testing.T) {
	got := readSound(t, smt().with(files{"cpu/online": "0-3,5-7\n"}))
	require.Equal(t, "0-7", got.Complete.String())
	require.Equal(t, "0-3,5-7", got.Online.String())
	require.Equal(t, "0-3,5-7", got.Allowed.String())
	require.Equal(t, []string{"0", "1,5", "2,6", "3,7"}, lists(got.Cores))
	require.Equal(t, "0-1,5", got.Nodes[0].CPUs.String())
	require.Equal(t, -1, got.NodeOf(4))
	require.Contains(t, got.String(), "offline 4")
}

func TestWithoutListsEachCPUSaysWhetherItIsOnline(t *testing.T) {
	f := smt().with(files{"cpu/cpu3/online": "1\n", "cpu/cpu4/online": "0\n", "cpu/cpu5/online": ""})
	delete(f, "cpu/present")
	delete(f, "cpu/online")
	got := readSound(t, f)
	require.Equal(t, "0-7", got.Complete.String())
	require.Equal(t, "0-3,5-7", got.Online.String())

	got, err := read(f.with(files{"cpu/cpu3/online": "maybe\n"}).inMemory(), "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, `online: "maybe" is neither 0 nor 1`)
	require.Equal(t, "0-3,5-7", got.Online.String())
}

func TestCPUSlotsThatMayBeFilledLaterAreNotCPUs(t *testing.T) {
	got := readSound(t, smt().with(files{"cpu/possible": "0-511\n", "cpu/kernel_max": "8191\n", "cpu/cpufreq/x": "", "cpu/cpuidle/x": ""}))
	require.Equal(t, "0-7", got.Complete.String())
}

// The kernel of this machine knows only masks and old names, and ends a list
// with a zero byte.
func TestOldKernelsMasks(t *testing.T) {
	f := files{
		"node/online":        "0\n\x00",
		"node/node0/cpumap":  "00000000,0000000f\n",
		"node/node0/meminfo": "\nNode 0 MemTotal:       4 kB\n",
	}
	for cpu := range 4 {
		dir := fmt.Sprintf("cpu/cpu%d/", cpu)
		f[dir+"topology/physical_package_id"] = "0\n"
		f[dir+"topology/core_id"] = fmt.Sprintln(cpu / 2)
		f[dir+"topology/core_siblings"] = "00000000,0000000f\n"
		f[dir+"topology/thread_siblings"] = []string{"00000000,00000003\n", "00000000,0000000c\n"}[cpu/2]
		f[dir+"cache/index2/level"] = "3\n"
		f[dir+"cache/index2/shared_cpu_map"] = "00000000,0000000f\n"
	}
	got := readSound(t, f)
	require.Equal(t, "0-3", got.Complete.String())
	require.Equal(t, "0-3", got.Online.String())
	require.Equal(t, []Node{{ID: 0, CPUs: Set{0, 1, 2, 3}, MemoryBytes: 4096}}, got.Nodes)
	require.Equal(t, []string{"0-3"}, lists(got.Packages))
	require.Equal(t, []string{"0-1", "2-3"}, lists(got.Cores))
	require.Equal(t, []string{"0-3"}, lists(got.L3))
}

func TestIdentifiersStandInForMissingLists(t *testing.T) {
	f := smt()
	maps.DeleteFunc(f, func(file, _ string) bool { return strings.HasSuffix(file, "cpus_list") })
	got := readSound(t, f)
	require.Equal(t, []string{"0-1,4-5", "2-3,6-7"}, lists(got.Packages))
	require.Equal(t, []string{"0,4", "1,5", "2,6", "3,7"}, lists(got.Cores))

	// -1 is how a kernel says that it does not know.
	for cpu := range 8 {
		f[fmt.Sprintf("cpu/cpu%d/topology/physical_package_id", cpu)] = "-1\n"
		f[fmt.Sprintf("cpu/cpu%d/topology/core_id", cpu)] = "-1\n"
	}
	got = readSound(t, f)
	require.Empty(t, got.Packages)
	require.Empty(t, got.Cores)
}

func TestInstructionCachesAreNoL3(t *testing.T) {
	f := smt()
	for cpu := range 8 {
		f[fmt.Sprintf("cpu/cpu%d/cache/index3/type", cpu)] = "Instruction\n"
	}
	require.Empty(t, readSound(t, f).L3)
}

func TestCacheOfUnknownSharersIsTheCores(t *testing.T) {
	f := smt()
	maps.DeleteFunc(f, func(file, _ string) bool { return strings.HasSuffix(file, "shared_cpu_list") })
	require.Equal(t, []string{"0,4", "1,5", "2,6", "3,7"}, lists(readSound(t, f).L3))

	maps.DeleteFunc(f, func(file, _ string) bool { return strings.Contains(file, "/topology/") })
	require.Len(t, readSound(t, f).L3, 8)
}

func TestMissingSysIsOneNodeAndAnError(t *testing.T) {
	root := t.TempDir()
	got, err := ReadRoot(root)
	requireUsable(t, got)
	require.Equal(t, runtime.NumCPU(), got.Online.Len())
	require.Len(t, got.Nodes, 1)
	require.ErrorContains(t, err, filepath.Join(root, "sys", "devices", "system", "cpu")+": no CPUs found")

	root = filepath.Join(root, "nowhere")
	got, err = ReadRoot(root)
	requireUsable(t, got)
	require.Len(t, got.Nodes, 1)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, root)
}

func TestAffinityMaskStandsInForMissingSys(t *testing.T) {
	got, err := read(files{}.inMemory(), "", func() (Set, error) { return Set{4, 5}, nil })
	requireUsable(t, got)
	require.ErrorContains(t, err, "no CPUs found")
	require.Equal(t, Set{4, 5}, got.Online)

	// Files made up by a container must not hide CPUs that the process may use.
	got, err = read(smt().with(files{"cpu/online": "0-1\n"}).inMemory(), "", func() (Set, error) { return Set{4, 5}, nil })
	requireUsable(t, got)
	require.NoError(t, err)
	require.Equal(t, Set{0, 1, 4, 5}, got.Online)
	require.Equal(t, Set{4, 5}, got.Allowed)
}

// TestAffinityMaskMayBeOlderThanTheFiles: of the CPUs that the process was started with, some
// may have gone offline since, or been taken out.
func TestAffinityMaskMayBeOlderThanTheFiles(t *testing.T) {
	got, err := read(smt().with(files{"cpu/online": "0-5\n"}).inMemory(), "", func() (Set, error) { return Set{4, 5, 6, 9}, nil })
	requireUsable(t, got)
	require.NoError(t, err)
	require.Equal(t, "0-5", got.Online.String())
	require.Equal(t, "0-7", got.Complete.String())
	require.Equal(t, Set{4, 5}, got.Allowed)
}

func TestCPUsInNoNodeAreReported(t *testing.T) {
	got, err := read(smt().with(files{"node/node1/cpulist": "2-3,6\n"}).inMemory(), "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, filepath.FromSlash(nodeDir)+": CPUs 7 are in no node")
	require.Equal(t, -1, got.NodeOf(7))
	require.Equal(t, 1, got.NodeOf(6))
}

func TestUnknownAffinityIsReported(t *testing.T) {
	refused := errors.New("refused")
	got, err := read(smt().inMemory(), "", func() (Set, error) { return nil, refused })
	requireUsable(t, got)
	require.ErrorIs(t, err, refused)
	require.Equal(t, got.Online, got.Allowed)
}

// unreadable is a tree of which a part can't be read.
type unreadable struct {
	fs.FS
	below string
}

func (u unreadable) Open(file string) (fs.File, error) {
	if file == u.below || strings.HasPrefix(file, u.below+"/") {
		return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrPermission}
	}
	return u.FS.Open(file)
}

// leaky is a tree that tells how many of its files are open.
type leaky struct {
	fs.FS
	open *int
}

type leakyFile struct {
	fs.File
	open *int
}

func (c leaky) Open(name string) (fs.File, error) {
	file, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	*c.open++
	return leakyFile{file, c.open}, nil
}

func (c leakyFile) Close() error {
	*c.open--
	return c.File.Close()
}

func (c leakyFile) ReadDir(n int) ([]fs.DirEntry, error) { return c.File.(fs.ReadDirFile).ReadDir(n) }

// TestEveryFileIsClosed, at once: a large machine has more of them than a process may have open.
func TestEveryFileIsClosed(t *testing.T) {
	open := 0
	got, err := read(leaky{smt().with(files{
		"node/node0/meminfo": strings.Repeat(" ", maxFile+1),
		"cpu/present":        "garbage",
		"/proc/self/cgroup":  "0::/a\n",
		"/proc/mounts":       "cgroup2 /cg cgroup2 rw 0 0\n",
	}).inMemory(), &open}, "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, "longer than")
	require.Len(t, got.Nodes, 2)
	require.Zero(t, open)
}

func TestUnreadablePartsAreNamedAndTheRestIsUsed(t *testing.T) {
	got, err := read(unreadable{smt().inMemory(), "sys"}, "/machine", nil)
	requireUsable(t, got)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, "numa: "+filepath.FromSlash("/machine/sys/devices/system/cpu: permission denied"))
	require.Len(t, got.Nodes, 1)
	require.Equal(t, runtime.NumCPU(), got.Online.Len())

	got, err = read(unreadable{smt().inMemory(), treePath("node")}, "", nil)
	requireUsable(t, got)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.Equal(t, []Node{{CPUs: got.Online, MemoryBytes: 3 << 20}}, got.Nodes)
	require.Len(t, got.Cores, 4)

	got, err = read(unreadable{smt().inMemory(), treePath("cpu/cpu0/topology")}, "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, filepath.FromSlash("cpu0/topology/core_cpus_list: permission denied"))
	require.Equal(t, []string{"0,4", "1,5", "2,6", "3,7"}, lists(got.Cores), "CPU 4 tells")

	got, err = read(unreadable{smt().inMemory(), treePath("cpu/cpu0/cache")}, "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, filepath.FromSlash("cpu0/cache: permission denied"))
	require.Len(t, got.L3, 2)
}

func TestForbiddenFolderIsNamed(t *testing.T) {
	if os.Geteuid() <= 0 {
		t.Skip("nothing is forbidden to the superuser, or the system has no such modes")
	}
	root := smt().write(t)
	sys := filepath.Join(root, "sys")
	require.NoError(t, os.Chmod(sys, 0))
	defer os.Chmod(sys, 0o777)
	got, err := ReadRoot(root)
	requireUsable(t, got)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, filepath.Join(sys, "devices", "system", "cpu"))
	require.Len(t, got.Nodes, 1)
}

func TestGarbageIsNamedAndTheRestIsUsed(t *testing.T) {
	root := smt().write(t)
	for _, c := range []struct {
		file, content string
		want          string               // part of the error
		lost          func(want *Topology) // what the sound topology loses
	}{
		{"cpu/present", "0-", `item "0-": not a CPU number or range`, nil},
		{"cpu/online", "7-0", "range 7-0 runs backwards", nil},
		{"node/online", "\xff", "not a CPU number or range", nil},
		{"cpu/cpu0/topology/core_cpus_list", "garbage", "not a CPU number or range", nil},
		{"cpu/cpu0/topology/core_cpus_list", "", "lack CPU 0 itself", nil},
		{"cpu/cpu0/topology/core_cpus_list", "1,5", "lack CPU 0 itself", nil},
		{"cpu/cpu1/topology/package_cpus_list", "0-99999999", "", nil}, // CPU 0's list covers it
		{"cpu/cpu0/topology/package_cpus_list", "0-99999999", "limit of 65536", nil},
		{"cpu/cpu0/cache/index3/level", "three", `"three" is no number`, nil},
		{"cpu/cpu0/cache/index3/level", "4294967299", `"4294967299" is no number`, nil}, // 3 in its lower half
		{"cpu/cpu0/cache/index3/shared_cpu_list", "0,,1", "not a CPU number", nil},
		{"node/node0/meminfo", "MemTotal: 12 MB", `MemTotal " 12 MB" is no number of kB`,
			func(want *Topology) { want.Nodes[0].MemoryBytes = 0 }},
		{"node/node0/meminfo", "", `MemTotal "" is no number of kB`,
			func(want *Topology) { want.Nodes[0].MemoryBytes = 0 }},
		{"node/node1/meminfo", "MemTotal: 9223372036854775807 kB", "is no number of kB",
			func(want *Topology) { want.Nodes[1].MemoryBytes = 0 }},
		{"node/node1/meminfo", strings.Repeat(" ", maxFile+1), "longer than 1048576 bytes",
			func(want *Topology) { want.Nodes[1].MemoryBytes = 0 }},
		{"node/node1/distance", "21", "1 distances for 2 nodes",
			func(want *Topology) { want.Nodes[1].Distances = nil }},
		{"node/node1/distance", "21 -10", `"-10" is no distance`,
			func(want *Topology) { want.Nodes[1].Distances = nil }},
		{"node/node1/distance", "65536 10", `"65536" is no distance`,
			func(want *Topology) { want.Nodes[1].Distances = nil }},
		{"node/node1/distance", "0 0", `"0" is no distance`,
			func(want *Topology) { want.Nodes[1].Distances = nil }},
		{"node/node1/cpulist", "2-3,6-x", "not a CPU number",
			func(want *Topology) {
				want.Nodes[1].CPUs = nil
				for _, cpu := range []int{2, 3, 6, 7} {
					want.CPUs[cpu].Node = -1
				}
			}},
	} {
		t.Run(c.file, func(t *testing.T) {
			want := readSound(t, smt())
			if c.lost != nil {
				c.lost(want)
			}
			file := filepath.Join(root, filepath.FromSlash(treePath(c.file)))
			require.NoError(t, os.WriteFile(file, []byte(c.content), 0o666))
			got, err := ReadRoot(root)
			require.NoError(t, os.WriteFile(file, []byte(smt()[c.file]), 0o666))
			requireUsable(t, got)
			require.Equal(t, want, got)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "numa: "+file+": ")
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestMaskStandsInForAGarbledList(t *testing.T) {
	got, err := read(smt().with(files{
		"node/node0/cpulist": "garbage",
		"node/node0/cpumap":  "33\n",
	}).inMemory(), "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, "cpulist")
	require.Equal(t, "0-1,4-5", got.Nodes[0].CPUs.String())
}

func TestOneNodeStandsInForNodesWithoutCPUs(t *testing.T) {
	f := smt()
	delete(f, "node/node0/cpulist")
	f["node/node1/cpulist"] = "\n"
	got, err := read(f.inMemory(), "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, "node0: no usable cpulist or cpumap")
	require.ErrorContains(t, err, "no node has a CPU that is online")
	require.Equal(t, []Node{{CPUs: got.Online, MemoryBytes: 3 << 20}}, got.Nodes)
}

func TestOnlineNodeWithoutFolderIsReported(t *testing.T) {
	got, err := read(smt().with(files{"node/online": "0-2\n"}).inMemory(), "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, "online nodes 2 have no folder")
	require.Len(t, got.Nodes, 2)
	require.Equal(t, 21, got.Distance(0, 1))
}

func TestGroupsNeverOverlap(t *testing.T) {
	got, err := read(smt().with(files{
		"node/node1/cpulist":               "0-3,6-7\n",
		"cpu/cpu1/topology/core_cpus_list": "0-1,5\n",
	}).inMemory(), "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, filepath.FromSlash("node1/cpulist: CPUs 0-1 are in another group already"))
	require.ErrorContains(t, err, filepath.FromSlash("cpu1/topology/core_cpus_list: CPUs 0 are in another group already"))
	require.Equal(t, "2-3,6-7", got.Nodes[1].CPUs.String())
	require.Equal(t, []string{"0,4", "1,5", "2,6", "3,7"}, lists(got.Cores))
}

func TestFoldersInPlaceOfFilesAreReported(t *testing.T) {
	f := smt()
	delete(f, "node/node0/meminfo")
	f["node/node0/meminfo/x"] = ""
	got, err := ReadRoot(f.write(t))
	requireUsable(t, got)
	require.ErrorContains(t, err, filepath.Join("node0", "meminfo")+": not a regular file")
	require.Zero(t, got.Nodes[0].MemoryBytes)
}

func TestLinksOutOfTheRootAreNotFollowed(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "meminfo")
	require.NoError(t, os.WriteFile(elsewhere, []byte("MemTotal: 1 kB\n"), 0o666))
	f := smt()
	delete(f, "node/node0/meminfo")
	root := f.write(t)
	link := filepath.Join(root, "sys", "devices", "system", "node", "node0", "meminfo")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Skip(err)
	}
	got, err := ReadRoot(root)
	requireUsable(t, got)
	require.ErrorContains(t, err, link)
	require.Zero(t, got.Nodes[0].MemoryBytes)

	// Links inside the root are how sysfs is built.
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(filepath.Join("..", "node1", "meminfo"), link))
	got, err = ReadRoot(root)
	require.NoError(t, err)
	require.EqualValues(t, 2<<20, got.Nodes[0].MemoryBytes)
}
