package policy

import (
	"sync/atomic"

	"github.com/seed53057037/heist/internal/pad"
)

// State is the state of a [Sleep] at one moment. It packs three numbers, so that one load tells
// whether a worker should be woken for a fork, and where thieves have to look:
//
//	searching << 48 + (parked - computing) << 24 + guests
//
// searching counts the workers that look for work in others' queues, parked the places that
// sleep, guests the workers from whom forks can be stolen but that are at no place, and computing
// those of them that do not wait. The middle number is signed.
type State int64

// The changes for [Sleep.Add] that count one more searcher, sleeper or guest.
const (
	OneSearching State = 1 << 48
	OneSleeper   State = 1 << 24
	OneGuest     State = 1
)

// Searching returns how many workers search.
func (s State) Searching() int { return int((s + OneSearching/2) >> 48 & 0xffff) }

// Sleepers returns how many more places sleep than guests compute.
func (s State) Sleepers() int { return int(s << 16 >> 40) }

// Guests returns how many guests there are.
func (s State) Guests() int { return int(s & (OneSleeper - 1)) }

// HasGuests says whether there are guests.
func (s State) HasGuests() bool { return s.Guests() != 0 }

// Hungry reports whether the pool is hungry: a worker searches, or more places sleep than
// guests compute. Without the lowest number the word is positive if and only if the highest is, or that is 0
// and the middle one positive.
func (s State) Hungry() bool { return s >= OneSleeper }

// WantsForks reports whether a fork should wake a worker: more places sleep than guests
// compute, and the searchers are at most an eighth of the difference. If only one worker were
// woken at a time, 512 would take 5 ms to wake up.
func (s State) WantsForks() bool {
	sleepers := s.Sleepers()
	return sleepers > 0 && s.Searching() <= sleepers/8
}

// Sleep holds which places of a pool sleep and how many workers search. A place is the right to
// compute (internal/core/place.go). Any goroutine may call its methods.
type Sleep struct {
	// state is a State. Written by workers, wakers and guests, by addition.
	state atomic.Int64

	_ pad.Line // forks read state all the time; the bitmaps change with each sleep

	// parked holds the places that sleep, by node. The worker that puts a place to sleep sets
	// its bit. The waker that clears the bit has the place, and must give it to a worker.
	parked []Bitmap
	seats  *Seats // constant
}

// Init makes s ready for places on nodes from 0 to nodes-1.
func (s *Sleep) Init(seats *Seats, nodes int) {
	s.seats = seats
	s.parked = make([]Bitmap, nodes)
	for i := range s.parked {
		s.parked[i] = NewBitmap(seats.Len())
	}
}

// Load returns the state.
func (s *Sleep) Load() State { return State(s.state.Load()) }

// Add changes the state, and returns the new state. It is a full fence.
func (s *Sleep) Add(change State) State { return State(s.state.Add(int64(change))) }

// Hungry is [State.Hungry] for the present state.
func (s *Sleep) Hungry() bool { return s.Load().Hungry() }

// StartSearching makes the caller a searcher and returns true, unless half of the n workers
// search already.
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
// searcher. The last one must wake a worker for what is left, since nobody was woken for
// that while it searched (internal/core/sleep.md, "The last searcher").
func (s *Sleep) StopSearching() (last bool) { return s.Add(-OneSearching).Searching() == 0 }

// Announce says that a place is about to sleep, and whether its worker was a searcher.
// The caller must look at every queue once more afterwards (internal/core/sleep.md, "Nothing is
// missed"). If it finds something, it must Choose the place and wake it as any waker does.
func (s *Sleep) Announce(place int, searching bool) State {
	s.parked[s.seats.Node(place)].Set(place)
	change := OneSleeper
	if searching {
		change -= OneSearching
	}
	return s.Add(change)
}

// Choose chooses a place to be woken, if it sleeps; the caller then has the place. The caller
// must call Woken and wake the place, or call Resumed and go on in it.
func (s *Sleep) Choose(place int) bool { return s.parked[s.seats.Node(place)].Clear(place) }

// ChooseNear chooses a sleeping place from the first of the nodes that has one. It chooses
// last, if that is not -1, only if there is no other. The caller must call Woken and wake the
// place.
func (s *Sleep) ChooseNear(nodes []int, last int) (place int, ok bool) {
	for _, node := range nodes {
		if place, ok := s.parked[node].TakeUnless(last); ok {
			return place, true
		}
	}
	return last, last >= 0 && s.Choose(last)
}

// Woken counts a chosen place whose next worker is a searcher.
func (s *Sleep) Woken() { s.Add(OneSearching - OneSleeper) }

// Resumed counts a chosen place whose next worker goes on with something else.
func (s *Sleep) Resumed() { s.Add(-OneSleeper) }

// Parked reports whether the place sleeps and has not been chosen.
func (s *Sleep) Parked(place int) bool { return s.parked[s.seats.Node(place)].Has(place) }

// Nobody reports whether no place sleeps.
func (s *Sleep) Nobody() bool {
	for _, b := range s.parked {
		if !b.Empty() {
			return false
		}
	}
	return true
}
