package pool

import (
	"reflect"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/internal/pad"
)

// # Whether a loop is worth a worker
//
// Who wakes a worker for a part of a loop loses time: the interrupt to an idle CPU, and the wait for a P of its own (wakeHelper).
// That is 3 microseconds on one machine and 20 on another. So the pool measures it. A loop is **long** if its caller alone would take
// worthFactor times as long: the wake-up is then an eighth of it at most, and what the other worker does is more.
//
// How long a loop takes say its first items (probe). Of a few items the first one may be half of the loop, so it had better not run alone. For these
// the pool remembers, by the address of the user's function, whether its last loop was long. A function that is new is taken for long, and its next
// loop is probed. The first item of a loop that was not probed says whether the next one is likely to be long; if not, that is probed.

const (
	worthFactor = 8
	// What a wake-up costs counts within these bounds: who was put aside for longer has met something else.
	leastWakeCost, mostWakeCost = time.Microsecond, 20 * time.Microsecond
	// A loop has few items if there are less than fewItems for each worker: its first one is then more than a sixteenth of a worker's share.
	fewItems = 16
)

// length is what is known of the loops of a function.
type length uint64

const (
	unknown length = iota
	unsure         // the next loop is to be probed
	short
	long
)

// lengths are what is known of loops. Any worker writes; what is lost in a race is found again.
type lengths struct {
	_        pad.Line
	wakeCost atomic.Int64 // in heist.Ticks: a running median; who wakes a helper writes, and probes of loops read
	_        pad.Line

	// A word has a length, and above it the function's address. Functions with the same place take it from one another.
	// It is read for each loop of few items, and written where that has changed.
	table [1 << 8]atomic.Uint64

	_ pad.Line
}

func (m *lengths) slot(code uintptr) (slot *atomic.Uint64, tag uint64) {
	return &m.table[hashOf(code)%uint(len(m.table))], uint64(code) << 2
}

// of returns what is known of a function.
func (m *lengths) of(code uintptr) length {
	slot, tag := m.slot(code)
	if word := slot.Load(); word&^3 == tag {
		return length(word & 3)
	}
	return unknown
}

// note notes what is known of a function from now on.
func (m *lengths) note(code uintptr, l length) {
	if slot, tag := m.slot(code); slot.Load() != tag|uint64(l) {
		slot.Store(tag | uint64(l))
	}
}

// noteWake notes what a wake-up has cost.
func (m *lengths) noteWake(took int64) {
	c := m.wakeCost.Load()
	if took > c {
		c += c/4 + 1
	} else {
		c -= c / 4
	}
	m.wakeCost.Store(c)
}

// long returns how long loops are that are long, in heist.Ticks.
func (p *Pool) long() int64 {
	return worthFactor * min(max(p.lengths.wakeCost.Load(), p.ticks.leastWakeCost), p.ticks.mostWakeCost)
}

// lengthOf says whether a loop is long that takes so many ticks alone.
func (p *Pool) lengthOf(ticks int64) length {
	if ticks < p.long() {
		return short
	}
	return long
}

// judge notes what the first items of a loop say that was not probed. Cold caches may have cost them some microseconds.
func (p *Pool) judge(code uintptr, took int64, items, n int) {
	l := unsure
	if float64(took-p.ticks.loop.Alone)*float64(n)/float64(items) >= float64(p.long()) {
		l = long
	}
	p.lengths.note(code, l)
}

// codeOfAny returns the code of a function; someCode if f is none.
func codeOfAny(f any) uintptr {
	if f := reflect.ValueOf(f); f.Kind() == reflect.Func && !f.IsNil() {
		return f.Pointer()
	}
	return someCode
}
