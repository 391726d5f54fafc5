package load

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/seed53057037/heist"
)

// perQueue is how many items go through each queue, in one round.
const perQueue = 3000

// queues sends items through each kind of queue and returns how many.
func queues() (uint64, error) {
	assembly, err1 := heist.NewDeque[item](heist.DequeConfig{Capacity: 2})
	portable, err2 := heist.NewPortableDeque[item](heist.DequeConfig{Capacity: 2})
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	var n uint64
	for _, through := range []func(*ledger) error{
		func(l *ledger) error { throughDeque(assembly, l); return nil },
		func(l *ledger) error { throughDeque(portable, l); return nil },
		throughRing,
		func(l *ledger) error { throughInjector(l); return nil },
	} {
		l := newLedger(perQueue)
		if err := errors.Join(through(l), l.balance()); err != nil {
			return n, err
		}
		n += perQueue
	}
	return n, nil
}

type anyDeque interface {
	Push(*item) bool
	Pop() *item
	Steal() (*item, heist.StealResult)
}

// giveWay lets other goroutines run now and then. A loop that yields in each turn never races.
func giveWay(turn int) {
	if turn%64 == 0 {
		runtime.Gosched()
	}
}

// throughDeque lets an owner push and pop against two thieves.
func throughDeque(d anyDeque, l *ledger) {
	var over atomic.Bool
	thief := func() {
		for turn := 1; ; turn++ {
			last := over.Load()
			it, r := d.Steal()
			switch {
			case r == heist.Success:
				l.enter(it)
			case r == heist.Empty && last:
				return
			}
			giveWay(turn)
		}
	}
	owner := func() {
		defer over.Store(true)
		for i := range l.times {
			d.Push(newItem(i))
			if i%3 == 2 {
				if it := d.Pop(); it != nil {
					l.enter(it)
				}
			}
			giveWay(i)
		}
		for it := d.Pop(); it != nil; it = d.Pop() {
			l.enter(it)
		}
	}
	together(owner, thief, thief)
}

// throughRing lets an owner push more than fits, so that items overflow to an injector, while
// two thieves take halves.
func throughRing(l *ledger) error {
	overflow := heist.NewInjector[item]()
	rings := make([]*heist.Ring[item], 3)
	for i := range rings {
		var err error
		if rings[i], err = heist.NewRing(16, overflow); err != nil {
			return err
		}
	}
	var over atomic.Bool
	drain := func(r *heist.Ring[item]) {
		for it := r.Pop(); it != nil; it = r.Pop() {
			l.enter(it)
		}
	}
	thief := func(own *heist.Ring[item]) func() {
		return func() {
			for turn := 1; ; turn++ {
				last := over.Load()
				first, _, r := rings[0].StealInto(own)
				switch {
				case r == heist.Success:
					l.enter(first)
					drain(own)
				case r == heist.Empty && last:
					return
				}
				giveWay(turn)
			}
		}
	}
	owner := func() {
		defer over.Store(true)
		for i := range l.times {
			rings[0].Push(newItem(i))
			if i%7 == 6 {
				if it := rings[0].Pop(); it != nil {
					l.enter(it)
				}
			}
			giveWay(i)
		}
		drain(rings[0])
	}
	together(owner, thief(rings[1]), thief(rings[2]))
	pull(overflow, l)
	return nil
}

// pull takes all items out of an injector.
func pull(in *heist.Injector[item], l *ledger) {
	dst := make([]*item, 5)
	for turn := 1; ; turn++ {
		n, r := in.PullBatch(dst)
		if r == heist.Empty {
			return
		}
		for _, it := range dst[:n] {
			l.enter(it)
		}
		clear(dst)
		giveWay(turn)
	}
}

// throughInjector has two producers, one of which pushes batches, and two consumers.
func throughInjector(l *ledger) {
	in := heist.NewInjector[item]()
	var pushing atomic.Int32
	pushing.Store(2)
	half := len(l.times) / 2
	consumer := func() {
		for turn := 1; ; turn++ {
			last := pushing.Load() == 0
			pull(in, l)
			if last {
				return
			}
			giveWay(turn)
		}
	}
	together(
		func() {
			defer pushing.Add(-1)
			for i := range half {
				in.Push(newItem(i))
				giveWay(i)
			}
		},
		func() {
			defer pushing.Add(-1)
			for i := half; i < len(l.times); {
				var batch []*item
				for ; i < len(l.times) && len(batch) < 10; i++ {
					batch = append(batch, newItem(i))
				}
				in.PushBatch(batch)
				giveWay(i)
			}
		},
		consumer, consumer,
	)
}
