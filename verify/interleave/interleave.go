// Package interleave runs small programs over heist's own code in all their interleavings, by package explore. Package
// kernel has those of the queues, testdata/pool those of the fork stacks, scopes and the monitor, which are compiled into package
// pool, and testdata/core those of the protocol of sleep, waits, sizes and ends.
//
// The code is the portable one (the tag purego) of the present checkout, or of a mutant of it.
package interleave

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/seed53057037/heist/verify/explore/rewrite"
	"github.com/seed53057037/heist/verify/overlay"
)

// program is a package of programs, and how what they explore is rewritten.
type program struct {
	name     string
	pkg      string // the package of its tests
	rewrites []rewrite.Config
}

// kernelConfig is how the root package is rewritten.
func kernelConfig() rewrite.Config {
	return rewrite.Config{
		Dir:       ".",
		Tags:      []string{"purego"},
		DropTests: true,
		Bodies: map[string]string{
			"Pause":         "explore.Yield()",
			"Spin":          "explore.Yield()",
			"Yield":         "explore.Yield()",
			"ticks":         "return 0",
			"FutexWait":     `explore.Block("sleep on a futex", func() bool { return addr.Load() != val }); return true`,
			"FutexWake":     "return 0",
			"Counter.Add":   "c.v += uintptr(n)",
			"Counter.Load":  "return uint64(c.v)",
			"lostRaces.add": "",
		},
		Constants: map[string]string{"firstSegment": "2", "maxSegment": "2"},
		// Stores that are plain in assembly, on amd64.
		Release: []string{
			"deque.portablePush atomic.StorePointer(",
			"deque.portablePush d.bottom.Store(b + 1)",
			"deque.portablePop d.bottom.Store(b + 1)",
			"storeSlot atomic.StorePointer",
			"publish index.Store",
		},
		Plain: []string{"injector.go:item"},
	}
}

// coreConfig is how internal/core is rewritten: a worker sleeps in the explorer, and no time passes unless the program has one.
func coreConfig() rewrite.Config {
	return rewrite.Config{
		Dir:       "internal/core",
		Tags:      []string{"purego"},
		DropTests: true,
		Bodies: map[string]string{
			"Parker.Park":    `explore.Block("park", func() bool { return k.word.Load() == 1 }); k.word.Store(0)`,
			"Parker.Unpark":  "k.word.Store(1)",
			"Pool.placeHere": "return -1",
		},
	}
}

// poolConfig is how package pool is rewritten. Sleep, wake-ups, places and labels are left out; so is package policy, whose state
// here only says whether the pool is hungry. The monitor looks at what the program has, at any time.
func poolConfig() rewrite.Config {
	return rewrite.Config{
		Dir:       "pool",
		Tags:      []string{"purego"},
		DropTests: true,
		Add:       programsOf("pool", "programs_test.go", "monitor_test.go"),
		Bodies: map[string]string{
			"Worker.await":      `for !l.done() { w.expose(); w.trim(); explore.Block("wait for a latch", l.done) }`,
			"Worker.mustBeMine": "",
			"Worker.isMine":     "return true",
			"Worker.wakeHelper": "",
			"Worker.helps":      "out.cancelScope, w.cancelScope = w.cancelScope, c",
			"Worker.helped":     "w.cancelScope = out.cancelScope",
			"fatal":             "panic(broken)",
			"monitor.lookAfter": "looksSoon(m)",
			"look.look":         "looks(); return false",
			"Pool.hasUnbegun":   "return hasUnbegun()",
		},
		Constants: map[string]string{"blockLen": "8"},
		Plain:     []string{"fork.go:what", "fork.go:body", "fork.go:cancelScope", "fork.go:result", "fork.go:ending", "fork.go:outcome"},
	}
}

// protocolConfig is coreConfig with the programs for it.
func protocolConfig() rewrite.Config {
	c := coreConfig()
	c.Add = programsOf("core", "programs_test.go", "noticed_test.go", "places_test.go")
	return c
}

// programsOf returns the files of programs for a package.
func programsOf(pkg string, names ...string) map[string]string {
	add := map[string]string{}
	for _, name := range names {
		add[name] = filepath.Join("verify/interleave/testdata", pkg, name)
	}
	return add
}

// policyConfig is how internal/policy is rewritten: the words by which places fall asleep and wake up.
func policyConfig() rewrite.Config {
	return rewrite.Config{Dir: "internal/policy", Tags: []string{"purego"}, DropTests: true}
}

var (
	protocol = program{name: "core", pkg: "./internal/core", rewrites: []rewrite.Config{kernelConfig(), policyConfig(), protocolConfig()}}
	forks    = program{name: "pool", pkg: "./pool", rewrites: []rewrite.Config{kernelConfig(), coreConfig(), poolConfig()}}
	kernel   = program{name: "kernel", pkg: "./verify/interleave/kernel", rewrites: []rewrite.Config{kernelConfig()}}
)

// build builds the programs' tests into a binary, in a directory. Changed files replace those of the checkout, by their names
// from its root.
func (p program) build(root, dir string, changed map[string]string) (binary string, err error) {
	replace := map[string]string{}
	for i, c := range p.rewrites {
		c.Dir = filepath.Join(root, c.Dir)
		c.Sources = map[string]string{}
		for name, path := range changed {
			if filepath.Dir(filepath.Join(root, name)) == c.Dir {
				c.Sources[filepath.Base(name)] = path
			}
		}
		added := map[string]string{}
		for name, from := range c.Add {
			added[name] = filepath.Join(root, from)
		}
		c.Add = added
		out := filepath.Join(dir, strconv.Itoa(i))
		if err := os.MkdirAll(out, 0o777); err != nil {
			return "", err
		}
		files, err := rewrite.Package(c, out)
		if err != nil {
			return "", err
		}
		maps.Copy(replace, files)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := overlay.Write(name, replace); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, p.name+".test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-tags=purego", "-gcflags=-dwarf=false", "-ldflags=-w", "-overlay", name, "-o", binary, p.pkg)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not compile: %w\n%s", p.pkg, err, output)
	}
	return binary, nil
}

// outcome is what a run of programs has shown.
type outcome struct {
	failed        string // the test that failed, or ""
	how           string // the first line of the failure
	at            int    // in which interleaving of its program
	interleavings int
	output        string
}

var (
	failedTest   = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	failure      = regexp.MustCompile(`(?m)interleaving (\d+) \(\w+\) fails: .*$`)
	visited      = regexp.MustCompile(`(?m)=== ATTR +\S+ interleavings (\d+)`)
	skippedTests = regexp.MustCompile(`(?m)^--- SKIP`)
)

// run runs those programs whose names match.
func (p program) run(binary, tests string) (o outcome, err error) {
	run := exec.Command(binary, "-test.v", "-test.failfast", "-test.timeout=10m", "-test.run", "^("+tests+")$")
	text, err := run.CombinedOutput()
	o.output = string(text)
	for _, n := range visited.FindAllStringSubmatch(o.output, -1) {
		v, _ := strconv.Atoi(n[1])
		o.interleavings += v
	}
	if m := failedTest.FindStringSubmatch(o.output); m != nil {
		o.failed = m[1]
	}
	if m := failure.FindStringSubmatch(o.output); m != nil {
		o.how = m[0]
		o.at, _ = strconv.Atoi(m[1])
	}
	switch {
	case err == nil && (skippedTests.MatchString(o.output) || !strings.Contains(o.output, "--- PASS")):
		return o, fmt.Errorf("the programs did not run:\n%s", o.output)
	case err != nil && o.failed == "":
		return o, fmt.Errorf("%w\n%s", err, o.output)
	}
	return o, nil
}
