package numa

import (
	"encoding/json"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// everything is a machine that has every file that is read.
func everything() files {
	f := chiplets().with(bigLittleTypes()).with(files{
		"cpu/possible":                                 "0-7\n",
		"cpu/cpu1/online":                              "1\n",
		"/proc/self/cpuset":                            "/service\n",
		"/proc/self/cgroup":                            "0::/service\n",
		"/proc/mounts":                                 "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
		"/sys/fs/cgroup/service/cpuset.cpus":           "0-7\n",
		"/sys/fs/cgroup/service/cpuset.cpus.effective": "1-7\n",
	})
	return f
}

// bigLittleTypes makes the first core of each package of smt a big one, by way
// of the CPPC.
func bigLittleTypes() files {
	return files{"/sys/devices/cpu_atom/cpus": "1,3,5,7\n"}.
		with(forEach(8, "cpu_capacity", func(int) any { return 1024 })).
		with(forEach(8, "acpi_cppc/highest_perf", func(cpu int) any { return 64 - cpu%2*24 }))
}

// parts has what the files tell, by a pattern in their names. Each function clears what its files
// tell.
var parts = map[string]func(t *Topology){
	"package": func(t *Topology) { forget(t, packages) },
	"die_":    func(t *Topology) { forget(t, dies) },
	"cluster": func(t *Topology) { forget(t, clusters) },
	"core_": func(t *Topology) {
		forget(t, cores)
		for i := range t.CPUs {
			t.CPUs[i].SMT = 0
		}
	},
	"index2": func(t *Topology) { forget(t, l2) },
	"index3": func(t *Topology) { forget(t, l3) },
	"capacity": func(t *Topology) {
		for i := range t.CPUs {
			t.CPUs[i].Capacity = 0
		}
	},
	"cpulist": func(t *Topology) {
		for i := range t.Nodes {
			t.Nodes[i].CPUs = nil
		}
		for i := range t.CPUs {
			t.CPUs[i].Node = 0
		}
	},
	"meminfo": func(t *Topology) {
		for i := range t.Nodes {
			t.Nodes[i].MemoryBytes = 0
		}
	},
	"distance": func(t *Topology) {
		for i := range t.Nodes {
			t.Nodes[i].Distances = nil
		}
	},
	"allowed": func(t *Topology) { t.Allowed = nil },
}

func forget(t *Topology, k kind) {
	*k.groups(t) = nil
	for i := range t.CPUs {
		*k.index(&t.CPUs[i]) = -1
	}
}

// partOf returns the part that a file tells, or "" if other files can stand in for it.
func partOf(file string) string {
	switch {
	case strings.Contains(file, "cgroup") || strings.Contains(file, "cpuset") || strings.Contains(file, "mounts"):
		return "allowed"
	case strings.Contains(file, "highest_perf") || strings.Contains(file, "cpu_atom"):
		return "capacity"
	}
	for part := range parts {
		if strings.Contains(file, part) {
			return part
		}
	}
	return ""
}

// replaced is a tree in which one file comes from another tree.
type replaced struct {
	fs.FS
	file string
	by   fs.FS
}

func (r replaced) Open(file string) (fs.File, error) {
	if file == r.file {
		return r.by.Open(file)
	}
	return r.FS.Open(file)
}

// brokenTrees returns trees of a machine in which one file is broken, by how it is broken.
func brokenTrees(machine fs.FS, file string) map[string]fs.FS {
	by := func(f files) fs.FS { return replaced{machine, treePath(file), f.inMemory()} }
	trees := map[string]fs.FS{
		"a folder":  by(files{path.Join(file, "x"): ""}),
		"forbidden": unreadable{machine, treePath(file)},
	}
	for _, content := range []string{
		"garbage\n", "\xff\x00", "-", "0-99999999\n", "1,", "-7\n", strings.Repeat("1", maxFile+1),
	} {
		trees[content[:min(len(content), 10)]] = by(files{file: content})
	}
	return trees
}

func TestOneBrokenFileIsNamedAndCostsOnlyWhatItTells(t *testing.T) {
	machine := everything().packed(t)
	sound := readSound(t, everything())
	for file := range everything() {
		for how, tree := range brokenTrees(machine, file) {
			got, err := read(tree, "", nil)
			if reflect.DeepEqual(sound, got) {
				continue
			}
			requireUsable(t, got)
			require.ErrorContains(t, err, filepath.FromSlash(treePath(file))+": ", how)
			want := readSound(t, everything())
			if part := partOf(file); part != "" {
				parts[part](want)
				parts[part](got)
			}
			require.Equal(t, want, got, "%s: %s", file, how)
		}
	}
}

func TestOneMissingFileCostsOnlyWhatItTells(t *testing.T) {
	machine := everything()
	for file := range machine {
		rest := maps.Clone(machine)
		delete(rest, file)
		want := readSound(t, machine)
		got, _ := read(rest.inMemory(), "", nil)
		requireUsable(t, got)
		if part := partOf(file); part != "" {
			parts[part](want)
			parts[part](got)
		}
		require.Equal(t, want, got, file)
	}
}

// counted is a tree that counts the files that are opened.
type counted struct {
	fs.FS
	opened *int
}

func (c counted) Open(file string) (fs.File, error) {
	*c.opened++
	return c.FS.Open(file)
}

// readBounded reads a tree and checks that the work and memory it takes are in proportion to the
// number of files: no file may cause more.
func readBounded(t testing.TB, f files) (*Topology, error) {
	opened := 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := read(counted{f.packed(t), &opened}, "", nil)
	runtime.ReadMemStats(&after)
	size := uint64(0)
	for _, content := range f {
		size += uint64(len(content))
	}
	// The largest set is 1/2 MiB, the CPUs of a topology 5 MiB, and sets are
	// built by append.
	require.Less(t, after.TotalAlloc-before.TotalAlloc, 32*size+uint64(len(f)+16)*(4<<20))
	// Each CPU may be asked for each kind of group, and maxGroups for cpusets.
	require.Less(t, opened, 100*(len(f)+2)+10*maxGroups)
	return got, err
}

// encode turns a tree into one string, and decode turns it back: names and contents in turn, each
// ended by a zero byte.
func encode(f files) string {
	var b strings.Builder
	for _, file := range slices.Sorted(maps.Keys(f)) {
		content := strings.ReplaceAll(f[file], "\x00", " ")
		b.WriteString(file + "\x00" + content + "\x00")
	}
	return b.String()
}

func decode(s string) files {
	f := files{}
	fields := strings.Split(s, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		if fs.ValidPath(treePath(fields[i])) {
			f[fields[i]] = fields[i+1]
		}
	}
	return f
}

func FuzzReadRoot(f *testing.F) {
	nodeless := everything()
	maps.DeleteFunc(nodeless, func(file, _ string) bool { return strings.HasPrefix(file, "node/") })
	for _, tree := range []files{smt(), chiplets(), bigLittle(), everything(), nodeless, fixture(f, "2n4c"), fixture(f, "2d4c"), fixture(f, "6c-biglittle")} {
		f.Add(encode(tree))
	}
	for _, tree := range []files{
		{},
		{"cpu/present": "0-99999999"},
		{"cpu/present": "0-65535"},
		{"cpu/online": "0-65535", "node/node0/cpulist": "0-65535", "node/node1/cpulist": "0-65535"},
		{"cpu/cpu0/x": "", "cpu/cpu1/x": "", "cpu/cpu65535/online": "0"},
		{"cpu/online": "0", "cpu/cpu0/topology/core_cpus": "ffffffff,ffffffff"},
		{"cpu/online": "0-3", "cpu/cpu0/cache/index9/level": "2", "cpu/cpu0/cache/index9/shared_cpu_list": "0-3"},
		{"/proc/self/cpuset": "/../../a", "/proc/mounts": "a /b cpuset c\n"},
	} {
		f.Add(encode(tree))
	}
	f.Fuzz(func(t *testing.T, tree string) {
		got, _ := readBounded(t, decode(tree))
		requireUsable(t, got)
		if len(got.CPUs) < 1000 { // more CPUs take most of the time, and are no different
			requireRoundTrip(t, got)
		}
	})
}

// fixture returns the files of a folder of testdata.
func fixture(t testing.TB, name string) files {
	f := files{}
	tree := os.DirFS(filepath.Join("testdata", name))
	require.NoError(t, fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var content []byte
			content, err = fs.ReadFile(tree, file)
			f["/"+file] = string(content)
		}
		return err
	}))
	return f
}

// FuzzGarbageFile replaces one file of a sound machine.
func FuzzGarbageFile(f *testing.F) {
	machine := everything().packed(f)
	all := slices.Sorted(maps.Keys(everything()))
	for i := range all {
		for _, garbage := range []string{"", "0", "-1", "garbage", "0-4095", "\x00", "10 20 30"} {
			f.Add(uint(i), garbage)
		}
	}
	f.Fuzz(func(t *testing.T, i uint, garbage string) {
		broken := all[i%uint(len(all))]
		got, _ := read(replaced{machine, treePath(broken), files{broken: garbage}.inMemory()}, "", nil)
		requireUsable(t, got)
		part := partOf(broken)
		if part == "" {
			return // a list of CPUs or nodes may change everything
		}
		want, err := read(machine, "", nil)
		require.NoError(t, err)
		for _, topology := range []*Topology{want, got} {
			parts[part](topology)
			if path.Base(broken) == "level" { // an L2 instead of an L3, say
				forget(topology, l2)
				forget(topology, l3)
			}
		}
		require.Equal(t, want, got)
	})
}

func FuzzTopologyJSON(f *testing.F) {
	for _, tree := range []files{smt(), chiplets(), bigLittle(), everything(), {"cpu/online": "0", "cpu/cpu0/x": ""}} {
		got, err := read(tree.inMemory(), "", nil)
		require.NoError(f, err)
		text, err := json.Marshal(got)
		require.NoError(f, err)
		f.Add(string(text))
	}
	for _, text := range []string{
		"", "null", "{}", "[]", `{"online":"0-65535"}`,
		`{"online":"0","complete":"0","allowed":"0","nodes":[{"cpus":"0"}],"cpus":[{"package":-1,"die":-1,"cluster":-1,"core":-1,"l2":-1,"l3":-1}]}`,
		`{"online":"0","complete":"0","allowed":"0","nodes":[{"cpus":"0","distances":[]}],"groups":{"l2":["0","0"]},"cpus":[{}]}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var got Topology
		err := json.Unmarshal([]byte(text), &got)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1000*len(text)+32<<20))
		if err != nil {
			require.Equal(t, Topology{}, got)
			return
		}
		requireUsable(t, &got)
		requireRoundTrip(t, &got)
		for _, n := range []int{math.MinInt, -1, 0, 1, len(got.Nodes), math.MaxInt} {
			got.NodeOf(n)
			got.Distance(n, n)
			got.Distance(0, n)
			got.Distance(n, 0)
		}
	})
}
