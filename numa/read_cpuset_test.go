package numa

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCpusetsLimitWhatIsAllowed(t *testing.T) {
	for about, c := range map[string]struct {
		files files
		want  string
	}{
		"cgroup v2": {files{
			"/proc/self/cgroup":                            "0::/service\n",
			"/proc/mounts":                                 "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
			"/sys/fs/cgroup/service/cpuset.cpus":           "\n",
			"/sys/fs/cgroup/service/cpuset.cpus.effective": "2-3\n",
		}, "2-3"},
		"cgroup v2, a parent's": {files{
			"/proc/self/cgroup": "0::/service/task/leaf\n",
			"/proc/mounts":      "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
			"/sys/fs/cgroup/service/cpuset.cpus.effective": "4\n",
			"/sys/fs/cgroup/cpuset.cpus.effective":         "0-7\n",
		}, "4"},
		"cgroup v1": {files{
			"/proc/self/cgroup": "3:cpu,cpuacct:/other\n2:cpuset:/batch\n0::/unified\n",
			"/proc/mounts": "none /sys/fs/cgroup/unified cgroup2 rw 0 0\n" +
				"none /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n" +
				"none /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n",
			"/sys/fs/cgroup/cpu/batch/cpuset.cpus":    "7\n",
			"/sys/fs/cgroup/cpuset/batch/cpuset.cpus": "0-1,9\n",
		}, "0-1"},
		"cgroup v1, a parent's": {files{
			"/proc/self/cgroup":                           "2:cpuset:/batch/job/step\n",
			"/proc/mounts":                                "none /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n",
			"/sys/fs/cgroup/cpuset/cpuset.cpus":           "0-7\n",
			"/sys/fs/cgroup/cpuset/batch/cpuset.cpus":     "2,6\n",
			"/sys/fs/cgroup/cpuset/batch/job/cpuset.cpus": "\n",
		}, "2,6"},
		"cgroup v1, with other controllers": {files{
			"/proc/self/cgroup":      "4:memory:/a\n3:cpuset,cpu:/b\n",
			"/proc/mounts":           "none /cg/both cgroup rw,cpuset,cpu 0 0\n",
			"/cg/both/b/cpuset.cpus": "3\n",
			"/cg/both/a/cpuset.cpus": "4\n",
		}, "3"},
		"cgroup v1, named": {files{
			"/proc/self/cgroup": "3:name=elogind:/user\n2:name=jobs,cpuset:/batch\n1:name=systemd:/system\n",
			"/proc/mounts": "none /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\n" +
				"none /sys/fs/cgroup/jobs cgroup rw,cpuset,name=jobs 0 0\n",
			"/sys/fs/cgroup/systemd/batch/cpuset.cpus": "0\n",
			"/sys/fs/cgroup/jobs/system/cpuset.cpus":   "1\n",
			"/sys/fs/cgroup/jobs/batch/cpuset.cpus":    "5-6\n",
		}, "5-6"},
		"cgroup v1, a name that is like the controller's": {files{
			"/proc/self/cgroup":     "3:name=cpusets:/user\n2:cpusets,cpu:/user\n1:cpuset:/batch\n",
			"/proc/mounts":          "none /cg cgroup rw,cpuset 0 0\n",
			"/cg/user/cpuset.cpus":  "0\n",
			"/cg/batch/cpuset.cpus": "5-6\n",
		}, "5-6"},
		"cgroup v2, a name with colons": {files{
			"/proc/self/cgroup": "0::/service/job:1:2\n",
			"/proc/mounts":      "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
			"/sys/fs/cgroup/service/job:1:2/cpuset.cpus.effective": "3\n",
			"/sys/fs/cgroup/service/job/cpuset.cpus.effective":     "4\n",
		}, "3"},
		"cgroup v1, named only": {files{
			"/proc/self/cgroup": "1:name=systemd:/system\n",
			"/proc/mounts":      "none /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n",
			"/sys/fs/cgroup/systemd/system/cpuset.cpus": "0\n",
		}, "0-7"},
		"cgroup v1, what is effective": {files{
			"/proc/self/cgroup": "2:cpuset:/batch\n",
			"/proc/mounts":      "none /sys/fs/cgroup/cpuset cgroup rw,cpuset,cpuset_v2_mode 0 0\n",
			"/sys/fs/cgroup/cpuset/batch/cpuset.cpus":           "0-7\n",
			"/sys/fs/cgroup/cpuset/batch/cpuset.effective_cpus": "4-5\n",
		}, "4-5"},
		"cgroup v2, what is effective": {files{
			"/proc/self/cgroup":                            "0::/service\n",
			"/proc/mounts":                                 "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
			"/sys/fs/cgroup/service/cpuset.cpus":           "0-7\n",
			"/sys/fs/cgroup/service/cpuset.cpus.effective": "4-5\n",
		}, "4-5"},
		"cgroup v2 below v1 of another controller": {files{
			"/proc/self/cgroup": "5:memory:/m\n0::/service\n",
			"/proc/mounts": "none /sys/fs/cgroup/memory cgroup rw,memory 0 0\n" +
				"none /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
			"/sys/fs/cgroup/unified/service/cpuset.cpus.effective": "7\n",
		}, "7"},
		"a container's mount is its own group": {files{
			"/proc/self/cgroup":                    "0::/system.slice/docker-1234.scope\n",
			"/proc/mounts":                         "cgroup2 /sys/fs/cgroup cgroup2 ro 0 0\n",
			"/sys/fs/cgroup/cpuset.cpus.effective": "2-3\n",
		}, "2-3"},
		"a group with only offline CPUs": {files{
			"/proc/self/cgroup": "2:cpuset:/batch/job\n",
			"/proc/mounts":      "none /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n",
			"/sys/fs/cgroup/cpuset/batch/cpuset.cpus":     "2-9\n",
			"/sys/fs/cgroup/cpuset/batch/job/cpuset.cpus": "8-9\n",
		}, "2-7"},
		"cpuset file system": {files{
			"/proc/self/cpuset":        "/batch/3\n",
			"/proc/mounts":             "none /dev/cpuset cpuset rw 0 0\n",
			"/dev/cpuset/batch/3/cpus": "5-6\n",
		}, "5-6"},
		"no such mount": {files{
			"/proc/self/cpuset": "/batch\n",
			"/proc/mounts":      "proc /proc proc rw 0 0\n",
		}, "0-7"},
		"offline CPUs only": {files{
			"/proc/self/cpuset":      "/batch\n",
			"/proc/mounts":           "none /dev/cpuset cpuset rw 0 0\n",
			"/dev/cpuset/batch/cpus": "8-9\n",
		}, "0-7"},
		"a group outside of the mount": {files{
			"/proc/self/cgroup":                    "0::/../../..\n",
			"/proc/mounts":                         "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
			"/sys/fs/cgroup/cpuset.cpus.effective": "1\n",
		}, "1"},
	} {
		t.Run(about, func(t *testing.T) {
			got := readSound(t, smt().with(c.files))
			require.Equal(t, c.want, got.Allowed.String())
			require.Equal(t, "0-7", got.Online.String())
		})
	}
}

func TestEndlessCpusetPathIsReported(t *testing.T) {
	got, err := read(smt().with(files{
		"/proc/self/cpuset": strings.Repeat("/a", maxFile/2),
		"/proc/mounts":      strings.Repeat("none /sys/fs/cgroup cgroup2 rw 0 0\n", 1000),
	}).inMemory(), "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, "is longer than 4096 bytes")
}

func TestGarbledGroupsAreReported(t *testing.T) {
	mounts := files{"/proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "/sys/fs/cgroup/cpuset.cpus.effective": "1\n"}
	for _, c := range []struct {
		files         files
		file, problem string
		allowed       string
	}{
		{files{"/proc/self/cpuset": "none\n"}, "proc/self/cpuset", `"none" is no path of a cpuset`, "0-7"},
		{files{"/proc/self/cgroup": "none\n"}, "proc/self/cgroup", "is not number:controllers:path", "0-7"},
		{files{"/proc/self/cgroup": "x\n0::/service\n"}, "proc/self/cgroup", `line "x\n" is not`, "1"},
		{files{"/proc/self/cgroup": "0::service\n"}, "proc/self/cgroup", `"service" is no path`, "0-7"},
		{files{"/proc/self/cgroup": "0::/s\n", "/proc/mounts": "short\n"}, "proc/mounts", `line "short" has no four fields`, "0-7"},
		{files{"/proc/self/cgroup": "0::/s\n", "/sys/fs/cgroup/s/cpuset.cpus.effective": "x"}, "sys/fs/cgroup/s/cpuset.cpus.effective", `item "x"`, "1"},
	} {
		got, err := read(smt().with(mounts).with(c.files).inMemory(), "", nil)
		requireUsable(t, got)
		require.ErrorContains(t, err, "numa: "+filepath.FromSlash(c.file)+": ")
		require.ErrorContains(t, err, c.problem)
		require.Equal(t, c.allowed, got.Allowed.String())
	}
}

func TestSearchForACpusetEnds(t *testing.T) {
	got, err := read(smt().with(files{
		"/proc/self/cpuset": strings.Repeat("/a", maxPath/2),
		"/proc/mounts":      strings.Repeat("none /sys/fs/cgroup cgroup2 rw 0 0\n", 1000),
	}).packed(t), "", nil)
	requireUsable(t, got)
	require.ErrorContains(t, err, filepath.FromSlash("proc/mounts: no cpuset in 1000 groups"))
}
