package page

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/seed53057037/heist/bench/internal/report"
)

// Classes of bars. Their colours, and those of all else in a picture, are in pictureStyle.
const (
	ours   = "ours"
	theirs = "theirs"
	won    = "won"
	evenly = "even"
	lost   = "lost"
)

// pictureStyle is the style of the pictures, in light and dark. A picture that stands alone has it inside.
const pictureStyle = `.plot text { font: 12px "Liberation Sans", Arial, Helvetica, sans-serif; fill: #1e293b }
.plot .title { font-size: 13px; font-weight: bold } .plot .unit { fill: #475569 } .plot .end { text-anchor: end } .plot .middle { text-anchor: middle }
.plot .ground { fill: #ffffff } .plot .grid { stroke: #e2e8f0; fill: none } .plot .axis { stroke: #64748b; fill: none } .plot .mark { stroke: #1e293b; stroke-dasharray: 3 3; fill: none }
.plot .ours { fill: #2563eb } .plot .theirs, .plot .even { fill: #94a3b8 } .plot .won { fill: #16a34a } .plot .lost { fill: #dc2626 }
.plot .cell { fill: #2563eb } .plot .nobody { fill: #f1f5f9 } .plot .curve { fill: none; stroke-width: 1.3; stroke-dasharray: 5 2 } .plot .curve.best { stroke-width: 2.2; stroke-dasharray: none }
.plot .c0 { stroke: #2563eb } .plot .c1 { stroke: #d95f02 } .plot .c2 { stroke: #7570b3 } .plot .c3 { stroke: #e7298a } .plot .c4 { stroke: #4d8b1a } .plot .c5 { stroke: #b38600 } .plot .c6 { stroke: #a6761d } .plot .c7 { stroke: #666666 }
@media (prefers-color-scheme: dark) {
.plot text { fill: #e2e8f0 } .plot .ground { fill: #0f172a } .plot .unit { fill: #94a3b8 } .plot .grid { stroke: #334155 } .plot .axis { stroke: #94a3b8 } .plot .mark { stroke: #e2e8f0 }
.plot .ours, .plot .cell { fill: #5b9bff } .plot .theirs, .plot .even { fill: #64748b } .plot .nobody { fill: #1e293b } .plot .won { fill: #22c55e } .plot .lost { fill: #f87171 }
.plot .c0 { stroke: #5b9bff } .plot .c1 { stroke: #fb923c } .plot .c2 { stroke: #a5a0e8 } .plot .c3 { stroke: #f472b6 } .plot .c4 { stroke: #84cc16 } .plot .c5 { stroke: #facc15 } .plot .c6 { stroke: #d6a354 } .plot .c7 { stroke: #cbd5e1 }
}
`

// Sizes in pixels. Pictures keep their size, so that their text does; the narrow ones fit into the window of a telephone.
const (
	wide, half = 760, 350
	rowHigh    = 18
	titleHigh  = 26
	axisHigh   = 40
	charWide   = 7 // that a letter takes at most, on average
)

func textWide(s string) float64 { return charWide * float64(len([]rune(s))) }

// picture is an SVG that grows.
type picture struct {
	b    strings.Builder
	w, h float64
}

func newPicture(title string, w, h float64) *picture {
	p := &picture{w: w, h: h}
	fmt.Fprintf(&p.b, `<svg class="plot" role="img" aria-label="%s" xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %[2]g %[3]g">`, html.EscapeString(title), w, h)
	return p
}

func (p *picture) text(class string, x, y float64, s string) {
	fmt.Fprintf(&p.b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(s))
}

func (p *picture) rect(class string, x, y, w, h float64) {
	fmt.Fprintf(&p.b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, x, y, w, h)
}

func (p *picture) line(class string, points ...float64) {
	fmt.Fprintf(&p.b, `<polyline class="%s" points="`, class)
	for i := 0; i < len(points); i += 2 {
		fmt.Fprintf(&p.b, "%.1f,%.1f ", points[i], points[i+1])
	}
	p.b.WriteString(`"/>`)
}

func (p *picture) end() template.HTML { return template.HTML(p.b.String() + "</svg>") }

// title writes a heading, in two lines if one is too short, and returns where what is below begins.
func (p *picture) title(s string) (y float64) {
	y = 14
	if textWide(s) > p.w {
		if before, after, ok := strings.Cut(s, ", "); ok {
			p.text("title", 2, y, before)
			s, y = after, y+16
		}
	}
	p.text("title", 2, y, s)
	return y + titleHigh - 14
}

// bar is a value with the ends of its range.
type bar struct {
	label         string
	mid, min, max float64
	class         string
	text          string // beside it
}

// tick is a mark on an axis, at the position of a value.
type tick struct {
	Value float64
	Label string
}

// scale maps values to positions on an axis, on which bars begin at 0.
type scale struct {
	place func(v float64) float64
	ticks []tick // nil on a linear axis
	about string // beside the unit
}

var linear = scale{place: func(v float64) float64 { return v }}

// logarithmic returns a log scale for these values. It begins at the power of ten below the least, as it has no zero.
func logarithmic(bars []bar) scale {
	least, most := math.Inf(1), 0.0
	for _, b := range bars {
		for _, v := range []float64{b.min, b.mid, b.max} {
			if v > 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	origin := math.Floor(math.Log10(least)*(1+1e-12) - 1e-9)
	s := scale{
		place: func(v float64) float64 { return max(0, math.Log10(max(v, math.SmallestNonzeroFloat64))-origin) },
		about: ", log scale",
	}
	for power := origin; power <= math.Ceil(math.Log10(most)); power++ {
		s.ticks = append(s.ticks, tick{power - origin, report.Figure(math.Pow(10, power))})
	}
	return s
}

// scaleFor returns a linear scale, or a log scale if the greatest value would make the least invisible.
func scaleFor(bars []bar) scale {
	least, most := math.Inf(1), 0.0
	for _, b := range bars {
		if b.mid > 0 {
			least, most = min(least, b.mid), max(most, b.mid)
		}
	}
	if most > 30*least {
		return logarithmic(bars)
	}
	return linear
}

// ratios is the log scale of a ratio: left of 1 is better, right of 1 worse.
func ratios(bars []bar) scale {
	s := scale{place: func(v float64) float64 { return math.Log2(max(v, 1.0/1024)) }}
	var least, most float64
	for _, b := range bars {
		least, most = min(least, s.place(b.min)), max(most, s.place(b.max))
	}
	for power := math.Floor(least); power <= math.Ceil(most); power++ {
		label := fmt.Sprintf("%g", math.Exp2(power))
		if power < 0 {
			label = fmt.Sprintf("1/%g", math.Exp2(-power))
		}
		s.ticks = append(s.ticks, tick{power, label})
	}
	return s
}

// evenTicks are those of a linear axis from 0 to most.
func evenTicks(most float64) (all []tick) {
	if most <= 0 {
		return []tick{{0, "0"}}
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	switch {
	case most/step < 2:
		step /= 2
	case most/step > 5:
		step *= 2
	}
	for v := 0.0; v <= most*1.001; v += step {
		all = append(all, tick{v, fmt.Sprintf("%g", float64(int64(v/step+0.5))*step)})
	}
	return all
}

// drawBars draws values one below the other: their names, the bars with their ranges, and the figures in a column of their own.
// There is a line at mark if that is not 0.
func drawBars(title, unit string, all []bar, s scale, mark, width float64) template.HTML {
	labels, values := 0.0, 0.0
	least, most := 0.0, s.place(mark)
	for _, b := range all {
		labels, values = max(labels, textWide(b.label)), max(values, textWide(b.text))
		least, most = min(least, s.place(b.min)), max(most, s.place(b.max), s.place(b.mid))
	}
	ticks := s.ticks
	if ticks == nil {
		ticks = evenTicks(most)
	}
	for _, t := range ticks {
		least = min(least, t.Value)
	}
	p := newPicture(title, width, titleHigh+16+axisHigh+rowHigh*float64(len(all)))
	top := p.title(title)
	left, right := labels+6, width-values-8
	bottom := top + rowHigh*float64(len(all))
	x := func(at float64) float64 { return left + (right-left)*(at-least)/max(most-least, 1e-300) }
	written := math.Inf(-1)
	for _, t := range ticks {
		if t.Value > most {
			continue
		}
		at := x(t.Value)
		p.line("grid", at, top, at, bottom)
		if half := textWide(t.Label) / 2; at-half > written && at+half < width {
			p.text("middle", at, bottom+15, t.Label)
			written = at + half + charWide
		}
	}
	p.text("unit", left, bottom+32, unit+s.about)
	for i, b := range all {
		y := top + rowHigh*(float64(i)+0.5)
		p.text("end", labels, y+4, b.label)
		from, to := x(0), x(s.place(b.mid))
		p.rect(b.class, min(from, to), y-5, math.Abs(to-from), 10)
		p.line("axis", x(s.place(b.min)), y, x(s.place(b.max)), y)
		p.text("value", right+8, y+4, b.text)
	}
	p.line("axis", x(0), top, x(0), bottom)
	if mark > 0 {
		p.line("mark", x(s.place(mark)), top, x(s.place(mark)), bottom)
	}
	return p.end()
}

// point is a percentile, as nines, and its value in microseconds.
type point struct{ X, Y float64 }

// curve is the percentiles of one implementation.
type curve struct {
	label  string
	ours   bool
	points []point
}

// nines returns a percentile's position on the axis: 90% at 1, 99% at 2 and so on, and at most that of the last of
// count values.
func nines(percentile float64, count int64) float64 {
	return min(-math.Log10(max(1-percentile/100, 1e-12)), math.Log10(float64(max(count, 1))))
}

// at returns the value at so many nines, if the curve has as many.
func (c curve) at(nines float64) (v float64, ok bool) {
	i := slices.IndexFunc(c.points, func(p point) bool { return p.X >= nines-1e-9 })
	if i < 0 {
		return 0, false
	}
	return c.points[i].Y, true
}

// drawCurves draws percentiles, and below them who is who, with the last percentile that is told.
func drawCurves(title string, curves []curve) template.HTML {
	const high, left = 200, 56
	p := newPicture(title, half, titleHigh+16+high+axisHigh+16*float64(len(curves))+6)
	top := p.title(title)
	bottom := top + high
	least, most, last := math.Inf(1), 0.0, 1.0
	for _, c := range curves {
		for _, at := range c.points {
			least, most, last = min(least, at.Y), max(most, at.Y), max(last, at.X)
		}
	}
	from, to := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most)+1e-9)
	x := func(nines float64) float64 { return left + (half-left-24)*nines/last }
	y := func(us float64) float64 { return bottom - high*(math.Log10(us)-from)/max(to-from, 1) }
	for _, t := range []tick{{0, "0"}, {-math.Log10(0.5), "50"}, {1, "90"}, {2, "99"}, {3, "99.9"}, {4, "99.99"}, {5, "99.999"}} {
		if t.Value <= last+1e-9 {
			p.line("grid", x(t.Value), top, x(t.Value), bottom)
			p.text("middle", x(t.Value), bottom+15, t.Label)
		}
	}
	for power := from; power <= to; power++ {
		p.line("grid", left, y(math.Pow(10, power)), half-24, y(math.Pow(10, power)))
		p.text("end", left-6, y(math.Pow(10, power))+4, report.Figure(math.Pow(10, power)))
	}
	p.text("unit", left, bottom+32, "percentile; us")
	tail := min(3, math.Floor(last))
	for i, c := range curves {
		class := fmt.Sprintf("curve c%d", i%8)
		if c.ours {
			class += " best"
		}
		var points []float64
		for _, at := range c.points {
			points = append(points, x(at.X), y(at.Y))
		}
		p.line(class, points...)
		row := bottom + axisHigh + 16*float64(i) + 6
		p.line(class, left, row-4, left+26, row-4)
		name := c.label
		if v, ok := c.at(tail); ok && tail > 0 {
			name += fmt.Sprintf(", p%s %s us", map[float64]string{1: "90", 2: "99", 3: "99.9"}[tail], report.Figure(v))
		}
		p.text("name", left+32, row, name)
	}
	return p.end()
}

// drawMatrix draws how often the worker of a row stole from the worker of a column.
func drawMatrix(title string, m [][]uint64) template.HTML {
	const cell, left = 32, 30
	p := newPicture(title, half, titleHigh+40+cell*float64(len(m)))
	top := p.title(title+": thieves below, victims beside") + 16
	var most uint64 = 1
	for _, row := range m {
		most = max(most, slices.Max(row))
	}
	for i, row := range m {
		p.text("middle", left+cell*(float64(i)+0.5), top-5, fmt.Sprint(i))
		p.text("end", left-8, top+cell*(float64(i)+0.5)+4, fmt.Sprint(i))
		for j, n := range row {
			x, y := left+cell*float64(j), top+cell*float64(i)
			if i == j { // a worker does not steal from itself
				p.rect("nobody", x, y, cell-1, cell-1)
				continue
			}
			fmt.Fprintf(&p.b, `<rect class="cell" fill-opacity="%.2f" x="%g" y="%g" width="%d" height="%[4]d"/>`, 0.08+0.5*float64(n)/float64(most), x, y, cell-1)
			p.text("middle", x+cell/2, y+cell/2+4, fmt.Sprint(n))
		}
	}
	return p.end()
}
