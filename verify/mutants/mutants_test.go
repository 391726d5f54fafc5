package mutants

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/verify/claim"
)

// root is where the repository begins.
func root(t *testing.T) string {
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

func all(t *testing.T) (mutants []mutant) {
	patches, err := filepath.Glob("*.patch")
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	for _, patch := range patches {
		patch, err := filepath.Abs(patch)
		require.NoError(t, err)
		m, err := read(patch)
		require.NoError(t, err)
		mutants = append(mutants, m)
	}
	return mutants
}

// Otherwise a patch could stop fitting the code unnoticed.
func TestEveryPatchAppliesAndNamesTests(t *testing.T) {
	claim.That(t, "the mutants are mutants of the present code", "each patch applies, and each test that it names exists")
	patches, tests := 0, map[string]bool{}
	for _, m := range all(t) {
		if !assert.NoError(t, m.gitApply(root(t), "--check")) {
			continue
		}
		for _, c := range m.catchers {
			names, err := c.names(root(t))
			require.NoError(t, err, m.name)
			require.NotEmpty(t, names, "%s: there is no test %s in %s", m.name, c.tests, c.pkg)
			for _, name := range names {
				tests[c.pkg+" "+name] = true
			}
		}
		patches++
	}
	claim.Amount(t, "%s patches, %s tests", claim.Count(patches), claim.Count(len(tests)))
}

// quick are mutants whose tests need no luck and little time. Those of package pool take a minute to compile; the explorer finds some of them.
var quick = []string{
	"deque-growth-forgets-the-oldest",
	"ring-push-trusts-an-old-head",
	"unpin-leaves-the-thread-bound",
	"policy-everybody-cleared-the-bit",
}

func TestEveryMutantIsCaught(t *testing.T) {
	claim.That(t, "every mutant of the real code is caught",
		"a patch takes away a fence, a compare-and-swap, an order or a wake-up; a test that passes without it must fail with it")
	if testutil.Short() {
		t.Skip("mutants must be built, and some of their tests hang")
	}
	mutants := all(t)
	if !claim.Full() {
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !slices.Contains(quick, m.name) })
		require.Len(t, mutants, len(quick))
	}
	repository, err := copyOf(root(t), t.TempDir())
	require.NoError(t, err)

	var mu sync.Mutex
	var caught []string
	clean := map[string]catcher{} // the tests that noticed something, by how they are built and run
	t.Run("mutants", func(t *testing.T) {
		for _, m := range mutants {
			t.Run(m.name, func(t *testing.T) {
				if !m.needsLuck() {
					t.Parallel()
				}
				n, err := repository.catch(m, t.TempDir())
				require.NoError(t, err)
				require.NotNil(t, n, "no test notices: %s", m.weakens)
				t.Logf("%s: %s %s %s", m.name, n.by.pkg, n.test, n.how)
				mu.Lock()
				defer mu.Unlock()
				caught = append(caught, m.name)
				clean[n.by.setting()] = clean[n.by.setting()].and(n.by, n.test)
			})
		}
	})
	t.Run("clean", func(t *testing.T) {
		for setting, c := range clean {
			t.Run(setting, func(t *testing.T) {
				t.Parallel()
				require.NoError(t, repository.passes(c, t.TempDir()))
			})
		}
	})
	slices.Sort(caught)
	claim.Amount(t, "%d of %d: %s", len(caught), len(mutants), strings.Join(caught, ", "))
}

// A verdict must tell a test that noticed something from one that could not run.
func TestVerdictsSayWhichTestEndedHow(t *testing.T) {
	for output, want := range map[string][2]string{
		"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n--- FAIL: TestB (0.10s)\nFAIL\n":      {"TestB", "failed"},
		"=== RUN   TestA\nWARNING: DATA RACE\n--- FAIL: TestA (0.10s)\nFAIL\n":                            {"TestA", "saw a data race"},
		"=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/x\nfatal error: no\n": {"TestB", "crashed"},
		"=== RUN   TestA\npanic: test timed out after 1s\n":                                               {"TestA", "hung"},
		"panic: in an init function\n": {"", "crashed"},
	} {
		test, how := verdict(output)
		require.Equal(t, want, [2]string{test, how})
	}
}
