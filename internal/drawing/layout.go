package drawing

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed53057037/heist/numa"
)

// Sizes of the picture, in pixels at its natural size.
const (
	labelSize = 12 // of the font
	textSize  = 11 // of the font, for cores and CPUs
	lineSize  = 18 // the height of a line of text
	padding   = 6  // within a box, around what is inside
	gap       = 5  // between neighbours
	cpuHeight = 22
	minCPU    = 28 // the least width of a CPU

	leastNotes = 600 // the least width for the notes below

	// advance is the width of a character as a share of the font's size: more than the
	// average of any common sans-serif font, so that text stays inside its box.
	advance = 0.64

	// aspect is the width of a good picture as a multiple of its height.
	aspect = 1.6

	// ragged is the weight of the empty places in the last row of a grid, as a share of
	// all, against the grid's shape. With it, eight cores are four by two.
	ragged = 4
)

// area is where a box goes.
type area struct {
	box        *Box
	x, y, w, h int // x and y are relative to the area around it
	inside     []*area
}

// planner finds the place of everything. Boxes that are alike get the same width, however
// many digits their numbers have.
type planner struct{ cpuWidth, coreWidth int }

func newPlanner(t *numa.Topology) planner {
	digits := func(n int) string { return strings.Repeat("0", len(strconv.Itoa(n))) }
	cpu := width(digits(slices.Max(t.Complete)), textSize)
	core := &Box{Kind: Core, Number: max(0, len(t.Cores)-1)}
	return planner{cpuWidth: max(minCPU, cpu+2*padding), coreWidth: width(core.Label(), textSize)}
}

// layout finds the place of everything inside a box.
func (p planner) layout(b *Box) *area {
	a := &area{box: b}
	if b.Kind == CPU {
		a.w, a.h = p.cpuWidth, cpuHeight
		return a
	}
	var main, aside []*area // aside are the boxes without an online CPU
	for _, inner := range b.Inside {
		if len(inner.CPUs) > 0 {
			main = append(main, p.layout(inner))
		} else {
			aside = append(aside, p.layout(inner))
		}
	}
	w, y := width(b.Label(), labelSize), padding+lineSize
	if b.Kind == Core {
		w = p.coreWidth
	}
	if len(main) > 0 {
		mainWidth, mainHeight := grid(main, bestColumns(main), padding, y)
		w, y = max(w, mainWidth), y+mainHeight+gap
	}
	if len(aside) > 0 {
		columns := bestColumns(aside)
		if len(main) > 0 {
			columns = columnsWithin(aside, w)
		}
		asideWidth, asideHeight := grid(aside, columns, padding, y)
		w, y = max(w, asideWidth), y+asideHeight+gap
	}
	if len(main) == 1 {
		main[0].w = w
	}
	a.inside = append(main, aside...)
	a.w, a.h = w+2*padding, y-gap+padding
	return a
}

// bestColumns chooses the number of columns whose grid has the best shape, and few empty
// places in its last row.
func bestColumns(areas []*area) int {
	best, least := 1, math.Inf(1)
	for columns := 1; columns <= len(areas); columns++ {
		w, h := gridSize(areas, columns)
		rows := (len(areas) + columns - 1) / columns
		empty := float64(rows*columns-len(areas)) / float64(len(areas))
		if cost := math.Abs(math.Log(float64(w)/float64(h)/aspect)) + ragged*empty; cost < least {
			best, least = columns, cost
		}
	}
	return best
}

// columnsWithin chooses the largest number of columns that together are no wider than w.
func columnsWithin(areas []*area, w int) int {
	columns := 1
	for columns < len(areas) {
		if wider, _ := gridSize(areas, columns+1); wider > w {
			break
		}
		columns++
	}
	return columns
}

// gridSize returns the size of a grid with so many columns.
func gridSize(areas []*area, columns int) (w, h int) {
	widths, heights := tracks(areas, columns)
	return span(widths), span(heights)
}

// grid places the areas row by row, beginning at x and y, each as wide as its column and
// as high as its row. It returns the size of the grid.
func grid(areas []*area, columns, x, y int) (w, h int) {
	widths, heights := tracks(areas, columns)
	for i, a := range areas {
		column, row := i%columns, i/columns
		a.x = x + span(widths[:column]) + gap*min(column, 1)
		a.y = y + span(heights[:row]) + gap*min(row, 1)
		a.w, a.h = widths[column], heights[row]
	}
	return span(widths), span(heights)
}

// tracks returns the widths of the columns and the heights of the rows of a grid.
func tracks(areas []*area, columns int) (widths, heights []int) {
	widths = make([]int, columns)
	heights = make([]int, (len(areas)+columns-1)/columns)
	for i, a := range areas {
		column, row := &widths[i%columns], &heights[i/columns]
		*column, *row = max(*column, a.w), max(*row, a.h)
	}
	return widths, heights
}

// span returns the length of tracks with gaps between them.
func span(tracks []int) int {
	length := gap * max(0, len(tracks)-1)
	for _, track := range tracks {
		length += track
	}
	return length
}

// width returns how wide a text is, at most.
func width(s string, fontSize int) int {
	return int(math.Ceil(float64(utf8.RuneCountInString(s)*fontSize) * advance))
}
