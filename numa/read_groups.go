package numa

import (
	"fmt"
	"path"
	"slices"
)

// A level is a kind of group that each CPU's folder topology describes.
type level struct {
	kind
	lists []source // the CPUs of the group, the best file first
	id    string   // the file that has the group's number

	// optional says that kernels without such groups may list each CPU as a group
	// of its own, without a number.
	optional bool
}

// The levels. Kernels before 5.3 call a core's CPUs thread siblings and a
// package's CPUs core siblings. Those of s390 list packages without a number.
var levels = []level{
	{kind: packages, id: "physical_package_id", lists: []source{
		{"package_cpus_list", parseList}, {"core_siblings_list", parseList},
		{"package_cpus", parseMask}, {"core_siblings", parseMask},
	}},
	{kind: dies, id: "die_id", optional: true, lists: []source{
		{"die_cpus_list", parseList}, {"die_cpus", parseMask},
	}},
	{kind: clusters, id: "cluster_id", optional: true, lists: []source{
		{"cluster_cpus_list", parseList}, {"cluster_cpus", parseMask},
	}},
	{kind: cores, id: "core_id", lists: []source{
		{"core_cpus_list", parseList}, {"thread_siblings_list", parseList},
		{"core_cpus", parseMask}, {"thread_siblings", parseMask},
	}},
}

// groups fills in every kind of group but the nodes, and everything else that a
// CPU's own folder describes.
func (r *reader) groups(t *Topology, folders Set) {
	cpus := t.Online.and(folders)
	for _, l := range levels {
		r.level(t, l, cpus)
	}
	r.caches(t, l2, cpus, 2)
	r.caches(t, l3, cpus, 3)
	t.rankThreads()
	r.capacities(t, cpus)
}

// level fills in a level's groups. Where the lists are missing, a group is the
// CPUs of one package that have the same number.
func (r *reader) level(t *Topology, l level, cpus Set) {
	folder := func(cpu int) string { return cpuFolder(cpu) + "/topology" }
	groups := r.partition(t)
	var unnumbered Set // CPUs whose own group is none
	groups.addEach(cpus, func(cpu int) (Set, string) {
		if l.optional {
			if id, ok := r.number(path.Join(folder(cpu), l.id)); ok && !isID(id) {
				unnumbered = append(unnumbered, cpu)
				return nil, ""
			}
		}
		return r.set(folder(cpu), cpu, l.lists)
	})
	groups.addByID(cpus.minus(unnumbered), func(cpu int) (string, bool) {
		id, ok := r.number(path.Join(folder(cpu), l.id))
		return fmt.Sprint(t.cpu(cpu).Package, id), ok && isID(id)
	})
	groups.place(l.kind)
}

// isID reports whether id is the number of a group. Kernels show -1 where they do
// not know; on x86 they show 65535, the APIC identifier that no CPU has.
func isID(id int) bool { return id >= 0 && id != 65535 }

// caches fills in the groups of CPUs that share a cache of a level.
func (r *reader) caches(t *Topology, k kind, cpus Set, level int) {
	groups := r.partition(t)
	var unshared Set // CPUs whose cache does not tell which CPUs share it
	groups.addEach(cpus, func(cpu int) (Set, string) {
		dir, ok := r.cache(cpu, level)
		if !ok {
			return nil, ""
		}
		set, name := r.set(dir, cpu, cacheFiles)
		if name == "" {
			unshared = append(unshared, cpu)
		} else if !groups.fits(set, cpu) {
			// The files may contradict each other; the list is right if it fits.
			if other, list := r.set(dir, cpu, cacheFiles[1:]); list != "" && groups.fits(other, cpu) {
				return other, list
			}
		}
		return set, name
	})
	// Itaniums list no CPUs for any cache; the core's own surely share it.
	groups.addEach(unshared, func(cpu int) (Set, string) {
		if core := t.cpu(cpu).Core; core >= 0 {
			return t.Cores[core], cpuFolder(cpu)
		}
		return Set{cpu}, cpuFolder(cpu)
	})
	groups.place(k)
}

// cache returns the folder of a CPU's cache of a level, ignoring instruction
// caches. It looks first where the cache of the CPU before was, and then at the last folder,
// because that has the highest level.
func (r *reader) cache(cpu, level int) (string, bool) {
	caches := path.Join(cpuFolder(cpu), "cache")
	is := func(index int) (dir string, ok bool) {
		dir = fmt.Sprintf("%s/index%d", caches, index)
		if n, ok := r.number(dir + "/level"); !ok || n != level {
			return "", false
		}
		kind, _ := r.text(dir + "/type")
		return dir, kind != "Instruction"
	}
	if index, ok := r.indexOf[level]; ok {
		if dir, ok := is(index); ok {
			return dir, true
		}
	}
	for _, index := range slices.Backward(r.numbered(caches, "index")) {
		if dir, ok := is(index); ok {
			r.indexOf[level] = index
			return dir, true
		}
	}
	return "", false
}

const (
	// fullCapacity is Linux's SCHED_CAPACITY_SCALE.
	fullCapacity = 1024

	// maxCapacity bounds the numbers that are taken for a capacity, or for a
	// performance of the CPPC, which is a byte on x86.
	maxCapacity = 1 << 16
)

// capacities fills in the capacities of the CPUs.
//
// On x86, the kernel shows full capacity for every CPU, or none at all, unless
// the CPUs are of two types and none has two threads. With two types, the kernel
// derives the capacities that it does show from highest_perf; capacities does the
// same where the kernel shows none. On other x86 machines highest_perf is no
// capacity, because it ranks cores of one type too, by how well each of them
// turned out.
func (r *reader) capacities(t *Topology, cpus Set) {
	capacities := r.positive(cpus, "cpu_capacity")
	// This folder exists if there are two types; its CPUs are the lesser ones.
	atoms, _ := r.set("sys/devices/cpu_atom", anyCPU, atomFiles)
	if len(atoms) > 0 && !differ(capacities) {
		if perf := r.positive(cpus, "acpi_cppc/highest_perf"); differ(perf) {
			highest := slices.Max(perf)
			for i, p := range perf {
				if p > 0 {
					capacities[i] = max(1, p*fullCapacity/highest)
				}
			}
		}
	}
	for i, cpu := range cpus {
		t.cpu(cpu).Capacity = capacities[i]
	}
}

// positive returns the number in a file of each CPU's folder, or 0 where there is
// none.
func (r *reader) positive(cpus Set, file string) []int {
	numbers := make([]int, len(cpus))
	for i, cpu := range cpus {
		name := path.Join(cpuFolder(cpu), file)
		n, ok := r.number(name)
		if !ok {
			continue
		}
		if n < 1 || n > maxCapacity {
			r.fail(name, fmt.Errorf("%d is not between 1 and %d", n, maxCapacity))
			continue
		}
		numbers[i] = n
	}
	return numbers
}

// differ reports whether the numbers other than 0 are not all the same.
func differ(numbers []int) bool {
	numbers = slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return n == 0 })
	return len(slices.Compact(numbers)) > 1
}

// A partition splits the online CPUs into groups that share no CPU.
type partition struct {
	r      *reader
	t      *Topology
	taken  []bool // by CPU number
	groups []Set
}

func (r *reader) partition(t *Topology) *partition {
	highest := t.Online[len(t.Online)-1]
	return &partition{r: r, t: t, taken: make([]bool, highest+1)}
}

// add makes a group of the CPUs of set that are online and in no group yet, and
// returns it. If files disagree, the error is that of the file called name.
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

// fits reports whether a set may be the group of a cache of cpu: it shares no CPU with a group that was added
// before, and does not leave the CPU's package.
func (p *partition) fits(set Set, cpu int) bool {
	home := p.t.cpu(cpu).Package
	return !slices.ContainsFunc(set.and(p.t.Online), func(other int) bool { return p.taken[other] || p.t.cpu(other).Package != home })
}

// addEach adds the group of each CPU that has none. read returns a CPU's group
// and the file that it is from, or no file if the group is unknown. One CPU's
// file describes its whole group, which saves reading most of the files of a
// large machine.
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

// addByID groups the CPUs that have no group by their identifier.
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

// place makes the groups those of kind k, in the order of their lowest CPU.
func (p *partition) place(k kind) {
	slices.SortFunc(p.groups, func(a, b Set) int { return a[0] - b[0] })
	p.t.place(k, p.groups)
}
