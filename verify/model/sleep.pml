/*
Sleep and wake: pool/sleep.md has the protocol and its argument.

Workers look for tasks and sleep; submitters queue tasks and wake workers. Tasks queue more tasks
in their worker's LIFO slot, and fork; a worker waits for a stolen fork helping, and then parked.
Shown for every interleaving within the bounds, when nobody moves any more:

  - Every task has run, once. A task that lasts until all others have run (LONG) shows that a
    worker does not sleep while a task lies in a queue, even if those who are awake never come to
    it.
  - Nobody waits for a latch that is done.
  - Nobody searches, parks and wakes up for ever: if all those who can move do so, all comes to rest.
    (Some configurations look for cycles and not for ends.)
  - Every wake-up is accounted for: searching is 0, the sleepers are as many as the bits, all
    workers have their bit, and no futex word is left at 1. No word is set twice for one sleep.
  - A fork is stolen if its owner does not come back to it before that (PATIENT), so an idle
    worker does not sleep over a fork either.

What is abstract. Queues are counters; that they lose nothing is shown by deque.pml, ring.pml and
the tests of linearizability. A worker's batch buffer is part of its ring. A thief of several
tasks takes any number of them, and has them in its hands before they are in its ring. Which
sleeper of a node is chosen is open (the waker begins with its own node), and so is whether the doorman sees all workers asleep. The
victims come in one order. A worker has at most one fork, and what it helps with forks nothing.
Nobody joins or leaves, so there is no surplus, and no call is cancelled.
What a search looks at before its last look, as it spins, is no more than what the last look sees: it
is left out, but for the first look (EARLY), before which the worker does not count as a searcher.

Where the model is weaker than the code, what the code has more is not needed for what is shown
here: a doorman that hands its tasks over wakes nobody for them, for it looks at the queues
afterwards; and wakeOne does not ask Sleep.Nobody first, which sees no more than ChooseNear.

Memory. All that the protocol reads and writes are Go's atomics, so the model is sequentially
consistent; a push without its fence is one whose item is seen later.

Bounds. Two workers are the fewest of which one can sleep while the other searches, works, or
waits; with three there is a sleeper and a searcher beside a worker who is busy. Two tasks from
outside, so that the second finds a searcher who is there for the first. Each configuration adds
one thing: tasks that queue tasks, forks, a second node, a guest, a doorman. So that the larger of
these stay small, workers sleep at first (ASLEEP), but for one that is in the middle of a task
(BEGUN) and one that was just woken for a task (SUBMITTED), and all wake up in the course of it.
*/

// stands for: pool/sleep.go: Pool.notifyTask Pool.notifyOutside Pool.notifySeen Pool.wakeOne Worker.wakeUp Worker.stopSearching Worker.park Worker.owner Worker.unpark Pool.worthWaking Pool.anyWork Worker.anyFork
// stands for: internal/policy/sleep.go: State.WantsForks Sleep.StartSearching Sleep.StopSearching Sleep.Announce Sleep.Retract Sleep.Choose Sleep.ChooseNear Sleep.Woken Sleep.Nobody
// stands for: internal/policy/bitmap.go: Bitmap.Set Bitmap.Clear Bitmap.Empty Bitmap.TakeUnless
// stands for: pool/latch.go: latch latch.done latch.complete Worker.await Worker.sleepAlone Worker.wakeAlone
// stands for: pool/worker.go: Worker.Go Worker.main Worker.search Worker.look Worker.rob Worker.rest
// stands for: pool/find.go: Worker.take Worker.pull Worker.pullAnywhere
// stands for: pool/guest.go: Pool.freePlace Pool.leave
// stands for: pool/doorman.go: Pool.ring Worker.standsIn Worker.retreat
// stands for: pool/fork.go: frames.publish
// stands for: pool/crew.go: Worker.handOver

// configuration (small): two tasks: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=2 -DSPAWNS=0 -DFORKS=0 -DLONG
// configuration (small): tasks that queue tasks: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=1 -DSPAWNS=2 -DFORKS=0 -DLONG
// configuration: several tasks in hands: -DWORKERS=2 -DNODES=1 -DASLEEP -DBEGUN -DSUBMITTERS=1 -DTASKS=3 -DSPAWNS=0 -DFORKS=0 -DLONG -DEARLY
// configuration (small): a fork: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=1 -DSPAWNS=0 -DFORKS=1 -DPATIENT -DEARLY
// configuration (small): a fork and a task: -DWORKERS=2 -DNODES=1 -DASLEEP -DBEGUN -DSUBMITTERS=1 -DSPAWNS=0 -DFORKS=1 -DLONG
// configuration (small): a fork and a doorman: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=1 -DSPAWNS=0 -DFORKS=1 -DDOORMAN
// configuration (small): nobody searches for ever: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=1 -DSPAWNS=1 -DFORKS=0 -DLONG; pan: -DNP -l -f
// configuration: two nodes: -DWORKERS=2 -DNODES=2 -DASLEEP -DSUBMITTERS=2 -DSPAWNS=0 -DFORKS=0 -DLONG
// configuration: two nodes, nobody searches for ever: -DWORKERS=2 -DNODES=2 -DASLEEP -DSUBMITTERS=2 -DSPAWNS=0 -DFORKS=0 -DLONG; pan: -DNP -l -f
// configuration: two tasks and one more: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=2 -DSPAWNS=1 -DFORKS=0 -DLONG
// configuration: a guest and a fork: -DWORKERS=2 -DNODES=1 -DASLEEP -DBEGUN -DSUBMITTERS=0 -DSPAWNS=0 -DFORKS=1 -DGUEST -DPATIENT
// configuration: a doorman and a task that queues tasks: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=1 -DSPAWNS=2 -DFORKS=0 -DDOORMAN -DLONG
// configuration: a doorman and two tasks: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=2 -DSPAWNS=0 -DFORKS=0 -DDOORMAN -DLONG
// configuration: a doorman, a fork and a task: -DWORKERS=2 -DNODES=1 -DASLEEP -DBEGUN -DSUBMITTERS=1 -DSPAWNS=0 -DFORKS=1 -DDOORMAN
// configuration (full): three workers and a fork: -DWORKERS=3 -DNODES=1 -DASLEEP -DBEGUN -DSUBMITTED -DSUBMITTERS=0 -DSPAWNS=0 -DFORKS=1 -DLONG -DPATIENT
// configuration: two tasks, with early looks: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=2 -DSPAWNS=0 -DFORKS=0 -DLONG -DEARLY
// configuration: tasks that queue tasks, with early looks: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=1 -DSPAWNS=3 -DFORKS=0 -DLONG -DEARLY
// configuration: a fork and two tasks, with early looks: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=2 -DSPAWNS=0 -DFORKS=1 -DLONG -DEARLY
// configuration (full): a fork, two tasks and one more: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=2 -DSPAWNS=1 -DFORKS=1
// configuration (full): workers that are awake: -DWORKERS=2 -DNODES=1 -DSUBMITTERS=2 -DSPAWNS=0 -DFORKS=0 -DLONG -DEARLY
// configuration (full): three workers: -DWORKERS=3 -DNODES=2 -DASLEEP -DSUBMITTERS=2 -DSPAWNS=0 -DFORKS=0 -DLONG; pan: -DCOLLAPSE
// configuration: tasks that queue tasks, nobody searches for ever: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=1 -DSPAWNS=2 -DFORKS=0 -DLONG -DEARLY; pan: -DNP -l -f
// configuration: a fork, nobody searches for ever: -DWORKERS=2 -DNODES=1 -DASLEEP -DSUBMITTERS=1 -DSPAWNS=1 -DFORKS=1; pan: -DNP -l -f

// mutant MUTANT_PUSH_WITHOUT_FENCE: a submitter looks for sleepers before its item is visible
// mutant MUTANT_SUBMIT_WITHOUT_NOTIFY: a submitter wakes nobody
// mutant MUTANT_QUEUE_WITHOUT_NOTIFY: a task that queues another wakes nobody
// mutant MUTANT_PULL_WITHOUT_NOTIFY, in several tasks in hands: who pulls several tasks from an injector wakes nobody for the others
// mutant MUTANT_ROB_WITHOUT_NOTIFY, in tasks that queue tasks, with early looks: who steals several tasks wakes nobody for the others, though it does not count as a searcher and nobody else saw them in its hands
// mutant MUTANT_PUBLISH_WITHOUT_NOTIFY, in a fork: who publishes a fork wakes nobody
// mutant MUTANT_STATE_BEFORE_BIT, in a guest and a fork: a sleeper is counted before its bit is set
// mutant MUTANT_PARK_WITHOUT_LOOK: no look at the queues after the announcement
// mutant MUTANT_PARK_WITHOUT_LATCH, in a fork: no look at the latch after the announcement
// mutant MUTANT_PARK_WITH_LATCH_PENDING, in a fork: the latch is not moved to waiting before the announcement
// mutant MUTANT_LATCH_STAYS_WAITING, in a fork, nobody searches for ever: the latch is not moved back to pending after the sleep
// mutant MUTANT_LOOK_NOT_AT_SLOTS: the look after the announcement leaves out LIFO slots
// mutant MUTANT_LOOK_AT_OWN_NODE_ONLY, in two nodes: it leaves out the injectors of other nodes
// mutant MUTANT_LOOK_NOT_AT_FORKS, in a guest and a fork: it leaves out forks
// mutant MUTANT_LAST_LOOK_NOT_AT_SLOTS: the last look of a search leaves out LIFO slots
// mutant MUTANT_LAST_LOOK_AT_OWN_NODE_ONLY, in two nodes, nobody searches for ever: it leaves out the injectors of other nodes
// mutant MUTANT_RETRACT_IGNORES_LOST_BIT, in tasks that queue tasks, nobody searches for ever: a worker that finds its bit gone goes on, and does not wait for whoever took it
// mutant MUTANT_RETRACT_IS_NO_SEARCHER, in a fork and a task: a searcher that takes its announcement back, because its latch is done perhaps, is not counted as one again, and does not answer for what it saw
// mutant MUTANT_LAST_SEARCHER_LEAVES: whoever brings searching to 0 does not look
// mutant MUTANT_LAST_SEARCHER_FORGETS_FORKS, in a guest and a fork: it does not look for forks
// mutant MUTANT_WOKEN_AFTER_WAKING: a waker counts the woken worker after it has woken it
// mutant MUTANT_WOKEN_IS_NO_SEARCHER, in a fork and a doorman: a woken worker is not counted as a searcher
// mutant MUTANT_CLEAR_WITHOUT_WAKING: a waker clears the bit and does not wake
// mutant MUTANT_WAKE_OWN_NODE_ONLY, in two nodes: a waker looks for sleepers on its own node only
// mutant MUTANT_UNPARK_WITHOUT_BIT, in a fork, nobody searches for ever: who completes a latch wakes the waiter without clearing its bit
// mutant MUTANT_COMPLETE_WITHOUT_UNPARK, in a fork: who completes a latch wakes nobody
// mutant MUTANT_COMPLETE_WITHOUT_WAKING_ALONE, in a guest and a fork: who completes a guest's latch wakes nobody
// mutant MUTANT_WAITER_TAKES_NO_TASKS, in a fork and a task: a worker that waits for a fork takes no tasks, and sleeps whether there are any or not
// mutant MUTANT_FREE_PLACE_WITHOUT_LOOK, in a guest and a fork: a guest that leaves wakes nobody for the forks that were left alone because of it
// mutant MUTANT_RETREAT_WITHOUT_LOOK, in a fork and a doorman: the doorman gives its place back without looking
// mutant MUTANT_RETREAT_LEAVES_IT_TO_OWNER, in a doorman and two tasks: the doorman has seen a task, and wakes nobody because the owner of its place was woken before
// mutant MUTANT_IDLE_BEFORE_LOOK, in a doorman, a fork and a task: the doorman takes the place of a worker that may still take its bit back, which may be the doorman's by then
// mutant MUTANT_DOORMAN_TAKES_ANY_PLACE, in a doorman, a fork and a task: the doorman takes the place of a worker that waits for a fork
// mutant MUTANT_WAKE_PASSES_STAND_IN, in a fork and a doorman: a waker wakes the owner of a place, not the doorman who has it

#ifdef DOORMAN
#define DOORMEN 1
#else
#define DOORMEN 0
#endif
#ifdef GUEST
#define GUESTS 1
#else
#define GUESTS 0
#endif

// How many tasks each submitter submits.
#ifndef TASKS
#define TASKS 1
#endif

// With BEGUN the first worker begins in the middle of a task, and does not sleep.
#ifdef BEGUN
#define BUSY(i) ((i) == 0)
#define BEGUN_TASKS 1
#else
#define BUSY(i) false
#define BEGUN_TASKS 0
#endif

// With SUBMITTED there is a task from the beginning, and the last worker was woken for it.
#ifdef SUBMITTED
#define SUBMITTED_TASKS 1
#else
#define SUBMITTED_TASKS 0
#endif

// How many tasks there are at least.
#define GIVEN (SUBMITTERS * TASKS + BEGUN_TASKS + SUBMITTED_TASKS)

// Slots: the workers, the doorman, the guest.
#define SLOTS (WORKERS + DOORMEN + GUESTS)
#define door  WORKERS
#define guest (WORKERS + DOORMEN)
#define NOBODY 255

// What a configuration has none of is not looked at.
#define SLOTTED (SPAWNS > 0)
#define FORKING (FORKS > 0)

#define nodeOf(i)  ((i) % NODES)
#define bitOf(i)   (1 << (i))
#define nodeNear(node, i) (((node) + (i)) % NODES)

// # What there is to do

byte injector[NODES];
byte ring[SLOTS];
bool slot[SLOTS];
bool fork[SLOTS]; // public and not stolen

byte made, ran;   // tasks
byte spawns = SPAWNS;
byte forks = FORKS;
bool over;

mtype = { NOTHING, TASK, FORK }; // a job
bool lasting;      // somebody runs the long task

// # policy.Sleep

byte searching;       // these two are one word
short sleepers;
byte parked[NODES];   // bitmaps

// # Workers

bool awake[SLOTS];    // the futex, of the doorman the bell

mtype = { pending, waiting, alone, done };
mtype latch[SLOTS] = pending; // of the slot's fork
bool aloneWord;       // the guest's futex

bool idle[WORKERS];      // sleeps in the middle of nothing, and has looked
bool standIn[WORKERS];   // the doorman has the place
byte standsFor = NOBODY; // whose place the doorman has
bool atDoor;

// # sleep.go

// choose clears a slot's bit, and sets ok if it was set: Sleep.Choose.
inline choose(i_) {
	d_step {
		ok = (parked[nodeOf(i_)] & bitOf(i_)) != 0;
		parked[nodeOf(i_)] = parked[nodeOf(i_)] & ~bitOf(i_)
	}
}

inline woken() {
#ifdef MUTANT_WOKEN_IS_NO_SEARCHER
	sleepers--
#else
	d_step { searching++; sleepers-- }
#endif
}

inline wake(i_) {
#ifndef MUTANT_CLEAR_WITHOUT_WAKING
	d_step { assert(!awake[i_]); awake[i_] = true; ok = false; chosen = 0 }
#else
	d_step { ok = false; chosen = 0 }
#endif
}

// owner finds whose place a slot has: Worker.owner.
inline owner(i_, place_) {
#ifdef DOORMAN
	place_ = (i_ == door -> standsFor : i_)
#else
	place_ = i_
#endif
}

// stands sets chosen to whoever has the place of a slot.
inline stands(i_) {
#if defined(DOORMAN) && !defined(MUTANT_WAKE_PASSES_STAND_IN)
	chosen = (standIn[i_] -> door : i_)
#else
	chosen = i_
#endif
}

// wakeUp is for whoever chose the slot.
inline wakeUp(i_) {
#ifdef MUTANT_WOKEN_AFTER_WAKING
	stands(i_);
	wake(chosen);
	woken()
#else
	woken();
	stands(i_);
	wake(chosen)
#endif
}

// chooseNear sets chosen to a sleeper whose bit it has cleared, and ok if there is one. What
// Sleep.Nobody asks before is no more than what this asks first.
inline chooseNear(node_) {
	do
	:: atomic {
		word = parked[nodeNear(node_, n)];
		if
		:: word == 0 ->
			n++;
			if
#ifdef MUTANT_WAKE_OWN_NODE_ONLY
			:: true -> n = 0; ok = false; break
#else
			:: n == NODES -> n = 0; ok = false; break
#endif
			:: else
			fi
		:: word & bitOf(0) -> chosen = 0
		:: word & bitOf(1) -> chosen = 1
#if WORKERS > 2
		:: word & bitOf(2) -> chosen = 2
#endif
		fi };
		if
		:: word != 0 -> atomic {
				choose(chosen);
				word = 0;
				if
				:: ok -> n = 0; break
				:: else -> chosen = 0
				fi }
		:: else
		fi
	od
}

inline wakeOne(node_) {
	chooseNear(node_);
	if
	:: ok -> wakeUp(chosen)
	:: else
	fi
}

inline notifyTask(node_) {
	if
	:: searching == 0 -> wakeOne(node_)
	:: else
	fi
}

// anyWork sets seen if a task lies in a queue or, with forksToo, a fork can be stolen. Each
// queue is a look of its own: first the injectors, and then what each slot has.
#define KINDS   (1 + SLOTTED + FORKING)
#define ownerAt ((n - NODES) / KINDS)
#define kindAt  ((n - NODES) % KINDS)

inline anyWork() {
	do
	:: atomic {
		seen = (n < NODES -> injector[n] > 0
#ifdef MUTANT_LOOK_AT_OWN_NODE_ONLY
				&& n == nodeOf(me)
#endif
			: (kindAt == 0 -> ring[ownerAt] > 0
			: (kindAt <= SLOTTED -> slot[ownerAt]
#ifdef MUTANT_LOOK_NOT_AT_SLOTS
				&& false
#endif
			: forksToo && fork[ownerAt])));
		n++;
		if
		:: seen || n == NODES + SLOTS * KINDS -> n = 0; break
		:: else
		fi }
	od;
	forksToo = false
}

inline notifySeen() {
#if FORKING && !defined(MUTANT_LAST_SEARCHER_FORGETS_FORKS)
	forksToo = sleepers > 0;
#endif
	anyWork();
	if
	:: seen -> seen = false; wakeOne(nodeOf(me))
	:: else
	fi
}

inline stopSearching() {
	if
	:: searches ->
		d_step { searches = false; searching--; last = searching == 0 };
#ifndef MUTANT_LAST_SEARCHER_LEAVES
		if
		:: last -> last = false; notifySeen()
		:: else
		fi
#endif
	:: else
	fi
}

inline announce(i_) {
#ifdef MUTANT_STATE_BEFORE_BIT
	d_step { sleepers++; searching = searching - searches; state = sleepers; searched = searches; searches = false };
	parked[nodeOf(i_)] = parked[nodeOf(i_)] | bitOf(i_)
#else
	parked[nodeOf(i_)] = parked[nodeOf(i_)] | bitOf(i_);
	d_step { sleepers++; searching = searching - searches; state = sleepers; searched = searches; searches = false }
#endif
}

// worthWaking sets seen.
inline worthWaking() {
#if FORKING && !defined(MUTANT_LOOK_NOT_AT_FORKS)
	forksToo = state > 0;
#endif
	anyWork()
}

// retract takes announce back, and sets ok unless somebody is about to wake this worker. It is
// a searcher again if it was one: what was made visible while it was relied on that.
inline retract() {
	choose(place);
	if
#ifdef MUTANT_RETRACT_IGNORES_LOST_BIT
	:: true -> d_step { sleepers--; searching = searching + searched; searches = searched; ok = true }
#elif defined(MUTANT_RETRACT_IS_NO_SEARCHER)
	:: ok -> sleepers--
	:: else
#else
	:: ok -> d_step { sleepers--; searching = searching + searched; searches = searched }
	:: else
#endif
	fi
}

// sleep returns when somebody has woken the worker. forLatch says whether it waits for its
// latch; one that does not may sleep for ever.
inline sleep(forLatch) {
	if
	:: d_step { awake[me] -> awake[me] = false;
#ifndef MUTANT_WOKEN_IS_NO_SEARCHER
			searches = true // counted by wakeUp
#endif
		}
	:: !(forLatch) && over -> goto stop
	fi
}

// park returns if there is something to see, or when somebody has woken the worker.
inline park(forLatch) {
	owner(me, place);
	announce(place);
#ifndef MUTANT_PARK_WITHOUT_LATCH
	if
	:: forLatch && latch[me] == done -> seen = true
	:: else
	fi;
#endif
#ifndef MUTANT_PARK_WITHOUT_LOOK
	if
#ifdef MUTANT_WAITER_TAKES_NO_TASKS
	:: !seen && !(forLatch) -> worthWaking()
#else
	:: !seen -> worthWaking()
#endif
	:: else
	fi;
#endif
	state = 0;
	if
	:: seen -> retract(); seen = false
	:: else
	fi;
	if
	:: ok -> ok = false
	:: else -> // nothing to do, or somebody is about to wake this one
#if defined(DOORMAN) && !defined(MUTANT_IDLE_BEFORE_LOOK)
		if
		:: !(forLatch) -> idle[me] = true // it does not take its bit back any more
		:: else
		fi;
#endif
		sleep(forLatch);
#if defined(DOORMAN) && !defined(MUTANT_IDLE_BEFORE_LOOK)
		if
		:: !(forLatch) -> idle[me] = false
		:: else
		fi
#endif
	fi;
	searched = false
}

inline unpark(i_) {
	owner(i_, place);
	if
	:: place != NOBODY ->
#ifdef MUTANT_UNPARK_WITHOUT_BIT
		ok = true;
#else
		choose(place);
#endif
		if
		:: ok -> wakeUp(place)
		:: else // it is on its way to look at the latch, or was woken for something else
		fi
	:: else
	fi
}

// # Tasks: worker.go, find.go

// queue is Worker.Go: the task goes into the worker's slot, and what was there into its ring.
inline queue() {
	d_step { made++; ok = slot[me]; slot[me] = true };
	if
	:: ok -> ring[me]++; ok = false
	:: else
	fi;
#ifndef MUTANT_QUEUE_WITHOUT_NOTIFY
	notifyTask(nodeOf(me))
#endif
}

// pull takes what lies in a node's injector, the first for now.
inline pull(node_) {
	d_step {
		if
		:: injector[node_] > 0 -> job = TASK; moved = injector[node_] - 1; injector[node_] = 0
		:: else
		fi
	};
	if
	:: moved > 0 ->
		d_step { ring[me] = ring[me] + moved; moved = 0 };
#ifndef MUTANT_PULL_WITHOUT_NOTIFY
		notifyTask(nodeOf(me))
#endif
	:: else
	fi
}

// take takes one of the worker's own. After some from the slot in a row, the next goes to the
// end of the ring.
inline take() {
#if SLOTTED
	d_step {
		if
		:: slot[me] -> slot[me] = false; job = TASK
		:: else
		fi
	};
	if
	:: job == TASK && ring[me] > 0 -> job = NOTHING; ring[me]++
	:: true
	fi;
#endif
	if
	:: job == NOTHING ->
		d_step {
			if
			:: ring[me] > 0 -> ring[me]--; job = TASK
			:: else
			fi
		}
	:: else
	fi
}

inline next() {
	take();
	if
	:: job == NOTHING -> pull(nodeOf(me))
	:: else
	fi
}

// rob takes some of a victim's tasks.
inline rob(v_, slots_) {
	atomic {
		if
		:: ring[v_] > 0 -> ring[v_]--; job = TASK;
			do
			:: ring[v_] > 0 -> ring[v_]--; moved++
			:: break
			od
		:: else
		fi
	};
	if
	:: moved > 0 ->
		d_step { ring[me] = ring[me] + moved; moved = 0 };
#ifndef MUTANT_ROB_WITHOUT_NOTIFY
		notifyTask(nodeOf(me))
#endif
	:: else
	fi;
	if
#ifdef MUTANT_LAST_LOOK_NOT_AT_SLOTS
	:: false ->
#else
	:: job == NOTHING && SLOTTED && slots_ ->
#endif
		d_step {
			if
			:: slot[v_] -> slot[v_] = false; job = TASK
			:: else
			fi
		}
	:: else
	fi
}

inline claim(v_) {
	d_step {
		if
		:: fork[v_] -> fork[v_] = false; job = FORK; victim = v_
		:: else
		fi
	}
}

// look goes round the queues once. The last look of a search is at LIFO slots as well. A worker
// that is in the middle of nothing has just looked at its own queues.
inline look(own_, tasks_, last_) {
	if
	:: own_ -> next()
	:: else
	fi;
#if FORKING
	mayFork = sleepers >= 0;
#endif
	do
	:: job == NOTHING && v < SLOTS ->
#if FORKING
		if
		:: mayFork -> claim(v)
		:: else
		fi;
#endif
		if
		:: job == NOTHING && tasks_ && v != me -> rob(v, last_)
		:: else
		fi;
		v++
	:: else -> break
	od;
	atomic { v = 0; mayFork = false };
	do
#ifdef MUTANT_LAST_LOOK_AT_OWN_NODE_ONLY
	:: job == NOTHING && tasks_ && v < 1 -> pull(nodeOf(me)); v++
#else
	:: job == NOTHING && tasks_ && v < NODES -> pull(nodeNear(nodeOf(me), v)); v++
#endif
	:: else -> break
	od;
	v = 0
}

#ifdef MUTANT_WAITER_TAKES_NO_TASKS
#define TASKS_TOO(waits) !(waits)
#else
#define TASKS_TOO(waits) true
#endif

// search finds a job or nothing. A worker that waits looks for tasks only in its last look.
// The first look comes before the worker counts as a searcher, unless its waker has counted it.
inline search(waits_) {
#ifdef EARLY
	look(false, !(waits_), false);
#endif
	if
	:: job == NOTHING ->
		d_step { // StartSearching
			if
			:: !searches && !(searching > 0 && 2 * (searching + 1) > WORKERS) -> searching++; searches = true
			:: else
			fi
		};
		if
		:: searches -> look(waits_, TASKS_TOO(waits_), true)
		:: else
		fi
	:: else
	fi;
	if
	:: searches && job != NOTHING -> stopSearching()
	:: else
	fi
}

// # Forks and latches: fork.go, latch.go

inline wantsForks() {
	d_step { ok = sleepers > 0 && searching <= sleepers / 8 }
}

inline publish() {
	fork[me] = true;
#ifndef MUTANT_PUBLISH_WITHOUT_NOTIFY
	wantsForks();
	if
	:: ok -> ok = false; wakeOne(nodeOf(me))
	:: else
	fi
#endif
}

// complete ends the wait for the fork of a slot.
inline complete() {
	d_step { was = latch[victim]; latch[victim] = done };
	if
#ifndef MUTANT_COMPLETE_WITHOUT_UNPARK
	:: was == waiting -> unpark(victim)
#endif
#ifndef MUTANT_COMPLETE_WITHOUT_WAKING_ALONE
	:: was == alone -> aloneWord = true
#endif
	:: else
	fi;
	d_step { was = pending; victim = 0 }
}

inline casLatch(old_, new_) {
	d_step {
		ok = latch[me] == old_;
		if
		:: ok -> latch[me] = new_
		:: else
		fi
	}
}

// await waits for the worker's own fork. It helps with forks, and with tasks before it parks.
inline await() {
	do
	:: latch[me] == done -> break
	:: latch[me] != done ->
		search(true);
		if
		:: job == TASK -> job = NOTHING; spawn(); ran++
		:: job == FORK -> job = NOTHING; complete()
		:: else ->
#ifdef MUTANT_PARK_WITH_LATCH_PENDING
			ok = latch[me] == pending;
#else
			casLatch(pending, waiting);
#endif
			if
			:: ok -> ok = false; park(true)
			:: else -> break
			fi;
#ifndef MUTANT_LATCH_STAYS_WAITING
			casLatch(waiting, pending);
#endif
			ok = false
		fi
	od;
	stopSearching();
	latch[me] = pending
}

// join publishes a fork, and takes it back or waits for the thief.
inline join() {
	publish();
#ifdef PATIENT
	!fork[me];
#endif
	d_step { ok = fork[me]; fork[me] = false };
	if
	:: ok -> ok = false
	:: else -> await()
	fi
}

// # What tasks do

inline spawn() {
	do
	:: atomic { spawns > 0 -> spawns-- }; queue()
	:: break
	od
}

// long is the long task, or the long fork: it lasts until all tasks but one have run, its own.
inline long() {
	atomic { !lasting -> lasting = true };
	made + spawns == GIVEN + SPAWNS && ran + 1 == made
}

inline runTask() {
	spawn();
	if
	:: atomic { forks > 0 -> forks-- }; join()
#ifdef PATIENT
	:: else
#else
	:: true
#endif
	fi;
#ifdef LONG
	if
	:: long()
	:: true
	fi;
#endif
	ran++
}

// runFork runs a stolen fork.
inline runFork() {
#ifdef LONG
	if
	:: long()
	:: true
	fi;
#endif
	complete()
}

inline rest() {
#ifdef MUTANT_IDLE_BEFORE_LOOK
	idle[me] = true;
	park(false);
	idle[me] = false
#else
	park(false)
#endif
}

proctype worker(byte me) {
	byte n, word, chosen, place, moved, v, victim;
	short state;
	bool ok, seen, last, searches, searched, mayFork, forksToo;
	mtype job = NOTHING;
	mtype was = pending;

#ifdef ASLEEP
	if
	:: BUSY(me) -> runTask()
	:: else ->
		sleep(false);
#ifdef DOORMAN
		idle[me] = false
#endif
	fi;
#endif
	do
	:: next();
		if
		:: job != NOTHING -> stopSearching()
		:: else -> search(false)
		fi;
		if
		:: job == TASK -> job = NOTHING; runTask()
		:: job == FORK -> job = NOTHING; runFork()
		:: else -> rest()
		fi
	od;
stop:
	skip
}

// # Submitters

#ifdef MUTANT_PUSH_WITHOUT_FENCE
byte buffered[NODES];

active proctype buffer() {
end:
	do
	:: atomic { buffered[0] > 0 -> buffered[0]--; injector[0]++ }
#if NODES > 1
	:: atomic { buffered[1] > 0 -> buffered[1]--; injector[1]++ }
#endif
	od
}
#endif

// ring sets ok if it has woken the doorman or, in its place, a worker.
inline ring_() {
	d_step { ok = atDoor; atDoor = false };
	if
	:: ok ->
		chooseNear(node);
		if
		:: ok ->
			if
#ifdef MUTANT_DOORMAN_TAKES_ANY_PLACE
			:: true -> standsFor = chosen; standIn[chosen] = true
#endif
			:: idle[chosen] -> standsFor = chosen; standIn[chosen] = true
			:: else -> atDoor = true // it waits for something, and must not be kept from that
			fi;
			wakeUp(chosen);
			ok = true
		:: else -> atDoor = true
		fi
	:: else
	fi
}

proctype submitter(byte node) {
	byte n, word, chosen;
	byte left = TASKS;
	bool ok;

	do
	:: left > 0 ->
#ifdef MUTANT_PUSH_WITHOUT_FENCE
		atomic { made++; left--; buffered[node]++ };
#else
		atomic { made++; left--; injector[node]++ };
#endif
#ifndef MUTANT_SUBMIT_WITHOUT_NOTIFY
		if
		:: searching == 0 ->
#ifdef DOORMAN
			ring_();
#endif
			if
			:: !ok -> wakeOne(node)
			:: else -> ok = false
			fi
		:: else
		fi
#endif
	:: else -> break
	od
}

// # The guest: guest.go

#ifdef GUEST

// freePlace is for a guest that computes no longer.
inline freePlace() {
	d_step { sleepers++; ok = sleepers > 0 && searching <= sleepers / 8 && sleepers < WORKERS };
#ifndef MUTANT_FREE_PLACE_WITHOUT_LOOK
	if
	:: ok -> ok = false; notifySeen()
	:: else
	fi;
#endif
	ok = false
}

inline awaitAlone() {
	do
	:: latch[me] == done -> break
	:: latch[me] != done ->
		v = 0;
		do
		:: job == NOTHING && v < SLOTS -> claim(v); v++
		:: job != NOTHING || v == SLOTS -> break
		od;
		v = 0;
		if
		:: job == FORK -> job = NOTHING; complete()
		:: else ->
			casLatch(pending, alone);
			if
			:: ok -> ok = false; sleepAlone()
			:: else -> break
			fi;
			casLatch(alone, pending);
			ok = false
		fi
	od;
	latch[me] = pending
}

inline sleepAlone() {
	freePlace();
	aloneWord = false;
	do
	:: latch[me] == done -> break
	:: latch[me] != done -> aloneWord -> aloneWord = false
	od;
	sleepers--
}

active proctype visitor() {
	byte me = guest;
	byte n, word, chosen, place, v, victim;
	bool ok, seen, forksToo;
	mtype job = NOTHING;
	mtype was = pending;

	sleepers--;
	if
	:: atomic { forks > 0 -> forks-- };
		publish();
		d_step { ok = fork[me]; fork[me] = false };
		if
		:: ok -> ok = false
		:: else -> awaitAlone()
		fi
	:: true
	fi;
	freePlace()
}

#endif

// # The doorman: doorman.go

#ifdef DOORMAN

// handOver moves the doorman's tasks to the injector.
inline handOver() {
	do
	:: ring[me] == 0 && !slot[me] -> break
	:: else ->
		take();
		if
		:: job == TASK -> job = NOTHING; injector[nodeOf(me)]++
		:: else
		fi
	od
}

inline retreat() {
	handOver();
	if
	:: standsFor != NOBODY ->
		atomic { place = standsFor; standIn[place] = false };
		standsFor = NOBODY;
		announce(place);
		searched = false;
#ifndef MUTANT_RETREAT_WITHOUT_LOOK
		worthWaking();
#endif
		state = 0;
		if
		:: seen ->
			seen = false;
			choose(place);
			if
			:: ok -> wakeUp(place)
#ifndef MUTANT_RETREAT_LEAVES_IT_TO_OWNER
			:: else -> wakeOne(nodeOf(me)) // the owner may not look any more
#else
			:: else
#endif
			fi
		:: else
		fi;
		place = 0
	:: else
	fi;
	atDoor = true;
	if
	:: d_step { awake[me] -> awake[me] = false }
	:: over -> goto stop
	fi;
	searches = standsFor != NOBODY // counted by wakeUp
}

active proctype doorman() {
	byte me = door;
	byte n, word, chosen, place, moved, v, victim;
	short state;
	bool ok, seen, last, searches, searched, mayFork, forksToo;
	mtype job = NOTHING;
	mtype was = pending;

	do
	:: retreat() // it has no place, or sees that not all workers sleep
	:: standsFor != NOBODY ->
		next();
		if
		:: job != NOTHING -> stopSearching()
		:: else -> search(false)
		fi;
		if
		:: job == TASK -> job = NOTHING; runTask()
		:: job == FORK -> job = NOTHING; runFork()
		:: else -> retreat()
		fi
	od;
stop:
	skip
}

#endif

init {
	byte n, chosen;
	bool ok;

	atomic {
		n = 0;
		do
		:: n < WORKERS ->
#ifdef ASLEEP
			if
			:: BUSY(n) -> made++
			:: else ->
				parked[nodeOf(n)] = parked[nodeOf(n)] | bitOf(n);
				sleepers++;
#ifdef DOORMAN
				idle[n] = true
#endif
			fi;
#endif
			run worker(n);
			n++
		:: else -> break
		od;
#ifdef SUBMITTED
		injector[0]++;
		made++;
		choose(WORKERS - 1);
		woken();
		wake(WORKERS - 1);
#endif
		n = 0;
		do
		:: n < SUBMITTERS -> run submitter(0); n++
#if NODES > 1
		:: n < SUBMITTERS -> run submitter(1); n++
#endif
		:: else -> break
		od
	}
	timeout -> // nobody moves any more
	assert(ran == made && made == GIVEN + SPAWNS - spawns);
	assert(searching == 0 && sleepers == WORKERS);
	n = 0;
	do
	:: n < SLOTS -> assert(!ring[n] && !slot[n] && !awake[n] && !fork[n] && latch[n] == pending); n++
	:: else -> break
	od;
	n = 0;
	do
	:: n < WORKERS -> assert(parked[nodeOf(n)] & bitOf(n)); n++
	:: else -> break
	od;
	assert(standsFor == NOBODY && atDoor == DOORMEN);
	over = true
}
