package policy

// Gaps predicts how long a place will have nothing to do, from how long it had nothing to do before. A **gap** is the
// time from the look that found nothing until there was something. A worker that stays awake during a gap computes in
// vain; a worker that sleeps has to be woken, which costs about as much as 10 microseconds of spinning, and some latency.
//
// There are two ways to stay awake: to spin for some microseconds, and to watch for longer. Each has a counter with
// a ceiling, as a branch predictor has. The zero value predicts short gaps for a spin, and long ones for a watch.
//
// The owner of the place calls the methods.
type Gaps struct {
	vain  int // from 0 to mostVain: gaps that were too long for a spin count 2, others -1
	short int // gaps that a watch would have covered, at most mostShort
}

const (
	// A place stops spinning after two long gaps, and spins again after two short ones. Where short and long ones take
	// turns, as with tasks that come in bursts, it does not spin: a spin in vain costs what a wake-up costs, so it
	// should be right more often than not.
	mostVain, vainAfter = 4, 3
	// A watch costs ten times as much. A gap that is too long counts as much as 4 others, so a worker watches in vain
	// at most once for each 4 times that it does not.
	mostShort, watchAfter = 8, 4
)

// Saw records a gap; spin and watch are how long the two ways would have stayed awake.
func (g *Gaps) Saw(gap, spin, watch int64) {
	if gap <= spin {
		g.vain = max(g.vain-1, 0)
	} else {
		g.vain = min(g.vain+2, mostVain)
	}
	if gap <= watch {
		g.short = min(g.short+1, mostShort)
	} else {
		g.short = max(g.short-watchAfter, 0)
	}
}

// Spins reports whether to spin in the next gap.
func (g *Gaps) Spins() bool { return g.vain < vainAfter }

// Watches reports whether to watch in the next gap.
func (g *Gaps) Watches() bool { return g.short >= watchAfter }
