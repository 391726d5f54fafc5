package numa

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxPath is Linux's PATH_MAX, and bounds the name of a group. maxGroups bounds
// how many groups cpuset looks at: a process is a few groups deep, and a machine
// has one or two mounts of them.
const (
	maxPath   = 4096
	maxGroups = 1000
)

// cpusetFiles are the names in cgroup v2, in v1, and in plain cpuset mounts and
// mounts of v1 with the option noprefix. The CPUs that a group effectively has
// come first: the other files hold what was asked for, and may be empty or name
// CPUs that are offline.
var cpusetFiles = []source{
	{"cpuset.cpus.effective", parseList}, {"cpuset.effective_cpus", parseList}, {"effective_cpus", parseList},
	{"cpuset.cpus", parseList}, {"cpus", parseList},
}

// cpuset returns the online CPUs that the tree's cpusets allow to the process of
// proc/self, or nothing if there are no cpusets.
func (r *reader) cpuset(online Set) Set {
	name := r.cpusetName()
	if name == "" {
		return nil
	}
	groups := 0
	for _, mount := range r.cpusetMounts() {
		// A group without a file of its own, or without a CPU that is online,
		// has what its parent has.
		for group := path.Clean(name); ; group = path.Dir(group) {
			if groups++; groups > maxGroups {
				r.fail("proc/mounts", fmt.Errorf("no cpuset in %d groups", maxGroups))
				return nil
			}
			set, _ := r.set(strings.TrimPrefix(path.Join("/", mount, group), "/"), anyCPU, cpusetFiles)
			if set = set.and(online); len(set) > 0 {
				return set
			}
			if group == "/" {
				break
			}
		}
	}
	return nil
}

// cpusetMounts returns the folders where cpusets are mounted: cgroup v2, a
// cgroup v1 hierarchy with that controller, or a file system of cpusets alone.
func (r *reader) cpusetMounts() []string {
	text, _ := r.text("proc/mounts")
	var mounts []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			r.fail("proc/mounts", fmt.Errorf("line %.64q has no four fields", line))
			continue
		}
		folder, kind, options := fields[1], fields[2], strings.Split(fields[3], ",")
		if kind == "cgroup2" || kind == "cpuset" || kind == "cgroup" && slices.Contains(options, "cpuset") {
			mounts = append(mounts, folder)
		}
	}
	return mounts
}

// cpusetName returns the path of proc/self's group below the mount, or nothing if
// it has no group.
func (r *reader) cpusetName() string {
	if name, _ := r.text("proc/self/cpuset"); name != "" {
		return r.groupName("proc/self/cpuset", name)
	}
	// Lines are number:controllers:path. cgroup v2 has no controllers, and nor
	// do hierarchies of v1 that have a name instead, as in 1:name=systemd:/.
	groups, _ := r.text("proc/self/cgroup")
	unified := ""
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
			r.fail("proc/self/cgroup", fmt.Errorf("line %.64q is not number:controllers:path", line))
		case slices.Contains(strings.Split(fields[1], ","), "cpuset"):
			return r.groupName("proc/self/cgroup", fields[2])
		case fields[1] == "":
			unified = r.groupName("proc/self/cgroup", fields[2])
		}
	}
	return unified
}

// groupName returns the name of a group that was read from a file, or nothing if
// it is no path.
func (r *reader) groupName(file, name string) string {
	switch {
	case !strings.HasPrefix(name, "/"):
		r.fail(file, fmt.Errorf("%.64q is no path of a cpuset", name))
		return ""
	case len(name) > maxPath:
		r.fail(file, fmt.Errorf("path %.64q... of a cpuset is longer than %d bytes", name, maxPath))
		return ""
	}
	return name
}
