package par

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil/pools"
)

func TestNoResultIsNil(t *testing.T) {
	p := pools.New(t)
	yes := func(int) bool { return false }
	yesErr := func(context.Context, int) (bool, error) { return false, nil }
	same := func(i int) int { return i }
	sameErr := func(_ context.Context, i int) (int, error) { return i, nil }
	for name, f := range map[string]func(s []int) []any{
		"Dedup":     func(s []int) []any { r, err := Dedup(p, s); return []any{r, err} },
		"Filter":    func(s []int) []any { r, err := Filter(p, s, yes); return []any{r, err} },
		"FilterErr": func(s []int) []any { r, err := FilterErr(p, s, yesErr); return []any{r, err} },
		"FilterRange": func([]int) []any {
			r, err := FilterRange(p, 0, func(out []int, _, _ int) []int { return out })
			return []any{r, err}
		},
		"FlatMap": func(s []int) []any {
			r, err := FlatMap(p, s, func(out []int, _ int) []int { return out })
			return []any{r, err}
		},
		"FlatMapErr": func(s []int) []any {
			r, err := FlatMapErr(p, s, func(_ context.Context, out []int, _ int) ([]int, error) { return out, nil })
			return []any{r, err}
		},
		"GroupBy":      func(s []int) []any { r, err := GroupBy(p, s, same); return []any{r, err} },
		"GroupByErr":   func(s []int) []any { r, err := GroupByErr(p, s, sameErr); return []any{r, err} },
		"Map":          func(s []int) []any { r, err := Map(p, s, same); return []any{r, err} },
		"MapErr":       func(s []int) []any { r, err := MapErr(p, s, sameErr); return []any{r, err} },
		"MapRange":     func([]int) []any { r, err := MapRange(p, 0, func([]int, int, int) {}); return []any{r, err} },
		"MapSeq":       func([]int) []any { r, err := MapSeq(p, func(func(int) bool) {}, same); return []any{r, err} },
		"MapSeqErr":    func([]int) []any { r, err := MapSeqErr(p, func(func(int) bool) {}, sameErr); return []any{r, err} },
		"Partition":    func(s []int) []any { r, no, err := Partition(p, s, yes); return []any{r, no, err} },
		"PartitionErr": func(s []int) []any { r, no, err := PartitionErr(p, s, yesErr); return []any{r, no, err} },
	} {
		for _, s := range [][]int{nil, {}, {1}, make([]int, 10_000)} {
			for _, r := range f(s)[:len(f(s))-1] {
				require.False(t, reflect.ValueOf(r).IsNil(), "%s of %d", name, len(s))
			}
		}
	}
}
