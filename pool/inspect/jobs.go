package inspect

import "time"

// Jobs is what a worker that runs jobs of a queue, such as jetstream.Worker, has done since it was made, and what it has now.
type Jobs struct {
	Taken       uint64 // jobs that came
	Redelivered uint64 // of these, that had been delivered before
	Done        uint64 // acknowledged
	Failed      uint64 // whose function returned an error, panicked or called runtime.Goexit
	GivenBack   uint64 // that were not begun because the worker or the pool ended
	Dead        uint64 // stored as dead letters
	Extended    uint64 // times that the deadline of a job was extended

	Held      int           // jobs that have no answer yet
	Unstarted int           // of these, that have not begun
	Average   time.Duration // that a job takes, a moving average; 0 before the first
}

// JobSource is a worker whose jobs can be shown, as the packages in metrics do.
type JobSource interface {
	// Name is the value of the label or attribute by which its metrics are told from those of others.
	Name() string

	// Stats returns the counters. Any goroutine may call it.
	Stats() Jobs
}
