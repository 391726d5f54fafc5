package pool

import "unsafe"

// task is a func(*Worker) in a form that queues of pointers can hold. A func value
// is a pointer to the function's code address and captured variables; task is what
// it points to. So queueing a function allocates nothing beyond the closure that
// the caller made.
type task struct{ _ uintptr }

func taskOf(f func(*Worker)) *task { return *(**task)(unsafe.Pointer(&f)) }

func (t *task) run(w *Worker) { (*(*func(*Worker))(unsafe.Pointer(&t)))(w) }
