package soak

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/verify/claim"
)

var (
	seed     = flag.Uint64("seed", 0, "of all choices; 0 takes one from the clock")
	rounds   = flag.Int("rounds", 0, "how many programs TestSoak runs; 0 is as many as there is time for")
	duration = flag.Duration("duration", 0, "how long TestSoak goes on; 0 is 10 seconds, 3 with -short, 30 for a claim")
)

// chosenSeed is the seed of a test.
func chosenSeed() uint64 {
	if *seed != 0 {
		return *seed
	}
	return uint64(time.Now().UnixNano())
}

// amount returns what a flag chose, or else the amount of a run with -short, of an ordinary run, or
// of a run for a claim.
func amount[N ~int | ~int64](chosen, short, ordinary, full N) N {
	switch {
	case chosen > 0:
		return chosen
	case claim.Full():
		return full
	case testutil.Short():
		return short
	}
	return ordinary
}

// hangs is the time after which a round counts as hanging. A round takes milliseconds.
const hangs = 2 * time.Minute

// round runs the program of a seed, and returns what was wrong with it. If it hangs, the
// process ends with all stacks, for nothing can be tidied up.
func round(seed uint64, f fault) (*run, error) {
	watchdog := time.AfterFunc(hangs, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		fmt.Fprintf(os.Stderr, "the soak hangs; %s\n\n%s", replay(seed), stacks)
		os.Exit(2)
	})
	defer watchdog.Stop()
	r, err := execute(generate(seed), f)
	if err != nil {
		return nil, err
	}
	return r, r.verdict()
}

// replay is the command that runs the program of a seed again.
func replay(seed uint64) string {
	return fmt.Sprintf("run it again by: go test ./verify/soak -run '^TestSoak$' -seed=%d -rounds=1", seed)
}

func TestSoak(t *testing.T) {
	claim.That(t, "every leaf of a random program runs exactly once, or not at all if the pool said so",
		"programs of forks, loops, tasks, groups, panics, cancellations, blocks, resizes, pauses, closes and guests from one seed, judged by a serial walk")
	first := chosenSeed()
	t.Logf("-seed=%d", first)
	existing := goleak.IgnoreCurrent()
	var leaves, tasks, steals, booms int64
	var threads threadCount
	n, deadline := 0, time.Now().Add(amount(*duration, 3*time.Second, 10*time.Second, 30*time.Second))
	for ; time.Now().Before(deadline) && (n < *rounds || *rounds == 0); n++ {
		seed := first + uint64(n)
		r, err := round(seed, fault{})
		require.NoError(t, err, replay(seed))
		require.True(t, testutil.Eventually(func() bool { err = goleak.Find(existing); return err == nil }), "%v: %s", err, replay(seed))
		threads.add(r)
		leaves += r.ran.Load()
		for i, p := range r.pools {
			total := p.Stats().Total()
			tasks += int64(total.Tasks)
			steals += int64(total.Steals)
			booms += r.handled[i].Load()
		}
	}
	threads.requireNoneLeft(t)
	t.Logf("%d programs, %d leaves, %d tasks, %d steals, %d panics handled", n, leaves, tasks, steals, booms)
	require.NotZero(t, leaves)
	claim.Amount(t, "%s programs, %s leaves, %s tasks, %s steals",
		claim.Count(n), claim.Count(leaves), claim.Count(tasks), claim.Count(steals))
}

func TestAProgramIsWhatItsSeedSays(t *testing.T) {
	claim.That(t, "a soak is replayed by its seed", "programs are made twice and compared, and with those of other seeds")
	first, n := chosenSeed(), 200
	for i := range n {
		p := generate(first + uint64(i))
		require.Equal(t, p, generate(p.Seed))
		other := generate(p.Seed + 1)
		other.Seed = p.Seed
		require.NotEqual(t, p, other)
	}
	claim.Amount(t, "%s programs", claim.Count(n))
}

// faulty returns a program, and the first of its operations for which is says that a
// fault there must be found.
func faulty(t *testing.T, first uint64, is func(p *program, o *op) bool) (*program, *op) {
	for i := range uint64(100_000) {
		p := generate(first + i)
		for _, root := range p.Roots {
			if o := find(root, func(o *op) bool { return is(p, o) }); o != nil {
				return p, o
			}
		}
	}
	t.Fatal("no program has such an operation")
	return nil, nil
}

// find looks among the operations that are surely done.
func find(o *op, is func(o *op) bool) *op {
	if is(o) {
		return o
	}
	switch o.Kind {
	case catch, guest, sequence, do:
		for _, child := range o.Children {
			if found := find(child, is); found != nil {
				return found
			}
		}
	}
	return nil
}

// calm says whether everything in a program has to be done: the pool is not closed under the work,
// and nothing panics but tasks without a waiter.
func calm(p *program) bool {
	return p.CloseAfter == 0 && !slices.ContainsFunc(p.Roots, mayPanic)
}

func TestTheSoakFindsWhatIsWrong(t *testing.T) {
	claim.That(t, "the soak can fail", "runs with a leaf left out or run twice, a wrong result, a false answer and a lost panic are all condemned")
	anyLeaf := func(p *program, o *op) bool { return calm(p) && o.Kind == leaf }
	loopLeaf := func(p *program, o *op) bool { return calm(p) && o.Kind == loop && o.cancels() == never }
	submitted := func(p *program, o *op) bool {
		return calm(p) && o.Kind == submit && o.Children[0].Kind == leaf
	}
	exploding := func(p *program, o *op) bool {
		return calm(p) && (o.Kind == poolGo || o.Kind == workerGo || o.Kind == submit) && o.Children[0].Kind == blowUp
	}
	condemned := 0
	for name, c := range map[string]struct {
		at    func(p *program, o *op) bool
		fault func(o *op) fault
		says  string
	}{
		"a leaf left out":         {anyLeaf, func(o *op) fault { return fault{leaf: o.First + 1, times: 0} }, "ran 0 times: it must run once"},
		"a leaf twice":            {anyLeaf, func(o *op) fault { return fault{leaf: o.First + 1, times: 2} }, "ran 2 times: it must run once"},
		"an item left out":        {loopLeaf, func(o *op) fault { return fault{leaf: o.First + o.N, times: 0} }, "ran 0 times: it must run once"},
		"an item twice":           {loopLeaf, func(o *op) fault { return fault{leaf: o.First + 1, times: 2} }, "ran 2 times: it must run once"},
		"a task left out":         {submitted, func(o *op) fault { return fault{leaf: o.Children[0].First + 1, times: 0} }, "ran 0 times: it must run once"},
		"a refused task that ran": {submitted, func(o *op) fault { return fault{refused: o.ID + 1} }, "it should not run"},
		"a wrong result":          {anyLeaf, func(o *op) fault { return fault{value: o.ID + 1} }, "is worth"},
		"a panic lost":            {exploding, func(o *op) fault { return fault{panic: true} }, "panics came to the handler"},
	} {
		t.Run(name, func(t *testing.T) {
			first := chosenSeed()
			for i := range 3 {
				p, o := faulty(t, first+mix(uint64(i)), c.at)
				_, err := round(p.Seed, fault{})
				require.NoError(t, err, replay(p.Seed))
				_, err = round(p.Seed, c.fault(o))
				require.ErrorContains(t, err, c.says, replay(p.Seed))
				condemned++
			}
		})
	}
	claim.Amount(t, "%s faults", claim.Count(condemned))
}
