package inspect

import "time"

// Stats counts what a pool has done since it was made. While the pool works, the
// numbers may be of slightly different moments.
type Stats struct {
	// Workers has an entry for each place: those of the first workers, and those that Resize has added. See
	// [WorkerStats].Role.
	Workers []WorkerStats

	// Tiers has the sums over all thieves for each tier of victims, the nearest first, see
	// pool.Tuning's Latencies.
	Tiers []TierStats

	Waiting   int // tasks that wait at the moment, and have lent their places
	Cancelled int // cancelled calls whose functions have not all returned

	Submitted uint64 // tasks that were accepted; a task that waits in a group counts when it has its turn, or is dropped
	Refused   uint64 // tasks that were not accepted: ErrFull or ErrClosed
	Late      uint64 // tasks that were not begun by their deadline (StartBy)
	Skipped   uint64 // tasks that were cancelled before they began, by a context, a group's error or Future.Cancel
	Panicked  uint64 // functions of tasks, groups and futures that panicked
	Beside    uint64 // tasks for which a worker without a place was hired: a coroutine of iter.Pull waited, the pool closed, or none had begun for 10 ms where waits cannot be told
	Noticed   uint64 // waits that the pool was not told of, and has noticed
	Published uint64 // times that a worker published forks, perhaps several at once

	RefusedCallers uint64 // callers from outside that were not admitted: ErrFull or ErrClosed

	// How long workers were in tasks, forks and children of scopes, without waits, and how long they searched, without what they
	// left to others meanwhile. Measured with [Timings], so 0 without them.
	Computing, Searching time.Duration

	NoticedFor time.Duration // how long the noticed waits lasted that are over
}

// Role says for whom a place is.
type Role string

const (
	RoleWorker Role = "worker" // one of the workers that the pool began with
	RoleAdded  Role = "added"  // a worker that Resize, or GOMAXPROCS, has added
)

// WorkerStats counts what the workers have done in one place. A worker that waits lends its place; what its stand-in
// does counts there, too.
type WorkerStats struct {
	Role   Role
	State  State // at the moment: Runs, Searches, Parked or Away
	Queued int   // tasks in its queues at the moment

	Tasks     uint64 // tasks that it came to, skipped ones too
	Looks     uint64 // times that it looked through the others' queues
	Steals    uint64 // times that it found something there
	Items     uint64 // forks and tasks that it took there
	LostRaces uint64 // victims at which another thief was faster
	Parks     uint64 // times that it went to sleep
	Wakes     uint64 // times that it was woken
	Fruitless uint64 // of those, times that it found nothing to do
	Lent      uint64 // times that a worker waited and lent the place
	GaveWay   uint64 // times that it let other goroutines have its P
	Displaced uint64 // times that the system took it off the CPUs that it was bound to, or, if it is not bound, that it ran on another node than before
}

// TierStats counts what thieves did at victims that are equally far away. The victims are places, and rosters of guests
// that are not empty. Idle workers look again and again, so shares of steals tell more than numbers of attempts.
type TierStats struct {
	Name      string // such as "same core" or "nodes at distance 21"
	Attempts  uint64 // victims that were tried
	Steals    uint64 // of those, victims that had something
	LostRaces uint64 // of those, victims at which another thief was faster
	Items     uint64 // forks and tasks that were taken
}

// Total returns the sums over all places, and the tasks that were run beside them.
func (s Stats) Total() WorkerStats {
	t := WorkerStats{Tasks: s.Beside}
	for _, w := range s.Workers {
		t.Queued += w.Queued
		t.Tasks += w.Tasks
		t.Looks += w.Looks
		t.Steals += w.Steals
		t.Items += w.Items
		t.LostRaces += w.LostRaces
		t.Parks += w.Parks
		t.Wakes += w.Wakes
		t.Fruitless += w.Fruitless
		t.Lent += w.Lent
		t.GaveWay += w.GaveWay
		t.Displaced += w.Displaced
	}
	return t
}
