//go:build !linux

package numa

import (
	"fmt"
	"runtime"
)

var errNotHere = fmt.Errorf("%w (%s)", ErrMemoryPolicy, runtime.GOOS)

func allowedNodes() ([]int, error) { return nil, errNotHere }

func mapPages(int) ([]byte, error) { return nil, errNotHere }

func unmapPages([]byte) error { return errNotHere }

func adviseHugePages([]byte) error { return errNotHere }

func setPolicy([]byte, Policy) error { return errNotHere }

func movePages([]byte, Policy) error { return errNotHere }

func nodesOfPages(uintptr, int) ([]int, error) { return nil, errNotHere }
