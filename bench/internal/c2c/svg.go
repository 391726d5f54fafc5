package c2c

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"

	svg "github.com/ajstarks/svgo"
	"github.com/lucasb-eyer/go-colorful"
)

// Sizes of the picture, in pixels at its natural size.
const (
	margin    = 60
	title     = 20  // the height of the line on top
	titleWide = 400 // the least width of the title
	plot      = 900 // about the width of all cells together, if the CPUs are many
	smallest  = 4   // the side of a cell
	largest   = 64
	roomy     = 34 // the least side of a cell that has its figure in it
	labelRoom = 26 // the least distance between two labels of CPUs
	scaleWide = 18 // the width of the scale beside
	scaleTall = 220
	steps     = 44 // of the scale

	// tipped is how many CPUs there may be for each cell to tell its figures. More would
	// make a file of many megabytes.
	tipped = 64
)

// ramp is the colours from the shortest way to the longest: matplotlib's viridis, which
// also keeps its order in grey and for the colour-blind, in five points.
var ramp = []colorful.Color{
	rgb(0x44, 0x01, 0x54), rgb(0x3b, 0x52, 0x8b), rgb(0x21, 0x91, 0x8c), rgb(0x5e, 0xc9, 0x62), rgb(0xfd, 0xe7, 0x25),
}

func rgb(r, g, b float64) colorful.Color {
	return colorful.Color{R: r / 255, G: g / 255, B: b / 255}
}

// colour returns the colour at a place between 0 and 1.
func colour(at float64) colorful.Color {
	at *= float64(len(ramp) - 1)
	i := min(int(at), len(ramp)-2)
	return ramp[i].BlendLab(ramp[i+1], at-float64(i)).Clamped()
}

// ink returns the colour of text on a ground.
func ink(ground colorful.Color) string {
	if lightness, _, _ := ground.Lab(); lightness < 0.6 {
		return "#ffffff"
	}
	return "#1e293b"
}

const fonts = `font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;font-size:`

// SVG writes the result as a picture, a heat map with a scale beside it. If the CPUs are
// not too many, the figures of a cell show when the mouse rests on it.
func (s *Sweep) SVG(w io.Writer) error {
	side := min(max(plot/len(s.CPUs), smallest), largest)
	scale := s.scale()
	width := max(margin+side*len(s.CPUs)+margin/2, titleWide)
	height := title + margin + side*len(s.CPUs) + margin/2
	if scale.shown() {
		width, height = width+scaleWide+margin, max(height, title+margin+scaleTall+margin/2)
	}

	var b bytes.Buffer // the library does not tell of errors
	canvas := svg.New(&b)
	canvas.Startview(width, height, 0, 0, width, height)
	canvas.Rect(0, 0, width, height, "fill:#ffffff")
	canvas.Gstyle(fonts + "12px;fill:#1e293b")
	canvas.Text(margin, title, "One way of a cache line from CPU to CPU, ns", "font-size:14px")
	s.cells(canvas, side, scale)
	s.labels(canvas, side)
	if scale.shown() {
		scale.draw(canvas, width-scaleWide-margin, title+margin)
	}
	canvas.Gend()
	canvas.End()
	_, err := b.WriteTo(w)
	return err
}

// cells draws a cell for each two CPUs.
func (s *Sweep) cells(canvas *svg.SVG, side int, scale scale) {
	for row, from := range s.CPUs {
		for column, to := range s.CPUs {
			way := s.Between(from, to)
			if from == to {
				continue
			}
			x, y := margin+column*side, title+margin+row*side
			ground := colour(scale.at(way.Median))
			if len(s.CPUs) > tipped {
				canvas.Rect(x, y, side, side, "fill:"+ground.Hex())
				continue
			}
			canvas.Group()
			canvas.Title(fmt.Sprintf("CPU %d to CPU %d: %.1f ns (%.1f to %.1f)", from, to, way.Median, way.Min, way.Max))
			canvas.Rect(x, y, side, side, "fill:"+ground.Hex())
			if side >= roomy {
				canvas.Text(x+side/2, y+side/2+4, fmt.Sprintf("%.0f", way.Median), "text-anchor:middle;fill:"+ink(ground))
			}
			canvas.Gend()
		}
	}
}

// labels draws the numbers of the CPUs along the sides, of as many as there is room for.
func (s *Sweep) labels(canvas *svg.SVG, side int) {
	every := 1
	for every*side < labelRoom {
		every *= 2
	}
	for i, cpu := range s.CPUs {
		if i%every != 0 {
			continue
		}
		middle := i*side + side/2
		canvas.Text(margin+middle, title+margin-8, strconv.Itoa(cpu), "text-anchor:middle")
		canvas.Text(margin-8, title+margin+middle+4, strconv.Itoa(cpu), "text-anchor:end")
	}
}

// scale is the range of the colours, in nanoseconds.
type scale struct{ least, most float64 }

func (s *Sweep) scale() scale {
	sc := scale{math.Inf(1), 0}
	for pair := range s.ways {
		median := s.median(pair)
		sc.least, sc.most = min(sc.least, median), max(sc.most, median)
	}
	return sc
}

// shown says whether there is a range.
func (s scale) shown() bool { return s.most > s.least }

// at returns where a value is in the range, from 0 to 1.
func (s scale) at(v float64) float64 {
	if !s.shown() {
		return 0
	}
	return (v - s.least) / (s.most - s.least)
}

func (s scale) draw(canvas *svg.SVG, x, y int) {
	const step = scaleTall / steps
	for i := range steps {
		canvas.Rect(x, y+scaleTall-(i+1)*step, scaleWide, step, "fill:"+colour(float64(i)/(steps-1)).Hex())
	}
	for _, at := range []float64{0, 0.5, 1} {
		value := s.least + at*(s.most-s.least)
		canvas.Text(x+scaleWide+6, y+scaleTall-int(at*scaleTall)+4, fmt.Sprintf("%.0f", value))
	}
}
