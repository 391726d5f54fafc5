package sim

import (
	"fmt"
	"slices"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
)

// Stats is the result of a run.
type Stats struct {
	Makespan int64 // ns, until the last node or request was over
	Work     int64 // ns, of all nodes or requests
	Span     int64 // ns, of the longest chain of nodes, 0 for requests
	Depth    int   // of the longest chain, in nodes, 0 for requests

	Steals int64 // steals that succeeded, of a fork or of tasks
	Remote int64 // steals from another node, its injector included
	Items  int64 // forks and tasks that the steals took
	Failed int64 // visits of a victim that had nothing, or where the thief lost a race
	Looks  int64
	Wakes  int64
	Parks  int64
	Parked int64 // ns, of all CPUs

	Lent       int64 // how often a waiter lent its place
	Goroutines int64 // the first workers of the places, and those that were hired

	// ns, from a request's arrival to the end of its last part. Only requests of the second
	// half count: in the first the workers wake up.
	P50, P99, P999 int64
}

// RemoteShare is the share of steals that were from another node.
func (s *Stats) RemoteShare() float64 { return float64(s.Remote) / float64(max(s.Steals, 1)) }

// Attempts is how often a thief visited a victim. Blumofe and Leiserson's bound of O(P D) is on this number
// (JACM 1999), with the time of the longest chain as D.
func (s *Stats) Attempts() int64 { return s.Steals + s.Failed }

func (s *Stats) stole(items int, remote bool) {
	s.Steals++
	s.Items += int64(items)
	if remote {
		s.Remote++
	}
}

// setup is what all runs of a load share.
type setup struct {
	*layout
	order      *policy.Order
	parameters policy.Parameters
	lastVictim bool // the search begins each tier with the last victim
	load       work
	seed       uint64
	tweak      func(*engine) // for tests
}

// run simulates the load with the setup's way of choosing victims.
func (u setup) run() (Stats, error) {
	e := u.engine()
	for !e.over {
		i, at := e.agenda.first()
		if at == never {
			e.failure = e.deadlock()
			break
		}
		e.current = e.workers[i]
		e.current.next()
	}
	e.stop()
	return e.results(), e.failure
}

// stop ends all coroutines.
func (e *engine) stop() {
	for _, w := range e.workers {
		w.stop()
	}
}

// engine makes an engine at time 0: all places are asleep, and the work comes.
func (u setup) engine() *engine {
	n := u.layout.workers
	e := &engine{setup: u, slack: defaultSlack, agenda: newAgenda(n + clients), words: make([]word, u.allWords())}
	for i := range e.words {
		e.words[i].reader = -1
		if i < n {
			e.words[i].writer = int32(i)
		} else if i < e.stateWord() {
			e.words[i].writer = int32(e.firstOf[(i-n)%e.nodes])
		}
	}
	placements := make([]core.Placement, n)
	for i := range placements {
		placements[i] = core.Placement{CPUs: []int{i}, Node: e.nodeOf[i], Places: 1}
		e.cpus = append(e.cpus, &cpu{cache: make([]uint32, len(e.words))})
	}
	for range e.nodes {
		e.injectors = append(e.injectors, heist.NewInjector[request]())
	}
	e.account()
	e.core.Init(core.Config{
		Host: e, Size: n, Seats: e.seats(), Placements: placements, Nearby: e.nearby, Time: e,
		TicksAnswer: core.AnswerTime.Nanoseconds(),
		TicksSpin:   heist.DefaultSpin.Nanoseconds() * 3 / 2,
		TicksWatch:  core.WatchTime.Nanoseconds(),
	})
	if e.clients = 1; e.service != nil {
		e.clients = clients
	}
	for i := range e.clients {
		w := &worker{}
		e.begin(w, w.arrive)
		w.seen = make([]uint32, len(e.words))
		e.agenda.set(i, 0)
	}
	e.core.Monitored.Store(true)
	for _, pl := range e.core.Places() {
		w := e.newWorker(pl.Placement())
		w.core.Grant(pl)
		w.core.BeIdle(w.core.TakeUp())
	}
	if u.tweak != nil {
		u.tweak(e)
	}
	return e
}

// account makes the engine's account of the work to run.
func (e *engine) account() {
	if e.tree = e.load.tree; e.tree != nil {
		e.left = e.tree.nodes()
		e.ran = make([]bool, e.left)
		return
	}
	s := *e.load.service
	s.requests = slices.Clone(s.requests)
	e.service = &s
	e.left = len(s.requests)
	e.ran = make([]bool, e.left)
	e.unfinished = make([]int32, s.arriving)
	for i := range s.requests {
		s.requests[i].index = int32(i)
	}
	for i := range e.unfinished {
		e.unfinished[i] = 1 + s.requests[i].parts
	}
}

// begin gives a worker its number and makes it a coroutine, which runs body once it is woken.
func (e *engine) begin(w *worker, body func()) {
	w.id, w.share, w.engine = len(e.workers), 1, e
	e.workers = append(e.workers, w)
	e.agenda.grow(len(e.workers))
	w.clock.begin(body)
}

// ranOnce notes that a node or a request has run.
func (e *engine) ranOnce(i int32) {
	if e.ran[i] && e.failure == nil {
		e.failure = fmt.Errorf("number %d ran twice", i)
	}
	e.ran[i] = true
	e.left--
}

// finish ends the run at time t if everything has run.
func (e *engine) finish(t int64) {
	if e.end = max(e.end, t); e.left == 0 || e.failure != nil {
		e.over = true
	}
}

// deadlock describes a run in which all workers sleep while there is work left.
func (e *engine) deadlock() error {
	asleep, queued, forks := 0, 0, 0
	for i, pl := range e.places {
		if e.core.Sleep.Parked(i) {
			asleep++
		}
		queued += pl.queued()
	}
	for _, w := range e.workers {
		forks += max(0, w.split-w.top)
	}
	for _, q := range e.injectors {
		queued += q.Len()
	}
	return fmt.Errorf("everybody sleeps, and %d of %d nodes or requests have not run: %d of %d places sleep, %d workers wait for a fork, %d count as searchers; %d tasks are queued and %d forks are public",
		e.left, len(e.ran), asleep, len(e.places), e.core.Waits(), e.core.Sleep.Load().Searching(), queued, forks)
}

func (e *engine) results() Stats {
	s := e.stats
	s.Makespan = e.end
	s.Goroutines = int64(len(e.workers) - e.clients)
	for i, pl := range e.places {
		s.Wakes += int64(pl.core.Wakes.Load())
		s.Parks += int64(pl.core.Parks.Load())
		s.Lent += int64(pl.core.Lends.Load())
		if c := e.cpus[i]; len(c.running) == 0 {
			s.Parked += max(0, e.end-c.since)
		}
	}
	if e.tree != nil {
		s.Work, s.Span, s.Depth = e.tree.work, e.tree.span, e.tree.depth
		return s
	}
	s.Work = e.service.work
	slices.Sort(e.latencies)
	at := func(share float64) int64 {
		if len(e.latencies) == 0 {
			return 0
		}
		return e.latencies[min(int(share*float64(len(e.latencies))), len(e.latencies)-1)]
	}
	s.P50, s.P99, s.P999 = at(0.5), at(0.99), at(0.999)
	return s
}
