//go:build !linux

package pool

import "errors"

// network does nothing except on Linux (network_linux.go): elsewhere only Go's monitor polls, every 10 ms.
type network struct{}

func newNetwork(func()) (*network, error) { return nil, errors.ErrUnsupported }
func (*network) poll() bool               { return false }
func (*network) stop()                    {}
