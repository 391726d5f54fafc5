package policy

import "math/bits"

// A loop runs in chunks, and between two of them its worker checks whether another worker wants a part.
// So a chunk should be short. But a call of the loop's body may have a cost that does not depend on the
// number of items: a buffer, an inversion, a table. So a chunk should be long. All that is known is how
// long chunks took. Two chunks of different lengths tell the fixed cost and the cost per item if both
// times are right; an interrupt, a cold cache or items that differ make them wrong. Hence:
//
//   - Until two lengths have been measured, the next chunk is much longer than the first, because the
//     time of the first may have been nothing but fixed cost. If calls then seem dear, a sample follows at once: the first call
//     may have been slow because caches were cold, or pages new.
//   - From then on one chunk in sampleEvery is a sample, usually a short one. Each pair of a sample and
//     the chunk before it gives an estimate, and the mean of the last few estimates counts.
//   - A chunk is so long that the fixed cost is a small part of it, or as long as the pool's chunk
//     time, if that is longer.
//   - Half of a range is given away only if it is worth a call. Before a chunk that may be long, as
//     many parts are given away as other workers want.
//   - Two lengths do not tell what the merging of tables costs, which grows with the range until the table has all keys. So the body may say
//     how long merging takes for each item, as a part of what computing takes. If it is one part in heavyShare or more, the worker takes half of
//     what is left and then the other half; if it is one in wholeShare or more, all at once.
//
// TestNoLoopLoses simulates this against a serial loop and an even split.

// PaceTimes are the times that a [Pace] works with, in any unit.
type PaceTimes struct {
	Alone int64 // a loop that takes less is not worth a wake-up
	Chunk int64 // the length of a chunk, if calls have no fixed cost
}

// Pace holds what a worker knows of the cost of a loop's items, and says how many items make the next
// chunk. The zero value begins with one item.
type Pace struct {
	// Calls says that a call of the loop's body may have a fixed cost.
	Calls bool

	chunk    int     // items that a chunk should have; 0 counts as 1
	items    int     // of the last chunk that was not a sample
	took     float64 // the time of that chunk
	fixed    float64 // the fixed cost of a call, as estimated
	dear     bool    // fixed is so high that it decides how long chunks are
	merging  float64 // what part of computing merging is, if the body said so much that it is heavy; otherwise 0
	pairs    int     // estimates so far
	since    int     // chunks since the last estimate
	sampling bool    // the current chunk is a sample
}

const (
	// A chunk takes callShare times as long as the fixed cost of a call. That cost is then 1.6%, and
	// leaves room in the 5% that a loop may lose for the two or three calls until the cost is known.
	callShare = 64
	// But where calls are dear, a chunk is no longer than one of endParts of the rest, unless it would take less than endShare times the
	// fixed cost. In the simulation the loops take 0.832 of the better one of a serial loop and an even split with that, and 0.844 without.
	endParts, endShare = 4, 16
	// The chunk after the first is firstStep times as long. With less than 16, loops in the simulation
	// needed one call more.
	firstStep = 32
	// One chunk in sampleEvery is sampleStep times shorter than the others.
	sampleEvery, sampleStep = 16, 16
	// This part of the shorter chunk of a pair counts as noise: with an 8th, a fixed cost of a 10th of
	// a chunk was not seen.
	noise = 1.0 / 16
	// mostItems bounds a chunk, so that nothing overflows.
	mostItems = 1 << (bits.UintSize - 8)
	// However cheap the items were, a chunk takes no more than one part in restShare of the rest, so
	// that the others remain divisible. If calls are dear, it instead takes at most restShare times as
	// many items as were measured. But a chunk that would take less than a leastShare of a chunk's time may have half of the rest, though no more
	// items than the last one: to share the last microseconds cost a loop of 80 of them 60 looks at the clock, each 12 ns, and each of its
	// parts as many.
	restShare, leastShare = 8, 4
	// Merging is heavy from one part in heavyShare of computing on. To do all that is left at once saves the merging of a half, and others can no
	// longer help with the quarter that they could have taken at best; the two are equal at one part in wholeShare. To count 65,536 different strings among 262,144
	// takes 0.92 to 1.0 of two goroutines with a map each, 1.25 to 1.4 if what is left is always halved, and 2.4 with small ranges first, into which large ones are merged.
	heavyShare, wholeShare = 16, 2
)

// Probed records the first chunk that was measured.
func (c *Pace) Probed(items int, took int64, t *PaceTimes) {
	c.items, c.took = items, float64(max(took, 1))
	c.chunk = int(min(max(float64(t.Chunk)*float64(items)/c.took, 1), mostItems))
}

// Chunk returns how many items make a chunk, as far as that is known.
func (c *Pace) Chunk() int { return max(c.chunk, 1) }

// Heavy says whether merging counts that takes such a part of what computing does.
func Heavy(merging float64) bool { return merging >= 1.0/heavyShare }

// Next returns how many of the items that are left to run next.
func (c *Pace) Next(left int) int {
	share := left/restShare + 1
	c.sampling = false
	switch {
	case c.merging >= 1.0/wholeShare || c.merging > 0 && c.items > left/2:
		return left
	case c.merging > 0:
		return (left + 1) / 2
	case !c.Calls || c.items == 0:
	case c.pairs == 0:
		if n := min(firstStep*c.items, share); n >= 2*c.items {
			c.sampling = true
			return n
		}
	case c.since >= sampleEvery || c.dear && c.pairs == 1: // the first call was a cold one
		c.sampling = true
		if n := c.items / sampleStep; n > 0 {
			return min(n, left)
		}
		return min(sampleStep*c.items, share)
	case c.dear:
		// Near the end chunks are shorter, lest all wait for the last one of a slow worker: down to endShare of a call's cost.
		n := c.Chunk()
		n = max(min(n, left/endParts), n/(callShare/endShare), 1)
		if left/2 <= n { // what would be left then is not worth a call
			n = left
		}
		return min(n, restShare*c.items)
	}
	return min(c.Chunk(), max(share, min(c.Chunk()/leastShare, c.items, left/2)))
}

// Measured records how long the last chunk took, whose length Next returned, and what part of computing the body says that merging is; 0 if it says nothing.
func (c *Pace) Measured(items int, ticks int64, merging float64, t *PaceTimes) {
	took := float64(max(ticks, 1))
	if merging > 0 {
		if c.merging = 0; Heavy(merging) {
			c.merging, c.dear, c.pairs = merging, true, 2
		}
	}
	if c.merging > 0 {
		c.items, c.fixed = items, c.merging*took
		c.took = took + c.fixed
		return
	}
	if c.Calls && c.items > 0 {
		if c.since++; items >= 2*c.items || c.items >= 2*items {
			c.estimate(items, took)
		}
	}
	if !c.sampling || c.pairs < 2 {
		c.items, c.took = items, took
	}
	if c.Calls && c.pairs == 0 {
		return
	}
	// Rising costs make chunks shorter at once, and falling costs make them longer step by step.
	target, step := float64(t.Chunk), 2.0
	if c.dear = callShare*c.fixed > target; c.dear {
		target, step = callShare*c.fixed, firstStep
	}
	if c.chunk == 0 || took > 2*target || took < target/2 && items >= c.chunk {
		item := max(took-c.fixed, took/callShare) / float64(items)
		c.chunk = int(min(max((target-c.fixed)/item, 1), step*float64(items), mostItems))
	}
}

// estimate estimates the fixed cost from a pair: a chunk and the one before.
func (c *Pace) estimate(items int, took float64) {
	perItem := max((took-c.took)/float64(items-c.items), 0)
	if c.items < items {
		items, took = c.items, c.took
	}
	fixed := max(took*(1-noise)-perItem*float64(items), 0)
	if c.pairs > 1 { // the first estimate is good for large costs only, so the second replaces it
		fixed = (fixed + c.fixed) / 2
	}
	c.fixed = fixed
	c.pairs++
	c.since = 0
}

// Parts returns how often to halve a range before the next chunk, if so many workers are idle.
func (c *Pace) Parts(left, idle int, t *PaceTimes) (n int) {
	for ; idle > 0 && c.worthHalving(left, t); idle /= 2 {
		n++
		left /= 2
		if !c.Calls || c.pairs > 0 && !c.dear {
			break // the next chunk is a short one
		}
	}
	return n
}

// worthHalving reports whether half of so many items takes more than twice as long as having another
// worker run it costs, or that is unknown. With 4 times instead of 2, loops with rising costs lost in
// the simulation.
func (c *Pace) worthHalving(left int, t *PaceTimes) bool {
	if !c.dear || c.merging == 0 && left/2 > restShare*c.items {
		return left > 1
	}
	return float64(left/2)*max(c.took-c.fixed, 0) > 2*(c.fixed+float64(t.Alone))*float64(c.items)
}
