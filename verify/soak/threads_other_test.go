//go:build !linux

package soak

import "testing"

// threadCount does not count where the system does not tell.
type threadCount struct{}

func (threadCount) add(*run) {}

func (threadCount) requireNoneLeft(*testing.T) {}
