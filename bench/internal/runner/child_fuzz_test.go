package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/contract"
)

// FuzzChildOutput: whatever a peer's program prints, there is a value for each metric, or an
// error.
func FuzzChildOutput(f *testing.F) {
	for _, out := range []string{
		"", "\n", "null\n", "{}\n", "x\n",
		`{"metric":"ns","value":4.9}` + "\n",
		`{"metric":"ns","value":4.9}` + "\n" + `{"metric":"p99-us","value":1e3}` + "\n",
		`{"metric":"ns","value":"4.9"}` + "\n",
		`{"metric":"ns","value":1e400}` + "\n",
	} {
		f.Add(out)
	}
	metrics := []contract.Metric{{Name: "ns", Better: contract.Lower}, {Name: "p99-us", Better: contract.Lower}}
	f.Fuzz(func(t *testing.T, out string) {
		s, err := parseSample(out, metrics)
		if err != nil {
			require.Empty(t, s.Values)
			return
		}
		require.Len(t, s.Values, len(metrics))
	})
}
