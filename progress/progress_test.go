package progress

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
)

func TestNothingThatIsAddedIsLost(t *testing.T) {
	const goroutines, each = 20, 10_000
	m := New(goroutines * each)
	testutil.Together(goroutines, func(int) {
		for range each {
			m.Add(1)
		}
	})()
	s := m.State()
	require.EqualValues(t, goroutines*each, s.Done)
	require.Zero(t, s.Left)
}

func TestWhatIsLeftOfVeryManyItemsIsALongTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(math.MaxInt)
		time.Sleep(time.Second)
		m.Add(1)
		require.Greater(t, m.State().Left, 290*365*24*time.Hour)
		m.Add(math.MaxInt/2 - 1)
		require.Contains(t, m.State().String(), "(50%)")
		m.Add(math.MaxInt - math.MaxInt/2)
		require.Contains(t, m.State().String(), "(100%)")
	})
}

func TestWhatIsLeftFollowsFromTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(1000)
		require.Equal(t, State{Total: 1000}, m.State())
		time.Sleep(2 * time.Second)
		m.Add(250)
		require.Equal(t, State{Done: 250, Total: 1000, Elapsed: 2 * time.Second, Rate: 125, Left: 6 * time.Second}, m.State())
		require.Equal(t, "250 of 1000 (25%), 125/s, 6s left", m.State().String())
		m.Add(1000) // more than there should be
		require.Zero(t, m.State().Left)

		m = New(0)
		time.Sleep(time.Second)
		m.Add(7)
		require.Equal(t, "7, 7/s", m.State().String())
	})
}

func TestReportsComeUntilStopAndOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(10)
		var reports []int64
		stop := m.Every(time.Second, func(s State) { reports = append(reports, s.Done) })
		for range 3 {
			time.Sleep(900 * time.Millisecond)
			m.Add(2)
		}
		stop()
		stop()
		require.Equal(t, []int64{2, 4, 6}, reports)
		time.Sleep(time.Minute)
		require.Len(t, reports, 3)
	})
}

func TestMisusePanics(t *testing.T) {
	require.PanicsWithError(t, "progress: New(-1): the total must be positive, or 0 if it is not known", func() { New(-1) })
	require.PanicsWithError(t, "progress: Meter.Every(0s): the time between reports must be above 0", func() { New(1).Every(0, func(State) {}) })
	require.PanicsWithError(t, "progress: Meter.Every was given a nil function", func() { New(1).Every(time.Second, nil) })
}
