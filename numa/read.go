package numa

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// ReadRoot reads the topology from the sys and proc folders below root: a
// mounted system, or the dump of another machine, on any operating system. It
// looks at nothing outside root: a symbolic link that leads out of it is an
// error.
//
// Allowed is the online CPUs that the cpusets or cgroups under root leave to the
// process of its proc/self, and Online where there are none.
//
// The topology can be used whatever the error. The error joins one error for
// each file that could not be read, or that makes no sense, and names the file;
// the topology then has what the remaining files tell. A part that a kernel may
// leave out is no error: without node folders all CPUs are in one node, without
// cache folders L3 is empty. Where even the CPUs are missing, they are as many
// as runtime.NumCPU says.
//
// It opens a few files for each core and node: 15 ms for 256 CPUs.
func ReadRoot(root string) (*Topology, error) {
	// In a dump, an absolute link means the machine that it came from: os.Root
	// refuses to follow it on this one.
	dir, err := os.OpenRoot(root)
	if err != nil {
		return oneNode(firstCPUs(runtime.NumCPU())), fmt.Errorf("numa: %w", err)
	}
	defer dir.Close()
	return read(dir.FS(), root, nil)
}

// read reads the tree fsys, which the errors call root. If affinity is not nil,
// it tells which CPUs are allowed, instead of the tree's cpusets.
func read(fsys fs.FS, root string, affinity func() (Set, error)) (*Topology, error) {
	r := reader{fsys: fsys, root: root}
	t := r.topology(affinity)
	return t, errors.Join(r.errs...)
}

// oneNode returns a topology that is one node and tells no more.
func oneNode(cpus Set) *Topology {
	t := &Topology{
		Nodes:    []Node{{CPUs: cpus}},
		CPUs:     make([]CPU, len(cpus)),
		Complete: cpus,
		Online:   cpus,
		Allowed:  cpus,
	}
	for i, id := range cpus {
		t.CPUs[i] = CPU{ID: id, Node: 0, Package: -1, Core: -1, L3: -1}
	}
	return t
}

// A reader reads one tree and collects what is wrong with it.
type reader struct {
	fsys fs.FS
	root string // for the errors
	errs []error
}

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
)

// A source is a file that may hold a set, and its format.
type source struct {
	file  string
	parse func(string) (Set, error)
}

// Where to find each set, the best file first. Kernels before 5.3 call a core's
// CPUs thread siblings and a package's CPUs core siblings; kernels before
// 2.6.26 have no lists, and no present, possible or online either.
var (
	presentFiles  = []source{{"present", parseList}}
	possibleFiles = []source{{"possible", parseList}}
	onlineFiles   = []source{{"online", parseList}}
	packageFiles  = []source{
		{"package_cpus_list", parseList}, {"core_siblings_list", parseList},
		{"package_cpus", parseMask}, {"core_siblings", parseMask},
	}
	coreFiles = []source{
		{"core_cpus_list", parseList}, {"thread_siblings_list", parseList},
		{"core_cpus", parseMask}, {"thread_siblings", parseMask},
	}
	cacheFiles = []source{{"shared_cpu_list", parseList}, {"shared_cpu_map", parseMask}}
	nodeFiles  = []source{{"cpulist", parseList}, {"cpumap", parseMask}}
)

func (r *reader) topology(affinity func() (Set, error)) *Topology {
	var allowed Set
	if affinity != nil {
		var err error
		if allowed, err = affinity(); err != nil {
			r.errs = append(r.errs, fmt.Errorf("numa: %w", err))
		}
	}

	folders := r.numbered(cpuDir, "cpu")
	complete, online := r.cpus(folders)
	if len(online) == 0 {
		r.fail(cpuDir, errors.New("no CPUs found"))
	}
	// A container may show files of its own making; the scheduler's mask has
	// the CPUs that can be had.
	online = online.or(allowed)
	if len(online) == 0 {
		online = firstCPUs(runtime.NumCPU())
	}

	t := oneNode(online)
	t.Complete = complete.or(online)
	r.groups(t, folders)
	r.nodes(t)

	if affinity == nil {
		allowed = r.cpuset()
	}
	if allowed = allowed.and(online); len(allowed) > 0 {
		t.Allowed = allowed
	}
	return t
}

// cpus returns the CPUs that exist and those that are online. folders are the
// CPUs that have a folder, which is all there is to go by on old kernels.
func (r *reader) cpus(folders Set) (complete, online Set) {
	complete, _ = r.set(cpuDir, anyCPU, presentFiles)
	if len(complete) == 0 {
		complete = folders
	}
	if len(complete) == 0 {
		// Possible CPUs include empty sockets: better than nothing.
		complete, _ = r.set(cpuDir, anyCPU, possibleFiles)
	}

	online, _ = r.set(cpuDir, anyCPU, onlineFiles)
	if len(online) == 0 {
		for _, cpu := range complete {
			if !r.offline(cpu) {
				online = append(online, cpu)
			}
		}
	}
	return complete, online
}

// offline reports whether the CPU's own file says that it is offline. The file
// is missing for a CPU that can't be taken offline, or is empty.
func (r *reader) offline(cpu int) bool {
	name := cpuFolder(cpu) + "/online"
	switch online, _ := r.text(name); online {
	case "0":
		return true
	case "", "1":
	default:
		r.fail(name, fmt.Errorf("%.32q is neither 0 nor 1", online))
	}
	return false
}

func cpuFolder(cpu int) string { return fmt.Sprintf("%s/cpu%d", cpuDir, cpu) }

// groups fills in the packages, the cores and the L3 caches.
func (r *reader) groups(t *Topology, folders Set) {
	cpus := t.Online.and(folders)

	packages := r.partition(t)
	packages.addEach(cpus, func(cpu int) (Set, string) {
		return r.set(cpuFolder(cpu)+"/topology", cpu, packageFiles)
	})
	packages.addByID(cpus, func(cpu int) (string, bool) {
		id, ok := r.number(cpuFolder(cpu) + "/topology/physical_package_id")
		return strconv.Itoa(id), ok && id >= 0
	})
	t.Packages = packages.number(func(c *CPU) *int { return &c.Package })

	cores := r.partition(t)
	cores.addEach(cpus, func(cpu int) (Set, string) {
		return r.set(cpuFolder(cpu)+"/topology", cpu, coreFiles)
	})
	cores.addByID(cpus, func(cpu int) (string, bool) {
		// Core numbers start again in each package.
		id, ok := r.number(cpuFolder(cpu) + "/topology/core_id")
		return fmt.Sprint(t.cpu(cpu).Package, id), ok && id >= 0
	})
	t.Cores = cores.number(func(c *CPU) *int { return &c.Core })

	l3 := r.partition(t)
	var unshared Set // CPUs whose L3 does not tell who shares it
	l3.addEach(cpus, func(cpu int) (Set, string) {
		dir, ok := r.l3(cpu)
		if !ok {
			return nil, ""
		}
		set, name := r.set(dir, cpu, cacheFiles)
		if name == "" {
			unshared = append(unshared, cpu)
		}
		return set, name
	})
	// Itaniums list no CPUs for any cache; the core's own surely share it.
	l3.addEach(unshared, func(cpu int) (Set, string) {
		if core := t.cpu(cpu).Core; core >= 0 {
			return t.Cores[core], cpuFolder(cpu)
		}
		return Set{cpu}, cpuFolder(cpu)
	})
	t.L3 = l3.number(func(c *CPU) *int { return &c.L3 })
}

// l3 returns the folder of a CPU's level 3 cache.
func (r *reader) l3(cpu int) (string, bool) {
	caches := path.Join(cpuFolder(cpu), "cache")
	for _, index := range r.numbered(caches, "index") {
		dir := fmt.Sprintf("%s/index%d", caches, index)
		if level, ok := r.number(dir + "/level"); !ok || level != 3 {
			continue
		}
		if kind, _ := r.text(dir + "/type"); kind != "Instruction" {
			return dir, true
		}
	}
	return "", false
}

// A partition splits the online CPUs into groups that share no CPU.
type partition struct {
	r      *reader
	t      *Topology
	taken  map[int]bool
	groups []Set
}

func (r *reader) partition(t *Topology) *partition {
	return &partition{r: r, t: t, taken: make(map[int]bool)}
}

// add makes a group of the CPUs of set that are online and in no group yet, and
// returns it. If files disagree, name gets the blame.
func (p *partition) add(set Set, name string) Set {
	var group, again Set
	for _, cpu := range set.and(p.t.Online) {
		if p.taken[cpu] {
			again = append(again, cpu)
			continue
		}
		p.taken[cpu] = true
		group = append(group, cpu)
	}
	if len(again) > 0 {
		p.r.fail(name, fmt.Errorf("CPUs %.64s are in another group already", again))
	}
	if len(group) > 0 {
		p.groups = append(p.groups, group)
	}
	return group
}

// addEach adds the group of each CPU that has none. read returns a CPU's group
// and the file it is from, or no file if it is unknown. One CPU speaks for its
// whole group, which saves most of the files of a large machine.
func (p *partition) addEach(cpus Set, read func(cpu int) (Set, string)) {
	for _, cpu := range cpus {
		if p.taken[cpu] {
			continue
		}
		if set, name := read(cpu); name != "" {
			p.add(set, name)
		}
	}
}

// addByID groups those CPUs that have no group by their identifier.
func (p *partition) addByID(cpus Set, id func(cpu int) (string, bool)) {
	groups := make(map[string]Set)
	for _, cpu := range cpus {
		if p.taken[cpu] {
			continue
		}
		if key, ok := id(cpu); ok {
			groups[key] = append(groups[key], cpu)
		}
	}
	for _, group := range groups {
		p.add(group, "")
	}
}

// number returns the groups in the order of their lowest CPU, and writes each
// CPU's group where field points.
func (p *partition) number(field func(*CPU) *int) []Set {
	slices.SortFunc(p.groups, func(a, b Set) int { return a[0] - b[0] })
	for i, group := range p.groups {
		for _, cpu := range group {
			*field(p.t.cpu(cpu)) = i
		}
	}
	return p.groups
}

// nodes fills in the nodes. Without usable node folders it leaves t the one
// node it has, with all the memory.
func (r *reader) nodes(t *Topology) {
	ids := r.numbered(nodeDir, "node")
	if online, _ := r.set(nodeDir, anyCPU, onlineFiles); len(online) > 0 {
		if missing := online.minus(ids); len(missing) > 0 {
			r.fail(nodeDir, fmt.Errorf("online nodes %.64s have no folder", missing))
		}
		ids = ids.and(online)
	}

	var nodes []Node
	cpus := r.partition(t)
	for _, id := range ids {
		dir := fmt.Sprintf("%s/node%d", nodeDir, id)
		node := Node{ID: id}
		if set, name := r.set(dir, anyCPU, nodeFiles); name != "" {
			node.CPUs = cpus.add(set, name)
		} else {
			r.fail(dir, errors.New("no usable cpulist or cpumap"))
		}
		node.MemoryBytes = r.memory(dir + "/meminfo")
		node.Distances = r.distances(dir+"/distance", len(ids))
		nodes = append(nodes, node)
	}
	if len(cpus.groups) == 0 {
		if len(nodes) > 0 {
			r.fail(nodeDir, errors.New("no node has a CPU that is online"))
		}
		t.Nodes[0].MemoryBytes = r.memory("proc/meminfo")
		return
	}

	t.Nodes = nodes
	var homeless Set
	for i := range t.CPUs {
		cpu := &t.CPUs[i]
		cpu.Node = slices.IndexFunc(nodes, func(n Node) bool { return n.CPUs.Contains(cpu.ID) })
		if cpu.Node < 0 {
			homeless = append(homeless, cpu.ID)
		}
	}
	if len(homeless) > 0 {
		r.fail(nodeDir, fmt.Errorf("CPUs %.64s are in no node", homeless))
	}
}

// memory returns the MemTotal of a meminfo file in bytes, 0 if there is none.
func (r *reader) memory(name string) int64 {
	text, ok := r.text(name)
	if !ok {
		return 0
	}
	_, total, _ := strings.Cut(text, "MemTotal:")
	total, _, _ = strings.Cut(total, "\n")
	kB, found := strings.CutSuffix(strings.TrimSpace(total), " kB")
	n, err := strconv.ParseInt(kB, 10, 64)
	if !found || err != nil || n < 0 || n > math.MaxInt64/1024 {
		r.fail(name, fmt.Errorf("MemTotal %.32q is no number of kB", total))
		return 0
	}
	return n * 1024
}

// distances returns the distances of a node to all n nodes, nil if there are
// none.
func (r *reader) distances(name string, n int) []int {
	text, ok := r.text(name)
	if !ok {
		return nil
	}
	fields := strings.Fields(text)
	if len(fields) != n {
		r.fail(name, fmt.Errorf("%d distances for %d nodes", len(fields), n))
		return nil
	}
	distances := make([]int, n)
	for i, field := range fields {
		d, err := strconv.ParseUint(field, 10, 16)
		if err != nil || d == 0 {
			r.fail(name, fmt.Errorf("%.32q is no distance", field))
			return nil
		}
		distances[i] = int(d)
	}
	return distances
}

// maxPath is Linux's PATH_MAX. It bounds how far up cpuset looks.
const maxPath = 4096

// cpuset returns the CPUs that the tree's cpusets allow the process of its
// proc/self; nothing if there are no cpusets.
func (r *reader) cpuset() Set {
	name := r.cpusetName()
	if len(name) > maxPath {
		r.fail("proc/self", fmt.Errorf("cpuset %.64q... is longer than %d bytes", name, maxPath))
	}
	if name == "" || len(name) > maxPath {
		return nil
	}
	mounts, _ := r.text("proc/mounts")
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		dir, kind, options := fields[1], fields[2], strings.Split(fields[3], ",")
		if kind != "cgroup2" && kind != "cpuset" && (kind != "cgroup" || !slices.Contains(options, "cpuset")) {
			continue
		}
		// A group without a file of its own has what its parent has.
		for group := path.Clean("/" + name); ; group = path.Dir(group) {
			set, _ := r.set(strings.TrimPrefix(path.Join("/", dir, group), "/"), anyCPU, cpusetFiles)
			if len(set) > 0 {
				return set
			}
			if group == "/" {
				break
			}
		}
	}
	return nil
}

// cpusetFiles are the names in cgroup v2, in v1 and in plain cpuset mounts.
var cpusetFiles = []source{
	{"cpuset.cpus.effective", parseList}, {"cpuset.cpus", parseList}, {"cpus", parseList},
}

// cpusetName returns the path of proc/self's group below the mount.
func (r *reader) cpusetName() string {
	if name, _ := r.text("proc/self/cpuset"); name != "" {
		return name
	}
	// Lines are number:controllers:path; cgroup v2 has no controllers.
	groups, _ := r.text("proc/self/cgroup")
	unified := ""
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case slices.Contains(strings.Split(fields[1], ","), "cpuset"):
			return fields[2]
		case fields[1] == "":
			unified = fields[2]
		}
	}
	return unified
}

// anyCPU asks set for any set, not one that holds a certain CPU.
const anyCPU = -1

// set returns the set in the first of dir's files that is there and makes
// sense, which includes that it holds cpu, and the name of that file. The name
// is empty if there is none.
func (r *reader) set(dir string, cpu int, files []source) (Set, string) {
	for _, source := range files {
		name := path.Join(dir, source.file)
		text, ok := r.text(name)
		if !ok {
			continue
		}
		set, err := source.parse(text)
		if err == nil && cpu != anyCPU && !set.Contains(cpu) {
			err = fmt.Errorf("CPUs %.64q lack CPU %d itself", set, cpu)
		}
		if err != nil {
			r.fail(name, err)
			continue
		}
		return set, name
	}
	return nil, ""
}

// number returns the number in a file. It reports false if there is none.
func (r *reader) number(name string) (int, bool) {
	text, ok := r.text(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		r.fail(name, fmt.Errorf("%.32q is no number", text))
		return 0, false
	}
	return int(n), true
}

// maxFile bounds what is read of a file. The longest ones, masks and lists of
// thousands of CPUs, take a few thousand bytes.
const maxFile = 1 << 20

// text returns what is in a file, without the newline at its end. It reports
// false if the file is not there, which is no error, or can't be read, which is.
func (r *reader) text(name string) (string, bool) {
	// Looked at before it is opened, because opening a pipe would block.
	info, err := fs.Stat(r.fsys, name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	var content []byte
	if err == nil {
		content, err = r.content(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false
	case err != nil:
		r.fail(name, err)
		return "", false
	}
	// Some lists of kernels 2.6 and 3 end with a zero byte after the newline.
	return strings.TrimRight(string(content), " \n\x00"), true
}

func (r *reader) content(name string) ([]byte, error) {
	file, err := r.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("longer than %d bytes", maxFile)
	}
	return content, err
}

// numbered returns the numbers N of the entries of dir called prefixN.
func (r *reader) numbered(dir, prefix string) Set {
	entries, err := fs.ReadDir(r.fsys, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.fail(dir, err)
	}
	var numbers Set
	for _, entry := range entries {
		digits, found := strings.CutPrefix(entry.Name(), prefix)
		if n, err := parseCPU(digits); found && err == nil {
			numbers = append(numbers, n)
		}
	}
	return normalize(numbers)
}

// fail notes that name is broken.
func (r *reader) fail(name string, err error) {
	// The path inside an error of fsys would lack the root.
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	r.errs = append(r.errs, fmt.Errorf("numa: %s: %w", filepath.Join(r.root, filepath.FromSlash(name)), err))
}
