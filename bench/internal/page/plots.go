package page

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"html/template"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/seed53057037/heist/bench/internal/report"
)

// Colours are dark enough for the white card behind a plot, whatever the page's own background.
var (
	ours    = color.RGBA{0x25, 0x63, 0xeb, 0xff}
	theirs  = color.RGBA{0x94, 0xa3, 0xb8, 0xff}
	won     = color.RGBA{0x16, 0xa3, 0x4a, 0xff}
	evenly  = color.RGBA{0x94, 0xa3, 0xb8, 0xff}
	lost    = color.RGBA{0xdc, 0x26, 0x26, 0xff}
	ink     = color.RGBA{0x1e, 0x29, 0x3b, 0xff}
	faint   = color.RGBA{0xe2, 0xe8, 0xf0, 0xff}
	nothing = color.RGBA{0xf1, 0xf5, 0xf9, 0xff}
)

// Sizes, in points of the picture at its natural size.
const (
	wide    = 620
	half    = 400
	rowHigh = 17
	axes    = 62 // the height of title, axis and label
	barHigh = 10
)

// newPlot returns a plot with the fonts of the page. The picture keeps its text as text, so the reader's font draws it;
// the library's font has the widths of Arial and Helvetica.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: 9}
		style.Color = ink
	}
	p.Title.TextStyle.Font.Size = 11
	p.Title.Padding = 4
	p.X.Color, p.Y.Color = ink, ink
	p.BackgroundColor = color.White
	return p
}

// render returns the picture as an element of a page.
func render(p *plot.Plot, w, h vg.Length) (template.HTML, error) {
	c := vgsvg.New(w, h)
	p.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	_, picture, ok := strings.Cut(b.String(), "<svg")
	if !ok {
		return "", errors.New("the plot is no SVG")
	}
	return template.HTML(`<svg role="img" aria-label="` + html.EscapeString(p.Title.Text) + `"` + picture), nil
}

// bar is a value with the ends of its range.
type bar struct {
	label         string
	mid, min, max float64
	colour        color.Color
	text          string // beside it
}

// scale maps values to positions on an axis, on which bars begin at 0.
type scale struct {
	place func(v float64) float64
	ticks []plot.Tick // nil on a linear axis
	about string      // beside the unit
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
		s.ticks = append(s.ticks, plot.Tick{Value: power - origin, Label: report.Figure(math.Pow(10, power))})
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
		s.ticks = append(s.ticks, plot.Tick{Value: power, Label: label})
	}
	return s
}

// ranges are bars in the form that the library's error bars need.
type ranges struct {
	plotter.XYs
	plotter.XErrors
}

// plainTicks are the library's ticks with as many digits as they need.
func plainTicks(least, most float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(least, most)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = strconv.FormatFloat(t.Value, 'g', 6, 64)
		}
	}
	return ticks
}

// drawBars draws values one below the other, with their ranges, and a line at mark if that is not 0.
func drawBars(title, unit string, all []bar, s scale, mark float64, width vg.Length) (template.HTML, error) {
	p := newPlot(title)
	p.X.Label.Text = unit + s.about
	p.X.Tick.Marker = plot.TickerFunc(plainTicks)
	if s.ticks != nil {
		p.X.Tick.Marker = plot.ConstantTicks(s.ticks)
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	grid.Vertical.Color = faint
	p.Add(grid)
	names := make([]string, len(all))
	whiskers := ranges{make(plotter.XYs, len(all)), make(plotter.XErrors, len(all))}
	values := plotter.XYLabels{XYs: make(plotter.XYs, len(all)), Labels: make([]string, len(all))}
	for i, b := range all {
		row := float64(len(all) - 1 - i) // the first on top
		names[int(row)] = b.label
		at := s.place(b.mid)
		drawn, err := plotter.NewBarChart(plotter.Values{at}, barHigh)
		if err != nil {
			return "", err
		}
		drawn.Horizontal, drawn.XMin, drawn.Color, drawn.LineStyle.Width = true, row, b.colour, 0
		p.Add(drawn)
		whiskers.XYs[i] = plotter.XY{X: at, Y: row}
		whiskers.XErrors[i].Low, whiskers.XErrors[i].High = at-s.place(b.min), s.place(b.max)-at
		values.XYs[i] = plotter.XY{X: max(0, s.place(b.max)), Y: row}
		if mark > 0 { // the text must not overlap the line
			values.XYs[i].X = max(values.XYs[i].X, s.place(mark))
		}
		values.Labels[i] = b.text
	}
	if mark > 0 {
		line, err := plotter.NewLine(plotter.XYs{{X: s.place(mark), Y: -0.5}, {X: s.place(mark), Y: float64(len(all)) - 0.5}})
		if err != nil {
			return "", err
		}
		line.Color, line.Dashes = ink, []vg.Length{3, 3}
		p.Add(line)
	}
	errs, err := plotter.NewXErrorBars(whiskers)
	if err != nil {
		return "", err
	}
	errs.Color, errs.CapWidth = ink, 4
	labels, err := plotter.NewLabels(values)
	if err != nil {
		return "", err
	}
	labels.Offset = vg.Point{X: 4, Y: -3}
	for i := range labels.TextStyle {
		labels.TextStyle[i] = p.X.Tick.Label
		labels.TextStyle[i].XAlign, labels.TextStyle[i].YAlign = 0, 0
	}
	p.Add(errs, labels)
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(all))-0.4
	p.X.Min = min(p.X.Min, 0)
	return render(p, width, axes+rowHigh*vg.Length(len(all)))
}

// curve is the percentiles of one implementation.
type curve struct {
	label  string
	ours   bool
	points plotter.XYs // nines, and microseconds
}

// nines returns a percentile's position on the axis: 90% at 1, 99% at 2 and so on, and at most that of the last of
// count values.
func nines(percentile float64, count int64) float64 {
	return min(-math.Log10(max(1-percentile/100, 1e-12)), math.Log10(float64(max(count, 1))))
}

func drawCurves(title string, curves []curve) (template.HTML, error) {
	p := newPlot(title)
	p.X.Label.Text, p.Y.Label.Text = "percentile", "us"
	p.X.Tick.Marker = plot.ConstantTicks([]plot.Tick{
		{Value: 0, Label: "0"}, {Value: -math.Log10(0.5), Label: "50"}, {Value: 1, Label: "90"}, {Value: 2, Label: "99"},
		{Value: 3, Label: "99.9"}, {Value: 4, Label: "99.99"}, {Value: 5, Label: "99.999"},
	})
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faint, faint
	p.Add(grid)
	colours, err := brewer.GetPalette(brewer.TypeQualitative, "Dark2", 8)
	if err != nil {
		return "", err
	}
	for i, c := range curves {
		line, err := plotter.NewLine(c.points)
		if err != nil {
			return "", err
		}
		line.Color = colours.Colors()[i%8]
		line.Width = 1
		if c.ours {
			line.Width = 2
		} else {
			line.Dashes = []vg.Length{4, 2}
		}
		p.Add(line)
		p.Legend.Add(c.label, line)
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs, p.Legend.Padding = 6, -4, 2
	return render(p, half, 270)
}

// matrix is how often the worker of a row stole from the worker of a column.
type matrix [][]uint64

func (m matrix) Dims() (columns, rows int) { return len(m), len(m) }
func (m matrix) X(column int) float64      { return float64(column) }
func (m matrix) Y(row int) float64         { return float64(row) }

// Z puts the first thief on top. A worker does not steal from itself.
func (m matrix) Z(column, row int) float64 {
	thief := len(m) - 1 - row
	if thief == column {
		return math.NaN()
	}
	return float64(m[thief][column])
}

func drawMatrix(title string, m matrix) (template.HTML, error) {
	p := newPlot(title)
	p.X.Label.Text, p.Y.Label.Text = "victim", "thief"
	var blues palette.Palette
	blues, err := brewer.GetPalette(brewer.TypeSequential, "Blues", 9)
	if err != nil {
		return "", err
	}
	heat := plotter.NewHeatMap(m, blues)
	heat.NaN = nothing
	heat.Min, heat.Max = 0, max(heat.Max, 1)
	p.Add(heat)
	var counts plotter.XYLabels
	var names, above []string
	for i := range m {
		names, above = append(names, fmt.Sprint(i)), append(above, fmt.Sprint(len(m)-1-i))
		for j := range m {
			if z := m.Z(i, j); !math.IsNaN(z) {
				counts.XYs = append(counts.XYs, plotter.XY{X: float64(i), Y: float64(j)})
				counts.Labels = append(counts.Labels, fmt.Sprint(z))
			}
		}
	}
	labels, err := plotter.NewLabels(counts)
	if err != nil {
		return "", err
	}
	for i, at := range counts.XYs {
		style := p.X.Tick.Label
		style.XAlign, style.YAlign = text.XCenter, text.YCenter
		if m.Z(int(at.X), int(at.Y)) > 0.6*heat.Max {
			style.Color = color.White
		}
		labels.TextStyle[i] = style
	}
	p.Add(labels)
	p.NominalX(names...)
	p.NominalY(above...)
	return render(p, half, 340)
}
