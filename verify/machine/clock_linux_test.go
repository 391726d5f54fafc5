package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/goruntime/child"
	"github.com/seed53057037/heist/verify/goruntime/load"
)

func init() { programs["old"] = liveLongAfterBoot }

// old is what happens on a machine that booted long ago.
type old struct {
	Monotonic time.Duration // the system's clock
	Delays    int           // that ended
	TimedOut  int           // waits that came to their time-out
	Counts    load.Counts
}

// liveLongAfterBoot uses all that looks at a clock.
func liveLongAfterBoot() error {
	var o old
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	o.Monotonic = time.Duration(now.Nano())
	p, err := pool.New()
	if err != nil {
		return err
	}
	over := make(chan error)
	for _, delay := range []time.Duration{time.Nanosecond, time.Millisecond, 20 * time.Millisecond} {
		late := func(*pool.Worker) { over <- errors.New("a task with an hour's time was too late") }
		for range 2 {
			if err := p.Submit(context.Background(), func(*pool.Worker) { over <- nil },
				pool.Delay(delay), pool.StartBy(time.Now().Add(time.Hour), late)); err != nil {
				return err
			}
			if err := <-over; err != nil {
				return err
			}
			o.Delays++
		}
		var word atomic.Uint32
		for heist.FutexWait(&word, 0, delay) {
		}
		o.TimedOut++
	}
	if _, err := load.Pool(p); err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	if o.Counts, err = useAndCount(); err != nil {
		return err
	}
	return child.Tell(o)
}

// TestClocksMayShowAnyTimeSinceBoot moves the monotonic clock, which starts with the machine, by
// the better part of what the kernel can count. The clock on the wall is moved in the guests
// (verify/guest/inside), where no other process sees it.
func TestClocksMayShowAnyTimeSinceBoot(t *testing.T) {
	claim.That(t, "delays, deadlines and time-outs work however long ago the machine booted",
		"a child in a time namespace whose monotonic clock is 140 years ahead")
	const ahead = 140 * 365 * 24 * time.Hour
	type outcome struct {
		stdout, stderr string
		err            error
		refused        error
	}
	done := make(chan outcome)
	c := child.Command(t, "old", child.For(duration()))
	go func() {
		runtime.LockOSThread() // and never unlock: the thread must end with the goroutine
		var o outcome
		defer func() { done <- o }()
		// The namespace is for the children of this thread.
		if o.refused = unix.Unshare(unix.CLONE_NEWTIME); o.refused != nil {
			return
		}
		offset := fmt.Sprintf("monotonic %[1]d 0\nboottime %[1]d 0\n", int64(ahead.Seconds()))
		if o.refused = os.WriteFile(fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid()), []byte(offset), 0); o.refused != nil {
			return
		}
		o.stdout, o.stderr, o.err = child.Run(c)
	}()
	o := <-done
	if o.refused != nil {
		t.Skip("the system gives us no time namespace: ", o.refused)
	}
	require.NoError(t, o.err, o.stderr)
	var told old
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &told))
	if told.Monotonic < ahead {
		t.Skip("this kernel leaves a process that is started by vfork in its parent's time namespace")
	}
	require.Equal(t, 6, told.Delays)
	require.Equal(t, 3, told.TimedOut)
	claim.Amount(t, "%.0f years after boot: %d delays, %d time-outs, %v", told.Monotonic.Hours()/24/365, told.Delays, told.TimedOut, told.Counts)
}
