package inside

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool"
)

func TestTopologyIsWhatQemuWasTold(t *testing.T) {
	m := machine(t)
	got, err := numa.Read()
	require.NoError(t, err)
	t.Logf("%v", got)

	require.Len(t, got.Nodes, m.Nodes())
	var nodes, cores, all []numa.Set
	for i, node := range got.Nodes {
		require.Equal(t, i, node.ID)
		require.Equal(t, m.Distances[i], node.Distances)
		// The kernel keeps some for itself.
		mib := int(node.MemoryBytes >> 20)
		require.LessOrEqual(t, mib, m.NodeMiB)
		require.Greater(t, mib, m.NodeMiB*3/4)
		require.Equal(t, numa.Set(m.NodeCPUs(i)), node.CPUs)
		nodes = append(nodes, node.CPUs)
	}
	for core := range m.Nodes() * m.Cores {
		cores = append(cores, m.CoreCPUs(core))
	}
	for range 3 {
		var cpus numa.Set
		for cpu := range m.CPUs() {
			cpus = append(cpus, cpu)
		}
		all = append(all, cpus)
	}
	require.Equal(t, nodes, got.Packages)
	require.Equal(t, cores, got.Cores)
	require.Equal(t, all, []numa.Set{got.Complete, got.Online, got.Allowed})
	if m.Arch == "x86_64" {
		require.Equal(t, nodes, got.L3)
	} else {
		require.Empty(t, got.L3, "qemu tells this machine nothing about caches")
	}
}

func TestEveryWorkerRunsWhereItIsPinned(t *testing.T) {
	m := machine(t)
	cpus := allCPUs(m)
	p := newPool(t, cpus)
	for range 10 {
		// Each task holds its worker until every worker has one.
		var ran []int
		begun := testutil.NewBarrier(len(cpus))
		var ended sync.WaitGroup
		ended.Add(len(cpus))
		var mu sync.Mutex
		var errs []error
		for range cpus {
			require.NoError(t, p.Go(func(*pool.Worker) {
				defer ended.Done()
				begun.Compute()
				cpu, err := currentCPU()
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, cpu)
				if err != nil {
					errs = append(errs, err)
				}
			}))
		}
		require.True(t, testutil.ReturnsWithin(patience, ended.Wait), "not every worker took a task")
		require.Empty(t, errs)
		require.ElementsMatch(t, cpus, ran)
	}
}
