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
	require.NoError(t, run(context.Background(), []string{"-patience", "50ms"}, &out))
	require.Equal(t, 2, strings.Count(out.String(), "waits in Future.Wait"), out.String())
	require.Contains(t, out.String(), "begin.func1 waits")
	require.Contains(t, out.String(), "begin.func2 waits")
	require.ErrorContains(t, run(context.Background(), []string{"-patience", "0s"}, &out), "want more than 0")
}
