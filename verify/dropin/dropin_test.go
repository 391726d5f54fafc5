// Package dropin runs the tests of packages that heist's take the place of against heist's.
package dropin

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/overlay"
)

const (
	original = "golang.org/x/sync/errgroup"
	dropIn   = "github.com/seed53057037/heist/errgroup"
)

var testFunc = regexp.MustCompile(`(?m)^func Test\w+\(`)

// TestTheTestsOfErrgroupPass though nothing but the import line is changed in them. An overlay puts them in the place of heist's own.
func TestTheTestsOfErrgroupPass(t *testing.T) {
	claim.That(t, "errgroup: heist's package passes the tests of golang.org/x/sync/errgroup, in which nothing but the import line is changed",
		"those of the module cache, with one P and with more")
	module := xSync(t)
	files, err := filepath.Glob(filepath.Join(module.Dir, "errgroup", "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	target, err := filepath.Abs("../../errgroup")
	require.NoError(t, err)
	replace := map[string]string{}
	own, err := filepath.Glob(filepath.Join(target, "*_test.go"))
	require.NoError(t, err)
	for _, file := range own {
		replace[file] = "" // as if there were none
	}
	dir := t.TempDir()
	tests := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tests += len(testFunc.FindAll(text, -1))
		require.Contains(t, string(text), strconv.Quote(original), file)
		changed := filepath.Join(dir, filepath.Base(file))
		require.NoError(t, os.WriteFile(changed, []byte(strings.ReplaceAll(string(text), strconv.Quote(original), strconv.Quote(dropIn))), 0o666))
		replace[filepath.Join(target, "original_"+filepath.Base(file))] = changed
	}
	require.NotZero(t, tests)
	changes := filepath.Join(dir, "overlay.json")
	require.NoError(t, overlay.Write(changes, replace))
	ran := 0
	for _, ps := range []string{"1", "2", "8"} {
		c := exec.Command("go", "test", "-overlay", changes, "-v", "-count=1", "-timeout=1m", "-bench=.", "-benchtime=1000x", dropIn)
		c.Env = append(os.Environ(), "GOMAXPROCS="+ps)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "GOMAXPROCS=%s\n%s", ps, out)
		passed := strings.Count(string(out), "--- PASS: Test")
		require.Equal(t, tests, passed, "%s", out)
		ran += passed
	}
	claim.Amount(t, "%d tests of x/sync %s", ran, module.Version)
}

// xSync returns the module that verify requires. It skips the test if that can't be had.
func xSync(t *testing.T) (module struct{ Dir, Version string }) {
	c := exec.Command("go", "mod", "download", "-json", "golang.org/x/sync")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Skipf("golang.org/x/sync is neither in the module cache nor can it be downloaded: %v\n%s", err, out)
	}
	require.NoError(t, json.Unmarshal(out, &module))
	return module
}
