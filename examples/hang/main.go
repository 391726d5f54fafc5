// Hang shows how to find out why a program does not end: two tasks wait for each other. The error of Shutdown has a
// snapshot of the pool that names the circle.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/seed53057037/heist/examples/internal/cli"
	"github.com/seed53057037/heist/pool"
)

func main() { cli.Main(run) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("hang", flag.ContinueOnError)
	patience := flags.Duration("patience", time.Second, "wait for so `long` before asking who waits")
	if err := cli.Parse(flags, "", args, stdout); err != nil {
		return err
	}
	if *patience <= 0 {
		return cli.Usagef("-patience is %v, want more than 0", *patience)
	}
	p, err := pool.New()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin(ctx, p)

	patient, stop := context.WithTimeout(ctx, *patience)
	defer stop()
	var unfinished *pool.UnfinishedError
	if err := p.Shutdown(patient); !errors.As(err, &unfinished) {
		return err
	}
	fmt.Fprintf(stdout, "The pool does not end: %d workers are in the middle of something.\n\n%v", unfinished.Running, unfinished.Snapshot)
	cancel() // the waits use this context; nothing else could end them
	return p.Close()
}

// order has an invoice and a delivery that need each other: a circle that no scheduler can undo.
type order struct {
	known             chan struct{} // closed when the futures are set
	invoice, delivery *pool.Future[int]
}

func begin(ctx context.Context, p *pool.Pool) {
	o := &order{known: make(chan struct{})}
	o.invoice = pool.Async(p, func(w *pool.Worker) (int, error) { return writeInvoice(ctx, w, o) }, pool.Named("invoice"))
	o.delivery = pool.Async(p, func(w *pool.Worker) (int, error) { return deliver(ctx, w, o) }, pool.Named("delivery"))
	close(o.known)
}

func writeInvoice(ctx context.Context, w *pool.Worker, o *order) (int, error) {
	w.Block(func() { <-o.known })
	return o.delivery.Wait(ctx) // the invoice lists what was delivered
}

func deliver(ctx context.Context, w *pool.Worker, o *order) (int, error) {
	w.Block(func() { <-o.known })
	return o.invoice.Wait(ctx) // nothing leaves without an invoice
}
