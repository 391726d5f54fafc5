package page

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed53057037/heist/internal/drawing"
	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool/inspect"
)

// Sizes in pixels.
const (
	rowMost, rowLeast = 22, 2 // the height of a worker's row
	stripHeight       = 480   // the height of all rows, where rowLeast and rowMost allow it
	labelHeight       = 12
	labelsWidth       = 100
	heatMost          = 560
	heatCell          = 34

	gapless = 64 // with so many workers or more, rows have no gaps between them
)

// strip draws what each worker did over the last minute: a row for each worker, a column for each half second.
func (rec *record) strip() string {
	n := len(rec.rows)
	row := min(rowMost, max(rowLeast, stripHeight/max(n, 1)))
	var b strings.Builder
	fmt.Fprintf(&b, "<div class=\"chart\"><svg class=\"labels\" width=\"%d\" height=\"%d\" aria-hidden=\"true\">", labelsWidth, n*row)
	every := step(float64(labelHeight) / float64(row))
	for i, r := range rec.rows {
		if i == 0 || r.node != rec.rows[i-1].node {
			if rec.nodes() > 1 {
				fmt.Fprintf(&b, "<text x=\"0\" y=\"%d\">node %d</text>", i*row+max(row/2, labelHeight/2)+4, r.node)
			}
		}
		if i%every == 0 && (i+every <= n || every == 1) {
			fmt.Fprintf(&b, "<text class=\"worker\" x=\"%d\" y=\"%d\">%d</text>", labelsWidth-6, i*row+max(row/2, labelHeight/2)+4, r.worker)
		}
	}
	fmt.Fprintf(&b, "</svg><svg class=\"columns\" role=\"img\" aria-label=\"what each worker did over the last minute\" height=\"%d\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\">", n*row, columns, max(n, 1))
	b.WriteString("<g id=\"columns\">")
	for i, c := range rec.columns {
		b.WriteString(rec.column(c, columns-len(rec.columns)+i))
	}
	b.WriteString("</g>")
	for i := 1; i < n; i++ {
		if rec.rows[i].node != rec.rows[i-1].node {
			fmt.Fprintf(&b, "<path class=\"border\" d=\"M0 %dH%d\"/>", i, columns)
		}
	}
	b.WriteString("</svg></div>")
	return b.String()
}

func (rec *record) nodes() int {
	nodes := make(map[int]bool)
	for _, r := range rec.rows {
		nodes[r.node] = true
	}
	return len(nodes)
}

// column draws one of the strip's columns, at x. In each row, the share of the time in which the worker ran is at the
// bottom, that in which it searched above, and that in which it was away on top; parked time is empty.
func (rec *record) column(c column, x int) string {
	var runs, searches, away area
	height := 0.9
	if len(rec.rows) >= gapless {
		height = 1
	}
	for i, r := range rec.rows {
		if r.worker >= len(c.shares) {
			continue
		}
		s := c.shares[r.worker]
		bottom := float64(i) + 0.5 + height/2
		for _, part := range []struct {
			to *area
			n  uint8
		}{{&runs, s.runs}, {&searches, s.searches}, {&away, s.away}} {
			if part.n > 0 {
				h := height * float64(part.n) / float64(max(c.samples, 1))
				part.to.add(bottom-h, bottom)
				bottom -= h
			}
		}
	}
	return fmt.Sprintf("<g data-tick=\"%d\" transform=\"translate(%d 0)\">%s%s%s</g>", c.tick, x, runs.path("runs"), searches.path("searches"), away.path("away"))
}

// area is a column's boxes of one kind, each from one y to another, one below the other.
type area struct{ from, to []float64 }

func (a *area) add(from, to float64) {
	if n := len(a.to); n > 0 && from-a.to[n-1] < 1e-3 {
		a.to[n-1] = to
		return
	}
	a.from, a.to = append(a.from, from), append(a.to, to)
}

// path draws the boxes a little wider than a column: there would be gaps where the width of a column is no whole
// number of pixels.
func (a *area) path(class string) string {
	if len(a.from) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<path class=%q d=\"", class)
	for i := range a.from {
		fmt.Fprintf(&b, "M0 %.4gh1.03V%.4gh-1.03z", a.from[i], a.to[i])
	}
	b.WriteString("\"/>")
	return b.String()
}

// sparkline draws one of the gauges over the last minute, and returns its greatest value.
func (rec *record) sparkline(gauge int) (svg string, most float64) {
	const w, h = 240, 40
	for _, c := range rec.columns {
		most = max(most, c.numbers[gauge])
	}
	top := most
	if gauges[gauge].unit == "%" {
		top = 100
	}
	if len(rec.columns) == 0 {
		return fmt.Sprintf("<svg class=\"spark\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\"></svg>", w, h), 0
	}
	var line strings.Builder
	x := func(i int) float64 { return float64(columns-len(rec.columns)+i) * w / (columns - 1) }
	for i, c := range rec.columns {
		y := h - 1.0
		if top > 0 {
			y -= (h - 2) * c.numbers[gauge] / top
		}
		fmt.Fprintf(&line, "%.4g,%.4g ", x(i), y)
	}
	points := strings.TrimSpace(line.String())
	return fmt.Sprintf("<svg class=\"spark\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><polygon points=\"%.4g,%d %s %d,%d\"/><polyline points=%q/></svg>",
		w, h, x(0), h, points, w, h, points), most
}

// heat draws how often each worker stole from each other: a row for each thief, a column for each victim, both in the
// order of the machine, guests last.
func (rec *record) heat() string {
	places := make([]int, 0, len(rec.steals))
	names := make([]string, 0, len(rec.steals))
	nodes := make([]int, 0, len(rec.steals))
	guests := len(rec.steals) - 1
	for _, r := range rec.rows {
		if r.worker < guests {
			places, names, nodes = append(places, r.worker), append(names, fmt.Sprint(r.worker)), append(nodes, r.node)
		}
	}
	if guests >= 0 && slices.ContainsFunc(rec.steals, func(from []uint64) bool { return from[guests] > 0 }) {
		places, names, nodes = append(places, guests), append(names, "guests"), append(nodes, -1)
	}
	n := len(places)
	var least, most uint64
	for _, t := range places {
		for _, v := range places {
			if count := rec.steals[t][v]; count > 0 {
				least, most = min(cmp.Or(least, count), count), max(most, count)
			}
		}
	}
	if most == 0 {
		return "<p class=\"none\">Nothing has been stolen yet.</p>"
	}
	size := min(heatCell*n, heatMost)
	cell := float64(size) / float64(n)
	every := step(labelHeight * 2 / cell)
	const left, top = 70, 36
	var b strings.Builder
	fmt.Fprintf(&b, "<svg class=\"heat\" role=\"img\" aria-label=\"steals by thief and victim\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\">", left+size+4, top+size+4)
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"11\">victim</text><text x=\"0\" y=\"%d\">thief</text>", left, top+11)
	for i, name := range names {
		if i%every == 0 || name == "guests" && cell >= labelHeight {
			at := (float64(i) + 0.5) * cell
			column := name
			if name == "guests" {
				column = "g"
			}
			fmt.Fprintf(&b, "<text class=\"victim\" x=\"%.1f\" y=\"%d\">%s</text><text class=\"worker\" x=\"%d\" y=\"%.1f\">%s</text>", left+at, top-6, column, left-6, top+at+4, name)
		}
	}
	fmt.Fprintf(&b, "<g transform=\"translate(%d %d)\"><rect class=\"ground\" width=\"%d\" height=\"%[3]d\"/>", left, top, size)
	var levels [heatLevels + 1]strings.Builder
	for i, t := range places {
		for j := 0; j < n; {
			level, from := heatLevel(rec.steals[t][places[j]], least, most), j
			for j++; j < n && n > titled && heatLevel(rec.steals[t][places[j]], least, most) == level; j++ {
			}
			if level > 0 {
				fmt.Fprintf(&levels[level], "M%.2f %.2fh%.2fv%.2fh-%.2fz", float64(from)*cell, float64(i)*cell, float64(j-from)*cell, cell, float64(j-from)*cell)
			}
		}
	}
	for level := range levels {
		if levels[level].Len() > 0 {
			fmt.Fprintf(&b, "<path class=\"h%d\" d=%q/>", level, levels[level].String())
		}
	}
	if n <= titled {
		for i, t := range places {
			for j, v := range places {
				if count := rec.steals[t][v]; count > 0 {
					class := "low"
					if heatLevel(count, least, most) > heatLevels/2 {
						class = "high"
					}
					fmt.Fprintf(&b, "<text class=%q x=\"%.1f\" y=\"%.1f\">%s<title>%s stole %d times from %s</title></text>",
						class, (float64(j)+0.5)*cell, (float64(i)+0.5)*cell+4, short(float64(count)), names[i], count, names[j])
				}
			}
		}
	}
	for i := 1; i < n; i++ {
		if nodes[i] != nodes[i-1] {
			fmt.Fprintf(&b, "<path class=\"border\" d=\"M0 %.2fH%dM%.2[1]f 0V%[2]d\"/>", float64(i)*cell, size)
		}
	}
	b.WriteString("</g></svg>")
	return b.String()
}

const (
	heatLevels = 6
	titled     = 16 // with so many rows or fewer, the cells of a heat map have their numbers
)

// heatLevel returns the colour of a count: 0 for none, otherwise by its logarithm, from the least to the most of all
// counts that are not 0.
func heatLevel(count, least, most uint64) int {
	switch {
	case count == 0:
		return 0
	case least == most:
		return heatLevels
	}
	return 1 + int((heatLevels-1)*math.Log(float64(count)/float64(least))/math.Log(float64(most)/float64(least))+1e-9)
}

// step returns the least power of two that is not below least: so many rows share a label.
func step(least float64) int {
	n := 1
	for float64(n) < least {
		n *= 2
	}
	return n
}

// histogram draws all durations, and in front of them those of the last minute, each as shares of the fullest bar. A
// bar is half a power of two wide.
func histogram(all, recent inspect.Histogram) string {
	const w, h, perOctave = 560, 130, 2
	if all.Count == 0 {
		return "<p class=\"none\">None yet.</p>"
	}
	bar := func(d time.Duration) int { return int(math.Floor(math.Log2(float64(max(d, 1))) * perOctave)) }
	first, last := bar(all.Buckets[0].UpTo)-1, bar(all.Max())+1
	width := float64(w) / float64(last-first+1)
	var b strings.Builder
	fmt.Fprintf(&b, "<svg class=\"histogram\" role=\"img\" aria-label=\"histogram\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\">", w, h+20)
	for _, part := range []struct {
		class string
		h     inspect.Histogram
	}{{"ever", all}, {"recent", recent}} {
		counts := make([]uint64, last-first+1)
		for _, bucket := range part.h.Buckets {
			counts[min(max(bar(bucket.UpTo)-first, 0), len(counts)-1)] += bucket.Count
		}
		most := max(slices.Max(counts), 1)
		for i, n := range counts {
			if n > 0 {
				high := math.Max(1.5, float64(h)*float64(n)/float64(most))
				fmt.Fprintf(&b, "<rect class=%q x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%d up to %v</title></rect>",
					part.class, float64(i)*width+0.5, float64(h)-high, width-1, high, n, inspect.Short(time.Duration(math.Exp2(float64(first+i+1)/perOctave))))
			}
		}
	}
	fmt.Fprintf(&b, "<path class=\"axis\" d=\"M0 %dH%d\"/>", h, w)
	for d := time.Nanosecond; d <= 24*time.Hour; d *= 10 {
		if x := (math.Log2(float64(d))*perOctave - float64(first)) * width; x >= 0 && x <= w-30 {
			fmt.Fprintf(&b, "<path class=\"axis\" d=\"M%.1f %dv4\"/><text x=\"%.1f\" y=\"%d\">%v</text>", x, h, x, h+16, d)
		}
	}
	b.WriteString("</svg>")
	return b.String()
}

// between returns what was counted from one moment to a later one.
func between(then, now inspect.Histogram) (h inspect.Histogram) {
	counted := make(map[time.Duration]uint64, len(then.Buckets))
	for _, b := range then.Buckets {
		counted[b.UpTo] = b.Count
	}
	for _, b := range now.Buckets {
		if n := b.Count - min(counted[b.UpTo], b.Count); n > 0 {
			h.Buckets = append(h.Buckets, inspect.Bucket{UpTo: b.UpTo, Count: n})
			h.Count += n
		}
	}
	return h
}

// picture draws the machine, and marks the CPUs to which workers are bound.
func (rec *record) picture(m *numa.Topology) string {
	if m == nil {
		return "<p class=\"none\">The system does not tell.</p>"
	}
	if rec.drawn == rec.layout {
		return rec.machine
	}
	workers := make(map[int][]int)
	for _, r := range rec.rows {
		for _, cpu := range r.cpus {
			workers[cpu] = append(workers[cpu], r.worker)
		}
	}
	seats := make(map[int]string)
	for cpu, bound := range workers {
		verb := "worker"
		if len(bound) > 1 {
			verb = "workers"
		}
		slices.Sort(bound)
		seats[cpu] = verb + " " + inspect.CPUList(bound)
	}
	tree := drawing.New(m)
	rec.machine = "<div class=\"scroll\">" + tree.Figure(seats) + "</div>"
	for _, note := range tree.Notes {
		rec.machine += "<p>" + html.EscapeString(note) + "</p>"
	}
	rec.drawn = rec.layout
	return rec.machine
}

// short writes a number in few characters.
func short(v float64) string {
	for _, unit := range []string{"", "k", "M", "G", "T"} {
		switch {
		case v < 10 && v != math.Trunc(v):
			return fmt.Sprintf("%.1f%s", v, unit)
		case v < 999.5:
			return fmt.Sprintf("%.0f%s", v, unit)
		}
		v /= 1000
	}
	return fmt.Sprintf("%.3g", v)
}
