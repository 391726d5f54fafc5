package suites

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// loadOn returns the client of a server in this process, which runs the handler.
func loadOn(t *testing.T, answers []uint64, handle handler) *load {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go serve(listener, func() handler { return handle }, func(error) {})
	l, err := dial(listener.Addr().(*net.TCPAddr).Port, answers, false)
	require.NoError(t, err)
	t.Cleanup(l.close)
	return l
}

func TestEveryWayGivesTheSameAnswers(t *testing.T) {
	for _, s := range services(nil) {
		assert.NotEqual(t, s.answers()[0], s.answers()[1])
		for _, w := range s.ways {
			if w.links != "" {
				continue
			}
			connect, err := w.open(3)
			require.NoError(t, err)
			handle := connect()
			for number := range uint64(3) {
				answer, err := handle(number)
				require.NoError(t, err)
				assert.Equal(t, s.answers()[number], answer, s.name+"/"+w.impl)
			}
		}
	}
}

func TestLoadFindsWrongAnswers(t *testing.T) {
	l := loadOn(t, make([]uint64, numbers), func(uint64) (uint64, error) { return 7, nil })
	_, err := l.run(100, 10*time.Microsecond)
	assert.EqualError(t, err, "gave 7 for a request, expected 0")

	l = loadOn(t, make([]uint64, numbers), func(uint64) (uint64, error) { return 0, assert.AnError })
	_, err = l.run(100, 10*time.Microsecond)
	assert.ErrorContains(t, err, "gave no answer")
}

// A server that stops is charged for all requests that were due meanwhile, not only for
// those that it had been sent.
func TestLoadCountsFromWhenARequestWasDue(t *testing.T) {
	const requests, interval, pause = 5 * connections, 100 * time.Microsecond, 10 * time.Millisecond
	paused := make(chan struct{})
	l := loadOn(t, make([]uint64, numbers), func(uint64) (uint64, error) { <-paused; return 0, nil })
	go func() {
		defer close(paused)
		for due := int64(0); due < requests; time.Sleep(time.Millisecond) {
			due = 0
			for _, line := range l.lines {
				due += line.unanswered.Load()
			}
		}
		time.Sleep(pause) // after the last was due
	}()
	latencies, err := l.run(requests, interval)
	require.NoError(t, err)
	for i, latency := range latencies {
		require.GreaterOrEqual(t, latency, pause+time.Duration(requests-1-i)*interval)
	}
}

func TestAlarm(t *testing.T) {
	a, err := newAlarm()
	require.NoError(t, err)
	defer a.close()
	for range 3 {
		until := time.Now().Add(2 * time.Millisecond)
		require.NoError(t, a.wait(until))
		assert.False(t, time.Now().Before(until))
	}
	require.NoError(t, a.wait(time.Now().Add(-time.Second)))
}
