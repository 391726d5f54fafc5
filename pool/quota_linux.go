package pool

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// quota says how many CPUs the control groups of the process allow it to use on average. GOMAXPROCS follows that.
func quota() string { return quotaIn("/proc/self/cgroup", "/sys/fs/cgroup") }

// quotaIn is quota, with the file in which the system lists the groups and the directory that holds them. The least
// quota counts, of the process's group and the groups around it.
func quotaIn(list, root string) string {
	text, err := os.ReadFile(list)
	if err != nil {
		return "not known"
	}
	least := 0.0
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		dir := root
		switch {
		case !ok:
			continue
		case hasController(controllers, "cpu"): // version 1
			dir = path.Join(root, controllers)
		case controllers != "": // another controller of version 1
			continue
		}
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			if cpus := quotaOf(path.Join(dir, group)); cpus > 0 && (least == 0 || cpus < least) {
				least = cpus
			}
			if group == "/" {
				break
			}
		}
	}
	if least == 0 {
		return "none"
	}
	return fmt.Sprintf("%.4g CPUs", least)
}

func hasController(controllers, name string) bool {
	for c := range strings.SplitSeq(controllers, ",") {
		if c == name {
			return true
		}
	}
	return false
}

// quotaOf returns the quota of one group, 0 for none.
func quotaOf(group string) float64 {
	if text, err := os.ReadFile(path.Join(group, "cpu.max")); err == nil { // "max 100000" or "150000 100000"
		quota, period, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		return ratio(quota, period)
	}
	quota, err := os.ReadFile(path.Join(group, "cpu.cfs_quota_us"))
	if err != nil {
		return 0
	}
	period, err := os.ReadFile(path.Join(group, "cpu.cfs_period_us"))
	if err != nil {
		return 0
	}
	return ratio(string(quota), string(period))
}

func ratio(quota, period string) float64 {
	q, err := strconv.ParseFloat(strings.TrimSpace(quota), 64)
	if err != nil || q <= 0 { // "max", or -1
		return 0
	}
	p, err := strconv.ParseFloat(strings.TrimSpace(period), 64)
	if err != nil || p <= 0 {
		return 0
	}
	return q / p
}

// onlineCPUs says how many CPUs the machine has online, or 0 if the system does not say.
func onlineCPUs() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return 0
	}
	cpus, err := cpuList(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return len(cpus)
}
