package graph_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/seed53057037/heist/graph"
	"github.com/seed53057037/heist/pool"
)

// A build: what is compiled in parallel is linked when all of it is there.
func ExampleGraph() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	var g graph.Graph
	objects := make([]string, 3)
	link := g.Add("link", func(*pool.Worker) error {
		fmt.Println("link", objects)
		return nil
	})
	generate := g.Add("generate", func(*pool.Worker) error {
		fmt.Println("generate")
		return nil
	})
	for i := range objects {
		compile := g.Add(fmt.Sprint("compile ", i), func(*pool.Worker) error {
			objects[i] = fmt.Sprintf("%d.o", i)
			return nil
		})
		compile.After(generate)
		link.After(compile)
	}
	for range 2 { // it can be run again
		if err := g.Run(context.Background(), p); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// generate
	// link [0.o 1.o 2.o]
	// generate
	// link [0.o 1.o 2.o]
}

func ExampleGraph_WriteDOT() {
	var g graph.Graph
	nop := func(*pool.Worker) error { return nil }
	test := g.Add("test", nop)
	test.After(g.Add("compile", nop))
	if err := g.WriteDOT(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// digraph {
	// 	node [shape=box]
	// 	n0 [label="test"]
	// 	n1 [label="compile"]
	// 	n1 -> n0
	// }
}

// What the end of a run waited for.
func ExampleGraph_CriticalPath() {
	p, err := pool.New()
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	var g graph.Graph
	g.WithTimings()
	nop := func(*pool.Worker) error { return nil }
	read := g.Add("read", nop)
	parse := g.Add("parse", nop).After(read)
	g.Add("print", nop).After(parse)
	if err := g.Run(context.Background(), p); err != nil {
		log.Fatal(err)
	}
	for _, step := range g.CriticalPath() {
		fmt.Println(step.Name) // step.Took, and step.Late for want of a worker
	}
	// Output:
	// read
	// parse
	// print
}
