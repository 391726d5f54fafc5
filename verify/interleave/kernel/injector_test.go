package kernel

import (
	"testing"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/verify/explore"
)

// injectorProgram is producers, consumers, and maybe somebody who closes. The segments of the rewritten injector have 2 slots.
type injectorProgram struct {
	producers, pushes int
	batch             bool
	consumers, pulls  int
	pull              int // items at a time
	closes            bool
}

func (p injectorProgram) run() {
	in := heist.NewInjector[item]()
	l := newLedger(p.producers * p.pushes)
	accepted := make([]bool, len(l.items))
	for i := range p.producers {
		explore.Go("producer", func() {
			if p.batch {
				batch := make([]*item, p.pushes)
				for j := range batch {
					batch[j] = l.item(i*p.pushes + j)
				}
				for j := range in.PushBatch(batch) {
					accepted[i*p.pushes+j] = true
				}
				return
			}
			for j := range p.pushes {
				accepted[i*p.pushes+j] = in.Push(l.item(i*p.pushes + j))
			}
		})
	}
	if p.closes {
		explore.Go("closer", in.Close)
	}
	for range p.consumers {
		explore.Go("consumer", func() {
			order := newOrder(p)
			for range p.pulls {
				p.take(in, l, order, "a consumer")
			}
		})
	}
	explore.Wait()
	order := newOrder(p)
	for p.take(in, l, order, "the end") != heist.Empty {
	}
	for i, who := range l.taken {
		explore.Assert(accepted[i] == (who != ""), "item %d was accepted: %v, and was taken by %q", i, accepted[i], who)
	}
	if p.closes {
		explore.Assert(!in.Push(l.item(0)), "a closed injector takes an item")
	} else {
		explore.Assert(len(l.items) == 0 || !in.Ready(), "an empty injector is ready")
	}
}

// order is the last item of each producer that a consumer has seen.
type order []int

func newOrder(p injectorProgram) order {
	o := make(order, p.producers)
	for i := range o {
		o[i] = -1
	}
	return o
}

func (p injectorProgram) take(in *heist.Injector[item], l *ledger, o order, who string) heist.StealResult {
	dst := make([]*item, p.pull)
	n, result := in.PullBatch(dst)
	explore.Assert((n > 0) == (result == heist.Success), "%d items and %s", n, result)
	for _, it := range dst[:n] {
		number := l.take(who, it)
		producer := number / p.pushes
		explore.Assert(number > o[producer], "%s sees item %d after item %d of the same producer", who, number, o[producer])
		o[producer] = number
	}
	return result
}

func TestItemsOfAnInjectorAreTakenOnceAndInOrder(t *testing.T) {
	o := allWithRaces
	explores(t, o, injectorProgram{producers: 2, pushes: 1, consumers: 1, pulls: 1, pull: 2}.run)
	explores(t, o, injectorProgram{producers: 1, pushes: 2, consumers: 2, pulls: 1, pull: 1}.run)
	explores(t, o, injectorProgram{producers: 1, pushes: 2, batch: true, consumers: 1, pulls: 2, pull: 2}.run)
}

func TestFullSegmentIsSealedBeforeTheNextIsUsed(t *testing.T) {
	explores(t, allWithRaces, injectorProgram{producers: 1, pushes: 4, consumers: 1, pulls: 2, pull: 2}.run)
	explores(t, fewWithRaces, injectorProgram{producers: 2, pushes: 2, consumers: 1, pulls: 1, pull: 1}.run)
	explores(t, allWithRaces, injectorProgram{producers: 2, pushes: 2, batch: true, consumers: 1, pulls: 1, pull: 1}.run)
}

func TestSlotsThatAreUsedAgainGiveEachItemOnce(t *testing.T) {
	explores(t, fewWithRaces, injectorProgram{producers: 1, pushes: 5, consumers: 2, pulls: 3, pull: 1}.run)
	explores(t, fewWithRaces, injectorProgram{producers: 2, pushes: 3, consumers: 1, pulls: 4, pull: 2}.run)
}

// Without a bound, Close and Push can undo each other's steps for ever: the one seals each segment that the other links.
func TestClosedInjectorLosesNoItemThatItAccepted(t *testing.T) {
	explores(t, fewWithRaces, injectorProgram{producers: 2, pushes: 1, consumers: 0, pull: 1, closes: true}.run)
	explores(t, fewWithRaces, injectorProgram{producers: 1, pushes: 3, consumers: 1, pulls: 1, pull: 1, closes: true}.run)
}

// Consumers hand slots on by plain stores in builds with assembly.
func TestInjectorWithStoreBuffersLosesNothing(t *testing.T) {
	explores(t, explore.Options{StoreBuffers: true}, injectorProgram{producers: 1, pushes: 3, consumers: 1, pulls: 2, pull: 1}.run)
}
