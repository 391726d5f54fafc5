package inspect

import "time"

// Number is one of the numbers of [Stats], as pages and metrics show it. [Numbers] has them all.
type Number struct {
	Field string // its name in Stats, or in the sum over all places, see [Stats.Total]
	Name  string // for metrics, such as tasks.submitted
	Unit  string // what is counted, such as task; ns for a time
	About string // a sentence
	Gauge bool   // it goes up and down; all others only grow
	Of    func(s *Stats) int64
}

// Numbers returns all numbers of [Stats], first those of a pool and then the sums over its places. What metrics and pages call
// them, and say of them, is from here.
func Numbers() []Number {
	total := func(of func(w *WorkerStats) uint64) func(*Stats) int64 {
		return func(s *Stats) int64 {
			t := s.Total()
			return int64(of(&t))
		}
	}
	return []Number{
		{"Waiting", "tasks.waiting", "task", "Tasks that wait, and have lent their places.", true, func(s *Stats) int64 { return int64(s.Waiting) }},
		{"Cancelled", "calls.cancelled", "call", "Cancelled calls whose functions have not all returned.", true, func(s *Stats) int64 { return int64(s.Cancelled) }},
		{"Submitted", "tasks.submitted", "task", "Tasks that were accepted.", false, func(s *Stats) int64 { return int64(s.Submitted) }},
		{"Refused", "tasks.refused", "task", "Tasks that were not accepted: the pool was full or closed.", false, func(s *Stats) int64 { return int64(s.Refused) }},
		{"RefusedCallers", "callers.refused", "caller", "Callers from outside that were not admitted: the pool was full or closed.", false, func(s *Stats) int64 { return int64(s.RefusedCallers) }},
		{"Late", "tasks.late", "task", "Tasks that were not begun by their deadline.", false, func(s *Stats) int64 { return int64(s.Late) }},
		{"Skipped", "tasks.skipped", "task", "Tasks that were cancelled before they began.", false, func(s *Stats) int64 { return int64(s.Skipped) }},
		{"Panicked", "panics", "panic", "Functions that panicked.", false, func(s *Stats) int64 { return int64(s.Panicked) }},
		{"Beside", "tasks.beside", "task", "Tasks that ran beside the places, for a coroutine or after the pool closed.", false, func(s *Stats) int64 { return int64(s.Beside) }},
		{"Noticed", "waits.noticed", "wait", "Waits that the pool was not told of, and has noticed because something was queued.", false, func(s *Stats) int64 { return int64(s.Noticed) }},
		{"NoticedFor", "waits.noticed", "ns", "Time in noticed waits that are over.", false, func(s *Stats) int64 { return int64(s.NoticedFor) }},
		{"Published", "forks.published", "time", "Times that a worker's forks became visible to thieves.", false, func(s *Stats) int64 { return int64(s.Published) }},
		{"Computing", "computing", "ns", "Time in tasks and forks, waits left out; 0 without WithTimings.", false, func(s *Stats) int64 { return int64(s.Computing) }},
		{"Searching", "searching", "ns", "Time in which workers looked for something to do, without what they left to others meanwhile; 0 without WithTimings.", false, func(s *Stats) int64 { return int64(s.Searching) }},

		{"Queued", "tasks.at_places", "task", "Tasks in the queues of places; those in injectors are not among them.", true, func(s *Stats) int64 { return int64(s.Total().Queued) }},
		{"Tasks", "tasks.run", "task", "Tasks that workers came to, skipped ones too.", false, total(func(w *WorkerStats) uint64 { return w.Tasks })},
		{"Looks", "looks", "look", "Times that a worker looked through the others' queues.", false, total(func(w *WorkerStats) uint64 { return w.Looks })},
		{"Steals", "steals", "steal", "Victims that had something to steal.", false, total(func(w *WorkerStats) uint64 { return w.Steals })},
		{"Items", "stolen_items", "item", "Forks and tasks that were stolen.", false, total(func(w *WorkerStats) uint64 { return w.Items })},
		{"LostRaces", "lost_races", "victim", "Victims at which another thief was faster.", false, total(func(w *WorkerStats) uint64 { return w.LostRaces })},
		{"Parks", "parks", "park", "Times that a worker went to sleep.", false, total(func(w *WorkerStats) uint64 { return w.Parks })},
		{"Wakes", "wakes", "wake", "Times that a worker was woken.", false, total(func(w *WorkerStats) uint64 { return w.Wakes })},
		{"Fruitless", "wakes.fruitless", "wake", "Times that a worker was woken and found nothing to do.", false, total(func(w *WorkerStats) uint64 { return w.Fruitless })},
		{"Lent", "places.lent", "time", "Times that a worker waited and lent its place.", false, total(func(w *WorkerStats) uint64 { return w.Lent })},
		{"GaveWay", "gave_way", "time", "Times that a worker let other goroutines have its P.", false, total(func(w *WorkerStats) uint64 { return w.GaveWay })},
		{"Displaced", "displaced", "time", "Times that the system ran a worker elsewhere: off its CPUs, or on another node if it is not bound.", false, total(func(w *WorkerStats) uint64 { return w.Displaced })},
	}
}

// Short rounds a time to three digits.
func Short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 || d/unit <= -1000 {
		unit *= 10
	}
	return d.Round(unit)
}
