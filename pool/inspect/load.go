package inspect

import "fmt"

// Load is what a pool does at the moment. The numbers may be of slightly different moments; each is right for its own.
type Load struct {
	Workers   int // workers that may compute at a time, see Pool.Resize; those whose waits are over go on beside them
	Running   int // workers that compute
	Searching int // workers that look for something to do
	Parked    int // workers that sleep
	Waiting   int // tasks that wait, and have lent their places: not counted above

	CallersInside  int // goroutines from outside that compute, see Pool.Run
	CallersWaiting int // goroutines from outside that wait to be admitted, see WithCallers

	Queued  Queued // tasks that have not begun
	Delayed int    // tasks whose delay has not passed, or that wait for futures (After)
}

// Queued counts tasks in queues. Tasks that lie at a worker count as normal, whatever their priority was in the injector.
// Functions that wait in a group because of pool's Group.AtMost lie in no queue.
type Queued struct{ High, Normal, Low int }

// Total returns how many tasks there are.
func (q Queued) Total() int { return q.High + q.Normal + q.Low }

// String returns the load in a line.
func (l Load) String() string {
	workers := "workers"
	if l.Workers == 1 {
		workers = "worker"
	}
	return fmt.Sprintf("%d %s: %d running, %d searching, %d parked; %d tasks wait; callers: %d inside, %d wait; queued: %d high, %d normal, %d low; %d delayed",
		l.Workers, workers, l.Running, l.Searching, l.Parked, l.Waiting, l.CallersInside, l.CallersWaiting, l.Queued.High, l.Queued.Normal, l.Queued.Low, l.Delayed)
}
