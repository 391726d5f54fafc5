package pool

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"github.com/seed53057037/heist/internal/panics"
)

// PanicError is a panic that happened in a function of the user and continues, often on another goroutine,
// in the one that waits for it or has called: at a [Join] whose fork was stolen, in a loop, or at
// [Group.Wait]. It is the value of the second panic.
type PanicError struct {
	// Value is what panic was called with.
	Value any
	// Stack is the stack of the goroutine that panicked, as debug.Stack gives it.
	Stack []byte

	here bool // the panic has not left its goroutine, whose stack the runtime shows
}

// newPanicError is called in a deferred function, while the stack still stands. A
// panic that came from yet another goroutine keeps its first stack.
func newPanicError(v any) *PanicError {
	switch e, ok := v.(*PanicError); {
	case !ok:
		return &PanicError{Value: v, Stack: debug.Stack()}
	case e.here: // now it leaves
		return &PanicError{Value: e.Value, Stack: e.Stack}
	default:
		return e
	}
}

// panicHere is newPanicError for a panic that goes on in the same goroutine.
func panicHere(v any) *PanicError {
	if e, ok := v.(*PanicError); ok {
		return e
	}
	e := newPanicError(v)
	e.here = true
	return e
}

// Error returns the value and the stack; without the stack if the panic comes from the goroutine that recovers it. So
// an uncaught PanicError prints each stack once.
func (e *PanicError) Error() string {
	if e.here {
		return fmt.Sprint(e.Value)
	}
	return fmt.Sprintf("%v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the value if it is an error, for errors.Is and errors.As.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ending says how a function ended: nil if it returned, a [*PanicError], the *cancelScope of a
// cancelled call, or goexit.
type ending any

type goexit struct{}

// endingOf returns the ending of a function that did not return, given what recover returned
// in its deferred call, from which endingOf is called.
func endingOf(recovered any) ending {
	switch v := panics.Recovered(recovered).(type) {
	case nil:
		return goexit{}
	case *cancelScope:
		return v
	default:
		return newPanicError(v)
	}
}

// resume continues the ending in the caller.
func resume(e ending) {
	switch e.(type) {
	case nil:
	case goexit:
		runtime.Goexit()
	default:
		panic(e)
	}
}

// gravestEnding keeps the gravest of the endings that it is given, of equals the first. Any goroutine may write it.
type gravestEnding struct{ atomic.Pointer[ending] }

func (g *gravestEnding) note(e ending) {
	for old := g.Load(); old == nil || gravity(e) > gravity(*old); old = g.Load() {
		if g.CompareAndSwap(old, &e) {
			return
		}
	}
}

// gravity says which of several endings goes on in the caller: a panic, or else a runtime.Goexit, or else the unwinding of a call.
func gravity(e ending) int {
	switch e.(type) {
	case *PanicError:
		return 2
	case goexit:
		return 1
	default:
		return 0
	}
}

// graver returns the graver of two endings, the first of equals.
func graver(a, b ending) ending {
	if gravity(b) > gravity(a) {
		return b
	}
	return a
}

// outdo is called in a deferred call of a function that did not return, and whose forks or children have ended by e. A panic that is on its way
// goes on. If the function called runtime.Goexit, e does.
func outdo(e *PanicError) {
	if panics.Recovered(nil) == nil {
		panic(e)
	}
}

// detached handles a panic of a task that no goroutine waits for, in a deferred call.
func (p *Pool) detached(v any) {
	p.panicked.Add(1)
	e := newPanicError(v)
	if p.onPanic == nil {
		crash(e)
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := panics.Recovered(recover()); v != nil {
			crash(newPanicError(v))
		}
	}()
	p.onPanic(e)
	returned = true
}

// crash ends the process as an uncaught panic does.
func crash(v any) {
	go panic(v) // no function can recover it there
	select {}
}

// fatal stops the process: an invariant of the scheduler does not hold, so nothing
// that would run from here on can be trusted.
func fatal(broken string) {
	debug.SetTraceback("all")
	crash("heist: this is a bug in heist, please report it, or a worker was used in another goroutine, " +
		"which a build with the tag heistdebug finds: " + broken)
}
