package sim

// A worker that joins a stolen fork waits until the thief is done. There are two rules:
//
//   - lend, the pool's: nothing runs on top of a wait. After a short look the waiter hands
//     its place over to a stand-in, and sleeps until the thief wakes it.
//   - help, the pool's former rule: the waiter searches for forks and runs them on top of its
//     wait. It cannot go on before the last of them has ended, whatever its size.

// A waiter looks for shortLook before it lends its place, and for up to longLook if other workers search
// in vain. Both are in nanoseconds.
const shortLook, longLook = 4_000, 30_000

// maxHelping bounds how many jobs a helper runs on top of one another, each on top of a wait
// of the job below.
const maxHelping = 256

// await waits until a stolen fork is done.
func (w *worker) await(d int) {
	w.publish()
	if w.engine.helps {
		w.help(d)
	} else {
		w.lend(d)
	}
	w.now += w.away(int(w.frames[d].thief) - 1) // the result
}

// lend waits for a fork while a stand-in has the place.
func (w *worker) lend(d int) {
	w.sync()
	if w.frames[d].state == done ||
		!w.crowded() && (w.lookAt(d, shortLook) || w.engine.sleep.Hungry() && w.lookAt(d, longLook-shortLook)) {
		return
	}
	w.frames[d].state = waiting
	w.engine.stats.Lent++
	w.leave()
	w.sleepUntilWoken()
	w.takeBack()
	w.place.enter(w) // the stand-in may still be there
}

// lookAt looks at a fork all the time until it is done, for at most ns nanoseconds. It says whether the
// fork is done.
func (w *worker) lookAt(d int, ns int64) bool {
	deadline := w.now + ns
	w.frames[d].state = looking
	w.engine.agenda.set(w.id, deadline)
	w.suspend()
	if w.frames[d].state == done {
		return true // the thief has set the clock
	}
	w.frames[d].state = pending
	w.now, w.synced = deadline, deadline
	return false
}

// complete ends the wait of the owner, for the thief that has set a latch to done. The state
// is the latch's former one.
func (w *worker) complete(owner *worker, state latch) {
	switch e := w.engine; {
	case state == pending:
	case state == looking:
		owner.wake(w.now)
	case state == alone:
		if owner.alone {
			w.now += waker
			owner.wake(w.now - waker + woken)
		}
	case e.helps:
		if e.sleep.Choose(owner.at) {
			w.write(e.bitmapWord(e.nodeOf[owner.at]))
			w.wakeUp(owner.place)
		}
	case owner.parked: // the place sleeps, and so does its CPU
		w.now += waker
		owner.wake(owner.wakes(w.now - waker))
	default:
		w.now += ready
		owner.wake(w.now + handOver)
	}
}

// help waits for a fork and runs other forks meanwhile.
func (w *worker) help(d int) {
	for w.frames[d].state != done {
		if j, ok := w.searchWork(d, false); ok {
			w.helping++
			w.run(j)
			w.helping--
			continue
		}
		w.sync()
		if w.frames[d].state == done {
			break
		}
		if w.helping >= maxHelping {
			w.frames[d].state = alone
			w.stopSearching()
			w.sleepUntilDone(d)
		} else {
			w.frames[d].state = waiting
			w.park(d)
		}
		if w.frames[d].state != done {
			w.frames[d].state = pending
		}
	}
	w.stopSearching()
}

// sleepUntilDone sleeps until the fork is done.
func (w *worker) sleepUntilDone(d int) {
	for w.frames[d].state != done {
		w.now += park
		w.alone, w.since = true, w.now
		w.sleepUntilWoken()
		w.alone = false
		w.engine.stats.Parked += w.now - w.since
	}
}
