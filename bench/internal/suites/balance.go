package suites

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

// balanceSuite measures the standard picture of work stealing: four lanes of 100, 100, 200
// and 350 ms of work. Divided statically among four workers they take 350 ms, and almost half
// of the workers' time is idle; balanced they would take 750/4 = 187.5 ms.
//
// A lane consists of tasks of 1 ms, or 0.1 ms in a glance. A task is a fixed number of
// rounds of a 64-bit xorshift, the same in every lane, calibrated once before the first run.
// The worker that begins a lane queues its tasks.
//
// T1 is the time in tasks, on the wall clock, and D the longest task.
//
// Utilisation is the time that a worker spent in tasks, on the wall clock, divided by
// the time of the run.
func balanceSuite() runner.Suite {
	var lanes lanes
	impl := func(name string, start func(runner.Env) (work func(*lanesRun) error, stop func(), err error)) runner.Impl {
		return lappedIn(time.Millisecond, name, func(env runner.Env) (lap, func(), error) {
			work, stop, err := start(env)
			return func() (runner.Lap, error) { return lanes.lap(env, work) }, stop, err
		})
	}
	return runner.Suite{
		Name:  "balance",
		About: "uneven lanes of work, divided statically and by stealing",
		Cases: []runner.Case{{
			Name:    "lanes",
			About:   "four lanes of 100, 100, 200 and 350 tasks of 1 ms (0.1 ms in the short form); time for all",
			Metrics: lower("ms"),
			Workers: asked,
			Setup:   lanes.calibrate,
			Impls: []runner.Impl{
				impl("heist", func(env runner.Env) (func(*lanesRun) error, func(), error) {
					p, stop, err := newPool(env)
					return func(r *lanesRun) error {
						r.bounds = boundsOf(p)
						return runOnWorker(p, r.steal)
					}, stop, err
				}),
				impl("static", func(env runner.Env) (func(*lanesRun) error, func(), error) {
					return func(r *lanesRun) error {
						var workers sync.WaitGroup
						for id := range env.Workers {
							workers.Go(func() {
								for lane := id; lane < len(laneTasks); lane += env.Workers {
									for task := range laneTasks[lane] {
										r.task(id, id, lane, task)
									}
								}
							})
						}
						workers.Wait()
						return nil
					}, nil, nil
				}),
			},
		}},
	}
}

// laneTasks is how many tasks each lane has.
var laneTasks = [4]int{100, 100, 200, 350}

// Lanes returns how many tasks of a millisecond each lane of suite balance has.
func Lanes() []int { return slices.Clone(laneTasks[:]) }

// lanes is the work of the case.
type lanes struct {
	rounds int    // of a task
	answer uint64 // of a task
}

// calibrate makes a task take the time that it should.
func (l *lanes) calibrate(env runner.Env) (teardown func(), err error) {
	length := time.Millisecond
	if env.Glance {
		length /= 10
	}
	if env.Tiny {
		length /= 1000
	}
	l.rounds = gauge.Rounds(length)
	l.answer = gauge.Busy(l.rounds)
	return func() {}, nil
}

// lanesRun is one run.
type lanesRun struct {
	lanes
	done    [4][]int    // how often each task ran; written by the worker that runs it
	workers []laneShift // and one for the worker's stand-ins

	bounds func(t1, d time.Duration) (string, []runner.Extra) // from boundsOf, where there is stealing
}

func (r *lanesRun) seat(w *pool.Worker) int { return seat(w, len(r.workers)-1) }

// laneShift is the work of one worker in a run. Only that worker writes it, and it has its
// cache lines to itself.
type laneShift struct {
	tasks, stolen int
	busy, away    time.Duration // in all tasks, and in stolen ones
	longest       time.Duration // of its tasks
	_             [128 - 40]byte
}

// steal begins each lane as a task, which queues the tasks of the lane.
func (r *lanesRun) steal(w *pool.Worker) {
	w.Scope(func(s *pool.Scope) {
		for lane, tasks := range laneTasks {
			s.Go(w, func(w *pool.Worker) {
				owner := r.seat(w)
				for task := range tasks {
					s.Go(w, func(w *pool.Worker) { r.task(r.seat(w), owner, lane, task) })
				}
			})
		}
	})
}

// task runs a task of a lane on one worker. Owner is the worker that queued it.
func (r *lanesRun) task(worker, owner, lane, task int) {
	start := time.Now()
	if gauge.Busy(r.rounds) == r.answer {
		r.done[lane][task]++
	}
	took := time.Since(start)
	s := &r.workers[worker]
	s.tasks++
	s.busy += took
	s.longest = max(s.longest, took)
	if worker != owner {
		s.stolen++
		s.away += took
	}
}

func (l *lanes) lap(env runner.Env, work func(*lanesRun) error) (runner.Lap, error) {
	r := &lanesRun{lanes: *l, workers: make([]laneShift, env.Workers+1)}
	all := 0
	for lane, tasks := range laneTasks {
		r.done[lane] = make([]int, tasks)
		all += tasks
	}
	lap, err := timed(1, func() error { return work(r) })
	if err != nil {
		return lap, err
	}
	lap.Detail = r.utilisation(lap.Took)
	if r.bounds != nil {
		var t1, d time.Duration // no task waits for another
		for _, s := range r.workers {
			t1, d = t1+s.busy, max(d, s.longest)
		}
		var detail string
		detail, lap.Extra = r.bounds(t1, d)
		lap.Detail += detail
	}
	return lap, r.check(all)
}

// check says whether each task ran once, with the right answer.
func (r *lanesRun) check(want int) error {
	once := 0
	for _, tasks := range r.done {
		for _, times := range tasks {
			if times == 1 {
				once++
			}
		}
	}
	return runner.Check("the number of tasks done once", once, want)
}

// utilisation draws a bar for each worker: the tasks that it queued itself, and then, with
// another sign, those that it stole.
func (r *lanesRun) utilisation(elapsed time.Duration) string {
	var bars strings.Builder
	var total float64
	workers := len(r.workers) - 1
	for i, s := range r.workers {
		if i == workers && s.tasks == 0 {
			continue
		}
		share, away := s.busy.Seconds()/elapsed.Seconds(), s.away.Seconds()/elapsed.Seconds()
		total += share
		fmt.Fprintf(&bars, "%s: [%s] %3.0f%%  %v, %d tasks, %d of them stolen\n", seatName(i, workers),
			bar(share-away, away), 100*share, s.busy.Round(time.Millisecond/10), s.tasks, s.stolen)
	}
	fmt.Fprintf(&bars, "Utilisation: %.0f%% of %v\n", 100*total/float64(workers), elapsed.Round(time.Millisecond/10))
	return bars.String()
}
