package sched

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Options say how a program is explored. See explore.Options.
type Options struct {
	Preemptions int
	Random      int
	Changes     int
	Seed        uint64
	Steps       int
	Executions  int
	Buffers     bool
	Races       bool
}

// Result is what an exploration has done.
type Result struct {
	Executions int // different interleavings
	visits     int
	Pruned     int // that were begun, and given up because they differ from others only in the order of what commutes
	Steps      int // operations in all of them
	Longest    int // operations of the longest
	Complete   bool
	Failure    *Failure
	Schedule   string // of the failure
	Trace      string // of the failure
	Seed       uint64 // of the failure, if it was found at random
	Strategy   string // that found the failure
}

// Explore runs the program again and again: each interleaving within the bound, and then some at random.
func Explore(o Options, program func()) (r Result) {
	stop := watch()
	defer stop()
	if o.Executions > 0 {
		// First those with the fewest preemptions, so that a failure is as simple as can be.
		for bound := min(0, o.Preemptions); bound <= o.Preemptions; bound++ {
			s := &search{bound: bound, unbounded: bound < 0, reduce: bound < 0 && !o.Buffers, left: o.Executions - r.visits}
			if o.all(s, program, &r) {
				r.Strategy = "search"
				return r
			}
			if r.Complete = s.done; !s.cut {
				break // a larger bound would add nothing
			}
		}
	}
	if o.Random > 0 {
		measure := o.execution(&replay{})
		measure.run(program) // the same whatever the seed is, so that a seed stands for an execution
		s := &random{seed: o.Seed, changes: o.Changes, left: o.Random, choices: max(len(measure.schedule), 1)}
		if o.all(s, program, &r) {
			r.Strategy, r.Seed = "random", s.seed-1
		}
	}
	return r
}

// patience is how long an execution may take. One takes milliseconds.
const patience = 30 * time.Second

// begun counts executions, for watch.
var begun atomic.Int64

// watch ends the process if an execution does not end: a goroutine waits for something that is not rewritten, or
// loops without an operation.
func watch() (stop func()) {
	over := make(chan struct{})
	go func() {
		for last := int64(-1); ; {
			select {
			case <-over:
				return
			case <-time.After(patience):
			}
			now := begun.Load()
			if now == last {
				debug.SetTraceback("all")
				panic("explore: an execution does not end: a goroutine waits for something that is not rewritten, or loops without an operation of the explorer's")
			}
			last = now
		}
	}()
	return func() { close(over) }
}

// all runs executions until the strategy is done, or one fails.
func (o Options) all(s strategy, program func(), r *Result) (failed bool) {
	for s.begin() {
		x := o.execution(s)
		begun.Add(1)
		x.run(program)
		r.visits++
		if x.pruned {
			r.Pruned++
			continue
		}
		if x.failure == nil && !s.isNew() {
			continue
		}
		r.Executions++
		r.Steps += x.steps
		r.Longest = max(r.Longest, x.steps)
		if x.failure != nil {
			r.Failure, r.Schedule = x.failure, encode(x.schedule)
			again := Replay(o, r.Schedule, program)
			r.Trace = again.Trace
			if again.Failure == nil || again.Failure.kind != x.failure.kind {
				r.Trace += "\nA replay of the schedule does not fail in this way: the program depends on something else than the schedule.\n"
			}
			return true
		}
	}
	return false
}

func (o Options) execution(s strategy) *execution {
	x := &execution{strategy: s, limit: o.Steps, buffers: o.Buffers}
	if o.Races {
		x.clocks = newClocks()
	}
	return x
}

// Replay runs the program once, by a schedule of a Result, and traces it.
func Replay(o Options, schedule string, program func()) (r Result) {
	choices, err := decode(schedule)
	if err != nil {
		return Result{Failure: &Failure{Reason: err.Error()}}
	}
	x := o.execution(&replay{left: choices})
	x.tracer = newTracer()
	x.run(program)
	return Result{
		Executions: 1, Steps: x.steps, Longest: x.steps,
		Failure: x.failure, Schedule: encode(x.schedule), Trace: x.tracer.String(), Strategy: "replay",
	}
}

// encode writes a schedule: the choices, with repetitions as CHOICE*TIMES.
func encode(choices []int) string {
	var words []string
	for i := 0; i < len(choices); {
		n := 1
		for i+n < len(choices) && choices[i+n] == choices[i] {
			n++
		}
		word := strconv.Itoa(choices[i])
		if n > 1 {
			word += "*" + strconv.Itoa(n)
		}
		words = append(words, word)
		i += n
	}
	return strings.Join(words, ",")
}

func decode(schedule string) (choices []int, err error) {
	for word := range strings.FieldsFuncSeq(schedule, func(r rune) bool { return r == ',' }) {
		choice, times, found := strings.Cut(word, "*")
		n := 1
		if found {
			if n, err = strconv.Atoi(times); err != nil {
				return nil, fmt.Errorf("a schedule has the word %q: %w", word, err)
			}
		}
		c, err := strconv.Atoi(choice)
		if err != nil {
			return nil, fmt.Errorf("a schedule has the word %q: %w", word, err)
		}
		choices = append(choices, slices.Repeat([]int{c}, n)...)
	}
	return choices, nil
}

// replay chooses by a schedule, and the first option after its end.
type replay struct{ left []int }

func (r *replay) isNew() bool                   { return true }
func (r *replay) begin() bool                   { return true }
func (r *replay) executed(*execution, int) bool { return true }
func (r *replay) choose(x *execution, options []int, _ func(int) bool) int {
	if len(r.left) == 0 {
		return 0
	}
	at := slices.Index(options, r.left[0])
	if at < 0 {
		x.fail("schedule", fmt.Sprintf("the schedule does not fit the program: it chooses %d among %v", r.left[0], options), "")
		return 0
	}
	r.left = r.left[1:]
	return at
}

// random is PCT (Burckhardt, Kothari, Musuvathi and Nagarakatte, "A randomized scheduler with probabilistic guarantees of
// finding bugs", ASPLOS 2010): goroutines have random priorities, the first in priority runs, and at some random steps the one
// that runs falls behind all others. With n goroutines, k steps and d-1 changes, an execution finds a bug of depth d with
// a probability of at least 1/(n k^(d-1)).
type random struct {
	seed    uint64 // of the next execution
	changes int
	left    int
	choices int // so many an execution is taken to have

	rand       *rand.Rand
	at         []int // steps of changes
	priorities map[int]int
	lowest     int
	seen       int
}

func (r *random) begin() bool {
	if r.left == 0 {
		return false
	}
	r.left--
	r.rand = rand.New(rand.NewPCG(r.seed, 0))
	r.seed++
	r.priorities, r.lowest, r.seen = map[int]int{}, 0, 0
	r.at = r.at[:0]
	for range r.changes {
		r.at = append(r.at, 1+r.rand.IntN(r.choices))
	}
	return true
}

func (r *random) isNew() bool                   { return true }
func (r *random) executed(*execution, int) bool { return true }

func (r *random) choose(x *execution, options []int, _ func(int) bool) int {
	if &options[0] == &throughOrDelayed[0] {
		return r.rand.IntN(2)
	}
	r.seen++
	best := 0
	for i, o := range options {
		if _, ok := r.priorities[o]; !ok {
			r.priorities[o] = 1 + r.rand.IntN(1<<20)
		}
		if r.priorities[o] > r.priorities[options[best]] {
			best = i
		}
	}
	if slices.Contains(r.at, r.seen) {
		r.lowest--
		r.priorities[options[best]] = r.lowest
		return r.best(options)
	}
	return best
}

func (r *random) best(options []int) int {
	best := 0
	for i, o := range options {
		if r.priorities[o] > r.priorities[options[best]] {
			best = i
		}
	}
	return best
}
