package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/child"
)

func init() { programs["cpus"] = followCPUs }

// groupVariable tells the child the folder of its cpuset; empty if it has none of its own.
const groupVariable = "HEIST_GROUP"

// allowOnly lets the process use these CPUs only, as an administrator does by its cpuset. Without one of its own the
// process gives each of its threads a mask, as kernels before 6.2 do when a cpuset changes.
func allowOnly(cpus []int) error {
	if group := os.Getenv(groupVariable); group != "" {
		return os.WriteFile(filepath.Join(group, "cpuset.cpus"), []byte(strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]")), 0o600)
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	for range 3 { // the list is no snapshot, and some threads may be starting
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, task := range tasks {
			if tid, err := strconv.Atoi(task.Name()); err == nil {
				_ = unix.SchedSetaffinity(tid, &set)
			}
		}
		runtime.GC()
	}
	return nil
}

// soon waits until what holds. Go looks at the limits of the process once a second.
func soon(what string, holds func() bool) error {
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			allowed, err := heist.Allowed()
			return fmt.Errorf("not after a minute: %s; GOMAXPROCS is %d, allowed are %v, %v", what, runtime.GOMAXPROCS(0), allowed, err)
		}
	}
	return nil
}

// follow lets the process use these CPUs only, and waits until GOMAXPROCS, heist.Allowed, an old pool and a new one
// say so. The first new one becomes the old one.
func follow(old **pool.Pool, cpus []int, when string) error {
	if err := allowOnly(cpus); err != nil {
		return err
	}
	n := len(cpus)
	err := soon(fmt.Sprintf("%d CPUs %s", n, when), func() bool {
		allowed, _ := heist.Allowed()
		return slices.Equal(allowed, cpus) && runtime.GOMAXPROCS(0) == n && (*old == nil || (*old).Workers() == n)
	})
	if err != nil {
		return err
	}
	p, err := pool.New(pool.WithPinning(pool.PinNone))
	if err != nil {
		return err
	}
	if p.Workers() != n {
		return fmt.Errorf("a new pool has %d workers %s, and the process %d CPUs", p.Workers(), when, n)
	}
	if *old == nil {
		*old = p
		return nil
	}
	return p.Close()
}

func followCPUs() error {
	cpus, err := heist.Allowed()
	if err != nil {
		return err
	}
	var old *pool.Pool // one that lives through all of it
	follows := func(when string, n int) func() error {
		return func() error { return follow(&old, cpus[:n], when) }
	}
	bound := func() error { // a pool that is opened and closed
		before := runtime.GOMAXPROCS(0)
		p, err := pool.New(pool.WithPinning(pool.PinCores), pool.WithTuning(pool.Tuning{FreePs: 1}))
		if err != nil {
			return err
		}
		if n := runtime.GOMAXPROCS(0); n != before+1 {
			return fmt.Errorf("with bound workers GOMAXPROCS is %d after %d", n, before)
		}
		if err := p.Close(); err != nil {
			return err
		}
		if n := runtime.GOMAXPROCS(0); n != before {
			return fmt.Errorf("GOMAXPROCS is %d after a bound pool, and %d before", n, before)
		}
		return nil
	}
	isolated := func() error {
		i, err := heist.Isolate(cpus[0])
		if err != nil {
			return err
		}
		return i.Restore()
	}
	for _, step := range []func() error{
		follows("at first", 1), follows("after growth", 2),
		bound, follows("after a bound pool", 1), bound, follows("after another", 2),
		isolated, follows("after an isolation", 1), follows("at last", 2),
	} {
		if err := step(); err != nil {
			return err
		}
	}

	// What the program chooses stays.
	runtime.GOMAXPROCS(3)
	if err := errors.Join(bound(), allowOnly(cpus[:1])); err != nil {
		return err
	}
	time.Sleep(1500 * time.Millisecond) // a look of Go's
	if n := runtime.GOMAXPROCS(0); n != 3 {
		return fmt.Errorf("the program set GOMAXPROCS to 3, and after a bound pool it is %d", n)
	}
	if err := soon("one worker", func() bool { return old.Workers() == 1 }); err != nil {
		return err
	}
	return child.Tell("all")
}

// cpusetFor makes a cpuset with the CPUs, and returns its folder and the file that takes processes, or why it cannot.
func cpusetFor(t *testing.T, cpus int) (folder, processes string, err error) {
	root, memory := "/sys/fs/cgroup/cpuset", "cpuset.mems"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		root = "/sys/fs/cgroup"
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpuset"), 0o600); err != nil {
			return "", "", err
		}
	}
	folder = filepath.Join(root, fmt.Sprintf("heist-test-%d", os.Getpid()))
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", "", err
	}
	t.Cleanup(func() { _ = os.Remove(folder) })
	nodes, err := os.ReadFile(filepath.Join(root, memory))
	if err != nil {
		nodes = []byte("0")
	}
	return folder, filepath.Join(folder, "cgroup.procs"), errors.Join(
		os.WriteFile(filepath.Join(folder, memory), nodes, 0o600),
		os.WriteFile(filepath.Join(folder, "cpuset.cpus"), fmt.Appendf(nil, "0-%d", cpus-1), 0o600))
}

func TestPoolsAndGOMAXPROCSFollowTheCPUsOfTheProcess(t *testing.T) {
	claim.That(t, "the CPUs of a process may become fewer and more: pools and GOMAXPROCS follow, also after a pool with bound workers",
		"a child whose cpuset changes, or, without permission to make one, the masks of its threads")
	cpus, err := heist.Allowed()
	require.NoError(t, err)
	if len(cpus) < 2 {
		t.Skip("this process may use one CPU only")
	}
	ways := map[string][]string{"masks": {groupVariable + "="}}
	folder, processes, err := cpusetFor(t, cpus[len(cpus)-1]+1)
	if err != nil {
		t.Logf("only by masks, because no cpuset can be made: %v", err)
	} else {
		ways["cpuset"] = []string{groupVariable + "=" + folder}
	}
	for name, env := range ways {
		t.Run(name, func(t *testing.T) {
			c := child.Command(t, "cpus", append(env, child.For(duration()), "GOMAXPROCS=")...)
			if name == "cpuset" {
				c.Args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, processes, c.Path}, c.Args[1:]...)
				c.Path = "/bin/sh"
			}
			var done string
			child.Result(t, c, &done)
			require.Equal(t, "all", done)
		})
	}
	claim.Amount(t, "%d ways to change the CPUs, each between one and two CPUs, 6 times", len(ways))
}
