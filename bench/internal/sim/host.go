package sim

import (
	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
)

// The engine is a core.Host with a core.Time, and its workers are each a core.Sleeper.

// AnyWork is the pool's anyWork: it looks at everything.
func (e *engine) AnyWork(forks bool) (node, place int, ok bool) {
	w := e.current
	if w == nil || e.skipRecheck {
		return 0, -1, false
	}
	w.sync()
	for node, q := range e.injectors {
		w.read(e.injectorWord(node))
		if q.Ready() {
			w.readBitmaps(node)
			return node, -1, true
		}
	}
	for i, pl := range e.places {
		if w.visit(i) && (pl.queued() > 0 || pl.core.AnyFork(forks)) {
			w.readBitmaps(e.nodeOf[i])
			return e.nodeOf[i], i, true
		}
	}
	return 0, -1, false
}

// readBitmaps is what WakeOne reads to choose a place, as long as places sleep everywhere.
func (w *worker) readBitmaps(node int) {
	w.read(w.engine.bitmapWord(0))
	w.read(w.engine.bitmapWord(node))
}

func (e *engine) Hire(s *core.Placement, begin func(w *core.Worker)) {
	w := e.newWorker(s)
	begin(&w.core)
	w.rouse()
}

func (e *engine) NewPlace(i int) *core.Place {
	pl := &place{cpu: i, victim: -1, poll: poll}
	pl.core.Init(&e.core, i)
	pl.search.Init(e.order, i, &e.parameters, e.seed*uint64(e.layout.workers+1)+uint64(i))
	pl.ring, _ = heist.NewRing(heist.DefaultRingCapacity, e.injectors[e.nodeOf[i]])
	pl.batch, _ = heist.NewRing[request](heist.MaxPull, nil)
	e.places = append(e.places, pl)
	return &pl.core
}

func (e *engine) Broken(what string) { panic(what) }

func (e *engine) LetsGo(*core.Place) bool { return false }

func (e *engine) Closes(*core.Place) {}

// All waits are waits for forks, which a worker says. So there is no monitor.

func (e *engine) Monitor() {}

func (e *engine) Lent(*core.Worker) {}

func (e *engine) GoesOn(*core.Worker) {}

func (e *engine) LookAt(*core.Worker) {}

func (e *engine) Now() int64 {
	if e.current == nil {
		return 1
	}
	return e.current.now + 1 // 0 is no time
}

func (e *engine) Changes(place int) {
	w := e.current
	if w == nil {
		return
	}
	if place >= 0 {
		w.write(e.bitmapWord(e.nodeOf[place]))
	}
	w.write(e.stateWord())
}

// newWorker makes a worker of a placement, which is a CPU. It begins when it is roused.
func (e *engine) newWorker(s *core.Placement) *worker {
	cpu := s.CPUs[0]
	w := &worker{cpu: e.cpus[cpu], asleep: true}
	w.alarmed = true
	w.at, w.seen = cpu, w.cpu.cache
	e.begin(w, w.main)
	w.core.Init(&e.core, s, w, true)
	w.core.Parker.Sleeper = w
	return w
}

// AnyFork and Alarm are what thieves see of a worker.

func (w *worker) AnyFork(forks bool) bool { return forks && w.top < w.split }

func (w *worker) Alarm() {
	if !w.alarmed {
		w.alarmed = true
		w.engine.current.wrote(w.at)
	}
}

// place is what belongs to a core.Place in the simulation. All of it is as in the pool.
type place struct {
	core core.Place
	cpu  int // its index too

	ring, batch *heist.Ring[request]
	slot        *request // the LIFO slot
	pulled      [heist.MaxPull]*request

	search     policy.Search
	victim     int // the last victim, or -1
	lifo, poll int
}

func (pl *place) queued() int {
	n := pl.ring.Len() + pl.batch.Len()
	if pl.slot != nil {
		n++
	}
	return n
}

// hasNothing says whether a visit would find nothing, and change nothing.
func (pl *place) hasNothing() bool {
	for at := pl.core.First(); at != nil; at = at.Next() {
		if w := at.Shown().(*worker); w.top < w.split || !w.alarmed {
			return false
		}
	}
	return pl.queued() == 0
}
