package drawing

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/seed53057037/heist/numa"
)

// style gives each kind of box and each mark its colours.
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

// SVG writes the tree as a picture of its own, with its notes below it: boxes within boxes, cores in a grid. Each CPU
// is a group whose id is cpu and its number. The title of a box, which shows when the mouse rests on it, tells what
// is known of it.
func (t *Tree) SVG(w io.Writer) error {
	root := newPlanner(t.Topology).layout(t.Root)
	pictureWidth, pictureHeight := root.w, root.h
	var lines []string
	for _, note := range slices.Concat(t.marks(), t.Notes) {
		lines = append(lines, wrap(note, max(root.w, leastNotes)/width("x", labelSize))...)
	}
	for _, line := range lines {
		pictureWidth = max(pictureWidth, width(line, labelSize))
		pictureHeight += lineSize
	}
	c := canvas{tree: t}
	c.begin("", pictureWidth, pictureHeight)
	fmt.Fprintf(&c, "<style>%s</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", style)
	c.draw(root, padding, padding)
	for i, line := range lines {
		c.text(2*padding, padding+root.h+lineSize*(i+1)-padding/2, "note", line)
	}
	c.WriteString("</svg>\n")
	_, err := c.WriteTo(w)
	return err
}

// Figure returns the boxes alone, for a page that has styles for them. The classes are the names of kinds, offline
// and notAllowed, and seat for the CPUs in seats. seats says what to add to the title of a CPU.
func (t *Tree) Figure(seats map[int]string) string {
	root := newPlanner(t.Topology).layout(t.Root)
	c := canvas{tree: t, seats: seats}
	c.begin("drawing", root.w, root.h)
	c.draw(root, padding, padding)
	c.WriteString("</svg>\n")
	return c.String()
}

// canvas is a picture in progress.
type canvas struct {
	bytes.Buffer
	tree  *Tree
	seats map[int]string
}

func (c *canvas) begin(class string, w, h int) {
	w, h = w+2*padding, h+2*padding
	fmt.Fprintf(c, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=%q width=\"%d\" height=\"%d\" viewBox=\"0 0 %[2]d %[3]d\">\n", class, w, h)
}

func (c *canvas) text(x, y int, class, s string) {
	fmt.Fprintf(c, "<text x=\"%d\" y=\"%d\" class=%q>%s</text>\n", x, y, class, html.EscapeString(s))
}

func (c *canvas) box(a *area, x, y, round int, class, title string) {
	if title != "" {
		fmt.Fprintf(c, "<title>%s</title>\n", html.EscapeString(title))
	}
	fmt.Fprintf(c, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" class=%q/>\n", x, y, a.w, a.h, round, class)
}

// draw draws an area at x and y, and what is inside.
func (c *canvas) draw(a *area, x, y int) {
	b := a.box
	if b.Kind == CPU {
		c.drawCPU(a, x, y)
		return
	}
	c.WriteString("<g>\n")
	title := ""
	if len(b.CPUs) > 0 {
		title = fmt.Sprintf("%s: CPUs %v", b.Label(), b.CPUs)
	}
	c.box(a, x, y, 4, b.Kind.String(), title)
	size := "label"
	if b.Kind == Core {
		size = "small"
	}
	c.text(x+padding, y+padding+labelSize-1, size, b.Label())
	for _, inner := range a.inside {
		c.draw(inner, x+inner.x, y+inner.y)
	}
	c.WriteString("</g>\n")
}

func (c *canvas) drawCPU(a *area, x, y int) {
	box, number, title := "CPU", "number", c.tree.about(a.box)
	switch a.box.Mark {
	case NotAllowed:
		box = "notAllowed"
	case IsOffline:
		box, number = "offline", "number gone"
	}
	if seat, ok := c.seats[a.box.Number]; ok {
		box += " seat"
		title += ", " + seat
	}
	fmt.Fprintf(c, "<g id=\"cpu%d\">\n", a.box.Number)
	c.box(a, x, y, 3, box, title)
	c.text(x+a.w/2, y+a.h/2+textSize/2-1, number, fmt.Sprint(a.box.Number))
	c.WriteString("</g>\n")
}

// wrap breaks a text into lines of at most so many characters, between words where it can.
func wrap(s string, most int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(s) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= most:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// about returns what is known of a CPU.
func (t *Tree) about(b *Box) string {
	about := b.Label()
	switch b.Mark {
	case IsOffline:
		return about + ", offline"
	case NotAllowed:
		about += ", not for this process"
	}
	i, _ := slices.BinarySearchFunc(t.Topology.CPUs, b.Number, func(c numa.CPU, id int) int { return cmp.Compare(c.ID, id) })
	cpu := t.Topology.CPUs[i]
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
		about += fmt.Sprintf(", node %d", t.Topology.Nodes[cpu.Node].ID)
	}
	if cpu.Capacity > 0 {
		about += fmt.Sprintf(", capacity %d", cpu.Capacity)
	}
	return about
}

// marks explains the marks that the picture uses.
func (t *Tree) marks() []string {
	lines := []string{"Numbers in white boxes are CPUs."}
	if len(t.Topology.Allowed) < len(t.Topology.Online) {
		lines = append(lines, "Those in red boxes are not for this process.")
	}
	return lines
}
