package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// outcome is a case in which heist took one second, and others took so many.
func outcome(name string, workers int, others map[string]float64) runner.Outcome {
	o := runner.Outcome{Suite: "suite", Workers: workers, Case: runner.Case{Name: name, Metrics: []contract.Metric{{Name: "s", Better: contract.Lower}}}}
	add := func(impl string, v float64) {
		o.Series = append(o.Series, runner.Series{Impl: runner.Impl{Name: impl}, Samples: []runner.Sample{{Values: []float64{v}}}})
	}
	add("heist", 1)
	for impl, v := range others {
		add(impl, v)
	}
	return o
}

func TestTheStoryIsAboutTheBestOtherOfEachCase(t *testing.T) {
	var b bytes.Buffer
	Story(&b, []runner.Outcome{
		outcome("won", 1, map[string]float64{"slow": 0.1}), // with fewer workers, so it does not count
		outcome("won", 2, map[string]float64{"slow": 8, "quick": 2}),
		outcome("even", 2, map[string]float64{"slow": 9, "quick": 0.99}),
		outcome("lost", 2, map[string]float64{"slow": 9, "quick": 0.5}),
		outcome("alone", 2, nil),
	})
	text := b.String()
	require.Contains(t, text, "1 won, 1 even (within 2%), 1 lost")
	require.Contains(t, text, "suite/won")
	require.NotContains(t, text, "alone")
	_, lost, ok := strings.Cut(text, "lost:\n")
	require.True(t, ok)
	require.Contains(t, lost, "suite/lost")
	require.Contains(t, lost, "2.00 of quick")
	require.NotContains(t, lost, "suite/won")
	require.Less(t, strings.Index(text, "suite/won"), strings.Index(text, "suite/lost"))
}

func TestAStoryOfNothingIsEmpty(t *testing.T) {
	var b bytes.Buffer
	Story(&b, nil)
	require.Empty(t, b.String())
	Story(&b, []runner.Outcome{outcome("won", 2, map[string]float64{"slow": 8})})
	require.NotContains(t, b.String(), "\nlost:")
}

func TestBarsAreAsWideWhateverTheRatio(t *testing.T) {
	for _, ratio := range []float64{1e-9, 0.25, 0.5, 1, 2, 4, 1e9} {
		require.Len(t, []rune(bar(ratio)), 2*barHalf+1)
	}
	require.Equal(t, "        │        ", bar(1))
	require.Equal(t, "████████│        ", bar(0.25))
	require.Equal(t, "        │████    ", bar(2))
}

// TestWhatIsPrintedFitsATerminal, whatever is measured, and ranges of one run are left out.
func TestWhatIsPrintedFitsATerminal(t *testing.T) {
	long := outcome("sort-pair-stable-organ-pipe", 2, map[string]float64{"errgroup-nolimit": 0.25, "serial": 3})
	long.Case.About, long.Line = strings.Repeat("what is measured ", 9), 50
	long.Case.Metrics[0].Name = "ns/steal"
	var b bytes.Buffer
	Table(&b, []runner.Outcome{long})
	Story(&b, []runner.Outcome{long, outcome("sort-pair-stable-reversed", 2, map[string]float64{"go": 3})})
	List(&b, []runner.Suite{{Name: "suite", Cases: []runner.Case{long.Case}}})
	b.WriteString(Legend + "\n" + Glance)
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, len([]rune(strings.TrimRight(line, " \n"))), width, line)
	}
	require.NotContains(t, b.String(), " to 4.00)")
}
