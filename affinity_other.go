//go:build !linux

package heist

import (
	"fmt"
	"runtime"
)

type binding struct{}

func (*binding) renew() error { return ErrPinning }
func (*binding) undo() error  { return ErrPinning }

func bind([]int) (*binding, error) {
	return nil, fmt.Errorf("%w (%s)", ErrPinning, runtime.GOOS)
}

func allowed() ([]int, error) {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus, nil
}
