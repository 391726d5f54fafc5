//go:build !linux

package pool

import "errors"

// network is what network_linux.go describes. Elsewhere Go's monitor polls, every 10 ms.
type network struct{}

func newNetwork(func()) (*network, error) { return nil, errors.ErrUnsupported }
func (*network) poll() bool               { return false }
func (*network) stop()                    {}
