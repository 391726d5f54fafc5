package heist_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
)

// An owner and two thieves add up the numbers from 1 to 1000.
func Example() {
	var work heist.Deque[int]
	var sum, left atomic.Int64
	left.Store(1000)
	do := func(n *int) {
		sum.Add(int64(*n))
		left.Add(-1)
	}

	var thieves sync.WaitGroup
	for range 2 {
		thieves.Go(func() {
			var backoff heist.Backoff
			for left.Load() > 0 {
				switch n, result := work.Steal(); result {
				case heist.Success:
					do(n)
					backoff.Reset()
				case heist.Retry:
					backoff.Lost()
				case heist.Empty:
					if !backoff.Wait() {
						time.Sleep(time.Millisecond) // a scheduler would park
						backoff.Reset()
					}
				}
			}
		})
	}
	for n := range 1000 {
		n++
		work.Push(&n)
	}
	for n := work.Pop(); n != nil; n = work.Pop() {
		do(n)
	}
	thieves.Wait()
	fmt.Println(sum.Load())
	// Output: 500500
}

func ExampleDeque() {
	var d heist.Deque[string]
	for _, task := range []string{"first", "second", "third"} {
		d.Push(&task)
	}
	stolen, result := d.Steal() // any goroutine may
	fmt.Println(*stolen, result)
	fmt.Println(*d.Pop()) // the owner may
	fmt.Println(*d.Pop())
	fmt.Println(d.Pop() == nil)
	// Output:
	// first success
	// third
	// second
	// true
}

func ExampleNewDeque() {
	d, err := heist.NewDeque[int](heist.DequeConfig{Capacity: 256, Limit: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Len())

	_, err = heist.NewDeque[int](heist.DequeConfig{Capacity: -1})
	fmt.Println(err)
	// Output:
	// 0
	// heist: DequeConfig.Capacity is -1; it must be 0 (the default) or from 1 to 268435456
}

// With a limit, Push refuses an item that does not fit. The caller keeps it, and
// may run it right away.
func ExampleDeque_Push() {
	d, err := heist.NewDeque[int](heist.DequeConfig{Limit: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 4 {
		if !d.Push(&n) {
			fmt.Println("no room for", n)
		}
	}
	// Output:
	// no room for 2
	// no room for 3
}

func ExampleDeque_Steal() {
	var d heist.Deque[int]
	one := 1
	d.Push(&one)
	for {
		n, result := d.Steal()
		switch result {
		case heist.Success:
			fmt.Println("stole", *n)
		case heist.Retry:
			continue // another goroutine was faster, there may be more
		case heist.Empty:
			fmt.Println("nothing left")
			return
		}
	}
	// Output:
	// stole 1
	// nothing left
}

func ExampleDequeStats() {
	var d heist.Deque[int]
	for n := range 100 {
		d.Push(&n)
	}
	d.Pop()
	d.Steal()
	d.Steal()
	s := d.Stats()
	fmt.Println(s.Pushes, "pushed,", s.Pops, "popped,", s.Steals, "stolen,", d.Len(), "left")
	fmt.Println("grown", s.Grows, "time to 128 slots")
	// Output:
	// 100 pushed, 1 popped, 2 stolen, 97 left
	// grown 1 time to 128 slots
}

// Two computations, one inside the other, share a deque.
func ExampleDeque_PopFrom() {
	var d heist.Deque[string]
	for _, task := range []string{"outer", "other"} {
		d.Push(&task)
	}
	base := d.Bottom()
	inner := "inner"
	d.Push(&inner)
	fmt.Println(*d.PopFrom(base))
	fmt.Println(d.PopFrom(base) == nil)
	fmt.Println(*d.PopFrom(0))
	// Output:
	// inner
	// true
	// other
}

func ExampleDeque_StealAt() {
	var d heist.Deque[string]
	for _, task := range []string{"first", "second"} {
		d.Push(&task)
	}
	for range 2 {
		task, index, _ := d.StealAt()
		fmt.Println(*task, index)
	}
	// Output:
	// first 0
	// second 1
}

func ExamplePortableDeque() {
	var d heist.PortableDeque[int]
	one, two := 1, 2
	d.Push(&one)
	d.Push(&two)
	oldest, _ := d.Steal()
	fmt.Println(*oldest, *d.Pop())
	// Output: 1 2
}

func ExampleNewPortableDeque() {
	d, err := heist.NewPortableDeque[int](heist.DequeConfig{Capacity: 1000})
	fmt.Println(d.Len(), err)
	// Output: 0 <nil>
}

func ExampleStealResult() {
	var d heist.Deque[int]
	_, result := d.Steal()
	fmt.Println(result, result == heist.Empty)
	// Output: empty true
}

func ExampleRing() {
	r, err := heist.NewRing[string](4, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, task := range []string{"first", "second", "third", "fourth", "fifth"} {
		if !r.Push(&task) {
			fmt.Println("no room for the", task)
		}
	}
	fmt.Println(*r.Pop())
	// Output:
	// no room for the fifth
	// first
}

// A push into a full ring moves the older half and the new item to the injector,
// where any worker finds them.
func ExampleNewRing() {
	injector := heist.NewInjector[int]()
	r, err := heist.NewRing(4, injector)
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 5 {
		r.Push(&n)
	}
	fmt.Println(injector.Len(), "went to the injector,", r.Len(), "of", r.Cap(), "stayed")
	for n := r.Pop(); n != nil; n = r.Pop() {
		fmt.Println(*n)
	}
	// Output:
	// 3 went to the injector, 2 of 4 stayed
	// 2
	// 3
}

// The thief runs the first stolen item at once. The others are in its own ring,
// where they can be stolen again.
func ExampleRing_StealInto() {
	victim, err := heist.NewRing[int](0, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	own, err := heist.NewRing[int](0, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 7 {
		victim.Push(&n)
	}
	first, n, result := victim.StealInto(own)
	fmt.Println(result, n, "the first is", *first)
	fmt.Println(own.Len(), "stolen ones are waiting,", victim.Len(), "were left")
	// Output:
	// success 4 the first is 0
	// 3 stolen ones are waiting, 3 were left
}

func ExampleInjector() {
	in := heist.NewInjector[string]()
	var producers sync.WaitGroup
	for _, task := range []string{"a", "b", "c"} {
		producers.Go(func() { in.Push(&task) })
	}
	producers.Wait()

	n := 0
	for {
		if _, result := in.Pop(); result != heist.Success {
			break
		}
		n++
	}
	fmt.Println(n, "tasks")
	// Output: 3 tasks
}

func ExampleInjector_PullBatch() {
	in := heist.NewInjector[int]()
	numbers := make([]*int, 100)
	for n := range numbers {
		numbers[n] = &n
	}
	fmt.Println(in.PushBatch(numbers), "pushed")

	buffer := make([]*int, heist.MaxPull)
	for {
		n, result := in.PullBatch(buffer)
		if result == heist.Empty {
			break
		}
		if result == heist.Success {
			fmt.Println(n, "pulled, from", *buffer[0], "to", *buffer[n-1])
		}
	}
	// Output:
	// 100 pushed
	// 64 pulled, from 0 to 63
	// 36 pulled, from 64 to 99
}

func ExampleInjector_Close() {
	in := heist.NewInjector[int]()
	one, two := 1, 2
	fmt.Println(in.Push(&one))
	in.Close()
	fmt.Println(in.Push(&two))
	n, result := in.Pop()
	fmt.Println(*n, result)
	// Output:
	// true
	// false
	// 1 success
}

func ExampleInjector_Ready() {
	in := heist.NewInjector[int]()
	fmt.Println(in.Ready())
	one := 1
	in.Push(&one)
	fmt.Println(in.Ready())
	// Output:
	// false
	// true
}

func ExampleBackoff() {
	var ready atomic.Bool
	var word atomic.Uint32
	go func() {
		ready.Store(true)
		word.Store(1)
		heist.FutexWake(&word, 1)
	}()

	var b heist.Backoff
	for !ready.Load() {
		if !b.Wait() { // it has spun and yielded for long enough
			heist.FutexWait(&word, 0, -1)
			b.Reset()
		}
	}
	fmt.Println("ready")
	// Output: ready
}

// A thread that must not burn its CPU neither spins nor yields: every Wait advises
// parking.
func ExampleBackoff_Wait() {
	patient := heist.Backoff{Spin: -1, Yields: -1}
	fmt.Println(patient.Wait())

	polite := heist.Backoff{Spin: -1, Yields: 2}
	fmt.Println(polite.Wait(), polite.Wait(), polite.Wait())
	// Output:
	// false
	// true true false
}

func ExampleFutexWait() {
	var word atomic.Uint32
	done := make(chan bool)
	go func() {
		for word.Load() == 0 { // there are wake-ups without a cause
			heist.FutexWait(&word, 0, -1)
		}
		done <- true
	}()
	word.Store(1) // first the word, then the wake-up
	heist.FutexWake(&word, 1)
	fmt.Println(<-done)
	// Output: true
}

func ExampleFutexWait_timeout() {
	var word atomic.Uint32
	for heist.FutexWait(&word, 0, time.Millisecond) {
	}
	fmt.Println("nobody came")
	// Output: nobody came
}

func ExampleFutexWake() {
	var word atomic.Uint32
	fmt.Println(heist.FutexWake(&word, 1))
	// Output: 0
}

func ExamplePause() {
	var taken atomic.Bool
	for try := 1; !taken.CompareAndSwap(false, true); try++ {
		heist.Pause(4 * try)
	}
	fmt.Println("taken")
	// Output: taken
}

func ExampleSpin() {
	heist.Spin(500 * time.Nanosecond)
	// Output:
}

func ExampleYield() {
	var taken atomic.Bool
	for !taken.CompareAndSwap(false, true) {
		heist.Yield()
	}
	fmt.Println("taken")
	// Output: taken
}

func ExamplePin() {
	cpus, err := heist.Allowed()
	if err != nil {
		fmt.Println(err)
		return
	}
	pinned, err := heist.Pin(cpus[0])
	switch {
	case errors.Is(err, heist.ErrPinning):
		// Not on this system: go on unpinned.
	case err != nil:
		fmt.Println(err)
		return
	default:
		defer func() {
			if err := pinned.Unpin(); err != nil {
				fmt.Println(err)
			}
		}()
	}
	fmt.Println("working")
	// Output: working
}

func ExampleAllowed() {
	cpus, err := heist.Allowed()
	fmt.Println(len(cpus) > 0, err)
	// Output: true <nil>
}

func ExampleFastRand() {
	r := heist.NewFastRand(1)
	fmt.Println(r.Uint32(), r.Uint32())
	fmt.Println(r.N(6), r.N(6), r.N(6))
	// Output:
	// 2506713359 2363833007
	// 0 0 1
}

func ExampleRandomSeed() {
	r := heist.NewFastRand(heist.RandomSeed())
	fmt.Println(r.N(10) < 10)
	// Output: true
}

// The one goroutine that counts pays a plain addition; any goroutine may read.
func ExampleCounter() {
	var steals heist.Counter
	for range 3 {
		steals.Add(1)
	}
	fmt.Println(steals.Load())
	// Output: 3
}
