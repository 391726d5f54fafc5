// Package causes has the one rule for the errors of contexts: what ends because a context has ended returns the context's cause, which is
// also the context's Err, for errors.Is. So a handler that asks for context.DeadlineExceeded need not know whether somebody has given a cause.
package causes

import (
	"context"
	"errors"
)

// Of returns the error of a context that has ended; nil of one that has not.
func Of(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return &caused{cause, err}
}

// caused is the end of a context with a cause of its own.
type caused struct{ cause, err error }

func (e *caused) Error() string { return e.cause.Error() }

func (e *caused) Unwrap() []error { return []error{e.cause, e.err} }
