package topo

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	svg "github.com/ajstarks/svgo"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/seed53057037/heist/numa"
)

// style gives each kind of box its colours, and each mark.
const style = `
text { font-family: Helvetica, Arial, "DejaVu Sans", sans-serif; font-size: 12px; fill: #1e293b }
rect { stroke-width: 1 }
.machine { fill: #ffffff; stroke: #94a3b8 }
.package { fill: #f1f5f9; stroke: #64748b }
.node { fill: #e0f2fe; stroke: #0284c7 }
.die { fill: #ede9fe; stroke: #7c3aed }
.L3 { fill: #fef3c7; stroke: #d97706 }
.cluster { fill: #fae8ff; stroke: #c026d3 }
.L2 { fill: #ffedd5; stroke: #ea580c }
.core { fill: #dcfce7; stroke: #16a34a }
.CPU { fill: #ffffff; stroke: #86b89a }
.offline { fill: #f3f4f6; stroke: #9ca3af; stroke-dasharray: 4 3 }
.notAllowed { fill: #fecaca; stroke: #dc2626; stroke-dasharray: 4 3 }
.small { font-size: 11px }
.number { font-size: 11px; text-anchor: middle }
.gone { fill: #9ca3af }
`

// SVG writes the tree as a picture: boxes within boxes, cores in a grid. Each CPU is a
// group whose id is cpu and its number; what is known of a box shows when the mouse rests
// on it.
func (t *Tree) SVG(w io.Writer) error {
	root := newPlanner(t.topology).layout(t.Root)
	pictureWidth, pictureHeight := root.w, root.h
	var lines []string
	for _, note := range slices.Concat(t.marks(), t.Notes) {
		wrapped := text.WrapSoft(note, max(root.w, leastNotes)/width("x", labelSize))
		lines = append(lines, strings.Split(wrapped, "\n")...)
	}
	for _, line := range lines {
		pictureWidth = max(pictureWidth, width(line, labelSize))
		pictureHeight += lineSize
	}

	var b bytes.Buffer // the library does not tell of errors
	canvas := svg.New(&b)
	canvas.Startview(pictureWidth+2*padding, pictureHeight+2*padding, 0, 0, pictureWidth+2*padding, pictureHeight+2*padding)
	canvas.Style("text/css", style)
	canvas.Rect(0, 0, pictureWidth+2*padding, pictureHeight+2*padding, `fill="#ffffff"`)
	t.draw(canvas, root, padding, padding)
	for i, line := range lines {
		canvas.Text(2*padding, padding+root.h+lineSize*(i+1)-padding/2, line)
	}
	canvas.End()
	_, err := b.WriteTo(w)
	return err
}

// draw draws an area at x and y, and what is inside.
func (t *Tree) draw(canvas *svg.SVG, a *area, x, y int) {
	b := a.box
	if b.Kind == CPU {
		t.drawCPU(canvas, a, x, y)
		return
	}
	canvas.Group()
	if len(b.CPUs) > 0 {
		canvas.Title(fmt.Sprintf("%s: CPUs %v", b.Label(), b.CPUs))
	}
	canvas.Roundrect(x, y, a.w, a.h, 4, 4, class(b.Kind.String()))
	size := "label"
	if b.Kind == Core {
		size = "small"
	}
	canvas.Text(x+padding, y+padding+labelSize-1, b.Label(), class(size))
	for _, inner := range a.inside {
		t.draw(canvas, inner, x+inner.x, y+inner.y)
	}
	canvas.Gend()
}

func (t *Tree) drawCPU(canvas *svg.SVG, a *area, x, y int) {
	box, number := "CPU", "number"
	switch a.box.Mark {
	case NotAllowed:
		box = "notAllowed"
	case IsOffline:
		box, number = "offline", "number gone"
	}
	canvas.Gid("cpu" + strconv.Itoa(a.box.Number))
	canvas.Title(t.about(a.box))
	canvas.Roundrect(x, y, a.w, a.h, 3, 3, class(box))
	canvas.Text(x+a.w/2, y+a.h/2+textSize/2-1, strconv.Itoa(a.box.Number), class(number))
	canvas.Gend()
}

func class(name string) string { return fmt.Sprintf(`class="%s"`, name) }

// about tells what is known of a CPU.
func (t *Tree) about(b *Box) string {
	about := b.Label()
	switch b.Mark {
	case IsOffline:
		return about + ", offline"
	case NotAllowed:
		about += ", not for this process"
	}
	i, _ := slices.BinarySearchFunc(t.topology.CPUs, b.Number, func(c numa.CPU, id int) int { return cmp.Compare(c.ID, id) })
	cpu := t.topology.CPUs[i]
	for _, group := range []struct {
		kind  Kind
		index int
	}{
		{Core, cpu.Core}, {L2, cpu.L2}, {Cluster, cpu.Cluster}, {L3, cpu.L3}, {Die, cpu.Die}, {Package, cpu.Package},
	} {
		if group.index >= 0 {
			about += fmt.Sprintf(", %s %d", group.kind, group.index)
		}
	}
	if cpu.Node >= 0 {
		about += fmt.Sprintf(", node %d", t.topology.Nodes[cpu.Node].ID)
	}
	if cpu.Capacity > 0 {
		about += fmt.Sprintf(", capacity %d", cpu.Capacity)
	}
	return about
}

// marks explains the marks that the picture uses.
func (t *Tree) marks() []string {
	lines := []string{"Numbers in white boxes are CPUs."}
	if len(t.topology.Allowed) < len(t.topology.Online) {
		lines = append(lines, "Those in red boxes are not for this process.")
	}
	return lines
}
