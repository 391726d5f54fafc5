package sim

import (
	"iter"

	"github.com/seed53057037/heist/internal/policy"
)

// engine is the state of a run. Only one coroutine touches it at a time.
type engine struct {
	*layout
	agenda *agenda
	sleep  policy.Sleep

	places    []*place
	workers   []*worker // by id: those that the places begin with, outside, the stand-ins
	idle      []*worker // the last to come is the first to go
	outside   *worker   // without a place: it brings what comes from outside
	injectors []queue   // by node
	words     []word    // see the methods of layout

	tree    *tree
	service *service

	ran  []bool // nodes of the tree, or requests
	left int    // how many did not run yet
	end  int64  // when the last was over
	over bool

	stats       Stats
	latencies   []int64
	unfinished  []int32 // of each request from outside: its tasks that are not over
	failure     error
	helps       bool // who waits helps
	slack       int64
	skipRecheck bool // for a test: park without the look after the announcement
}

// word stands for the cache lines of one thing.
type word struct {
	version uint32 // how often it was changed
	writer  int32  // who changed it last
	reader  int32  // who read it last since then, or -1
	busy    int64  // until when it is on its way to those who changed it
}

// The numbers of words. Those of the workers' queues come first.

func (l *layout) injectorWord(node int) int { return l.workers + node }

func (l *layout) bitmapWord(node int) int { return l.workers + l.nodes + node }

func (l *layout) stateWord() int { return l.workers + 2*l.nodes }

// defaultSlack is how far a worker may be ahead of the others when it touches what they can
// see, in nanoseconds: about the way of a cache line between two nodes.
const defaultSlack = 200

// empty marks a worker's queues in which there was nothing to take, so that another visit can
// be short.
const empty = 1 << 31

// clock is a coroutine's place in virtual time.
type clock struct {
	id     int      // its number in the agenda
	at     int      // the place whose CPU it has
	share  int64    // how many share that CPU
	now    int64    // may be ahead of the others
	synced int64    // when it let them go first
	seen   []uint32 // by word: the version that it read last, and nothing or the bit empty
	engine *engine
	yield  func(struct{}) bool
	next   func() (struct{}, bool)
	stop   func()
}

// stopped is what ends the coroutines that are left when a run is over.
type stopped struct{}

// begin makes c a coroutine that runs body when it is its turn.
func (c *clock) begin(body func()) {
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if v := recover(); v != nil && v != any(stopped{}) {
				panic(v)
			}
		}()
		c.yield = yield
		body()
	})
}

// suspend lets others go until it is c's turn again.
func (c *clock) suspend() {
	if !c.yield(struct{}{}) {
		panic(stopped{})
	}
}

// sync lets all go first that are behind.
func (c *clock) sync() {
	if c.now-c.synced <= c.engine.slack {
		return
	}
	c.now = c.synced + (c.now-c.synced)*c.share // what it did was at that speed
	c.synced = c.now
	c.engine.agenda.set(c.id, c.now)
	if first, _ := c.engine.agenda.first(); first != c.id {
		c.suspend()
	}
}

// sleepUntilWoken suspends c until wake.
func (c *clock) sleepUntilWoken() {
	c.engine.agenda.set(c.id, never)
	c.suspend()
}

// wake ends the sleep of c at time t, or later if c goes to sleep later.
func (c *clock) wake(t int64) {
	c.now = max(c.now, t)
	c.synced = c.now
	c.engine.agenda.set(c.id, c.now)
}

// away returns how long a line takes from another worker.
func (c *clock) away(other int) int64 {
	if other == c.at {
		return 0
	}
	return line(c.engine.distance(c.at, other))
}

// read is before c looks at a word. It says whether it was new to it.
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

// write is before c changes a word by an atomic operation: when it returns, the lines have
// come over. Others may have changed the word meanwhile.
func (c *clock) write(i int) {
	c.sync()
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
	c.sync()
	w.version = (w.version + 1) &^ empty
	c.seen[i] = w.version
	w.writer, w.reader = int32(c.at), -1
}

// mind reads the state of the pool's sleep.
func (c *clock) mind() policy.State {
	c.read(c.engine.stateWord())
	return c.engine.sleep.Load()
}

// notifyTask is the pool's, after a task has become visible.
func (c *clock) notifyTask(node int) {
	if c.mind().Searching() == 0 {
		c.wakeOne(node, -1)
	}
}

// wakeOne is the pool's.
func (c *clock) wakeOne(node, place int) {
	e := c.engine
	for n := range e.nodes {
		c.read(e.bitmapWord(n))
	}
	if e.sleep.Nobody() {
		return
	}
	last := -1
	if c.id != e.outside.id {
		last = c.at
	}
	if i, ok := e.sleep.ChooseNear(e.nearby[node], last); ok {
		p := e.places[i]
		if place >= 0 {
			p.firstVictim = place
		}
		c.write(e.bitmapWord(e.nodeOf[i]))
		c.wakeUp(p)
	}
}

// wakeUp is the pool's, for the waker that chose the place.
func (c *clock) wakeUp(p *place) {
	e := c.engine
	c.write(e.stateWord())
	e.sleep.Woken()
	e.stats.Wakes++
	c.now += waker
	p.rouse(c.now - waker)
}

// anyWork is the pool's, with a look at each place.
func (c *clock) anyWork(forks bool) (node, place int, ok bool) {
	e := c.engine
	for node := range e.injectors {
		c.read(e.injectorWord(node))
		if e.injectors[node].len() > 0 {
			return node, -1, true
		}
	}
	for i, v := range e.places {
		if c.visit(i) && (v.queued() > 0 || forks && v.visible()) {
			return e.nodeOf[i], i, true
		}
	}
	return 0, -1, false
}

// visit is before a look at what there is at a place. It says whether there may be something.
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
	if v := c.engine.places[i]; !v.visible() && v.queued() == 0 {
		c.seen[i] |= empty
		return false
	}
	return true
}
