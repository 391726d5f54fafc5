package sim

import (
	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// frame is one fork: a range of a tree's nodes that another worker may take.
type frame struct {
	lo, hi int32
	thief  int32 // 1 + the thief's place, 0 while it is unknown
	state  latch
}

type latch uint8

const (
	pending latch = iota
	looking       // the owner looks at it all the time
	waiting       // the owner has lent its place, or is a helper that is parked over it
	alone         // the owner is a helper that sleeps until it is done, and does nothing else
	done
)

// stack is a worker's fork stack. All of it is as in the pool: frames from top to split are
// public, from split to bottom private.
type stack struct {
	frames             []frame
	top, split, bottom int
	eager              int
}

// push forks a range and returns its depth.
func (w *worker) push(lo, hi int32) int {
	d := w.bottom
	if d == len(w.frames) {
		w.frames = append(w.frames, frame{})
	}
	w.frames[d] = frame{lo: lo, hi: hi}
	w.bottom++
	w.now += fork
	if w.hungry() || d < w.eager {
		w.publish()
	}
	return d
}

// hungry says whether a worker could take a fork. Here each fork reads one word for that, and sees
// a change at once. In the pool a thief that finds nothing on a stack tells its owner.
func (w *worker) hungry() bool {
	w.read(w.engine.stateWord())
	return w.engine.sleep.Hungry()
}

// publish shows all frames to thieves, and wakes a thief if need be.
func (w *worker) publish() {
	if w.split >= w.bottom {
		return
	}
	w.write(w.at)
	w.split = w.bottom
	if w.mind().WantsForks() {
		w.wakeOne(w.engine.nodeOf[w.at], w.at)
	}
}

// pop takes the newest fork back, and says whether it was not stolen. A stolen fork is done when pop returns.
func (w *worker) pop(d int) bool {
	w.bottom = d
	if w.hungry() {
		w.publish()
	}
	if d >= w.split {
		return true
	}
	w.write(w.at)
	if w.top <= d {
		w.split, w.eager = d, w.top+policy.AlwaysPublic
		return true
	}
	w.split, w.eager, w.bottom = w.top, w.top+policy.AlwaysPublic, w.top
	w.await(d) // no panic leaves other frames above it
	w.write(w.at)
	w.top, w.split, w.bottom, w.eager = d, d, d, d+policy.AlwaysPublic
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
	fr := owner.frames[index]
	owner.frames[index].thief = int32(w.at) + 1
	if owner != w {
		w.now += fetch(w.engine.tree.lines, w.away(owner.at))
	}
	w.family(fr.lo, fr.hi)
	w.sync()
	w.now += w.away(owner.at) + rmw
	state := owner.frames[index].state
	owner.frames[index].state = done
	w.complete(owner, state)
}
