/*
The end of a pool: pool/pool.go, "The end".

Callers from outside submit tasks, which add tasks and delayed tasks. A guest makes a fork, which a worker steals and which adds
some as well, and a child of a scope, which it takes back itself unless a worker steals it. Meanwhile the pool is closed. Shown for
every interleaving within the bounds:

  - When Close returns, every accepted task has run, and none runs afterwards.
  - What an accepted task adds is accepted.
  - Close returns, and so does WaitIdle, not before everything is done.

Abstract. Queues are one counter: that workers find what is in them is in sleep.pml. A worker is active from before it takes
something until it has found the queue empty. A worker that is hired for one task counts as active from its hirer on. It and
the others are waited for if they began before the lists of idle workers were closed.

Memory. All that is shared are Go's atomics, or is under a lock, so the model is sequentially consistent.

Bounds. A task and a fork that each add one are the fewest with an addition from inside and one for a guest. Two workers let
one begin while the other ends.
*/

// stands for: pool/pool.go: Pool.Shutdown Pool.beginClose Pool.drain Pool.seal Pool.isSealed Pool.isDone Pool.isQuiet Pool.end Pool.inside Pool.closesWith Pool.isClosedToTasks
// stands for: pool/task.go: Pool.enqueue Pool.acceptLater Pool.beginDelay Pool.endDelay
// stands for: pool/worker.go: Worker.accept Pool.queue Pool.push
// stands for: pool/compose.go: delay.arrive
// stands for: internal/core/core.go: Pool.Await Pool.Signal Pool.Enter Pool.Leave Pool.End Pool.AwaitEnd

// configuration (small): a task adds one: -DTASKS=1 -DADDS=1 -DFORKS=0 -DWORKERS=1
// configuration (small): a fork of a guest adds one: -DTASKS=0 -DADDS=1 -DFORKS=1 -DWORKERS=1
// configuration (small): a child of a guest: -DTASKS=0 -DADDS=0 -DFORKS=0 -DCHILD -DWORKERS=1
// configuration: two workers and two tasks: -DTASKS=2 -DADDS=1 -DFORKS=0 -DWORKERS=2
// configuration: a task and a fork: -DTASKS=1 -DADDS=1 -DFORKS=1 -DWORKERS=2
// configuration: a task that adds two: -DTASKS=1 -DADDS=2 -DFORKS=0 -DWORKERS=2
// configuration: a task that adds one, and a caller of WaitIdle: -DTASKS=1 -DADDS=1 -DFORKS=0 -DWORKERS=1 -DIDLE
// configuration (full): a task and a fork that add two: -DTASKS=1 -DADDS=2 -DFORKS=1 -DWORKERS=2; pan: -DCOLLAPSE

// mutant MUTANT_ONE_WAIT, in a task adds one: the pool is sealed before its injectors are closed
// mutant MUTANT_NOT_SEALED, in a fork of a guest adds one: the pool accepts from inside until its workers have ended
// mutant MUTANT_SEALED_WITHOUT_LOCK, in a fork of a guest adds one: who adds something may look between drain's look and the seal
// mutant MUTANT_DELAY_COUNTS_LATE, in a task adds one: a delay counts only when the pool has accepted it
// mutant MUTANT_HIRED_COUNTS_LATE, in a task adds one: a worker that is hired for a task counts only when it runs
// mutant MUTANT_DELAY_ENDS_EARLY, in a task adds one: a delay no longer counts when its task is about to be queued
// mutant MUTANT_QUIET_COUNTS_ONCE, in two workers and two tasks: isQuiet does not look again at who is active
// mutant MUTANT_BEGUN_NOT_COMPARED, in a task that adds one, and a caller of WaitIdle: isDone does not look whether a delay has begun meanwhile
// mutant MUTANT_CHILDREN_COUNT, in a child of a guest: a child of a guest's scope keeps the pool from its end
// mutant MUTANT_LEAVES_SILENTLY, in a task adds one: a worker that becomes idle tells nobody

bool closing, refuses, sealing, sealed, listClosed, returned; // refuses is the injectors
byte queue, delayed, begun, busy, awaited;
byte forks, child;       // of the guest
byte timers, hired;      // delayed tasks, and tasks of hired workers, that have not begun
byte lateHired;          // the same for workers that nobody waits for
byte made, ran;
byte adds = ADDS;
bool changed = true;     // core.Pool.changed

// LOOK is a look at sealed under the lock. Between it and what depends on it sealed may be set.
#define LOOK atomic { !sealing -> saw = sealed }

inline leave() {
	d_step {
		busy--;
#ifndef MUTANT_LEAVES_SILENTLY
		changed = true
#endif
	}
}

// hire is Pool.queue where the injector is closed. The caller counts as active, or as delayed.
inline hire() {
#ifndef MUTANT_HIRED_COUNTS_LATE
	busy++;
#endif
	d_step {
		if
		:: !listClosed -> awaited++; hired++
		:: else -> lateHired++
		fi
	}
}

// accept adds a task from inside; mayRefuse says whether an accepted task adds it, or a guest.
inline accept(mayRefuse) {
	LOOK;
	if
	:: closing && saw -> assert(mayRefuse)
	:: else ->
		d_step {
			made++;
			if
			:: !refuses -> queue++; ok = true
			:: else -> ok = false
			fi
		};
		if
		:: ok
		:: !ok -> // closesWith once more
			LOOK;
			if
			:: saw -> assert(mayRefuse); made--
			:: else -> hire()
			fi
		fi
	fi;
	ok = false
}

inline begin() {
#ifdef MUTANT_DELAY_COUNTS_LATE
	skip
#else
	delayed++;
	begun++
#endif
}

inline late() {
#ifdef MUTANT_DELAY_COUNTS_LATE
	delayed++;
	begun++
#else
	skip
#endif
}

inline endDelay() {
#ifdef MUTANT_DELAY_COUNTS_LATE
	skip
#else
	d_step { delayed--; changed = true }
#endif
}

// acceptLater adds a delayed task from inside.
inline acceptLater(mayRefuse) {
	begin();
	LOOK;
	if
	:: closing && saw -> assert(mayRefuse); endDelay()
	:: else -> late(); d_step { made++; timers++ }
	fi
}

inline mayAdd(mayRefuse) {
	do
	:: atomic { adds > 0 -> adds-- }; accept(mayRefuse)
	:: atomic { adds > 0 -> adds-- }; acceptLater(mayRefuse)
	:: break
	od
}

inline runTask() {
	assert(!returned);
	mayAdd(false);
	ran++
}

proctype worker() {
	bool ok, saw, isAwaited;

end:
	do
	:: queue > 0 || forks > 0 || child > 0 ->
		d_step {
			busy++;
			if
			:: !listClosed -> awaited++; isAwaited = true
			:: else
			fi
		};
		do
		:: atomic { queue > 0 -> queue-- }; runTask()
		:: atomic { forks > 0 -> forks-- }; mayAdd(true)
		:: atomic { child > 0 -> child-- }
		:: queue == 0 -> break
		od;
		leave();
		d_step {
			if
			:: isAwaited -> awaited--; isAwaited = false
			:: else
			fi
		}
	od
}

// beside is the workers that are hired for one task.
proctype beside() {
	bool ok, saw;

end:
	do
	:: atomic { hired > 0 -> hired-- };
#ifdef MUTANT_HIRED_COUNTS_LATE
		busy++;
#endif
		runTask();
		leave();
		awaited--
	:: atomic { lateHired > 0 -> lateHired-- };
		ran++;
		leave()
	od
}

proctype timer() {
	bool ok;

end:
	do
	:: atomic { timers > 0 -> timers-- };
#ifdef MUTANT_DELAY_ENDS_EARLY
		d_step { delayed--; changed = true };
#endif
		d_step {
			if
			:: !refuses -> queue++; ok = true
			:: else -> ok = false
			fi
		};
		if
		:: ok -> ok = false
		:: else -> hire()
		fi;
#ifndef MUTANT_DELAY_ENDS_EARLY
		d_step { delayed--; changed = true }
#endif
	od
}

proctype submitter() {
	if
	:: true ->
		if
		:: closing
		:: else ->
			d_step {
				if
				:: !refuses -> made++; queue++
				:: else
				fi
			}
		fi
	:: true ->
		begin();
		if
		:: closing -> endDelay()
		:: else -> late(); d_step { made++; timers++ }
		fi
	fi
}

proctype guest() {
	skip;
#if FORKS > 0
	forks = FORKS;
#endif
#ifdef CHILD
	child++;
	if
	:: atomic { child > 0 -> child-- }
	:: child == 0
	fi
#endif
}

// awaitDone is Await of isDone.
inline awaitDone(seals) {
	do
	:: changed = false;
#ifndef MUTANT_SEALED_WITHOUT_LOCK
		sealing = seals;
#endif
		before = begun;
		ok = delayed == 0;
		if
		:: ok -> ok = busy == 0
		:: else
		fi;
		if
		:: ok -> ok = queue == 0
		:: else
		fi;
#ifdef MUTANT_CHILDREN_COUNT
		if
		:: ok -> ok = child == 0
		:: else
		fi;
#endif
#ifndef MUTANT_QUIET_COUNTS_ONCE
		if
		:: ok -> ok = busy == 0
		:: else
		fi;
#endif
#ifndef MUTANT_BEGUN_NOT_COMPARED
		if
		:: ok -> ok = begun == before
		:: else
		fi;
#endif
		if
		:: ok ->
#ifndef MUTANT_NOT_SEALED
			sealed = seals;
#endif
			d_step { sealing = false; ok = false; before = 0 };
			break
		:: else -> sealing = false; changed
		fi
	od
}

#ifdef IDLE

// idler calls WaitIdle. Tasks come from inside alone, so only at the end is there a moment with nothing left to do.
proctype idler() {
	byte before;
	bool ok;

	awaitDone(false);
	assert(ran == made);
	returned = true
}

#else

proctype closer() {
	byte before;
	bool ok;

	closing = true;
#ifdef MUTANT_ONE_WAIT
	awaitDone(true);
	refuses = true;
#else
	awaitDone(false);
	refuses = true;
	awaitDone(true);
#endif
	listClosed = true;
	awaited == 0; // AwaitEnd
	assert(ran == made);
	returned = true
}

#endif

init {
	byte n;

	atomic {
		do
		:: n < WORKERS -> run worker(); n++
		:: else -> break
		od;
		n = 0;
		run beside();
		run timer();
		run guest();
#ifdef IDLE
		made = TASKS;
		queue = TASKS;
		run idler()
#else
		do
		:: n < TASKS -> run submitter(); n++
		:: else -> break
		od;
		run closer()
#endif
	}
	timeout -> // no process moves any more
	assert(returned && ran == made)
}
