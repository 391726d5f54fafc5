package page

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	samplePeriod     = 100 * time.Millisecond // half of the cost is that the goroutine wakes up
	samplesPerColumn = 5
	columns          = 120 // kept: a minute
	columnPeriod     = samplesPerColumn * samplePeriod
	columnsPerMean   = 10          // what a gauge says is of five seconds
	columnsPerDetail = 4           // what costs more is read every two seconds
	columnsPerHeat   = 8           // the matrix of steals is read every four seconds
	columnsPerConfig = 20          // what changes seldom is read every ten seconds
	linger           = time.Minute // how long the recorder goes on after the last request
)

// recorder samples the pools as long as the page is open, and for a while after, so that a page that is reloaded
// without a script shows its last minute.
type recorder struct {
	process Process

	mu      sync.Mutex
	runs    bool
	streams int
	visited time.Time
	tick    uint64             // completed columns
	next    chan struct{}      // closed when a column is completed
	records map[uint64]*record // by the pools' numbers
	order   []*record          // ascending by number
}

func newRecorder(process Process) *recorder {
	return &recorder{process: process, next: make(chan struct{}), records: make(map[uint64]*record)}
}

// visit keeps the recorder running for a while, and reads the list of pools. Under mu.
func (r *recorder) visit() {
	r.visited = time.Now()
	if r.runs {
		r.meet()
		return
	}
	r.runs = true
	r.tick, r.records = 0, make(map[uint64]*record)
	r.meet()
	go r.run()
}

// meet begins the records of new pools, and drops those of pools that have ended. Under mu.
func (r *recorder) meet() {
	now := time.Now()
	there := make(map[uint64]bool)
	r.order = r.order[:0]
	for _, p := range r.process.Pools() {
		there[p.ID] = true
		if r.records[p.ID] == nil {
			r.records[p.ID] = newRecord(p, now)
		}
		r.order = append(r.order, r.records[p.ID])
	}
	for id := range r.records {
		if !there[id] {
			delete(r.records, id)
		}
	}
}

func (r *recorder) run() {
	for n := 1; ; n++ {
		time.Sleep(samplePeriod/2 + rand.N(samplePeriod)) // or it would see the same moment of all that comes every 10 or 20 ms
		r.mu.Lock()
		if r.streams == 0 && time.Since(r.visited) > linger {
			r.runs = false
			r.mu.Unlock()
			return
		}
		for _, rec := range r.order {
			rec.sample()
		}
		if n%samplesPerColumn == 0 {
			r.tick++
			r.meet()
			for _, rec := range r.order {
				rec.complete(r.tick, time.Now())
			}
			close(r.next)
			r.next = make(chan struct{})
		}
		r.mu.Unlock()
	}
}
