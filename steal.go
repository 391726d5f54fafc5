package heist

// StealResult is the outcome of an attempt to take work from a queue that other
// goroutines take from, too.
type StealResult uint8

const (
	// Empty means that the queue held nothing at some moment during the call.
	Empty StealResult = iota
	// Success means that the item returned now belongs to the caller.
	Success
	// Retry means that another goroutine was faster: there may be more work here.
	Retry
)

// String returns the result's name.
func (r StealResult) String() string {
	switch r {
	case Empty:
		return "empty"
	case Success:
		return "success"
	case Retry:
		return "retry"
	}
	return "unknown StealResult"
}
