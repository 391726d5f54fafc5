package guest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMachinesAreWhole(t *testing.T) {
	for _, m := range Machines {
		same, err := Named(m.Name)
		require.NoError(t, err)
		require.Equal(t, m, same)
		require.NotEmpty(t, m.GOARCH())
		require.Equal(t, 8, m.CPUs())
		var cpus, ofCores []int
		for node, row := range m.Distances {
			cpus = append(cpus, m.NodeCPUs(node)...)
			require.Len(t, row, m.Nodes())
			for other, distance := range row {
				require.Equal(t, node == other, distance == 10, "qemu refuses other distances to a node itself")
				require.Equal(t, m.Distances[other][node], distance)
			}
		}
		for core := range m.Nodes() * m.Cores {
			ofCores = append(ofCores, m.CoreCPUs(core)...)
		}
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, cpus)
		require.Equal(t, cpus, ofCores)
	}
}

func TestUnknownMachineIsAnErrorThatNamesTheKnown(t *testing.T) {
	_, err := Named("vax")
	require.EqualError(t, err, `there is no machine "vax"; there are x86_64, x86_64-smt, aarch64`)
}

func TestMachineGetsThroughTheEnvironment(t *testing.T) {
	text, err := json.Marshal(Machines[0])
	require.NoError(t, err)
	t.Setenv(Variable, string(text))
	m, inside, err := Current()
	require.NoError(t, err)
	require.True(t, inside)
	require.Equal(t, Machines[0], m)

	t.Setenv(Variable, "x86_64")
	_, inside, err = Current()
	require.True(t, inside, "a test that was to run here must not be skipped")
	require.ErrorContains(t, err, Variable+" does not hold a machine")
}

func TestEventsGetThroughTheConsole(t *testing.T) {
	for _, e := range []Event{
		{Booted: &Booted{Kernel: "6.1", Seconds: 2.5}},
		{Begun: "./pool"},
		{Ended: &Ended{Name: "./pool", Error: "exit status 1", Seconds: 1.5}},
		{Fixture: []byte{0, '\n', '\r', 255}},
		{Failed: "two\nlines"},
		{Done: true},
	} {
		require.NotContains(t, e.String(), "\n")
		// A test may leave a line open.
		before, got, err := ParseEvent("PASS" + e.String())
		require.NoError(t, err)
		require.Equal(t, "PASS", before)
		require.Equal(t, &e, got)
	}
}

func TestOtherLinesAreNoEvents(t *testing.T) {
	for _, line := range []string{"", "--- FAIL: TestX (0.1s)", `{"done":true}`} {
		before, e, err := ParseEvent(line)
		require.NoError(t, err)
		require.Nil(t, e)
		require.Equal(t, line, before)
	}
}

// The kernel may print in the middle of a line.
func TestBrokenEventIsAnError(t *testing.T) {
	line := Event{Done: true}.String()
	before, e, err := ParseEvent(line[:len(line)-3] + "[    4.2] oops")
	require.ErrorContains(t, err, "is broken")
	require.Nil(t, e)
	require.Contains(t, before, "oops")
}
