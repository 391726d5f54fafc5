//go:build !linux

package heist

func isolate([]int) error           { return ErrPinning }
func (i *Isolation) restore() error { return ErrPinning }
