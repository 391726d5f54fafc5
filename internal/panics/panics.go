// Package panics tells a panic from a runtime.Goexit, for all code of heist that recovers panics of its users' functions.
package panics

import "runtime"

// Recovered returns the value of the panic that recover has stopped, or nil if there is none, because the goroutine ends
// by runtime.Goexit. v is what recover has returned. With GODEBUG=panicnil=1 that is nil after a panic(nil), too; the
// value is then a [*runtime.PanicNilError], as it is without this setting.
//
// Recovered(nil) may be asked without recover: it is nil if the goroutine ends by runtime.Goexit, and the panic that is on its way goes on.
//
// It must be called by the deferred call that called recover, or by a function that this one calls, and only if the
// function around it did not return. Cost: nothing if v is not nil, and else a look at the top of the stack.
func Recovered(v any) any {
	if v != nil {
		return v
	}
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		frame, more := frames.Next()
		switch frame.Function { // the first of the two on the stack is the caller of the deferred call
		case "runtime.gopanic":
			return new(runtime.PanicNilError)
		case "runtime.Goexit":
			return nil
		}
		if !more {
			return nil
		}
	}
}
