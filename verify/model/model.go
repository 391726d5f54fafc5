// Package model holds models of heist's protocols in Promela, and runs them through spin,
// which looks at every interleaving within their bounds.
//
// A model file declares itself in comments; nothing is configured elsewhere:
//
//	// stands for: FILE: SYMBOL...            functions, types and constants, see code.go
//	// configuration: NAME: FLAGS             macros for which it is verified
//	// configuration (small): NAME: FLAGS     also in go test -short
//	// configuration (full): NAME: FLAGS      only when full amounts are asked for
//	// mutant MUTANT_NAME: WHAT               what the macro takes away or spoils
//	// mutant MUTANT_NAME, in NAME: WHAT      the same; this configuration is the quickest to notice
//
// After "; pan:" come flags of the verifier that spin generates: -D and -O for its
// compilation, the others for its run.
//
// A mutant shows that the part that it takes away is needed, and that the model would notice
// its absence: the verifier must find an error in at least one configuration.
package model

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// scale says which runs verify a configuration.
type scale int

const (
	small scale = iota
	ordinary
	full
)

var scales = map[string]scale{"(small)": small, "": ordinary, "(full)": full}

type configuration struct {
	name    string
	scale   scale
	macros  []string // for spin
	compile []string // for the C compiler
	run     []string // for the verifier
}

type mutant struct {
	name, spoils string
	in           string // the configuration to try first; may be ""
}

type model struct {
	file           string // base name
	text           string
	configurations []configuration
	mutants        []mutant
	standsFor      []piece
}

var (
	configurationLine = regexp.MustCompile(`(?m)^// configuration ?(\(\w+\))?: ([^:\n]+):(.*)$`)
	mutantLine        = regexp.MustCompile(`(?m)^// mutant (MUTANT_[A-Z0-9_]+)(?:, in ([^:\n]+))?: (.+)$`)
	mutantMacro       = regexp.MustCompile(`\bMUTANT_[A-Z0-9_]+`)
	standsForLine     = regexp.MustCompile(`(?m)^// stands for: ([^:\n]+): (.+)$`)
	directive         = regexp.MustCompile(`(?m)^// ?(configuration|mutant|stands for)\b.*$`)
)

func readModel(path string) (*model, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseModel(filepath.Base(path), string(text))
}

func parseModel(file, text string) (*model, error) {
	m := &model{file: file, text: text}
	understood := 0
	for _, line := range configurationLine.FindAllStringSubmatch(text, -1) {
		scale, known := scales[line[1]]
		if !known {
			return nil, fmt.Errorf("%s: %s is not a scale of configurations", file, line[1])
		}
		m.configurations = append(m.configurations, newConfiguration(line[2], scale, line[3]))
		understood++
	}
	for _, line := range mutantLine.FindAllStringSubmatch(text, -1) {
		m.mutants = append(m.mutants, mutant{name: line[1], in: line[2], spoils: line[3]})
		understood++
	}
	understood += m.readStandsFor(text)
	if all := len(directive.FindAllString(text, -1)); all != understood {
		return nil, fmt.Errorf("%s: %d of its %d lines of configurations, mutants and code cannot be read", file, all-understood, all)
	}
	return m, m.validate()
}

// readStandsFor reads the pieces of code that the text names, and returns the number of lines.
func (m *model) readStandsFor(text string) int {
	lines := standsForLine.FindAllStringSubmatch(text, -1)
	for _, line := range lines {
		for _, symbol := range strings.Fields(line[2]) {
			m.standsFor = append(m.standsFor, piece{file: line[1], symbol: symbol})
		}
	}
	return len(lines)
}

func newConfiguration(name string, s scale, flags string) configuration {
	c := configuration{name: name, scale: s}
	macros, pan, _ := strings.Cut(flags, "; pan:")
	c.macros = strings.Fields(macros)
	for _, flag := range strings.Fields(pan) {
		if strings.HasPrefix(flag, "-D") || strings.HasPrefix(flag, "-O") {
			c.compile = append(c.compile, flag)
		} else {
			c.run = append(c.run, flag)
		}
	}
	return c
}

func (m *model) validate() error {
	if len(m.configurations) == 0 {
		return fmt.Errorf("%s has no configuration", m.file)
	}
	if len(m.standsFor) == 0 {
		return fmt.Errorf("%s does not say which code it stands for", m.file)
	}
	code := mutantLine.ReplaceAllString(m.text, "")
	used := mutantMacro.FindAllString(code, -1)
	for _, name := range used {
		if !slices.ContainsFunc(m.mutants, func(mu mutant) bool { return mu.name == name }) {
			return fmt.Errorf("%s does not say what %s spoils", m.file, name)
		}
	}
	for _, mu := range m.mutants {
		if !slices.Contains(used, mu.name) {
			return fmt.Errorf("%s speaks of %s but does not have it", m.file, mu.name)
		}
		if mu.in != "" && !slices.ContainsFunc(m.configurations, func(c configuration) bool { return c.name == mu.in }) {
			return fmt.Errorf("%s: %s is to be noticed in %q, which is no configuration", m.file, mu.name, mu.in)
		}
	}
	return nil
}

// upTo returns the configurations for runs of a scale.
func (m *model) upTo(s scale) []configuration {
	return slices.DeleteFunc(slices.Clone(m.configurations), func(c configuration) bool { return c.scale > s })
}

// outcome is the result of one configuration's verifier.
type outcome struct {
	states    int
	violation string   // the first error; "" if there is none
	unreached []string // assertions that were never evaluated
}

// verifier is the C program that spin generates for one configuration.
type verifier struct {
	m   *model
	c   configuration
	dir string
	// digest is the program's hash. If a mutant's equals the model's, the macro changes
	// nothing in this configuration.
	digest [sha256.Size]byte
}

// generate writes the verifier's source to dir, which must be empty.
func (m *model) generate(ctx context.Context, dir string, c configuration, macros ...string) (*verifier, error) {
	if err := os.WriteFile(filepath.Join(dir, m.file), []byte(m.text), 0o600); err != nil {
		return nil, err
	}
	args := slices.Concat(c.macros, macros, []string{"-a", m.file})
	if out, err := command(ctx, dir, "spin", args...); err != nil {
		return nil, fmt.Errorf("%s, %s: spin: %w\n%s", m.file, c.name, err, out)
	}
	h := sha256.New()
	generated, err := filepath.Glob(filepath.Join(dir, "pan.*"))
	if err != nil {
		return nil, err
	}
	for _, file := range generated {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		h.Write(text)
	}
	v := &verifier{m: m, c: c, dir: dir}
	h.Sum(v.digest[:0])
	return v, nil
}

// compiler returns the path of a C compiler. Most verifiers run for less time than gcc takes to
// compile them, 1.2 s; tcc takes 0.05 s, and its code is slower by a fifth.
func compiler() (path string, err error) {
	if path, err = exec.LookPath("tcc"); err != nil {
		path, err = exec.LookPath("gcc")
	}
	return path, err
}

// run compiles the verifier and lets it search. An error means that there is no result:
// the search was not complete, and found no error in the part that it searched.
//
// The search is for violated assertions and invalid end states (-DSAFETY), unless the
// configuration asks for cycles (-a, -l). It takes at most 2 GB.
func (v *verifier) run(ctx context.Context) (outcome, error) {
	cc, err := compiler()
	if err != nil {
		return outcome{}, err
	}
	// Optimising tens of thousands of lines takes longer than it gains, even for 10^7 states.
	flags := []string{"-O0", "-w", "-DMEMLIM=2000"}
	if !slices.Contains(v.c.run, "-a") && !slices.Contains(v.c.run, "-l") {
		flags = append(flags, "-DSAFETY")
	}
	flags = slices.Concat(flags, v.c.compile, []string{"-o", "pan", "pan.c"})
	if out, err := command(ctx, v.dir, cc, flags...); err != nil {
		return outcome{}, fmt.Errorf("%s, %s: %s: %w\n%s", v.m.file, v.c.name, cc, err, out)
	}
	// A table of 2^20 entries holds the states of most configurations, and grows for the others. Spin's own choice, 2^24, costs a third of the tests'
	// time, for its pages.
	out, err := command(ctx, v.dir, "./pan", append([]string{"-m200000", "-w20"}, v.c.run...)...)
	if err != nil {
		return outcome{}, fmt.Errorf("%s, %s: the verifier: %w\n%s", v.m.file, v.c.name, err, out)
	}
	o, err := parseOutcome(out)
	if err != nil {
		return o, fmt.Errorf("%s, %s: %w\n%s", v.m.file, v.c.name, err, out)
	}
	return o, nil
}

var (
	violationLine = regexp.MustCompile(`(?m)^pan:\d+: ((assertion violated|invalid end state|end state in claim|acceptance cycle|non-progress cycle).*) \(at depth`)
	errorsField   = regexp.MustCompile(`errors: (\d+)`)
	statesField   = regexp.MustCompile(`(?m)^\s*(\d+) states, stored`)
	unreachedLine = regexp.MustCompile(`(?m)^\t\S+:(\d+), state \d+, "(assert\(.*)"$`)
)

func parseOutcome(out string) (outcome, error) {
	var o outcome
	if line := violationLine.FindStringSubmatch(out); line != nil {
		o.violation = line[1]
		return o, nil
	}
	states, errs := statesField.FindStringSubmatch(out), errorsField.FindStringSubmatch(out)
	switch {
	case states == nil || errs == nil:
		return o, errors.New("the verifier gave no result")
	case errs[1] != "0":
		return o, errors.New("the verifier failed for another reason than a violation")
	case !strings.Contains(out, "Full statespace search"):
		return o, errors.New("the search is not one of all states")
	case strings.Contains(out, "Search not completed"), strings.Contains(out, "max search depth too small"):
		return o, errors.New("the search was not complete")
	}
	for _, line := range unreachedLine.FindAllStringSubmatch(out, -1) {
		o.unreached = append(o.unreached, "line "+line[1]+": "+line[2])
	}
	var err error
	o.states, err = strconv.Atoi(states[1])
	return o, err
}

// verify returns an error unless the search was complete and found no violation.
func (v *verifier) verify(ctx context.Context) (outcome, error) {
	o, err := v.run(ctx)
	if err == nil && o.violation != "" {
		err = fmt.Errorf("%s, %s: %s, after:\n%s", v.m.file, v.c.name, o.violation, v.replay(ctx))
	}
	return o, err
}

// replay returns the last steps of the run that led to the violation.
func (v *verifier) replay(ctx context.Context) string {
	out, err := command(ctx, v.dir, "spin", slices.Concat(v.c.macros, []string{"-p", "-t", v.m.file})...)
	if err != nil {
		return err.Error()
	}
	steps := strings.Split(out, "\n")
	return strings.Join(steps[max(0, len(steps)-60):], "\n")
}

// verified is a configuration without an error, to compare mutants with.
type verified struct {
	*verifier
	outcome
}

// catch returns the name of the first configuration that notices the mutant. It is an error
// if none does. Newdir makes empty directories.
func (m *model) catch(ctx context.Context, mu mutant, in []verified, newdir func() string) (string, error) {
	in = slices.Clone(in)
	slices.SortStableFunc(in, func(a, b verified) int {
		switch mu.in {
		case a.c.name:
			return -1
		case b.c.name:
			return 1
		}
		return a.states - b.states
	})
	for _, sound := range in {
		v, err := m.generate(ctx, newdir(), sound.c, "-D"+mu.name)
		if err != nil {
			return "", err
		}
		if v.digest == sound.digest {
			continue
		}
		o, err := v.run(ctx)
		if err != nil {
			return "", err
		}
		if o.violation != "" {
			return sound.c.name, nil
		}
	}
	return "", fmt.Errorf("%s: no configuration notices %s: %s. What it takes away is not needed, or the bounds are too small",
		m.file, mu.name, mu.spoils)
}

// neverReached returns the assertions that no configuration has evaluated, and that hence
// show nothing. An assert(false) is meant not to be reached.
func neverReached(in []verified) []string {
	var never []string
	for _, assertion := range in[0].unreached {
		reached := slices.ContainsFunc(in, func(v verified) bool { return !slices.Contains(v.unreached, assertion) })
		if !reached && !strings.HasSuffix(assertion, "assert(0)") {
			never = append(never, assertion)
		}
	}
	return never
}

func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
