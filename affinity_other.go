//go:build !linux

package heist

import (
	"fmt"
	"runtime"
)

type affinity struct{}

func (affinity) restore() error { return nil }

func bind([]int) (affinity, error) {
	return affinity{}, fmt.Errorf("%w (%s)", ErrPinning, runtime.GOOS)
}

func rebind([]int) error { return ErrPinning }

func allowed() ([]int, error) {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus, nil
}
