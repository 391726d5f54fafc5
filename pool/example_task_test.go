package pool_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist/pool"
)

func ExamplePool_Submit() {
	p, err := pool.New(pool.WithWorkers(1), pool.WithQueueBound(100))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	busy := make(chan struct{})
	var release atomic.Bool
	submit := func(name string, options ...pool.TaskOption) {
		if err := p.Submit(ctx, func(*pool.Worker) { fmt.Println(name) }, options...); err != nil {
			log.Fatal(err)
		}
	}
	_ = p.Submit(ctx, func(*pool.Worker) {
		close(busy)
		for !release.Load() { // it computes; a task that waits makes room for the next
		}
	})
	<-busy // the worker is busy, so the other tasks queue up
	submit("some time", pool.PriorityLow)
	submit("next")
	submit("at once", pool.PriorityHigh)
	release.Store(true)
	_ = p.Close()
	// Output:
	// at once
	// next
	// some time
}

func ExamplePool_TrySubmit() {
	p, err := pool.New(pool.WithWorkers(1), pool.WithQueueBound(1))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	busy := make(chan struct{})
	var release atomic.Bool
	_ = p.Go(func(*pool.Worker) {
		close(busy)
		for !release.Load() { // it computes; a task that waits makes room for the next
		}
	})
	<-busy
	fmt.Println(p.TrySubmit(func(*pool.Worker) {}))
	fmt.Println(p.TrySubmit(func(*pool.Worker) {}))
	release.Store(true)
	// Output:
	// <nil>
	// pool: as many tasks wait as WithQueueBound allows, or as many callers compute as WithCallers allows
}

func ExamplePool_SubmitAll() {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		log.Fatal(err)
	}
	var tasks []func(*pool.Worker)
	for i := range 3 {
		tasks = append(tasks, func(*pool.Worker) { fmt.Println("task", i) })
	}
	n, err := p.SubmitAll(context.Background(), tasks)
	_ = p.Close()
	fmt.Println(n, err)
	// Output:
	// task 0
	// task 1
	// task 2
	// 3 <nil>
}

func ExampleStartBy() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	deadline := time.Now().Add(-time.Second) // it has passed already
	err = p.Submit(context.Background(), func(*pool.Worker) { fmt.Println("in time") },
		pool.StartBy(deadline, func(*pool.Worker) { fmt.Println("too late") }))
	if err != nil {
		log.Fatal(err)
	}
	_ = p.Close()
	// Output: too late
}

func ExampleDelay() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	err = p.Submit(context.Background(), func(*pool.Worker) { fmt.Println("later") }, pool.Delay(time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	_ = p.Close() // waits for delayed tasks, too
	// Output: later
}

func ExampleAsync() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	answer := pool.Async(p, func(w *pool.Worker) (int, error) { return 6 * 7, nil })
	fmt.Println(answer.Wait(context.Background()))
	// Output: 42 <nil>
}

func ExampleGroup_SetLimit() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	g, _ := pool.NewGroup(p)
	g.SetLimit(1)
	release := make(chan struct{})
	fmt.Println(g.TryGo(func() error { <-release; return nil }))
	fmt.Println(g.TryGo(func() error { return nil }))
	close(release)
	fmt.Println(g.Wait())
	// Output:
	// true
	// false
	// <nil>
}

// A caller that has a deadline of its own does not wait for room for longer.
func ExampleGroup_GoContext() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	g, _ := pool.NewGroup(p)
	g.SetLimit(1)
	release := make(chan struct{})
	g.Go(func() error { <-release; return nil })

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	fmt.Println(g.GoContext(ctx, func() error { return nil }))
	close(release)
	fmt.Println(g.Wait())
	// Output:
	// context deadline exceeded
	// <nil>
}

func ExampleWorker_Block() {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		log.Fatal(err)
	}
	message := make(chan string)
	_ = p.Go(func(w *pool.Worker) {
		w.Block(func() { fmt.Println("got", <-message) })
	})
	_ = p.Go(func(*pool.Worker) { message <- "word" }) // runs on the stand-in
	_ = p.Close()
	// Output: got word
}

func ExampleWorker_Yield() {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	done := make(chan struct{})
	_ = p.Go(func(w *pool.Worker) {
		_ = w.Go(func(*pool.Worker) { fmt.Println("a short task") })
		for range 1000 {
			w.Yield() // now and then, in a long task
		}
		fmt.Println("a long task")
		close(done)
	})
	<-done
	// Output:
	// a short task
	// a long task
}

func ExamplePool_Pause() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Pause(context.Background()); err != nil {
		log.Fatal(err)
	}
	_ = p.Go(func(*pool.Worker) { fmt.Println("a task") })
	fmt.Println("nothing runs")
	p.Resume()
	_ = p.Close()
	// Output:
	// nothing runs
	// a task
}

func ExamplePool_Resize() {
	p, err := pool.New(pool.WithWorkers(1), pool.WithTuning(pool.Tuning{MaxWorkers: 8}))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	fmt.Println(p.Resize(4), p.Workers())
	fmt.Println(p.Resize(9))
	// Output:
	// <nil> 4
	// pool: Resize(9): this pool can have from 1 to 8 workers; Tuning.MaxWorkers sets the limit
}

func ExamplePool_Shutdown() {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		log.Fatal(err)
	}
	busy := make(chan struct{})
	var release atomic.Bool
	_ = p.Go(func(*pool.Worker) {
		close(busy)
		for !release.Load() { // it computes; a task that waits makes room for the next
		}
	})
	<-busy
	_ = p.Go(func(*pool.Worker) {})

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	var left *pool.UnfinishedError
	if errors.As(p.Shutdown(ctx), &left) {
		fmt.Println(left.Running, "runs,", left.Queued, "waits")
	}
	release.Store(true)
	fmt.Println(p.Close())
	// Output:
	// 1 runs, 1 waits
	// <nil>
}

func ExampleWithPanicHandler() {
	failed := make(chan any, 1)
	p, err := pool.New(pool.WithPanicHandler(func(e *pool.PanicError) { failed <- e.Value }))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	_ = p.Go(func(*pool.Worker) { panic("no loot") })
	fmt.Println(<-failed)
	// Output: no loot
}

// Wait for the end of a batch without closing the pool.
func ExamplePool_WaitIdle() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	var visited atomic.Int64
	var visit func(depth int) func(*pool.Worker)
	visit = func(depth int) func(*pool.Worker) {
		return func(w *pool.Worker) {
			visited.Add(1)
			for range depth {
				if err := w.Go(visit(depth - 1)); err != nil {
					log.Print(err)
				}
			}
		}
	}
	if err := p.Go(visit(4)); err != nil {
		log.Fatal(err)
	}
	if err := p.WaitIdle(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(visited.Load())
	// Output: 65
}

// The caller no longer wants the answer, and no worker has begun to look for it.
func ExampleFuture_Cancel() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	answer := pool.Async(p, func(*pool.Worker) (int, error) { return 42, nil }, pool.Delay(time.Hour))
	fmt.Println(answer.Cancel())
	_, err = answer.Wait(context.Background())
	fmt.Println(err)
	// Output:
	// true
	// context canceled
}

// The results come in the order of the functions.
func ExampleGroupOf() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	g, _ := pool.GroupOf[int](p)
	for _, word := range []string{"a", "bcd", "ef"} {
		g.Go(func() (int, error) { return len(word), nil })
	}
	lengths, err := g.Wait()
	fmt.Println(lengths, err)
	// Output: [1 3 2] <nil>
}

// Two ways to get an answer, of which the first to succeed is enough.
func ExampleFirst() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	slow := func(ctx context.Context, w *pool.Worker) (answer string, err error) {
		w.Block(func() { <-ctx.Done() }) // like a request that is never answered
		return "", ctx.Err()
	}
	fast := func(context.Context, *pool.Worker) (string, error) { return "here", nil }
	fmt.Println(pool.First(p, slow, fast))
	// Output: here <nil>
}

// The group returns all errors, not only the first.
func ExampleGroup_JoinErrors() {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	g, _ := pool.NewGroup(p)
	g.JoinErrors()
	for i := range 4 {
		g.Go(func() error {
			if i%2 == 1 {
				return fmt.Errorf("file %d is missing", i)
			}
			return nil
		})
	}
	fmt.Println(g.Wait())
	// Output:
	// file 1 is missing
	// file 3 is missing
}

func ExamplePool_Abort() {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		log.Fatal(err)
	}
	begun := make(chan bool)
	var over atomic.Bool
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	must(p.Go(func(*pool.Worker) {
		close(begun)
		for !over.Load() { // it computes; a task that waits makes room for the next
		}
	}))
	<-begun
	must(p.Go(func(*pool.Worker) { fmt.Println("not today") }))
	must(p.Submit(context.Background(), func(*pool.Worker) { fmt.Println("nor this") }, pool.Delay(time.Hour)))

	now, cancel := context.WithCancel(context.Background())
	cancel()
	left, err := p.Abort(now)
	fmt.Println(len(left), "never began;", err != nil)
	over.Store(true)
	fmt.Println(p.Close())
	// Output:
	// 2 never began; true
	// <nil>
}

func ExampleGroup_AtMost() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// The database takes two connections. The rest of the pool is free for other work.
	database, _ := pool.NewGroup(p)
	database.AtMost(2)
	var connections, most, rows atomic.Int32
	for range 100 {
		database.Go(func() error {
			most.Store(max(most.Load(), connections.Add(1)))
			rows.Add(1)
			connections.Add(-1)
			return nil
		})
	}
	err = database.Wait()
	fmt.Println(rows.Load(), most.Load() <= 2, err)

	database.Reset(context.Background())
	database.Go(func() error { return errors.New("no such table") })
	fmt.Println(database.Wait())
	// Output:
	// 100 true <nil>
	// no such table
}

// A future ends with the context of its place. The error is the cause, and also context.DeadlineExceeded, which a handler answers with
// 504 Gateway Timeout.
func ExampleAsync_context() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, errors.New("the guard comes back"))
	defer cancel()
	_, err = pool.Async(p.With(ctx), func(w *pool.Worker) (int, error) {
		for {
			w.Checkpoint() // as a fork would
		}
	}).Wait(context.Background())
	fmt.Println(err, errors.Is(err, context.DeadlineExceeded))
	// Output: the guard comes back true
}

func ExampleAsync_refused() {
	p, err := pool.New(pool.WithWorkers(1), pool.WithQueueBound(1))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	answer, err := pool.Async(p.Try(), func(*pool.Worker) (int, error) { return 6 * 7, nil }).Wait(context.Background())
	if errors.Is(err, pool.ErrFull) {
		fmt.Println("come again later")
		return
	}
	fmt.Println(answer, err)
	// Output: 42 <nil>
}

func ExampleWithHooks() {
	var workers atomic.Int32
	begins := func(w *pool.Worker) { workers.Add(1) }
	ends := func(w *pool.Worker) { workers.Add(-1) }
	p, err := pool.New(pool.WithWorkers(2), pool.WithHooks(begins, ends))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Go(func(*pool.Worker) {}), p.Close(), workers.Load())
	// Output: <nil> <nil> 0
}

func ExampleWorker_Context() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	type user struct{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), user{}, "ann"))
	defer cancel()
	err = p.With(ctx).Run(func(w *pool.Worker) {
		w.Do(func(w *pool.Worker) { fmt.Println(w.Context().Value(user{})) })
	})
	fmt.Println(err)
	// Output:
	// ann
	// <nil>
}

func ExampleWorker_Call() {
	p, err := pool.New(pool.WithCallers(1))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	// squares hands each result to its caller at once. Meanwhile another goroutine may be the one caller
	// that the pool admits.
	squares := func(n int, yield func(int)) error {
		return pool.Do(p, func(w *pool.Worker) {
			call := w.Call()
			for i := range n {
				call.Outside(func() { yield(i * i) })
			}
		})
	}
	err = squares(3, func(n int) { fmt.Println(n) })
	fmt.Println(err)
	// Output:
	// 0
	// 1
	// 4
	// <nil>
}

func ExampleView_Try() {
	p, err := pool.New(pool.WithWorkers(1), pool.WithCallers(1))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	err = p.Run(func(*pool.Worker) { // while one request computes
		refused := make(chan error, 1)
		go func() { // another one comes
			place := p.With(context.Background()).Try()
			refused <- pool.ForRange(place, 1000, func(lo, hi int) {})
		}()
		for len(refused) == 0 { // one that waits would let another one in
			runtime.Gosched()
		}
		fmt.Println(errors.Is(<-refused, pool.ErrFull))
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExamplePool_Broadcast() {
	p, err := pool.New(pool.WithWorkers(2))
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	var workers atomic.Int32
	err = p.Broadcast(context.Background(), func(w *pool.Worker) error {
		workers.Add(1)
		return nil
	})
	fmt.Println(workers.Load(), err)
	// Output: 2 <nil>
}

// Each function has a time of its own. One that takes longer stops at its next fork, loop or look at its context.
func ExampleView_Within() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	g, _ := pool.NewGroup(p.Within(500 * time.Millisecond))
	g.JoinErrors() // an error of one does not end the others
	for _, takes := range []time.Duration{time.Millisecond, time.Hour} {
		g.GoWorker(func(w *pool.Worker) error {
			select {
			case <-w.Context().Done(): // a request with this context would end, too
				return fmt.Errorf("%v: %w", takes, context.Cause(w.Context()))
			case <-time.After(takes):
				return nil
			}
		})
	}
	fmt.Println(g.Wait())
	// Output: 1h0m0s: context deadline exceeded
}
