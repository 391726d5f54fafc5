//go:build !linux

package heist

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSystemsThatDoNotPinSaySo(t *testing.T) {
	cpus, err := Allowed()
	require.NoError(t, err)
	p, err := Pin(cpus[0])
	require.ErrorIs(t, err, ErrPinning)
	require.Nil(t, p)
}
