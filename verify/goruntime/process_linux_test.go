package goruntime

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/child"
	"github.com/seed53057037/heist/verify/goruntime/load"
)

func init() {
	programs["phased"] = useEverythingInPhases
	programs["cpus"] = tellCPUs
}

// phases are what the program "phased" goes through. It prints a line for each, and the counts of
// what it did at the end. The end comes when its standard input ends.
const (
	busy    = "busy"
	resting = "resting" // all workers have gone to sleep, or are about to
)

const restTime = 100 * time.Millisecond

func useEverythingInPhases() error {
	p, err := pool.New()
	if err != nil {
		return err
	}
	var over atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		over.Store(true)
	}()
	var sum load.Counts
	for !over.Load() {
		fmt.Println(busy)
		for begin := time.Now(); time.Since(begin) < restTime; {
			c, err := load.Pool(p)
			if err != nil {
				return err
			}
			sum.Forks, sum.Tasks, sum.Parks = sum.Forks+c.Forks, sum.Tasks+c.Tasks, sum.Parks+c.Parks
		}
		fmt.Println(resting)
		// A wait with a time-out may be interrupted too.
		var word atomic.Uint32
		heist.FutexWait(&word, 0, restTime)
	}
	if err := p.Close(); err != nil {
		return err
	}
	return child.Tell(sum)
}

// TestStoppedProcessGoesOnWhereItWas does what debuggers and shells do.
func TestStoppedProcessGoesOnWhereItWas(t *testing.T) {
	claim.That(t, "a process that is stopped (SIGSTOP) goes on and has lost nothing",
		"signals to a child whose workers compute, or sleep on their futexes")
	stops := 8
	switch {
	case testutil.Short():
		stops = 3
	case claim.Full():
		stops = 60
	}
	c := child.Command(t, "phased")
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	var complaints bytes.Buffer
	c.Stderr = &complaints
	require.NoError(t, c.Start())
	lines := bufio.NewScanner(stdout)
	stopped := make(map[string]int)
	for stopped[busy]+stopped[resting] < stops && lines.Scan() {
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		require.NoError(t, c.Process.Signal(syscall.SIGSTOP))
		waitUntilStopped(t, c.Process.Pid)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, c.Process.Signal(syscall.SIGCONT))
		stopped[lines.Text()]++
	}
	require.NoError(t, stdin.Close())
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	require.NoError(t, c.Wait(), "%s", &complaints)
	var done load.Counts
	require.NoError(t, json.Unmarshal([]byte(last), &done))
	require.NotZero(t, done.Parks)
	claim.Amount(t, "%d stops while it computed, %d while it slept; %s forks, %s tasks, %s parks",
		stopped[busy], stopped[resting], claim.Count(done.Forks), claim.Count(done.Tasks), claim.Count(done.Parks))
}

// waitUntilStopped waits until the kernel says so of all threads.
func waitUntilStopped(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		require.NoError(t, err)
		_, state, _ := strings.Cut(string(stat), ") ") // after the name in parentheses
		return strings.HasPrefix(state, "T")
	}, child.Patience, time.Millisecond)
}

// tellCPUs tells which CPUs the process was started with.
func tellCPUs() error {
	cpus, err := heist.Allowed()
	if err != nil {
		return err
	}
	return child.Tell(cpus)
}

// TestProcessesAreStartedFromTasks starts them while other workers compute, wake each other and
// sleep: between fork and exec a child has one thread, and shares the memory.
func TestProcessesAreStartedFromTasks(t *testing.T) {
	claim.That(t, "a task may start processes", "os/exec and syscall.ForkExec in tasks while the pool computes and parks")
	p, err := pool.New(pool.WithWorkers(4))
	require.NoError(t, err)
	defer p.Close()
	whole, err := heist.Allowed()
	require.NoError(t, err)

	var sum load.Counts
	var processes atomic.Int64
	for begin := time.Now(); time.Since(begin) < duration(); {
		g, _ := pool.NewGroup(p)
		for i := range 4 {
			c := child.Command(t, "cpus")
			g.Go(func() error {
				processes.Add(1)
				if i%2 == 0 {
					return forkExec(c)
				}
				cpus, err := cpusOf(c)
				if err == nil && (len(cpus) == 0 || !among(whole, cpus)) {
					err = fmt.Errorf("a process may use CPUs %v, and its parent %v", cpus, whole)
				}
				return err
			})
		}
		c, err := load.Pool(p)
		require.NoError(t, err)
		require.NoError(t, g.Wait())
		sum.Forks, sum.Tasks = sum.Forks+c.Forks, sum.Tasks+c.Tasks
	}
	claim.Amount(t, "%s processes, %s forks, %s tasks", claim.Count(processes.Load()), claim.Count(sum.Forks), claim.Count(sum.Tasks))
}

// cpusOf runs a child that tells its CPUs.
func cpusOf(c *exec.Cmd) (cpus []int, err error) {
	stdout, stderr, err := child.Run(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr)
	}
	return cpus, json.Unmarshal([]byte(stdout), &cpus)
}

func among(whole, part []int) bool {
	return !slices.ContainsFunc(part, func(cpu int) bool { return !slices.Contains(whole, cpu) })
}

// forkExec starts a process without os/exec, as some tasks do.
func forkExec(c *exec.Cmd) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), null.Fd(), 2}
	pid, err := syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{Env: c.Env, Files: files})
	if err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err == nil && status != 0 {
			err = fmt.Errorf("a process ended with status %#x", int(status))
		}
		return err
	}
}

// TestAProcessInheritsTheBindingOfWhoStartsIt checks what the comment of Pin says: the kernel gives
// a process the CPUs of the thread that starts it. A bound worker has one CPU, so a pool in the new
// process has one worker. A program that wants another number starts the process in a goroutine.
func TestAProcessInheritsTheBindingOfWhoStartsIt(t *testing.T) {
	claim.That(t, "a process gets the CPUs of who starts it: a bound worker's CPU, all of them from other goroutines",
		"the masks of children that tasks, and goroutines of tasks, of pinned and other pools start")
	whole, err := heist.Allowed()
	require.NoError(t, err)
	if len(whole) < 2 {
		t.Skip("with a single CPU, pinned and not pinned are the same")
	}
	processes := 0
	for _, pinning := range []pool.Pinning{pool.PinCores, pool.PinNone} {
		p, err := pool.New(pool.WithPinning(pinning), pool.WithWorkers(2))
		require.NoError(t, err)
		for range 2 {
			type outcome struct{ worker, direct, aside []int }
			results := make(chan outcome)
			inTask, inGoroutine := child.Command(t, "cpus"), child.Command(t, "cpus")
			require.NoError(t, p.Go(func(*pool.Worker) {
				var o outcome
				defer func() { results <- o }()
				var mask unix.CPUSet
				if err := unix.SchedGetaffinity(0, &mask); err != nil {
					t.Error(err)
				}
				for _, cpu := range whole {
					if mask.IsSet(cpu) {
						o.worker = append(o.worker, cpu)
					}
				}
				if o.direct, err = cpusOf(inTask); err != nil {
					t.Error(err)
				}
				var aside sync.WaitGroup
				aside.Go(func() {
					if o.aside, err = cpusOf(inGoroutine); err != nil {
						t.Error(err)
					}
				})
				aside.Wait() // without Block, whose stand-ins may use all CPUs of the pool
			}))
			o := <-results
			processes += 2
			require.Equal(t, o.worker, o.direct)
			require.Equal(t, whole, o.aside)
			if pinning == pool.PinCores {
				require.Len(t, o.worker, 1)
			} else {
				require.Equal(t, whole, o.worker)
			}
		}
		require.NoError(t, p.Close())
	}
	claim.Amount(t, "%d processes on a machine with %d CPUs", processes, len(whole))
}
