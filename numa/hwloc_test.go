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
	"strings"
	"testing"

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
			compare := func(field string, want, got any) {
				t.Helper()
				if reason, ok := hwlocDiffers[machine+"/"+field]; ok {
					require.NotEqual(t, want, got, "%s agrees now; it differed because %s", field, reason)
					return
				}
				require.Equal(t, want, got, field)
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

// matters picks what a topology could be read from out of a dump's devices,
// statistics, settings and first-level caches: tens of thousands of files that
// would take most of the time.
func matters(file string) bool {
	_, file, _ = strings.Cut(path.Clean(file), "/")
	for _, pattern := range []string{
		"sys/devices/system/cpu/*",
		"sys/devices/system/cpu/cpu*/online",
		"sys/devices/system/cpu/cpu*/topology/*",
		"sys/devices/system/cpu/cpu*/cache/index[2-9]/level",
		"sys/devices/system/cpu/cpu*/cache/index[2-9]/type",
		"sys/devices/system/cpu/cpu*/cache/index[2-9]/shared_cpu_*",
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
