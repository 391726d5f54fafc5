package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/seed53057037/heist/limit"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

// service answers which of its points is nearest to a given one.
type service struct {
	pool   *pool.Pool
	calls  *limit.Limiter // requests, while they compute
	points []point
}

// newService returns a service of n points for so many requests at a time. As many wait as are served while a client has patience.
func newService(p *pool.Pool, calls, n int) service {
	return service{p, limit.New(calls).Waiting(4 * calls).Patience(time.Second), randomPoints(n)}
}

type point struct{ x, y float64 }

// distance returns the square of the distance, which sorts like the distance.
func (p point) distance(q point) float64 { return (p.x-q.x)*(p.x-q.x) + (p.y-q.y)*(p.y-q.y) }

func randomPoints(n int) []point {
	random := rand.New(rand.NewPCG(1, 2))
	points := make([]point, n)
	for i := range points {
		points[i] = point{random.Float64(), random.Float64()}
	}
	return points
}

func parsePoint(r *http.Request) (point, error) {
	x, errX := strconv.ParseFloat(r.FormValue("x"), 64)
	y, errY := strconv.ParseFloat(r.FormValue("y"), 64)
	inside := x >= 0 && x <= 1 && y >= 0 && y <= 1 // false for NaN
	if errX != nil || errY != nil || !inside {
		return point{}, errors.New("x and y must be numbers from 0 to 1, as in /?x=0.3&y=0.7")
	}
	return point{x, y}, nil
}

// nearest returns the index of the nearest point, the first of several.
func nearest(at pool.Place, points []point, to point) (int, error) {
	type candidate struct {
		index    int
		distance float64
	}
	best, err := par.ReduceRange(at, len(points), func(lo, hi int) candidate {
		best := candidate{-1, math.Inf(1)}
		for i := lo; i < hi; i++ {
			if d := points[i].distance(to); d < best.distance {
				best = candidate{i, d}
			}
		}
		return best
	}, func(a, b candidate) candidate {
		if b.distance < a.distance {
			return b
		}
		return a // of equals the first
	})
	return best.index, err
}
