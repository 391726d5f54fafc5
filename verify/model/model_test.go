package model

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/verify/claim"
)

var update = flag.Bool("update", false, "write code.sum anew: say that the models say the same as the code")

func TestDequeModel(t *testing.T) {
	check(t, "deque.pml", "the deque loses no item and gives none twice, on amd64 and on arm64")
}

func TestRingModel(t *testing.T) {
	check(t, "ring.pml", "the ring loses no item and gives none twice, while its thieves are stolen from too")
}

func TestForkModel(t *testing.T) {
	check(t, "fork.pml", "a fork runs once, and no frame is used again while a thief holds it, on amd64 and on arm64")
}

func TestScopeModel(t *testing.T) {
	check(t, "scope.pml", "a child of a scope runs once, a thief finds whose it is, and a scope ends after all its children")
}

func TestSleepModel(t *testing.T) {
	check(t, "sleep.pml", "workers never all sleep with work left, and every wake-up is accounted for")
}

func TestWaitingModel(t *testing.T) {
	check(t, "waiting.pml", "tasks that wait for one another without a circle all end, and no more workers have a place than there are places")
}

func TestEndModel(t *testing.T) {
	check(t, "end.pml", "a pool ends when all that it has accepted is done, and not before, whatever its tasks and its guests' forks add")
}

// check verifies a model's configurations, the larger ones only if the run allows it, and checks
// that its mutants are caught.
func check(t *testing.T, file, says string) {
	claim.That(t, says, "a Promela model, all interleavings within its bounds; mutants of it must be caught")
	t.Parallel()
	needSpin(t)
	m, err := readModel(file)
	require.NoError(t, err)

	configurations := m.upTo(amount())
	sound := make([]verified, len(configurations))
	t.Run("configuration", func(t *testing.T) {
		for i, c := range configurations {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				v, err := m.generate(t.Context(), t.TempDir(), c)
				require.NoError(t, err)
				o, err := v.verify(t.Context())
				require.NoError(t, err)
				sound[i] = verified{v, o}
			})
		}
	})
	if t.Failed() {
		return
	}
	states := 0
	for _, v := range sound {
		states += v.states
	}
	said := fmt.Sprintf("%s states in %d configurations", claim.Count(states), len(sound))
	if amount() == small {
		claim.Amount(t, "%s", said)
		return
	}
	require.Empty(t, neverReached(sound), "assertions that are never evaluated")

	caught := make([]string, len(m.mutants))
	t.Run("mutant", func(t *testing.T) {
		for i, mu := range m.mutants {
			t.Run(mu.name, func(t *testing.T) {
				t.Parallel()
				by, err := m.catch(t.Context(), mu, sound, t.TempDir)
				require.NoError(t, err)
				caught[i] = fmt.Sprintf("%s (%s)", plain(mu.name), by)
			})
		}
	})
	claim.Amount(t, "%s; %d mutants caught: %s", said, len(caught), strings.Join(caught, ", "))
}

func plain(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "MUTANT_"), "_", " "))
}

func amount() scale {
	switch {
	case testutil.Short():
		return small
	case claim.Full():
		return full
	}
	return ordinary
}

// needSpin skips the test if nothing here can run a model. In a run with full amounts the test
// fails instead.
func needSpin(t *testing.T) {
	_, err := exec.LookPath("spin")
	if err == nil {
		_, err = compiler()
	}
	if err != nil {
		const remedy = "%v; no model is verified without: apt install spin tcc, or gcc"
		require.False(t, claim.Full(), remedy, err)
		t.Skipf(remedy, err)
	}
}

func models(t *testing.T) []*model {
	files, err := filepath.Glob("*.pml")
	require.NoError(t, err)
	var all []*model
	for _, file := range files {
		m, err := readModel(file)
		require.NoError(t, err)
		all = append(all, m)
	}
	return all
}

func TestNoModelIsForgotten(t *testing.T) {
	text, err := os.ReadFile("model_test.go")
	require.NoError(t, err)
	for _, m := range models(t) {
		require.Contains(t, string(text), `check(t, "`+m.file+`", `, "no test verifies this model")
	}
}

// simulation is no model, but repeats functions of the pool too.
func simulation(t *testing.T) *model {
	m := &model{file: "bench/internal/sim/doc.go"}
	text, err := os.ReadFile(filepath.Join("../..", m.file))
	require.NoError(t, err)
	require.Positive(t, m.readStandsFor(string(text)))
	return m
}

func TestModelsStandForTheCode(t *testing.T) {
	claim.That(t, "the models are of the code as it is", "hashes of the functions and types that each model names")
	all := append(models(t), simulation(t))
	is, err := sums("../..", all)
	require.NoError(t, err)
	if *update {
		require.NoError(t, writeSums("code.sum", is))
	}
	was, err := readSums("code.sum")
	require.NoError(t, err)
	require.Empty(t, changes(all, is, was),
		"look whether each model still says what the code does, change it if not, then: go test ./verify/model -update")
	claim.Amount(t, "%d pieces of code, %d models and a simulation", len(is), len(all)-1)
}
