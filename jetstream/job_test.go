package jetstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
)

var errPlanted = errors.New("planted")

// TestAJobShowsWhatWasPublished, under the names that it says: those of its key and of its messages follow from its ID.
func TestAJobShowsWhatWasPublished(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	js := newStreams(t)
	out := stream(t, js, "OUT", "out")
	created, err := js.Stream(ctx, "JOBS")
	require.NoError(t, err)
	nameless := "JOBS." + strconv.FormatInt(created.CachedInfo().Created.UnixNano(), 36) + ".3"
	ids, keys := []string{"plain", "with blanks", nameless}, []string{"JOBS.test.plain", fmt.Sprintf("%x", sha256.Sum256([]byte("JOBS.test.with blanks"))), "JOBS.test." + nameless}
	for i, id := range ids {
		m := nats.NewMsg(fmt.Sprint("jobs.", i))
		m.Data = []byte(id)
		m.Header.Set("Mine", id)
		if id != nameless {
			m.Header.Set(nats.MsgIdHdr, id)
		}
		_, err := js.PublishMsg(ctx, m)
		require.NoError(t, err)
	}
	w := run(t, js, Config{Pool: newPool(t), MaxRunning: 1}, func(pw *pool.Worker, j *Job) error {
		i := int(j.sequence) - 1
		require.Equal(t, ids[i], string(j.Data()))
		require.Equal(t, ids[i], j.Header().Get("Mine"))
		require.Equal(t, fmt.Sprint("jobs.", i), j.Subject())
		require.Equal(t, ids[i], j.ID())
		require.Equal(t, keys[i], j.Key())
		return errors.Join(j.Publish(pw, "out", []byte("first")), j.Publish(pw, "out", []byte("second")))
	})
	requireDrained(t, js, "test")
	w.shutdown()
	require.EqualValues(t, 3, w.Stats().Done)
	require.Equal(t, "JOBS/test", w.Name())
	for i, key := range keys {
		for k, data := range []string{"first", "second"} {
			m, err := out.GetMsg(ctx, uint64(2*i+k+1))
			require.NoError(t, err)
			require.Equal(t, data, string(m.Data))
			require.Equal(t, fmt.Sprintf("%s/%d", key, k+1), m.Header.Get(nats.MsgIdHdr))
		}
	}
}

// TestOnceStoresOneResult, that of the run that is first, and no error.
func TestOnceStoresOneResult(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	kv := bucket(t, js)
	produce(t, js, "jobs", 0, 1)
	w := run(t, js, Config{Pool: newPool(t)}, func(pw *pool.Worker, j *Job) error {
		_, err := j.Once(pw, kv, func() ([]byte, error) { return []byte("half"), errPlanted })
		require.Same(t, errPlanted, err)
		_, err = kv.Get(j.Context(), j.Key())
		require.ErrorIs(t, err, natsjs.ErrKeyNotFound)
		got, err := j.Once(pw, kv, func() ([]byte, error) {
			_, err := kv.Create(j.Context(), j.Key(), []byte("of another run"))
			return []byte("late"), err
		})
		require.NoError(t, err)
		require.Equal(t, "of another run", string(got))
		got, err = j.Once(pw, kv, func() ([]byte, error) { return nil, errPlanted })
		require.NoError(t, err)
		require.Equal(t, "of another run", string(got))
		_, err = j.Once(pw, nil, func() ([]byte, error) { return nil, nil })
		require.ErrorContains(t, err, "nil bucket")
		_, err = j.Once(pw, kv, nil)
		require.ErrorContains(t, err, "nil function")
		return nil
	})
	requireDrained(t, js, "test")
	w.shutdown()
	require.EqualValues(t, 1, w.Stats().Done)
}

// TestAttemptsAreThoseThatBegan: neither the count nor the delay after a failure is that of deliveries.
func TestAttemptsAreThoseThatBegan(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 2)
	c := Config{MaxDeliver: 3, DeadLetter: "dead", Pool: newPool(t), MaxRunning: 1, Backoff: []time.Duration{time.Millisecond, 2 * time.Millisecond, time.Hour}}
	release := make(chan struct{})
	first := run(t, js, c, func(*pool.Worker, *Job) error { <-release; return nil })
	eventually(t, "nothing waits", func() bool { s := first.Stats(); return s.Taken == 2 && s.Unstarted == 1 })
	time.AfterFunc(10*time.Millisecond, func() { close(release) })
	first.shutdown()
	require.EqualValues(t, 1, first.Stats().GivenBack)
	var runs atomic.Int64
	second := run(t, js, c, func(_ *pool.Worker, j *Job) error {
		n := int(runs.Add(1))
		require.Equal(t, n, j.Attempt())
		require.Equal(t, n+1, j.Delivery())
		if n < 3 {
			return errPlanted
		}
		return nil
	})
	requireDrained(t, js, "test")
	second.shutdown()
	require.EqualValues(t, 1, second.Stats().Done)
	require.EqualValues(t, 2, second.Stats().Failed)
	require.EqualValues(t, 3, second.Stats().Redelivered)
	require.Empty(t, deadLetters(t, js))
}

// TestPermanentWithoutADeadLetterIsDeliveredAgain, and OnError is told. Where no attempts are counted they are deliveries.
func TestPermanentWithoutADeadLetterIsDeliveredAgain(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 1)
	var told atomic.Pointer[error]
	w := run(t, js, Config{Pool: newPool(t), MaxDeliver: -1, Backoff: []time.Duration{50 * time.Millisecond}, OnError: func(err error) { told.Store(&err) }}, func(_ *pool.Worker, j *Job) error {
		require.Equal(t, j.Delivery(), j.Attempt())
		if j.Delivery() < 3 {
			return Permanent(errPlanted)
		}
		return nil
	})
	requireDrained(t, js, "test")
	w.shutdown()
	require.EqualValues(t, 1, w.Stats().Done)
	require.EqualValues(t, 2, w.Stats().Failed)
	require.Zero(t, w.Stats().Dead)
	require.ErrorIs(t, *told.Load(), errPlanted)
	require.ErrorContains(t, *told.Load(), "Config.DeadLetter is empty")
}
