package par

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

// A nameless is a body that does not say how it is shown.
type nameless func()

func (b nameless) Func() any { return nil }

func (b nameless) Run(int, int) { b() }

// TestADumpShowsTheFunctionOfALoop, not the one of package par or of ForBody that calls it.
func TestADumpShowsTheFunctionOfALoop(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	var shown strings.Builder
	look := func() { // in a part that a worker runs, or in the caller
		shown.Reset()
		require.NoError(t, p.Dump(&shown))
	}
	all := pool.Grain(3)
	for name, run := range map[string]func() error{
		"ShowsTheFunctionOfALoop.func2": func() error { return For(p, 3, func(int) { look() }, all) },
		"ShowsTheFunctionOfALoop.func3": func() error { return ForEach(p, make([]int, 3), func(*int) { look() }, all) },
		"ShowsTheFunctionOfALoop.func4": func() error {
			return MapTo(p, make([]int, 3), make([]int, 3), func(int) int { look(); return 0 }, all)
		},
	} {
		require.NoError(t, run())
		require.Contains(t, shown.String(), name)
	}
	require.NoError(t, pool.ForBody(p, 3, nameless(look), all))
	require.NotContains(t, shown.String(), "ForBody")
}
