package pool

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStringSaysWhatThePoolIs(t *testing.T) {
	onMachine(t, pretended(2, 2))
	p, err := New(WithWorkers(4), WithPinning(PinNodes))
	require.NoError(t, err)
	require.Equal(t, `pool: 4 workers, PinNodes (it was asked for), on nodes [0 10]`, fmt.Sprint(p))
	require.NoError(t, p.Pause(context.Background()))
	require.Contains(t, p.String(), ", paused")
	p.Resume()
	require.NotContains(t, p.String(), "paused")
	release := occupyAll(t, p)
	require.Error(t, p.Shutdown(ended()))
	require.Contains(t, p.String(), ", closing")
	_, err = p.Abort(ended())
	require.Error(t, err)
	require.Contains(t, p.String(), ", aborted")
	release()
	require.NoError(t, p.Close())
	require.Contains(t, p.String(), ", closed")
	p = newPool(t, WithWorkers(1), WithPinning(PinNone))
	require.Equal(t, "pool: 1 worker, PinNone (it was asked for)", p.String())
	require.Equal(t, "pool: none", (*Pool)(nil).String())
	require.Equal(t, "pool: the place of Serial", fmt.Sprint(Serial()))
}
