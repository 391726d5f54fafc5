package pool_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
)

func ExampleWithName() {
	p, err := pool.New(pool.WithName("thumbs"), pool.WithWorkers(2), pool.WithPinning(pool.PinNone))
	if err != nil {
		panic(err)
	}
	fmt.Println(p)
	p.Close()
	fmt.Println(p)
	// Output:
	// pool "thumbs": 2 workers, PinNone (it was asked for)
	// pool "thumbs": 2 workers, PinNone (it was asked for), closed
}

func ExamplePool_Config() {
	p, err := pool.New(pool.WithWorkers(2), pool.WithTuning(pool.Tuning{Spin: -1}))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	for _, name := range []string{"WithWorkers", "Tuning.Spin", "WithQueueBound"} {
		s, _ := p.Config().Setting(name)
		fmt.Printf("%s: %s, asked %q\n", s.Name, s.Chosen, s.Asked)
	}
	// Output:
	// WithWorkers: 2, asked "2"
	// Tuning.Spin: none, asked "-1ns"
	// WithQueueBound: none, asked ""
}

// The user of a program can tune its pool: THUMBS_WORKERS=3 THUMBS_PINNING=none ./program.
func ExampleOptionsFromEnv() {
	os.Setenv("THUMBS_WORKERS", "3")
	defer os.Unsetenv("THUMBS_WORKERS")
	options, err := pool.OptionsFromEnv("THUMBS")
	if err != nil {
		panic(err) // the error names the variable and says what is wrong with it
	}
	p, err := pool.New(append([]pool.Option{pool.WithWorkers(1)}, options...)...)
	if err != nil {
		panic(err)
	}
	defer p.Close()
	s, _ := p.Config().Setting("WithWorkers")
	fmt.Println(s.Chosen, s.Asked)
	// Output: 3 3 (THUMBS_WORKERS)
}

func ExamplePool_Load() {
	p, err := pool.New(pool.WithWorkers(2))
	if err != nil {
		panic(err)
	}
	p.Submit(context.Background(), func(*pool.Worker) {}, pool.Delay(time.Hour))
	fmt.Println(p.Load().Delayed, "delayed")
	p.Abort(context.Background())
	// Output: 1 delayed
}

func ExampleWithTimings() {
	p, err := pool.New(pool.WithWorkers(2), pool.WithTimings())
	if err != nil {
		panic(err)
	}
	p.Go(func(*pool.Worker) { time.Sleep(3 * time.Millisecond) })
	p.Close()
	run := p.Timings().Run
	fmt.Println(run.Count, run.Quantile(0.5) >= 3*time.Millisecond)
	// Output: 1 true
}

// Two tasks wait for each other. The dump names them.
func ExamplePool_Dump() {
	p, err := pool.New(pool.WithWorkers(2))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var orders *pool.Future[int]
	begin := make(chan struct{})
	stock := pool.Async(p, func(*pool.Worker) (int, error) { <-begin; return orders.Wait(ctx) }, pool.Named("stock"))
	orders = pool.Async(p, func(*pool.Worker) (int, error) { <-begin; return stock.Wait(ctx) }, pool.Named("orders"))
	close(begin)

	var dump strings.Builder
	for !strings.Contains(dump.String(), "A circle") {
		dump.Reset()
		if err := p.Dump(&dump); err != nil {
			panic(err)
		}
	}
	fmt.Println(strings.Contains(dump.String(), "waits in Future.Wait for stock on worker"))
	// Output: true
}

func ExampleWithSlowTask() {
	found := make(chan inspect.Slow, 1)
	p, err := pool.New(pool.WithWorkers(1), pool.WithSlowTask(5*time.Millisecond, func(s inspect.Slow) { found <- s }))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	p.Submit(context.Background(), func(*pool.Worker) { time.Sleep(50 * time.Millisecond) }, pool.Named("report"))
	s := <-found
	fmt.Println(s.Task, s.Took > 5*time.Millisecond)
	// Output: report true
}

func ExampleNamed() {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	seen := make(chan string)
	p.Submit(context.Background(), func(w *pool.Worker) { seen <- w.Pool().Snapshot().Workers[0].Does }, pool.Named("invoice 17"))
	fmt.Println(<-seen)
	// Output: invoice 17
}

// The task takes what it does from a queue, and learns only then what that is called.
// A package that retries functions shows them, and not its own.
func ExampleWorker_ShowAs() {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		panic(err)
	}
	seen := make(chan string, 1)
	deliver := func() error { seen <- p.Snapshot().Workers[0].Does; return nil }

	goRetry := func(f func() error) {
		p.Go(func(w *pool.Worker) {
			w.ShowAs(f)
			for f() != nil {
			}
		})
	}
	goRetry(deliver)
	fmt.Println(strings.HasSuffix(<-seen, "ExampleWorker_ShowAs.func1"))
	p.Close()
	// Output: true
}

func ExampleWorker_Named() {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		panic(err)
	}
	defer p.Close()
	queue := make(chan string, 2)
	queue <- "invoice 17"
	queue <- "invoice 18"
	seen := make(chan string, 2)
	next := func(w *pool.Worker) {
		w.Named(<-queue, func() { seen <- w.Pool().Snapshot().Workers[0].Does })
	}
	p.Submit(context.Background(), next)
	p.Submit(context.Background(), next)
	fmt.Println(<-seen)
	fmt.Println(<-seen)
	// Output:
	// invoice 17
	// invoice 18
}
