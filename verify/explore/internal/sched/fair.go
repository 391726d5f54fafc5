package sched

// # Fairness
//
// A goroutine that waits in a loop would be chosen for ever by a scheduler that may choose anything. So it yields in
// its loop, and then it is not chosen before another goroutine has run. That is not enough for three goroutines, two of
// which yield in turn. So each yield also takes away priority, by the rule of Musuvathi and Qadeer ("Fair stateless
// model checking", PLDI 2008): after a turn of its loop, a goroutine is not chosen before those that could have run
// all the time during the turn and did not.

// mayRun says whether the goroutine may be chosen.
func (x *execution) mayRun(i int, enabled set) bool {
	g := x.goroutines[i]
	if g.lower&enabled != 0 {
		return false
	}
	return !g.yielded || x.alone(i, enabled)
}

// alone says whether nobody but those that have yielded can run.
func (x *execution) alone(i int, enabled set) bool {
	for j, g := range x.goroutines {
		if j != i && enabled.has(j) && !g.yielded && g.lower&enabled == 0 {
			return false
		}
	}
	return true
}

// fair counts that the goroutine i runs.
func (x *execution) fair(enabled set, i int) {
	bit := set(1) << i
	for j, g := range x.goroutines {
		g.ran |= bit
		g.stayed &= enabled
		g.lower &^= bit
		if j != i {
			g.yielded = false
		}
	}
	x.goroutines[i].yielded = false
}

// yielding is called by a goroutine that yields.
func (x *execution) yielding() {
	g, enabled := x.current, x.enabled()
	g.lower |= g.stayed &^ g.ran &^ (1 << g.id)
	g.stayed, g.ran = enabled, 0
	g.yielded = true
}
