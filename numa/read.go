package numa

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// ReadRoot reads the topology from the sys and proc folders below root: a
// mounted system, or the dump of another machine, on any operating system. It
// looks at nothing outside root: a symbolic link that leads out of it is an
// error.
//
// Allowed is the online CPUs that the cpusets or cgroups under root leave to the
// process of proc/self, or Online if there are no cpusets.
//
// The topology can be used even after an error. The error joins one error for each file
// that could not be read, or that makes no sense, and names the file; the topology then
// has what the remaining files give. It is no error if a part is missing that a kernel
// may leave out: without node folders all CPUs are in one node, without cache folders
// L2 and L3 are empty. If even the CPUs are missing, there are as many as
// runtime.NumCPU says.
//
// It opens some three files for each CPU, and a few for each node, each from root on, folder
// by folder: 50 ms for 256 CPUs of two threads to a core, from a tree in memory, and twice
// that while all CPUs are busy.
func ReadRoot(root string) (*Topology, error) {
	// An absolute link in a dump is a path of the machine that the dump came from:
	// os.Root refuses to follow it on this one.
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
	r := reader{fsys: fsys, root: root, failed: make(map[string]bool), indexOf: make(map[int]int)}
	t := r.topology(affinity)
	return t, errors.Join(r.errs...)
}

// oneNode returns a topology of one node with these CPUs, of which nothing else is
// known.
func oneNode(cpus Set) *Topology {
	t := &Topology{
		Nodes:    []Node{{CPUs: cpus}},
		CPUs:     make([]CPU, len(cpus)),
		Complete: cpus,
		Online:   cpus,
		Allowed:  cpus,
	}
	for i, id := range cpus {
		t.CPUs[i] = CPU{ID: id, Node: 0, Package: -1, Die: -1, Cluster: -1, Core: -1, L2: -1, L3: -1}
	}
	return t
}

// A reader reads one tree and collects what is wrong with it.
type reader struct {
	fsys    fs.FS
	root    string // for the errors
	errs    []error
	indexOf map[int]int     // level -> the folder of a cache of this level, for the last CPU that was read
	failed  map[string]bool // the texts of errs, so that a file that is read twice has one error
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

// Where to find each set, the best file first. Kernels before 2.6.26 have no
// lists, only masks, and no present, possible or online either.
var (
	presentFiles  = []source{{"present", parseList}}
	possibleFiles = []source{{"possible", parseList}}
	onlineFiles   = []source{{"online", parseList}}
	atomFiles     = []source{{"cpus", parseList}}
	nodeFiles     = []source{{"cpulist", parseList}, {"cpumap", parseMask}}

	// A kernel shows the same in both. People who corrected a dump corrected the mask,
	// which is what hwloc reads.
	cacheFiles = []source{{"shared_cpu_map", parseMask}, {"shared_cpu_list", parseList}}
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
	// A container may show files of its own making; the scheduler's mask has the usable
	// CPUs. The mask may also be older than the files, and hold CPUs that have gone
	// offline since.
	if len(online.and(allowed)) == 0 {
		online = online.or(allowed)
	}
	if len(online) == 0 {
		online = firstCPUs(runtime.NumCPU())
	}

	t := oneNode(online)
	t.Complete = complete.or(online)
	r.groups(t, folders)
	r.nodes(t)

	if affinity == nil {
		allowed = r.cpuset(online)
	}
	if allowed = allowed.and(online); len(allowed) > 0 {
		t.Allowed = allowed
	}
	return t
}

// cpus returns the CPUs that exist and those that are online. folders are the CPUs that
// have a folder; on old kernels there is no other source.
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
		var offline Set
		for _, cpu := range folders {
			if r.offline(cpu) {
				offline = append(offline, cpu)
			}
		}
		online = complete.minus(offline)
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

// anyCPU asks set for any set, not one that holds a certain CPU.
const anyCPU = -1

// set returns the set in the first of dir's files that exists and makes sense, and the
// name of that file. A set makes sense only if it holds cpu. The name is empty if there
// is no such file.
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

// number returns the number in a file. It reports false if the file has none.
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

// text returns the content of a file, without the newline at its end. It reports false
// if the file does not exist, which is no error, or can't be read, which is one.
func (r *reader) text(name string) (string, bool) {
	// Stat comes first, because opening a pipe would block.
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

// fail records an error of the file called name.
func (r *reader) fail(name string, err error) {
	// The path inside an error of fsys would lack the root.
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	err = fmt.Errorf("numa: %s: %w", filepath.Join(r.root, filepath.FromSlash(name)), err)
	if !r.failed[err.Error()] {
		r.failed[err.Error()] = true
		r.errs = append(r.errs, err)
	}
}
