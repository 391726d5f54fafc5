// Package census lists the pools of the process that have not ended, for code that looks at all of them: the relief
// of coroutines, snapshots, and the page of pool/poolhttp. It is internal, and not in package pool, because no other
// code should use it.
package census

import (
	"cmp"
	"slices"
	"sync"
)

// Pool is a pool that has not ended.
type Pool[P any] struct {
	ID       uint64 // 1 for the process's first
	Pool     P
	InBubble bool // of testing/synctest: goroutines outside of it must not touch the pool's channels
}

// pools holds the pools that package pool has added. The key is the pool, the value its facts.
var pools sync.Map

type facts struct {
	id       uint64
	inBubble bool
}

var last struct {
	sync.Mutex
	id uint64
}

// Add adds a pool, which is a pointer.
func Add(p any, inBubble bool) {
	last.Lock()
	defer last.Unlock()
	last.id++
	pools.Store(p, facts{last.id, inBubble})
}

// Remove removes a pool.
func Remove(p any) { pools.Delete(p) }

// Pools returns the pools that are a P, the oldest first. Cost: a look at each pool.
func Pools[P any]() (all []Pool[P]) {
	pools.Range(func(p, known any) bool {
		if p, ok := p.(P); ok {
			all = append(all, Pool[P]{known.(facts).id, p, known.(facts).inBubble})
		}
		return true
	})
	slices.SortFunc(all, func(a, b Pool[P]) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
