package par

import (
	"github.com/seed53057037/heist/pool"
)

// For calls f(i) for all i from 0 to n-1, some at the same time, and returns when all
// calls have returned. The order is not specified. At most one granularity can be
// given; the default is its zero value.
//
// Cost: a call of f for each item, which Go does not inline, some 1 to 2 ns; the range form is
// [pool.ForRange]. Called from outside, with a pool as the place, a short loop runs in the caller alone
// and costs some 30 ns more than it would without a pool; see [pool.Place] for what
// other callers cost. A panic in f ends the loop and continues in the caller as a [*pool.PanicError], when no call
// of f runs any more. A [runtime.Goexit] in f ends the caller's goroutine as well. The error is [pool.ErrClosed], or that of the place's context; then some items
// were left out.
func For(at pool.Place, n int, f func(i int), g ...pool.Granularity) error {
	if f == nil {
		return errNilFunc("For")
	}
	return pool.ForBody(at, n, forBody(f), g...)
}

type forBody func(i int)

func (f forBody) Func() any { return (func(i int))(f) }

func (f forBody) Run(lo, hi int) {
	for i := lo; i < hi; i++ {
		f(i)
	}
}

// ForEach calls f with a pointer to each element of s, some at the same time. See [For].
func ForEach[E any](at pool.Place, s []E, f func(e *E), g ...pool.Granularity) error {
	if f == nil {
		return errNilFunc("ForEach")
	}
	return pool.ForBody(at, len(s), forEachBody[E]{s, f}, g...)
}

type forEachBody[E any] struct {
	s []E
	f func(e *E)
}

func (b forEachBody[E]) Func() any { return b.f }

func (b forEachBody[E]) Run(lo, hi int) {
	s := b.s[lo:hi]
	for i := range s {
		b.f(&s[i])
	}
}
