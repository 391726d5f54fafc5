package sched

import "unsafe"

// # Races
//
// Vector clocks say which operations are ordered whatever the scheduler does, as in FastTrack (Flanagan and Freund,
// PLDI 2009). By Go's memory model each atomic operation is ordered after the write that it observes. A store
// replaces what its word carries, and a read-modify-write adds to it.

type clock []uint32

func (c *clock) at(i int) *uint32 {
	for len(*c) <= i {
		*c = append(*c, 0)
	}
	return &(*c)[i]
}

func (c *clock) join(o clock) {
	for i, t := range o {
		if p := c.at(i); *p < t {
			*p = t
		}
	}
}

type clocks struct {
	of    []clock // by goroutine
	words map[unsafe.Pointer]clock
	plain map[unsafe.Pointer]*accesses
	names []string
}

// accesses are the last ones to a piece of memory: of each goroutine.
type accesses struct{ reads, writes clock }

func newClocks() *clocks {
	return &clocks{words: map[unsafe.Pointer]clock{}, plain: map[unsafe.Pointer]*accesses{}}
}

func (c *clocks) spawn(by, g *goroutine) {
	c.of = append(c.of, nil)
	c.names = append(c.names, g.name)
	if by != nil {
		c.of[g.id].join(c.of[by.id])
		*c.of[by.id].at(by.id)++
	}
	*c.of[g.id].at(g.id)++
}

func (c *clocks) acquire(g *goroutine, p unsafe.Pointer) { c.of[g.id].join(c.words[p]) }

func (c *clocks) release(g *goroutine, p unsafe.Pointer) {
	c.words[p] = append(clock(nil), c.of[g.id]...)
	*c.of[g.id].at(g.id)++
}

// join orders the goroutine after all that was.
func (c *clocks) join(g *goroutine) {
	for _, o := range c.of {
		c.of[g.id].join(o)
	}
}

// access returns the name of a goroutine whose access races with this one, or "".
func (c *clocks) access(g *goroutine, p unsafe.Pointer, write bool) string {
	a := c.plain[p]
	if a == nil {
		a = new(accesses)
		c.plain[p] = a
	}
	mine := &c.of[g.id]
	unordered := func(others clock) int {
		for i, t := range others {
			if i != g.id && t > *mine.at(i) {
				return i
			}
		}
		return -1
	}
	i := unordered(a.writes)
	if write && i < 0 {
		i = unordered(a.reads)
	}
	if i >= 0 {
		return c.names[i]
	}
	if write {
		*a.writes.at(g.id) = *mine.at(g.id)
	} else {
		*a.reads.at(g.id) = *mine.at(g.id)
	}
	return ""
}
