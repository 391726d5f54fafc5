package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/verify/claim"
)

// wordBuild is a build of package heist's tests.
type wordBuild struct{ env, tags string }

// TestShortWordsWrapWithoutHarm runs tests of package heist, which set indices to just below 2^31,
// 2^32, 2^53, 2^62 and 2^63, and counters to just below their wrap. They begin there because 2^63
// pushes take too long: at one each nanosecond, 292 years.
func TestShortWordsWrapWithoutHarm(t *testing.T) {
	claim.That(t, "indices pass 2^31 and 2^32, counters wrap on 32-bit systems, and no item is lost",
		"queues that begin just below, in builds for this machine, without assembly and for GOARCH=386")
	builds := []wordBuild{{}}
	if claim.Full() { // these may build the standard library anew
		builds = append(builds, wordBuild{tags: "purego"})
		if runtime.GOARCH == "amd64" {
			builds = append(builds, wordBuild{env: "GOARCH=386"})
		}
	}
	cases := 0
	for _, b := range builds {
		cases += b.run(t)
	}
	claim.Amount(t, "%d builds, %s cases", len(builds), claim.Count(cases))
}

// passedCase is how the test binary tells of a case that passed.
var passedCase = regexp.MustCompile(`(?m)^ *--- PASS: Test.*(0x[0-9a-f]+|Counters.*/.*) \(`)

// run runs the tests and returns how many cases passed.
func (b wordBuild) run(t *testing.T) int {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "heist.test")
	c := exec.Command("go", "test", "-c", "-o", binary, "-tags", b.tags, "github.com/seed53057037/heist")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b.env != "" {
		c.Env = append(c.Env, b.env)
	}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(binary, "-test.v", "-test.run", "EveryBorderOfAWord|CountersThatWrap").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cases := len(passedCase.FindAll(out, -1))
	require.NotZero(t, cases, "%s", out)
	return cases
}
