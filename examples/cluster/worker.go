package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed53057037/heist/jetstream"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

const (
	durable            = "example"
	prefixVariable     = "HEIST_CLUSTER_RUN"    // tells a worker process which run it belongs to
	executableVariable = "HEIST_CLUSTER_WORKER" // set in worker processes, for tests
)

// report is what a worker process says when it ends.
type report struct {
	Done, Redelivered, Failed uint64
	Computing, Lasted         time.Duration
	Places                    int
	Lost                      bool // it ended without a report
}

// work is the life of a worker process.
func (o options) work(ctx context.Context, stdout io.Writer) error {
	o.prefix = os.Getenv(prefixVariable)
	if o.prefix == "" {
		return errors.New("-worker is for processes that this program starts itself")
	}
	js, err := o.connect()
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	jobs, _, results := o.names()
	var kv natsjs.KeyValue
	if err := patiently(ctx, func() (err error) { kv, err = js.KeyValue(ctx, results); return err }); err != nil {
		return fmt.Errorf("the bucket %s: %w", results, err)
	}
	p, err := pool.New(pool.WithTimings())
	if err != nil {
		return err
	}
	defer p.Close()
	var w *jetstream.Worker
	err = patiently(ctx, func() (err error) {
		w, err = jetstream.NewWorker(ctx, js, jetstream.Config{
			Pool: p, Stream: jobs, Durable: durable, DeadLetter: o.prefix + ".dead", AckWait: o.ackWait,
		}, func(pw *pool.Worker, j *jetstream.Job) error {
			_, err := j.Once(pw, kv, func() ([]byte, error) { return primes(pw.With(j.Context()), j.Data()) })
			return err
		})
		return err
	})
	if err != nil {
		return err
	}
	// The parent ends this process by closing its input, and by its own death.
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	answer := json.NewEncoder(stdout)
	if err := answer.Encode(report{}); err != nil { // it begins
		return err
	}
	start := time.Now()
	if err := w.Run(ctx); err != nil {
		return err
	}
	s := w.Stats()
	return answer.Encode(report{
		Done: s.Done, Redelivered: s.Redelivered, Failed: s.Failed, Computing: p.Stats().Computing, Lasted: time.Since(start), Places: p.Workers(),
	})
}

// primes counts the primes up to a number by trying all divisors, which takes as long as it takes.
func primes(at pool.Place, limit []byte) ([]byte, error) {
	n, err := strconv.Atoi(string(limit))
	if err != nil {
		return nil, jetstream.Permanent(fmt.Errorf("a job is a number: %w", err))
	}
	count, err := par.CountRange(at, n, func(lo, hi int) (count int) {
		for i := max(lo, 2); i < hi; i++ {
			if isPrime(i) {
				count++
			}
		}
		return count
	})
	return []byte(strconv.Itoa(count)), err
}

func isPrime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return true
}
