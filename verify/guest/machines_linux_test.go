package guest

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/verify/claim"
)

var (
	passed  = regexp.MustCompile(`(?m)^--- PASS: `)
	balance = regexp.MustCompile(`by topology: (\[.*\]% of the steals within the node)`)
)

// TestMachinesWithSeveralNodes boots the machines and runs in them what needs several nodes.
func TestMachinesWithSeveralNodes(t *testing.T) {
	claim.That(t, "on machines with several nodes topology, pinning, memory, thieves, hotplug and throttling are as they should be",
		"guests under qemu with 4 nodes of 2 CPUs (x86_64) and 2 of 4 (aarch64): what qemu was told, and what the guest's kernel says")
	if !claim.Full() {
		t.Skip("only with " + claim.AmountVariable + "=full; verify/guest/run boots them by itself")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("the kernels of the machines come from Debian, by apt-get")
	}
	if os.Getuid() != 0 {
		if _, err := exec.LookPath("qemu-system-aarch64"); err != nil {
			t.Skip("qemu is not installed: apt install qemu-system-x86 qemu-system-arm")
		}
	}
	run := exec.Command("./run", "-packages", "./verify/guest/inside", "--", "-test.v", "-test.short")
	run.Env = append(os.Environ(), claim.Ordinary)
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 2, bytes.Count(out, []byte(": turned off")), "%s", out)
	var shares []string
	for _, m := range balance.FindAllSubmatch(out, -1) {
		shares = append(shares, string(m[1]))
	}
	claim.Amount(t, "2 machines, %d tests; %s", len(passed.FindAll(out, -1)), strings.Join(shares, ", "))
}
