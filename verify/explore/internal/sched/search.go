package sched

import (
	"fmt"
	"slices"
)

// search is a depth-first search of all interleavings with at most so many preemptions: switches away from a goroutine that
// could go on (Musuvathi and Qadeer, "Iterative context bounding for systematic testing of multithreaded programs", PLDI
// 2007). Most bugs need few of them.
//
// Without a bound the search leaves out interleavings that differ from others only in the order of operations that
// commute: it has sleep sets (Godefroid, "Partial-order methods for the verification of concurrent systems", 1996). With a
// bound this would be wrong, because the interleaving that stays may need more preemptions than the one that is left out.
// With store buffers it leaves out nothing.
type search struct {
	bound     int
	unbounded bool
	reduce    bool // leave out what differs only in the order of operations that commute
	left      int  // executions
	begun     bool
	done      bool
	cut       bool // the bound has left something out

	path  []node // choices of the last execution
	depth int    // in path
	spent int    // preemptions of this execution
	sleep set    // goroutines whose next operation was explored in another branch
}

// node is a choice.
type node struct {
	options []int
	at      int
	costs   []bool
	spent   int // preemptions before
	sleep   set // on arrival
}

func (s *search) begin() bool {
	if s.begun && !s.backtrack() {
		s.done = true
		return false
	}
	if s.left == 0 {
		return false
	}
	s.left--
	s.begun = true
	s.depth, s.spent, s.sleep = 0, 0, 0
	return true
}

// isNew is false for what a search with a smaller bound has visited.
func (s *search) isNew() bool { return s.unbounded || s.spent == s.bound }

// backtrack goes to the next branch.
func (s *search) backtrack() bool {
	for len(s.path) > 0 {
		n := &s.path[len(s.path)-1]
		if n.at+1 < len(n.options) {
			if s.reduce {
				n.sleep |= 1 << n.options[n.at]
			}
			n.at++
			return true
		}
		s.path = s.path[:len(s.path)-1]
	}
	return false
}

func (s *search) choose(x *execution, options []int, preempts func(int) bool) int {
	if s.depth < len(s.path) {
		n := &s.path[s.depth]
		s.depth++
		if !slices.Contains(options, n.options[n.at]) {
			x.fail("schedule", fmt.Sprintf("the program does not depend on the schedule alone: it had the choices %v, and now %v", n.options, options), "")
			return 0
		}
		if n.costs[n.at] {
			s.spent++
		}
		s.sleep = n.sleep
		return slices.Index(options, n.options[n.at])
	}
	n := node{spent: s.spent, sleep: s.sleep}
	for _, o := range options {
		cost := preempts(o)
		if cost && s.spent >= s.bound && !s.unbounded {
			s.cut = true
			continue
		}
		if s.reduce && s.sleep.has(o) {
			continue
		}
		n.options = append(n.options, o)
		n.costs = append(n.costs, cost)
	}
	if len(n.options) == 0 {
		return -1
	}
	s.path = append(s.path, n)
	s.depth++
	if n.costs[0] {
		s.spent++
	}
	return slices.Index(options, n.options[0])
}

// executed wakes up the goroutines whose next operation does not commute with this one. It gives the execution up if
// this one was explored in another branch.
func (s *search) executed(x *execution, option int) bool {
	if s.sleep == 0 {
		return true
	}
	if s.sleep.has(option) {
		return false
	}
	o := x.goroutines[option].pending
	for i, g := range x.goroutines {
		if s.sleep.has(i) && !commute(o, g.pending) {
			s.sleep &^= 1 << i
		}
	}
	return true
}

// commute says whether two operations of different goroutines can change places. The fair scheduler minds where a yield is.
func commute(a, b op) bool {
	switch {
	case a.kind == yields || b.kind == yields:
		return false
	case a.object == nil || b.object == nil || a.object != b.object:
		return true
	}
	return a.kind == reads && b.kind == reads
}
