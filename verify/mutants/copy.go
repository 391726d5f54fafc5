package mutants

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/overlay"
)

// repository is a copy of the repository's code, in which tests are built and run, with
// and without mutants. A mutant does not change the copy; the go command sees it through an
// overlay (go help build). So all mutants can be built at the same time and share what they
// do not change.
type repository struct{ root string }

// sources are the names of the files that are copied: code, what it embeds, and the documents that tests read.
var sources = regexp.MustCompile(`\.(go|s|mod|sum|work|md|css|js|html|tmpl)$`)

// copyOf copies the code under root to a directory.
func copyOf(root, to string) (*repository, error) {
	r := &repository{to}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "testdata", "target"}, d.Name()) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || !sources.MatchString(d.Name()) {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return copyFile(path, filepath.Join(r.root, name))
	})
	return r, err
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o666)
}

// gitApply applies the patch to a directory, or only checks that it can be applied. Git
// finds the place even if other lines of the file have changed.
func (m mutant) gitApply(dir string, options ...string) error {
	apply := exec.Command("git", append(append([]string{"apply"}, options...), m.patch)...)
	apply.Dir = dir
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // dir is no part of another repository
	if output, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("the patch %s no longer applies: %w\n%s", m.name, err, output)
	}
	return nil
}

// overlay applies the patch to copies of the files that it changes, in a directory, and
// returns the name of the overlay that puts them in the place of the originals.
func (r *repository) overlay(m mutant, dir string) (string, error) {
	changed, err := m.apply(r.root, dir)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, copied := range changed {
		replace[filepath.Join(r.root, file)] = copied
	}
	name := filepath.Join(dir, "overlay.json")
	return name, overlay.Write(name, replace)
}

// Apply applies the patch of a mutant to copies of the files that it changes, in a directory, and returns the copies by
// the names of the originals from root.
func Apply(patch, root, dir string) (map[string]string, error) {
	m, err := read(patch)
	if err != nil {
		return nil, err
	}
	return m.apply(root, dir)
}

func (m mutant) apply(root, dir string) (map[string]string, error) {
	changed := map[string]string{}
	for _, file := range m.files {
		changed[file] = filepath.Join(dir, file)
		if err := copyFile(filepath.Join(root, file), changed[file]); err != nil {
			return nil, err
		}
	}
	return changed, m.gitApply(dir)
}

// build builds the catcher's tests into a binary.
func (r *repository) build(c catcher, binary string, flags ...string) error {
	args := []string{"test", "-c", "-o", binary, "-gcflags=-dwarf=false", "-ldflags=-w"} // it is never debugged
	args = append(append(args, c.flags...), flags...)
	build := exec.Command("go", append(args, c.pkg)...)
	build.Dir = r.root
	build.Env = c.env()
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not compile: %w\n%s", c.pkg, err, output)
	}
	return nil
}

func (c catcher) env() []string {
	cgo := "CGO_ENABLED=0"
	if slices.Contains(c.flags, "-race") {
		cgo = "CGO_ENABLED=1"
	}
	return append(append(os.Environ(), claim.Ordinary, cgo), c.environment...)
}

// run runs the catcher's tests. It returns nil if they pass.
func (r *repository) run(c catcher, binary string) (*notice, error) {
	command := []string{binary, "-test.v", "-test.failfast", "-test.run", c.pattern(), "-test.timeout", c.timeout.String()}
	if c.cpu != "" {
		command = append([]string{"taskset", "-c", "0", "qemu-aarch64", "-cpu", c.cpu}, command...)
	}
	run := exec.Command(command[0], command[1:]...)
	run.Dir = filepath.Join(r.root, c.pkg)
	run.Env = c.env()
	output, err := run.CombinedOutput()
	if err == nil {
		return nil, nil
	}
	test, how := verdict(string(output))
	if test == "" {
		return nil, fmt.Errorf("the tests did not run: %w\n%s", err, output)
	}
	return &notice{c, test, how}, nil
}

var (
	failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	begun  = regexp.MustCompile(`(?m)^=== RUN +([^/\s]+)$`)
)

// verdict returns the test that failed and how it ended, from the output of tests that did
// not pass. Test is empty if none had begun.
func verdict(output string) (test, how string) {
	if tests := begun.FindAllStringSubmatch(output, -1); tests != nil {
		test = tests[len(tests)-1][1]
	}
	fail := failed.FindStringSubmatch(output)
	if fail != nil {
		test = fail[1]
	}
	switch {
	case strings.Contains(output, "panic: test timed out"):
		return test, "hung"
	case strings.Contains(output, "WARNING: DATA RACE"):
		return test, "saw a data race"
	case fail != nil:
		return test, "failed"
	}
	return test, "crashed"
}

// notice is a test that noticed a mutant, and how it ended.
type notice struct {
	by        catcher
	test, how string
}

// catch builds the mutant and runs its catchers until one of them notices it. It returns
// nil if none does.
func (r *repository) catch(m mutant, dir string) (*notice, error) {
	overlay, err := r.overlay(m, dir)
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(dir, "mutant.test")
	for _, c := range m.catchers {
		if err := r.build(c, binary, "-overlay", overlay); err != nil {
			return nil, err
		}
		for range c.tries {
			n, err := r.run(c, binary)
			if n != nil || err != nil {
				return n, err
			}
		}
	}
	return nil, nil
}

// passes checks that the tests pass without any mutant. Otherwise it would prove nothing
// that they fail with one.
func (r *repository) passes(c catcher, dir string) error {
	binary := filepath.Join(dir, "clean.test")
	if err := r.build(c, binary); err != nil {
		return err
	}
	n, err := r.run(c, binary)
	if err == nil && n != nil {
		err = fmt.Errorf("without any mutant, too, %s %s", n.test, n.how)
	}
	return err
}
