package soak

import (
	"errors"
	"fmt"
	"sync"
)

// faults are the first few errors of a program. Any goroutine may add one.
type faults struct {
	mu  sync.Mutex
	all []error
}

func (f *faults) fail(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) < 5 {
		f.all = append(f.all, fmt.Errorf(format, args...))
	}
}

// err returns them as one error, nil if there are none.
func (f *faults) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.all...)
}
