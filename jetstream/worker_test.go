package jetstream

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

func TestEveryJobRunsAndIsAcknowledged(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	const jobs = 2000
	var y tally
	w := run(t, js, Config{Pool: newPool(t)}, func(_ *pool.Worker, j *Job) error {
		require.Equal(t, string(j.Data()), j.ID())
		require.Equal(t, 1, j.Delivery())
		y.add(j.ID())
		return nil
	})
	produce(t, js, "jobs.a", 0, jobs)
	eventually(t, "not all jobs run", func() bool { return y.len() == jobs })
	requireDrained(t, js, "test")
	w.shutdown()
	s := w.Stats()
	require.EqualValues(t, jobs, s.Taken)
	require.EqualValues(t, jobs, s.Done)
	require.Zero(t, s.Redelivered+s.Failed+s.GivenBack+s.Dead)
	require.Zero(t, s.Held)
}

// Workers of a pool pull tasks in batches and steal them, so tasks do not begin in order.
func TestJobsBeginInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 1000)
	var mu sync.Mutex
	var order []string
	p := newPool(t, pool.WithWorkers(4))
	w := run(t, js, Config{Pool: p, MaxRunning: 1}, func(pw *pool.Worker, j *Job) error {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, j.ID())
		return nil
	})
	requireDrained(t, js, "test")
	w.shutdown()
	for i, id := range order {
		require.Equal(t, fmt.Sprint(i), id)
	}
	require.Len(t, order, 1000)
}

// What ends a request for jobs is a message without data and with a header Status.
func TestAJobMayLookLikeTheEndOfARequest(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	for _, status := range []string{"100", "408", "409", "503"} {
		m := nats.NewMsg("jobs")
		m.Header.Set("Status", status)
		m.Header.Set("Description", "Consumer Deleted")
		_, err := js.PublishMsg(context.Background(), m)
		require.NoError(t, err)
	}
	w := run(t, js, Config{Pool: newPool(t)}, nothing)
	eventually(t, "not all run", func() bool { return w.Stats().Done == 4 })
	w.shutdown()
}

// Jobs that wait belong into the stream, where other processes can have them.
func TestAWorkerHoldsNoMoreThanThePoolCanBeginSoon(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 500)
	open := make(chan struct{})
	w := run(t, js, Config{Pool: newPool(t)}, func(pw *pool.Worker, j *Job) error {
		<-open
		time.Sleep(10 * time.Millisecond)
		return nil
	})
	eventually(t, "the places are not taken", func() bool { return w.Stats().Held >= 2 })
	time.Sleep(50 * time.Millisecond)
	require.LessOrEqual(t, w.Stats().Unstarted, 2*leastRoom)
	close(open)
	for range 20 {
		time.Sleep(10 * time.Millisecond)
		require.LessOrEqual(t, w.Stats().Unstarted, 2*leastRoom, "of jobs that take 10 ms")
	}
	w.shutdown()

	var done atomic.Int64
	short := run(t, js, Config{Pool: newPool(t), Durable: "short"}, func(*pool.Worker, *Job) error { done.Add(1); return nil })
	most := 0
	eventually(t, "not all jobs run", func() bool {
		most = max(most, short.Stats().Unstarted)
		return done.Load() == 500
	})
	require.LessOrEqual(t, most, 2*mostRoom)
	short.shutdown()
}

func TestAJobForksOnItsPool(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	p := newPool(t)
	sums := make(chan int, 1)
	w := run(t, js, Config{Pool: p}, func(pw *pool.Worker, j *Job) error {
		require.Same(t, p, pw.Pool())
		sum, err := par.ReduceRange(pw.With(j.Context()), 1_000_000, func(lo, hi int) (sum int) {
			for i := lo; i < hi; i++ {
				sum += i
			}
			return sum
		}, func(a, b int) int { return a + b })
		sums <- sum
		return err
	})
	produce(t, js, "jobs", 0, 1)
	require.Equal(t, 499_999_500_000, <-sums)
	requireDrained(t, js, "test")
	w.shutdown()
}

func TestALongJobKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 6) // some of them wait for the others, and are held as well
	var y tally
	w := run(t, js, Config{Pool: newPool(t), AckWait: 600 * time.Millisecond}, func(_ *pool.Worker, j *Job) error {
		y.add(j.ID())
		time.Sleep(1500 * time.Millisecond)
		return nil
	})
	requireDrained(t, js, "test")
	w.shutdown()
	require.Len(t, y.runs, 6)
	for id, runs := range y.runs {
		require.Equal(t, 1, runs, "job %s", id)
	}
	require.NotZero(t, w.Stats().Extended)
}

func TestAFailedJobIsDeliveredAgainAfterItsDelay(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(pw *pool.Worker){
		"error":  nil,
		"panic":  func(*pool.Worker) { panic("planted") },
		"goexit": func(*pool.Worker) { runtime.Goexit() },
		"fork": func(pw *pool.Worker) {
			pw.Do(func(*pool.Worker) { panic("planted in a fork") }, func(*pool.Worker) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			js := newNode(t).connect()
			stream(t, js, "JOBS", "jobs")
			produce(t, js, "jobs", 0, 1)
			var mu sync.Mutex
			var starts []time.Time
			w := run(t, js, Config{Pool: newPool(t), Backoff: []time.Duration{50 * time.Millisecond, 150 * time.Millisecond}}, func(pw *pool.Worker, j *Job) error {
				mu.Lock()
				starts = append(starts, time.Now())
				mu.Unlock()
				if j.Delivery() > 3 {
					return nil
				}
				if fails != nil {
					fails(pw)
				}
				return errors.New("planted")
			})
			requireDrained(t, js, "test")
			w.shutdown()
			require.Len(t, starts, 4)
			for i, least := range []time.Duration{50, 150, 150} {
				require.GreaterOrEqual(t, starts[i+1].Sub(starts[i]), (least-5)*time.Millisecond, "delivery %d", i+2)
			}
			s := w.Stats()
			require.EqualValues(t, 3, s.Failed)
			require.EqualValues(t, 1, s.Done)
		})
	}
}

func TestRetryAfterReplacesTheBackoff(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 1)
	w := run(t, js, Config{Pool: newPool(t), Backoff: []time.Duration{time.Hour}}, func(_ *pool.Worker, j *Job) error {
		if j.Delivery() == 1 {
			return fmt.Errorf("wrapped: %w", RetryAfter(errors.New("planted"), 0))
		}
		return nil
	})
	requireDrained(t, js, "test")
	w.shutdown()
}

// deadLetters returns the messages of the dead-letter stream.
func deadLetters(t testing.TB, js natsjs.JetStream) (all []*natsjs.RawStreamMsg) {
	t.Helper()
	s, err := js.Stream(context.Background(), "DEAD")
	require.NoError(t, err)
	for i := s.CachedInfo().State.FirstSeq; i <= s.CachedInfo().State.LastSeq && i > 0; i++ {
		m, err := s.GetMsg(context.Background(), i)
		require.NoError(t, err)
		all = append(all, m)
	}
	return all
}

func TestAJobThatKeepsFailingIsADeadLetter(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs.x", 0, 20)
	w := run(t, js, Config{Pool: newPool(t), MaxDeliver: 3, Backoff: []time.Duration{time.Millisecond}, DeadLetter: "dead.jobs"}, func(_ *pool.Worker, j *Job) error {
		switch j.ID() {
		case "3":
			panic("poison\nin two lines")
		case "5":
			return Permanent(errors.New("no such file"))
		}
		return nil
	})
	requireDrained(t, js, "test")
	w.shutdown()
	letters := deadLetters(t, js)
	require.Len(t, letters, 2)
	for _, l := range letters {
		require.Equal(t, "dead.jobs", l.Subject)
		require.Equal(t, "jobs.x", l.Header.Get(HeaderSubject))
		require.Equal(t, "JOBS", l.Header.Get(HeaderStream))
		require.Equal(t, string(l.Data), l.Header.Get(HeaderJob))
		switch string(l.Data) {
		case "3":
			require.Equal(t, "panic: poison | in two lines", l.Header.Get(HeaderError))
			require.Contains(t, l.Header.Get(HeaderStack), "TestAJobThatKeepsFailingIsADeadLetter")
			require.Equal(t, "3", l.Header.Get(HeaderDelivery))
			require.Equal(t, "4", l.Header.Get(HeaderSequence))
		case "5":
			require.Equal(t, "no such file", l.Header.Get(HeaderError))
			require.Equal(t, "1", l.Header.Get(HeaderDelivery))
		default:
			require.Fail(t, "not a poison", "%s", l.Data)
		}
	}
	require.EqualValues(t, 2, w.Stats().Dead)
	require.EqualValues(t, 18, w.Stats().Done)
}

// The dead-letter stream is full: the job is not lost, and is a dead letter when there is room.
func TestADeadLetterThatCannotBeStoredIsNotLost(t *testing.T) {
	t.Parallel()
	js := newNode(t).connect()
	stream(t, js, "JOBS", "jobs")
	dead := stream(t, js, "DEAD", "dead", func(c *natsjs.StreamConfig) { c.MaxMsgs, c.Discard = 1, natsjs.DiscardNew })
	_, err := js.Publish(context.Background(), "dead", []byte("fills the stream"))
	require.NoError(t, err)
	produce(t, js, "jobs", 0, 1)
	var told atomic.Int64
	w := run(t, js, Config{Pool: newPool(t), MaxDeliver: 1, Backoff: []time.Duration{20 * time.Millisecond}, DeadLetter: "dead", OnError: func(err error) {
		if strings.Contains(err.Error(), "no dead letter yet") {
			told.Add(1)
		}
	}}, func(*pool.Worker, *Job) error { return errors.New("planted") })
	eventually(t, "the worker says nothing", func() bool { return told.Load() > 1 })
	require.NoError(t, dead.Purge(context.Background()))
	requireDrained(t, js, "test")
	w.shutdown()
	letters := deadLetters(t, js)
	require.Len(t, letters, 1)
	require.Equal(t, "planted", letters[0].Header.Get(HeaderError), "the error is kept")
	require.Equal(t, "1", letters[0].Header.Get(HeaderDelivery))
	require.EqualValues(t, 1, w.Stats().Failed, "it is not run again")
}

func TestJobsOfHighPriorityComeFirst(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs.low", 0, 300)
	produce(t, js, "jobs.normal", 300, 600)
	var lows, highs atomic.Int64
	var late atomic.Int64
	p := newPool(t)
	c := Config{Pool: p, High: "jobs.high", Normal: "jobs.normal", Low: "jobs.low"}
	w := run(t, js, c, func(_ *pool.Worker, j *Job) error {
		time.Sleep(time.Millisecond)
		switch j.Subject() {
		case "jobs.low":
			lows.Add(1)
		case "jobs.high":
			if highs.Add(1) == 50 {
				late.Store(lows.Load())
			}
		}
		return nil
	})
	eventually(t, "nothing runs", func() bool { return w.Stats().Done > 20 })
	require.NoError(t, p.Pause(context.Background())) // while the urgent jobs are on their way
	before := lows.Load()
	produce(t, js, "jobs.high", 600, 650)
	eventually(t, "the urgent jobs do not come", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.lanes[0].queue) > 0 })
	p.Resume()
	eventually(t, "the urgent jobs do not run", func() bool { return highs.Load() == 50 })
	require.Less(t, late.Load()-before, int64(120), "of 300 jobs of low priority, before 50 of high priority")
	for _, durable := range []string{"test-high", "test", "test-low"} {
		requireDrained(t, js, durable)
	}
	w.shutdown()
}

// What had not begun is given back at once, what runs ends, and nothing is without an answer.
func TestShutdownFinishesOrGivesBack(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 50)
	var y tally
	first := run(t, js, Config{Pool: newPool(t)}, func(_ *pool.Worker, j *Job) error {
		y.add(j.ID())
		heist.Spin(20 * time.Millisecond) // a job that waited would let another begin
		return nil
	})
	eventually(t, "nothing runs", func() bool { s := first.Stats(); return s.Held > s.Unstarted && s.Unstarted > 0 })
	first.shutdown()
	s := first.Stats()
	require.Zero(t, s.Held)
	require.NotZero(t, s.GivenBack)
	require.Equal(t, s.Taken, s.Done+s.GivenBack)

	second := run(t, js, Config{Pool: newPool(t)}, func(_ *pool.Worker, j *Job) error { y.add(j.ID()); return nil })
	requireDrained(t, js, "test")
	second.shutdown()
	require.Len(t, y.runs, 50)
	for id, runs := range y.runs {
		require.Equal(t, 1, runs, "job %s", id)
	}
}

func TestShutdownGivesUpJobsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 1)
	begun, stubborn := make(chan struct{}), make(chan struct{})
	w := run(t, js, Config{Pool: newPool(t)}, func(pw *pool.Worker, j *Job) error {
		close(begun)
		<-j.Context().Done()
		require.ErrorIs(t, context.Cause(j.Context()), ErrGivenUp)
		<-stubborn
		return nil
	})
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := w.Shutdown(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "1 jobs have not ended")
	close(stubborn)
	w.await(nil)
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	w, err := NewWorker(context.Background(), js, Config{Stream: "JOBS", Durable: "d", MaxDeliver: -1, Pool: newPool(t)}, func(*pool.Worker, *Job) error { return nil })
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	require.NoError(t, w.Run(ctx))
	require.ErrorContains(t, w.Run(ctx), "twice")
	require.NoError(t, w.Shutdown(context.Background()))
}

// A pool that is aborted never begins what it has queued. The server gets these jobs back.
func TestJobsOfAnAbortedPoolAreGivenBack(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 10)
	p := newPool(t)
	open := make(chan struct{})
	w := run(t, js, Config{Pool: p, AckWait: 300 * time.Millisecond}, func(*pool.Worker, *Job) error { testutil.Compute(open); return nil })
	eventually(t, "nothing waits", func() bool { return w.Stats().Unstarted > 0 })
	aborted := make(chan struct{})
	go func() {
		defer close(aborted)
		_, _ = p.Abort(context.Background())
	}()
	go func() {
		<-p.Aborted()
		for p.Load().Queued.Total() > 0 { // until Abort has them
			runtime.Gosched()
		}
		close(open)
	}()
	w.await(pool.ErrClosed)
	<-aborted
	s := w.Stats()
	require.NotZero(t, s.GivenBack)
	require.Zero(t, s.Held)
}

// It looks at all goroutines of the process, so it runs alone.
func TestNothingIsLeftBehind(t *testing.T) {
	js := newStreams(t)
	p := newPool(t)
	for range 5 {
		w := run(t, js, Config{Pool: p}, func(*pool.Worker, *Job) error { return nil })
		w.shutdown()
	}
	var stacks string
	gone := testutil.Eventually(func() bool { // the server runs in this process, too
		buffer := make([]byte, 1<<20)
		stacks = string(buffer[:runtime.Stack(buffer, true)])
		return !strings.Contains(stacks, "jetstream.(*Worker)") && !strings.Contains(stacks, "jetstream.(*pullConsumer)")
	})
	require.True(t, gone, "goroutines are left:\n%s", stacks)
}

// A job that was given back has not begun. It is no dead letter for that, and its first run is its first attempt.
func TestWhatWasGivenBackHasNotBegun(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 60)
	c := Config{MaxDeliver: 1, DeadLetter: "dead"}
	var y tally
	f := func(_ *pool.Worker, j *Job) error {
		y.add(j.ID())
		require.Equal(t, 1, j.Attempt())
		heist.Spin(20 * time.Millisecond) // a job that waited would let another begin
		return nil
	}
	c.Pool = newPool(t)
	first := run(t, js, c, f)
	eventually(t, "nothing waits", func() bool { return first.Stats().Unstarted > 0 })
	first.shutdown()
	require.NotZero(t, first.Stats().GivenBack)
	c.Pool = newPool(t)
	second := run(t, js, c, f)
	requireDrained(t, js, "test")
	second.shutdown()
	require.Empty(t, deadLetters(t, js))
	require.Len(t, y.runs, 60)
}

// Two consumers of a stream, and a stream that was made anew, have jobs of their own, and so results and dead letters.
func TestNamesOfJobsDoNotMeet(t *testing.T) {
	t.Parallel()
	js := newNode(t).connect()
	stream(t, js, "DEAD", "dead")
	stream(t, js, "OUT", "out")
	kv := bucket(t, js)
	for round := range 2 {
		stream(t, js, "JOBS", "jobs")
		for range 5 {
			_, err := js.Publish(context.Background(), "jobs", fmt.Append(nil, round))
			require.NoError(t, err)
		}
		for _, durable := range []string{"mail", "bill"} {
			w := run(t, js, Config{Pool: newPool(t), Durable: durable, MaxDeliver: 1, DeadLetter: "dead." + durable}, func(pw *pool.Worker, j *Job) error {
				mine := durable + string(j.Data())
				got, err := j.Once(pw, kv, func() ([]byte, error) { return []byte(mine), nil })
				require.NoError(t, err)
				require.Equal(t, mine, string(got))
				require.NoError(t, j.Publish(pw, "out."+durable, nil))
				return errors.New("planted")
			})
			requireDrained(t, js, durable)
			w.shutdown()
		}
		require.NoError(t, js.DeleteStream(context.Background(), "JOBS"))
	}
	require.Len(t, deadLetters(t, js), 20)
	out, err := js.Stream(context.Background(), "OUT")
	require.NoError(t, err)
	require.EqualValues(t, 20, out.CachedInfo().State.Msgs)
	require.NotEqual(t, Config{Stream: "A-B", Durable: "C"}.AttemptsBucket(), Config{Stream: "A", Durable: "B-C"}.AttemptsBucket())
}

func TestAStreamThatIsRemovedWhileJobsRunEndsRun(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 500)
	w := run(t, js, Config{Pool: newPool(t), OnError: func(error) {}}, func(*pool.Worker, *Job) error {
		time.Sleep(5 * time.Millisecond)
		return nil
	})
	eventually(t, "nothing runs", func() bool { return w.Stats().Done > 5 })
	require.NoError(t, js.DeleteStream(context.Background(), "JOBS"))
	select {
	case err := <-w.ended:
		// The server removes the consumers first, and may be asked between the two.
		require.True(t, errors.Is(err, natsjs.ErrStreamNotFound) || errors.Is(err, natsjs.ErrConsumerDeleted), "%v", err)
	case <-time.After(testutil.Patience):
		require.Fail(t, "Run does not return")
	}
}

// A pool with a bound has room for one task. What waits for it is held, and its deadline extended.
func TestJobsThatWaitForRoomInThePoolKeepTheirDeadlines(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 400)
	var y tally
	w := run(t, js, Config{Pool: newPool(t, pool.WithWorkers(1), pool.WithQueueBound(1)), AckWait: 900 * time.Millisecond, MaxDeliver: 1, DeadLetter: "dead"},
		func(_ *pool.Worker, j *Job) error {
			if y.add(j.ID()); string(j.Data()) == "100" {
				time.Sleep(2 * time.Second)
			}
			return nil
		})
	requireDrained(t, js, "test")
	w.shutdown()
	require.Empty(t, deadLetters(t, js))
	require.Len(t, y.runs, 400)
	require.Equal(t, w.Stats().GivenBack, w.Stats().Redelivered, "deliveries again, of those that the worker gave back because nothing moved")

	// Nor does a pool that has no room keep Run from its end.
	p := newPool(t, pool.WithWorkers(1), pool.WithQueueBound(1))
	require.NoError(t, p.Pause(context.Background()))
	produce(t, js, "jobs", 400, 450)
	stuck := run(t, js, Config{Pool: p, MaxDeliver: -1, Durable: "stuck"}, nothing)
	eventually(t, "nothing waits", func() bool { return stuck.Stats().Unstarted > 1 })
	stuck.shutdown()
	p.Resume()
}

func TestMaxRunningIsOfAllPriorities(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	for i, subject := range []string{"jobs.a", "jobs.b", "jobs.c"} {
		produce(t, js, subject, 100*i, 100*i+30)
	}
	for _, most := range []int32{1, 4} {
		var now, seen, done atomic.Int32
		w := run(t, js, Config{Pool: newPool(t), Durable: fmt.Sprint("most", most), High: "jobs.a", Normal: "jobs.b", Low: "jobs.c", MaxRunning: int(most)}, func(pw *pool.Worker, j *Job) error {
			n := now.Add(1)
			for old := seen.Load(); n > old && !seen.CompareAndSwap(old, n); old = seen.Load() {
			}
			pw.Block(func() { time.Sleep(2 * time.Millisecond) })
			now.Add(-1)
			done.Add(1)
			return nil
		})
		eventually(t, "not all run", func() bool { return done.Load() == 90 })
		w.shutdown()
		require.LessOrEqual(t, seen.Load(), most)
	}
}

func TestALongIDIsNoProblem(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	stream(t, js, "OUT", "out")
	kv := bucket(t, js)
	id := strings.Repeat("x", 5000)
	_, err := js.Publish(context.Background(), "jobs", nil, natsjs.WithMsgID(id))
	require.NoError(t, err)
	w := run(t, js, Config{Pool: newPool(t)}, func(pw *pool.Worker, j *Job) error {
		require.Equal(t, id, j.ID())
		_, err := j.Once(pw, kv, func() ([]byte, error) { return nil, nil })
		return errors.Join(err, j.Publish(pw, "out", nil))
	})
	eventually(t, "not done", func() bool { return w.Stats().Done > 0 || w.Stats().Failed > 0 })
	require.Zero(t, w.Stats().Failed)
	require.NoError(t, w.Shutdown(context.Background()))
	w.await(nil)
}

func TestTheBucketOfAttemptsIsMadeAgain(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	c := Config{Stream: "JOBS", Durable: "test", Pool: newPool(t), MaxDeliver: 20, DeadLetter: "dead", Backoff: []time.Duration{20 * time.Millisecond}, OnError: func(error) {}}
	w := run(t, js, c, func(_ *pool.Worker, j *Job) error {
		if j.Delivery() < 10 {
			return errors.New("planted")
		}
		return nil
	})
	produce(t, js, "jobs", 0, 5)
	eventually(t, "nothing fails", func() bool { return w.Stats().Failed > 10 })
	require.NoError(t, js.DeleteKeyValue(context.Background(), c.AttemptsBucket()))
	requireDrained(t, js, "test")
	w.shutdown()
	require.EqualValues(t, 5, w.Stats().Done)
}

func TestAnErrorOfADeadLetterIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 1)
	w := run(t, js, Config{Pool: newPool(t), MaxDeliver: 1, DeadLetter: "dead"}, func(*pool.Worker, *Job) error {
		return errors.New("x" + strings.Repeat("é", 5000)) // mostError is in the middle of one
	})
	requireDrained(t, js, "test")
	w.shutdown()
	text := deadLetters(t, js)[0].Header.Get(HeaderError)
	require.Equal(t, "x"+strings.Repeat("é", mostError/2-1)+"...", text)
}

// TestShutdownSaysThatTheServerIsNotThere: jobs have ended, and nobody knows whether their answers arrived.
func TestShutdownSaysThatTheServerIsNotThere(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	js := n.connect()
	stream(t, js, "JOBS", "jobs")
	produce(t, js, "jobs", 0, 1)
	w, release := runHeld(t, js)
	n.stop()
	release()
	eventually(t, "the job is not answered", func() bool { return w.Stats().Held == 0 })
	ctx, cancel := context.WithTimeout(context.Background(), 2*(pullTime+answerGrace))
	defer cancel()
	err := w.Shutdown(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "the server has not received the last answers")
	n.start()
	w.await(nil) // and then they are flushed
}

// TestRunSaysThatTheLastAnswersMayNotHaveArrived: its jobs have ended, and the server cannot be asked.
func TestRunSaysThatTheLastAnswersMayNotHaveArrived(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 1)
	w, release := runHeld(t, js)
	shut := make(chan error)
	go func() { shut <- w.Shutdown(context.Background()) }()
	eventually(t, "it still asks for jobs", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.stopped
	})
	js.Conn().Close()
	release()
	w.await(nats.ErrConnectionClosed)
	err := <-shut
	require.ErrorIs(t, err, nats.ErrConnectionClosed, "Shutdown returns the error of Run")
	require.ErrorContains(t, err, "the last answers may not have arrived")
}

// TestAWorkerThatWasShutDownTakesNothing.
func TestAWorkerThatWasShutDownTakesNothing(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 1)
	w, err := NewWorker(context.Background(), js, Config{Stream: "JOBS", Durable: "d", MaxDeliver: -1, Pool: newPool(t)}, nothing)
	require.NoError(t, err)
	require.NoError(t, w.Shutdown(context.Background()))
	require.NoError(t, w.Run(context.Background()))
	require.Zero(t, w.Stats().Taken)
}

// TestJobsThatTurnOutLongAreForOthers: after very short jobs a worker holds many, and the first two of them take long.
func TestJobsThatTurnOutLongAreForOthers(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 1000)
	release := make(chan struct{})
	var long atomic.Int32
	c := Config{Pool: newPool(t), MaxDeliver: 1, DeadLetter: "dead"}
	first := run(t, js, c, func(_ *pool.Worker, j *Job) error {
		if string(j.Data()) == "long" {
			long.Add(1)
			testutil.Compute(release)
		}
		return nil
	})
	requireDrained(t, js, "test")
	for range 2 {
		_, err := js.Publish(context.Background(), "jobs", []byte("long"))
		require.NoError(t, err)
	}
	eventually(t, "the long ones do not run", func() bool { return long.Load() == 2 })
	produce(t, js, "jobs", 1000, 1040)
	eventually(t, "the first worker does not hold them", func() bool { return first.Stats().Unstarted == 40 })
	c.Pool = newPool(t)
	var y tally
	second := run(t, js, c, func(_ *pool.Worker, j *Job) error {
		y.add(j.ID())
		return nil
	})
	eventually(t, "the first worker keeps jobs", func() bool { return y.len() == 40 })
	require.Zero(t, first.Stats().Unstarted)
	close(release)
	requireDrained(t, js, "test")
	first.shutdown()
	second.shutdown()
	require.Empty(t, deadLetters(t, js), "what was given back has not begun, though MaxDeliver is 1")
}

// TestJobsThatTakeLongerThanBeforeAreForOthers: the worker goes on, and holds many for longer than it should.
func TestJobsThatTakeLongerThanBeforeAreForOthers(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 1000)
	var y tally
	p := newPool(t)
	const long = 2 * defaultRunning // the pool has two workers
	w := run(t, js, Config{Pool: p}, func(_ *pool.Worker, j *Job) error {
		if string(j.Data()) == "long" {
			for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); { // a sleep would lend the place
				runtime.Gosched()
			}
		}
		y.add(j.ID())
		return nil
	})
	requireDrained(t, js, "test")
	require.Zero(t, w.Stats().GivenBack)
	require.NoError(t, p.Pause(context.Background()))
	for range long {
		_, err := js.Publish(context.Background(), "jobs", []byte("long"))
		require.NoError(t, err)
	}
	eventually(t, "the worker does not take them", func() bool { return w.Stats().Unstarted > long/2 })
	p.Resume()
	eventually(t, "the worker keeps them", func() bool { return w.Stats().GivenBack > 0 })
	require.Less(t, y.len(), 1000+long, "they ended before")
	requireDrained(t, js, "test")
	w.shutdown()
	require.Len(t, y.runs, 1000+long)
}

// TestPrioritiesHoldWhereOneJobRuns at a time: it ends when the next of high priority is there to choose from.
func TestPrioritiesHoldWhereOneJobRuns(t *testing.T) {
	t.Parallel()
	for _, places := range []int{1, 2} {
		js := newNode(t).connect()
		stream(t, js, "JOBS", "jobs")
		const each = 60
		for i, subject := range []string{"jobs.a", "jobs.b", "jobs.c"} {
			produce(t, js, subject, each*i, each*(i+1))
		}
		var order []string // one job writes at a time
		high := 0
		began := make(chan *running, 1)
		w := run(t, js, Config{Pool: newPool(t, pool.WithWorkers(places)), High: "jobs.a", Normal: "jobs.b", Low: "jobs.c", MaxRunning: 1},
			func(_ *pool.Worker, j *Job) error {
				if order = append(order, j.Subject()); j.Subject() == "jobs.a" {
					high++
				}
				w := <-began
				began <- w
				isThere := func() bool {
					w.mu.Lock()
					defer w.mu.Unlock()
					return len(w.lanes[0].queue) > 0 || high == each
				}
				for end := time.Now().Add(100 * time.Millisecond); !isThere() && time.Now().Before(end); { // the lane may ask only when this job has ended
					time.Sleep(100 * time.Microsecond)
				}
				return nil
			})
		began <- w
		eventually(t, "not all run", func() bool { return w.Stats().Done == 3*each })
		w.shutdown()
		slices.Reverse(order)
		until := len(order) - slices.Index(order, "jobs.a") // the last of high priority
		require.Less(t, until-each, each/4, "others came before it, with %d places", places)
	}
}

// broken is an error of which a nil pointer cannot be used.
type broken struct{ text string }

func (e *broken) Error() string { return e.text }

func TestAnErrorWhoseMethodsPanicIsAFailure(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 1)
	w := run(t, js, Config{Pool: newPool(t), MaxDeliver: 2, Backoff: []time.Duration{0}, DeadLetter: "dead"}, func(*pool.Worker, *Job) error {
		var e *broken
		return e
	})
	requireDrained(t, js, "test")
	w.shutdown()
	require.Contains(t, deadLetters(t, js)[0].Header.Get(HeaderError), "an error of type *jetstream.broken, whose methods panic")
}

// makeSuspects publishes jobs, and has them delivered to a process that dies.
func makeSuspects(t *testing.T, js natsjs.JetStream, c Config, jobs int) {
	t.Helper()
	produce(t, js, "jobs", 0, jobs)
	_, err := NewWorker(context.Background(), js, c, nothing) // makes the consumer
	require.NoError(t, err)
	consumer, err := js.Consumer(context.Background(), c.Stream, c.Durable)
	require.NoError(t, err)
	lost, err := consumer.Fetch(jobs)
	require.NoError(t, err)
	for range lost.Messages() {
	}
}

// TestASuspectIsAcknowledgedBeforeTheNextOneRuns, for that may end the process, and take along what waits to be sent.
func TestASuspectIsAcknowledgedBeforeTheNextOneRuns(t *testing.T) {
	t.Parallel()
	js := newNode(t).connect()
	s := stream(t, js, "JOBS", "jobs", func(c *natsjs.StreamConfig) { c.Retention = natsjs.WorkQueuePolicy })
	stream(t, js, "DEAD", "dead")
	const jobs = 20
	c := Config{Stream: "JOBS", Durable: "test", Pool: newPool(t), AckWait: leastAckWait, MaxDeliver: 3, DeadLetter: "dead"}
	makeSuspects(t, js, c, jobs)
	var ended, most uint64 // one suspect runs at a time
	w := run(t, js, c, func(pw *pool.Worker, j *Job) error {
		require.True(t, j.suspect)
		info, err := s.Info(context.Background())
		if err == nil {
			most = max(most, info.State.Msgs+ended)
		}
		ended++
		return err
	})
	requireDrained(t, js, "test")
	w.shutdown()
	require.EqualValues(t, jobs, most, "more were there than had not ended, so one was not acknowledged")
}

// TestSuspectsThatWaitForALongOneAreForOthers: they wait in line, not in the queue.
func TestSuspectsThatWaitForALongOneAreForOthers(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	const jobs = 5
	p := newPool(t)
	c := Config{Stream: "JOBS", Durable: "test", Pool: p, AckWait: 10 * leastAckWait, DeadLetter: "dead"}
	makeSuspects(t, js, c, jobs)
	release := make(chan struct{})
	open := sync.OnceFunc(func() { close(release) })
	defer open() // or the pool waits for ever if this fails
	first := run(t, js, c, func(*pool.Worker, *Job) error { testutil.Compute(release); return nil })
	eventually(t, "they are not in line", func() bool {
		first.mu.Lock()
		defer first.mu.Unlock()
		return len(first.line) == jobs-1
	})
	require.NoError(t, p.Go(func(*pool.Worker) { testutil.Compute(release) })) // no place is free
	c.Pool = newPool(t)
	var y tally
	second := run(t, js, c, func(_ *pool.Worker, j *Job) error {
		y.add(j.ID())
		return nil
	})
	eventually(t, "the first worker keeps them", func() bool { return y.len() == jobs-1 })
	require.Zero(t, first.Stats().Unstarted)
	open()
	requireDrained(t, js, "test")
	first.shutdown()
	second.shutdown()
	require.Empty(t, deadLetters(t, js))
}

// TestADumpShowsTheFunctionOfAWorker: jobs have the names of their subjects, and the pool learns which workers' functions wait.
func TestADumpShowsTheFunctionOfAWorker(t *testing.T) {
	t.Parallel()
	js := newStreams(t)
	produce(t, js, "jobs", 0, 20)
	p := newPool(t, pool.WithWorkers(1))
	waits := func(*pool.Worker, *Job) error { time.Sleep(20 * time.Millisecond); return nil }
	w := run(t, js, Config{Pool: p}, waits)
	eventually(t, "not all run", func() bool { return w.Stats().Done == 20 })
	w.shutdown()
	all := p.Snapshot().Waiters
	require.Len(t, all, 1)
	require.Equal(t, runtime.FuncForPC(reflect.ValueOf(waits).Pointer()).Name(), all[0].Function)
	require.Regexp(t, `^worker_test.go:\d+$`, all[0].Source)

	var first atomic.Bool
	first.Store(true)
	began, open := make(chan struct{}), make(chan struct{})
	w = run(t, js, Config{Pool: p, Durable: "other"}, func(*pool.Worker, *Job) error {
		if first.CompareAndSwap(true, false) {
			close(began)
			testutil.Compute(open)
		}
		return nil
	})
	<-began
	var shown strings.Builder
	require.NoError(t, p.Dump(&shown))
	require.Regexp(t, `jobs, worker_test.go:\d+\n`, shown.String())
	close(open)
	w.shutdown()
}
