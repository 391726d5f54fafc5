package kernel

import (
	"testing"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/verify/explore"
)

// ringProgram is an owner that pushes and pops, thieves that steal into rings of their own, and thieves that steal from those.
type ringProgram struct {
	capacity    int
	push        int
	pops        int // after each push
	again       int // pushes after those
	thieves     int
	steals      int
	secondThief bool
	overflow    bool
}

func (p ringProgram) run() {
	var in *heist.Injector[item]
	if p.overflow {
		in = heist.NewInjector[item]()
	}
	r := must(heist.NewRing[item](p.capacity, in))
	total := p.push + p.again
	l := newLedger(total)
	rings := []*heist.Ring[item]{r}
	for range p.thieves {
		own := must(heist.NewRing[item](p.capacity, nil))
		rings = append(rings, own)
		explore.Go("thief", func() {
			for range p.steals {
				room := own.Cap() - own.Len()
				first, n, result := r.StealInto(own)
				if result != heist.Success {
					continue
				}
				explore.Assert(n <= p.capacity/2+p.capacity%2 && n <= room+1, "a thief takes %d items, and has room for %d", n, room)
				last := l.take("a thief", first)
				for it := own.Pop(); it != nil; it = own.Pop() {
					next := l.take("a thief, from its ring", it)
					explore.Assert(next > last, "a thief's ring gives item %d after item %d", next, last)
					last = next
				}
			}
		})
		if p.secondThief {
			second := must(heist.NewRing[item](p.capacity, nil))
			rings = append(rings, second)
			explore.Go("thief of the thief", func() {
				if first, _, result := own.StealInto(second); result == heist.Success {
					l.take("a thief of the thief", first)
				}
			})
		}
	}
	last := -1
	pop := func() bool {
		it := r.Pop()
		if it == nil {
			return false
		}
		n := l.take("the owner", it)
		explore.Assert(n > last || p.overflow, "the owner pops item %d after item %d", n, last)
		last = n
		return true
	}
	push := func(i int) {
		if !r.Push(l.item(i)) {
			explore.Assert(r.Len() > 0, "a ring that is empty has no room")
			l.take("the owner, who keeps it", l.item(i))
		}
	}
	for i := range p.push {
		push(i)
	}
	for range p.pops {
		pop()
	}
	for i := range p.again {
		push(p.push + i)
	}
	for pop() {
	}
	explore.Wait()
	for _, ring := range rings {
		for it := ring.Pop(); it != nil; it = ring.Pop() {
			l.take("the end", it)
		}
	}
	for p.overflow {
		it, result := in.Pop()
		if result == heist.Empty {
			break
		}
		l.take("the injector", it)
	}
	l.balance()
}

func TestItemsOfARingAreTakenOnce(t *testing.T) {
	explores(t, all, ringProgram{capacity: 2, push: 2, thieves: 1, steals: 2}.run)
	explores(t, all, ringProgram{capacity: 2, push: 2, pops: 1, again: 1, thieves: 2, steals: 1}.run)
}

func TestSlotsOfARingAreReadBeforeTheyAreUsedAgain(t *testing.T) {
	explores(t, all, ringProgram{capacity: 2, push: 2, pops: 1, again: 3, thieves: 1, steals: 1}.run)
}

func TestHalfOfARingIsStolenOnce(t *testing.T) {
	explores(t, all, ringProgram{capacity: 4, push: 4, pops: 0, again: 1, thieves: 1, steals: 1}.run)
	explores(t, all, ringProgram{capacity: 4, push: 4, thieves: 1, steals: 1, secondThief: true}.run)
}

func TestFullRingSpillsOnce(t *testing.T) {
	explores(t, all, ringProgram{capacity: 2, push: 3, thieves: 1, steals: 1, overflow: true}.run)
	explores(t, all, ringProgram{capacity: 4, push: 5, again: 1, thieves: 1, steals: 2, overflow: true}.run)
}

func TestRingWithoutAnInjectorHasRoomAgain(t *testing.T) {
	explores(t, all, func() {
		r := must(heist.NewRing[item](2, nil))
		l := newLedger(3)
		r.Push(l.item(0))
		r.Push(l.item(1))
		explore.Assert(!r.Push(l.item(2)), "a full ring takes an item")
		own := must(heist.NewRing[item](2, nil))
		explore.Go("thief", func() {
			_, n, _ := r.StealInto(own)
			explore.Assert(n == 1, "a thief has taken %d of 2", n)
		})
		explore.Wait()
		explore.Assert(r.Push(l.item(2)), "a ring with room refuses an item")
	})
}

func TestThiefWithAFullRingTakesOne(t *testing.T) {
	explores(t, all, func() {
		from, own := must(heist.NewRing[item](8, nil)), must(heist.NewRing[item](2, nil))
		l := newLedger(9)
		for i := range 8 {
			from.Push(l.item(i))
		}
		own.Push(l.item(8))
		explore.Go("owner", func() {
			if it := from.Pop(); it != nil {
				l.take("the owner", it)
			}
		})
		first, n, r := from.StealInto(own)
		if r == heist.Success {
			explore.Assert(n == 2, "a thief with room for one more has taken %d", n)
			l.take("the thief", first)
		}
		explore.Wait()
		for _, ring := range []*heist.Ring[item]{from, own} {
			for it := ring.Pop(); it != nil; it = ring.Pop() {
				l.take("the end", it)
			}
		}
		l.balance()
	})
}
