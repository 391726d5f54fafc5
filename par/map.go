package par

import (
	"github.com/seed53057037/heist/pool"
)

// Map returns f of each element of s, in the same order, computed in parallel. For
// places, granularities, panics and errors see [For].
//
// If f is one operation, take the range form, [MapRange]: the calls make Map take twice as long as a plain loop on one worker.
func Map[T, R any](at pool.Place, s []T, f func(T) R, g ...pool.Granularity) ([]R, error) {
	out := make([]R, len(s))
	if err := MapTo(at, out, s, f, g...); err != nil {
		return nil, err
	}
	return out, nil
}

// MapTo is [Map] into a given slice, which must be as long as s, and may be s, but must not overlap it otherwise, which is not checked.
func MapTo[T, R any](at pool.Place, out []R, s []T, f func(T) R, g ...pool.Granularity) error {
	if f == nil {
		return errNilFunc("Map or MapTo")
	}
	if len(out) != len(s) {
		return errLengths("MapTo", "results", len(out), "elements", len(s))
	}
	return pool.ForBody(at, len(s), mapBody[T, R]{out, s, f}, g...)
}

type mapBody[T, R any] struct {
	out []R
	s   []T
	f   func(T) R
}

func (b mapBody[T, R]) Func() any { return b.f }

func (b mapBody[T, R]) Run(lo, hi int) {
	out := b.out[lo:hi]
	for i, e := range b.s[lo:hi] {
		out[i] = b.f(e)
	}
}

// MapRange returns n results: f puts those from lo to hi-1 into out, which has hi-lo elements, all
// zero.
func MapRange[R any](at pool.Place, n int, f func(out []R, lo, hi int), g ...pool.Granularity) ([]R, error) {
	if f == nil {
		return nil, errNilFunc("MapRange")
	}
	out := make([]R, max(n, 0))
	if err := pool.ForRange(at, n, func(lo, hi int) { f(out[lo:hi:hi], lo, hi) }, g...); err != nil {
		return nil, err
	}
	return out, nil
}
