package drawing

import (
	"archive/tar"
	"bytes"
	"compress/bzip2"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/numa"
)

const fixtures = "../../numa/testdata"

// requireDrawn requires that the tree and the picture hold every CPU once, and that every
// box is inside of the one around it and beside its neighbours.
func requireDrawn(t *testing.T, topology *numa.Topology) *Tree {
	t.Helper()
	tree := New(topology)

	var inTree []int
	var walk func(b *Box)
	walk = func(b *Box) {
		if b.Kind == CPU {
			inTree = append(inTree, b.Number)
			require.Empty(t, b.Inside)
			require.Equal(t, topology.Online.Contains(b.Number), b.Mark != IsOffline)
			require.Equal(t, topology.Allowed.Contains(b.Number), b.Mark == Usable)
		}
		for _, inner := range b.Inside {
			require.Equal(t, len(inner.CPUs), common(inner.CPUs, b.CPUs), "%s in %s", inner.Label(), b.Label())
			walk(inner)
		}
	}
	walk(tree.Root)
	slices.Sort(inTree)
	require.Equal(t, []int(topology.Complete), inTree)

	var picture bytes.Buffer
	require.NoError(t, tree.SVG(&picture))
	require.Equal(t, []int(topology.Complete), cpusOf(t, &picture))

	root := newPlanner(topology).layout(tree.Root)
	requireInOrder(t, root)

	require.Equal(t, []int(topology.Complete), cpusOf(t, strings.NewReader(tree.Figure(map[int]string{0: "worker <0>"}))))
	return tree
}

// cpusOf returns the CPUs of a picture, sorted.
func cpusOf(t *testing.T, picture io.Reader) []int {
	var cpus []int
	for decoder := xml.NewDecoder(picture); ; {
		token, err := decoder.Token()
		if err == io.EOF {
			slices.Sort(cpus)
			return cpus
		}
		require.NoError(t, err)
		start, _ := token.(xml.StartElement)
		for _, attribute := range start.Attr {
			if number, is := strings.CutPrefix(attribute.Value, "cpu"); is && attribute.Name.Local == "id" {
				cpu, err := strconv.Atoi(number)
				require.NoError(t, err)
				cpus = append(cpus, cpu)
			}
		}
	}
}

// requireInOrder requires that what is inside an area stays inside, below its label, and
// overlaps with nothing beside it.
func requireInOrder(t *testing.T, a *area) {
	t.Helper()
	if a.box.Kind != CPU {
		require.LessOrEqual(t, width(a.box.Label(), labelSize-1), a.w, a.box.Label())
	}
	for i, inner := range a.inside {
		require.GreaterOrEqual(t, inner.x, padding)
		require.GreaterOrEqual(t, inner.y, padding+lineSize, "the label of %s is covered", a.box.Label())
		require.LessOrEqual(t, inner.x+inner.w, a.w-padding)
		require.LessOrEqual(t, inner.y+inner.h, a.h-padding)
		for _, other := range a.inside[:i] {
			require.True(t, inner.x >= other.x+other.w || other.x >= inner.x+inner.w ||
				inner.y >= other.y+other.h || other.y >= inner.y+inner.h,
				"%s overlaps %s", inner.box.Label(), other.box.Label())
		}
		requireInOrder(t, inner)
	}
}

func TestEveryCPUOfEveryFixtureIsDrawnOnce(t *testing.T) {
	machines, err := filepath.Glob(fixtures + "/*")
	require.NoError(t, err)
	require.NotEmpty(t, machines)
	for _, machine := range machines {
		t.Run(filepath.Base(machine), func(t *testing.T) {
			topology, _ := numa.ReadRoot(machine) // can be used, whatever is wrong with it
			requireDrawn(t, topology)
		})
	}
}

// The folder HEIST_HWLOC_DUMPS has the /sys and /proc of machines, packed as NAME.tar.bz2.
func TestEveryCPUOfEveryDumpIsDrawnOnce(t *testing.T) {
	dumps := os.Getenv("HEIST_HWLOC_DUMPS")
	if dumps == "" {
		t.Skip("HEIST_HWLOC_DUMPS is not set")
	}
	archives, err := filepath.Glob(filepath.Join(dumps, "*.tar.bz2"))
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, archive := range archives {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			t.Parallel()
			topology, _ := numa.ReadRoot(unpack(t, archive))
			require.Greater(t, len(topology.Online), 1)
			tree := requireDrawn(t, topology)

			root := newPlanner(topology).layout(tree.Root)
			assert.Less(t, root.w, 4*root.h, "too wide to look at")
			assert.Less(t, root.h, 4*root.w, "too high to look at")
		})
	}
}

// telling picks the files that tell about CPUs, nodes and the process out of tens of
// thousands.
var telling = regexp.MustCompile(`^sys/devices/system/(cpu|node)/([a-z]+|cpu\d+/(online|cpu_capacity|(topology|cache/index\d+|acpi_cppc)/\w+)|node\d+/(cpu\w+|meminfo|distance))$|^proc/(\w+|self/\w+)$|cpus(\.effective)?$`)

// unpack unpacks such files from an archive, and returns the one folder in it.
func unpack(t *testing.T, archive string) string {
	packed, err := os.Open(archive)
	require.NoError(t, err)
	defer packed.Close()
	dir := t.TempDir()
	root := ""
	for files := tar.NewReader(bzip2.NewReader(packed)); ; {
		header, err := files.Next()
		if err == io.EOF {
			return filepath.Join(dir, root)
		}
		require.NoError(t, err)
		name := filepath.Clean(header.Name)
		top, inside, _ := strings.Cut(filepath.ToSlash(name), "/")
		if header.Typeflag != tar.TypeReg || !telling.MatchString(inside) {
			continue
		}
		require.True(t, filepath.IsLocal(name), name)
		root = top
		content, err := io.ReadAll(files)
		require.NoError(t, err)
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o777))
		require.NoError(t, os.WriteFile(at, content, 0o666))
	}
}

// split cuts CPUs into consecutive or interleaved groups, and leaves some out.
func split(r *rand.Rand, cpus numa.Set) []numa.Set {
	groups := make([]numa.Set, 1+r.IntN(8))
	interleave := r.IntN(2) == 0
	for i, cpu := range cpus {
		group := i * len(groups) / len(cpus)
		switch {
		case r.IntN(20) == 0:
			continue
		case interleave:
			group = i % len(groups)
		}
		groups[group] = append(groups[group], cpu)
	}
	return slices.DeleteFunc(groups, func(s numa.Set) bool { return len(s) == 0 })
}

func TestGroupsThatFitNowhereDropNoCPU(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	notes := 0
	for range 300 {
		topology := &numa.Topology{}
		for cpu := range 1 + r.IntN(40) {
			topology.Complete = append(topology.Complete, cpu)
			if cpu == 0 || r.IntN(10) > 0 {
				topology.Online = append(topology.Online, cpu)
				topology.CPUs = append(topology.CPUs, numa.CPU{ID: cpu, Node: -1, Package: -1, Die: -1, Cluster: -1, Core: -1, L2: -1, L3: -1})
			}
		}
		topology.Allowed = topology.Online[:1+r.IntN(len(topology.Online))]
		for i, set := range split(r, topology.Online) {
			topology.Nodes = append(topology.Nodes, numa.Node{ID: 2 * i, CPUs: set, MemoryBytes: 1 << 30})
		}
		topology.Nodes = append(topology.Nodes, numa.Node{ID: 99})
		for _, sets := range []*[]numa.Set{
			&topology.Packages, &topology.Dies, &topology.L3, &topology.Clusters, &topology.L2, &topology.Cores,
		} {
			*sets = split(r, topology.Online)
		}
		notes += len(requireDrawn(t, topology).Notes)
	}
	assert.Positive(t, notes)
}

// made returns a machine with CPUs 0 to n-1 and nothing else.
func made(n int) *numa.Topology {
	topology := &numa.Topology{}
	for cpu := range n {
		topology.Online = append(topology.Online, cpu)
		topology.CPUs = append(topology.CPUs, numa.CPU{ID: cpu, Node: -1, Package: -1, Die: -1, Cluster: -1, Core: -1, L2: -1, L3: -1})
	}
	topology.Complete, topology.Allowed = topology.Online, topology.Online
	topology.Nodes = []numa.Node{{CPUs: topology.Online}}
	return topology
}

// outline writes the groups of a tree, with what is inside a group in brackets.
func outline(b *Box) string {
	if b.Kind == CPU {
		return strconv.Itoa(b.Number)
	}
	parts := make([]string, len(b.Inside))
	for i, inner := range b.Inside {
		parts[i] = outline(inner)
	}
	return fmt.Sprintf("%s(%s)", b.Kind, strings.Join(parts, " "))
}

func TestGroupsNestBySize(t *testing.T) {
	halves := []numa.Set{{0, 1}, {2, 3}}
	nodes := func(sets ...numa.Set) (nodes []numa.Node) {
		for i, set := range sets {
			nodes = append(nodes, numa.Node{ID: i, CPUs: set})
		}
		return nodes
	}

	m := made(4)
	m.Packages = halves
	assert.Equal(t, "machine(node(package(0 1) package(2 3)))", outline(New(m).Root), "packages in a node")

	m.Packages, m.Nodes = []numa.Set{{0, 1, 2, 3}}, nodes(halves...)
	assert.Equal(t, "machine(package(node(0 1) node(2 3)))", outline(New(m).Root), "nodes in a package")

	m.L3 = []numa.Set{{0, 1, 2, 3}}
	assert.Equal(t, "machine(package(L3(node(0 1) node(2 3))))", outline(New(m).Root), "an L3 across nodes")

	m.Nodes = nodes(numa.Set{0, 1}, nil)
	assert.Equal(t, "machine(package(L3(node(0 1) 2 3)) node())", outline(New(m).Root), "CPUs without a node, a node without CPUs")

	m.Dies, m.Clusters, m.L2 = m.Packages, halves, halves
	assert.Equal(t, "machine(package(L3(node(0 1) cluster(2 3))) node())", outline(New(m).Root), "what is the same CPUs as another group")
}

func TestCrossingGroupIsNoted(t *testing.T) {
	m := made(4)
	m.Packages = []numa.Set{{0, 1}, {2, 3}}
	m.Nodes = []numa.Node{{ID: 0, CPUs: numa.Set{0}}, {ID: 7, CPUs: numa.Set{1, 2}, MemoryBytes: 3 << 30}, {ID: 8, CPUs: numa.Set{3}}}
	tree := requireDrawn(t, m)
	assert.Equal(t, []string{"node 7, 3.0 GiB, CPUs 1-2, is not drawn: it crosses package 0, CPUs 0-1."}, tree.Notes)
	var picture strings.Builder
	require.NoError(t, tree.SVG(&picture))
	assert.Contains(t, picture.String(), tree.Notes[0])
}

func TestOfflineAndForbiddenCPUsAreMarked(t *testing.T) {
	m := made(3)
	m.Complete, m.Allowed = numa.Set{0, 1, 2, 3, 4}, numa.Set{0, 1}
	m.Cores = []numa.Set{{0, 2}}
	m.CPUs[2].Core, m.CPUs[2].Capacity = 0, 446
	tree := requireDrawn(t, m)
	var picture strings.Builder
	require.NoError(t, tree.SVG(&picture))
	assert.Equal(t, 1, strings.Count(picture.String(), `class="notAllowed"`))
	assert.Contains(t, picture.String(), "CPU 2, not for this process, core 0, capacity 446")
	assert.Contains(t, picture.String(), "CPU 4, offline")
	assert.Contains(t, picture.String(), "red boxes")
}

func TestUnequalCapacitiesAreTold(t *testing.T) {
	m := made(3)
	assert.Empty(t, New(m).Notes)
	for i, capacity := range []int{1024, 446, 1024} {
		m.CPUs[i].Capacity = capacity
	}
	assert.Equal(t, []string{"Capacity: 1024 (CPUs 0,2), 446 (CPUs 1)."}, New(m).Notes)
}
