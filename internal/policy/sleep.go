package policy

import "sync/atomic"

// State is what [Sleep] says at one moment. It packs three numbers, so that a fork finds
// in one load whether anybody should be woken for it:
//
//	cancelled << 48 + searching << 32 + (parked - guests - surplus)
//
// Cancelled counts the calls that were cancelled and are not over (pool/call.go),
// searching the workers that look for work in others' queues; parked those that sleep;
// guests the goroutines that took a worker's place; surplus the workers that are too many
// (pool/crew.go). The lower half is signed.
type State int64

// What to [Sleep.Add] for one more of each.
const (
	OneCancelled State = 1 << 48
	OneSearching State = 1 << 32
	OneSleeper   State = 1
)

// Searching returns how many workers search.
func (s State) Searching() int { return int((s + 1<<31) >> 32 & 0xffff) }

// Sleepers returns how many more workers sleep than guests are awake and workers too many.
func (s State) Sleepers() int { return int(int32(s)) }

// WantsForks says whether a fork should wake somebody: there are more sleepers than guests,
// and nobody searches, or at most one for each eight of them. If only one were woken at a
// time, 512 workers would take 5 ms to wake up.
func (s State) WantsForks() bool {
	sleepers := s.Sleepers()
	return sleepers > 0 && s.Searching() <= sleepers/8
}

// Sleep is what a pool knows of who sleeps and who searches. Anybody may call its methods.
type Sleep struct {
	// state is a State. Written by workers, wakers, guests, cancelled contexts and
	// whoever changes the crew, by addition.
	state atomic.Int64

	_ [128]byte // forks read state all the time; the bitmaps change with each sleep

	// parked holds the slots that sleep, by node. A worker sets its own bit; whoever
	// clears the bit must wake the worker.
	parked []Bitmap
	nodeOf []int // by slot; constant
}

// Init makes s ready for slots on these nodes, which are numbers from 0 to nodes-1.
func (s *Sleep) Init(nodeOf []int, nodes int) {
	s.nodeOf = nodeOf
	s.parked = make([]Bitmap, nodes)
	for i := range s.parked {
		s.parked[i] = NewBitmap(len(nodeOf))
	}
}

// Load returns the state.
func (s *Sleep) Load() State { return State(s.state.Load()) }

// Add changes the state, and returns what it is then. It is a full fence.
func (s *Sleep) Add(change State) State { return State(s.state.Add(int64(change))) }

// Hungry says whether a worker searches or sleeps that could take a fork, or a call was
// cancelled. Forks ask it all the time, so it is one load and one comparison: the word is
// positive just if one of its upper parts is, or the lowest.
func (s *Sleep) Hungry() bool { return s.state.Load() > 0 }

// StartSearching makes the caller a searcher, unless half of the n workers search already.
func (s *Sleep) StartSearching(n int) bool {
	for {
		state := s.Load()
		if k := state.Searching(); k > 0 && 2*(k+1) > n {
			return false
		}
		if s.state.CompareAndSwap(int64(state), int64(state+OneSearching)) {
			return true
		}
	}
}

// StopSearching is for a searcher that found something. It says whether it was the last
// one, who must look after what nobody was woken for, because it was there to find it
// (pool/sleep.md, "The last searcher").
func (s *Sleep) StopSearching() (last bool) { return s.Add(-OneSearching).Searching() == 0 }

// Announce says that a slot's worker is about to sleep, and whether it was a searcher. The
// caller has to look at every queue once more afterwards (pool/sleep.md, "Nothing is
// missed"), and to call Retract if it has found something.
func (s *Sleep) Announce(slot int, searching bool) State {
	s.parked[s.nodeOf[slot]].Set(slot)
	change := OneSleeper
	if searching {
		change -= OneSearching
	}
	return s.Add(change)
}

// Retract takes Announce back, and says whether that succeeded. If not, somebody has
// chosen the slot and is about to wake it. Who was a searcher is one again: others may have
// woken nobody because of it, so it has to go through StopSearching.
func (s *Sleep) Retract(slot int, searching bool) bool {
	if !s.Choose(slot) {
		return false
	}
	change := -OneSleeper
	if searching {
		change += OneSearching
	}
	s.Add(change)
	return true
}

// Choose chooses a slot to be woken, if it sleeps. The caller must call Woken and wake it.
func (s *Sleep) Choose(slot int) bool { return s.parked[s.nodeOf[slot]].Clear(slot) }

// ChooseNear chooses a sleeper from the first of the nodes that has one, and slot last, if
// it is not -1, only if there is no other. The caller must call Woken and wake it.
func (s *Sleep) ChooseNear(nodes []int, last int) (slot int, ok bool) {
	for _, node := range nodes {
		if slot, ok := s.parked[node].TakeUnless(last); ok {
			return slot, true
		}
	}
	return last, last >= 0 && s.Choose(last)
}

// Woken counts somebody who was chosen. It wakes up as a searcher.
func (s *Sleep) Woken() { s.Add(OneSearching - OneSleeper) }

// Parked says whether the slot sleeps, and was not chosen.
func (s *Sleep) Parked(slot int) bool { return s.parked[s.nodeOf[slot]].Has(slot) }

// Nobody says whether no slot sleeps.
func (s *Sleep) Nobody() bool {
	for _, b := range s.parked {
		if !b.Empty() {
			return false
		}
	}
	return true
}
