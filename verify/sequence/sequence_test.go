package sequence

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
	"github.com/seed53057037/heist/verify/claim"
)

// TestMain chooses how many sequences there are, unless the command line does.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if checks := 300; !given {
		switch {
		case claim.Full():
			checks = 8_000
		case testutil.Short():
			checks = 60
		}
		if err := flag.Set("rapid.checks", strconv.Itoa(checks)); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

var (
	background = context.Background()
	errGaveUp  = errors.New("the caller gave up")
	errOwn     = errors.New("a function's own error")
)

// hang is the time after which something counts as never done.
const hang = time.Minute

// impatient is a context that ends as soon as a call waits for its end, which a call that has room for its
// task does not.
type impatient struct {
	context.Context
	cancel context.CancelCauseFunc
}

func newImpatient() impatient {
	ctx, cancel := context.WithCancelCause(background)
	return impatient{ctx, cancel}
}

func (c impatient) Done() <-chan struct{} {
	c.cancel(errGaveUp)
	return c.Context.Done()
}

// player makes the calls.
type player struct {
	t   *rapid.T
	p   *pool.Pool
	ref *reference

	ran     map[int]*atomic.Int32 // task -> how often it ran
	left    atomic.Int64          // accepted tasks that have not run
	done    chan struct{}         // gets something whenever left comes to 0
	panics  atomic.Int32          // that came to the handler
	next    int
	waiters []func() // waits that must not begin before Resume

	atTheBound []*atomic.Bool // calls that must not return while the pool is paused, and whether they have
}

var sequences, calls atomic.Int64

// play is one sequence.
func play(t *rapid.T) {
	maxWorkers := rapid.IntRange(1, 5).Draw(t, "maxWorkers")
	workers := rapid.IntRange(1, maxWorkers).Draw(t, "workers")
	bound := rapid.IntRange(0, 4).Draw(t, "bound")
	pl := &player{t: t, ref: newReference(workers, maxWorkers, bound), ran: make(map[int]*atomic.Int32), done: make(chan struct{}, 1)}
	options := []pool.Option{
		pool.WithWorkers(workers), pool.WithTuning(pool.Tuning{MaxWorkers: maxWorkers}),
		pool.WithPanicHandler(func(e *pool.PanicError) { pl.panics.Add(1) }),
	}
	if bound > 0 {
		options = append(options, pool.WithQueueBound(bound))
	}
	if rapid.Bool().Draw(t, "unpinned") {
		options = append(options, pool.WithPinning(pool.PinNone))
	}
	var err error
	pl.p, err = pool.New(options...)
	require.NoError(t, err)
	defer func() { _ = pl.p.Close() }() // for a sequence that fails
	actions := pl.actions()
	for name, action := range actions {
		actions[name] = func(t *rapid.T) {
			pl.t = t
			calls.Add(1)
			action(t)
		}
	}
	actions[""] = func(t *rapid.T) { pl.t = t; pl.compare() }
	t.Repeat(actions)
	pl.t = t
	pl.close()
	pl.compare()
	pl.close()
	sequences.Add(1)
}

func (pl *player) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"Go":            pl.goes,
		"Submit":        pl.submit,
		"TrySubmit":     pl.trySubmit,
		"OnNode":        pl.submitOn,
		"SubmitAll":     pl.submitAll,
		"After":         pl.delayed,
		"Async":         pl.async,
		"Group":         pl.group,
		"limited Group": pl.limitedGroup,
		"Run":           pl.run,
		"Worker.Go":     pl.workerGo,
		"Join":          pl.join,
		"loops":         pl.loops,
		"algorithms":    pl.algorithms,
		"nil":           pl.nils,
		"nonsense":      pl.nonsense,
		"Resize":        pl.resize,
		"Pause":         pl.pause,
		"Resume":        func(*rapid.T) { pl.resume() },
		"Close inside":  pl.closeInside,
		"Close":         pl.mayClose,
	}
}

// compare waits for what must have been done, and compares. While the pool is paused
// nothing is waited for, and nothing may run.
func (pl *player) compare() {
	if !pl.ref.paused {
		for pl.left.Load() > 0 {
			select {
			case <-pl.done:
			case <-time.After(hang):
				pl.t.Fatalf("%d tasks were never done", pl.left.Load())
			}
		}
		for _, wait := range pl.waiters {
			wait()
		}
		pl.waiters, pl.atTheBound = nil, nil
	}
	for _, returned := range pl.atTheBound {
		require.False(pl.t, returned.Load(), "a call at the bound has returned")
	}
	for task, ran := range pl.ran {
		require.EqualValues(pl.t, pl.ref.ran[task], ran.Load(), "how often task %d ran", task)
	}
	require.Equal(pl.t, pl.ref.workers, pl.p.Workers())
	if pl.ref.paused {
		return
	}
	for begin := time.Now(); int(pl.p.Stats().Skipped) < pl.ref.skipped && time.Since(begin) < hang; {
		time.Sleep(10 * time.Microsecond) // a skipped task does not tell anyone
	}
	require.EqualValues(pl.t, pl.ref.skipped, pl.p.Stats().Skipped, "tasks that were skipped")
	// A task that has run may not have ended: its panic comes to the handler after that.
	for begin := time.Now(); int(pl.panics.Load()) < pl.ref.panics && time.Since(begin) < hang; {
		time.Sleep(10 * time.Microsecond)
	}
	require.EqualValues(pl.t, pl.ref.panics, pl.panics.Load(), "panics that came to the handler")
	total := pl.p.Stats().Total()
	require.EqualValues(pl.t, pl.ref.tasks, total.Tasks, "tasks in Stats") // the children of scopes are none
}

// task makes a task, which may panic, and counts itself.
func (pl *player) task() (task int, f func(*pool.Worker)) {
	task = pl.next
	pl.next++
	pl.ran[task] = new(atomic.Int32)
	pl.ref.blowsUp[task] = rapid.IntRange(0, 9).Draw(pl.t, "panics") == 9
	return task, pl.body(task)
}

func (pl *player) body(task int) func(*pool.Worker) {
	f := pl.bodyOfOpen(task)
	pl.left.Add(1)
	return func(w *pool.Worker) {
		defer pl.finish()
		f(w)
	}
}

// bodyOfOpen is body for a task that may be skipped, and is not waited for.
func (pl *player) bodyOfOpen(task int) func(*pool.Worker) {
	ran, blowsUp := pl.ran[task], pl.ref.blowsUp[task]
	return func(*pool.Worker) {
		ran.Add(1)
		if blowsUp {
			panic(task)
		}
	}
}

// openTask makes a task that may be skipped, for a call that reports the task's panic itself.
func (pl *player) openTask() (task int, f func(*pool.Worker)) {
	task, _ = pl.task()
	pl.finish() // the body that task has made is not used
	pl.ref.blowsUp[task] = false
	pl.ref.open[task] = true
	return task, pl.bodyOfOpen(task)
}

func (pl *player) finish() {
	if pl.left.Add(-1) == 0 {
		select {
		case pl.done <- struct{}{}:
		default:
		}
	}
}

// answered compares an answer with that of the reference. A refused task is not waited for.
func (pl *player) answered(want, got error) {
	if want != nil {
		pl.finish()
	}
	pl.same(want, got)
}

func (pl *player) same(want, got error) {
	if want == nil {
		require.NoError(pl.t, got)
	} else {
		require.ErrorIs(pl.t, got, want)
	}
}

func (pl *player) goes(*rapid.T) {
	task, f := pl.task()
	pl.answered(pl.ref.take(task, true), pl.p.Go(f))
}

// options draws the options of a task, and says whether it counts for the bound.
func (pl *player) options(f func(*pool.Worker)) (options []pool.TaskOption, counts bool) {
	counts = true
	for _, o := range rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(pl.t, "options") {
		switch o {
		case 0:
			options, counts = append(options, pool.PriorityHigh), false
		case 1:
			options, counts = append(options, pool.PriorityLow), false
		case 2: // the last priority is the one that holds
			options, counts = append(options, pool.PriorityNormal), true
		case 3:
			options = append(options, pool.StartBy(time.Now().Add(time.Hour), func(*pool.Worker) { panic("not yet") }))
		case 4:
			options = append(options, pool.StartBy(time.Time{}, f))
		}
	}
	return options, counts
}

// submit does not wait for room for long. Its context may end before the call, at the bound, after the call,
// or when the task has run.
func (pl *player) submit(t *rapid.T) {
	task, f := pl.task()
	options, counts := pl.options(f)
	ctx, cancel := context.WithCancelCause(background)
	end := func() { cancel(errGaveUp) }
	var want error
	switch ends := rapid.SampledFrom([]string{"never", "before", "after", "when it has run"}).Draw(t, "the context ends"); {
	case ends == "before":
		end()
		want = errGaveUp
	case counts && !pl.ref.closed && pl.ref.full(): // else there is room
		defer time.AfterFunc(100*time.Microsecond, end).Stop()
		want = errGaveUp
	case ends == "never":
		ctx = background
		want = pl.ref.take(task, counts)
	case ends == "after" && len(options) == 0: // StartBy would run another function for the task, which is not skipped
		pl.submitUntil(ctx, end, task)
		return
	default:
		pl.waiters = append(pl.waiters, end)
		want = pl.ref.take(task, counts)
	}
	got := pl.p.Submit(ctx, f, options...)
	if errors.Is(want, errGaveUp) && pl.ref.closed && errors.Is(got, pool.ErrClosed) {
		want = pool.ErrClosed // both are true
	}
	pl.answered(want, got)
}

// submitUntil ends the context right after the call. If the pool is paused the task is skipped, else
// it may have begun before.
func (pl *player) submitUntil(ctx context.Context, end func(), task int) {
	pl.finish() // the body that task has made is not used
	if pl.ref.paused {
		pl.ref.ended[task] = true
	} else {
		pl.ref.open[task] = true
	}
	want := pl.ref.take(task, true)
	pl.same(want, pl.p.Submit(ctx, pl.bodyOfOpen(task)))
	end()
	if want != nil || pl.ref.paused {
		return
	}
	pl.waiters = append(pl.waiters, func() {
		ran := pl.ran[task]
		skipped := func() bool { return int(pl.p.Stats().Skipped) > pl.ref.skipped }
		for begin := time.Now(); ran.Load() == 0 && !skipped(); time.Sleep(10 * time.Microsecond) {
			require.Less(pl.t, time.Since(begin), hang, "a task whose context has ended neither ran nor was skipped")
		}
		pl.ref.resolve(task, ran.Load() > 0)
	})
}

func (pl *player) trySubmit(*rapid.T) {
	task, f := pl.task()
	options, counts := pl.options(f)
	want := pl.ref.takeIfRoom
	if !counts {
		want = func(task int) error { return pl.ref.take(task, false) }
	}
	pl.answered(want(task), pl.p.TrySubmit(f, options...))
}

func (pl *player) submitOn(t *rapid.T) {
	task, f := pl.task()
	nodes := pl.p.Nodes()
	node := rapid.SampledFrom(append(nodes[:len(nodes):len(nodes)], -1, slices.Max(nodes)+1)).Draw(t, "node")
	if !slices.Contains(nodes, node) {
		pl.finish()
		err := pl.p.Submit(background, f, pool.OnNode(node))
		require.ErrorContains(t, err, "no worker on node "+strconv.Itoa(node))
		return
	}
	pl.answered(pl.ref.take(task, false), pl.p.Submit(background, f, pool.OnNode(node), pool.PriorityHigh))
}

// submitAll gives up when there is no room: what was queued until then is.
func (pl *player) submitAll(t *rapid.T) {
	var tasks []int
	var fs []func(*pool.Worker)
	for range rapid.IntRange(0, 6).Draw(t, "tasks") {
		task, f := pl.task()
		tasks, fs = append(tasks, task), append(fs, f)
	}
	var ctx context.Context = background
	if pl.ref.paused { // else there will be room
		impatient := newImpatient()
		defer impatient.cancel(nil)
		ctx = impatient
	}
	var want error
	wantQueued := 0
	if pl.ref.closed {
		want = pool.ErrClosed
	}
	for _, task := range tasks {
		if want == nil && pl.ref.full() {
			want = errGaveUp
		}
		if want != nil {
			pl.finish()
			continue
		}
		require.NoError(t, pl.ref.take(task, true))
		wantQueued++
	}
	queued, err := pl.p.SubmitAll(ctx, fs)
	require.Equal(t, wantQueued, queued)
	pl.same(want, err)
}

func (pl *player) delayed(t *rapid.T) {
	if pl.ref.paused {
		t.Skip("it is not known when it would be queued")
	}
	task, f := pl.task()
	delay := time.Duration(rapid.IntRange(-1, 500).Draw(t, "delay")) * time.Microsecond
	pl.answered(pl.ref.take(task, false), pl.p.Submit(background, f, pool.Delay(delay)))
}

// async waits at once, or when the pool goes on. At the bound the call itself waits.
func (pl *player) async(t *rapid.T) {
	task, f := pl.openTask() // its panic does not come to the handler
	outcome := rapid.IntRange(0, 2).Draw(t, "outcome")
	call := func() *pool.Future[int] {
		return pool.Async(pl.p, func(w *pool.Worker) (int, error) {
			f(w)
			switch outcome {
			case 1:
				return 0, errOwn
			case 2:
				panic(errOwn)
			}
			return task, nil
		})
	}
	if !pl.ref.closed && pl.ref.full() {
		pl.asyncAtTheBound(call, task, outcome)
		return
	}
	pl.ref.open[task] = false
	want := pl.ref.take(task, true)
	future := call()
	if want != nil {
		require.True(t, future.Ready())
		_, err := future.Wait(background)
		pl.same(want, err)
		return
	}
	if pl.ref.paused {
		ctx, cancel := context.WithCancelCause(background)
		cancel(errGaveUp)
		_, err := future.Wait(ctx)
		require.ErrorIs(t, err, errGaveUp)
		require.False(t, future.Ready())
	}
	pl.waiters = append(pl.waiters, func() { pl.waitFor(future, task, outcome) })
}

// asyncAtTheBound makes a call that must not return before Resume or Close. The task may have been refused
// after a Close, but not after a Resume.
func (pl *player) asyncAtTheBound(call func() *pool.Future[int], task, outcome int) {
	var returned atomic.Bool
	made := make(chan *pool.Future[int], 1)
	go func() {
		future := call()
		returned.Store(true)
		made <- future
	}()
	pl.atTheBound = append(pl.atTheBound, &returned)
	pl.waiters = append(pl.waiters, func() {
		var future *pool.Future[int]
		select {
		case future = <-made:
		case <-time.After(hang):
			pl.t.Fatalf("Async waits for room for ever")
		}
		if pl.ref.closed {
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			refused := false
			_ = panicOf(func() {
				_, err := future.Wait(ctx)
				refused = errors.Is(err, pool.ErrClosed)
			})
			if refused {
				require.Zero(pl.t, pl.ran[task].Load())
				return
			}
		}
		pl.waitFor(future, task, outcome)
		pl.ref.run(task)
		pl.ref.resolve(task, true)
	})
}

// waitFor waits for a future that was accepted.
func (pl *player) waitFor(future *pool.Future[int], task, outcome int) {
	for range 2 {
		switch outcome {
		case 2:
			require.ErrorIs(pl.t, panicOf(func() { _, _ = future.Wait(background) }), errOwn)
		case 1:
			_, err := future.Wait(background)
			require.ErrorIs(pl.t, err, errOwn)
		default:
			got, err := future.Wait(background)
			require.NoError(pl.t, err)
			require.Equal(pl.t, task, got)
		}
		require.True(pl.t, future.Ready())
	}
}

// panicOf returns the error with which f panics.
func panicOf(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}

// group has members of which some fail. One fails first, its error is the group's, and members that have not
// begun by then never do. Or else the context ends before any member has begun.
func (pl *player) group(t *rapid.T) {
	parent, cancel := context.WithCancelCause(background)
	g, ctx := pool.NewGroup(pl.p.With(parent))
	members := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 5).Draw(t, "members")
	ends := rapid.SampledFrom([]string{"never", "never", "before", "after"}).Draw(t, "the context ends")
	if ends == "before" {
		cancel(errGaveUp)
	}
	tasks := make([]int, len(members))
	for i, m := range members {
		task, f := pl.openTask()
		tasks[i] = task
		_ = pl.ref.take(task, true)
		g.GoWorker(func(w *pool.Worker) error {
			f(w)
			switch m {
			case 4:
				return errOwn
			case 5:
				panic(errOwn)
			}
			return nil
		})
	}
	if ends == "after" && pl.ref.paused {
		cancel(errGaveUp)
	}
	closed, ended := pl.ref.closed, parent.Err() != nil
	pl.waiters = append(pl.waiters, func() {
		defer cancel(nil)
		var err error
		panicked := panicOf(func() { err = g.Wait() })
		require.Error(pl.t, ctx.Err())
		var ran []int // the members that began
		for i, task := range tasks {
			if n := pl.ran[task].Load(); n > 0 {
				ran = append(ran, members[i])
			}
		}
		if closed {
			require.Empty(pl.t, ran)
			require.Zero(pl.t, g.Skipped())
			if len(members) > 0 {
				require.ErrorIs(pl.t, err, pool.ErrClosed)
			}
			return
		}
		require.Equal(pl.t, len(members), len(ran)+g.Skipped(), "members that ran or were skipped")
		for _, task := range tasks {
			pl.ref.resolve(task, pl.ran[task].Load() > 0)
		}
		failing := slices.IndexFunc(members, func(m int) bool { return m >= 4 })
		switch {
		case ended && len(members) > 0:
			require.Empty(pl.t, ran)
			require.NoError(pl.t, panicked)
			require.ErrorIs(pl.t, err, errGaveUp)
			return
		case failing < 0:
			require.Len(pl.t, ran, len(members))
			require.NoError(pl.t, panicked)
			require.NoError(pl.t, err)
			return
		case pl.ref.maxWorkers == 1: // one after the other
			require.Equal(pl.t, members[:failing+1], ran)
		}
		if slices.Contains(ran, 5) {
			require.ErrorIs(pl.t, panicked, errOwn)
		} else {
			require.Contains(pl.t, ran, 4)
			require.NoError(pl.t, panicked)
			require.ErrorIs(pl.t, err, errOwn)
		}
		require.ErrorIs(pl.t, context.Cause(ctx), errOwn)
	})
}

// limitedGroup fills a group while the pool is paused: there is room up to the limit.
func (pl *player) limitedGroup(t *rapid.T) {
	if !pl.ref.paused {
		t.Skip("it is not known how many tasks there are at once")
	}
	g, _ := pool.NewGroup(pl.p)
	limit := rapid.IntRange(0, 3).Draw(t, "limit")
	g.SetLimit(limit)
	for i := range rapid.IntRange(1, 5).Draw(t, "tasks") {
		task, _ := pl.task()
		pl.finish()
		pl.ref.blowsUp[task] = false
		f := pl.body(task)
		accepted := g.TryGo(func() error { f(nil); return nil })
		require.Equal(t, i < limit, accepted)
		if accepted {
			require.NoError(t, pl.ref.take(task, true))
			require.ErrorContains(t, panicOf(func() { g.SetLimit(7) }), "Group.SetLimit")
		} else {
			pl.finish()
		}
	}
	pl.waiters = append(pl.waiters, func() { require.NoError(pl.t, g.Wait()) })
}

// run calls as a guest, and again inside the guest.
func (pl *player) run(t *rapid.T) {
	depth := rapid.IntRange(0, 3).Draw(t, "depth")
	ran := 0
	var outer *pool.Worker
	var nest func(*pool.Worker)
	nest = func(w *pool.Worker) {
		if outer != nil {
			require.Same(t, outer, w, "a Run in a Run")
		}
		outer = w
		if ran++; ran > depth {
			return
		}
		require.Same(t, pl.p, w.Pool())
		require.Less(t, w.ID(), pl.p.Slots())
		require.NoError(t, pl.p.Run(nest))
	}
	want := error(nil)
	if pl.ref.closed {
		want, depth = pool.ErrClosed, -1
	}
	pl.same(want, pl.p.Run(nest))
	require.Equal(t, depth+1, ran)
	panicked := panicOf(func() { pl.same(want, pl.p.Run(func(*pool.Worker) { panic(errOwn) })) })
	if !pl.ref.closed {
		require.ErrorIs(t, panicked, errOwn)
	}
}

// workerGo queues tasks from a guest.
func (pl *player) workerGo(t *rapid.T) {
	n := rapid.IntRange(0, 4).Draw(t, "tasks")
	if pl.ref.closed {
		t.Skip("there is no worker to be had")
	}
	require.NoError(t, pl.p.Run(func(w *pool.Worker) {
		for range n {
			task, f := pl.task()
			pl.answered(pl.ref.take(task, true), w.Go(f))
		}
	}))
}

// join computes a number by a tree of forks, and in order.
func (pl *player) join(t *rapid.T) {
	if pl.ref.closed {
		t.Skip("there is no worker to be had")
	}
	n := rapid.IntRange(0, 200).Draw(t, "n")
	way := rapid.IntRange(0, 4).Draw(t, "way")
	require.NoError(t, pl.p.Run(func(w *pool.Worker) {
		require.Equal(t, n*(n+1)/2, sumBy(w, way, 0, n+1))
	}))
	got, err := tree.Run(pl.p, [2]int{0, n + 1})
	require.NoError(t, err)
	require.Equal(t, n*(n+1)/2, got)
}

var tree = pool.Recursive(func(f *pool.Fork[[2]int, int], r [2]int) int {
	if r[1]-r[0] == 1 {
		return r[0]
	}
	mid := (r[0] + r[1]) / 2
	x, y := f.Join([2]int{r[0], mid}, [2]int{mid, r[1]})
	return x + y
})

// sumBy adds the numbers from lo to hi-1, in one of the ways to fork.
func sumBy(w *pool.Worker, way, lo, hi int) (sum int) {
	if hi-lo == 1 {
		return lo
	}
	mid := (lo + hi) / 2
	var x, y int
	left := func(w *pool.Worker) { x = sumBy(w, way, lo, mid) }
	right := func(w *pool.Worker) { y = sumBy(w, way, mid, hi) }
	switch way {
	case 0:
		half := func(w *pool.Worker, r [2]int) int { return sumBy(w, way, r[0], r[1]) }
		x, y = pool.Join(w, half, [2]int{lo, mid}, half, [2]int{mid, hi})
	case 1:
		x, y = both(w,
			func(w *pool.Worker) int { return sumBy(w, way, lo, mid) },
			func(w *pool.Worker) int { return sumBy(w, way, mid, hi) })
	case 2:
		w.Do(left, right)
	case 3:
		left(w)
		right(w)
	case 4:
		x, y = tree.Call(w, [2]int{lo, mid}), sumBy(w, 0, mid, hi)
	}
	return x + y
}

// place draws a place, and the error of a call there.
func (pl *player) place() (pool.Place, error) {
	switch {
	case rapid.Bool().Draw(pl.t, "cancelled"):
		ctx, cancel := context.WithCancelCause(background)
		cancel(errGaveUp)
		return pl.p.With(ctx), errGaveUp
	case pl.ref.closed:
		return pl.p, pool.ErrClosed
	}
	return pl.p, nil
}

func (pl *player) granularity() []pool.Granularity {
	switch n := rapid.IntRange(0, 5).Draw(pl.t, "grain"); n {
	case 0:
		return nil
	case 1:
		return []pool.Granularity{pool.Granularity{}}
	default:
		return []pool.Granularity{pool.Grain(n)}
	}
}

// loops calls each item once, and none if there is an error from the beginning.
func (pl *player) loops(t *rapid.T) {
	n := rapid.IntRange(0, 300).Draw(t, "n")
	at, want := pl.place()
	g := pl.granularity()
	counts := make([]atomic.Int32, n)
	items := make([]int, n)
	for i := range items {
		items[i] = i
	}
	item := func(i int) { counts[i].Add(1) }
	between := func(lo, hi int) {
		for i := lo; i < hi; i++ {
			item(i)
		}
	}
	loops := map[string]func() error{
		"For":       func() error { return par.For(at, n, item, g...) },
		"ForRange":  func() error { return pool.ForRange(at, n, between, g...) },
		"ForWorker": func() error { return pool.ForRange(at, n, func(_ *pool.Worker, lo, hi int) { between(lo, hi) }, g...) },
		"ForEach":   func() error { return par.ForEach(at, items, func(i *int) { item(*i) }, g...) },
		"Phases":    func() error { return par.Phases(at, n, 1, func(_, lo, hi int) { between(lo, hi) }) },
		"ForSeq":    func() error { return par.ForSeq(at, slices.Values(items), item) },
	}
	for name, loop := range loops {
		pl.same(want, loop())
		for i := range counts {
			ran := counts[i].Swap(0)
			require.Equal(t, want == nil, ran == 1, "%s of item %d, which was done %d times", name, i, ran)
		}
	}
}

// algorithms gives the same as the standard library, or as a loop.
func (pl *player) algorithms(t *rapid.T) {
	s := rapid.SliceOfN(rapid.IntRange(-50, 50), 0, 400).Draw(t, "numbers")
	at, want := pl.place()
	g := pl.granularity()
	if len(s) > 0 {
		least, most, err := par.MinMax(at, s)
		pl.same(want, err)
		if want == nil {
			require.Equal(t, []int{slices.Min(s), slices.Max(s)}, []int{least, most})
		}
	} else {
		_, _, err := par.MinMax(at, s)
		require.ErrorIs(t, err, cmp.Or(want, par.ErrEmpty))
	}
	byTens := func(a, b int) int { return cmp.Compare(a/10, b/10) }
	odd := func(v int) bool { return v%2 != 0 }
	double := func(v int) int { return 2 * v }
	doubled := make([]int, len(s))
	totals := make([]int, len(s))
	sum := 0
	for i, v := range s {
		doubled[i] = 2 * v
		sum += v
		totals[i] = sum
	}
	plus := func(a, b int) int { return a + b }
	type algorithm struct {
		want any
		do   func(s []int) (any, error)
	}
	algorithms := map[string]algorithm{
		"Sort":     {slices.Sorted(slices.Values(s)), func(s []int) (any, error) { return s, par.Sort(at, s) }},
		"SortFunc": {slices.SortedStableFunc(slices.Values(s), byTens), func(s []int) (any, error) { return s, par.SortFunc(at, s, byTens) }},
		"SortBy":   {slices.SortedStableFunc(slices.Values(s), byTens), func(s []int) (any, error) { return s, par.SortBy(at, s, func(i int) int { return i / 10 }) }},
		"Map":      {doubled, func(s []int) (any, error) { return par.Map(at, s, double, g...) }},
		"MapTo":    {doubled, func(s []int) (any, error) { return s, par.MapTo(at, s, s, double, g...) }},
		"Scan":     {totals, func(s []int) (any, error) { return s, par.Scan(at, s, s, plus) }},
		"Reduce":   {sum, func(s []int) (any, error) { return par.Reduce(at, s, nought, plus, plus) }},
		"Find":     {slices.IndexFunc(s, odd), func(s []int) (any, error) { return par.Find(at, s, odd) }},
		"Filter": {slices.DeleteFunc(slices.Clone(s), func(v int) bool { return !odd(v) }),
			func(s []int) (any, error) { return par.Filter(at, s, odd) }},
		"MapSeq": {doubled, func(s []int) (any, error) { return par.MapSeq(at, slices.Values(s), double) }},
	}
	for name, c := range algorithms {
		got, err := c.do(slices.Clone(s))
		pl.same(want, err)
		if want == nil {
			require.True(t, equal(c.want, got), "%s of %v: %v instead of %v", name, s, got, c.want)
		}
	}
}

func nought() int { return 0 }

// equal does not tell nil from an empty slice.
func equal(a, b any) bool {
	x, ok := a.([]int)
	if !ok {
		return a == b
	}
	return slices.Equal(x, b.([]int))
}

// nils passes nil functions. The error says to what, whether the pool is closed or not.
func (pl *player) nils(t *rapid.T) {
	p := pl.p
	var none func(*pool.Worker)
	nothing := func(*pool.Worker) {}
	s := []int{1, 2}
	for name, call := range map[string]func() error{
		"Pool.Go":              func() error { return p.Go(nil) },
		"Pool.Submit was":      func() error { return p.Submit(background, none) },
		"Pool.TrySubmit":       func() error { return p.TrySubmit(none) },
		"Pool.Submit":          func() error { return p.Submit(background, none, pool.OnNode(p.Nodes()[0])) },
		"Pool.SubmitAll":       func() error { _, err := p.SubmitAll(background, []func(*pool.Worker){nothing, nil}); return err },
		"nil TaskOption":       func() error { return p.Submit(background, nothing, nil) },
		"StartBy":              func() error { return p.TrySubmit(nothing, pool.StartBy(time.Now(), nil)) },
		"priority 7":           func() error { return p.TrySubmit(nothing, pool.Priority(7)) },
		"Pool.Run":             func() error { return p.Run(nil) },
		"View.Run":             func() error { return p.With(background).Run(nil) },
		"Async":                func() error { _, err := pool.Async[int](p, nil).Wait(background); return err },
		"Group.Go ":            func() error { g, _ := pool.NewGroup(p); g.Go(nil); return g.Wait() },
		"Group.GoWorker":       func() error { g, _ := pool.NewGroup(p); g.GoWorker(nil); return g.Wait() },
		"Group.TryGo":          func() error { g, _ := pool.NewGroup(p); g.TryGo(nil); return g.Wait() },
		"For ":                 func() error { return par.For(p, 1, nil) },
		"ForRange":             func() error { return pool.ForRange[func(lo, hi int)](p, 1, nil) },
		"ForRange ":            func() error { return pool.ForRange[func(w *pool.Worker, lo, hi int)](p, 1, nil) },
		"ForEach":              func() error { return par.ForEach(p, s, nil) },
		"Phases":               func() error { return par.Phases(p, 1, 1, nil) },
		"ForSeq":               func() error { return par.ForSeq(p, slices.Values(s), nil) },
		"MapSeq":               func() error { _, err := par.MapSeq[int, int](p, nil, func(i int) int { return i }); return err },
		"Map":                  func() error { _, err := par.Map[int, int](p, s, nil); return err },
		"Reduce":               func() error { _, err := par.Reduce(p, s, nought, nil, func(a, b int) int { return a }); return err },
		"Scan":                 func() error { return par.Scan(p, s, s, nil) },
		"Filter":               func() error { _, err := par.Filter(p, s, nil); return err },
		"Find":                 func() error { _, err := par.Find(p, s, nil); return err },
		"SortFunc":             func() error { return par.SortFunc(p, s, nil) },
		"SortBy":               func() error { return par.SortBy[[]int, int, int](p, s, nil) },
		"Recursive":            func() error { return panicOf(func() { pool.Recursive[int, int](nil) }) },
		"nil as its place":     func() error { return par.For(nil, 1, func(int) {}) },
		"nil as its place; it": func() error { return par.Sort(nil, s) },
	} {
		require.ErrorContains(t, call(), name)
	}
	if !pl.ref.closed {
		require.NoError(t, p.Run(func(w *pool.Worker) {
			require.ErrorContains(t, w.Go(nil), "Worker.Go")
			for name, call := range map[string]func(){
				"Worker.Block": func() { w.Block(nil) },
				"Worker.Do":    func() { w.Do(nothing, nil) },
				"Worker.Scope": func() { w.Scope(nil) },
				"Scope.Go":     func() { w.Scope(func(s *pool.Scope) { s.Go(w, nil) }) },
			} {
				require.ErrorContains(t, panicOf(call), name)
			}
		}))
	}
}

// nonsense passes numbers that make no sense.
func (pl *player) nonsense(t *rapid.T) {
	n := -1 - rapid.IntRange(0, 1000).Draw(t, "n")
	s := []int{1, 2}
	for name, call := range map[string]func() error{
		fmt.Sprintf("given %d items", n):                  func() error { return par.For(pl.p, n, func(int) {}) },
		fmt.Sprintf("given %d items; it", n):              func() error { return pool.ForRange(pl.p, n, func(int, int) {}) },
		fmt.Sprintf("Phases was given %d", n):             func() error { return par.Phases(pl.p, n, 1, func(_, _, _ int) {}) },
		fmt.Sprintf("Phases was given 1 items and %d", n): func() error { return par.Phases(pl.p, 1, n, func(_, _, _ int) {}) },
		"MapTo": func() error { return par.MapTo(pl.p, s[:1], s, func(i int) int { return i }) },
		"Scan":  func() error { return par.Scan(pl.p, s[:1], s, func(a, b int) int { return a }) },
		"Grain": func() error { return panicOf(func() { pool.Grain(n) }) },
	} {
		require.ErrorContains(t, call(), name)
	}
}

func (pl *player) resize(t *rapid.T) {
	n := rapid.IntRange(-1, pl.ref.maxWorkers+1).Draw(t, "n")
	got := pl.p.Resize(n)
	if valid, want := pl.ref.resize(n); valid {
		pl.same(want, got)
	} else {
		require.ErrorContains(t, got, fmt.Sprintf("Resize(%d)", n))
	}
}

func (pl *player) pause(*rapid.T) {
	pl.compare()
	got := pl.p.Pause(background)
	if pl.ref.closed {
		pl.same(pool.ErrClosed, got)
		return
	}
	pl.same(nil, got)
	pl.ref.paused = true
}

func (pl *player) resume() {
	pl.p.Resume()
	pl.ref.resume()
}

func (pl *player) mayClose(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "close") == 0 {
		pl.close()
	}
}

func (pl *player) close() { pl.same(pl.ref.close(), pl.p.Close()) }

// closeInside closes the pool in a task, which closes nothing and is an error other than ErrClosed.
func (pl *player) closeInside(t *rapid.T) {
	if pl.ref.paused || pl.ref.closed {
		t.Skip("nobody would run the task")
	}
	task, _ := pl.task()
	pl.finish()
	pl.ref.blowsUp[task] = false
	f := pl.body(task)
	require.NoError(t, pl.ref.take(task, true))
	errs, err := pool.Async(pl.p, func(w *pool.Worker) (map[string]error, error) {
		f(w)
		if err := pl.p.Run(func(inner *pool.Worker) {
			if inner != w {
				panic("a Run in a task has another worker")
			}
		}); err != nil {
			return nil, err
		}
		return map[string]error{
			"Close or Shutdown": pl.p.Close(),
			"Close":             pl.p.Shutdown(background),
			"Pause":             pl.p.Pause(background),
		}, nil
	}).Wait(background)
	require.NoError(t, err)
	for _, name := range slices.Sorted(maps.Keys(errs)) {
		require.ErrorContains(t, errs[name], name)
		require.NotErrorIs(t, errs[name], pool.ErrClosed)
	}
}

func TestSequencesOfCallsAreThoseOfAReference(t *testing.T) {
	claim.That(t, "any sequence of calls gets the answers of a serial executor",
		"random sequences by rapid: what each call returns, what ran how often, Workers and Stats after each call")
	sequences.Store(0)
	calls.Store(0)
	rapid.Check(t, play)
	claim.Amount(t, "%s sequences, %s calls", claim.Count(sequences.Load()), claim.Count(calls.Load()))
}

// FuzzSequence lets go test choose the bytes that the choices of a sequence are made of.
func FuzzSequence(f *testing.F) {
	for seed := range uint64(8) {
		random := rand.NewChaCha8([32]byte{byte(seed)})
		choices := make([]byte, 4096)
		_, _ = random.Read(choices) // it never fails
		f.Add(choices)
	}
	f.Fuzz(rapid.MakeFuzz(play))
}

// both is pool.Join for closures.
func both[X, Y any](w *pool.Worker, f func(*pool.Worker) X, g func(*pool.Worker) Y) (X, Y) {
	return pool.Join(w, apply[X], f, apply[Y], g)
}

func apply[R any](w *pool.Worker, f func(*pool.Worker) R) R { return f(w) }
