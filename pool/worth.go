package pool

import (
	"reflect"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/policy"
)

// # Whether a call is worth a worker
//
// Who wakes a worker for a part of a loop loses time: the interrupt to an idle CPU, and the wait for a P of its own (wakeHelper).
// That is 3 microseconds on one machine and 60 on another. So the pool measures it. A loop is **long** if its caller alone would take
// worthFactor times as long: the wake-up is then an eighth of it at most, and what the other worker does is more.
//
// How long a loop takes say its first items (probe). Of a few items the first one may be half of the loop, so it had better not run alone. For these
// the pool remembers, by the address of the user's function, whether its last loop was long. A function that is new is taken for long, and its next
// loop is probed. The first item of a loop that was not probed says whether the next one is likely to be long; if not, that is probed.
//
// # Patience
//
// Forks and children of a short call are not worth a wake-up either, and nothing says beforehand how long a call is. So a guest is **patient** if the last
// calls of the same function were short: at a pool that sleeps its forks and children wake nobody until the call, from the first of them on, has lasted
// worthFactor wake-ups. It looks at the clock at forks and joins, from the leaves upwards, once a wake-up's time (checkClock), and before each child that
// it runs itself. A function with two long parts looks at nothing between them. So patience in vain leaves a **debt**, which later calls pay by not being patient; and
// the guard (monitor.go) wakes a worker for what a patient guest keeps to itself while it waits, or computes for long.

const (
	worthFactor = 8
	// What a wake-up costs counts within these bounds: who was put aside for longer has met something else. 40 to 85 microseconds were measured on
	// a virtual machine whose kernel wakes a thread on the CPU of its waker, though another one is idle (sched_vcpu_pack). But a worker that a loop wakes
	// is awake for the next one. So among loops in a row, with less than inARow between them, a wake-up counts as less: worthFactor
	// times 20 microseconds would leave loops of 80 alone, of which a program sometimes took 1.3 of goroutines' time instead of 0.9 (bench
	// mixed/ntt-14-1).
	leastWakeCost, mostWakeCost, mostInARow = time.Microsecond, 100 * time.Microsecond, 8 * time.Microsecond
	inARow                                  = time.Millisecond
	// A loop has few items if there are less than fewItems for each worker: its first one is then more than a sixteenth of a worker's share.
	fewItems = 16
	// A call is very long if it takes neverTried times as long as a long one.
	neverTried = 4
	// The greatest debt bounds what is lost if all calls have two long halves: half of one call of 64. One that was very long may have met something else,
	// so it leaves a small debt.
	mostDebt, leastDebt = 64, 8
)

// length is what is known of the loops of a function.
type length uint64

const (
	unknown length = iota
	unsure         // the next loop is to be probed
	short
	long
)

// lengths are what is known of loops and calls. Any worker writes; what is lost in a race is found again.
type lengths struct {
	_        pad.Line
	wakeCost atomic.Int64 // in heist.Ticks: a running median; who wakes a helper writes, and loops and recursions read
	wantedAt atomic.Int64 // when a worker could last have been woken for one of these, in heist.Ticks; they read and write
	_        pad.Line

	loops byCode // the lengths of loops of few items; read for each such loop, written where that has changed
	debts byCode // of calls, and one more; read and written by guests whose forks could wake a worker

	_ pad.Line
}

// of returns what is known of the loops of a function.
func (m *lengths) of(code uintptr) length { return length(m.loops.get(code)) }

// note notes what is known of the loops of a function from now on.
func (m *lengths) note(code uintptr, l length) { m.loops.set(code, uint64(l)) }

// sparedWake is called after a call that has woken nobody because a wake-up costs so much. It believes the measured cost a little less, so that
// it is measured again sometimes.
func (m *lengths) sparedWake() {
	c := m.wakeCost.Load()
	m.wakeCost.Store(c - c>>8)
}

// debt returns what calls of a function owe, in wake-ups.
func (m *lengths) debt(code uintptr) int {
	if n := m.debts.get(code); n > 0 {
		return int(n) - 1
	}
	return 1
}

func (m *lengths) owes(code uintptr, debt int) {
	m.debts.set(code, uint64(debt)+1)
}

// byCode has a number for each function, which is 0 until it is set. Functions with the same place take it from one another.
type byCode [1 << 8]atomic.Uint64

// mostByCode is the greatest number. The rest of a word is the function's address.
const mostByCode = 1<<8 - 1

func (t *byCode) slot(code uintptr) (slot *atomic.Uint64, tag uint64) {
	return &t[hashOf(code)%uint(len(t))], uint64(code) * (mostByCode + 1)
}

func (t *byCode) get(code uintptr) uint64 {
	slot, tag := t.slot(code)
	if word := slot.Load(); word&^mostByCode == tag {
		return word & mostByCode
	}
	return 0
}

func (t *byCode) set(code uintptr, n uint64) {
	if slot, tag := t.slot(code); slot.Load() != tag|n {
		slot.Store(tag | n)
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

// wakeUp returns how long a wake-up takes, in heist.Ticks.
func (p *Pool) wakeUp(now int64) int64 {
	most := p.ticks.mostWakeCost
	if now-p.lengths.wantedAt.Load() < p.ticks.inARow {
		most = p.ticks.mostInARow
	}
	return min(max(p.lengths.wakeCost.Load(), p.ticks.leastWakeCost), most)
}

// wanted notes that a worker could be woken.
func (p *Pool) wanted(now int64) {
	if now-p.lengths.wantedAt.Load() > p.ticks.inARow/8 { // seldom, because all loops read the line
		p.lengths.wantedAt.Store(now)
	}
}

// long returns how long loops are that are long, in heist.Ticks. The only worker of a pool is of no help to shorter ones, whatever its wake-up takes: on one P it cannot be,
// and on two 300 items of 150 ns took 1.13 of a plain loop's time with it and 1.05 without. Nor is any worker where callers fill the Ps: 64 goroutines
// that each call a loop of 64 microseconds took 1.2 of a plain loop's CPU time with their help and 1.1 without.
func (p *Pool) long(now int64) int64 {
	if p.core.Size() == 1 || p.crowded() {
		return worthFactor * p.ticks.mostInARow
	}
	return worthFactor * p.wakeUp(now)
}

// lengthOf says whether a loop is long that takes so many ticks alone.
func lengthOf(ticks, atLeast int64) length {
	if ticks < atLeast {
		return short
	}
	return long
}

// judge notes what the first items of a loop say that was not probed. Cold caches may have cost them some microseconds.
func (p *Pool) judge(code uintptr, took int64, items, n int) {
	l := unsure
	if float64(took-p.ticks.loop.Alone)*float64(n)/float64(items) >= float64(p.long(heist.Ticks())) {
		l = long
	}
	p.lengths.note(code, l)
}

// patience is what a guest remembers of the forks of its call, times in heist.Ticks. Owner only.
type patience struct {
	wantedAt     int64        // when a fork could first have woken a worker; 0 is not yet, and notWanted that it does not matter
	wakeUp       int64        // how long that takes
	calm         policy.State // forWhoIsPatient, or 0; the pool is hungry, to the worker, if the state of its sleep less this is
	patientUntil int64        // 0 if it was not patient
}

const notWanted = -1

// forWhoIsPatient leaves only searchers: a state is greater by this, and hungry, if and only if a worker searches.
const forWhoIsPatient = policy.OneSearching/2 - policy.OneSleeper

// bePatient says whether the worker leaves the pool's sleepers alone for now, and looks at the clock for that. It is for a fork or join on the slow
// path, and for a child of a scope. Patience begins with the first of them, a fork with the outermost one of its stack. A patient worker calls guarded for what
// it has made visible, and one whose patience is over calls expose, or wakes a helper.
func (w *Worker) bePatient(state policy.State, outermost bool) bool {
	switch {
	case !w.core.Guest || state.Searching() > 0:
		return false
	case w.wantedAt == 0 && outermost:
		now := heist.Ticks()
		w.wantedAt, w.wakeUp = now, w.pool.wakeUp(now)
		if w.pool.lengths.debt(w.code.Own()) == 0 && !w.pool.inBubble {
			w.calm, w.patientUntil = forWhoIsPatient, now+worthFactor*w.wakeUp
		}
	case w.calm != 0:
		return heist.Ticks() < w.patientUntil
	}
	return w.calm != 0
}

// settle ends what a guest remembers, at the end of its call.
func (w *Worker) settle() {
	if w.wantedAt > 0 {
		m, now, code := &w.pool.lengths, heist.Ticks(), w.code.Own()
		took, debt := now-w.wantedAt, m.debt(code)
		switch {
		case w.patientUntil != 0 && (w.calm == 0 || now >= w.patientUntil):
			debt = int(min(took/w.wakeUp, mostDebt))
		case took >= neverTried*worthFactor*w.wakeUp:
			debt = max(debt-1, leastDebt)
		case debt > 0:
			debt--
		default:
			m.sparedWake()
		}
		m.owes(code, debt)
		w.pool.wanted(now)
	}
	w.patience = patience{}
}

// codeOfAny returns the code of a function; someCode if f is none.
func codeOfAny(f any) uintptr {
	if f := reflect.ValueOf(f); f.Kind() == reflect.Func && !f.IsNil() {
		return f.Pointer()
	}
	return someCode
}
