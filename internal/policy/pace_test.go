package policy

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Times in ns.
var paceTimes = PaceTimes{Alone: 8000, Chunk: 4000}

const (
	wake      = 8000 // from a wake-up until the worker has work
	stealing  = 300
	perChunk  = 30    // two looks at the clock and one at whether the pool is hungry
	interrupt = 20000 // one in a millisecond, with a probability of jitter
	jitter    = 0.05
)

// course is a loop.
type course struct {
	call float64   // what a call costs
	upTo []float64 // what items cost, summed up
}

func (l *course) items() int { return len(l.upTo) - 1 }

func (l *course) cost(lo, hi int) float64 { return l.call + l.upTo[hi] - l.upTo[lo] }

// best is what the better one of a serial loop and an even split takes.
func (l *course) best(workers int) float64 {
	slowest := 0.0
	for i := range workers {
		lo, hi := l.items()*i/workers, l.items()*(i+1)/workers
		slowest = max(slowest, l.cost(lo, hi)+wake/2)
	}
	return min(l.cost(0, l.items()), slowest) * (1 + 0.8*jitter)
}

// courses are named after how items' costs are distributed.
var courses = []struct {
	name string
	item func(r *rand.Rand, x float64) float64 // the cost of the item at the fraction x of the loop, the mean being 1
}{
	{"even", func(*rand.Rand, float64) float64 { return 1 }},
	{"rising", func(_ *rand.Rand, x float64) float64 { return 2 * x }},
	{"falling", func(_ *rand.Rand, x float64) float64 { return 2 * (1 - x) }},
	{"rough", func(r *rand.Rand, _ float64) float64 { return r.ExpFloat64() }},
	{"late", func(_ *rand.Rand, x float64) float64 {
		if x < 0.9 {
			return 0.1
		}
		return 9.1
	}},
	{"spikes", func(r *rand.Rand, _ float64) float64 {
		if r.Float64() < 0.01 {
			return 50.5
		}
		return 0.495
	}},
}

// runner is a worker of the simulation.
type runner struct {
	now    float64
	busy   bool
	lo, hi int
	pace   Pace
	forks  [][2]int // given away and not stolen
}

type simulation struct {
	*course
	r     *rand.Rand
	cold  float64 // what the first call takes more than it costs: caches, and pages that are new
	slow  float64 // the first worker is so many times slower than the others
	calls int
}

// call returns how long a call of the body takes.
func (s *simulation) call(lo, hi int) float64 {
	s.calls++
	took := (s.cost(lo, hi) + perChunk) * (1 + jitter*math.Abs(s.r.NormFloat64()))
	if s.calls == 1 {
		took += s.cold
	}
	if s.r.Float64() < took/1e6*jitter {
		took += interrupt
	}
	return took
}

// run runs the loop as pool/loop.go does, and returns when it is over. The caller has probed
// the first items.
func (s *simulation) run(workers int) (end float64) {
	probed := min(s.items()/256, 64) | 1
	ws := make([]*runner, workers)
	ws[0] = &runner{busy: true, lo: probed, hi: s.items(), pace: Pace{Calls: true}}
	ws[0].now = s.call(0, probed)
	ws[0].pace.Probed(probed, int64(ws[0].now), &paceTimes)
	for i := range ws[1:] {
		ws[i+1] = &runner{now: ws[0].now + wake}
	}
	for left := s.items() - probed; left > 0; {
		w := slices.MinFunc(ws, func(a, b *runner) int { return cmp.Compare(a.now, b.now) })
		if !w.busy {
			w.find(ws)
			continue
		}
		idle := 0
		for _, v := range ws {
			if !v.busy && len(v.forks) == 0 {
				idle++
			}
		}
		if len(w.forks) == 0 {
			for range w.pace.Parts(w.hi-w.lo, idle, &paceTimes) {
				half := w.lo + (w.hi-w.lo)/2
				w.forks = append(w.forks, [2]int{half, w.hi})
				w.hi = half
			}
		}
		n := w.pace.Next(w.hi - w.lo)
		took := s.call(w.lo, w.lo+n)
		if w == ws[0] {
			took *= s.slow
		}
		w.pace.Measured(n, int64(took), 0, &paceTimes)
		w.now += took
		end = max(end, w.now)
		w.lo += n
		left -= n
		w.busy = w.lo < w.hi
	}
	return end
}

// find takes back what w has given away, or steals.
func (w *runner) find(ws []*runner) {
	if k := len(w.forks); k > 0 {
		w.busy, w.lo, w.hi = true, w.forks[k-1][0], w.forks[0][1]
		w.forks = nil
		return
	}
	w.now += stealing
	for _, v := range ws {
		if len(v.forks) > 0 {
			w.busy, w.lo, w.hi, w.pace = true, v.forks[0][0], v.forks[0][1], v.pace
			v.forks = v.forks[1:]
			return
		}
	}
}

// TestNoLoopLoses to the better one of a serial loop and an even split, whatever a call and the items cost, by the
// medians of 31 seeds. A loop needs some calls to learn what a call costs, so a short loop of dear calls may lose
// that much.
func TestNoLoopLoses(t *testing.T) {
	for _, workers := range []int{2, 8} {
		for _, total := range []float64{1e6, 1e7} {
			for _, kind := range courses {
				for _, item := range []float64{5, 50, 1000} {
					c := newCourse(kind.item, int(total/item), item)
					for _, c.call = range []float64{0, 500, 2000, 8000} {
						var ratios, calls []float64
						for seed := range uint64(31) {
							s := &simulation{course: c, r: rand.New(rand.NewPCG(seed, 2)), cold: 500, slow: 1}
							took := s.run(workers)
							ratios = append(ratios, took/s.best(workers))
							calls = append(calls, float64(s.calls))
						}
						slices.Sort(ratios)
						slices.Sort(calls)
						name := fmt.Sprintf("%d workers, %s items, %v ms of %v ns, %v ns a call", workers, kind.name, total/1e6, item, c.call)
						// Allowed besides: the calls that it takes to learn, the calls that come with steals, and
						// the wake-ups of the other workers.
						most := 1.06 + ((2+float64(workers))*c.call+wake/2*float64(workers))/(total/float64(workers))
						t.Logf("%s: %.2f (%.2f), %.0f calls", name, ratios[15], most, calls[15])
						assert.LessOrEqual(t, ratios[15], most, name)
					}
				}
			}
		}
	}
}

// TestAColdFirstCallIsNotTakenForADearOne, which would make chunks so long that all wait for the one of a slow worker.
func TestAColdFirstCallIsNotTakenForADearOne(t *testing.T) {
	const slow = 1.7
	for _, workers := range []int{2, 8} {
		for _, cold := range []float64{20_000, 200_000} {
			for _, item := range []float64{50, 1000, 60_000} {
				c := newCourse(courses[0].item, int(3e7/item), item)
				var ratios []float64
				for seed := range uint64(31) {
					s := &simulation{course: c, r: rand.New(rand.NewPCG(seed, 2)), cold: cold, slow: slow}
					ratios = append(ratios, s.run(workers)/(c.cost(0, c.items())/(float64(workers-1)+1/slow)*(1+0.8*jitter)))
				}
				slices.Sort(ratios)
				most := 1.07 + (cold+wake/2*float64(workers)+item)/(3e7/float64(workers))
				name := fmt.Sprintf("%d workers, %v ns cold, items of %v ns", workers, cold, item)
				t.Logf("%s: %.2f, at worst %.2f (%.2f)", name, ratios[15], ratios[30], most)
				assert.LessOrEqual(t, ratios[15], most, name)
			}
		}
	}
}

func newCourse(item func(*rand.Rand, float64) float64, n int, mean float64) *course {
	r := rand.New(rand.NewPCG(1, 1))
	l := &course{upTo: make([]float64, n+1)}
	for i := range n {
		l.upTo[i+1] = l.upTo[i] + mean*item(r, float64(i)/float64(n))
	}
	return l
}

// TestAChunkIsNeverEmptyOrTooLong whatever is measured.
func TestAChunkIsNeverEmptyOrTooLong(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		c := Pace{Calls: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			c.Probed(1+r.IntN(100), r.Int64N(1<<r.IntN(40)), &paceTimes)
		}
		for left := 1 + r.IntN(1<<r.IntN(bits.UintSize-2)); left > 0 && r.IntN(100) > 0; {
			parts := c.Parts(left, r.IntN(9), &paceTimes)
			require.LessOrEqual(t, parts, 4)
			for range parts {
				require.Greater(t, left, 1)
				left /= 2
			}
			n := c.Next(left)
			require.Greater(t, n, 0)
			require.LessOrEqual(t, n, left)
			c.Measured(n, r.Int64N(1<<r.IntN(62))-1, math.Ldexp(r.Float64(), r.IntN(60)-30), &paceTimes)
			left -= n
		}
	}
}

// TestTheFirstTwoChunksTellWhatACallCosts, up to what counts as noise, and what an item costs.
func TestTheFirstTwoChunksTellWhatACallCosts(t *testing.T) {
	const item = 1000
	for call, dear := range map[int64]bool{0: false, 10_000: true} {
		c := Pace{Calls: true}
		c.Probed(1, call+item, &paceTimes)
		n := c.Next(1 << 20)
		require.Equal(t, firstStep, n)
		c.Measured(n, call+int64(n)*item, 0, &paceTimes)
		require.InDelta(t, call, c.fixed, float64(call+item)*noise)
		require.Equal(t, dear, c.dear)
		want := paceTimes.Chunk
		if dear {
			want = callShare * call
		}
		require.InDelta(t, want, c.Chunk()*item, float64(want)/8, "how long the next chunk takes")
	}

	c := Pace{}
	c.Probed(1, 1e9, &paceTimes)
	require.Equal(t, 1, c.Chunk(), "of items that take longer than a chunk should")
}

func TestTwoItemsAreTheFewestThatAreHalved(t *testing.T) {
	for left, parts := range []int{0, 0, 1, 1} {
		require.Equal(t, parts, new(Pace).Parts(left, 1, &paceTimes), "%d items", left)
	}
}

// TestWhatIsNotKnownToBeTooSmallIsHalved: a range is halved unless calls are dear, the rest is short, and half of it
// takes less than twice what another worker costs.
func TestWhatIsNotKnownToBeTooSmallIsHalved(t *testing.T) {
	times := &PaceTimes{Alone: 1000}
	for _, c := range []struct {
		pace Pace
		left int
		want bool
	}{
		{Pace{}, 1, false},
		{Pace{}, 2, true},
		{Pace{dear: true, items: 1, took: 1}, 1, false},
		{Pace{dear: true, items: 1, took: 1}, 2*restShare + 2, true}, // one chunk says little about so long a rest
		{Pace{dear: true, items: 1, took: 1}, 2 * restShare, false},
		{Pace{dear: true, items: 100, took: 100}, 2, false},
		{Pace{dear: true, items: 100, took: 100}, 50, false},
		{Pace{items: 100, took: 100}, 50, true},
		{Pace{dear: true, items: 100, took: 1e9}, 50, true},
		{Pace{dear: true, items: 100, took: 1e9}, 1, false},
	} {
		require.Equal(t, c.want, c.pace.worthHalving(c.left, times), "%+v, %d left", c.pace, c.left)
	}
}

// TestWhatMergesTablesHasFewCalls: where the body says that merging takes a part of computing, what is left takes two calls, or one if the part is large; where
// that is little, the loop goes on as before.
func TestWhatMergesTablesHasFewCalls(t *testing.T) {
	const item, items = 100, 1 << 20
	calls := func(merging float64) (n int) {
		c := Pace{Calls: true}
		c.Probed(64, 64*item, &paceTimes)
		for left := items; left > 0; n++ {
			next := c.Next(left)
			c.Measured(next, int64(next)*item, merging, &paceTimes)
			left -= next
		}
		return n
	}
	require.Equal(t, 2, calls(1))
	require.Equal(t, 3, calls(0.1))
	require.Greater(t, calls(0.01), 1000)
	require.Greater(t, calls(0), 1000)
}

// TestOfTablesSmallPartsAreNotGivenAway, where to merge another table costs more than half of what is left.
func TestOfTablesSmallPartsAreNotGivenAway(t *testing.T) {
	c := Pace{Calls: true}
	c.Probed(64, 6400, &paceTimes)
	require.Positive(t, c.Parts(10_000, 1, &paceTimes))
	c.Measured(1000, 100_000, 5, &paceTimes)
	require.Zero(t, c.Parts(10_000, 1, &paceTimes))
	require.Positive(t, c.Parts(100_000, 1, &paceTimes))
}
