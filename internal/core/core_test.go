package core

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/policy"
)

// fake is a host whose work is a number, and whose workers do what the test says.
type fake struct {
	pool   Pool
	work   bool
	kept   bool // the holder has work that it keeps for itself
	hired  []*Worker
	closed []*Place

	monitored bool
	turns     int
	waits     bool // the worker that is looked at waits
}

func never() bool { return false }

func (h *fake) Hire(s *Placement, begin func(w *Worker)) {
	w := new(Worker)
	w.Init(&h.pool, s, unseen{}, false)
	begin(w)
	h.hired = append(h.hired, w)
}

func (h *fake) AnyWork(bool) (node, place int, ok bool) { return 0, -1, h.work }
func (h *fake) Monitor()                                { h.monitored = true }
func (h *fake) Lent(w *Worker)                          { h.turns-- }
func (h *fake) GoesOn(w *Worker)                        { h.turns++ }
func (h *fake) LookAt(w *Worker)                        { w.Notice(func() bool { return h.waits }, never) }
func (h *fake) Broken(what string)                      { panic(what) }
func (h *fake) Closes(pl *Place)                        { h.closed = append(h.closed, pl) }

func (h *fake) LetsGo(*Place) (left bool) {
	left, h.work, h.kept = h.kept, h.work || h.kept, false
	return left
}

func (h *fake) NewPlace(index int) *Place {
	pl := new(Place)
	pl.Init(&h.pool, index)
	return pl
}

func newFake(size, most int) *fake {
	h := new(fake)
	h.pool.Init(Config{
		Host: h, Size: size, Seats: policy.NewSeats(make([]int, most), []int{0}), Placements: make([]Placement, 1), Nearby: [][]int{{0}},
		TicksSpin: 15, TicksWatch: 100,
	})
	h.pool.placements[0].Places = size
	return h
}

// worker makes a worker that has the place.
func (h *fake) worker(pl *Place) *Worker {
	w := new(Worker)
	w.Init(&h.pool, pl.Placement(), unseen{}, false)
	w.Grant(pl)
	w.TakeUp()
	return w
}

// idle makes a worker that has become idle, or Ended.
func (h *fake) idle(s *Placement, bound bool) *Worker {
	w := new(Worker)
	w.Init(&h.pool, s, unseen{}, bound)
	w.listIdle()
	return w
}

// unseen is a worker without forks.
type unseen struct{}

func (unseen) AnyFork(bool) bool { return false }
func (unseen) Alarm()            {}

// newAsleep makes a fake whose places sleep, and their workers, which are idle.
func newAsleep(size int) (h *fake, workers []*Worker) {
	h = newFake(size, size)
	for _, pl := range h.pool.Places() {
		w := h.worker(pl)
		w.BeIdle(pl)
		workers = append(workers, w)
	}
	return h, workers
}

// TestAStepThatTheStateDoesNotAllowEndsTheProcess, and no other: the table above State has them.
func TestAStepThatTheStateDoesNotAllowEndsTheProcess(t *testing.T) {
	allowed := map[State][]State{
		Fresh:   {Holding, Beside, Idle},
		Holding: {Waiting, Idle},
		Waiting: {Beside},
		Beside:  {Holding, Waiting, Idle},
		Idle:    {Holding, Beside, Ended},
	}
	h := newFake(1, 1)
	for from := Fresh; from <= Ended; from++ {
		for to := Fresh; to <= Ended; to++ {
			step := func() {
				w := &Worker{pool: &h.pool}
				w.state.Set(uintptr(from))
				w.become(to)
			}
			if slices.Contains(allowed[from], to) {
				require.NotPanics(t, step, "%v to %v", from, to)
			} else {
				require.PanicsWithValue(t, "a worker that is "+from.String()+" cannot become "+to.String(), step)
			}
		}
	}
}

// TestAWorkerGoesThroughItsStates: it has a place, lends it, comes back beside the stand-in, and gets it when the
// stand-in's job ends; then both are idle, and the place sleeps.
func TestAWorkerGoesThroughItsStates(t *testing.T) {
	h := newFake(1, 1)
	pl := h.pool.Places()[0]
	w := h.worker(pl)
	require.Equal(t, Holding, w.State())
	require.Same(t, w, pl.First())

	w.Lend(pl, false)
	require.Equal(t, Waiting, w.State())
	require.Equal(t, 1, h.pool.Waits())
	require.Nil(t, pl.First(), "it shows nothing")
	require.Len(t, h.hired, 1)
	standIn := h.hired[0]
	require.Same(t, pl, standIn.TakeUp())
	require.True(t, pl.IsStandIn())
	require.False(t, pl.IsStandIn(), "it has begun")

	require.Nil(t, w.ComeBack())
	require.Equal(t, Beside, w.State())
	require.Equal(t, 1, pl.Owed())
	require.True(t, pl.HasOrders())
	require.False(t, pl.MustClose())
	require.Nil(t, w.TakeUp())

	standIn.BeIdle(pl)
	require.Equal(t, Idle, standIn.State())
	require.Zero(t, pl.Owed())
	require.False(t, h.pool.Sleep.Parked(0), "the worker has it")
	require.Same(t, pl, w.TakeUp())
	require.Equal(t, Holding, w.State())

	w.BeIdle(pl)
	require.True(t, h.pool.Sleep.Parked(0))
	require.True(t, h.pool.Rests())
	require.Equal(t, 2, pl.Placement().Idle())
	h.pool.End()
	require.Nil(t, w.AwaitPlace())
	require.Equal(t, Ended, w.State())
	late := h.worker(pl)
	late.BeIdle(pl)
	require.Equal(t, Ended, late.State(), "nobody will end it")
}

// TestAPlaceIsHandedBackInTheWaitForWhichItWasLent, and neither in another one nor after it.
func TestAPlaceIsHandedBackInTheWaitForWhichItWasLent(t *testing.T) {
	h := newFake(1, 1)
	pl := h.pool.Places()[0]
	w := h.worker(pl)
	w.Lend(pl, false)
	standIn := h.hired[0]
	require.Same(t, pl, standIn.TakeUp())
	yes, no := func() bool { return true }, func() bool { return false }
	require.False(t, standIn.HandBack(pl, w, no))
	require.True(t, standIn.HandBack(pl, w, yes))
	require.Equal(t, Idle, standIn.State())
	require.Same(t, pl, w.ComeBack())
	require.Equal(t, Holding, w.State())
	require.Zero(t, h.pool.Waits())

	w.Lend(pl, false)
	require.Same(t, pl, standIn.TakeUp())
	require.Nil(t, w.ComeBack())
	require.False(t, standIn.HandBack(pl, w, yes), "it wants the place back")
	require.Nil(t, w.EndBeside())
	w.BeIdle(nil)
	standIn.BeIdle(pl)
	require.True(t, h.pool.Rests())
}

// TestWhatAHolderKeptIsFoundWhenItLetsGoOfItsPlace: when it waits, a stand-in has its turn before a worker that wants the place back; when the
// place goes to such a worker, which is in the middle of a job, another one is woken; and otherwise the place does not sleep.
func TestWhatAHolderKeptIsFoundWhenItLetsGoOfItsPlace(t *testing.T) {
	begin := func() (h *fake, holder *Worker, pl *Place, owed *Worker) {
		h, idle := newAsleep(2)
		pl = h.pool.Places()[0]
		require.True(t, h.pool.Sleep.Choose(0))
		h.pool.Sleep.Resumed()
		owed = h.worker(pl)
		owed.Lend(pl, false)
		holder = idle[slices.IndexFunc(idle, func(w *Worker) bool { return w.granted.Load() == pl })]
		require.Same(t, pl, holder.AwaitPlace())
		require.Nil(t, owed.ComeBack())
		h.kept = true
		return h, holder, pl, owed
	}

	_, holder, pl, owed := begin()
	holder.Lend(pl, false)
	require.Equal(t, 1, pl.Owed(), "a stand-in comes first")
	require.Nil(t, owed.TakeUp())

	h, holder, pl, owed := begin()
	holder.BeIdle(pl)
	require.Same(t, pl, owed.TakeUp())
	require.False(t, h.pool.Sleep.Parked(1), "a worker is woken")

	h, holder, pl, owed = begin()
	require.Nil(t, owed.EndBeside())
	owed.BeIdle(nil)
	holder.Lend(pl, false)
	standIn := owed
	require.Same(t, pl, standIn.AwaitPlace())
	require.True(t, standIn.HandBack(pl, holder, func() bool { return true }))
	require.False(t, h.pool.Sleep.Parked(1), "a worker is woken")

	h = newFake(1, 1)
	pl = h.pool.Places()[0]
	h.kept = true
	h.worker(pl).BeIdle(pl)
	require.False(t, h.pool.Sleep.Parked(0))
}

// TestWhoComesBackToAPlaceThatSleepsTakesIt.
func TestWhoComesBackToAPlaceThatSleepsTakesIt(t *testing.T) {
	h := newFake(1, 1)
	pl := h.pool.Places()[0]
	w := h.worker(pl)
	w.Lend(pl, true)
	require.Same(t, w, pl.First(), "it may show something while it waits")
	h.worker(pl).BeIdle(pl)
	require.True(t, h.pool.Sleep.Parked(0))
	require.False(t, h.pool.Rests(), "it is in the middle of a job")
	require.Same(t, pl, w.ComeBack())
	require.Equal(t, Holding, w.State())
	require.Zero(t, pl.Owed())
	require.Equal(t, policy.State(0), h.pool.Sleep.Load())
}

// TestWhoEndsItsJobWithoutAPlaceWantsItNoLonger.
func TestWhoEndsItsJobWithoutAPlaceWantsItNoLonger(t *testing.T) {
	h := newFake(1, 1)
	pl := h.pool.Places()[0]
	w := h.worker(pl)
	w.Lend(pl, false)
	standIn := h.worker(pl)
	w.ComeBack()
	require.Nil(t, w.EndBeside())
	w.BeIdle(nil)
	require.Zero(t, pl.Owed())
	require.Nil(t, standIn.home.First().Next(), "the stand-in alone is on the roster")
}

// TestAWakeUpThatGoesToWhoWantsThePlaceBackIsPassedOn: that worker continues what it was in the middle of, so
// another place has to wake up for what the waker saw.
func TestAWakeUpThatGoesToWhoWantsThePlaceBackIsPassedOn(t *testing.T) {
	h, _ := newAsleep(2)
	pl, back := h.pool.Places()[0], new(Worker)
	pl.back = append(pl.back, back)
	pl.owed.Store(1)
	h.work = true
	require.True(t, h.pool.Sleep.Choose(0))
	pl.WakeUp()
	require.Same(t, pl, back.granted.Load())
	require.False(t, h.pool.Sleep.Parked(1))
	require.Equal(t, 1, h.pool.Sleep.Load().Searching())
}

// TestOrdersEndWhenTheyAreObeyed: workers look at them between any two tasks.
func TestOrdersEndWhenTheyAreObeyed(t *testing.T) {
	h := newFake(2, 2)
	places := h.pool.Places()
	first, second := h.worker(places[0]), h.worker(places[1])
	require.True(t, h.pool.Resize(1, true))
	require.False(t, places[0].HasOrders())
	require.True(t, places[1].HasOrders())
	require.True(t, places[1].MustClose())
	require.True(t, second.ClosePlace(places[1]))
	require.Equal(t, []*Place{places[1]}, h.closed)
	require.Equal(t, Idle, second.State())
	require.Zero(t, h.pool.control.Load())

	require.True(t, h.pool.Pause())
	require.True(t, places[0].HasOrders())
	require.True(t, h.pool.Held())
	first.BeIdle(places[0])
	resumed, err := h.pool.AwaitPause(context.Background())
	require.NoError(t, err)
	require.False(t, resumed)
	require.False(t, h.pool.EnterUnlessAtRest())
	h.pool.Resume()
	require.Zero(t, h.pool.control.Load())
	require.True(t, h.pool.EnterUnlessAtRest())
	h.pool.Leave()
	require.True(t, h.pool.Rests())
	h.pool.Closing.Store(true)
	require.False(t, h.pool.Pause())
}

// TestAChosenSizeStays for those who only follow, and an ended pool has none.
func TestAChosenSizeStays(t *testing.T) {
	h, _ := newAsleep(3)
	require.True(t, h.pool.Resize(2, false))
	require.Equal(t, 2, h.pool.Size())
	require.True(t, h.pool.Resize(1, true))
	require.True(t, h.pool.IsChosen())
	require.True(t, h.pool.Resize(3, false))
	require.Equal(t, 1, h.pool.Size())
	h.pool.End()
	require.False(t, h.pool.Resize(2, true))
}

// TestAGapEndsWhenThePlaceIsWoken, not when its worker comes to run: the way there is no time for which to spin.
func TestAGapEndsWhenThePlaceIsWoken(t *testing.T) {
	h := newFake(1, 1)
	pl := h.pool.Places()[0]
	for _, c := range []struct {
		since, woken int64
		spins        bool
	}{
		{100, 100 + h.pool.TicksSpin, true},
		{100, 101 + h.pool.TicksSpin, false},
	} {
		pl.Gaps = policy.Gaps{}
		for range 4 {
			pl.idleSince, pl.wokenAt = c.since, c.woken
			pl.EndGap()
			require.Zero(t, pl.idleSince)
			require.Zero(t, pl.wokenAt)
		}
		require.Equal(t, c.spins, pl.Gaps.Spins())
		pl.EndGap() // there is none
		require.Equal(t, c.spins, pl.Gaps.Spins())
	}
}

// TestGuestsCountWhileTheyCompute, and a roster keeps some of those that are away.
func TestGuestsCountWhileTheyCompute(t *testing.T) {
	h, _ := newAsleep(1)
	var r Roster
	made := 0
	newGuest := func() *Worker {
		made++
		w := new(Worker)
		w.InitGuest(&h.pool, &h.pool.placements[0], unseen{}, &r)
		return w
	}
	asleep := h.pool.Sleep.Load()
	var inside []*Worker
	for range KeptGuests + 1 {
		inside = append(inside, h.pool.EnterGuest(&r, newGuest))
	}
	require.Equal(t, KeptGuests+1, made)
	require.Equal(t, 1-(KeptGuests+1), h.pool.Sleep.Load().Sleepers())
	inside[0].Lend(nil, false)
	require.Equal(t, 1-KeptGuests, h.pool.Sleep.Load().Sleepers(), "who waits does not compute")
	require.True(t, h.pool.Sleep.Load().HasGuests())
	require.Nil(t, inside[0].ComeBack())
	for i, w := range inside {
		require.Equal(t, i < KeptGuests, w.LeaveGuest())
	}
	require.Equal(t, asleep, h.pool.Sleep.Load())
	require.Nil(t, r.First())
	require.Contains(t, inside, h.pool.EnterGuest(&r, newGuest))
}

// TestAWaitThatIsNoticedLendsThePlace, once, and the worker comes back when it looks. Then it is as after Lend and ComeBack.
func TestAWaitThatIsNoticedLendsThePlace(t *testing.T) {
	h := newFake(1, 1)
	pl := h.pool.Places()[0]
	w := h.worker(pl)
	require.False(t, w.Notice(func() bool { return false }, never))
	require.False(t, w.Seen(), "it computes")
	require.Equal(t, Holding, w.State())

	waits := true
	require.True(t, w.Notice(func() bool { require.True(t, w.Seen(), "it must look from here on"); return waits }, never))
	require.False(t, w.Notice(func() bool { return true }, never), "its place is lent already")
	require.Equal(t, Waiting, w.State())
	require.Equal(t, -1, h.turns)
	require.Len(t, h.hired, 1)
	standIn := h.hired[0]
	require.Same(t, pl, standIn.TakeUp())

	w.NoticeEnd(func() bool { return true })
	require.Equal(t, Waiting, w.State())
	waits = false
	w.NoticeEnd(func() bool { return waits })
	require.Equal(t, Beside, w.State())
	require.Equal(t, 1, pl.Owed())
	require.True(t, w.Seen(), "it does not know yet that it has no place")
	require.Nil(t, w.GoOn())
	require.False(t, w.Seen())
	require.Zero(t, h.turns)

	require.True(t, w.Notice(func() bool { return true }, never), "it waits without a place")
	require.Zero(t, pl.Owed())
	standIn.BeIdle(pl)
	require.Same(t, pl, w.GoOn(), "the place sleeps by now")
	require.Equal(t, Holding, w.State())
	require.Len(t, h.hired, 1)
}

// TestALookoutGetsThePlaceOfWhoWaits, and is idle again if its target does not wait. Else a new worker is hired for that.
func TestALookoutGetsThePlaceOfWhoWaits(t *testing.T) {
	h := newFake(1, 1)
	pl := h.pool.Places()[0]
	w := h.worker(pl)
	w.ExpectWait(false)
	w.ExpectWait(false)
	require.Len(t, h.hired, 1, "one is enough")
	lookout := h.hired[0]
	lookout.BeginLookout()
	require.Equal(t, Idle, lookout.State())
	require.Equal(t, 1, pl.Placement().Idle(), "its target does not wait")
	require.Equal(t, Holding, w.State())

	h.waits = true
	w.ExpectWait(false)
	require.Len(t, h.hired, 1)
	require.Zero(t, pl.Placement().Idle())
	require.Same(t, pl, lookout.AwaitPlace())
	require.Equal(t, Waiting, w.State())
}

// TestALookoutLooksThoughEnoughAreIdle: it ends, since others have come back from waits meanwhile, and one of them gets the place.
func TestALookoutLooksThoughEnoughAreIdle(t *testing.T) {
	h := newFake(1, 1)
	h.waits = true
	w := h.worker(h.pool.Places()[0])
	w.ExpectWait(false)
	s := w.Placement()
	for range s.Places + Spares + mostSurplus {
		require.Equal(t, Idle, h.idle(s, false).State())
	}
	h.hired[0].BeginLookout()
	require.Equal(t, Ended, h.hired[0].State())
	require.Equal(t, Waiting, w.State())
	require.Equal(t, s.Places+Spares+mostSurplus-1, s.Idle())
}

// TestSurplusWorkersEndIfNobodyNeedsThem: the oldest, as many as were never needed for a while. Those that are bound end at once.
func TestSurplusWorkersEndIfNobodyNeedsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(1, 1)
		s := h.pool.Places()[0].Placement()
		var ended atomic.Int32
		begin := func() {
			w := h.idle(s, false)
			require.Equal(t, Idle, w.State())
			go func() {
				if w.AwaitPlace() == nil {
					ended.Add(1)
				}
			}()
		}
		enough := s.Places + Spares
		for range enough {
			begin()
		}
		require.Equal(t, Ended, h.idle(s, true).State())
		for range 10 {
			begin()
		}
		idle := func() []*Worker {
			s.mu.Lock()
			defer s.mu.Unlock()
			return slices.Clone(s.idle)
		}
		oldest := idle()[:7]
		time.Sleep(surplusTime + 1) // there was one too many when that began
		require.EqualValues(t, 1, ended.Load())
		wanted := []*Worker{s.pop(), s.pop(), s.pop()}
		for _, w := range wanted { // their lookout was in vain
			require.True(t, s.push(w))
		}
		time.Sleep(surplusTime)
		require.EqualValues(t, 7, ended.Load())
		require.Equal(t, enough+3, s.Idle())
		for _, w := range oldest {
			require.False(t, slices.Contains(idle(), w))
		}
		time.Sleep(surplusTime)
		require.EqualValues(t, 10, ended.Load())
		require.Equal(t, enough, s.Idle())
		s.close()
		synctest.Wait()
		require.EqualValues(t, 10+enough, ended.Load())
	})
}

// TestAWorkerCanSeeThatItIsLookedAt before the look, since it may go on right after it.
func TestAWorkerCanSeeThatItIsLookedAt(t *testing.T) {
	h := newFake(1, 1)
	w := h.worker(h.pool.Places()[0])
	no := func() bool { return false }
	require.False(t, w.Notice(no, no))
	require.False(t, w.Seen())
	require.True(t, w.Notice(w.Seen, no))
	require.True(t, w.Seen())
}

// TestANoticedWorkerHasOneStandIn, though it waits again before it has come back.
func TestANoticedWorkerHasOneStandIn(t *testing.T) {
	h := newFake(1, 1)
	pl := h.pool.Places()[0]
	w := h.worker(pl)
	yes := func() bool { return true }
	require.True(t, w.Notice(yes, yes))
	require.False(t, w.Notice(yes, yes))
	require.EqualValues(t, 1, pl.Lends.Load())
	require.EqualValues(t, 1, h.pool.Waits())
	require.Nil(t, w.GoOn(), "another worker has the place")
	require.False(t, w.Seen())
	require.Equal(t, Beside, w.State())
}

// TestALookoutOnAnotherThreadIsForLongWaits.
func TestALookoutOnAnotherThreadIsForLongWaits(t *testing.T) {
	h := newFake(1, 1)
	w := h.worker(h.pool.Places()[0])
	w.Parker = Parker{} // of a goroutine that is locked to its thread
	w.ExpectWait(false)
	require.Empty(t, h.hired)
	w.ExpectWait(true)
	require.Len(t, h.hired, 1)
}

// TestWhatIsToDoWhileNoPlaceSleepsCallsForAMonitor, once.
func TestWhatIsToDoWhileNoPlaceSleepsCallsForAMonitor(t *testing.T) {
	h := newFake(1, 1)
	h.worker(h.pool.Places()[0])
	h.work = true
	h.pool.NotifyTask(0)
	require.True(t, h.monitored)
	h.monitored = false
	h.pool.Monitored.Store(true)
	h.pool.NotifyTask(0)
	require.False(t, h.monitored)

	h = newFake(1, 1)
	h.worker(h.pool.Places()[0]).BeIdle(h.pool.Places()[0])
	h.pool.NotifyTask(0)
	require.False(t, h.monitored, "a place slept")
	h.pool.Places()[0].Mail.Add(1)
	h.pool.Forward()
	require.True(t, h.monitored, "only the place's worker can open its mail")
}

// TestAPlaceThatIsTooManyDoesNotSleep: its holder may look at the orders just before Resize gives one.
func TestAPlaceThatIsTooManyDoesNotSleep(t *testing.T) {
	h := newFake(2, 2)
	pl := h.pool.Places()[1]
	w := h.worker(pl)
	h.pool.Resize(1, true)
	w.BeIdle(pl)
	require.False(t, h.pool.Sleep.Parked(1))
	require.Same(t, pl, w.TakeUp(), "somebody has to close it")
	require.True(t, pl.MustClose())
}

// TestAPlaceThatIsNeededAgainStaysOpen: its holder may come to close it just after Resize has made the pool larger again.
func TestAPlaceThatIsNeededAgainStaysOpen(t *testing.T) {
	h := newFake(2, 2)
	pl := h.pool.Places()[1]
	w := h.worker(pl)
	h.pool.Resize(1, true)
	require.True(t, pl.MustClose())
	h.pool.Resize(2, true)
	require.False(t, w.ClosePlace(pl))
	require.True(t, pl.IsOpen())
	require.Equal(t, Holding, w.State())
}

// TestAHotPoolHasNoSleepWithoutAWatch: some worker must watch.
func TestAHotPoolHasNoSleepWithoutAWatch(t *testing.T) {
	h := newFake(1, 1)
	h.pool.hot = true
	pl := h.pool.Places()[0]
	w := h.worker(pl)
	w.BeIdle(pl)
	require.Same(t, pl, w.TakeUp())
	h.pool.watched.Store(true)
	w.BeIdle(pl)
	require.Nil(t, w.TakeUp())
}

// TestASearcherThatDoesNotAnswerIsNotReliedOn, neither by who submits nor by a worker between two tasks.
func TestASearcherThatDoesNotAnswerIsNotReliedOn(t *testing.T) {
	for _, notify := range []func(p *Pool){func(p *Pool) { p.NotifyTask(0) }, (*Pool).NotifyAgain} {
		h, _ := newAsleep(2)
		h.work = true
		h.pool.Sleep.Add(policy.OneSearching)
		h.pool.TicksAnswer = heist.TicksIn(time.Hour)
		h.pool.SearchedAt.Store(heist.Ticks())
		notify(&h.pool)
		require.Equal(t, 2, h.pool.Sleep.Load().Sleepers(), "it answers")
		h.pool.SearchedAt.Add(-2 * h.pool.TicksAnswer)
		notify(&h.pool)
		require.Equal(t, 1, h.pool.Sleep.Load().Sleepers())
	}
}

// TestAPlaceOfAnotherNodeWakesUp if none of the task's own node sleeps.
func TestAPlaceOfAnotherNodeWakesUp(t *testing.T) {
	h := new(fake)
	h.pool.Init(Config{Host: h, Size: 2, Seats: policy.NewSeats([]int{0, 1}, []int{0, 1}), Placements: make([]Placement, 2), Nearby: [][]int{{0, 1}, {1, 0}}})
	places := h.pool.Places()
	h.worker(places[0])
	h.worker(places[1]).BeIdle(places[1])
	h.pool.NotifyTask(0)
	require.False(t, h.pool.Sleep.Parked(1))
}

// TestAWorkerThatBeginsBesideThePlacesIsAGuestOfTheRoster, until its job has ended.
func TestAWorkerThatBeginsBesideThePlacesIsAGuestOfTheRoster(t *testing.T) {
	h, _ := newAsleep(1)
	asleep := h.pool.Sleep.Load()
	var r Roster
	w := new(Worker)
	w.Init(&h.pool, &h.pool.placements[0], unseen{}, false)
	w.BeginBeside(&r)
	require.True(t, h.pool.Sleep.Load().HasGuests())
	require.Same(t, w, r.First())
	require.Nil(t, w.EndBeside())
	require.Equal(t, asleep, h.pool.Sleep.Load())
	require.Nil(t, r.First())
}

// visited is a worker that shows something, or not, and does something when it is looked at.
type visited struct {
	unseen
	visit func() (shows bool)
}

func (s visited) AnyFork(bool) bool { return s.visit() }

// TestALookAtARosterSeesAllWhoStay, though a worker leads it to another roster.
func TestALookAtARosterSeesAllWhoStay(t *testing.T) {
	h, _ := newAsleep(1)
	var r, other Roster
	worker := func(visit func() bool) *Worker {
		w := new(Worker)
		w.Init(&h.pool, &h.pool.placements[0], visited{visit: visit}, false)
		w.BeginBeside(&r)
		return w
	}
	worker(func() bool { return true })
	var leaves *Worker
	leaves = worker(func() bool {
		r.Unlink(leaves)
		other.Link(leaves)
		return false
	})
	require.True(t, r.AnyFork(false))
	require.Same(t, leaves, other.First())
}
