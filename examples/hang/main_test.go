package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheCircleIsNamed(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"-patience", "2s"}, &out))
	require.Equal(t, 1, strings.Count(out.String(), "A circle"), out.String())
	require.Contains(t, out.String(), "invoice waits in Future.Wait, for delivery on worker")
	require.Contains(t, out.String(), "delivery waits in Future.Wait, for invoice on worker")
	require.ErrorContains(t, run(context.Background(), []string{"-patience", "0s"}, &out), "want more than 0")
}
