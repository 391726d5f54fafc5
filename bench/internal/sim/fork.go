package sim

import (
	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// frame is one fork: a range of a tree's nodes that another worker may take.
type frame struct {
	lo, hi int32
	thief  int // the CPU of the thief
	state  latch
}

type latch uint8

const (
	pending latch = iota
	looking       // the owner looks at it all the time
	waiting       // the owner has lent its place
	done
)

// stack is a worker's fork stack. All of it is as in pool/fork.go: frames from top to split are
// public, from split to bottom private. Below the depth slow, or at any while there is an alarm, forks and joins
// look whether the pool is hungry.
type stack struct {
	frames             []frame
	top, split, bottom int
	alarmed            bool
}

func (s *stack) eager() int { return s.top + policy.AlwaysPublic }

func (s *stack) isSlow(d int) bool { return s.alarmed || d < max(s.eager(), s.split) }

// push forks a range and returns its depth.
func (w *worker) push(lo, hi int32) int {
	d := w.bottom
	if d == len(w.frames) {
		w.frames = append(w.frames, frame{})
	}
	w.frames[d] = frame{lo: lo, hi: hi}
	w.bottom++
	w.now += fork
	w.read(w.at) // an alarm changes it
	if !w.isSlow(d) {
		return d
	}
	hungry, eager := w.hungry(), d < w.eager()
	if hungry || eager {
		w.publish()
	}
	if !hungry || eager {
		w.relax()
	}
	return d
}

// relax ends the alarm, unless the pool is hungry.
func (w *worker) relax() {
	if alarmed := w.hungry(); alarmed != w.alarmed {
		w.alarmed = alarmed
		w.write(w.at)
	}
}

func (w *worker) hungry() bool {
	w.mind()
	return w.engine.core.Sleep.Hungry()
}

// publish shows all frames to thieves, and wakes a thief if need be.
func (w *worker) publish() {
	if w.split >= w.bottom {
		return
	}
	w.write(w.at)
	w.split = w.bottom
	if w.mind().WantsForks() {
		w.readBitmaps(w.engine.nodeOf[w.at])
		w.engine.core.WakeOne(w.engine.nodeOf[w.at], w.core.HomeIndex())
	}
}

// pop takes the newest fork back, and says whether it was not stolen. A stolen fork is done when pop returns.
func (w *worker) pop(d int) bool {
	w.bottom = d
	w.read(w.at)
	if !w.isSlow(d) {
		return true
	}
	if w.hungry() {
		w.publish()
	}
	if d >= w.split {
		return true
	}
	w.write(w.at)
	if w.top <= d {
		w.split = d
		return true
	}
	w.split, w.bottom = w.top, w.top
	w.await(d) // no panic leaves other frames above it
	w.write(w.at)
	w.top, w.split, w.bottom = d, d, d
	return false
}

// claim takes the oldest public frame of another worker, or of its own.
func (w *worker) claim(v *worker) (index int, r heist.StealResult) {
	top, split := v.top, v.split
	if top >= split {
		return 0, heist.Empty
	}
	w.write(v.at)
	if v.top != top || v.split != split {
		return 0, heist.Retry
	}
	v.top++
	return top, heist.Success
}

// The pool's, see pool/waiting.go, in nanoseconds.
const shortLook, longLook = 4_000, 30_000

// await waits until a stolen fork is done.
func (w *worker) await(d int) {
	w.publish()
	w.sync()
	if w.frames[d].state != done && !w.watchLatch(d, shortLook) && !(w.hungry() && w.watchLatch(d, longLook-shortLook)) {
		w.frames[d].state = waiting
		w.core.Lend(w.letGo(), w.AnyFork(true))
		w.core.Parker.Park()
		w.write(w.engine.bitmapWord(w.engine.nodeOf[w.at]))
		w.wrote(w.engine.restWord())
		if w.has(w.core.ComeBack()) {
			w.wrote(w.engine.stateWord())
		}
	}
	w.now += w.away(w.frames[d].thief) // the result
}

// watchLatch looks at a fork all the time until it is done, for at most ns nanoseconds. It says whether the
// fork is done.
func (w *worker) watchLatch(d int, ns int64) bool {
	if w.frames[d].state == done {
		return true
	}
	deadline := w.now + ns
	w.frames[d].state = looking
	w.sleepUntil(deadline)
	if w.frames[d].state == done {
		return true // the thief has set the clock
	}
	w.frames[d].state = pending
	w.now, w.synced = deadline, deadline
	return false
}

// complete ends the wait for a fork.
func (w *worker) complete(owner *worker, index int) {
	fr := &owner.frames[index]
	state := fr.state
	fr.state = done
	switch state {
	case looking:
		owner.wake(w.now)
	case waiting:
		owner.core.Parker.Unpark()
	}
}

// family counts a range of nodes.
func (w *worker) family(lo, hi int32) {
	t := w.engine.tree
	for {
		switch hi - lo {
		case 0:
			return
		case 1:
			w.now += int64(t.cost[lo])
			w.engine.ranOnce(lo)
			lo, hi = t.children[lo], t.children[lo+1]
			if t.after > 0 && lo < hi {
				w.family(lo, hi)
				w.now += int64(t.after)
				w.sync()
				return
			}
		default:
			middle := lo + (hi-lo)/2
			d := w.push(middle, hi)
			w.family(lo, middle)
			if !w.pop(d) {
				return
			}
			lo = middle
		}
	}
}

// runFork runs a claimed frame of another worker, or of its own.
func (w *worker) runFork(owner *worker, index int) {
	owner.frames[index].thief = w.at
	fr := owner.frames[index]
	if owner != w {
		w.now += fetch(w.engine.tree.lines, w.away(owner.at))
	}
	w.family(fr.lo, fr.hi)
	w.sync()
	w.now += w.away(owner.at) + rmw
	w.complete(owner, index)
}
