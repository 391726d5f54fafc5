/*
The rule of waiting: internal/core/waiting.md has it, and the argument why no program hangs because of it.

A program of a few tasks, each of which may wait for others, runs in a few places. The model chooses
the program when it begins: a task may wait for any task with a lower number, so no program has a
circle. The order in which tasks are submitted, and the order in which workers take them from the
queues, do not depend on the numbers. A wait is one of

  - a future's: the waiter runs the task in place if the task has not begun, else it lends its place
    until the task is done,
  - a Block's or a group's: never in place,
  - a join's: as a future's, but by a latch, and only one task waits for it so.

A worker that waits lends its place to a stand-in. When it comes back it has its place, or computes
without one, waits again, and comes to its end; the stand-in gives the place back. A stand-in that has
ended the wait may hand the place back at once. Meanwhile tasks are
submitted, and places sleep and are woken. Shown for every interleaving within the bounds:

  - Every task ends, and begins once: no program without a circle hangs.
  - A place has one holder, and a worker one place. So no more workers have a place than there
    are places.
  - A holder that comes to a boundary begins nothing while the worker whose place it has computes
    without a place; but a stand-in begins one task in any case. So as many compute without a
    place as stand-ins have not come to a boundary.
  - A place does not sleep while a worker is on its list. (The worker that has put it to sleep, or
    one that comes back, may be about to see that.)
  - No worker is given a place back as a searcher, and no place sleeps while a task lies in a queue,
    even if the holder of another place never comes to it: one task lasts until all have begun
    (LONG, BEGUN).
  - When no process moves any more, all places sleep, all queues and lists are empty, every worker is
    idle and has parked, and none searches. No unpark was in vain, and no worker counts as working; as
    long as a task runs, one does.

Abstract. All queues are one, from which a worker takes any task. The times at which things become
visible, the number of sleepers, forks that thieves take, and all looks of a search but the first and
the last are in sleep.pml. Without SEARCHERS no worker counts as a searcher, and every submitter wakes a
place. The looks of await before it lends are left out. A guest is like a worker without a place, and
the places that a goroutine has in other pools are lent in the same way. There is no pause, no other
size, no close and no panic. Waits that are noticed are left out: who notices one calls Lend, and the
worker ComeBack, as here. What is new there, who may call them at which moment, is some words between
two goroutines; verify/interleave runs the code itself for that, with mutants.

The list of the idle is one, and as in the code the last to come is the first to be given a place.
Workers on it that have parked are alike, and like workers that have yet to be hired. Several steps of a
worker are one step here where no other process could see or change anything in between.

Memory. Shared state is under a lock, or one of Go's atomics, so the model is sequentially consistent.

Bounds. There are as many workers as can be in the middle of something. With two tasks, one waits for the
other. With three, one comes back while another one waits, and there is a third for a stand-in; the last
of them may wait twice (WAITS). With two places one can sleep while the other is given back. All tasks but
LATE are submitted at once. With BEGUN the last task waits for the first when the model begins.
*/

// stands for: pool/waiting.go: latch latch.done latch.complete Worker.await Pool.wait Pool.lend loan.comeBack Worker.lend Worker.comeBack
// stands for: internal/core/worker.go: Worker.TakeUp Worker.EndBeside Worker.BeIdle Worker.listIdle Worker.AwaitPlace Worker.Lend Worker.ComeBack Worker.HandBack Worker.forgo
// stands for: internal/core/place.go: Place Place.occupy Place.giveBack
// stands for: pool/worker.go: Worker.hasPlace Worker.main Worker.awaitPlace Worker.step Worker.runOne Worker.beIdle
// stands for: internal/core/search.go: Place.FindWork
// stands for: pool/future.go: waiters.release waiters.wait Future.task Future.runInPlace Future.Wait
// stands for: internal/core/park.go: Parker Parker.Park Parker.Unpark
// stands for: pool/control.go: Worker.isControlled Worker.obeyControl Worker.Block
// stands for: internal/core/idle.go: Placement.push Placement.pop
// stands for: internal/core/sleep.go: Pool.NotifyTask Pool.NotifySeen Pool.WakeOne Pool.anyWork Place.FallAsleep Place.WakeUp Place.StopSearching
// stands for: internal/policy/sleep.go: Sleep.StartSearching Sleep.StopSearching Sleep.Announce Sleep.Choose Sleep.Woken Sleep.Resumed

// configuration (small): two tasks: -DPLACES=1 -DTASKS=2 -DLATE=1
// configuration (small): three tasks: -DPLACES=1 -DTASKS=3 -DLATE=0
// configuration (small): two places: -DPLACES=2 -DTASKS=2 -DLATE=1
// configuration (small): who comes back, and searchers: -DPLACES=2 -DTASKS=3 -DLATE=1 -DSEARCHERS -DBEGUN
// configuration: two waits: -DPLACES=1 -DTASKS=3 -DLATE=0 -DWAITS=2
// configuration: three tasks, one of them late: -DPLACES=1 -DTASKS=3 -DLATE=1
// configuration: two places, three tasks: -DPLACES=2 -DTASKS=3 -DLATE=1 -DWAITERS=1
// configuration: two places and searchers: -DPLACES=2 -DTASKS=2 -DLATE=1 -DSEARCHERS -DLONG
// configuration (full): two waits, a task late: -DPLACES=1 -DTASKS=3 -DLATE=1 -DWAITS=2; pan: -DCOLLAPSE
// configuration (full): two places, two of three tasks wait: -DPLACES=2 -DTASKS=3 -DLATE=1 -DKIND=block; pan: -DCOLLAPSE
// configuration (full): two places, three tasks and searchers: -DPLACES=2 -DTASKS=3 -DLATE=1 -DSEARCHERS -DLONG -DWAITERS=1 -DKIND=block; pan: -DCOLLAPSE

// mutant MUTANT_HELP, in three tasks: a worker that waits runs any queued task on top of its wait
// mutant MUTANT_WAIT_WITHOUT_LENDING: a worker that waits keeps its place
// mutant MUTANT_LEND_TO_NOBODY: a worker that waits gives up its place, and no stand-in gets it
// mutant MUTANT_WAITS_AGAIN_ON_THE_LIST, in two waits: a worker without a place that waits again stays on the list
// mutant MUTANT_IDLE_ON_THE_LIST: a worker without a place that becomes idle stays on the list
// mutant MUTANT_FORGO_FORGETS_GRANT: a worker that leaves the list does not see that it was given the place just now
// mutant MUTANT_COME_BACK_WITHOUT_LIST, in three tasks: a worker that comes back goes on without a place, and does not put itself on the list
// mutant MUTANT_COME_BACK_TAKES_PLACE: a worker that comes back takes its place, though a stand-in has it
// mutant MUTANT_LISTED_AFTER_LOOK: a worker that comes back looks whether its place sleeps before it is on the list: (6) before (5)
// mutant MUTANT_SLEEP_WITHOUT_LOOK_AT_LIST: a worker that puts a place to sleep does not look at its list again: without (8)
// mutant MUTANT_NO_LOOK_AT_LIST, in three tasks: a holder that is in the middle of nothing begins the next task, though a worker is on the list
// mutant MUTANT_CHOSEN_ONE_IS_ENOUGH, in who comes back, and searchers: a worker that puts a place to sleep, sees another on its list and finds its bit gone does nothing for the tasks that were left to it as a searcher
// mutant MUTANT_SEARCHER_GIVES_BACK, in who comes back, and searchers: a worker that is given a place back counts as a searcher if the giver does
// mutant MUTANT_WAKER_GIVES_BACK_AND_LEAVES, in who comes back, and searchers: a waker that gives the place back does not look for another one
// mutant MUTANT_IN_PLACE_THOUGH_BEGUN, in three tasks: a worker that waits for a future runs it in place, though it has begun
// mutant MUTANT_HANDED_BACK_TO_WHO_IS_BACK: a stand-in hands the place back to a worker that has come back before
// mutant MUTANT_QUEUED_IS_NOT_BEGUN: a worker that takes a future's task from a queue runs it, though a waiter has run it in place
// mutant MUTANT_UNPARK_BEFORE_LATCH, in three tasks: a worker that ends a fork looks at the latch and wakes the waiter, and then moves the latch

#define NONE 255

#ifndef WAITS
#define WAITS 1
#endif
#ifndef WAITERS
#define WAITERS (TASKS - 1)
#endif

#ifdef BEGUN
#define BEGUN_TASKS 1
#else
#define BEGUN_TASKS 0
#endif

// As many as can be in the middle of tasks, and one for each place to look for more.
#define WORKERS (TASKS + PLACES)

// # The program, constant

mtype = { future, block, join };
byte awaited[TASKS * WAITS] = NONE; // by task and wait: for which task
mtype kind[TASKS * WAITS] = block;
byte lasting = NONE;                // the task that lasts until all have begun

// # Tasks

bool submitted[TASKS];
bool queued[TASKS];       // it lies in a queue, begun or not
bool begun[TASKS];
byte at[TASKS];           // its next wait
byte under[TASKS] = NONE; // the task below it on the stack of its goroutine

mtype = { pending, waiting, done };
mtype latch[TASKS] = pending;
byte waiter[TASKS] = NONE; // the worker that has moved the latch to waiting

// Two or three tasks.
#if TASKS == 2
#define anyWork  (queued[0] || queued[1])
#define allBegun (begun[0] && begun[1])
#else
#define anyWork  (queued[0] || queued[1] || queued[2])
#define allBegun (begun[0] && begun[1] && begun[2])
#endif

// # Places, one or two

bool sleeps[PLACES]; // its bit
byte back[PLACES * WORKERS] = NONE;
byte owed[PLACES];   // len(back)
bool locked[PLACES]; // mu, where it is held for more than a step

bool standIn[PLACES]; // a waiter gave it to its holder, which has not run anything yet

#ifdef SEARCHERS
bool counts[PLACES]; // place.searching
byte searching;
#endif

// # Workers

byte home[WORKERS] = NONE;
byte granted[WORKERS] = NONE;
byte awaits[WORKERS] = NONE; // the task for which it waits, from its lending to its coming back
bool unparked[WORKERS];
byte working; // Pool.active

// The list of the idle. Workers that have parked are alike: each is PARKED on the list, and those
// at the bottom are left out.
#define PARKED 254
byte list[WORKERS];
byte listed;
bool parked[WORKERS];

// State for the assertions only.
byte holder[PLACES] = NONE; // the worker that has the place or was given it
bool without[WORKERS];      // it computes without a place
byte fallingAsleep[PLACES];        // how many workers are in FallAsleep
bool wrong;                 // a worker was given a place that it must not be given, or was woken twice

hidden byte k, m; // of loops in one step

// # The list of the idle

inline push(who_) { list[listed] = who_; listed++ }

// parkIdle is for an idle worker, which may have been given a place already.
inline parkIdle() {
	d_step {
		k = 0;
		m = 0;
		do
		:: k < listed ->
			if
			:: list[k] == me -> list[k] = PARKED; parked[me] = true
			:: else
			fi;
			if
			:: m > 0 || list[k] != PARKED -> list[m] = list[k]; m++
			:: else
			fi;
			k++
		:: else -> break
		od;
		do
		:: m < listed -> listed--; list[listed] = 0
		:: else -> break
		od;
		k = 0;
		m = 0;
		working--
	}
}

// pop sets chosen to the worker that came last, or to one that is hired.
inline pop() {
	d_step {
		chosen = PARKED;
		if
		:: listed > 0 -> listed--; chosen = list[listed]; list[listed] = 0
		:: else
		fi;
		if
		:: chosen == PARKED ->
			chosen = 0;
			do
			:: !parked[chosen] -> chosen++
			:: else -> break
			od;
			parked[chosen] = false
		:: else
		fi
	}
}

inline unpark(who_) { wrong = wrong || unparked[who_]; unparked[who_] = true }

// # Places: place.go

inline grant(place_, who_) {
	wrong = wrong || holder[place_] != NONE || granted[who_] != NONE;
	holder[place_] = who_;
	granted[who_] = place_;
	without[who_] = false
}

// off takes a worker off a place's list, if it is there.
inline off(place_, who_) {
	d_step {
		k = 0;
		m = 0;
		do
		:: k < owed[place_] ->
			if
			:: back[place_ * WORKERS + k] != who_ -> back[place_ * WORKERS + m] = back[place_ * WORKERS + k]; m++
			:: else
			fi;
			k++
		:: else -> break
		od;
		do
		:: m < owed[place_] -> owed[place_]--; back[place_ * WORKERS + owed[place_]] = NONE
		:: else -> break
		od;
		k = 0;
		m = 0
	}
}

// giveToFirst gives hand to the first worker on its list.
inline giveToFirst() {
#ifdef SEARCHERS
	wrong = wrong || counts[hand];
#endif
	chosen = back[hand * WORKERS];
	off(hand, chosen);
	grant(hand, chosen);
	chosen = 0
}

// give is giveBack and, if no worker wants the place, occupy. Of a place that was woken, ok says whether
// a worker wanted it. A place that is lent goes first to a stand-in if there is a task.
inline give(woken) {
	if
	:: owed[hand] > 0 && (woken || !anyWork) -> giveToFirst(); ok = woken
	:: else ->
		standIn[hand] = !woken;
#ifdef SEARCHERS
		searching = searching + woken;
		counts[hand] = woken;
#endif
		pop();
		working++;
		grant(hand, chosen);
		unpark(chosen);
		chosen = 0
	fi;
	hand = NONE
}

#define mayGive (hand != NONE && !locked[hand])

#if PLACES == 1
#define anyAsleep sleeps[0]
#else
#define anyAsleep (sleeps[0] || sleeps[1])
#endif

// wake is wakeUp for hand. If hand is NONE it is notifySeen if ok, or else wakeOne. Steps between the
// choice of a place and its being given matter only if a worker is on its list, or comes back.
inline wake() {
	do
	:: atomic { mayGive || hand == NONE && !ok && anyAsleep ->
			chosen = hand;
			if
			:: chosen == NONE && sleeps[0] -> hand = 0
#if PLACES > 1
			:: chosen == NONE && sleeps[1] -> hand = 1
#endif
			:: chosen != NONE
			fi;
			if
			:: chosen == NONE -> sleeps[hand] = false
			:: else
			fi;
			if
			:: chosen == NONE && (owed[hand] > 0 || locked[hand]) -> chosen = 0
			:: else ->
				give(true);
				if
				:: ok
				:: else -> break
				fi
			fi
		}
	:: hand == NONE && !ok && !anyAsleep -> break
#ifndef MUTANT_WAKER_GIVES_BACK_AND_LEAVES
	:: atomic { ok && anyWork -> ok = false } // notifySeen
	:: atomic { ok && !anyWork -> ok = false; break }
#else
	:: atomic { ok -> ok = false; break }
#endif
	od
}

// announce puts hand to sleep.
inline announce() {
	place = hand;
	hand = NONE;
	fallingAsleep[place]++;
	sleeps[place] = true;
#ifdef SEARCHERS
	searching = searching - counts[place];
	counts[place] = false
#endif
}

// chooseAgain takes the place in hand, or else sets ok: a waker has chosen it before.
inline chooseAgain() {
	if
	:: sleeps[place] -> sleeps[place] = false; hand = place
	:: else -> ok = true
	fi
}

// lookAgain is the look at the list and the queues after the place has been put to sleep.
inline lookAgain() {
	if
#ifdef MUTANT_SLEEP_WITHOUT_LOOK_AT_LIST
	:: d_step { anyWork -> chooseAgain() }
	:: !anyWork
#else
	:: owed[place] > 0 -> d_step { true; chooseAgain() } // (8)
#ifdef MUTANT_CHOSEN_ONE_IS_ENOUGH
		; ok = false
#endif
	:: d_step { owed[place] == 0 && anyWork -> chooseAgain() }
	:: owed[place] == 0 && !anyWork
#endif
	fi
}

// slept is the end of FallAsleep.
inline slept() {
	fallingAsleep[place]--;
	sleepsWell(place);
	place = NONE
}

// # Waiting: waiting.go

inline forgo() {
	d_step {
		!locked[home[me]];
		off(home[me], me);
#ifndef MUTANT_FORGO_FORGETS_GRANT
		pl = granted[me];
#endif
		granted[me] = NONE;
		without[me] = false
	}
}

// release lets go of the place.
inline release() {
	assert(holder[pl] == me);
	holder[pl] = NONE;
	hand = pl;
	pl = NONE
}

// lend begins with the place in hand, if the worker has one. The place goes to a stand-in, or, where that would not stay
// awake, to sleep.
inline lend() {
#ifdef MUTANT_WAIT_WITHOUT_LENDING
	true
#else
#ifndef MUTANT_WAITS_AGAIN_ON_THE_LIST
	if
	:: hand == NONE ->
		forgo();
		if
		:: d_step { pl != NONE -> release() }
		:: else
		fi
	:: else
	fi;
#endif
	if
	:: hand == NONE
#ifdef MUTANT_LEND_TO_NOBODY
	:: hand != NONE -> hand = NONE
#else
	:: atomic { mayGive -> give(false) }
	:: hand != NONE && !anyWork ->
		if
		:: atomic { mayGive && owed[hand] > 0 -> giveToFirst(); hand = NONE }
		:: d_step { mayGive && owed[hand] == 0 -> announce() };
			lookAgain();
			if
			:: ok || hand != NONE -> wake()
			:: else
			fi;
			atomic { true; slept() }
		fi
#endif
	fi
#endif
}

inline releaseIfAny() {
	if
#ifndef MUTANT_WAIT_WITHOUT_LENDING
	:: pl != NONE -> release()
#endif
	:: else
	fi
}

inline takeBack() {
	assert(holder[home[me]] == NONE);
	holder[home[me]] = me;
	without[me] = false;
	pl = home[me]
}

inline putOnList() {
	back[home[me] * WORKERS + owed[home[me]]] = me;
	owed[home[me]]++
}

inline chooseHome() {
	if
	:: sleeps[home[me]] -> sleeps[home[me]] = false; off(home[me], me); takeBack()
	:: else
	fi
}

// The next wait of the task.
#define its     awaited[t * WAITS + at[t]]
#define itsKind kind[t * WAITS + at[t]]

#define isOver (itsKind == join && unparked[me] || itsKind != join && latch[its] == done)

// comeBack begins when the wait is over.
inline comeBack() {
#if defined(MUTANT_WAIT_WITHOUT_LENDING)
	d_step { isOver -> unparked[me] = false; at[t]++ }
#elif defined(MUTANT_COME_BACK_TAKES_PLACE)
	d_step { isOver -> unparked[me] = false; at[t]++; sleeps[home[me]] = false; takeBack() }
#elif defined(MUTANT_COME_BACK_WITHOUT_LIST)
	d_step { isOver -> unparked[me] = false; at[t]++; without[me] = true; chooseHome() }
#else
	d_step {
		isOver && !locked[home[me]] ->
		unparked[me] = false;
#ifndef MUTANT_HANDED_BACK_TO_WHO_IS_BACK
		awaits[me] = NONE;
#endif
		pl = granted[me];
		granted[me] = NONE;
		if
		:: pl == NONE ->
			locked[home[me]] = true;
			without[me] = true;
#ifdef MUTANT_LISTED_AFTER_LOOK
			chooseHome()
#else
			putOnList() // (5)
#endif
		:: else // its stand-in has handed it back
		fi
	};
	if
	:: d_step { !without[me] -> at[t]++ }
	:: d_step { without[me] ->
#ifdef MUTANT_LISTED_AFTER_LOOK
		if
		:: pl == NONE -> putOnList()
		:: else
		fi;
#else
		chooseHome(); // (6)
#endif
		locked[home[me]] = false;
		sleepsWell(home[me]);
		at[t]++ }
	fi
#endif
}

// handBack is for a holder whose task, before, has ended a wait for which the place was lent: no worker wants it back yet.
#define handsBackTo(who_) (pl != NONE && !locked[pl] && owed[pl] == 0 && before != NONE && awaits[who_] == before && home[who_] == pl)

inline handBack(who_) {
	holder[pl] = NONE;
	grant(pl, who_);
	pl = NONE;
	before = NONE;
	push(me);
	home[me] = NONE;
	parkIdle()
}

// sleepsWell must hold for a place unless a worker is about to look.
inline sleepsWell(place_) {
	assert(!sleeps[place_] || fallingAsleep[place_] > 0 || locked[place_] || owed[place_] == 0)
}

// # Workers: worker.go

// mayBegin is for a worker in the middle of nothing that begins something.
inline mayBegin() {
	d_step {
		assert(holder[pl] == me && working > 0);
		k = 0;
		do
		:: k < WORKERS -> assert(looked || standIn[pl] || !without[k] || home[k] != pl); k++
		:: else -> break
		od;
		k = 0
	}
}

#ifdef MUTANT_NO_LOOK_AT_LIST
#define ordered false
#else
#define ordered (!looked && !standIn[pl] && owed[pl] > 0)
#endif

#ifdef SEARCHERS
#define stale stopSearching
#else
#define stale step
#endif

// take takes a task from a queue. A task that was run in place needs no more than that.
inline take(task_) {
	atomic { !ordered && queued[task_] ->
		mayBegin();
		queued[task_] = false;
		looked = false;
		standIn[pl] = false;
		if
#ifndef MUTANT_QUEUED_IS_NOT_BEGUN
		:: begun[task_] -> goto stale
#endif
		:: else -> begin(task_)
		fi
	}
}

inline begin(task_) {
	assert(!begun[task_]);
	begun[task_] = true;
	t = task_
}

// Whether the task has no further wait, or none after one that is over.
#define ends (at[t] == WAITS || its == NONE || latch[its] == done && at[t] + 1 == WAITS)

#ifdef MUTANT_IN_PLACE_THOUGH_BEGUN
#define inPlace (itsKind != block && submitted[its])
#else
#define inPlace (itsKind != block && submitted[its] && !begun[its])
#endif

// onTop begins a task on top of the wait.
inline onTop(task_) {
	other = task_;
	under[other] = t;
	begin(other);
	other = NONE
}

// endTask goes on with the task that lies below.
inline endTask() {
	other = t;
	t = under[other];
	under[other] = NONE;
	other = NONE
}

// giveUp is for a worker in the middle of nothing that becomes idle. It gives the place back, or else
// has it in hand afterwards.
inline giveUp() {
	release();
	push(me);
	home[me] = NONE;
	looked = false;
	standIn[hand] = false;
	if
	:: owed[hand] > 0 ->
#if defined(SEARCHERS) && !defined(MUTANT_SEARCHER_GIVES_BACK)
		searching = searching - counts[hand];
		last = counts[hand] && searching == 0;
		counts[hand] = false;
#endif
		giveToFirst();
		hand = NONE;
		if
		:: !last -> parkIdle()
		:: else
		fi
	:: else
	fi
}

// One more may count as a searcher.
#define mayCount (searching == 0 || 2 * (searching + 1) <= PLACES)

proctype worker(byte me) {
	byte pl = NONE;   // Worker.place
	byte hand = NONE; // a place that it is about to give away, or to put to sleep
	byte t = NONE;    // the task that it is in
	byte chosen, other = NONE, place = NONE, before = NONE;
	bool ok, looked, obeys, last;

#ifdef BEGUN
	if
	:: me == 0 -> t = TASKS - 1; goto inWait
	:: else
	fi;
#endif
end:
	do
	:: atomic { unparked[me] ->
			unparked[me] = false;
			pl = granted[me];
			granted[me] = NONE;
			assert(pl != NONE && !wrong);
			home[me] = pl
		};
step:
		if
		:: take(0)
		:: take(1)
#if TASKS > 2
		:: take(2)
#endif
#ifdef SEARCHERS
		:: d_step { !ordered && !anyWork && !looked && (standIn[pl] || counts[pl] || mayCount) ->
				searching = searching + (!counts[pl] && !standIn[pl]);
				counts[pl] = counts[pl] || !standIn[pl];
				looked = !standIn[pl];
				standIn[pl] = false
			};
			goto step
		:: d_step { ordered && counts[pl] -> obeys = true }
		:: d_step { !locked[pl] && (ordered && !counts[pl] || !anyWork && looked ||
				!anyWork && !ordered && !standIn[pl] && !counts[pl] && !mayCount) -> giveUp() };
			goto up
#else
		:: d_step { (ordered || !anyWork) && !locked[pl] -> giveUp() }; goto up
#endif
		fi;
#ifdef SEARCHERS
stopSearching:
		if
		:: d_step { counts[pl] -> counts[pl] = false; searching--; last = searching == 0 };
			if
			:: d_step { last -> last = false; ok = true }; wake()
			:: else
			fi
		:: else
		fi;
		if
		:: atomic { obeys && !locked[pl] -> obeys = false; giveUp() }; goto up
		:: !obeys && t == NONE -> goto step
		:: t != NONE
		fi;
#endif
goOn:
		if
		:: atomic { ends && (lasting != t || allBegun) ->
				if
				:: latch[t] == waiting -> unpark(waiter[t])
				:: else
				fi;
				waiter[t] = NONE;
#ifdef MUTANT_UNPARK_BEFORE_LATCH
			}; atomic {
#endif
				latch[t] = done;
				before = t;
				endTask();
				if
				:: t != NONE -> before = NONE; goto goOn
				:: t == NONE && pl == NONE -> before = NONE
				:: t == NONE && pl != NONE
				fi
			};
			if
			:: pl != NONE ->
				if
				:: atomic { before = NONE; goto step }
				:: atomic { handsBackTo(0) -> handBack(0) }; goto end
				:: atomic { handsBackTo(1) -> handBack(1) }; goto end
				:: atomic { handsBackTo(2) -> handBack(2) }; goto end
#if WORKERS > 3
				:: atomic { handsBackTo(3) -> handBack(3) }; goto end
#endif
#if WORKERS > 4
				:: atomic { handsBackTo(4) -> handBack(4) }; goto end
#endif
				fi
			:: else
			fi
		:: atomic { !ends && latch[its] == done -> at[t]++; goto goOn }
		:: atomic { !ends && latch[its] != done && inPlace -> onTop(its); goto goOn }
#ifdef MUTANT_HELP
		:: atomic { !ends && latch[its] != done && queued[0] -> queued[0] = false; onTop(0); goto goOn }
		:: atomic { !ends && latch[its] != done && queued[1] -> queued[1] = false; onTop(1); goto goOn }
#if TASKS > 2
		:: atomic { !ends && latch[its] != done && queued[2] -> queued[2] = false; onTop(2); goto goOn }
#endif
#endif
		:: d_step { !ends && latch[its] != done && !inPlace ->
				if
				:: itsKind == join -> latch[its] = waiting; waiter[its] = me
				:: else
				fi;
				awaits[me] = its;
				releaseIfAny()
			};
			lend();
inWait:
			comeBack();
			goto goOn
		fi;

		// AwaitPlace, without a place at first.
#ifdef MUTANT_IDLE_ON_THE_LIST
		d_step { pl = granted[me]; granted[me] = NONE; without[me] = false };
#else
		forgo();
#endif
		if
		:: pl != NONE -> goto step
		:: d_step { pl == NONE -> push(me); parkIdle(); home[me] = NONE }; goto end
		fi;

up: // the place is in hand, or was given back
		if
		:: d_step { hand != NONE -> announce() }; // (7)
			lookAgain()
		:: d_step { hand == NONE && last -> last = false; ok = true }
		:: hand == NONE && !last -> goto end
		fi;
		if
		:: ok || hand != NONE -> wake()
		:: else
		fi;
		atomic {
			if
			:: place != NONE -> slept()
			:: else
			fi;
			parkIdle()
		}
	od
}

// # The submitter

inline submitAny() {
	if
	:: !submitted[0] -> submitted[0] = true; queued[0] = true
	:: !submitted[1] -> submitted[1] = true; queued[1] = true
#if TASKS > 2
	:: !submitted[2] -> submitted[2] = true; queued[2] = true
#endif
	fi;
	left--
}

// submitter submits all tasks but LATE at once.
proctype submitter() {
	byte hand = NONE, chosen;
	byte left = TASKS - BEGUN_TASKS;
	bool ok;

	do
	:: atomic { left > 0 ->
			do
			:: submitAny();
				if
				:: left <= LATE -> break
				:: else
				fi
			od
		};
		if
#ifdef SEARCHERS
		:: searching > 0
		:: searching == 0 -> wake()
#else
		:: true -> wake()
#endif
		fi
	:: left == 0 -> break
	od
}

// chooseProgram lets the last WAITERS of the tasks wait, each for tasks before it.
inline chooseProgram() {
	n = TASKS - WAITERS;
	do
	:: n < TASKS ->
		i = 0;
		do
		:: i < WAITS && i < n ->
			u = 0;
			do
			:: u < n ->
				if
				:: i == 0 || awaited[n * WAITS] != u ->
					awaited[n * WAITS + i] = u;
#ifdef KIND
					kind[n * WAITS + i] = KIND;
#else
					if
					:: kind[n * WAITS + i] = block
					:: kind[n * WAITS + i] = future
					:: !joined[u] -> joined[u] = true; kind[n * WAITS + i] = join
					fi;
#endif
					break
				:: true
				fi;
				u++
			:: else -> break // no further wait
			od;
			if
			:: awaited[n * WAITS + i] == NONE -> break
			:: else
			fi;
			i++
		:: else -> break
		od;
		n++
	:: else -> break
	od;
#ifdef LONG
	lasting = TASKS - 1;
#endif
	i = 0;
	u = 0;
	n = 0;
	do
	:: n < TASKS -> joined[n] = false; n++
	:: else -> break
	od;
	n = 0
}

init {
	byte n, i, u;
	bool joined[TASKS];

	atomic {
#ifdef BEGUN
		awaited[TASKS - 1] = 0;
		lasting = TASKS - 1;
		submitted[TASKS - 1] = true;
		begun[TASKS - 1] = true;
		home[0] = 0;
		working = 1;
#else
		chooseProgram();
#endif
		do
		:: n < PLACES -> sleeps[n] = true; n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < WORKERS -> parked[n] = n >= BEGUN_TASKS; run worker(n); n++
		:: else -> break
		od;
		n = 0;
		run submitter()
	}
	timeout -> // no process moves any more
	assert(working == 0 && listed == 0 && !wrong);
#ifdef SEARCHERS
	assert(searching == 0);
#endif
	do
	:: n < TASKS -> assert(latch[n] == done && !queued[n]); n++
	:: else -> break
	od;
	n = 0;
	do
	:: n < PLACES -> assert(sleeps[n] && owed[n] == 0 && holder[n] == NONE); n++
	:: else -> break
	od;
	n = 0;
	do
	:: n < WORKERS -> assert(parked[n] && !unparked[n] && granted[n] == NONE && !without[n]); n++
	:: else -> break
	od
}
