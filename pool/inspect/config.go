package inspect

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Config is how a pool is configured: for each setting what was asked for, what was chosen, and why.
type Config struct {
	Name     string
	Settings []Setting
	Workers  []Seat
}

// Setting is a setting, by the name of the option or field that sets it, or a fact about the machine or process that
// matters.
type Setting struct {
	Name   string
	Asked  string // empty if nothing was asked for
	Chosen string
	Why    string // empty if there is nothing to say
}

// Seat is where a worker runs.
type Seat struct {
	Worker int   // 0 is the first
	Node   int   // the system's number of its memory node
	CPUs   []int // that it is bound to; nil if it is not bound
}

// Setting returns the setting with a name.
func (c Config) Setting(name string) (s Setting, ok bool) {
	for _, s := range c.Settings {
		if s.Name == name {
			return s, true
		}
	}
	return Setting{}, false
}

// String returns the configuration as tables.
func (c Config) String() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "setting\tchosen\tasked\twhy\n")
	for _, s := range c.Settings {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.Name, s.Chosen, orDash(s.Asked), s.Why)
	}
	fmt.Fprintf(t, "\nworkers\tnode\tCPUs\t\n")
	for i := 0; i < len(c.Workers); {
		first := c.Workers[i]
		n := 1
		for i+n < len(c.Workers) && first.CPUs == nil && c.Workers[i+n].CPUs == nil && c.Workers[i+n].Node == first.Node {
			n++ // workers that share a row
		}
		workers, cpus := fmt.Sprint(first.Worker), "not bound"
		if n > 1 {
			workers = fmt.Sprintf("%d to %d", first.Worker, c.Workers[i+n-1].Worker)
		}
		if first.CPUs != nil {
			cpus = CPUList(first.CPUs)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t\n", workers, first.Node, cpus)
		i += n
	}
	_ = t.Flush() // a strings.Builder takes everything
	return trimLines(b.String())
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// trimLines removes the blanks that tables leave at the ends of lines.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

// CPUList returns CPUs as the kernel writes them, such as 0-3,8. They must be in ascending order.
func CPUList(cpus []int) string {
	var b strings.Builder
	for i := 0; i < len(cpus); {
		n := 1
		for i+n < len(cpus) && cpus[i+n] == cpus[i]+n {
			n++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, cpus[i])
		if n > 1 {
			fmt.Fprintf(&b, "-%d", cpus[i+n-1])
		}
		i += n
	}
	return b.String()
}
