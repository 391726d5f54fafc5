package sim

import (
	"fmt"
	"time"

	"github.com/seed53057037/heist/internal/policy"
)

// Lanes simulates uneven lanes of work, lane i of tasks[i] tasks, on as many CPUs of one node: divided statically,
// with one lane for each CPU, and by the pool's stealing.
func Lanes(tasks []int, each time.Duration) (static, stealing time.Duration, err error) {
	for _, n := range tasks {
		took, err := runLanes([]int{n}, each, 1)
		if err != nil {
			return 0, 0, err
		}
		static = max(static, took)
	}
	stealing, err = runLanes(tasks, each, len(tasks))
	return static, stealing, err
}

func runLanes(tasks []int, each time.Duration, cpus int) (time.Duration, error) {
	m := Machine{topology: shape{distances: oneNode, l3s: 1, cores: cpus, threads: 1}.topology()}
	l := m.layout()
	load := work{tree: lanes(tasks, int32(each))}
	stats, err := setup{layout: l, order: l.order(true), parameters: policy.Defaults, lastVictim: true, load: load, seed: 1}.run()
	if err != nil {
		return 0, fmt.Errorf("lanes on %d CPUs: %w", cpus, err)
	}
	return time.Duration(stats.Makespan), nil
}

// lanes makes a tree in which the root has the lanes, and a lane its tasks.
func lanes(tasks []int, cost int32) *tree {
	const root, task = -2, -1
	return grow(root, 1, func(n, _ int, add func(int)) int32 {
		switch n {
		case root:
			for lane := range tasks {
				add(lane)
			}
			return 0
		case task:
			return cost
		}
		for range tasks[n] {
			add(task)
		}
		return 0
	})
}
