package numa

import (
	"archive/tar"
	"compress/bzip2"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hwlocNode is what hwloc says of a node, and hwlocMachine of a machine.
type hwlocNode struct {
	ID     int    `json:"id"`
	CPUs   string `json:"cpus"`
	Memory int64  `json:"memory_bytes"`
}

type hwlocMachine struct {
	Root      string      `json:"root"`
	Nodes     []hwlocNode `json:"nodes"`
	Packages  []string    `json:"packages"`
	Cores     []string    `json:"cores"`
	L3        []string    `json:"l3"`
	Complete  string      `json:"complete"`
	Online    string      `json:"online"`
	Allowed   string      `json:"allowed"`
	Distances *struct {
		Nodes  []int   `json:"nodes"`
		Matrix [][]int `json:"matrix"`
	} `json:"distances"`
}

// hwlocDiffers lists, as machine/field, where the topology differs from hwloc's
// on purpose.
var hwlocDiffers = map[string]string{
	"fakeheterocpunuma/nodes": "made-up nodes 3 to 5 overlap: hwloc drops 4 and 5 where we leave them the " +
		"rest of their CPUs, and it gives node 2, which has none, those of the nodes that are closest",
	"fakeheterocpunuma/distances": "hwloc dropped two of the nodes",
	"fakememinitiators-1np2c+1npp+gi/nodes": "hwloc gives nodes without CPUs those of the nodes whose access " +
		"is best; the system does not count them as local",
	"64amd64-4s2n4ca2co/cores": "pairs of Bulldozer cores share a front end and a floating-point unit: the " +
		"kernel calls them threads of a core, hwloc two cores",
}

// hwlocLevels are the levels of a machine that hwloc's JSON does not have: how many CPUs the dies,
// the clusters and the L2 caches have, and each capacity with its CPUs.
type hwlocLevels struct {
	dies, clusters, l2 []int
	capacities         map[int]string
}

// times is n groups of a size.
func times(n, size int) []int { return slices.Repeat([]int{size}, n) }

// hwlocMore are the machines whose dies, clusters, L2 caches and capacities were looked up.
var hwlocMore = map[string]hwlocLevels{
	// Made up to have 2 packages of 4 dies by CPUID leaf 1f, though the CPUs'
	// files say 4 packages of 2.
	"fakecpuid1f-64intel64-2p4d2n2c2t": {dies: times(8, 8), l2: times(32, 2)},
	// A kernel that knows of dies, and packages that are one die each.
	"32intel64-2p8co2t+8ve": {dies: times(2, 16), l2: times(16, 2)},
	// Two clusters of 5 Cortex-A725 and 5 Cortex-X925. Those of the second are
	// clocked a little higher, and one of them is the best of all.
	"nvidia-dgx-gb10": {clusters: times(2, 10), l2: times(20, 1), capacities: map[int]string{
		718: "0-4", 997: "5-9", 731: "10-14", 1017: "15-18", 1024: "19",
	}},
	// Made up: no kernel shows more than 1024, but it does no harm.
	"fakeheterocpunuma": {capacities: map[int]string{234: "0-11", 1025: "12-23"}},
	// Two modules of two cores in each package share an L2.
	"8em64t-2s2ca2c": {l2: times(4, 2)},
	// The folders of some caches are gone: CPUs 0 and 4 have no L2.
	"8em64t-2s4c-asymcaches": {l2: times(3, 2)},
	// The two halves of a Bulldozer module.
	"64amd64-4s2n4ca2co": {l2: times(32, 2)},
	// Two cores of two threads.
	"64fake-4n2s2ca2c2t": {l2: times(16, 4)},
	// Pairs of cores, below an L3 for six.
	"96em64t-4no4pa3ca2co": {l2: times(48, 2)},
	// An L2 for data in each core; one for instructions does not count.
	"8ia64-2n2s2c": {l2: times(8, 1)},
	"8ia64-2s2c2t": {l2: times(4, 2)},
	"16ia64-8n2s":  {l2: times(16, 1)},
	// One L2 for both cores, and one for both threads.
	"2i386-2c-nohugepage":        {l2: times(1, 2)},
	"2i386-2t-hugepagesizecount": {l2: times(1, 2)},
	// Two threads to a core; then one core is offline, and one thread of two.
	"16em64t-4s2c2t":          {l2: times(8, 2)},
	"16em64t-4s2c2t-offlines": {l2: []int{2, 2, 2, 2, 1, 2, 1}},
	// An L2 for each core.
	"16amd64-4n4c-cgroup-distance-merge": {l2: times(16, 1)},
	"16amd64-8n2c":                       {l2: times(16, 1)},
	"2pa-pcidomain32bits":                {l2: times(2, 1)},
	"32em64t-2n8c+dax+nvme+mic+dimms":    {l2: times(16, 1)},
	"40intel64-2g2n4c+pcilocality":       {l2: times(40, 1)},
	// None of them.
	"128ia64-17n4s2c":                 {},
	"20s390-2g6s4c":                   {},
	"256ia64-64n2s2c":                 {},
	"2arm-2c":                         {},
	"4fake-4gr1nu1pu":                 {},
	"fakememinitiators-1np2c+1npp+gi": {},
	"fakepcilocalities":               {},
}

// levelsOf returns what hwlocMore has of a machine.
func levelsOf(t *Topology) (l hwlocLevels) {
	sizes := func(groups []Set) (all []int) {
		for _, group := range groups {
			all = append(all, group.Len())
		}
		return all
	}
	l.dies, l.clusters, l.l2 = sizes(t.Dies), sizes(t.Clusters), sizes(t.L2)
	same := map[int]Set{}
	for _, cpu := range t.CPUs {
		same[cpu.Capacity] = append(same[cpu.Capacity], cpu.ID)
	}
	for capacity, cpus := range same {
		if capacity > 0 {
			if l.capacities == nil {
				l.capacities = map[int]string{}
			}
			l.capacities[capacity] = cpus.String()
		}
	}
	return l
}

// The folder HEIST_HWLOC_DUMPS has the /sys and /proc of machines, packed as
// NAME.tar.bz2, and what hwloc makes of them as NAME.json.
func TestHwlocAgreesAboutItsMachines(t *testing.T) {
	dumps := os.Getenv("HEIST_HWLOC_DUMPS")
	if dumps == "" {
		t.Skip("HEIST_HWLOC_DUMPS is not set")
	}
	files, err := filepath.Glob(filepath.Join(dumps, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		base := strings.TrimSuffix(file, ".json")
		machine := filepath.Base(base)
		t.Run(machine, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var want hwlocMachine
			require.NoError(t, json.Unmarshal(text, &want))

			got, err := ReadRoot(filepath.Join(unpack(t, base+".tar.bz2"), want.Root))
			t.Logf("%v\n%v", got, err)
			requireUsable(t, got)
			requireRoundTrip(t, got)
			compare := func(field string, want, got any) {
				t.Helper()
				if reason, ok := hwlocDiffers[machine+"/"+field]; ok {
					assert.NotEqual(t, want, got, "%s agrees now; it differed because %s", field, reason)
					return
				}
				assert.Equal(t, want, got, field) // and go on with the other fields
			}
			if want, known := hwlocMore[machine]; known {
				compare("levels", want, levelsOf(got))
			}
			var nodes []hwlocNode
			for _, n := range got.Nodes {
				nodes = append(nodes, hwlocNode{n.ID, n.CPUs.String(), n.MemoryBytes})
			}
			compare("nodes", want.Nodes, nodes)
			compare("packages", want.Packages, lists(got.Packages))
			compare("cores", want.Cores, lists(got.Cores))
			compare("l3", want.L3, lists(got.L3))
			compare("complete", want.Complete, got.Complete.String())
			compare("online", want.Online, got.Online.String())
			compare("allowed", want.Allowed, got.Allowed.String())

			// hwloc leaves out the distances of a single node.
			var ids []int
			var matrix [][]int
			for _, n := range got.Nodes {
				ids = append(ids, n.ID)
				matrix = append(matrix, n.Distances)
			}
			if want.Distances != nil {
				compare("distances", want.Distances.Matrix, matrix)
				if _, differs := hwlocDiffers[machine+"/distances"]; !differs {
					require.Equal(t, want.Distances.Nodes, ids)
				}
			} else if len(got.Nodes) > 1 {
				compare("distances", make([][]int, len(got.Nodes)), matrix)
			}
		})
	}
}

// unpack unpacks the files of an archive that matter into a folder of its own.
func unpack(t *testing.T, archive string) string {
	packed, err := os.Open(archive)
	require.NoError(t, err)
	defer packed.Close()
	dir := t.TempDir()
	files := tar.NewReader(bzip2.NewReader(packed))
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		require.NoError(t, err)
		if header.Typeflag != tar.TypeReg || !matters(header.Name) {
			continue
		}
		require.True(t, filepath.IsLocal(header.Name), header.Name)
		at := filepath.Join(dir, header.Name)
		content, err := io.ReadAll(files)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o777))
		require.NoError(t, os.WriteFile(at, content, 0o666))
	}
}

// matters reports whether a topology could be read from a file. The rest of a dump is devices,
// statistics, settings and first-level caches: tens of thousands of files that would take most of
// the time.
func matters(file string) bool {
	_, file, _ = strings.Cut(path.Clean(file), "/")
	for _, pattern := range []string{
		"sys/devices/system/cpu/*",
		"sys/devices/system/cpu/cpu*/online",
		"sys/devices/system/cpu/cpu*/topology/*",
		"sys/devices/system/cpu/cpu*/cpu_capacity",
		"sys/devices/system/cpu/cpu*/cache/index[1-9]/level",
		"sys/devices/system/cpu/cpu*/cache/index[1-9]/type",
		"sys/devices/system/cpu/cpu*/cache/index[1-9]/shared_cpu_*",
		"sys/devices/system/node/*",
		"sys/devices/system/node/node*/cpu*",
		"sys/devices/system/node/node*/meminfo",
		"sys/devices/system/node/node*/distance",
		"proc/*",
		"proc/self/*",
	} {
		if matched, _ := path.Match(pattern, file); matched {
			return true
		}
	}
	return strings.HasSuffix(file, "cpus") || strings.HasSuffix(file, "cpus.effective")
}
