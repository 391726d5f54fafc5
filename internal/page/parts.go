package page

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed53057037/heist/pool/inspect"
)

//go:embed static
var static embed.FS

var templates = template.Must(template.New("").ParseFS(static, "static/page.html"))

// render executes one of the templates.
func render(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // a template does not fit its data
	}
	return b.String()
}

// partNames are the parts of a pool's page other than the strip, by the ids of the elements that they fill.
var partNames = []string{"title", "circles", "tiles", "timings", "heat", "tiers", "machine", "counters", "places", "config", "slow", "dump"}

// part returns a part by its name. Under the recorder's mu.
func (rec *record) part(name string, p Process) string {
	if rec.parts == nil {
		rec.parts = make(map[string]string)
	}
	if s, ok := rec.parts[name]; ok {
		return s
	}
	s := rec.make(name, p)
	rec.parts[name] = s
	return s
}

func (rec *record) make(name string, p Process) string {
	switch name {
	case "title":
		return template.HTMLEscapeString(rec.snapshot.Pool)
	case "tiles":
		return render("tiles", rec.tiles())
	case "timings":
		return render("timings", rec.histograms())
	case "heat":
		return rec.heat()
	case "machine":
		return rec.picture(p.Machine())
	case "counters":
		return render("counters", counters(rec.stats))
	case "places":
		return places(rec.stats.Workers)
	case "dump":
		return template.HTMLEscapeString(rec.snapshot.String())
	}
	return render(name, rec)
}

// Fields of the record that the templates read.

func (rec *record) Circles() []string           { return rec.snapshot.Circles }
func (rec *record) Tiers() []inspect.TierStats  { return rec.stats.Tiers }
func (rec *record) Settings() []inspect.Setting { return rec.config.Settings }

// places returns the table of the counters by place. It is not a template, because templates take ten times as long
// and there may be hundreds of rows.
func places(all []inspect.WorkerStats) string {
	var b strings.Builder
	b.WriteString("<table><thead><tr>")
	for _, name := range []string{"place", "role", "state", "queued", "tasks", "looks", "steals", "items", "lost races", "parks", "wakes", "fruitless", "lent", "gave way", "displaced"} {
		fmt.Fprintf(&b, "<th>%s</th>", name)
	}
	b.WriteString("</tr></thead><tbody>\n")
	for i, w := range all {
		fmt.Fprintf(&b, "<tr><th>%d</th><td>%s</td><td>%s</td>", i, w.Role, w.State)
		for _, n := range []uint64{uint64(w.Queued), w.Tasks, w.Looks, w.Steals, w.Items, w.LostRaces, w.Parks, w.Wakes, w.Fruitless, w.Lent, w.GaveWay, w.Displaced} {
			b.WriteString("<td>")
			b.WriteString(strconv.FormatUint(n, 10))
			b.WriteString("</td>")
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table>")
	return b.String()
}

type tile struct {
	Name, About, Value, Most string
	Chart                    template.HTML
}

func (rec *record) tiles() (tiles []tile) {
	for i, g := range gauges {
		t := tile{Name: g.name, About: g.about, Value: "–"}
		svg, most := rec.sparkline(i)
		if len(rec.columns) > 0 {
			t.Value = short(rec.mean(i)) + g.unit
			t.Most = short(most) + g.unit
		}
		t.Chart = template.HTML(svg)
		tiles = append(tiles, t)
	}
	return tiles
}

type timing struct {
	Name, About string
	All, Recent inspect.Histogram
	Chart       template.HTML
}

func (rec *record) histograms() (all []timing) {
	then, now := rec.timings[0], rec.timings[len(rec.timings)-1]
	if s, ok := rec.config.Setting("WithTimings"); !ok || s.Chosen != "true" {
		return nil
	}
	for _, t := range []timing{
		{Name: "wait", About: "from queued to begun, of one task in 16", All: now.Wait, Recent: between(then.Wait, now.Wait)},
		{Name: "run", About: "from begun to ended, waits included", All: now.Run, Recent: between(then.Run, now.Run)},
	} {
		t.Chart = template.HTML(histogram(t.All, t.Recent))
		all = append(all, t)
	}
	return all
}

type counter struct {
	Name, About string
	Value       any
}

// counters returns the numbers of a pool's statistics and the sums over its places, by their names in inspect.Stats.
func counters(s inspect.Stats) (all []counter) {
	for _, n := range inspect.Numbers() {
		c := counter{Name: n.Field, About: n.About, Value: n.Of(&s)}
		if n.Unit == "ns" {
			c.Value = inspect.Short(time.Duration(n.Of(&s)))
		}
		all = append(all, c)
	}
	return all
}

// slowTask is a function whose tasks took too long, of the last ones that a pool remembers.
type slowTask struct {
	Task, Source, Stack string
	Times               int
	Longest             time.Duration
	Last                time.Time
}

// Slow returns the functions whose tasks took too long, the latest first.
func (rec *record) Slow() (all []slowTask) {
	for _, s := range slices.Backward(rec.snapshot.Slow) {
		i := slices.IndexFunc(all, func(t slowTask) bool { return t.Task == s.Task && t.Source == s.Source })
		if i < 0 {
			i = len(all)
			all = append(all, slowTask{Task: s.Task, Source: s.Source, Last: s.At})
		}
		t := &all[i]
		t.Times++
		t.Longest = inspect.Short(max(t.Longest, s.Took))
		t.Stack = cmp.Or(t.Stack, s.Stack)
	}
	return all
}
