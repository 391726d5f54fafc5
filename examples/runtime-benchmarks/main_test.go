package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachBenchmarkPrintsItsAnswerAsTheOthersDo(t *testing.T) {
	for _, args := range [][]string{{"-size", "4", "skynet", "2"}, {"-size", "8", "nqueens", "2"}, {"fib", "20", "2"}, {"matmul", "128", "2"}, {"-size", "64", "matmul"}} {
		var out bytes.Buffer
		require.NoError(t, run(context.Background(), args, &out), args)
		require.Regexp(t, `^threads: \d+\noutput: \d+\nruns:\n  - iteration_count: 1\n    duration: \d+ us\n(    max_rss: \d+ KiB\n)?$`, out.String())
	}
	for _, args := range [][]string{nil, {"sort"}, {"fib", "x"}, {"matmul", "96"}, {"matmul", "16"}, {"skynet", "2", "3"}, {"-size", "-1", "skynet"}} {
		require.Error(t, run(context.Background(), args, &bytes.Buffer{}), args)
	}
}
