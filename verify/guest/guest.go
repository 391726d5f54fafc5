// Package guest describes the virtual machines on which heist's tests run, and the
// protocol between the command that boots them and the first process in them.
//
// Few machines that build software have more than one memory node. qemu makes nodes up,
// down to the distances between them, and a real kernel believes it: the kernel fills in
// /sys, places memory and takes CPUs away.
//
//   - run: the script to call. It installs what is missing.
//   - boot: packs the tests, starts qemu and reads its console.
//   - init: the first process in the guest. It runs the tests.
//   - inside: tests that make sense only in such a guest.
package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Machine is a machine for qemu to emulate.
type Machine struct {
	Name string
	Arch string // as qemu and the kernel call it: x86_64 or aarch64

	// Cores and Threads are the cores in each node, which is a package of its own, and
	// the hardware threads of each core. CPUs are numbered consecutively: node by node,
	// core by core.
	Cores, Threads int

	// Distances has a row for each node, in the units of the ACPI's SLIT table.
	Distances [][]int

	// NodeMiB is the memory of each node.
	NodeMiB int
}

// Machines are the machines with names.
var Machines = []Machine{
	{
		// The corners of a square whose sides differ: from each node, the others are
		// at three distances.
		Name: "x86_64", Arch: "x86_64", Cores: 2, Threads: 1, NodeMiB: 512,
		Distances: [][]int{
			{10, 16, 22, 28},
			{16, 10, 28, 22},
			{22, 28, 10, 16},
			{28, 22, 16, 10},
		},
	},
	{
		Name: "x86_64-smt", Arch: "x86_64", Cores: 1, Threads: 2, NodeMiB: 512,
		Distances: [][]int{
			{10, 16, 22, 28},
			{16, 10, 28, 22},
			{22, 28, 10, 16},
			{28, 22, 16, 10},
		},
	},
	{
		Name: "aarch64", Arch: "aarch64", Cores: 4, Threads: 1, NodeMiB: 1024,
		Distances: [][]int{
			{10, 20},
			{20, 10},
		},
	},
}

// Named returns the machine with the given name.
func Named(name string) (Machine, error) {
	var names []string
	for _, m := range Machines {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Machine{}, fmt.Errorf("there is no machine %q; there are %s", name, strings.Join(names, ", "))
}

// Nodes returns the number of nodes. Their IDs begin with 0.
func (m Machine) Nodes() int { return len(m.Distances) }

// CPUs returns the number of CPUs.
func (m Machine) CPUs() int { return m.Nodes() * m.Cores * m.Threads }

// NodeCPUs returns the CPUs of a node.
func (m Machine) NodeCPUs(node int) []int { return numbers(node, m.Cores*m.Threads) }

// CoreCPUs returns the CPUs of a core. Cores are numbered consecutively through the machine.
func (m Machine) CoreCPUs(core int) []int { return numbers(core, m.Threads) }

// numbers returns the i-th group of n numbers.
func numbers(i, n int) []int {
	var all []int
	for cpu := i * n; cpu < (i+1)*n; cpu++ {
		all = append(all, cpu)
	}
	return all
}

// GOARCH returns Go's name of the architecture.
func (m Machine) GOARCH() string {
	return map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[m.Arch]
}

// Fixture returns the name of the folder in numa/testdata with the guest's /sys.
func (m Machine) Fixture() string {
	return fmt.Sprintf("guest-%s-%dn%dc", m.Name, m.Nodes(), m.Cores)
}

// Variable is the environment variable that holds the [Machine], as JSON, for tests that
// run in it.
const Variable = "HEIST_GUEST"

// Current returns the machine that this process runs in. Inside is false outside of a guest.
func Current() (m Machine, inside bool, err error) {
	text, inside := os.LookupEnv(Variable)
	if !inside {
		return m, false, nil
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return m, true, fmt.Errorf("%s does not hold a machine: %w", Variable, err)
	}
	return m, true, nil
}

// PlanFile is where init finds its [Plan].
const PlanFile = "plan.json"

// Plan tells init what to do.
type Plan struct {
	Suites []Suite

	// Fixture asks for the files that a topology is read from.
	Fixture bool
}

// Suite is a test binary to run.
type Suite struct {
	Name   string // the package's folder below the root of the project
	Binary string // absolute, in the guest
	Dir    string // where to run it
	Args   []string
	Env    []string // besides the few that every program needs
}

// Event is what init reports. One field is set.
type Event struct {
	Booted  *Booted `json:"booted,omitempty"`
	Begun   string  `json:"begun,omitempty"` // the name of a suite
	Ended   *Ended  `json:"ended,omitempty"`
	Fixture []byte  `json:"fixture,omitempty"` // a tar archive, compressed by gzip
	Failed  string  `json:"failed,omitempty"`  // why init itself could not go on
	Done    bool    `json:"done,omitempty"`    // the plan was followed to its end
}

// Booted describes the kernel when init begins.
type Booted struct {
	Kernel  string  `json:"kernel"`
	Seconds float64 `json:"seconds"` // since the kernel began, by its own clock
}

// Ended describes how a suite ended.
type Ended struct {
	Name    string  `json:"name"`
	Error   string  `json:"error,omitempty"` // empty if it passed
	Seconds float64 `json:"seconds"`
}

// marker begins an event on the console. Output of tests may precede it on the line.
const marker = "heist-guest: "

// String returns the line with the event, without a newline.
func (e Event) String() string {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // JSON can encode everything in an event
	}
	return marker + string(text)
}

// ParseEvent looks for an event in a line of the console. It returns the text before it,
// and nil if there is none.
func ParseEvent(line string) (before string, e *Event, err error) {
	before, text, found := strings.Cut(line, marker)
	if !found {
		return line, nil, nil
	}
	e = new(Event)
	if err := json.Unmarshal([]byte(text), e); err != nil {
		return line, nil, fmt.Errorf("the guest's line %.80q is broken: %w", line, err)
	}
	return before, e, nil
}

// FixtureFiles are patterns of the files that a topology is read from, below the root.
var FixtureFiles = slices.Concat(
	[]string{
		"proc/meminfo",
		"proc/mounts",
		"proc/self/cgroup",
		"proc/self/cpuset",
		"sys/fs/cgroup/cpuset.cpus.effective",
	},
	below("sys/devices/system/cpu/", "present", "online", "cpu*/cpu_capacity"),
	below("sys/devices/system/cpu/cpu*/topology/",
		"physical_package_id", "package_cpus_list", "die_id", "die_cpus_list",
		"cluster_id", "cluster_cpus_list", "core_id", "core_cpus_list"),
	below("sys/devices/system/cpu/cpu*/cache/index[2-9]/", "level", "type", "shared_cpu_list"),
	below("sys/devices/system/node/", "online"),
	below("sys/devices/system/node/node*/", "cpulist", "distance", "meminfo"),
)

func below(dir string, files ...string) []string {
	for i := range files {
		files[i] = dir + files[i]
	}
	return files
}
