package inspect

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Snapshot is what goes on in a pool at a moment. While the pool works, its parts may be of slightly different moments.
type Snapshot struct {
	Pool    string // the pool in a line
	At      time.Time
	Load    Load
	Workers []Worker // without idle ones
	Waiters []Waiter // functions whose tasks wait, those first that have waited for longest in all
	Idle    int      // workers that have nothing to do, and sleep or are about to
	Queues  []Queue  // those that are not empty
	Circles []string // circles of tasks that wait for one another, in words: they hang, unless a context ends one of the waits
	Slow    []Slow   // the last slow tasks, in a pool with WithSlowTask

	Dependents []Dependent // tasks that wait for futures, see pool.After
}

// Worker is a goroutine that computes in a pool, or waits.
type Worker struct {
	ID      int    // see pool.Worker.ID: stand-ins and guests have numbers, too
	Role    string // "worker", "stand-in" for a worker that waits, or "guest" from outside
	Place   int    // of its queues and counters, the index in [Stats].Workers; -1 for none
	Node    int    // the system's number of its memory node
	State   State
	Does    string // the name of the function, or of the task; empty if it runs neither
	Source  string // file:line at which the function begins, or, while it waits, waits; empty if that is not known
	ForWhom string // whose fork or child it runs, if that is another worker's
	For     time.Duration
	Known   bool   // whether For is known: always while it waits, otherwise with WithTimings or WithSlowTask
	Waits   string // what it waits in: a call of heist's such as Future.Wait, or what Go's runtime says, such as chan receive
	Noticed bool   // the pool was not told of the wait, and has noticed it, see pool.Pool.Block
	WaitsOn string // what must happen for the wait to end, if that is known
}

// State is what a worker does.
type State string

const (
	Runs     State = "runs"
	Waits    State = "waits"
	Searches State = "searches" // or is between two tasks
	Parked   State = "parked"   // sleeps
	Away     State = "away"     // no worker computes in the place: Resize has closed it, or it has been lent and not taken
)

// String describes the worker in words, such as "main.handle waits in Future.Wait, for main.load on worker 3".
func (w Worker) String() string {
	does := w.Does
	if w.ForWhom != "" {
		does = strings.TrimSuffix("a part of "+w.ForWhom+": "+does, ": ")
	}
	s := does
	if w.State == Waits {
		s += " waits in " + w.Waits
	}
	if w.WaitsOn != "" {
		s += ", for " + w.WaitsOn
	}
	if w.Source != "" {
		s += ", " + w.Source
	}
	if w.Noticed {
		s += ", noticed"
	}
	return s
}

// Waiter is a function whose tasks wait in something that the pool was not told of, lately.
type Waiter struct {
	Function string
	Source   string        // file:line at which it begins
	Tasks    uint64        // of the function, that have begun; older ones count less
	Share    float64       // of them that have waited, at most 1
	Mean     time.Duration // of their waits
}

// Noticed is how many tasks wait for something that the pool was not told of, and has noticed.
func (s Snapshot) Noticed() (n int) {
	for _, w := range s.Workers {
		if w.Noticed {
			n++
		}
	}
	return n
}

// allWait says whether nothing can go on by itself.
func (s Snapshot) allWait() bool {
	computes := func(w Worker) bool { return w.State != Waits }
	timed := s.Load.Delayed
	for _, d := range s.Dependents {
		timed -= d.Tasks
	}
	return len(s.Workers) > 0 && len(s.Circles) == 0 && s.Load.Queued.Total()+max(timed, 0) == 0 && !slices.ContainsFunc(s.Workers, computes)
}

// Dependent is tasks of one name that have not begun, because they wait for the same futures.
type Dependent struct {
	Does     string   // the name of the function, or of the task
	WaitsFor []string // the names of the functions whose futures are not done, each once
	Tasks    int
}

// Queue is one of a pool's queues.
type Queue struct {
	Name   string
	Length int
}

// Slow is a task that runs, or ran, longer than WithSlowTask allows.
type Slow struct {
	Pool   string
	Worker int           // its ID
	Task   string        // the name of the function, or of the task
	Source string        // file:line at which the function begins; empty if that is not known
	Took   time.Duration // until now, or until it ended
	Ended  bool
	At     time.Time // when it was found
	Stack  string    // of its goroutine; empty if it has ended
}

// String returns the report in a line, without the stack.
func (s Slow) String() string {
	verb := "runs for"
	if s.Ended {
		verb = "ran for"
	}
	task := s.Task
	if s.Source != "" {
		task += ", " + s.Source + ","
	}
	return fmt.Sprintf("%s: worker %d: %s %s %v", s.Pool, s.Worker, task, verb, Short(s.Took))
}

// String returns the snapshot as text.
func (s Snapshot) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\n", s.Pool, s.At.Format(time.RFC3339Nano), s.Load)
	for _, c := range s.Circles {
		fmt.Fprintf(&b, "\nA circle, which hangs unless a context ends one of its waits:\n%s\n", c)
	}
	if s.allWait() {
		b.WriteString("\nAll wait, and nothing is queued: they wait for something outside of the pool, or for one another by channels or locks.\n")
	}
	if len(s.Workers) > 0 {
		b.WriteByte('\n')
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "worker\trole\tplace\tnode\tstate\tfor\tfunction\t\n")
		for _, w := range s.Workers {
			place, since := "-", "-"
			if w.Place >= 0 {
				place = fmt.Sprint(w.Place)
			}
			if w.Known {
				since = Short(w.For).String()
			}
			fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%s\t%s\t%s\t\n", w.ID, w.Role, place, w.Node, w.State, since, w)
		}
		_ = t.Flush() // a strings.Builder takes everything
		if n := s.Load.Workers; slices.ContainsFunc(s.Workers, func(w Worker) bool { return w.ID >= n }) {
			fmt.Fprintf(&b, "\nStand-ins for workers that wait, and guests, have numbers, too, so there are more than %d.\n", n)
		}
	}
	fmt.Fprintf(&b, "\n%d idle\n", s.Idle)
	if len(s.Queues) > 0 {
		b.WriteByte('\n')
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "queue\ttasks\t\n")
		for _, q := range s.Queues {
			fmt.Fprintf(t, "%s\t%d\t\n", q.Name, q.Length)
		}
		_ = t.Flush()
	}
	if len(s.Dependents) > 0 {
		b.WriteByte('\n')
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "not begun\ttasks\twaits for\t\n")
		for _, d := range s.Dependents {
			fmt.Fprintf(t, "%s\t%d\t%s\t\n", d.Does, d.Tasks, strings.Join(d.WaitsFor, ", "))
		}
		_ = t.Flush()
	}
	if len(s.Waiters) > 0 {
		b.WriteByte('\n')
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "waits, as was noticed\tsource\ttasks\tof them waited\tfor, on average\t\n")
		for _, w := range s.Waiters {
			fmt.Fprintf(t, "%s\t%s\t%d\t%.0f%%\t%s\t\n", w.Function, w.Source, w.Tasks, 100*w.Share, Short(w.Mean))
		}
		_ = t.Flush()
	}
	for _, slow := range s.Slow {
		fmt.Fprintf(&b, "\nslow: %v\n%s", slow, slow.Stack)
	}
	return trimLines(b.String())
}
