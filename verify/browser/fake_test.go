package browser

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/page"
	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool/inspect"
)

// simulated is a process with a pool as large as no machine here, whose workers come and go at random, by nodes. All numbers are made up.
type simulated struct {
	workers, nodes int
	machine        *numa.Topology
	since          time.Time

	mu     sync.Mutex
	random *rand.Rand
	steals [][]uint64
	tasks  uint64
}

func simulate(t *testing.T, workers, nodes int, machine string) *simulated {
	s := &simulated{workers: workers, nodes: nodes, since: time.Now(), random: rand.New(rand.NewPCG(1, 2))}
	if machine != "" {
		root := t.TempDir()
		require.NoError(t, os.CopyFS(root, os.DirFS("../../numa/testdata/"+machine)))
		s.machine, _ = numa.ReadRoot(root) // can be used, whatever is wrong with it
	}
	s.steals = make([][]uint64, workers)
	for i := range s.steals {
		s.steals[i] = make([]uint64, workers)
	}
	return s
}

func (s *simulated) Pools() []page.Pool {
	return []page.Pool{{ID: 1, Source: s}}
}
func (s *simulated) Machine() *numa.Topology { return s.machine }
func (s *simulated) String() string {
	return fmt.Sprintf("pool \"simulated\": %d workers, cores (simulated), on %d nodes", s.workers, s.nodes)
}

func (s *simulated) node(worker int) int { return worker * s.nodes / s.workers }

func (s *simulated) Config() inspect.Config {
	c := inspect.Config{Name: "simulated", Settings: []inspect.Setting{
		{Name: "WithWorkers", Chosen: fmt.Sprint(s.workers), Asked: fmt.Sprint(s.workers)},
		{Name: "WithPinning", Chosen: "cores", Why: "as many workers as CPUs"},
		{Name: "WithTimings", Chosen: "true", Asked: "true"},
	}}
	for w := range s.workers {
		seat := inspect.Seat{Worker: w, Node: s.node(w)}
		if s.machine != nil && s.workers <= len(s.machine.Online) {
			seat.CPUs = []int{s.machine.Online[w]}
		}
		c.Workers = append(c.Workers, seat)
	}
	return c
}

// busy is the share of a node's workers that compute, which comes and goes.
func (s *simulated) busy(worker int) float64 {
	phase := time.Since(s.since).Seconds()/4 + float64(s.node(worker))
	return []float64{0.95, 0.6, 0.2, 0.8}[int(phase)%4]
}

func (s *simulated) Stats() inspect.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := inspect.Stats{Tiers: []inspect.TierStats{{Name: "same core"}, {Name: "same L3"}, {Name: "nodes at distance 21"}, {Name: "nodes at distance 32"}}}
	for w := range s.workers {
		state := inspect.Parked
		switch r := s.random.Float64(); {
		case r < s.busy(w):
			state = inspect.Runs
			s.tasks += uint64(s.random.IntN(20))
		case r < s.busy(w)+0.1:
			state = inspect.Searches
		}
		if s.random.IntN(4) == 0 && s.workers > 1 {
			near := 1 + s.random.IntN(8)
			if s.random.IntN(10) == 0 {
				near = 1 + s.random.IntN(s.workers)
			}
			s.steals[w][(w+near)%s.workers] += uint64(s.random.IntN(30))
		}
		stats.Workers = append(stats.Workers, inspect.WorkerStats{Role: inspect.RoleWorker, State: state})
	}
	stats.Workers[0].Tasks = s.tasks
	for i, row := range s.steals {
		for _, n := range row {
			stats.Workers[i].Steals += n
			stats.Tiers[1].Steals += n
		}
	}
	stats.Submitted = s.tasks
	return stats
}

func (s *simulated) Load() inspect.Load {
	running := 0
	for w := range s.workers {
		if s.busy(w) > 0.5 {
			running++
		}
	}
	return inspect.Load{Workers: s.workers, Running: running, Parked: s.workers - running, Queued: inspect.Queued{Normal: running * 3}}
}

func (s *simulated) Timings() (t inspect.Timings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range 40 {
		d := time.Duration(200 * (1 << (i / 4)) * (4 + i%4) / 4)
		n := 1 + s.tasks/uint64(1+(i-18)*(i-18))
		for _, h := range []*inspect.Histogram{&t.Wait, &t.Run} {
			h.Buckets = append(h.Buckets, inspect.Bucket{UpTo: d, Count: n})
			h.Count += n
		}
	}
	return t
}

func (s *simulated) StealMatrix() [][]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([][]uint64, s.workers+1) // the last is for guests
	for i := range all {
		all[i] = make([]uint64, s.workers+1)
		if i < s.workers {
			copy(all[i], s.steals[i])
		}
	}
	return all
}

func (s *simulated) Dump(to io.Writer) error {
	_, err := io.WriteString(to, s.Snapshot().String())
	return err
}

func (s *simulated) Snapshot() inspect.Snapshot {
	return inspect.Snapshot{Pool: s.String(), At: time.Now(), Load: s.Load(), Idle: s.workers, Slow: []inspect.Slow{
		{Pool: "pool \"simulated\"", Worker: 3, Task: "main.<b>slow</b>", Took: time.Second, Stack: "goroutine 7 [running]:\nmain.slow(...)\n", At: s.since},
	}}
}
