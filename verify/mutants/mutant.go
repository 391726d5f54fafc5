// Package mutants weakens heist on purpose. Each patch in this directory takes something
// from the real code that looks necessary: a fence, a compare-and-swap, an order, a second
// look, a wake-up. If the tests still passed, they would not have noticed its absence. So
// for each mutant there must be a test that fails.
//
// A patch begins with a sentence on what it weakens, and with lines that name the tests
// that notice it. The first of them that fails is enough:
//
//	caught by: PACKAGE TESTS [SETTING]...
//
// TESTS is a regular expression for whole names. A setting is a flag of go build
// (-race, -tags=purego), a variable of the environment (GOARCH=arm64,
// HEIST_STRESS=2), -timeout=D after which the test counts as hanging, -cpu=MODEL to run
// it under qemu-aarch64, on one CPU, or -tries=N.
//
// Some mutants do harm only if two CPUs are in the same few instructions at the same
// moment. Their tests need luck: they have several tries, and run alone.
//
// Orders that are weakened for arm64 alone cannot be seen here, on amd64 or under qemu.
// The models cover those.
package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mutant is a patch and the tests that catch it.
type mutant struct {
	name     string // of the patch, without .patch
	patch    string // its absolute path
	weakens  string
	files    []string // the files that it changes
	catchers []catcher
}

// catcher is a test that notices a mutant.
type catcher struct {
	pkg, tests  string
	flags       []string // for the build
	environment []string
	cpu         string // for qemu
	timeout     time.Duration
	tries       int // how often the tests run, until they notice something
}

// needsLuck says whether the mutant's tests must run alone.
func (m mutant) needsLuck() bool {
	return slices.ContainsFunc(m.catchers, func(c catcher) bool { return c.tries > 1 })
}

// patience is the time-out of tests that set none.
const patience = time.Minute

var (
	diffBegins  = regexp.MustCompile(`(?m)^diff --git `)
	changedFile = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)
)

// read returns the mutant of a patch.
func read(patch string) (mutant, error) {
	m := mutant{name: strings.TrimSuffix(filepath.Base(patch), ".patch"), patch: patch}
	text, err := os.ReadFile(patch)
	if err != nil {
		return m, err
	}
	begin := diffBegins.FindIndex(text)
	if begin == nil {
		return m, fmt.Errorf("%s has no diff", m.name)
	}
	for _, file := range changedFile.FindAllSubmatch(text, -1) {
		m.files = append(m.files, string(file[1]))
	}
	for line := range strings.Lines(string(text[:begin[0]])) {
		line = strings.TrimSpace(line)
		by, ok := strings.CutPrefix(line, "caught by: ")
		if !ok {
			m.weakens = strings.TrimSpace(m.weakens + " " + line)
			continue
		}
		c, err := parse(by)
		if err != nil {
			return m, fmt.Errorf("%s: %q: %w", m.name, line, err)
		}
		m.catchers = append(m.catchers, c)
	}
	if m.weakens == "" || len(m.catchers) == 0 || len(m.files) == 0 {
		return m, fmt.Errorf("%s does not say what it weakens, or who catches it, or changes nothing", m.name)
	}
	return m, nil
}

func parse(by string) (c catcher, err error) {
	words := strings.Fields(by)
	if len(words) < 2 {
		return c, fmt.Errorf("a package and tests are needed")
	}
	c = catcher{pkg: words[0], tests: words[1], timeout: patience, tries: 1}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case name == "-timeout":
			if c.timeout, err = time.ParseDuration(value); err != nil {
				return c, err
			}
		case name == "-tries":
			if c.tries, err = strconv.Atoi(value); err != nil {
				return c, err
			}
		case name == "-cpu":
			c.cpu = value
		case strings.HasPrefix(name, "-"):
			c.flags = append(c.flags, word)
		default:
			c.environment = append(c.environment, word)
		}
	}
	return c, nil
}

// pattern is the argument of -test.run.
func (c catcher) pattern() string { return "^(" + c.tests + ")$" }

// setting is equal for two catchers that can share one run of one binary.
func (c catcher) setting() string {
	return strings.Join(slices.Concat([]string{c.pkg}, c.flags, c.environment, strings.Fields(c.cpu)), " ")
}

// and returns a catcher that also runs a test of another catcher, which has the same setting.
func (c catcher) and(other catcher, test string) catcher {
	if c.tests != "" {
		test = c.tests + "|" + test
	}
	other.tests, other.timeout = test, c.timeout+other.timeout
	return other
}

// names returns the package's tests that the catcher runs.
func (c catcher) names(root string) (names []string, err error) {
	tests, err := regexp.Compile(c.pattern())
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, c.pkg, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, test := range testBegins.FindAllSubmatch(text, -1) {
			if name := string(test[1]); tests.MatchString(name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

var testBegins = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
