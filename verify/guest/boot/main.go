// Command boot runs heist's tests in virtual machines with several memory nodes. qemu
// emulates them without the help of hardware. Call it through the script that installs
// what it needs, from anywhere in the project:
//
//	verify/guest/run                      # all tests in both machines
//	verify/guest/run x86_64               # in one of x86_64, x86_64-smt and aarch64
//	verify/guest/run -packages ./pool aarch64 -- -test.run Steal -test.v
//	verify/guest/run -fixtures            # save /sys in numa/testdata, test nothing
//
// The arguments after -- replace the tests' flags, -test.short. The tests run in turn, and
// the console shows their output. The exit status is 0 only if all suites passed and each
// machine was turned off properly: a panic of the kernel, a machine that stops on its own
// and one that takes too long are failures. One that does not even get to its first process
// in a sixth of that time has met nothing of heist: it is started once more, and its kernel
// then shows all that it says.
//
// A machine boots in five seconds and tests for minutes: an instruction costs ten or more
// of the host's, and a system call or a wake-up in qemu many more.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed53057037/heist/verify/guest"
)

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "verify/guest/run:", err)
		}
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := false
	for _, m := range o.machines {
		if err := o.run(ctx, m); err != nil {
			fmt.Fprintf(os.Stderr, "FAILED %s: %v\n", m.Name, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// options are the parsed command line.
type options struct {
	machines []guest.Machine
	packages []string
	flags    []string // of the tests
	stress   string
	timeout  time.Duration
	fixtures bool
	kernels  string
}

func parse(args []string) (*options, error) {
	o := &options{flags: []string{"-test.short"}}
	if i := slices.Index(args, "--"); i >= 0 {
		args, o.flags = args[:i], args[i+1:]
	}
	f := flag.NewFlagSet("verify/guest/run", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "usage: verify/guest/run [flags] [machine...] [-- flags of the tests]")
		f.PrintDefaults()
	}
	packages := f.String("packages", "., ./numa, ./pool, ./verify/guest/inside", "the `packages` whose tests run")
	f.StringVar(&o.stress, "stress", "0.02", "HEIST_STRESS, by which tests multiply their rounds")
	f.DurationVar(&o.timeout, "timeout", 15*time.Minute, "how long a machine may run")
	f.BoolVar(&o.fixtures, "fixtures", false, "save the files that a topology is read from in numa/testdata, and test nothing")
	f.StringVar(&o.kernels, "kernels", "", "the `folder` of the kernels, ARCHITECTURE/vmlinuz")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	for name := range strings.FieldsFuncSeq(*packages, func(r rune) bool { return r == ',' || r == ' ' }) {
		o.packages = append(o.packages, name)
	}
	if o.timeout <= 0 {
		return nil, fmt.Errorf("-timeout %v: the time must be positive", o.timeout)
	}
	// A suite that hangs must say where before the machine is stopped.
	o.flags = append([]string{fmt.Sprintf("-test.timeout=%v", o.timeout*3/4)}, o.flags...)
	if len(o.packages) == 0 {
		return nil, errors.New("-packages names no package")
	}
	names := f.Args()
	if len(names) == 0 {
		names = []string{"x86_64", "aarch64"}
	}
	for _, name := range names {
		m, err := guest.Named(name)
		if err != nil {
			return nil, err
		}
		o.machines = append(o.machines, m)
	}
	return o, nil
}

// run builds the contents of a machine, boots it and saves its fixture, if one was asked for.
func (o *options) run(ctx context.Context, m guest.Machine) error {
	dir, err := os.MkdirTemp("", "heist-guest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	start := time.Now()
	initramfs := filepath.Join(dir, "initramfs")
	if err := o.pack(ctx, m, dir, initramfs); err != nil {
		return err
	}
	fmt.Printf("== %s: built and packed (%.1f s)\n", m.Name, time.Since(start).Seconds())
	f, err := o.boot(ctx, m, initramfs)
	if err != nil || !o.fixtures {
		return err
	}
	return unpack(f.fixture, filepath.Join("numa", "testdata", m.Fixture()))
}

// errNotBooted says that a machine's first process did not begin.
var errNotBooted = errors.New("the kernel did not boot in time")

// boot starts a machine, once more if it does not boot, and follows it to its end. It returns an error if anything in the machine failed.
func (o *options) boot(ctx context.Context, m guest.Machine, initramfs string) (*follower, error) {
	f, err := o.start(ctx, m, initramfs, "quiet")
	if errors.Is(err, errNotBooted) {
		fmt.Printf("WARNING: %s: %v\n", m.Name, err)
		f, err = o.start(ctx, m, initramfs, "ignore_loglevel")
	}
	return f, err
}

func (o *options) start(ctx context.Context, m guest.Machine, initramfs, loglevel string) (*follower, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("stopped after %v; see -timeout", o.timeout))
	defer cancel()
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	limit := time.AfterFunc(o.timeout/6, func() { give(errNotBooted) })
	defer limit.Stop()
	q := exec.CommandContext(ctx, "qemu-system-"+m.Arch, arguments(m, filepath.Join(o.kernels, m.Arch, "vmlinuz"), initramfs, loglevel)...)
	var complaints bytes.Buffer
	q.Stderr = &complaints
	console, err := q.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := q.Start(); err != nil {
		return nil, err
	}
	f := &follower{machine: m, out: os.Stdout, booted: func() { limit.Stop() }}
	err = f.follow(console)
	switch ended := q.Wait(); {
	case ctx.Err() != nil:
		err = errors.Join(err, context.Cause(ctx))
	case ended != nil:
		err = errors.Join(err, fmt.Errorf("qemu: %w: %s", ended, bytes.TrimSpace(complaints.Bytes())))
	default:
		err = errors.Join(err, f.verdict())
	}
	used := q.ProcessState.UserTime() + q.ProcessState.SystemTime()
	fmt.Printf("== %s: turned off (%.1f s, %.1f s of CPU)\n", m.Name, time.Since(start).Seconds(), used.Seconds())
	return f, err
}

// arguments are qemu's arguments for a machine.
func arguments(m guest.Machine, image, initramfs, loglevel string) []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio",
		"-no-reboot", // after a panic
		"-kernel", image, "-initrd", initramfs,
		"-smp", fmt.Sprintf("%d,sockets=%d,cores=%d,threads=%d", m.CPUs(), m.Nodes(), m.Cores, m.Threads),
		"-m", fmt.Sprintf("%dM", m.Nodes()*m.NodeMiB),
	}
	for node := range m.Nodes() {
		cpus := m.NodeCPUs(node)
		args = append(args,
			"-object", fmt.Sprintf("memory-backend-ram,id=memory%d,size=%dM", node, m.NodeMiB),
			"-numa", fmt.Sprintf("node,nodeid=%d,memdev=memory%d,cpus=%d-%d", node, node, cpus[0], cpus[len(cpus)-1]))
	}
	for node, row := range m.Distances {
		for other, distance := range row {
			if other != node {
				args = append(args, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", node, other, distance))
			}
		}
	}
	// Without mitigations, which cost an emulator many traps, and without the kernel's moves of
	// memory between nodes, which would disturb tests that look where memory is.
	kernel := loglevel + " oops=panic panic=-1 mitigations=off numa_balancing=disable"
	switch m.Arch {
	case "x86_64":
		// Intel's vendor, as qemu does not emulate how AMD's CPUs tell which of them are threads of a core.
		args = append(args, "-accel", "tcg,thread=multi", "-cpu", "max,vendor=GenuineIntel")
		// The kernel does not trust an emulated counter and would read the clock from a
		// device, behind qemu's one lock.
		kernel += " console=ttyS0 tsc=reliable clocksource=tsc"
		// One CPU until init turns on the others: Debian's kernel 6.1 hangs in one of thirty boots when it rewrites
		// a branch that other emulated CPUs run. "sched_clock: Marking stable" is then its last line.
		kernel += " maxcpus=1"
	case "aarch64":
		// Pointer signatures that are quick to compute: the architected ones triple
		// the time.
		args = append(args, "-machine", "virt", "-accel", "tcg,thread=multi", "-cpu", "max,pauth-impdef=on")
		kernel += " console=ttyAMA0"
	}
	return append(args, "-append", kernel)
}
