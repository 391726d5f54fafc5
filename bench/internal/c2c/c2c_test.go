package c2c

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/numa"
)

// machine returns the topology of the machine that the tests of numa have.
func machine(t *testing.T) *numa.Topology {
	topology, err := numa.ReadRoot("../../../numa/testdata/2n4c")
	require.NoError(t, err)
	return topology
}

// anyPair returns two CPUs of this machine, or skips the test.
func anyPair(t *testing.T) Pair {
	allowed, err := heist.Allowed()
	require.NoError(t, err)
	if len(allowed) < 2 {
		t.Skip("it takes two CPUs")
	}
	if pin, err := heist.Pin(allowed[0]); errors.Is(err, heist.ErrPinning) {
		t.Skip(err)
	} else {
		require.NoError(t, err)
		require.NoError(t, pin.Unpin())
	}
	return Pair{allowed[0], allowed[1]}
}

// swept returns what a measurement would, with figures by the distance of the numbers.
func swept(n int) *Sweep {
	s := &Sweep{ways: make(map[Pair][]float64)}
	far := Tier{Name: "remote"}
	for a := range n {
		s.CPUs = append(s.CPUs, a)
		for b := range a {
			far.Pairs = append(far.Pairs, Pair{b, a})
			way := 40 + 10*float64(a-b)
			s.ways[Pair{b, a}] = []float64{way + 2, way - 1, way}
		}
	}
	if n > 1 {
		s.Tiers = []Tier{far}
	}
	return s
}

func TestWayIsMeasured(t *testing.T) {
	way, err := anyPair(t).Measure(time.Millisecond)
	require.NoError(t, err)
	assert.Positive(t, way.Min)
	assert.LessOrEqual(t, way.Min, way.Median)
	assert.LessOrEqual(t, way.Median, way.Max)
}

func TestOnePIsRaisedForTheTime(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_, err := anyPair(t).Measure(0)
	require.NoError(t, err)
	assert.Equal(t, 1, runtime.GOMAXPROCS(0))
}

func TestPartnersThatSeldomRunTogetherComeToAnEnd(t *testing.T) {
	pair := anyPair(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	var others sync.WaitGroup
	var stop atomic.Bool
	for _, cpu := range []int{pair.First, pair.Second, pair.First, pair.Second} {
		others.Go(func() {
			pin, err := heist.Pin(cpu)
			if !assert.NoError(t, err) {
				return
			}
			for !stop.Load() {
				heist.Spin(time.Microsecond)
			}
			assert.NoError(t, pin.Unpin())
		})
	}
	way, err := pair.Measure(0)
	stop.Store(true)
	others.Wait()
	require.NoError(t, err)
	assert.Positive(t, way.Median)
}

func TestPartnerThatCannotBePinnedIsAnErrorForBoth(t *testing.T) {
	pair := anyPair(t)
	const missing = 1 << 18
	for _, p := range []Pair{{pair.First, missing}, {missing, pair.First}} {
		_, err := p.Measure(time.Hour)
		require.ErrorContains(t, err, fmt.Sprintf("cannot pin to CPU %d", missing))
	}
}

func TestPartnerThatNeverAnswersIsAnError(t *testing.T) {
	line := line{patience: time.Millisecond}
	_, err := line.serve(0)
	require.ErrorContains(t, err, "has not answered")
	line.turn.Store(servers)
	require.ErrorContains(t, line.answer(), "has not answered")
}

func TestPartnerThatStopsEndsTheGame(t *testing.T) {
	line := line{patience: time.Hour}
	line.turn.Store(nobodys)
	_, err := line.serve(0)
	assert.Equal(t, errGone, err)
	assert.Equal(t, errGone, line.answer())
	assert.Equal(t, nobodys, line.turn.Load(), "nothing overwrites the end")
}

func TestEveryPairIsInOneTier(t *testing.T) {
	topology := machine(t)
	var names []string
	counts := make(map[Pair]int)
	for _, tier := range Tiers(topology, topology.Online) {
		names = append(names, fmt.Sprint(tier.Name, " ", len(tier.Pairs)))
		for _, pair := range tier.Pairs {
			counts[pair]++
			assert.Less(t, pair.First, pair.Second)
		}
	}
	assert.Equal(t, []string{"same-core 4", "same-l3 8", "same-node 0", "remote 16"}, names)
	assert.Len(t, counts, 8*7/2)

	assert.Equal(t, Pair{0, 4}, Tiers(topology, numa.Set{0, 4})[sameCore].Pairs[0])
	assert.Equal(t, Pair{0, 2}, Tiers(topology, numa.Set{0, 2})[remote].Pairs[0])
}

func TestUnknownPlacesAreNotTheSame(t *testing.T) {
	nowhere := numa.CPU{Node: -1, Package: -1, Core: -1, L3: -1}
	assert.Equal(t, remote, tierOf(nowhere, nowhere))
	a, b := nowhere, nowhere
	a.Node, b.Node, a.Package, b.Package = 0, 1, 3, 3
	assert.Equal(t, sameNode, tierOf(a, b), "two nodes of one package")
	a.L3, b.L3 = 2, 2
	assert.Equal(t, sameL3, tierOf(a, b))
}

func TestSomePairsAreSpreadOverAll(t *testing.T) {
	tier := swept(20).Tiers[0] // 190 pairs
	some := tier.Some(10).Pairs
	require.Len(t, some, 10)
	for i, pair := range some {
		assert.Equal(t, tier.Pairs[19*i], pair)
	}
	assert.Equal(t, tier, tier.Some(190))
}

func TestChoiceOfCPUs(t *testing.T) {
	topology := machine(t)
	topology.Allowed = numa.Set{0, 1, 2, 3}
	cpus, err := Choose(topology, "", false)
	require.NoError(t, err)
	assert.Equal(t, topology.Allowed, cpus)
	cpus, err = Choose(topology, "3,0-1", true)
	require.NoError(t, err)
	assert.Equal(t, numa.Set{0, 1, 3}, cpus)

	for list, says := range map[string]string{
		"2-5": "CPU 4 is not there for this process; it may use 0-3",
		"":    "no CPU in the list",
		"x":   `"x"`,
	} {
		_, err = Choose(topology, list, true)
		assert.ErrorContains(t, err, says)
	}
}

func TestSweepMeasuresEveryPairInEveryRound(t *testing.T) {
	pair := anyPair(t)
	topology, err := numa.Read()
	require.NoError(t, err)
	s, err := Run(topology, numa.Set{pair.First, pair.Second}, 3, time.Millisecond)
	require.NoError(t, err)
	assert.Len(t, s.ways[pair], 3)
	require.Len(t, s.Tiers, 1)
	lines := s.Lines()
	require.Len(t, lines, 1)
	assert.Equal(t, 3, lines[0].Runs)
	assert.Equal(t, s.Between(pair.First, pair.Second), s.Between(pair.Second, pair.First))
}

func TestSweepOfOneCPUHasNothingToMeasure(t *testing.T) {
	s, err := Run(machine(t), numa.Set{3}, 3, time.Hour)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, s.Text(&out))
	assert.Contains(t, out.String(), "nothing to measure: CPU 3 is alone")
	assert.Empty(t, s.Lines())
	out.Reset()
	require.NoError(t, s.Matrix().Write(&out))
	assert.Equal(t, "{\"cpus\":[3],\"ns\":[[0]]}\n", out.String())
	require.NoError(t, s.SVG(io.Discard))
}

// The pool reads files of this form.
func TestMatrixHasItsForm(t *testing.T) {
	s := &Sweep{CPUs: numa.Set{0, 1, 2}, ways: map[Pair][]float64{
		{0, 1}: {90, 48.06, 48.1}, {0, 2}: {97}, {1, 2}: {96, 95.98, 96.02},
	}}
	var out bytes.Buffer
	require.NoError(t, s.Matrix().Write(&out))
	assert.Equal(t, `{"cpus":[0,1,2],"ns":[[0,48.1,97],[48.1,0,96],[97,96,0]]}`+"\n", out.String())
}

func TestLineOfATierIsTheSpreadOfItsRounds(t *testing.T) {
	// The medians over the three pairs are 52 in the first round, 49 and 50.
	assert.Equal(t, []contract.Line{{
		Suite: "c2c", Case: "remote", Impl: "heist", Workers: 2, Metric: "ns",
		Value: 50, Min: 49, Max: 52, Runs: 3, Better: contract.Lower, Samples: []float64{52, 49, 50},
	}}, swept(3).Lines())
}

func TestTableFitsTheNumberOfCPUs(t *testing.T) {
	text := func(n int) string {
		var out bytes.Buffer
		require.NoError(t, swept(n).Text(&out))
		return out.String()
	}
	assert.Contains(t, text(3), "49.0-52.0")
	assert.Regexp(t, `remote +3 +50\.0 +50\.0 \(CPUs 0 and 1\) +60\.0 \(CPUs 0 and 2\)`, text(3))
	assert.Contains(t, text(roomForTable), "350.0")
	assert.NotContains(t, text(roomForTable), "49.0-52.0")
	assert.Contains(t, text(roomForTable+1), "33 CPUs are too many")
}

func TestPictureHasACellForEachWay(t *testing.T) {
	for _, n := range []int{1, 2, 7, tipped, tipped + 1} {
		var out bytes.Buffer
		s := swept(n)
		require.NoError(t, s.SVG(&out))
		rects, titles := 0, 0
		for decoder := xml.NewDecoder(&out); ; {
			token, err := decoder.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			if start, ok := token.(xml.StartElement); ok {
				switch start.Name.Local {
				case "rect":
					rects++
				case "title":
					titles++
				}
			}
		}
		scale := 0
		if s.scale().shown() {
			scale = steps
		}
		assert.Equal(t, 1+n*(n-1)+scale, rects)
		if n <= tipped {
			assert.Equal(t, n*(n-1), titles)
		}
	}
}

func TestColoursGoFromDarkToLight(t *testing.T) {
	last := -1.0
	for i := range 11 {
		lightness, _, _ := colour(float64(i) / 10).Lab()
		assert.Greater(t, lightness, last)
		last = lightness
	}
	assert.Equal(t, "#440154", colour(0).Hex())
	assert.Equal(t, "#fde725", colour(1).Hex())
	assert.True(t, strings.HasPrefix(ink(colour(1)), "#1e"), "dark text on a light ground")
	assert.Equal(t, "#ffffff", ink(colour(0)))
}

func ExampleTiers() {
	server, err := numa.ReadRoot("../../../numa/testdata/2n4c")
	if err != nil {
		fmt.Println(err)
	}
	for _, tier := range Tiers(server, numa.Set{0, 1, 4}) {
		fmt.Println(tier.Name, tier.Pairs)
	}
	// Output:
	// same-core [{0 4}]
	// same-l3 [{0 1} {1 4}]
	// same-node []
	// remote []
}
