package soak

import (
	"fmt"
	"slices"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
)

// certainty says whether an operation was done, as far as that is known.
type certainty int

const (
	not certainty = iota
	maybe
	surely
)

// judge goes through a program serially, and compares that with what a run counted. Where
// the program leaves something open, the pool's answers decide: an accepted operation was
// surely done, even where it is unknown whether it would be offered.
type judge struct {
	*run
	which  int      // the pool of the present operation
	inTask bool     // in a task without a waiter
	booms  [2]int   // panics that should have come to the handlers
	tasks  [2]tally // tasks that the pools should have run
}

// tally is the least and the greatest number of tasks. Where the pool is closed under the
// work, it does not say of each task whether it was accepted.
type tally struct{ least, most uint64 }

// verdict returns the errors of a run, or nil.
func (r *run) verdict() error {
	j := judge{run: r}
	for _, o := range r.Quitters {
		j.leaf(o, 0, surely)
		j.count(surely)
	}
	for _, o := range r.Roots {
		j.op(o, surely)
	}
	j.compareSums()
	for i, p := range r.pools {
		if got := r.handled[i].Load(); got != int64(j.booms[i]) {
			j.fail("%d panics came to the handler of pool %d, not %d", got, i, j.booms[i])
		}
		if err := atTheEnd(p, j.tasks[i]); err != nil {
			j.fail("pool %d: %w", i, err)
		}
	}
	return r.err()
}

// compareSums compares the values of the leaves by their counts with the sums of the workers.
func (j *judge) compareSums() {
	var want uint64
	for i := range j.counts {
		want += uint64(j.counts[i].Load()) * j.valueOf(i)
	}
	got := j.loose.Load()
	for i := range j.sums {
		for s := range j.sums[i].All() {
			got += *s
		}
	}
	if got != want {
		j.fail("the leaves add up to %d by their workers' sums, to %d by their counts", got, want)
	}
}

// count counts a task.
func (j *judge) count(c certainty) {
	t := &j.tasks[j.which]
	if c == surely {
		t.least++
	}
	if c != not {
		t.most++
	}
}

// mayClose says whether the pool may be closed while an operation is at it. Only Close waits
// for tasks.
func (j *judge) mayClose() bool { return j.inTask || j.which == 0 && j.CloseAfter > 0 }

func (j *judge) said(o *op) answer { return answer(j.answers[o.ID].Load()) }

// panics says whether an operation panics if it is done, given the pool's answer.
func (j *judge) panics(o *op) bool {
	switch o.Kind {
	case blowUp:
		return true
	case loop:
		return o.Panics && j.said(o) == unwound
	case leaf, compute, catch, workerGo, poolGo, submit, trySubmit, submitOn, batch:
		return false
	case cancelled, group, plainGroup:
		return j.said(o) == unwound && (slices.ContainsFunc(o.Children, j.panics) || j.mayPass(o))
	case spread, guest, otherPool, future:
		return j.said(o) == unwound && slices.ContainsFunc(o.Children, j.panics)
	}
	return slices.ContainsFunc(o.Children, j.panics)
}

// mayPass says whether a panic may leave a cancelled call although the operations around it recover
// panics: of several panics that meet, or if the call unwinds, one may have no waiter. It continues
// where the call ends. An error of one function of a group cancels the calls of the others.
func (j *judge) mayPass(o *op) bool {
	fails := (o.Kind == group || o.Kind == plainGroup) && o.failing() >= 0
	return (fails || o.cancels() != never) && mayPanic(o)
}

// mayPanic says whether something in an operation panics, except for tasks without a waiter.
func mayPanic(o *op) bool {
	switch o.Kind {
	case workerGo, poolGo, submit, trySubmit, submitOn, batch:
		return false
	}
	return o.Kind == blowUp || o.Panics || slices.ContainsFunc(o.Children, mayPanic)
}

// op judges an operation, and returns the value that it must have if it surely was done
// and did not panic.
func (j *judge) op(o *op, c certainty) uint64 {
	value := j.kind(o, c)
	if got := j.values[o.ID].Load(); c == surely && !j.panics(o) && got != value {
		j.fail("operation %d, a %v, is worth %d, not %d", o.ID, o.Kind, got, value)
	}
	return value
}

func (j *judge) kind(o *op, c certainty) uint64 {
	switch o.Kind {
	case leaf, blowUp:
		j.leaf(o, 0, c)
		return j.valueOf(o.First)
	case sequence:
		return j.sequence(o, c)
	case loop:
		return j.loop(o, c)
	case compute:
		j.answer(o, c, accepted, refused, unwound)
		j.mustPanic(o, c, false)
	case join, both, do:
		return j.together(o, c, true)
	case recursion:
		return j.together(o, c, len(o.Children) == 2) // only Join defines which child it does itself
	case scope:
		return j.together(o, c, false)
	case spread:
		return j.call(o, c, func(inside certainty) uint64 {
			if j.said(o) == refused {
				inside = maybe // as for a loop
			}
			return j.together(o, inside, false)
		})
	case catch:
		return j.catch(o, c)
	case cancelled:
		return j.cancelled(o, c)
	case guest:
		return j.call(o, c, func(inside certainty) uint64 { return j.op(o.Children[0], inside) })
	case otherPool:
		outer := *j
		j.which, j.inTask = 1, false
		value := j.call(o, c, func(inside certainty) uint64 { return j.op(o.Children[0], inside) })
		j.which, j.inTask = outer.which, outer.inTask
		return value
	case workerGo, poolGo, submit, trySubmit, submitOn:
		j.detached(o.Children[0], j.answer(o, c, accepted, refused))
	case batch:
		for _, m := range o.Children {
			j.detached(m, j.answer(m, c, accepted, refused))
		}
	case group, plainGroup:
		return j.group(o, c)
	case future:
		return j.future(o, c)
	case member:
		return j.op(o.Children[0], c)
	}
	return 0
}

// leaf checks how often one of an operation's leaves ran.
func (j *judge) leaf(o *op, i int, c certainty) {
	n := j.counts[o.First+i].Load()
	if c == surely && n != 1 || c == maybe && n > 1 || c == not && n != 0 {
		j.fail("leaf %d, of operation %d, a %v, ran %d times: %v", o.First+i, o.ID, o.Kind, n, c)
	}
}

func (c certainty) String() string {
	return [...]string{"it should not run", "it may run once", "it must run once"}[c]
}

func (a answer) String() string {
	return [...]string{"nothing", "accepted", "refused", "cancelled", "failed", "a panic"}[a]
}

// answer returns how certain it is that the inside of an operation was done, given the
// pool's answer. An operation that was begun has an answer, and others have none.
func (j *judge) answer(o *op, c certainty, possible ...answer) (inside certainty) {
	said := j.said(o)
	if said == unasked && c == surely || said != unasked && c == not || said != unasked && !slices.Contains(possible, said) {
		j.fail("operation %d, a %v, got as its answer: %v; %v", o.ID, o.Kind, said, c)
	}
	switch said {
	case unasked, refused:
		return not
	case stopped:
		return maybe
	case unwound:
		return c
	}
	return surely
}

// mustPanic complains if an operation that surely was done did not end as its children did.
func (j *judge) mustPanic(o *op, c certainty, panics bool) {
	if c == surely && panics != (j.said(o) == unwound) {
		j.fail("operation %d, a %v, ended with %v; it had to panic: %v", o.ID, o.Kind, j.said(o), panics)
	}
}

// call judges an operation that ends as its inside does, unless the pool is closed.
func (j *judge) call(o *op, c certainty, inside func(certainty) uint64) uint64 {
	value := inside(j.answer(o, c, accepted, refused, unwound))
	if j.said(o) == refused {
		return valueRefused
	}
	j.mustPanic(o, c, slices.ContainsFunc(o.Children, j.panics))
	return value
}

func (j *judge) sequence(o *op, c certainty) uint64 {
	values := make([]uint64, len(o.Children))
	for i, child := range o.Children {
		values[i] = j.op(child, c)
		if j.panics(child) {
			c = not
		}
	}
	return combine(values)
}

// together judges children that are done at the same time. If one panics, others that have
// not begun never will; the first one of a fork always begins. If just one panics, it was
// done: without it nothing would have been left out.
func (j *judge) together(o *op, c certainty, first bool) uint64 {
	panicking := 0
	for _, child := range o.Children {
		if j.panics(child) {
			panicking++
		}
	}
	values := make([]uint64, len(o.Children))
	for i, child := range o.Children {
		known := panicking == 0 || first && i == 0 || panicking == 1 && j.panics(child)
		if known {
			values[i] = j.op(child, c)
		} else {
			values[i] = j.op(child, min(c, maybe))
		}
	}
	return combine(values)
}

func (j *judge) catch(o *op, c certainty) uint64 {
	inside := j.answer(o, c, accepted, failed, unwound)
	caught := j.said(o) == failed
	if caught {
		inside = c // the operation that panicked did not come to its end
	}
	value := j.op(o.Children[0], inside)
	if c == surely && caught != j.panics(o.Children[0]) {
		j.fail("operation %d caught a panic: %v", o.ID, caught)
	}
	if caught {
		return valueCaught
	}
	return value
}

func (j *judge) cancelled(o *op, c certainty) uint64 {
	inside := j.answer(o, c, accepted, refused, stopped, unwound)
	said, when := j.said(o), o.cancels()
	switch {
	case said == stopped && when == never, said == accepted && when == before:
		j.fail("operation %d, which is cancelled %v, ended with %v", o.ID, when, said)
	case said == stopped && when == before:
		inside = not
	case said == unwound && when != never:
		inside = min(c, maybe)
	}
	value := j.op(o.Children[0], inside)
	switch said {
	case refused:
		return valueRefused
	case stopped:
		return valueStopped
	}
	j.mustPanic(o, c, j.panics(o.Children[0]) || said == unwound && j.mayPass(o))
	return value
}

func (w cancels) String() string {
	return [...]string{"never", "before it begins", "by itself", "some time"}[w]
}

func (j *judge) loop(o *op, c certainty) uint64 {
	rest := j.answer(o, c, accepted, refused, stopped, unwound)
	special := rest
	said, when := j.said(o), o.cancels()
	switch {
	case said == accepted && (o.Panics || when == before), said == stopped && when == never:
		j.fail("operation %d, a loop that is cancelled %v and panics: %v, ended with %v", o.ID, when, o.Panics, said)
	case said == stopped && when == before:
		rest, special = not, not
	case said == stopped: // only the special leaf could have done that
		special = surely
	case said == refused: // a loop that has begun when the pool is closed is cut short
		rest, special = maybe, maybe
	case said == unwound:
		rest = min(c, maybe)
		if !o.Panics {
			special = rest
		}
	}
	values := make([]uint64, o.N)
	for i := range values {
		values[i] = j.valueOf(o.First + i)
		if i == o.special() {
			j.leaf(o, i, special)
		} else {
			j.leaf(o, i, rest)
		}
	}
	switch said {
	case refused:
		return valueRefused
	case stopped:
		return valueStopped
	}
	j.mustPanic(o, c, o.Panics)
	return weigh(values)
}

// detached judges a task without a waiter.
func (j *judge) detached(o *op, c certainty) {
	j.count(c)
	outer := j.inTask
	j.inTask = true
	j.op(o, c)
	j.inTask = outer
	if c == surely && j.panics(o) {
		j.booms[j.which]++
	}
}

// group judges tasks that are all done, unless one of them fails or panics, or the pool is
// closed. Then the group skips the tasks that have not begun, and does not say which. They
// count as tasks all the same, unless they were not accepted.
func (j *judge) group(o *op, c certainty) uint64 {
	inside := j.answer(o, c, accepted, refused, failed, unwound)
	said := j.said(o)
	switch {
	case said == refused, said != unasked && said != accepted && j.mayClose():
		inside = maybe
	}
	values := make([]uint64, len(o.Children))
	for i, m := range o.Children {
		each := min(j.answer(m, c, accepted, refused), inside)
		j.count(each)
		if said != accepted {
			each = min(each, maybe)
		}
		if value := j.op(m, each); j.said(m) == accepted {
			values[i] = value
		}
	}
	if said == refused {
		return valueRefused
	}
	done := func(m *op) bool { return j.said(m) == accepted }
	panics := slices.ContainsFunc(o.Children, func(m *op) bool { return done(m) && j.panics(m) })
	fails := o.failing() >= 0 && done(o.Children[o.failing()])
	right := said == accepted && !panics && !fails || said == failed && fails || said == unwound && (panics || j.mayPass(o))
	if c == surely && !j.mayClose() && !right {
		j.fail("operation %d, a %v, ended with %v; a member may panic: %v, or fail: %v", o.ID, o.Kind, said, panics, fails)
	}
	if said == failed {
		return valueFailed
	}
	return combine(values)
}

func (j *judge) future(o *op, c certainty) uint64 {
	inside := j.answer(o, c, accepted, refused, failed, unwound)
	j.count(inside)
	value := j.op(o.Children[0], inside)
	said := j.said(o)
	if said == refused {
		return valueRefused
	}
	j.mustPanic(o, c, j.panics(o.Children[0]))
	if c == surely && said != unwound && (said == failed) != (o.failing() >= 0) {
		j.fail("operation %d, a future, ended with %v", o.ID, said)
	}
	if said == failed {
		return valueFailed
	}
	return value
}

// consistent returns an error if a pool's counters contradict each other. The pool may be at work.
func consistent(p *pool.Pool) error {
	s := p.Stats()
	total := s.Total()
	var tiers inspect.TierStats
	for _, t := range s.Tiers {
		tiers.Steals += t.Steals
		tiers.Items += t.Items
		tiers.LostRaces += t.LostRaces
	}
	if tiers.Steals != total.Steals || tiers.Items != total.Items || tiers.LostRaces != total.LostRaces {
		return fmt.Errorf("the workers' counters are %+v, the tiers' %+v", total, tiers)
	}
	return nil
}

// atTheEnd returns an error if the counters of a closed pool contradict each other, or the tasks.
func atTheEnd(p *pool.Pool, tasks tally) error {
	s := p.Stats()
	total := s.Total()
	var attempts, steals uint64
	for _, t := range s.Tiers {
		attempts += t.Attempts
	}
	for _, of := range p.StealMatrix() {
		for _, n := range of {
			steals += n
		}
	}
	switch {
	case total.Tasks < tasks.least, total.Tasks > tasks.most:
		return fmt.Errorf("by its counters it ran %d tasks, but it accepted from %d to %d", total.Tasks, tasks.least, tasks.most)
	case steals != total.Steals:
		return fmt.Errorf("%d steals by thief and victim, %d steals", steals, total.Steals)
	case total.Items < total.Steals, attempts < total.Steals+total.LostRaces:
		return fmt.Errorf("counters that contradict each other: %+v, %d attempts", total, attempts)
	}
	return consistent(p)
}
