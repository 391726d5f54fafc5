package numa

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forEach returns a file of every CPU from 0 to n-1.
func forEach(n int, file string, content func(cpu int) any) files {
	f := files{}
	for cpu := range n {
		f[fmt.Sprintf("cpu/cpu%d/%s", cpu, file)] = fmt.Sprintln(content(cpu))
	}
	return f
}

// chiplets is smt with two dies in each package, of a core each, that are a
// cluster and have an L2.
func chiplets() files {
	siblings := func(cpu int) any { return fmt.Sprintf("%d,%d", cpu%4, cpu%4+4) }
	return smt().
		with(forEach(8, "topology/die_id", func(cpu int) any { return cpu % 2 })).
		with(forEach(8, "topology/die_cpus_list", siblings)).
		with(forEach(8, "topology/cluster_id", func(cpu int) any { return cpu % 4 * 8 })).
		with(forEach(8, "topology/cluster_cpus_list", siblings)).
		with(forEach(8, "cache/index2/level", func(int) any { return 2 })).
		with(forEach(8, "cache/index2/type", func(int) any { return "Unified" })).
		with(forEach(8, "cache/index2/shared_cpu_list", siblings))
}

// bigLittle is a machine of four little cores, with an L2 in common, and two big
// ones.
func bigLittle() files {
	little := func(yes, no any) func(int) any {
		return func(cpu int) any {
			if cpu < 4 {
				return yes
			}
			return no
		}
	}
	own := func(cpu int) any { return cpu }
	return files{"cpu/present": "0-5\n", "cpu/online": "0-5\n"}.
		with(forEach(6, "topology/physical_package_id", func(int) any { return 0 })).
		with(forEach(6, "topology/package_cpus_list", func(int) any { return "0-5" })).
		with(forEach(6, "topology/cluster_id", little(56, 1144))).
		with(forEach(6, "topology/cluster_cpus_list", little("0-3", "4-5"))).
		with(forEach(6, "topology/core_id", own)).
		with(forEach(6, "topology/core_cpus_list", own)).
		with(forEach(6, "cache/index0/level", func(int) any { return 1 })).
		with(forEach(6, "cache/index0/type", func(int) any { return "Data" })).
		with(forEach(6, "cache/index2/level", func(int) any { return 2 })).
		with(forEach(6, "cache/index2/type", func(int) any { return "Unified" })).
		with(forEach(4, "cache/index2/shared_cpu_list", func(int) any { return "0-3" })).
		with(files{"cpu/cpu4/cache/index2/shared_cpu_list": "4\n", "cpu/cpu5/cache/index2/shared_cpu_list": "5\n"}).
		with(forEach(6, "cpu_capacity", little(446, 1024)))
}

func capacities(t *Topology) (all []int) {
	for _, cpu := range t.CPUs {
		all = append(all, cpu.Capacity)
	}
	return all
}

func TestDiesOfOnePackageAreApart(t *testing.T) {
	got := readSound(t, chiplets())
	for _, k := range []kind{dies, clusters, l2, cores} {
		require.Equal(t, []string{"0,4", "1,5", "2,6", "3,7"}, lists(*k.groups(got)), k.name)
	}
	require.Equal(t, []string{"0-1,4-5", "2-3,6-7"}, lists(got.Packages))
	require.Equal(t, CPU{ID: 7, Node: 1, Package: 1, Die: 3, Cluster: 3, Core: 3, L2: 3, L3: 1, SMT: 1}, got.CPUs[7])
}

func TestLittleCoresShareAnL2(t *testing.T) {
	got := readSound(t, bigLittle())
	require.Equal(t, []string{"0-3", "4-5"}, lists(got.Clusters))
	require.Equal(t, []string{"0-3", "4", "5"}, lists(got.L2))
	require.Empty(t, got.L3)
	require.Empty(t, got.Dies)
	require.Equal(t, []int{446, 446, 446, 446, 1024, 1024}, capacities(got))
}

// A kernel without dies or clusters says that each CPU is one of its own, without a number.
func TestDiesAndClustersWithoutANumberAreNone(t *testing.T) {
	own := func(cpu int) any { return cpu }
	for _, none := range []int{-1, 65535} {
		number := func(int) any { return none }
		f := smt().
			with(forEach(8, "topology/die_id", number)).
			with(forEach(8, "topology/die_cpus_list", own)).
			with(forEach(8, "topology/cluster_id", number)).
			with(forEach(8, "topology/cluster_cpus_list", own))
		got := readSound(t, f)
		require.Empty(t, got.Dies)
		require.Empty(t, got.Clusters)

		maps.DeleteFunc(f, func(file, _ string) bool { return strings.HasSuffix(file, "cpus_list") })
		got = readSound(t, f)
		require.Empty(t, got.Dies)
		require.Empty(t, got.Clusters)
	}
}

func TestPackagesNeedNoNumber(t *testing.T) {
	got := readSound(t, smt().with(forEach(8, "topology/physical_package_id", func(int) any { return -1 })))
	require.Equal(t, []string{"0-1,4-5", "2-3,6-7"}, lists(got.Packages))
}

func TestDieNumbersStartAgainInEachPackage(t *testing.T) {
	f := chiplets()
	maps.DeleteFunc(f, func(file, _ string) bool { return strings.HasSuffix(file, "cpus_list") })
	got := readSound(t, f)
	require.Equal(t, []string{"0,4", "1,5", "2,6", "3,7"}, lists(got.Dies))
	require.Equal(t, []string{"0,4", "1,5", "2,6", "3,7"}, lists(got.Clusters))
}

func TestUnreadableNumberLeavesTheList(t *testing.T) {
	want := readSound(t, chiplets())
	got, err := read(chiplets().with(files{"cpu/cpu2/topology/cluster_id": "none\n"}).inMemory(), "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, filepath.FromSlash(`cpu2/topology/cluster_id: "none" is no number`))
	require.Equal(t, want, got)
}

func TestInstructionCachesAreNoL2(t *testing.T) {
	f := chiplets().
		with(forEach(8, "cache/index2/type", func(int) any { return "Data" })).
		with(forEach(8, "cache/index4/level", func(int) any { return 2 })).
		with(forEach(8, "cache/index4/type", func(int) any { return "Instruction" })).
		with(forEach(8, "cache/index4/shared_cpu_list", func(int) any { return "0-7" }))
	require.Equal(t, []string{"0,4", "1,5", "2,6", "3,7"}, lists(readSound(t, f).L2))
}

func TestOneErrorForAFileThatIsReadTwice(t *testing.T) {
	_, err := read(chiplets().with(files{"cpu/cpu0/cache/index4/level": "x\n"}).inMemory(), "", nil)
	require.Equal(t, 1, strings.Count(err.Error(), "index4"), err)
}

func TestRankOfAThreadCountsTheOnlineOnes(t *testing.T) {
	ranks := func(t *Topology) (all []int) {
		for _, cpu := range t.CPUs {
			all = append(all, cpu.SMT)
		}
		return all
	}
	require.Equal(t, []int{0, 0, 0, 0, 1, 1, 1, 1}, ranks(readSound(t, smt())))
	require.Equal(t, []int{0, 0, 0, 0, 1, 1, 1}, ranks(readSound(t, smt().with(files{"cpu/online": "1-7\n"}))))

	f := smt()
	maps.DeleteFunc(f, func(file, _ string) bool { return strings.HasPrefix(path.Base(file), "core_") })
	require.Equal(t, make([]int, 8), ranks(readSound(t, f)))
}

func TestCapacityThatMakesNoSenseIsUnknown(t *testing.T) {
	for content, want := range map[string]string{
		"0":     "0 is not between 1 and 65536",
		"-5":    "-5 is not between 1 and 65536",
		"70000": "70000 is not between 1 and 65536",
		"big":   `"big" is no number`,
	} {
		got, err := read(bigLittle().with(files{"cpu/cpu4/cpu_capacity": content}).inMemory(), "", nil)
		requireUsable(t, got)
		require.ErrorContains(t, err, filepath.FromSlash("cpu4/cpu_capacity: ")+want)
		require.Equal(t, []int{446, 446, 446, 446, 0, 1024}, capacities(got))
	}

	f := bigLittle()
	delete(f, "cpu/cpu4/cpu_capacity")
	require.Equal(t, []int{446, 446, 446, 446, 0, 1024}, capacities(readSound(t, f)))
}

// highest_perf is a capacity only on machines with two types of cores, and only if the capacities
// that the kernel gives do not differ.
func TestCapacitiesOfHybridX86(t *testing.T) {
	performance := func(big, little int) files {
		return forEach(6, "acpi_cppc/highest_perf", func(cpu int) any {
			if cpu < 4 {
				return little
			}
			return big
		})
	}
	hybrid := files{"/sys/devices/cpu_core/cpus": "4-5\n", "/sys/devices/cpu_atom/cpus": "0-3\n"}
	full := forEach(6, "cpu_capacity", func(int) any { return 1024 })
	none := bigLittle()
	maps.DeleteFunc(none, func(file, _ string) bool { return path.Base(file) == "cpu_capacity" })
	for about, c := range map[string]struct {
		files       files
		little, big int
	}{
		"nothing known":                     {none, 0, 0},
		"two types, nothing else":           {none.with(hybrid), 0, 0},
		"ranked cores of one type":          {none.with(performance(255, 231)), 0, 0},
		"two types, the kernel knows":       {bigLittle().with(hybrid).with(performance(64, 32)), 446, 1024},
		"two types, the kernel has none":    {none.with(hybrid).with(performance(64, 40)), 640, 1024},
		"two types, the kernel has one":     {none.with(full).with(hybrid).with(performance(64, 40)), 640, 1024},
		"two types, firmware says the same": {none.with(hybrid).with(performance(255, 255)), 0, 0},
		"two types, the same everywhere":    {none.with(full).with(hybrid).with(performance(255, 255)), 1024, 1024},
		"two types, one hardly runs":        {none.with(hybrid).with(performance(65536, 1)), 1, 1024},
	} {
		t.Run(about, func(t *testing.T) {
			require.Equal(t, []int{c.little, c.little, c.little, c.little, c.big, c.big}, capacities(readSound(t, c.files)))
		})
	}
}

func TestNodeWhoseLastCPUIsOfflineKeepsItsMemory(t *testing.T) {
	for _, cpulist := range []string{"2-3,6-7\n", "\n"} {
		got := readSound(t, smt().with(files{"cpu/online": "0-1,4-5\n", "node/node1/cpulist": cpulist}))
		require.Len(t, got.Nodes, 2)
		require.Equal(t, Node{ID: 1, MemoryBytes: 2 << 20, Distances: []int{21, 10}}, got.Nodes[1])
		require.Equal(t, "0-7", got.Complete.String())
		require.Equal(t, -1, got.NodeOf(6))
	}
}

func TestOfflineNodesAreLeftOut(t *testing.T) {
	got := readSound(t, smt().with(files{
		"cpu/online": "0-1,4-5\n", "node/online": "0\n", "node/node0/distance": "10\n", "node/node1/cpulist": "\n",
	}))
	require.Equal(t, []Node{{ID: 0, CPUs: Set{0, 1, 4, 5}, MemoryBytes: 1 << 20, Distances: []int{10}}}, got.Nodes)
}

// opens counts how many files are opened.
type opens struct {
	fs.FS
	n int
}

func (o *opens) Open(name string) (fs.File, error) {
	o.n++
	return o.FS.Open(name)
}

// 4096 CPUs: 8 nodes of 512, 2 threads to a core, the second ones numbered from
// 2048, an L2 for 2 cores and an L3 for 16.
func TestMoreThan1024CPUs(t *testing.T) {
	const cpus, nodes = 4096, 8
	const half, perNode = cpus / 2, cpus / 2 / nodes
	list := func(n int) func(cpu int) any {
		return func(cpu int) any {
			first := cpu % half / n * n
			return fmt.Sprintf("%d-%d,%d-%d", first, first+n-1, first+half, first+half+n-1)
		}
	}
	f := files{"cpu/present": "0-4095\n", "cpu/online": "0-4095\n"}.
		with(forEach(cpus, "topology/core_cpus_list", list(1))).
		with(forEach(cpus, "topology/cluster_cpus_list", list(2))).
		with(forEach(cpus, "topology/die_cpus_list", list(perNode/2))).
		with(forEach(cpus, "topology/package_cpus_list", list(perNode))).
		with(forEach(cpus, "cache/index2/level", func(int) any { return 2 })).
		with(forEach(cpus, "cache/index2/shared_cpu_list", list(2))).
		with(forEach(cpus, "cache/index3/level", func(int) any { return 3 })).
		with(forEach(cpus, "cache/index3/shared_cpu_list", list(16))).
		with(forEach(cpus, "cpu_capacity", func(cpu int) any { return 1024 - cpu%half/perNode }))
	for node := range nodes {
		words := make([]string, cpus/32)
		for i := range words {
			words[len(words)-1-i] = "00000000"
			if i%(half/32)/(perNode/32) == node {
				words[len(words)-1-i] = "ffffffff"
			}
		}
		f[fmt.Sprintf("node/node%d/cpumap", node)] = strings.Join(words, ",") + "\n"
		f[fmt.Sprintf("node/node%d/distance", node)] = strings.Repeat("20 ", nodes) + "\n"
	}
	counted := &opens{FS: f.packed(t)}
	got, err := read(counted, "", nil)
	require.Less(t, counted.n, 9*cpus, "at most a few files for each CPU are opened")
	require.NoError(t, err)
	requireUsable(t, got)
	for k, want := range map[*[]Set]int{
		&got.Cores: half, &got.Clusters: half / 2, &got.L2: half / 2, &got.L3: half / 16,
		&got.Dies: nodes * 2, &got.Packages: nodes,
	} {
		require.Len(t, *k, want)
	}
	require.Equal(t, "1792-2047,3840-4095", got.Nodes[7].CPUs.String())
	require.Equal(t, CPU{
		ID: 4095, Node: 7, Package: 7, Die: 15, Cluster: 1023, Core: 2047, L2: 1023, L3: 127, SMT: 1, Capacity: 1017,
	}, got.CPUs[4095])
	require.Equal(t, "0-4095", got.Allowed.String())
}

// TestACachesListCountsWhereItsMapDoesNotFit: of two packages with an L3 each, a map may have the CPUs of both, or
// one of the other's. Where the list does not fit either, the error says so.
func TestACachesListCountsWhereItsMapDoesNotFit(t *testing.T) {
	both := []string{"0-1,4-5", "2-3,6-7"}
	for _, masks := range [][2]string{{"ff", "cc"}, {"33", "ff"}, {"ff", "ff"}, {"37", "cc"}, {"33", "cd"}, {"33", "cc"}} {
		f := smt()
		for cpu := range 8 {
			f[fmt.Sprintf("cpu/cpu%d/cache/index3/shared_cpu_map", cpu)] = masks[cpu%4/2] + "\n"
		}
		got := readSound(t, f)
		require.Equal(t, both, lists(got.L3), "%v", masks)

		for cpu := range 8 {
			f[fmt.Sprintf("cpu/cpu%d/cache/index3/shared_cpu_list", cpu)] = "0-7\n"
		}
		got, err := read(f.inMemory(), "", nil)
		requireUsable(t, got)
		if masks == [2]string{"33", "cd"} {
			require.ErrorContains(t, err, "CPUs 0 are in another group already")
		}
	}
}
