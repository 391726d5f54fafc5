package kernel

import (
	"testing"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/verify/explore"
)

// dequeProgram is an owner that pushes so many items, pops some of them, and then pushes more, beside thieves.
type dequeProgram struct {
	config               heist.DequeConfig
	push, pop, pushAgain int
	thieves, steals      int
}

func (p dequeProgram) run() {
	d := must(heist.NewDeque[item](p.config))
	l := newLedger(p.push + p.pushAgain)
	for range p.thieves {
		explore.Go("thief", func() {
			last := -1
			for range p.steals {
				if it, r := d.Steal(); r == heist.Success {
					n := l.take("a thief", it)
					explore.Assert(n > last, "a thief has stolen item %d after item %d, and not the oldest first", n, last)
					last = n
				}
			}
		})
	}
	pop := func() bool {
		it := d.Pop()
		if it != nil {
			l.take("the owner", it)
		}
		return it != nil
	}
	for i := range p.push {
		explore.Assert(d.Push(l.item(i)), "a deque has no room")
	}
	for range p.pop {
		pop()
	}
	for i := range p.pushAgain {
		explore.Assert(d.Push(l.item(p.push+i)), "a deque has no room")
	}
	for pop() {
	}
	explore.Wait()
	explore.Assert(d.Len() == 0 && d.Pop() == nil, "a deque that was emptied is not empty")
	l.balance()
	s := d.Stats()
	explore.Assert(s.Pushes == uint64(len(l.items)) && s.Pops+s.Steals == s.Pushes, "the counters say %+v", s)
}

func TestLastItemOfADequeIsTakenOnce(t *testing.T) {
	explores(t, all, dequeProgram{push: 1, thieves: 2, steals: 1}.run)
}

func TestItemsOfADequeAreTakenOnce(t *testing.T) {
	explores(t, all, dequeProgram{push: 2, pop: 1, pushAgain: 1, thieves: 1, steals: 2}.run)
	explores(t, all, dequeProgram{push: 2, thieves: 2, steals: 1}.run)
}

func TestSlotOfADequeIsReadBeforeItIsUsedAgain(t *testing.T) {
	explores(t, all, dequeProgram{config: heist.DequeConfig{Capacity: 2, Limit: 0}, push: 1, pop: 1, pushAgain: 3, thieves: 1, steals: 2}.run)
}

func TestDequeGrowsInTheMiddleOfSteals(t *testing.T) {
	explores(t, all, dequeProgram{config: heist.DequeConfig{Capacity: 1}, push: 3, thieves: 1, steals: 3}.run)
	explores(t, few, dequeProgram{config: heist.DequeConfig{Capacity: 1}, push: 1, pop: 1, pushAgain: 3, thieves: 2, steals: 1}.run)
}

// The stores of push, and of a pop that puts bottom back, have no fence in assembly.
func TestDequeWithStoreBuffersLosesNothing(t *testing.T) {
	o := explore.Options{StoreBuffers: true}
	explores(t, o, dequeProgram{push: 1, thieves: 2, steals: 1}.run)
	explores(t, o, dequeProgram{push: 2, pop: 1, pushAgain: 1, thieves: 1, steals: 2}.run)
	explores(t, o, dequeProgram{config: heist.DequeConfig{Capacity: 1}, push: 3, thieves: 1, steals: 2}.run)
}

func TestDequeKeepsItsLimit(t *testing.T) {
	explores(t, all, func() {
		d := must(heist.NewDeque[item](heist.DequeConfig{Capacity: 2, Limit: 2}))
		l := newLedger(4)
		explore.Go("thief", func() {
			if it, r := d.Steal(); r == heist.Success {
				l.take("a thief", it)
			}
		})
		accepted := 0
		for accepted < 4 && d.Push(l.item(accepted)) {
			accepted++
		}
		stolen := 0
		if l.taken[0] != "" {
			stolen = 1
		}
		explore.Assert(accepted >= 2 && accepted <= 2+stolen, "a deque with the limit 2 has accepted %d items, and %d were stolen", accepted, stolen)
		for it := d.Pop(); it != nil; it = d.Pop() {
			l.take("the owner", it)
		}
		explore.Wait()
		l.taken = l.taken[:accepted]
		l.balance()
	})
}
