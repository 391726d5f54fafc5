package sim

import (
	"iter"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
)

// engine is the state of a run. Only one coroutine touches it at a time.
type engine struct {
	setup
	agenda *agenda
	core   core.Pool

	places    []*place // by CPU
	cpus      []*cpu
	workers   []*worker                  // by id: clients, the first workers of the places, those that were hired
	clients   int                        // of these, the first ones: they bring what comes from outside, and have no place
	current   *worker                    // that runs, or nil before the run
	injectors []*heist.Injector[request] // by node
	words     []word                     // see the methods of layout

	tree    *tree
	service *service

	ran  []bool // by node of the tree, or by request
	left int    // how many did not run yet
	end  int64  // when the last was over
	over bool

	stats       Stats
	latencies   []int64
	unfinished  []int32 // by request from outside: its tasks that have not ended
	failure     error
	slack       int64
	skipRecheck bool // for a test: nobody sees work when it looks at everything
}

// word stands for the cache lines of one thing.
type word struct {
	version uint32 // how often it was changed
	writer  int32  // the CPU that changed it last
	reader  int32  // the CPU that read it last since then, or -1
	busy    int64  // until when it is on its way to the workers that changed it
}

// The numbers of words. Those of the places come first: queues, roster and forks.

func (l *layout) injectorWord(node int) int { return l.workers + node }

func (l *layout) bitmapWord(node int) int { return l.workers + l.nodes + node }

// stateWord is the state of policy.Sleep.
func (l *layout) stateWord() int { return l.workers + 2*l.nodes }

// restWord is what changes when a worker goes to sleep or waits, see core.Pool.
func (l *layout) restWord() int { return l.stateWord() + 1 }

func (l *layout) allWords() int { return l.stateWord() + 2 }

// defaultSlack is how far a worker may be ahead of the others when it touches shared state,
// in nanoseconds: about the way of a cache line between two nodes.
const defaultSlack = 200

// empty marks words of places where a visit found nothing to take, so that the next visit can be
// short.
const empty = 1 << 31

// clock is a coroutine's position in virtual time.
type clock struct {
	id     int      // its number in the agenda
	at     int      // the CPU that it computes on
	share  int64    // how many workers share that CPU
	now    int64    // may be ahead of the others
	synced int64    // the time of the last sync
	seen   []uint32 // by word: the version last read, with or without the bit empty
	engine *engine
	yield  func(struct{}) bool
	next   func() (struct{}, bool)
	stop   func()
}

// stopped is the panic that ends the coroutines that are left when a run is over.
type stopped struct{}

// begin makes c a coroutine that runs body when its turn comes.
func (c *clock) begin(body func()) {
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if v := recover(); v != nil && v != any(stopped{}) {
				panic(v)
			}
		}()
		c.yield = yield
		body()
		c.engine.agenda.set(c.id, never)
	})
}

// sleepUntil lets other coroutines run until time t, or until it is woken.
func (c *clock) sleepUntil(t int64) {
	c.engine.agenda.set(c.id, t)
	if first, _ := c.engine.agenda.first(); first == c.id && t != never {
		return
	}
	if !c.yield(struct{}{}) {
		panic(stopped{})
	}
}

// sync lets all coroutines that are behind run first.
func (c *clock) sync() {
	if c.now-c.synced <= c.engine.slack {
		return
	}
	c.now = c.synced + (c.now-c.synced)*c.share // on a shared CPU all of it took longer
	c.synced = c.now
	c.sleepUntil(c.now)
}

// wake ends the sleep of c at time t, or later if c goes to sleep later.
func (c *clock) wake(t int64) {
	c.now = max(c.now, t)
	c.synced = c.now
	c.engine.agenda.set(c.id, c.now)
}

// away returns how long a line takes from another CPU.
func (c *clock) away(other int) int64 {
	if other == c.at {
		return 0
	}
	return line(c.engine.distance(c.at, other))
}

// read precedes each look of c at a word. It says whether the word had changed since c read it.
func (c *clock) read(i int) bool {
	c.sync()
	w := &c.engine.words[i]
	if c.seen[i]&^empty == w.version {
		return false
	}
	c.now += c.away(int(w.writer))
	c.seen[i] = w.version
	w.reader = int32(c.at)
	return true
}

// write precedes each atomic operation by which c changes a word. When it returns, the lines
// have come over. Others may have changed the word meanwhile.
func (c *clock) write(i int) {
	c.sync()
	c.fetch(i)
	c.sync()
	c.changes(i)
}

// wrote follows a change that c has made already.
func (c *clock) wrote(i int) {
	c.fetch(i)
	c.changes(i)
}

// fetch is the way of a word's lines to c, which is to change them.
func (c *clock) fetch(i int) {
	w := &c.engine.words[i]
	from := w.writer
	if w.reader >= 0 {
		from = w.reader
	}
	way := c.away(int(from))
	if way > 0 {
		c.now = max(c.now, w.busy)
	}
	c.now += way + rmw
	w.busy = c.now
}

func (c *clock) changes(i int) {
	w := &c.engine.words[i]
	w.version = (w.version + 1) &^ empty
	c.seen[i] = w.version
	w.writer, w.reader = int32(c.at), -1
}

// mind reads the state of the pool's sleep.
func (c *clock) mind() policy.State {
	c.read(c.engine.stateWord())
	return c.engine.core.Sleep.Load()
}

// notifyTask is the pool's, which follows when a task has become visible.
func (c *clock) notifyTask(node int) {
	if c.mind().Searching() > 0 {
		c.read(c.engine.restWord())
	}
	c.engine.core.NotifyTask(node)
}

// visit precedes each look at a place's queues and forks. It says whether there may be any work, or somebody whom no alarm has
// been given.
func (c *clock) visit(i int) bool {
	if c.now-c.synced > c.engine.slack {
		c.sync()
	}
	if i != c.at {
		c.now += hit
	}
	if c.seen[i] == c.engine.words[i].version|empty {
		return false
	}
	c.read(i)
	if c.engine.places[i].hasNothing() {
		c.seen[i] |= empty
		return false
	}
	return true
}
