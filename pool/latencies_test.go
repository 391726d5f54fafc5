package pool

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/stretchr/testify/require"
)

func byLatencies(document string) Option {
	return WithTuning(Tuning{Latencies: strings.NewReader(document)})
}

func TestWhatIsWrongWithLatenciesIsNamed(t *testing.T) {
	for _, c := range []struct{ document, want string }{
		{``, "EOF"},
		{`[]`, "cannot unmarshal array"},
		{`{"cpus": [0, 1]`, "unexpected EOF"},
		{`{}`, `no CPUs; the document must have them as "cpus"`},
		{`{"ns": [[0]]}`, "no CPUs"},
		{`{"cpus": [0], "ns": [[0]], "unit": "ms"}`, `unknown field "unit"`},
		{`{"cpus": ["a"], "ns": [[0]]}`, "cannot unmarshal string"},
		{`{"cpus": [0.5], "ns": [[0]]}`, "cannot unmarshal number 0.5"},
		{`{"cpus": [0], "ns": [["x"]]}`, "cannot unmarshal string"},
		{`{"cpus": [0, 1]}`, "0 rows for 2 CPUs"},
		{`{"cpus": [0, 1], "ns": [[0, 5]]}`, "1 rows for 2 CPUs"},
		{`{"cpus": [0], "ns": [[0], [0]]}`, "2 rows for 1 CPUs"},
		{`{"cpus": [0, 7], "ns": [[0, 5], [5]]}`, "the row of CPU 7 has 1 numbers for 2 CPUs"},
		{`{"cpus": [0, 7], "ns": [[0, 5], null]}`, "the row of CPU 7 has 0 numbers for 2 CPUs"},
		{`{"cpus": [0, 7], "ns": [[0, 5, 5], [5, 0]]}`, "the row of CPU 0 has 3 numbers for 2 CPUs"},
		{`{"cpus": [3, 3], "ns": [[0, 5], [5, 0]]}`, "CPU 3 is there twice"},
		{`{"cpus": [3, 4], "ns": [[0, 5], [-1, 0]]}`, "from CPU 4 to CPU 3 it is -1 ns; it must be above 0"},
		{`{"cpus": [3, 4], "ns": [[0, 0], [5, 0]]}`, "from CPU 3 to CPU 4 it is 0 ns; it must be above 0"},
		{`{"cpus": [3, 4], "ns": [[0, 1e400], [5, 0]]}`, "cannot unmarshal number 1e400"},
		{`{"cpus": [3, 4], "ns": [[0, 1e12], [5, 0]]}`, "from CPU 3 to CPU 4 it is 1e+12 ns"},
	} {
		_, err := New(byLatencies(c.document))
		require.ErrorContains(t, err, c.want, c.document)
		require.True(t, strings.HasPrefix(err.Error(), "pool: Tuning.Latencies: "), err)
	}
	broken := errors.New("the disk is gone")
	_, err := New(WithTuning(Tuning{Latencies: iotest.ErrReader(broken)}))
	require.ErrorIs(t, err, broken)
}

func TestWhatFollowsTheLatenciesIsRefused(t *testing.T) {
	for _, rest := range []string{"}", "x", `{"cpus": [0], "ns": [[0]]}`} {
		_, err := New(byLatencies(`{"cpus": [0], "ns": [[0]]}` + rest))
		require.Error(t, err, rest)
	}
}

func TestALatencyThatIsTooLargeIsCalledThat(t *testing.T) {
	_, err := New(byLatencies(`{"cpus": [3, 4], "ns": [[0, 3e9], [5, 0]]}`))
	require.ErrorContains(t, err, "from CPU 3 to CPU 4 it is 3e+09 ns")
	require.Regexp(t, "below|less than", err.Error())
}

// TestLatenciesWithinAQuarterAreOneTier: 100 to 125 ns are, and 126 is the next.
func TestLatenciesWithinAQuarterAreOneTier(t *testing.T) {
	require.Equal(t, []float64{100, 126, 200}, tiersOf([]float64{100, 100, 110, 125, 126, 140, 157.5, 200}))
	require.Empty(t, tiersOf(nil))

	o, err := readLatencies(strings.NewReader(`{"cpus": [0, 1, 2, 3], "ns": [[0, 48, 97, 90], [60, 0, 96, 99], [97, 96, 0, 50], [99, 99, 50, 0]]}`))
	require.NoError(t, err)
	at := func(cpu int) *core.Placement { return &core.Placement{CPUs: []int{cpu}} }
	between := func(a, b int) int { return o.between(nil, at(a), at(b)) }
	require.Zero(t, between(2, 2))
	for _, pair := range [][2]int{{0, 1}, {1, 0}, {2, 3}, {3, 2}} {
		require.Equal(t, 60, between(pair[0], pair[1]), pair)
	}
	for _, pair := range [][2]int{{0, 2}, {0, 3}, {1, 2}, {3, 0}} {
		require.Equal(t, 113, between(pair[0], pair[1]), pair)
	}
	require.Equal(t, unmeasured, between(0, 4))
	require.Equal(t, unmeasured, between(4, 0))
	require.Equal(t, "up to 60 ns", o.name(60))
	require.Equal(t, "same core", o.name(0))
	require.Equal(t, "not measured", o.name(unmeasured))
}

// TestThievesFollowTheMeasurements: two CPUs on one node are far apart, and CPU 3 was not
// measured.
func TestThievesFollowTheMeasurements(t *testing.T) {
	onMachine(t, pretended(2, 2)) // 0 and 2 are on one node, 1 and 3 on the other
	p := newPool(t, WithWorkers(4), WithPinning(PinCores), WithTuning(Tuning{UniformLooks: -1}),
		byLatencies(`{"cpus": [0, 1, 2], "ns": [[0, 40, 200], [40, 0, 90], [200, 90, 0]]}`))
	require.Equal(t, []string{"same core", "up to 50 ns", "up to 113 ns", "up to 250 ns", "not measured"}, tierNames(p))
	order := func(thief int) (victims []int) {
		h := &p.places[thief].search
		h.Begin()
		h.Look(-1, -1, len(p.places))
		for v := h.Victim(); v >= 0; v = h.Victim() {
			if v < p.first {
				victims = append(victims, v)
			}
		}
		return victims
	}
	require.NoError(t, p.Pause(t.Context())) // so that the test does the searches
	defer p.Resume()
	for thief, want := range [][]int{{0, 1, 2, 3}, {1, 0, 2, 3}, {2, 1, 0, 3}} {
		require.Equal(t, want, order(thief), "of worker %d", thief)
	}
	require.Equal(t, 3, order(3)[0])
}

// TestUniformDrawsEachVictim, whatever the last victim was, also in a pool of one tier that asks for
// uniform looks.
func TestUniformDrawsEachVictim(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		onMachine(t, pretended(nodes, 2))
		p := newPool(t, WithWorkers(4), WithPinning(PinNodes), WithTuning(Tuning{UniformLooks: 1}))
		require.NoError(t, p.Pause(t.Context())) // so that no worker searches
		h, n := &p.places[1].search, len(p.victims())
		first := make([]int, n)
		const looks = 8000
		for range looks {
			h.Begin()
			h.Look(2, 3, n)
			first[h.Victim()]++
			for v := h.Victim(); v >= 0; v = h.Victim() {
				require.NotEqual(t, 1, v, "itself")
			}
		}
		p.Resume()
		mean := float64(looks) / float64(n-1)
		for v, count := range first {
			if v == 1 {
				require.Zero(t, count, "itself")
			} else {
				require.InDelta(t, mean, count, 6*math.Sqrt(mean), v)
			}
		}
	}
}

// TestTheDefaultLooksAreNotUniformOnOneTier: there the last victim comes first.
func TestTheDefaultLooksAreNotUniformOnOneTier(t *testing.T) {
	onMachine(t, pretended(1, 4))
	p := newPool(t, WithWorkers(4))
	require.NoError(t, p.Pause(t.Context()))
	defer p.Resume()
	h := &p.places[1].search
	for range 1000 {
		h.Begin()
		h.Look(-1, 3, len(p.victims()))
		require.Equal(t, 3, h.Victim())
	}
}

// TestForksOfTheOwnPlaceAreNotDrawn: a look begins with them, and taking one is no steal.
func TestForksOfTheOwnPlaceAreNotDrawn(t *testing.T) {
	p := newPool(t, WithWorkers(1), WithPinning(PinNone), WithTuning(Tuning{UniformLooks: 1}))
	onlyWorker(t, p, func(w *Worker) {
		both(w, func(w *Worker) int {
			w.search.Begin()
			j, r := w.stealWork(false)
			require.Equal(t, heist.Success, r)
			j.from.run(w, j.claimed)
			return 1
		}, func(*Worker) int { return 2 })
	})
	require.Zero(t, p.Stats().Total().Steals)
}

// TestPoolsWorkWithAnyVictimOrder runs everything that can be stolen.
func TestPoolsWorkWithAnyVictimOrder(t *testing.T) {
	var many strings.Builder // more tiers than there can be
	many.WriteString(`{"cpus": [0, 1, 2, 3, 4, 5, 6, 7, 8], "ns": [`)
	for i := range 9 {
		if i > 0 {
			many.WriteString(", ")
		}
		many.WriteString("[")
		for j := range 9 {
			if j > 0 {
				many.WriteString(", ")
			}
			fmt.Fprint(&many, math.Ceil(10*math.Pow(1.255, float64(9*i+j))))
		}
		many.WriteString("]")
	}
	many.WriteString("]}")
	for name, order := range map[string]Option{
		"topology":    WithTuning(Tuning{}),
		"near only":   WithTuning(Tuning{UniformLooks: -1}),
		"uniform":     WithTuning(Tuning{UniformLooks: 1}),
		"measured":    byLatencies(`{"cpus": [0, 1], "ns": [[0, 5], [5, 0]]}`),
		"a CPU alone": byLatencies(`{"cpus": [0], "ns": [[0]]}`),
		"other CPUs":  byLatencies(`{"cpus": [100, 101], "ns": [[0, 5], [5, 0]]}`),
		"fast":        byLatencies(`{"cpus": [0, 1, 2], "ns": [[0, 0.1, 0.2], [0.1, 0, 1], [0.2, 1, 0]]}`),
		"slow":        byLatencies(`{"cpus": [0, 1], "ns": [[0, 999999999], [5, 0]]}`),
		"many tiers":  byLatencies(many.String()),
	} {
		t.Run(name, func(t *testing.T) {
			for _, m := range []machine{pretended(3, 3), pretended(1, 9), big(3, 1, 3, 1)} {
				onMachine(t, m)
				for _, pinning := range []Pinning{PinAuto, PinNodes, PinNone} {
					p := newPool(t, WithWorkers(9), order, WithPinning(pinning))
					everything(t, p, 9)
				}
			}
		})
	}
}

func TestBadOptionsOfThieves(t *testing.T) {
	for _, c := range []struct {
		option Option
		want   string
	}{
		{WithTuning(Tuning{UniformLooks: 1.01}), "Tuning.UniformLooks is 1.01; a probability must be at most 1"},
		{WithTuning(Tuning{UniformLooks: math.NaN()}), "Tuning.UniformLooks is NaN"},
		{WithTuning(Tuning{UniformLooks: math.Inf(1)}), "Tuning.UniformLooks is +Inf"},
		{WithTuning(Tuning{Patience: -1}), "Tuning.Patience is -1; it must not be negative"},
	} {
		p, err := New(c.option)
		require.ErrorContains(t, err, "pool: "+c.want)
		require.Nil(t, p)
	}
	for _, probability := range []float64{-1, 0, 1e-300, 0.5, 1} {
		c := new(config)
		require.NoError(t, WithTuning(Tuning{UniformLooks: probability})(c))
		require.EqualValues(t, math.Floor(max(probability, 0)*(1<<16)), c.search.Uniform)
	}
}

// TestALookAllocatesNothing: it is what idle workers do all the time.
func TestALookAllocatesNothing(t *testing.T) {
	p := newNodes(t, 3, 2)
	require.NoError(t, p.Pause(t.Context()))
	defer p.Resume()
	w := &Worker{pool: p, place: p.places[0]} // the worker of this place is held, so the test may act as it
	w.core.Init(&p.core, p.places[0].core.Placement(), nil, false)
	for _, slots := range []bool{false, true} {
		require.Zero(t, allocsPerRun(100, func() {
			for range 4 {
				if _, r := w.stealWork(slots); r != 0 {
					t.Error("it found something")
				}
			}
		}))
	}
}
