package sim

import "math/rand/v2"

// service is a load of requests from outside. They arrive at random, independently of one
// another, each at the injector of a node: a quarter at the first node, where the network
// is, the others at any node. Most are short; one in twenty is long; one in sixteen queues
// parts of itself, and ends with its last part.
type service struct {
	requests []request // by arrival; then the parts, which have no arrival
	arriving int       // how many requests come from outside
	lines    int       // cache lines of a request's data
	work     int64
}

// request is a task: a request from outside, or a part of one.
type request struct {
	index   int32
	arrival int64
	cost    int64
	node    int32 // where it arrived and its data are
	parts   int32 // the number of parts that it queues
	first   int32 // the index of its first part
	whole   int32 // the index of the request that it is a part of, or -1
}

const (
	shortRequest = 10_000  // ns, the mean of an exponential distribution
	longRequest  = 200_000 // the same
	oneInLong    = 20
	oneInParts   = 16
	partsOf      = 16
)

// newService makes requests that keep the layout's workers busy for the given share of the time.
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
