package sim

import "math"

// never is the time of an event that only a wake-up brings about.
const never = math.MaxInt64

// agenda finds the coroutine to run next: the one with the earliest time, and of several
// the one with the lowest number. It is a tournament: each inner node of a binary tree
// holds the winner of the two below it.
type agenda struct {
	at      []int64 // by number; a power of two of them
	winners []int32 // of node i; its children are 2i and 2i+1, the root is 1
}

func newAgenda(n int) *agenda {
	size := 1
	for size < n {
		size *= 2
	}
	a := &agenda{at: make([]int64, size), winners: make([]int32, 2*size)}
	for i := range size {
		a.at[i] = never
		a.winners[size+i] = int32(i)
	}
	for i := size - 1; i > 0; i-- {
		a.winners[i] = a.winners[2*i]
	}
	return a
}

// grow makes room for n coroutines.
func (a *agenda) grow(n int) {
	if n <= len(a.at) {
		return
	}
	larger := newAgenda(n)
	for i, t := range a.at {
		larger.set(i, t)
	}
	*a = *larger
}

// set sets the time of a coroutine, in as many steps as the tree is deep.
func (a *agenda) set(i int, t int64) {
	a.at[i] = t
	for k := (len(a.at) + i) / 2; k > 0; k /= 2 {
		l, r := a.winners[2*k], a.winners[2*k+1]
		if a.at[r] < a.at[l] {
			l = r
		}
		a.winners[k] = l
	}
}

// first returns the coroutine to run next, and its time.
func (a *agenda) first() (i int, t int64) {
	w := a.winners[1]
	return int(w), a.at[w]
}
