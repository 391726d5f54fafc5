package par

import (
	"math/rand/v2"

	"github.com/seed53057037/heist/pool"
)

// Shuffle puts the elements of s into a random order. Each order is as likely as any other, as far as
// the generator (PCG) allows. The order is the same for the same seed and length, whatever the number
// of workers.
//
// Each element is thrown into one of several buckets, and then each bucket is shuffled by itself
// (Sanders, "Random Permutations on Distributed, External and Hierarchical Memory", 1998). Cost: a
// buffer as long as s, unless s is short. If the place's context ends the call early, s has its elements in some order.
func Shuffle[E any](at pool.Place, s []E, seed uint64) error {
	b := blocksOf(len(s), 1<<14)
	if b.count() <= 1 {
		if err := pool.Do(at); err != nil {
			return err
		}
		shuffle(s, rand.New(rand.NewPCG(seed, 0)))
		return nil
	}
	buckets := b.count()
	thrown := scratch[uint16](len(s))
	ends := make([][]int, b.count()) // by block and bucket
	if err := For(at, b.count(), func(i int) {
		ends[i] = make([]int, buckets)
		lo, hi := b.at(i)
		r := rand.New(rand.NewPCG(seed, uint64(i)<<1|1))
		for j := lo; j < hi; j++ {
			thrown[j] = uint16(r.IntN(buckets))
			ends[i][thrown[j]]++
		}
	}); err != nil {
		return err
	}
	begins := make([]int, buckets+1)
	n := 0
	for k := range buckets {
		begins[k] = n
		for i := range ends {
			n += ends[i][k]
			ends[i][k] = n
		}
	}
	begins[buckets] = n
	buffer := scratch[E](n)
	if err := For(at, b.count(), func(i int) {
		lo, hi := b.at(i)
		for j := lo; j < hi; j++ {
			at := &ends[i][thrown[j]]
			*at--
			buffer[*at] = s[j]
		}
	}); err != nil {
		return err
	}
	// From here on s must not be left half written, so no context ends the call.
	return pool.Do(at, func(w *pool.Worker) {
		w.Uncancelled(func(func() bool) {
			each(w, buckets, func(_ *pool.Worker, k int) {
				bucket := buffer[begins[k]:begins[k+1]]
				shuffle(bucket, rand.New(rand.NewPCG(seed, uint64(k)<<1+2)))
				copy(s[begins[k]:], bucket)
			})
			recycle(thrown)
			recycle(buffer)
		})
	})
}

func shuffle[E any](s []E, r *rand.Rand) {
	r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}
