package graph

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Step is a node of a critical path.
type Step struct {
	Name string
	Took time.Duration // by its function
	Late time.Duration // from the end of the step before it, or the beginning of the run, to its own beginning
}

// CriticalPath returns, for the last run, the nodes that the run's end waited for: the node that ended last, before it that one of its predecessors that
// ended last, and so on, in the order in which they ran. Where Took is long, the function is to be made faster or divided; where Late is,
// workers were missing. It returns nil without [Graph.WithTimings].
//
// It must not be called while the graph runs. Cost: a look at all nodes and edges.
func (g *Graph) CriticalPath() []Step {
	path := g.criticalPath()
	if path == nil {
		return nil
	}
	steps := make([]Step, len(path))
	var before time.Duration
	for i, n := range path {
		ran := n.span()
		steps[i] = Step{Name: n.name, Took: ran.till - ran.from, Late: max(ran.from-before, 0)}
		before = ran.till
	}
	return steps
}

func (g *Graph) criticalPath() (path []*Node) {
	g.mustRest("CriticalPath")
	if !g.timed || g.began.IsZero() || g.compile() != nil {
		return nil
	}
	order := g.order()
	latest := make([]*Node, len(g.nodes)) // the predecessor that ended last
	var last *Node
	for _, n := range order {
		for _, to := range g.next[n.first:n.end] {
			if l := latest[to/2]; n.ran() && (l == nil || n.span().till > l.span().till) {
				latest[to/2] = n
			}
		}
		if n.ran() && (last == nil || n.span().till > last.span().till) {
			last = n
		}
	}
	for ; last != nil; last = latest[last.index] {
		path = append(path, last)
	}
	slices.Reverse(path)
	return path
}

// ran says whether the node has run in the last run, if that was timed.
func (n *Node) ran() bool { return n.span().till > 0 }

// WriteDOT writes the graph in the language of Graphviz: `dot -Tsvg`. After a run with timings it shows what each node took, and the critical path in bold.
// It must not be called while the graph runs.
func (g *Graph) WriteDOT(to io.Writer) error {
	critical := make(map[*Node]int) // its number on the path, from 1
	for i, n := range g.criticalPath() {
		critical[n] = i + 1
	}
	g.mustRest("WriteDOT")
	b := bufio.NewWriter(to) // keeps the first error
	fmt.Fprintf(b, "digraph {\n\tnode [shape=box]\n")
	for _, n := range g.nodes {
		label, style := n.name, ""
		if len(critical) > 0 && n.ran() {
			label += "\n" + (n.span().till - n.span().from).String()
		}
		if critical[n] > 0 {
			style = " style=bold"
		}
		fmt.Fprintf(b, "\tn%d [label=%s%s]\n", n.index, quote(label), style)
	}
	drawn := make(map[edge]bool) // some may have been given twice
	for _, e := range g.edges {
		if drawn[e] {
			continue
		}
		drawn[e] = true
		style := ""
		if at := critical[g.nodes[e.from]]; at > 0 && critical[g.nodes[e.to]] == at+1 {
			style = " [style=bold]"
		}
		fmt.Fprintf(b, "\tn%d -> n%d%s\n", e.from, e.to, style)
	}
	fmt.Fprintf(b, "}\n")
	return b.Flush()
}

// quote returns s as a string of Graphviz.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
