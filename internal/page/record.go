package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed53057037/heist/pool/inspect"
)

// record is what the recorder keeps of a pool. All fields are under the recorder's mu.
type record struct {
	Pool
	config inspect.Config
	rows   []row // the workers, in the order of the machine
	layout int   // changes with rows

	counts  []shares // by place, for the column that is not complete yet
	samples int

	columns []column // complete ones, the oldest first
	stats   inspect.Stats
	load    inspect.Load
	at      time.Time // when stats was completed
	sampled inspect.Stats

	timings  []inspect.Timings // every two seconds for a minute, the oldest first
	steals   [][]uint64
	stolen   uint64 // number of steals when steals was read
	snapshot inspect.Snapshot

	parts   map[string]string // made of the fields above, until something changes
	machine string            // the picture of the machine; changes with rows
	drawn   int               // the layout that the picture was drawn for
}

// row is the row of a worker in the chart.
type row struct {
	worker int // index in inspect.Stats.Workers
	node   int
	cpus   []int // that the worker is bound to
}

// shares says how many samples of a column saw a worker in each state. In the rest of the samples it was parked.
type shares struct{ runs, searches, away uint8 }

// column is the data of half a second.
type column struct {
	tick    uint64
	samples int
	shares  []shares // by place
	numbers [len(gauges)]float64
}

// gauges are the numbers that have a chart over the last minute.
var gauges = [...]struct {
	name, unit, about string
}{
	{"busy", "%", "workers that compute, of all"},
	{"tasks", "/s", "tasks that workers came to"},
	{"steals", "/s", "steals that found something"},
	{"queued", "", "tasks that nobody has begun"},
	{"waiting", "", "tasks that wait, and have lent their places"},
	{"callers", "", "goroutines from outside that compute, or wait to be admitted"},
}

// mean is that of a gauge over the last five seconds: a single column has five samples, which see nothing of a pool that
// is busy for 5%.
func (rec *record) mean(gauge int) (mean float64) {
	last := rec.columns[max(0, len(rec.columns)-columnsPerMean):]
	for _, c := range last {
		mean += c.numbers[gauge] / float64(len(last))
	}
	return mean
}

func newRecord(p Pool, now time.Time) *record {
	rec := &record{Pool: p, at: now, drawn: -1}
	rec.stats = p.Stats()
	rec.load = p.Load()
	rec.configure()
	rec.heatUp()
	rec.detail()
	rec.sample()
	return rec
}

// configure reads the configuration, and arranges the workers in the order of the machine.
func (rec *record) configure() {
	rec.config = rec.Config()
	var rows []row
	for worker := range rec.stats.Workers {
		r := row{worker: worker}
		if r.worker < len(rec.config.Workers) {
			seat := rec.config.Workers[r.worker]
			r.node, r.cpus = seat.Node, seat.CPUs
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.node, b.node), slices.Compare(a.cpus, b.cpus), cmp.Compare(a.worker, b.worker))
	})
	same := slices.EqualFunc(rows, rec.rows, func(a, b row) bool {
		return a.worker == b.worker && a.node == b.node && slices.Equal(a.cpus, b.cpus)
	})
	if !same {
		rec.rows = rows
		rec.layout++
	}
}

// detail reads what costs more.
func (rec *record) detail() {
	const kept = columns/columnsPerDetail + 1
	rec.timings = append(rec.timings, rec.Timings())
	rec.timings = rec.timings[max(0, len(rec.timings)-kept):]
	rec.snapshot = rec.Snapshot()
	rec.parts = nil
}

// heatUp reads the matrix of steals if there were any since the last time: the matrix grows with the square of the
// number of workers.
func (rec *record) heatUp() {
	if steals := rec.stats.Total().Steals; rec.steals == nil || steals != rec.stolen {
		rec.stolen, rec.steals = steals, rec.StealMatrix()
	}
}

// sample looks once at what each worker does.
func (rec *record) sample() {
	rec.sampled = rec.Stats()
	rec.samples++
	for len(rec.counts) < len(rec.sampled.Workers) {
		rec.counts = append(rec.counts, shares{})
	}
	for i, w := range rec.sampled.Workers {
		switch w.State {
		case inspect.Runs:
			rec.counts[i].runs++
		case inspect.Searches:
			rec.counts[i].searches++
		case inspect.Away:
			rec.counts[i].away++
		}
	}
}

// complete makes a column of the samples.
func (rec *record) complete(tick uint64, now time.Time) {
	grown := len(rec.sampled.Workers) != len(rec.stats.Workers)
	then := rec.stats
	load := rec.Load()
	resized := load.Workers != rec.load.Workers
	rec.stats, rec.load = rec.sampled, load
	c := column{tick: tick, samples: rec.samples, shares: slices.Clone(rec.counts)}
	rate := func(now64, then64 uint64) float64 {
		return float64(now64-min(then64, now64)) / max(now.Sub(rec.at).Seconds(), 1e-3)
	}
	runs := 0
	for _, s := range c.shares {
		runs += int(s.runs)
	}
	total, before := rec.stats.Total(), then.Total()
	c.numbers = [...]float64{
		min(100, 100*float64(runs)/float64(max(1, c.samples*load.Workers))),
		rate(total.Tasks, before.Tasks),
		rate(total.Steals, before.Steals),
		float64(load.Queued.Total() + load.Delayed),
		float64(load.Waiting),
		float64(load.CallersInside + load.CallersWaiting),
	}
	rec.columns = append(rec.columns, c)
	rec.columns = rec.columns[max(0, len(rec.columns)-columns):]
	rec.at, rec.samples = now, 0
	clear(rec.counts)
	delete(rec.parts, "tiles")
	if grown || resized || tick%columnsPerConfig == 0 {
		rec.configure()
	}
	if tick%columnsPerHeat == 0 {
		rec.heatUp()
	}
	if tick%columnsPerDetail == 0 {
		rec.detail()
	}
}
