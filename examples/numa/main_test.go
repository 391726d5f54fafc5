package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/pool/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	topology, err := numa.Read()
	if err != nil {
		t.Log(err)
	}
	for _, args := range [][]string{{"-rounds", "3"}, {"-rounds", "3", "-workers", "3"}} {
		var out strings.Builder
		if err := run(t.Context(), args, &out); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, want := range []string{topology.String(), "default: workers: ", "uniform looks: workers: ", "isolation: ", "because ", "tier of victims"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q: there is no %q in\n%s", args, want, text)
			}
		}
		if said := strings.Contains(text, "There is one memory node"); said != (len(topology.Nodes) == 1) {
			t.Errorf("%d nodes, and that it is one was said: %v", len(topology.Nodes), said)
		}
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	err := table(&out, []result{
		{name: "default", tiers: []inspect.TierStats{{Name: "near", Attempts: 50, Steals: 9, Items: 12}, {Name: "far", Attempts: 7, Steals: 3}}},
		{name: "uniform", tiers: []inspect.TierStats{{Name: "near", Steals: 1}, {Name: "far", Steals: 3}, {Name: "new"}}},
		{name: "idle", tiers: []inspect.TierStats{{Name: "near", Attempts: 4}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[1:] {
		rows = append(rows, strings.Fields(line))
	}
	for i, want := range []string{
		"default near 50 9 0 12 75 -",
		"default far 7 3 0 0 25 -",
		"uniform near 0 1 0 0 25 -50",
		"uniform far 0 3 0 0 75 +50",
		"uniform new 0 0 0 0 0 -",
		"idle near 4 0 0 0 - -",
	} {
		if i >= len(rows) || strings.Join(rows[i], " ") != want {
			t.Errorf("row %d of\n%swant %q", i, &out, want)
		}
	}
}

// Each pool has options of its own: one must not get those of the next.
func TestChoices(t *testing.T) {
	base := make([]pool.Option, 1, 8)
	base[0] = pool.WithWorkers(2)
	for _, c := range choices(base, 2, 4)[:2] {
		r, err := c.measure(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if r.workers != 2 || r.why == "" || len(r.tiers) == 0 {
			t.Errorf("%s: got %+v, want two workers, a reason and tiers", c.name, r)
		}
	}
}

func TestEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, nil, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that of the context", err)
	}
}

func TestUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"want 0 or more":    {"-workers", "-1"},
		"want 1 or more":    {"-rounds", "0"},
		"must be from 1 to": {"-workers", "100000"},
		"unexpected":        {"4"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", args, err, want)
		}
	}
}
