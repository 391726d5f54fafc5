// Package topo writes a machine as a tree on the terminal, as hwloc's lstopo does.
package topo

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/list"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/seed53057037/heist/internal/drawing"
	"github.com/seed53057037/heist/numa"
)

// lineWidth is where a line of cores is broken.
const lineWidth = 72

// Text writes a machine for a terminal, and below it the distances between nodes. A group
// that is alone inside another shares its line, and so do cores.
func Text(w io.Writer, tree *drawing.Tree) error {
	t := tree.Topology
	l := list.NewWriter()
	l.SetStyle(list.StyleConnectedLight)
	summary, _, _ := strings.Cut(t.String(), "\n")
	l.AppendItem(summary)
	l.Indent()
	appendInside(l, tree.Root)

	var b strings.Builder
	fmt.Fprintln(&b, l.Render())
	for _, note := range slices.Concat(legend(t), tree.Notes) {
		fmt.Fprintln(&b, note)
	}
	if len(t.Nodes) > 1 && distancesKnown(t) {
		fmt.Fprintf(&b, "\nDistances from the CPUs of the row's node to the memory of the column's (10 is a node's own):\n%s\n", distances(t))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// appendInside appends what is inside a box: a line for each group, one for each run of
// cores and CPUs between groups.
func appendInside(l list.Writer, b *drawing.Box) {
	for rest := b.Inside; len(rest) > 0; {
		if n := countLeaves(rest); n > 0 {
			l.AppendItem(leaves(rest[:n]))
			rest = rest[n:]
			continue
		}
		appendGroup(l, rest[0])
		rest = rest[1:]
	}
}

// appendGroup appends a group and its inside, in one line if that is short.
func appendGroup(l list.Writer, b *drawing.Box) {
	line := b.Label()
	for len(b.Inside) == 1 && b.Inside[0].Kind < drawing.Core {
		b = b.Inside[0]
		line += " > " + b.Label()
	}
	if len(b.Inside) == 0 {
		l.AppendItem(line + ", no CPUs")
		return
	}
	if countLeaves(b.Inside) == len(b.Inside) {
		if short := line + ": " + leaves(b.Inside); len(short) <= lineWidth {
			l.AppendItem(short)
			return
		}
	}
	l.AppendItem(line)
	l.Indent()
	appendInside(l, b)
	l.UnIndent()
}

// countLeaves returns the number of cores and CPUs that come first in boxes.
func countLeaves(boxes []*drawing.Box) int {
	n := slices.IndexFunc(boxes, func(b *drawing.Box) bool { return b.Kind != drawing.Core && b.Kind != drawing.CPU })
	if n < 0 {
		return len(boxes)
	}
	return n
}

// leaves writes cores and CPUs, in several lines if they are many.
func leaves(boxes []*drawing.Box) string {
	var b strings.Builder
	column := 0
	for i, box := range boxes {
		word := leaf(box)
		switch {
		case i == 0:
		case column+1+len(word) > lineWidth:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// leaf writes a core or a CPU: its numbers, in brackets if the core has several threads.
func leaf(b *drawing.Box) string {
	if b.Kind == drawing.CPU {
		if b.Mark == drawing.NotAllowed {
			return fmt.Sprintf("(%d)", b.Number)
		}
		return strconv.Itoa(b.Number)
	}
	var threads []string
	for _, inner := range b.Inside {
		threads = append(threads, leaf(inner))
	}
	if len(threads) == 1 {
		return threads[0]
	}
	return "[" + strings.Join(threads, " ") + "]"
}

// legend explains the marks that the text uses.
func legend(t *numa.Topology) []string {
	lines := []string{"Numbers are CPUs."}
	for _, core := range t.Cores {
		if len(core) > 1 {
			lines[0] = "Numbers are CPUs; those in brackets share a core."
			break
		}
	}
	if len(t.Allowed) < len(t.Online) {
		lines = append(lines, "CPUs in parentheses are not for this process.")
	}
	return lines
}

func distancesKnown(t *numa.Topology) bool {
	return slices.ContainsFunc(t.Nodes, func(n numa.Node) bool { return n.Distances != nil })
}

// distances is a table with a row and a column for each node. Distances that the system does
// not give are question marks.
func distances(t *numa.Topology) string {
	w := table.NewWriter()
	style := table.StyleLight
	style.Options.DrawBorder = false
	style.Options.SeparateColumns = false
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	header := table.Row{"node"}
	for _, node := range t.Nodes {
		header = append(header, node.ID)
	}
	w.AppendHeader(header)
	for from, node := range t.Nodes {
		row := table.Row{node.ID}
		for to := range t.Nodes {
			if node.Distances == nil {
				row = append(row, "?")
				continue
			}
			row = append(row, t.Distance(from, to))
		}
		w.AppendRow(row)
	}
	return w.Render()
}
