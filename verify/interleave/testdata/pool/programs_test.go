package pool

import (
	"testing"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/core"
	"github.com/seed53057037/heist/internal/policy"
	"github.com/seed53057037/heist/verify/explore"
	"github.com/seed53057037/heist/verify/explore/atomic"
	"github.com/seed53057037/heist/verify/interleave/programs"
)

// Small programs over the fork stacks and scopes. The owner and the thieves call what a worker calls, without the loop
// of a worker and without sleep: a wait for a latch is a wait of the explorer's.

// all interleavings.
var all = explore.Options{Preemptions: explore.Unbounded}

// party is a pool without places, and workers for an owner and thieves.
type party struct {
	pool  *Pool
	place *core.Placement
}

func newParty() *party {
	p := &party{new(Pool), new(core.Placement)}
	p.pool.core.Monitored.Store(true) // no monitor is wanted
	return p
}

func (p *party) worker() *Worker {
	w := &Worker{pool: p.pool}
	w.core.Init(&p.pool.core, p.place, (*shown)(w), false)
	w.core.BeginBeside(new(core.Roster))
	w.labels = &w.jobLabels
	w.offer([]stealable{&w.children})
	return w
}

// hunger makes the pool hungry, or not.
func (p *party) hunger(searchers int) {
	p.pool.core.Sleep.Add(policy.OneSearching * policy.State(searchers))
}

// forks is an owner's fork stack whose forks square numbers, and counts how often each runs.
type forks struct {
	*party
	owner *Worker
	stack *frames[int, int]
	runs  []int
	over  atomic.Bool
}

func newForks(hungry bool) *forks {
	f := &forks{party: newParty(), runs: make([]int, 16)}
	if hungry {
		f.hunger(1)
	}
	f.owner = f.worker()
	f.stack = stackOf[frames[int, int]](f.owner)
	f.stack.body = func(_ *Worker, n int) int {
		explore.Assert(n > 0, "a fork runs without its argument")
		explore.Assert(f.runs[n] == 0, "fork %d runs twice", n)
		f.runs[n]++
		return n * n
	}
	return f
}

// join is a join: its one function is inner, the other one squares n.
func (f *forks) join(n int, inner func()) {
	s := f.stack
	d := s.bottom
	s.offer(n)
	inner()
	s.bottom = d
	var result int
	if d < int(s.slow.Load()) {
		result = s.pop(d, n)
	} else {
		result = s.body(s.owner, n)
	}
	explore.Assert(f.runs[n] == 1, "fork %d has run %d times", n, f.runs[n])
	explore.Assert(result == n*n, "fork %d has the result %d", n, result)
	if d == 0 {
		s.tidy(0)
	}
}

// nest joins the forks from n on, each in the one before.
func (f *forks) nest(n, depth int) {
	if depth > 0 {
		f.join(n, func() { f.nest(n+1, depth-1) })
	}
}

// thief tries so many times to steal a fork.
func (f *forks) thief(tries int) {
	explore.Go("thief", func() {
		w := f.worker()
		for range tries {
			f.steal(w)
		}
	})
}

func (f *forks) steal(w *Worker) bool {
	if !f.stack.visible() {
		f.stack.alarm()
		return false
	}
	c, r := f.stack.claim(0)
	if r == heist.Success {
		f.stack.run(w, c)
	}
	return r == heist.Success
}

// end checks that nothing is left.
func (f *forks) end() {
	f.stack.trim()
	explore.Wait()
	top, split := borders(f.stack.public.Load())
	explore.Assert(f.stack.bottom == 0 && top == 0 && split == 0, "a fork is left: bottom %d, top %d, split %d", f.stack.bottom, top, split)
}

func TestForksRunOnce(t *testing.T) {
	o := explore.Options{Races: true}
	programs.Explore(t, o, func() {
		f := newForks(true)
		f.thief(1)
		f.thief(1)
		f.nest(1, 2)
		f.end()
	})
	programs.Explore(t, o, func() {
		f := newForks(true)
		f.thief(2)
		f.nest(1, 2)
		f.nest(5, 1)
		f.end()
	})
}

// Frames from depth 4 on are private, until a thief raises an alarm.
func TestPrivateForksArePublishedAfterAnAlarm(t *testing.T) {
	programs.Explore(t, explore.Options{Races: true, Preemptions: 1}, func() {
		f := newForks(false)
		explore.Go("thief", func() {
			f.hunger(1)
			w := f.worker()
			f.steal(w)
			f.steal(w)
			f.hunger(-1)
		})
		f.nest(1, policy.AlwaysPublic+2)
		f.end()
	})
}

// The owner exposes its frames without an alarm, as a worker that begins to wait does.
func TestForksOnTheFastPathArePublishedByTheirOwner(t *testing.T) {
	programs.Explore(t, explore.Options{Races: true}, func() {
		f := newForks(false)
		explore.Go("thief", func() {
			w := f.worker()
			for range policy.AlwaysPublic + 2 {
				f.steal(w)
			}
		})
		f.deep(1, policy.AlwaysPublic+2, f.owner.expose)
		f.end()
	})
}

// deep is nest, with something to do at the bottom.
func (f *forks) deep(n, depth int, bottom func()) {
	if depth == 0 {
		bottom()
		return
	}
	f.join(n, func() { f.deep(n+1, depth-1, bottom) })
}

// A join that waits for a stolen fork trims its stack, as a worker that lends its place does. Here the fork at depth 1 and the one
// at depth 0 can both be stolen, and a panic leaves the inner one behind.
func TestFramesThatThievesWorkInAreKept(t *testing.T) {
	programs.Explore(t, explore.Options{Races: true}, func() {
		f := newForks(true)
		f.thief(1)
		f.thief(1)
		s := f.stack
		func() {
			defer func() {
				if v := recover(); v != nil && v != any("inner") {
					panic(v)
				}
			}()
			defer s.tidy(0)
			s.offer(1)
			s.offer(2)
			panic("inner")
		}()
		explore.Assert(s.bottom == 0, "the stack has the depth %d after a panic", s.bottom)
		f.nest(3, 1)
		f.end()
	})
}

// scopes is an owner of scopes and thieves of their children.
type scopes struct {
	*party
	owner *Worker
	ended []int
}

func newScopes() *scopes {
	s := &scopes{party: newParty(), ended: make([]int, 8)}
	s.owner = s.worker()
	return s
}

// child returns a child that counts that it has run.
func (s *scopes) child(i int, then func(w *Worker)) func(*Worker) {
	return func(w *Worker) {
		explore.Assert(s.ended[i] == 0, "child %d runs twice", i)
		if then != nil {
			then(w)
		}
		s.ended[i]++
	}
}

func (s *scopes) thief(tries int) {
	explore.Go("thief", func() {
		w := s.worker()
		for range tries {
			if c, r := s.owner.children.claim(0); r == heist.Success {
				c.branch.runStolen(w, c.child)
			}
		}
	})
}

func (s *scopes) allOf(children ...int) {
	for _, i := range children {
		explore.Assert(s.ended[i] == 1, "a scope has ended, and its child %d has run %d times", i, s.ended[i])
	}
}

func TestChildrenRunOnceBeforeTheirScopeEnds(t *testing.T) {
	programs.Explore(t, all, func() {
		s := newScopes()
		s.thief(2)
		s.owner.Scope(func(sc *Scope) {
			sc.Go(s.owner, s.child(0, nil))
			sc.Go(s.owner, s.child(1, nil))
		})
		s.allOf(0, 1)
		explore.Wait()
	})
}

func TestStolenChildOfAnInnerScopeIsTheInnerScopes(t *testing.T) {
	programs.Explore(t, explore.Options{}, func() {
		s := newScopes()
		s.thief(1)
		s.thief(1)
		s.owner.Scope(func(outer *Scope) {
			outer.Go(s.owner, s.child(0, nil))
			s.owner.Scope(func(inner *Scope) {
				inner.Go(s.owner, s.child(1, nil))
			})
			s.allOf(1)
			explore.Assert(s.owner.children.branch.Load().scope == outer, "the innermost branch is not that of the outer scope")
		})
		s.allOf(0, 1)
		explore.Wait()
	})
}

// The child of the outer scope waits for something that comes after the inner scope.
func TestInnerScopeLeavesTheChildrenOfTheOuterAlone(t *testing.T) {
	programs.Explore(t, all, func() {
		s := newScopes()
		innerOver := false
		s.owner.Scope(func(outer *Scope) {
			outer.Go(s.owner, s.child(0, func(*Worker) { explore.Assert(innerOver, "an inner scope runs a child of the outer one") }))
			s.owner.Scope(func(inner *Scope) {
				inner.Go(s.owner, s.child(1, nil))
				outer.Go(s.owner, s.child(2, func(*Worker) { explore.Assert(innerOver, "an inner scope runs a stray of the outer one") }))
			})
			s.allOf(1)
			innerOver = true
			s.thief(1)
		})
		s.allOf(0, 1, 2)
		explore.Wait()
	})
}

func TestStolenChildEndsAfterTheChildrenThatItHasAdded(t *testing.T) {
	programs.Explore(t, all, func() {
		s := newScopes()
		thief := s.worker()
		explore.Go("thief", func() {
			if c, r := s.owner.children.claim(0); r == heist.Success {
				c.branch.runStolen(thief, c.child)
			}
		})
		explore.Go("thief of the thief", func() {
			w := s.worker()
			if c, r := thief.children.claim(0); r == heist.Success {
				c.branch.runStolen(w, c.child)
			}
		})
		s.owner.Scope(func(sc *Scope) {
			sc.Go(s.owner, s.child(0, func(w *Worker) { sc.Go(w, s.child(1, nil)) }))
		})
		s.allOf(0, 1)
		explore.Wait()
	})
}
