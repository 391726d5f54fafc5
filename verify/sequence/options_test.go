package sequence

import (
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// drawn is an option of New.
type drawn struct {
	name   string // what an error about it has to say
	option pool.Option
	valid  bool
}

// drawOption draws an option, valid or not, whose validity depends on nothing else.
func drawOption(t *rapid.T) drawn {
	const most = 8192
	n := rapid.OneOf(rapid.IntRange(-2, 9), rapid.SampledFrom([]int{most + 1, math.MaxInt, math.MinInt})).Draw(t, "n")
	allowed, err := heist.Allowed()
	require.NoError(t, err)
	switch rapid.IntRange(0, 11).Draw(t, "option") {
	case 0:
		return drawn{"WithWorkers", pool.WithWorkers(n), n >= 1 && n <= most}
	case 1:
		d := time.Duration(min(n, 9)) // Close waits for workers that spin
		return drawn{"Tuning.Spin", pool.WithTuning(pool.Tuning{Spin: d}), true}
	case 2:
		return drawn{"Tuning.PollPeriod", pool.WithTuning(pool.Tuning{PollPeriod: n}), n >= 0}
	case 3:
		return drawn{"WithQueueBound", pool.WithQueueBound(n), n >= 1}
	case 4:
		return drawn{"Tuning.Patience", pool.WithTuning(pool.Tuning{Patience: n}), n >= 0}
	case 5:
		q := rapid.SampledFrom([]float64{math.NaN(), math.Inf(-1), -1e-9, 0, 0.5, 1, 1.5}).Draw(t, "probability")
		return drawn{"Tuning.UniformLooks", pool.WithTuning(pool.Tuning{UniformLooks: q}), q <= 1}
	case 6:
		if rapid.Bool().Draw(t, "nil") {
			return drawn{"WithPanicHandler", pool.WithPanicHandler(nil), false}
		}
		return drawn{"WithPanicHandler", pool.WithPanicHandler(func(*pool.PanicError) {}), true}
	case 7:
		p := pool.Pinning(n)
		return drawn{"WithPinning", pool.WithPinning(p), p >= pool.PinAuto && p <= pool.PinNodes}
	case 8:
		cpus := rapid.SliceOfN(rapid.SampledFrom(append(slices.Clone(allowed), -1, 1<<20)), 0, 3).Draw(t, "cpus")
		valid := len(cpus) > 0
		for i, cpu := range cpus {
			valid = valid && slices.Contains(allowed, cpu) && !slices.Contains(cpus[:i], cpu)
		}
		return drawn{"WithCPUs", pool.WithCPUs(cpus...), valid}
	case 9:
		return drawn{"Tuning.MaxWorkers", pool.WithTuning(pool.Tuning{MaxWorkers: n}), n >= 0 && n <= most}
	case 10:
		return drawn{"nil Option", nil, false}
	default:
		return drawn{"Tuning.Latencies", pool.WithTuning(pool.Tuning{Latencies: strings.NewReader(`{}`)}), false}
	}
}

// TestNewRefusesWhatIsInvalidByName gives New options in any number and order. The error names the
// first option that is invalid by itself. If there is none, an error names two options that
// contradict each other.
func TestNewRefusesWhatIsInvalidByName(t *testing.T) {
	claim.That(t, "New takes what is valid, and names what is not", "random lists of options by rapid, judged one by one")
	var refused, taken atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		var options []pool.Option
		firstWrong := ""
		for range rapid.IntRange(0, 4).Draw(t, "options") {
			d := drawOption(t)
			options = append(options, d.option)
			if !d.valid && firstWrong == "" {
				firstWrong = d.name
			}
		}
		p, err := pool.New(options...)
		switch {
		case firstWrong != "":
			require.ErrorContains(t, err, firstWrong)
		case err != nil:
			contradiction := strings.Contains(err.Error(), "Tuning.MaxWorkers") || strings.Contains(err.Error(), "WithCPUs and PinNone")
			require.True(t, contradiction, err)
		}
		if err != nil {
			require.Nil(t, p)
			refused.Add(1)
			return
		}
		ran := make(chan struct{})
		require.NoError(t, p.Go(func(*pool.Worker) { close(ran) }))
		<-ran
		require.NoError(t, p.Close())
		taken.Add(1)
	})
	require.NotZero(t, refused.Load())
	require.NotZero(t, taken.Load())
	claim.Amount(t, "%s lists refused, %s taken", claim.Count(refused.Load()), claim.Count(taken.Load()))
}
