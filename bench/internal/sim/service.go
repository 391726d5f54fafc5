package sim

import "math/rand/v2"

// service is a load of requests from outside. They arrive at random, independently of one
// another, each at the injector of a node. A quarter of them comes in at the first node,
// where the network is, and the others at any node. Most are short; one in twenty is long;
// one in sixteen queues parts of itself, and is over when the last part is.
type service struct {
	requests []request // by arrival; parts have none and stand behind
	arriving int       // how many come from outside
	lines    int       // cache lines of a request's data
	work     int64
}

// request is a task: a request from outside, or a part of one.
type request struct {
	arrival int64
	cost    int64
	node    int32 // where it came in, and so its data are
	parts   int32 // it queues so many
	first   int32 // the index of the first of them
	whole   int32 // of a part: the index of the request
}

const (
	shortRequest = 10_000  // ns at the mean, exponentially distributed
	longRequest  = 200_000 // the same
	oneInLong    = 20
	oneInParts   = 16
	partsOf      = 16
)

// newService makes requests that keep so many workers busy for that share of the time.
func newService(random *rand.Rand, l *layout, requests int, busy float64) *service {
	const mean = shortRequest + (longRequest-shortRequest)/oneInLong + partsOf*shortRequest/oneInParts
	gap := mean / (busy * float64(l.workers))
	s := &service{arriving: requests, lines: 64}
	at := 0.0
	for range requests {
		at += random.ExpFloat64() * gap
		r := request{arrival: int64(at), cost: exponential(random, shortRequest), whole: -1}
		if random.IntN(oneInLong) == 0 {
			r.cost = exponential(random, longRequest)
		}
		if random.IntN(oneInParts) == 0 {
			r.parts = partsOf
		}
		if random.IntN(4) > 0 {
			r.node = int32(random.IntN(l.nodes))
		}
		s.requests = append(s.requests, r)
	}
	for i := range s.arriving {
		r := &s.requests[i]
		r.first = int32(len(s.requests))
		for range r.parts {
			s.requests = append(s.requests, request{cost: exponential(random, shortRequest), whole: int32(i)})
		}
	}
	for _, r := range s.requests {
		s.work += r.cost
	}
	return s
}

func exponential(random *rand.Rand, mean float64) int64 { return 1 + int64(random.ExpFloat64()*mean) }
