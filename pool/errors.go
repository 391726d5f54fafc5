package pool

import "errors"

// What calls return besides the errors of the functions that they were given, the causes of contexts, and errors that say what a caller
// has done wrong.
var (
	// ErrClosed is returned for work that is given to a pool from outside after [Pool.Close] was called.
	ErrClosed = errors.New("pool: the pool is closed")
	// ErrFull is returned for a task for which the pool has no room, see [WithQueueBound], and to a caller that would have
	// to wait for other callers, see [WithCallers].
	ErrFull = errors.New("pool: as many tasks wait as WithQueueBound allows, or as many callers compute as WithCallers allows")
	// ErrGoexit is the error of a function of a [Group] or a [Future] that did not return but ended by runtime.Goexit.
	ErrGoexit = errors.New("pool: the function called runtime.Goexit")
	// ErrLate is the error of a [Future] whose function did not begin in time, see [StartBy].
	ErrLate = errors.New("pool: the function was not begun by its deadline (StartBy)")
	// ErrOwnWait is the error of a wait for a [Group] or a [Future] by one of its own functions.
	ErrOwnWait = errors.New("pool: a function waits for the group or future that it belongs to, which would never end")
)
