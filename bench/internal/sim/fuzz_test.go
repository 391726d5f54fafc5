package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzChoose: a list of names gives as many machines and loads as it has names, or an error
// that says which names there are.
func FuzzChoose(f *testing.F) {
	for _, list := range []string{"", "all", ",", "1n8c", "1n8c,4n8c", "8n512c,", "uts-t3", "forkjoin,service-90", "all,all", " 1n8c"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		machines, err := ChooseMachines(list)
		requireChosen(t, list, len(machines), MachineNames(), err)
		loads, err := ChooseLoads(list)
		requireChosen(t, list, len(loads), LoadNames(), err)
	})
}

func requireChosen(t *testing.T, list string, n int, names []string, err error) {
	switch {
	case err != nil:
		for _, name := range names {
			require.ErrorContains(t, err, name)
		}
	case list == "all":
		require.Equal(t, len(names), n)
	default:
		require.Equal(t, strings.Count(list, ",")+1, n)
	}
}
