// Package pools makes pools for the tests of packages that are built on package pool.
package pools

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
)

// New returns a pool that is closed after the test, unless the test has closed it or failed.
func New(t testing.TB, options ...pool.Option) *pool.Pool {
	t.Helper()
	p, err := pool.New(options...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() && !p.Closing() {
			require.NoError(t, p.Close())
		}
	})
	return p
}
