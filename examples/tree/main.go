// Tree runs a tree of tasks under a limit of four, with several libraries: each task waits for its children. Where a task
// that waits keeps what the limit gave it, four parents hold all of it, and the tree hangs.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/alitto/pond/v2"
	"github.com/panjf2000/ants/v2"
	conc "github.com/sourcegraph/conc/pool"
	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/examples/internal/cli"
	"github.com/seed53057037/heist/pool"
)

const limit, depth, children = 4, 3, 5

func main() { cli.Main(run) }

func run(_ context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("tree", flag.ContinueOnError)
	patience := flags.Duration("patience", time.Second, "take a tree that has not ended after so `long` for one that hangs")
	if err := cli.Parse(flags, "", args, stdout); err != nil {
		return err
	}
	if *patience <= 0 {
		return cli.Usagef("-patience is %v, want more than 0", *patience)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, l := range libraries {
		fmt.Fprintf(table, "%s\t%s\n", l.name, l.outcome(*patience))
	}
	return table.Flush()
}

// library starts functions under the limit.
type library struct {
	name  string
	start func() (add func(f func()), wait func() error)
}

var libraries = []library{
	{"heist, Group.AtMost(4)", func() (func(func()), func() error) {
		g, _ := pool.NewGroup(pool.Default())
		g.AtMost(limit)
		return func(f func()) { g.Go(func() error { f(); return nil }) }, g.Wait
	}},
	{"errgroup, SetLimit(4)", func() (func(func()), func() error) {
		var g errgroup.Group
		g.SetLimit(limit)
		return func(f func()) { g.Go(func() error { f(); return nil }) }, g.Wait
	}},
	{"pond, NewPool(4)", func() (func(func()), func() error) {
		p := pond.NewPool(limit)
		return func(f func()) { p.Submit(f) }, nil
	}},
	{"ants, NewPool(4)", func() (func(func()), func() error) {
		p, err := ants.NewPool(limit)
		return func(f func()) {
			if err == nil {
				err = p.Submit(f)
			}
		}, func() error { return err }
	}},
	{"conc, WithMaxGoroutines(4)", func() (func(func()), func() error) {
		p := conc.New().WithMaxGoroutines(limit)
		return p.Go, func() error { p.Wait(); return nil }
	}},
}

// outcome runs a tree. One that hangs is left behind, for nothing could end it.
func (l library) outcome(patience time.Duration) string {
	ended := make(chan string, 1)
	began := time.Now()
	go func() {
		defer func() {
			if p := recover(); p != nil {
				ended <- "panics"
			}
		}()
		nodes, err := l.tree()
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- fmt.Sprintf("ends: %d nodes in %v", nodes, time.Since(began).Round(10*time.Microsecond))
	}()
	select {
	case how := <-ended:
		return how
	case <-time.After(patience):
		return "hangs"
	}
}

// tree counts the nodes. Each adds its children to those who are under the limit, and waits for them.
func (l library) tree() (nodes int64, err error) {
	add, wait := l.start()
	var count atomic.Int64
	root := make(chan struct{})
	var node func(depth int)
	node = func(depth int) {
		count.Add(1)
		if depth == 0 {
			return
		}
		var left sync.WaitGroup
		left.Add(children)
		for range children {
			add(func() { defer left.Done(); node(depth - 1) })
		}
		left.Wait()
	}
	add(func() { defer close(root); node(depth) })
	if wait != nil { // conc panics in a task that adds another one after this; else it hangs, too
		err = wait()
	}
	<-root
	return count.Load(), err
}
