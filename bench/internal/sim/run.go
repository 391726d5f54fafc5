package sim

import (
	"fmt"
	"slices"

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
	Parked int64 // ns, of all places

	Lent       int64 // how often a waiter lent its place
	Goroutines int64 // the first workers of the places, and the stand-ins

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
	helps      bool // a waiter helps, see wait.go
	load       work
	seed       uint64
	tweak      func(*engine) // for tests
}

// run simulates the load with the setup's way of choosing victims.
func (u setup) run() (Stats, error) {
	l := u.layout
	e := &engine{layout: l, tree: u.load.tree, helps: u.helps, slack: defaultSlack}
	if u.tweak != nil {
		u.tweak(e)
	}
	e.agenda = newAgenda(l.workers + 1)
	e.sleep.Init(l.nodeOf, l.nodes)
	e.injectors = make([]queue, l.nodes)
	e.words = make([]word, l.stateWord()+1)
	for i := range e.words {
		e.words[i].reader = -1
		if i < l.workers {
			e.words[i].writer = int32(i)
		} else if i < l.stateWord() {
			e.words[i].writer = int32(l.firstOf[(i-l.workers)%l.nodes])
		}
	}
	e.load(u.load.service)
	for i := range l.workers {
		p := &place{cpu: i, cache: make([]uint32, len(e.words)), lastVictim: u.lastVictim, victim: -1, firstVictim: -1, slot: -1, poll: poll, parked: true}
		p.search.Init(u.order, i, &u.parameters, u.seed*uint64(l.workers+1)+uint64(i))
		e.places = append(e.places, p)
		w := new(worker)
		e.begin(w, func() {
			p.parked, w.searching = false, true // counted by the waker
			p.divide(w.now)
			w.main()
		})
		p.enter(w)
		// As after the pool's start: all places are asleep.
		e.sleep.Announce(i, false)
	}
	e.outside = new(worker)
	e.begin(e.outside, e.outside.arrive)
	e.outside.seen = make([]uint32, len(e.words))
	e.agenda.set(e.outside.id, 0)
	for !e.over {
		i, at := e.agenda.first()
		if at == never {
			e.failure = e.deadlock()
			break
		}
		e.workers[i].next()
	}
	for _, w := range e.workers {
		w.stop()
	}
	for _, p := range e.places {
		if p.parked {
			e.stats.Parked += max(0, e.end-p.since)
		}
	}
	return e.results(), e.failure
}

// load makes the engine's account of the work to run.
func (e *engine) load(s *service) {
	if e.tree != nil {
		e.left = e.tree.nodes()
		e.ran = make([]bool, e.left)
		return
	}
	e.service = &service{requests: slices.Clone(s.requests), arriving: s.arriving, lines: s.lines, work: s.work}
	e.left = len(s.requests)
	e.ran = make([]bool, e.left)
	e.unfinished = make([]int32, s.arriving)
	for i := range e.unfinished {
		e.unfinished[i] = 1 + s.requests[i].parts
	}
}

// begin gives a worker its number and makes it a coroutine, which runs body once it is woken.
func (e *engine) begin(w *worker, body func()) {
	w.id, w.share, w.engine = len(e.workers), 1, e
	w.eager = policy.AlwaysPublic
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
	asleep, joining, searching := 0, 0, e.sleep.Load().Searching()
	queued, forks := 0, 0
	for _, p := range e.places {
		if p.parked {
			asleep++
		}
		queued += p.queued()
	}
	for _, w := range e.workers {
		if w.bottom > 0 {
			joining++
		}
		forks += max(0, w.split-w.top)
	}
	for i := range e.injectors {
		queued += e.injectors[i].len()
	}
	return fmt.Errorf("everybody sleeps, and %d of %d nodes or requests have not run: %d of %d workers are parked, %d of all wait for a fork, %d count as searchers; %d tasks are queued and %d forks are public",
		e.left, len(e.ran), asleep, len(e.places), joining, searching, queued, forks)
}

func (e *engine) results() Stats {
	s := e.stats
	s.Makespan = e.end
	s.Goroutines = int64(len(e.workers) - 1) // without outside
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
