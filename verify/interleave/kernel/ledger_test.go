// Package kernel has small programs over the kernel's queues, for all of whose interleavings interleave's tests look.
// They need the overlay that those make: without it a plain go test skips them.
package kernel

import (
	"reflect"
	"testing"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/verify/explore"
	"github.com/seed53057037/heist/verify/interleave/programs"
)

// all interleavings, and for programs that have too many of them, those with few preemptions.
var (
	all          = explore.Options{Preemptions: explore.Unbounded}
	allWithRaces = explore.Options{Preemptions: explore.Unbounded, Races: true}
	few          = explore.Options{Preemptions: 2}
	fewWithRaces = explore.Options{Preemptions: 2, Races: true}
)

// explores explores a program over the rewritten kernel.
func explores(t *testing.T, o explore.Options, program func()) {
	t.Helper()
	if reflect.TypeOf(heist.FutexWake).In(0).Elem().PkgPath() == "sync/atomic" {
		t.Skip("the kernel is not rewritten; the tests of verify/interleave do that")
	}
	programs.Explore(t, o, program)
}

// must returns what a constructor has made.
func must[T any](v T, err error) T {
	explore.Assert(err == nil, "%v", err)
	return v
}

// item is what the queues hold.
type item struct{ number int }

// ledger counts what was taken of the items 0 to n-1.
type ledger struct {
	items []item
	taken []string // by whom
}

func newLedger(n int) *ledger {
	l := &ledger{make([]item, n), make([]string, n)}
	for i := range l.items {
		l.items[i].number = i
	}
	return l
}

func (l *ledger) item(i int) *item { return &l.items[i] }

// take counts that an item was taken.
func (l *ledger) take(who string, it *item) int {
	explore.Assert(it != nil, "%s has taken nothing, and was told that it has", who)
	before := l.taken[it.number]
	explore.Assert(before == "", "item %d was taken by %s, and before by %s", it.number, who, before)
	l.taken[it.number] = who
	return it.number
}

// balance checks that each item was taken.
func (l *ledger) balance() {
	for i, who := range l.taken {
		explore.Assert(who != "", "item %d is lost", i)
	}
}
