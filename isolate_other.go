//go:build !linux

package heist

func isolate([]int) error   { return ErrPinning }
func unisolate([]int) error { return ErrPinning }
