package interleave

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/verify/claim"
)

func root(t *testing.T) string {
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

func TestQueuesHoldInAllInterleavings(t *testing.T) {
	claim.That(t, "the queues' own code loses no item and gives none twice",
		"an explorer runs small programs over it in all interleavings with few preemptions, also with amd64's store buffers")
	binary, err := kernel.build(root(t), t.TempDir(), nil)
	require.NoError(t, err)
	o, err := kernel.run(binary, ".*")
	t.Log(o.output)
	require.NoError(t, err)
	require.Empty(t, o.failed, o.output)
	claim.Amount(t, "%s interleavings", claim.Count(o.interleavings))
}

func TestForksAndScopesHoldInAllInterleavings(t *testing.T) {
	claim.That(t, "a fork, and a child of a scope, runs once, and no join or scope ends before",
		"an explorer runs small programs over the code of fork stacks and scopes in all interleavings with few preemptions")
	binary, err := forks.build(root(t), t.TempDir(), nil)
	require.NoError(t, err)
	o, err := forks.run(binary, ".*")
	t.Log(o.output)
	require.NoError(t, err)
	require.Empty(t, o.failed, o.output)
	claim.Amount(t, "%s interleavings", claim.Count(o.interleavings))
}
