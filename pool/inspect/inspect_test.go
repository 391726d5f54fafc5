package inspect

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantilesAreTheEndsOfBuckets(t *testing.T) {
	require.Zero(t, Histogram{}.Quantile(0.5))
	require.Equal(t, "none", Histogram{}.String())
	h := Histogram{Count: 10, Buckets: []Bucket{{1, 5}, {2, 4}, {9, 1}}}
	for q, want := range map[float64]time.Duration{0: 1, 0.1: 1, 0.5: 1, 0.51: 2, 0.9: 2, 0.91: 9, 1: 9, 2: 9} {
		require.Equal(t, want, h.Quantile(q), q)
	}
	require.EqualValues(t, 9, h.Max())
	require.Contains(t, h.String(), "10: p50 1ns")
}

func TestCPUListsAreAsTheKernelWritesThem(t *testing.T) {
	for want, cpus := range map[string][]int{"": nil, "3": {3}, "0-1": {0, 1}, "0-3,8": {0, 1, 2, 3, 8}, "1,3,5-7": {1, 3, 5, 6, 7}} {
		require.Equal(t, want, CPUList(cpus))
	}
}

func TestTotalAddsUpAllThatCanBeAdded(t *testing.T) {
	var one WorkerStats
	v := reflect.ValueOf(&one).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint64:
			f.SetUint(3)
		case reflect.Int:
			f.SetInt(3)
		}
	}
	total := reflect.ValueOf(Stats{Workers: []WorkerStats{one, one}}.Total())
	for i := range total.NumField() {
		field := total.Type().Field(i)
		switch f := total.Field(i); f.Kind() {
		case reflect.Uint64:
			require.EqualValues(t, 6, f.Uint(), field.Name)
		case reflect.Int:
			require.EqualValues(t, 6, f.Int(), field.Name)
		}
	}
}

func TestAConfigurationIsATable(t *testing.T) {
	c := Config{Settings: []Setting{{Name: "A", Asked: "2", Chosen: "3", Why: "so"}, {Name: "Longer", Chosen: "x"}}, Workers: []Seat{
		{Worker: 0, CPUs: []int{0, 1}}, {Worker: 1}, {Worker: 2}, {Worker: 3, Node: 1},
	}}
	require.Equal(t, strings.TrimPrefix(`
setting  chosen  asked  why
A        3       2      so
Longer   x       -

workers  node  CPUs
0        0     0-1
1 to 2   0     not bound
3        1     not bound
`, "\n"), c.String())
}

func TestASnapshotIsReadable(t *testing.T) {
	s := Snapshot{
		Pool: `pool "thumbs": 2 workers`, At: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Load: Load{Workers: 2, Running: 1},
		Workers: []Worker{
			{ID: 0, Role: "worker", Place: 0, State: Waits, Does: "main.f", Waits: "Future.Wait", WaitsOn: "main.g on worker 4", For: 1234567, Known: true},
			{ID: 4, Role: "stand-in", Place: 0, State: Runs, Does: "main.g"},
			{ID: 5, Role: "guest", Place: -1, State: Runs, ForWhom: "main.h on worker 0"},
		},
		Idle:    1,
		Queues:  []Queue{{"place 0", 3}},
		Circles: []string{"a waits for b"},
		Slow:    []Slow{{Pool: "pool", Worker: 1, Task: "main.s", Source: "main.go:7", Took: time.Second, Ended: true, Stack: "stack\n"}},
	}
	require.Equal(t, strings.TrimPrefix(`
pool "thumbs": 2 workers
2030-01-02T03:04:05Z
2 workers: 1 running, 0 searching, 0 parked; 0 tasks wait; callers: 0 inside, 0 wait; queued: 0 high, 0 normal, 0 low; 0 delayed

A circle, which hangs unless a context ends one of its waits:
a waits for b

worker  role      place  node  state  for     function
0       worker    0      0     waits  1.23ms  main.f waits in Future.Wait, for main.g on worker 4
4       stand-in  0      0     runs   -       main.g
5       guest     -      0     runs   -       a part of main.h on worker 0

Stand-ins for workers that wait, and guests, have numbers, too, so there are more than 2.

1 idle

queue    tasks
place 0  3

slow: pool: worker 1: main.s, main.go:7, ran for 1s
stack
`, "\n"), s.String())
}
