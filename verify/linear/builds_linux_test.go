package linear

import (
	"fmt"
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

// build is a way to build heist, and what runs the result.
type build struct {
	name        string
	flags       []string
	environment []string
	run         []string
	slow        bool // ten times slower than others
}

// builds are all that differ in the queues' code. Qemu is bound to one CPU: on amd64 it
// lets a store pass a later load of another thread, which arm64 does not (see
// TestMachineKeepsStoresBeforeLaterLoads in the root package).
var builds = []build{
	{name: "assembly of " + runtime.GOARCH},
	{name: "Go", flags: []string{"-tags", "purego"}},
	{name: "race", flags: []string{"-race"}, environment: []string{"CGO_ENABLED=1"}, slow: true},
	{name: "arm64 with LSE", environment: arm64, run: qemu("max"), slow: true},
	{name: "arm64 without LSE", environment: arm64, run: qemu("cortex-a53"), slow: true},
}

var arm64 = []string{"GOARCH=arm64", "CGO_ENABLED=0"}

func qemu(cpu string) []string { return []string{"taskset", "-c", "0", "qemu-aarch64", "-cpu", cpu} }

// environmentWith is this process's, with ordinary amounts.
func environmentWith(more ...string) []string {
	return append(append(os.Environ(), claim.Ordinary), more...)
}

// TestHistoriesInEveryBuild runs the other tests of this package in each build.
func TestHistoriesInEveryBuild(t *testing.T) {
	claim.That(t, "the queues are linearizable in every build",
		"the same histories in binaries built with assembly, in Go, with the race detector, and for arm64 under qemu with and without LSE")
	if !claim.Full() {
		t.Skip("only with " + claim.AmountVariable + "=full; the other tests are of this build")
	}
	seed := os.Getenv("HEIST_SEED")
	if seed == "" {
		seed = strconv.Itoa(os.Getpid())
	}
	var amounts []string
	for _, b := range builds {
		histories := 0
		t.Run(b.name, func(t *testing.T) { histories = b.histories(t, seed) })
		amounts = append(amounts, fmt.Sprintf("%s in %s", claim.Count(histories), b.name))
	}
	claim.Amount(t, "histories: %s", strings.Join(amounts, ", "))
}

// histories builds and runs the tests, and returns how many histories they had judged.
func (b build) histories(t *testing.T, seed string) (n int) {
	binary := filepath.Join(t.TempDir(), "linear.test")
	compile := exec.Command("go", append([]string{"test", "-c", "-o", binary}, append(b.flags, ".")...)...)
	compile.Env = environmentWith(b.environment...)
	output, err := compile.CombinedOutput()
	require.NoError(t, err, "%s", output)

	command := append(b.run, binary, "-test.v", "-test.timeout=5m", "-test.run=IsLinearizable", fmt.Sprint("-test.short=", b.slow))
	run := exec.Command(command[0], command[1:]...)
	// More Ps than CPUs, so that the system interrupts operations in the middle.
	run.Env = environmentWith("HEIST_SEED="+seed, "GOMAXPROCS=4")
	output, err = run.CombinedOutput()
	require.NoError(t, err, "HEIST_SEED=%s: %s\n%s", seed, strings.Join(command, " "), output)
	for _, count := range attribute.FindAllSubmatch(output, -1) {
		histories, err := strconv.Atoi(string(count[1]))
		require.NoError(t, err)
		n += histories
	}
	require.NotZero(t, n, "%s", output)
	return n
}

// attribute is how a test's number of histories is printed.
var attribute = regexp.MustCompile(`(?m)^=== ATTR +\S+ ` + historiesKey + ` (\d+)$`)
