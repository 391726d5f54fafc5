package sequence

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/verify/claim"
)

// root is the root of the repository, as seen from here.
const root = "../.."

// target is a fuzz target: a function in a file of a package's folder.
type target struct{ folder, file, name string }

// targets returns all fuzz targets of the repository.
func targets(t *testing.T) (all []target) {
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && path != root):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") && len(f.Type.Params.List) == 1 {
				all = append(all, target{filepath.Dir(path), path, f.Name.Name})
			}
		}
		return nil
	}))
	return all
}

var execs = regexp.MustCompile(`execs: (\d+)`)

// Before Go 1.27 a run sometimes fails because its time is up (golang/go#75804). No input
// has failed then, and none is written down.
var (
	timeIsUp = regexp.MustCompile(`(?m)^--- FAIL: .*\n\s+context deadline exceeded$`)
	newInput = regexp.MustCompile(`Failing input written`)
)

// minimizing is how often a new input is tried in a shorter form. What threads cover changes from
// run to run, so without a limit that would take minutes.
const minimizing = "10x"

// duration is how long a target is fuzzed. On two busy CPUs the longest list of seeds alone takes three seconds.
const duration = "10s"

// fuzz runs a target and returns how many inputs it has seen. An input that fails is
// written down by go test in the package's testdata, from which it is tried again for
// ever after.
func (f target) fuzz(t *testing.T) (inputs int64) {
	c := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+f.name+"$", "-fuzztime", duration,
		"-fuzzminimizetime", minimizing, "-parallel", strconv.Itoa(runtime.NumCPU()), ".")
	c.Dir = f.folder
	out, err := c.CombinedOutput()
	if !timeIsUp.Match(out) || newInput.Match(out) {
		require.NoError(t, err, "%s", out)
	}
	for _, m := range execs.FindAllSubmatch(out, -1) {
		n, err := strconv.ParseInt(string(m[1]), 10, 64)
		require.NoError(t, err)
		inputs = max(inputs, n)
	}
	require.NotZero(t, inputs, "%s", out)
	return inputs
}

// TestEveryParserAndQueueIsFuzzed runs all fuzz targets for a while, where full amounts are
// asked for. With their seeds they run as tests of their own packages.
func TestEveryParserAndQueueIsFuzzed(t *testing.T) {
	claim.That(t, "nothing that parses, no queue and no sequence of calls has an input that breaks it",
		"all fuzz targets of the repository, found by parsing its tests, "+duration+" each")
	all := targets(t)
	require.GreaterOrEqual(t, len(all), 14, "the repository has more targets than were found")
	if !claim.Full() {
		t.Skip("with their seeds the targets run in their own packages")
	}
	var inputs int64
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			n := f.fuzz(t)
			t.Logf("%d inputs", n)
			inputs += n
		})
	}
	claim.Amount(t, "%s inputs to %s targets", claim.Count(inputs), claim.Count(len(all)))
}

// TestEveryPackageThatParsesHasATarget compares a list of the functions that read what others wrote
// with the targets.
func TestEveryPackageThatParsesHasATarget(t *testing.T) {
	claim.That(t, "everything that parses has a fuzz target", "a list of the functions, and the text of the targets' files")
	var source strings.Builder
	for _, f := range targets(t) {
		if f.name == "FuzzSequence" {
			continue // the names are in this package
		}
		text, err := os.ReadFile(f.file)
		require.NoError(t, err)
		source.Write(text)
	}
	parsers := []string{
		"ParseSet(", "parseMask(", "read(", "json.Unmarshal([]byte(text), &got)", // numa
		"readLatencies(",                // pool
		"parseOptions(", "parseSample(", // bench
		"ChooseMachines(", "ChooseLoads(", // bench sim
	}
	for _, p := range parsers {
		require.Contains(t, source.String(), p)
	}
	claim.Amount(t, "%s functions", claim.Count(len(parsers)))
}
