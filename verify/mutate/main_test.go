package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// module writes a module with some files and returns its directory.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	write("go.mod", "module example.com/tiny\n\ngo 1.26.0\n")
	for name, text := range files {
		write(name, text)
	}
	return dir
}

// all returns options for all mutants of a module.
func all(dir string) options {
	return options{dir: dir, packages: []string{"./..."}, timeout: time.Minute}
}

func (o options) run(t *testing.T, survivors string) (stdout, progress string) {
	t.Helper()
	explanations, err := readExplanations(survivors)
	require.NoError(t, err)
	var out, to strings.Builder
	require.NoError(t, o.mutate(context.Background(), explanations, &out, &to), "%s", &to)
	return out.String(), to.String()
}

// names returns what -list prints.
func (o options) names(t *testing.T) []string {
	t.Helper()
	o.list = true
	out, _ := o.run(t, "")
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
}

// limit has four mutants that compile, of which the tests catch three, and one that does not.
var limit = map[string]string{
	"limit.go": `package tiny

// Limit returns n, but at most 10.
func Limit(n int) int {
	if n > 10 {
		return 10
	}
	return n
}

var last int8 = 127
`,
	"limit_test.go": `package tiny

import "testing"

func TestLimit(t *testing.T) {
	for n, want := range map[int]int{9: 9, 10: 10, 11: 10, 1000: 10} {
		if got := Limit(n); got != want {
			t.Errorf("%d and not %d", got, want)
		}
	}
	_ = last
}
`,
}

func TestSurvivorsAreToldFromMutantsThatAreCaught(t *testing.T) {
	out, progress := all(module(t, limit)).run(t, "")
	require.Equal(t, `survived limit.go:5: n > 10 to >=
-	if n > 10 {
+	if n >= 10 {
  Limit: Limit returns n, but at most 10.
did not compile: 1; caught by a time-out: 0; explained: 0
caught 3 of 4 (75.0%)
`, out)
	require.Contains(t, progress, "seed 0: 5 of 5 mutants\n")
	require.Regexp(t, `(?m)^caught +\d+ s  limit.go:6: 10 to 11  TestLimit$`, progress)
	require.Regexp(t, `(?m)^does not compile +\d+ s  limit.go:11: 127 to 128  .*overflows`, progress)
}

func TestExplainedSurvivorsAreCountedApart(t *testing.T) {
	out, _ := all(module(t, limit)).run(t, "# why\n\nlimit.go:*: n > 10 to >=: 10 is 10: really\n")
	require.Equal(t, `explained limit.go:5: n > 10 to >=: 10 is 10: really
did not compile: 1; caught by a time-out: 0; explained: 1
caught 3 of 3 (100.0%)
`, out)
}

// With any seed the mutant that does not compile is replaced, so that as many are tested as
// were asked for.
func TestMutantsThatDoNotCompileAreReplaced(t *testing.T) {
	o := all(module(t, limit))
	for o.n = 1; ; o.seed++ {
		if strings.Contains(o.names(t)[0], "127") {
			break
		}
	}
	out, _ := o.run(t, "")
	require.Contains(t, out, "did not compile: 1;")
	require.Regexp(t, `caught [01] of 1 `, out)

	o.only = "*127*"
	explanations, progress := []explanation(nil), io.Discard
	require.EqualError(t, o.mutate(context.Background(), explanations, io.Discard, progress), "none of 1 mutants compiles")
}

func TestATimeOutCountsAsCaught(t *testing.T) {
	o := all(module(t, map[string]string{
		"wait.go": `package tiny

func Wait() {
	c := make(chan int)
	go func() {
		defer close(c)
	}()
	<-c
}
`,
		"wait_test.go": `package tiny

import "testing"

func TestWait(t *testing.T) { Wait() }
`,
	}))
	o.timeout, o.only = 5*time.Second, "*dropped" // the tests that pass do not wait
	out, progress := o.run(t, "")
	require.Equal(t, "did not compile: 0; caught by a time-out: 1; explained: 0\ncaught 1 of 1 (100.0%)\n", out)
	require.Regexp(t, `(?m)^caught: time-out +\d+ s  wait.go:6: defer close\(c\) dropped  TestWait$`, progress)
}

func TestASampleDependsOnTheSeedAlone(t *testing.T) {
	o := all(module(t, kinds))
	o.n = 8
	first := o.names(t)
	require.Len(t, first, 8)
	require.Equal(t, first, o.names(t))
	o.seed = 1
	require.NotEqual(t, first, o.names(t))

	// What is drawn from one file does not depend on others.
	o = all(module(t, map[string]string{"limit.go": limit["limit.go"], "limit_test.go": limit["limit_test.go"]}))
	alone := o.names(t)
	more := map[string]string{"kinds.go": strings.ReplaceAll(kinds["kinds.go"], "package kinds", "package tiny")}
	for name, text := range limit {
		more[name] = text
	}
	o.dir, o.only = module(t, more), "limit.go:*"
	require.Equal(t, alone, o.names(t))
}

func TestOnlyDrawsByName(t *testing.T) {
	o := all(module(t, limit))
	o.only = "limit.go:6: 10 to 11"
	require.Equal(t, []string{o.only}, o.names(t))
	o.only = "limit.go:6: 10"
	err := o.mutate(context.Background(), nil, io.Discard, io.Discard)
	require.EqualError(t, err, `none of 5 mutants is named "limit.go:6: 10"; -list -n 0 prints the names`)
}

func TestTestsThatFailWithoutAMutantAreAnError(t *testing.T) {
	for name, c := range map[string]struct{ test, want string }{
		"fail":    {"func TestX(t *testing.T) { t.Fail() }", "the tests of example.com/tiny fail without a mutant: TestX"},
		"hang":    {"func TestX(t *testing.T) { select {} }", "the tests of example.com/tiny do not end within 5s without a mutant"},
		"compile": {"func TestX(t *testing.T) { x }", "example.com/tiny does not compile without a mutant: ./x_test.go:5:28: undefined: x"},
	} {
		t.Run(name, func(t *testing.T) {
			o := all(module(t, map[string]string{
				"x.go":      "package tiny\n\nvar X = 1\n",
				"x_test.go": "package tiny\n\nimport \"testing\"\n\n" + c.test + "\n",
			}))
			if name == "hang" {
				o.timeout = 5 * time.Second
			}
			require.EqualError(t, o.mutate(context.Background(), nil, io.Discard, io.Discard), c.want)
		})
	}
}

func TestNothingIsMutatedWithoutTests(t *testing.T) {
	o := all(module(t, map[string]string{"x.go": "package tiny\n\nvar X = 1\n"}))
	err := o.mutate(context.Background(), nil, io.Discard, io.Discard)
	require.EqualError(t, err, "example.com/tiny has no tests that could catch a mutant")

	o.packages = []string{"fmt"}
	err = o.mutate(context.Background(), nil, io.Discard, io.Discard)
	require.EqualError(t, err, "fmt is in no module of this work tree")
}

func TestAnInterruptedRunPrintsItsScore(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out strings.Builder
	progress := writer(func(line string) {
		if strings.HasPrefix(line, "caught") {
			cancel()
		}
	})
	require.EqualError(t, all(module(t, limit)).mutate(ctx, nil, &out, progress), "interrupted")
	require.Contains(t, out.String(), "caught 1 of ")
}

// writer calls a function with what is written.
type writer func(string)

func (w writer) Write(text []byte) (int, error) {
	w(string(text))
	return len(text), nil
}

func TestBadFlagsAreOneLine(t *testing.T) {
	for args, want := range map[string]string{
		"-n -1":                "-n is -1, and must not be negative",
		"-skip -1":             "-skip is -1, and must not be negative",
		"-n x":                 `invalid value "x" for flag -n: parse error`,
		"-seed -1":             `invalid value "-1" for flag -seed: parse error`,
		"-timeout 0":           "-timeout is 0s, and must be positive",
		"-timeout 5":           `invalid value "5" for flag -timeout: parse error`,
		"-packages ,":          "-packages names none",
		"-packages .,-x":       `-packages: "-x" is no package`,
		"-mutants":             "flag provided but not defined: -mutants",
		"-n 5 ./pool":          `unexpected argument "./pool"; packages are given with -packages`,
		"-only":                "flag needs an argument: -only",
		"-list -n 1 -packages": "flag needs an argument: -packages",
	} {
		var out, complaint strings.Builder
		require.Equal(t, exitUsage, run(context.Background(), strings.Fields(args), &out, &complaint), args)
		require.Empty(t, out.String(), args)
		require.Equal(t, "mutate: "+want+"\n", complaint.String(), args)
	}
}

func TestAPackageThatDoesNotExistIsOneLine(t *testing.T) {
	var complaint strings.Builder
	require.Equal(t, exitFailed, run(context.Background(), []string{"-packages", "./nowhere"}, io.Discard, &complaint))
	require.Regexp(t, `^mutate: go list: .*nowhere.*\n$`, complaint.String())
}

func TestHelpNamesEveryFlag(t *testing.T) {
	var out, complaint strings.Builder
	require.Equal(t, exitOK, run(context.Background(), []string{"-h"}, &out, &complaint))
	require.Empty(t, complaint.String())
	for _, name := range []string{"seed", "n", "packages", "timeout", "list", "only"} {
		require.Contains(t, out.String(), "\n  -"+name)
	}
}
