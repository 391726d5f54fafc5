package gauge_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed53057037/heist/bench/internal/gauge"
)

func TestPercentiles(t *testing.T) {
	d := gauge.NewDurations()
	for us := 1; us <= 1000; us++ {
		d.Note(time.Duration(us) * time.Microsecond)
	}
	assert.Equal(t, 1000, d.Count())
	assert.InEpsilonSlice(t, []float64{500, 990, 999, 1000}, d.Micros(50, 99, 99.9, 100), 0.001)
}

func TestPercentilesOfFewAreTheLongest(t *testing.T) {
	d := gauge.NewDurations()
	for _, ms := range []time.Duration{3, 1, 2} {
		d.Note(ms * time.Millisecond)
	}
	assert.InEpsilonSlice(t, []float64{2000, 3000, 3000}, d.Micros(50, 99, 99.9), 0.001)
}

func TestPercentilesLeaveNothingOut(t *testing.T) {
	d := gauge.NewDurations()
	d.Note(-time.Second)
	d.Note(time.Hour)
	assert.Equal(t, 2, d.Count())
	assert.Zero(t, d.Micros(1)[0])
	assert.InEpsilon(t, 60e6, d.Micros(100)[0], 0.001)
}
