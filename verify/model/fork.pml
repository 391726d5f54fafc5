/*
Fork stacks, their joins and their latches: pool/fork.go has the algorithm.

One worker, the owner, forks and joins on one fork stack; thieves steal its frames. At each step
the owner may fork, join the newest fork, publish or not (in the code that depends on whether the
pool is hungry, which is left open here), or trim the stack, as it does before it waits for
anything. With PANICS it may also go back to any older fork, as a panic that user code recovered
leaves the newer ones behind. With ALARM its steps belong to a call, which another process cancels,
and once it does something in between that belongs to no call. With HUNGER a worker becomes hungry
and asks for forks, twice. Shown for every interleaving within the bounds:

  - Every fork runs once, by the owner or by one thief. A fork that a panic left behind runs at
    most once, and not after its frame was taken back.
  - A thief reads what the owner wrote for this fork, not for an earlier one at that depth: forks
    are numbered, and what, body and outcome are that number.
  - The owner writes nothing into a frame that a thief holds, and trim clears nothing that is still
    needed.
  - The owner reads the outcome that the thief wrote, and wrote for this fork.
  - No process waits for ever: each ends, or rests where there is nothing to steal. For each park
    there is one unpark.
  - No alarm is lost. Once a call was marked as cancelled and the alarm raised, its owner's next fork
    does not take the fast path, and unwinds. Once a worker counts as hungry and has raised the alarm,
    neither the owner's next fork nor its next join takes the fast path, and as long as the worker is
    hungry the fork publishes all.

Abstract. The forks of a thief lie on the thief's own stack, which is another instance of this
model. Frames do not move when a stack grows, so there are no blocks. Used is exactly the range
that was written since the last trim; in the code it may be larger. The call stands with the body:
publish writes both. Run writes either a result or an ending. The owner's looks at a latch, before
it parks, are one look. The owner's place, meanwhile, is in waiting.pml. Of slow the model has only
whether it is an alarm: which frames are published at once is left open as well.

Memory. Accesses that are atomic in the code are atomic here. The plain ones are those to what,
body, result, ending, and the latch where trim clears it. Three models of what the processor does
with loads and stores:

  - neither TSO nor ARM: no buffers.
  - TSO, amd64: a processor's plain stores wait in a buffer and leave it in order. Atomic stores
    and read-modify-writes are locked, and wait until it is empty.
  - ARM, arm64: stores leave the buffer in any order, except that stores to one address keep
    their order and that a store-release waits for all stores before it. Atomic read-modify-writes
    are both acquire and release, and a load-acquire waits for the store-releases before it. A plain
    load may be done earlier than it stands, but not before the last acquire, nor before its address
    is known. All processors see a store as soon as it has left. With PAIR a CAS is LDAXR and STLXR,
    which fails if another processor wrote the word in between, and loads after it may be done
    between the two; without PAIR it is CASAL.

The model has an early load (loadEarly) where an operation without acquire might follow. Only the
thief's CAS is followed by a plain load that another process's store could spoil, so PAIR makes a
difference only there. Stores after a CAS that overtake its STLXR have no effect: if the STLXR
fails, they are not done, and if it succeeds, the CAS of a process that saw the word before cannot
succeed. Slow, a call's state and the pool's are atomic, and Go's atomics have one order, so ALARM
and HUNGER have no buffers.

Bounds. Three frames: one to wait for, one that a panic left behind it, and one more; without panics
two are as good. Three forks reuse a frame that was stolen and, with two at the same depth, bring
public back to an old value, which a late thief could take for the current one. Two thieves can hold
two frames at a time, and get into each other's way. The buffers have room for the stores between
two atomic operations; a processor waits when its buffer is full.
*/

// stands for: pool/fork.go: stack borders bordersAt frame outcome frames.init frames.offer frames.push frames.pushTo stack.eager alarmed stack.alarm frames.relax stack.reason frames.pop frames.takeBack frames.joinStolen frames.reclaim frames.publish stack.claim frames.run frames.tidy frames.cut frames.trim Worker.beginInner Worker.endInner Worker.alarm
// stands for: pool/waiting.go: latch latch.done latch.complete Worker.await Worker.lend
// stands for: internal/core/park.go: Parker.Park Parker.Unpark
// stands for: pool/join.go: Join joinInPublic Worker.Do
// stands for: pool/recursion.go: Fork.Join Fork.joinInPublic Fork.JoinAll
// stands for: pool/cancelscope.go: cancelScope.cancel cancelScope.stopped cancelScope.look cancelScope.check

// configuration (small): sequential: -DTHIEVES=1 -DDEPTH=2 -DFORKS=3
// configuration (small): amd64: -DTSO -DTHIEVES=1 -DDEPTH=2 -DFORKS=3
// configuration (small): arm64: -DARM -DTHIEVES=1 -DDEPTH=2 -DFORKS=3
// configuration (small): arm64 without LSE: -DARM -DPAIR -DTHIEVES=1 -DDEPTH=2 -DFORKS=3
// configuration (small): an alarm: -DTHIEVES=1 -DDEPTH=2 -DFORKS=2 -DALARM
// configuration (small): hunger: -DTHIEVES=1 -DDEPTH=2 -DFORKS=2 -DHUNGER
// configuration: hunger, three forks: -DTHIEVES=1 -DDEPTH=2 -DFORKS=3 -DHUNGER
// configuration: sequential, two thieves: -DTHIEVES=2 -DDEPTH=2 -DFORKS=3
// configuration: sequential, panics: -DTHIEVES=1 -DDEPTH=3 -DFORKS=3 -DPANICS
// configuration: an alarm, three forks: -DTHIEVES=1 -DDEPTH=2 -DFORKS=3 -DALARM
// configuration (full): amd64, two thieves: -DTSO -DTHIEVES=2 -DDEPTH=2 -DFORKS=3
// configuration (full): arm64, two thieves: -DARM -DTHIEVES=2 -DDEPTH=2 -DFORKS=3
// configuration (full): arm64 without LSE, two thieves: -DARM -DPAIR -DTHIEVES=2 -DDEPTH=2 -DFORKS=3
// configuration (full): sequential, panics, four forks: -DTHIEVES=1 -DDEPTH=3 -DFORKS=4 -DPANICS
// configuration (full): sequential, panics, two thieves: -DTHIEVES=2 -DDEPTH=3 -DFORKS=3 -DPANICS; pan: -DCOLLAPSE
// configuration (full): amd64, panics: -DTSO -DTHIEVES=1 -DDEPTH=3 -DFORKS=3 -DPANICS
// configuration (full): arm64, panics: -DARM -DTHIEVES=1 -DDEPTH=3 -DFORKS=3 -DPANICS
// configuration (full): an alarm and panics: -DTHIEVES=1 -DDEPTH=3 -DFORKS=3 -DPANICS -DALARM

// mutant MUTANT_PUBLISH_RELAXED, in arm64: split is raised by a plain store into its half of public, which on arm64 can overtake the stores into the frames
// mutant MUTANT_PUBLISH_WITHOUT_ADD: split is raised by a load and a store of public, which forgets claims made meanwhile
// mutant MUTANT_PUBLISH_BEFORE_BODY: split is raised before body and call are written
// mutant MUTANT_CLAIM_WITHOUT_CAS: a thief raises top by a load and a store
// mutant MUTANT_CLAIM_READS_FIRST: a thief reads the frame before its CAS
// mutant MUTANT_CLAIM_RELAXED, in arm64: the thief's CAS is no acquire
// mutant MUTANT_TAKEBACK_WITHOUT_CAS: the owner lowers split by a load and a store
// mutant MUTANT_WITHDRAW_WITHOUT_CAS, in an alarm: the same in the first part of reclaim
// mutant MUTANT_COMPLETE_BEFORE_RESULT: a thief completes the latch before it writes the outcome
// mutant MUTANT_COMPLETE_RELAXED, in arm64: the swap that completes the latch is no release
// mutant MUTANT_COMPLETE_WITHOUT_SWAP: a thief looks at the latch and then moves it, while the owner may move it to waiting
// mutant MUTANT_COMPLETE_WITHOUT_UNPARK: a thief does not unpark the owner
// mutant MUTANT_UNPARK_BEFORE_DONE: a thief unparks the owner before it moves the latch
// mutant MUTANT_REUSE_WITHOUT_WAITING: the owner does not wait for the latch
// mutant MUTANT_WAIT_FOR_FIRST_ONLY, in an alarm: the owner does not wait for the frames that a panic left behind
// mutant MUTANT_RESULT_BEFORE_LATCH: the owner reads the outcome before it waits
// mutant MUTANT_LATCH_RELAXED, in arm64: the owner's look at the latch is no acquire
// mutant MUTANT_LATCH_NOT_RESET: the latch stays done
// mutant MUTANT_ENDING_NOT_CLEARED, in sequential, panics: the ending stays for the next fork in the frame
// mutant MUTANT_PARK_WITHOUT_WAITING: the owner parks with its latch pending
// mutant MUTANT_WAITING_WITHOUT_CAS: the owner moves its latch to waiting by a store, though it may be done
// mutant MUTANT_BOTTOM_NOT_MOVED: while the owner waits, bottom is at the frame that it waits for, not behind the frames that thieves hold, and trim clears them
// mutant MUTANT_TRIM_ALL: trim clears the frames that are in use as well
// mutant MUTANT_TRIM_FROM_SPLIT: trim clears private frames
// mutant MUTANT_SLOW_WITHOUT_LOOK, in an alarm: the owner lowers slow and does not look at its call afterwards
// mutant MUTANT_SLOW_AFTER_LOOK, in an alarm: the owner looks at its call before it lowers slow
// mutant MUTANT_HUNGER_UNSEEN, in hunger: the owner does not look whether the pool is hungry
// mutant MUTANT_ALARM_BEFORE_HUNGER, in hunger: a worker that becomes hungry raises the alarm before it counts as hungry
// mutant MUTANT_MARK_AFTER_ALARM, in an alarm: the canceller raises the alarm before it marks the call
// mutant MUTANT_ALARM_WITHOUT_LOOK, in an alarm: a fork that left the fast path because of the alarm does not look at its call
// mutant MUTANT_END_WITHOUT_ALARM, in an alarm: the owner lowers slow in between, in what belongs to no call, and does not raise it again

#define NONE 255 // no address

#define OWNER 0 // the first of the processors; the others are thieves
#define PROCESSORS (1 + THIEVES)

// States of a latch.
#define PENDING 0
#define WAITING 1
#define DONE    2

// # Memory

// Addresses. public is two cells here, so that a mutant can write half of it; all
// others read and write both in one step.
#define WHAT(i)   (5 * (i))
#define BODY(i)   (5 * (i) + 1)
#define RESULT(i) (5 * (i) + 2)
#define ENDING(i) (5 * (i) + 3)
#define LATCH(i)  (5 * (i) + 4)
#define TOP       (5 * DEPTH)
#define SPLIT     (5 * DEPTH + 1)

byte mem[5 * DEPTH + 2];

hidden byte k; // of loops in one step

#if !defined(TSO) && !defined(ARM)

#define drained(p) true
#define released(p) true

inline store(p, address, value) { mem[address] = value }
inline storeRelease(p, address, value) { mem[address] = value }
inline read(p, address, value) { value = mem[address] }

#else

#define SLOTS 4

typedef Buffer {
	byte n;
	byte address[SLOTS];
	byte value[SLOTS];
	bool release[SLOTS];
	byte releases // how many of them are releases
}

Buffer buffer[PROCESSORS];

// drained: locked instructions and releases wait for it. released: a load-acquire waits for it.
#define drained(p)  (buffer[p].n == 0)
#define released(p) (buffer[p].releases == 0)

inline enqueue(p, at, what_, kind) {
	d_step {
		buffer[p].n < SLOTS ->
		buffer[p].address[buffer[p].n] = at;
		buffer[p].value[buffer[p].n] = what_;
		buffer[p].release[buffer[p].n] = kind;
		buffer[p].releases = buffer[p].releases + kind;
		buffer[p].n++
	}
}

inline store(p, at, what_) { enqueue(p, at, what_, 0) }

#ifdef TSO
inline storeRelease(p, at, what_) { d_step { drained(p) -> mem[at] = what_ } }
#else
inline storeRelease(p, at, what_) { enqueue(p, at, what_, 1) }
#endif

// read looks into the processor's own buffer first. Callers use it only within one step.
inline read(p, at, v_) {
	v_ = mem[at];
	k = 0;
	do
	:: k < buffer[p].n ->
		if
		:: buffer[p].address[k] == at -> v_ = buffer[p].value[k]
		:: else
		fi;
		k++
	:: else -> break
	od
}

// leave takes an entry out of a buffer: the oldest, on arm64 any one, but a release only
// if it is the oldest, and no store before another one to the same address.
inline leave(p) {
	atomic {
		j = 0;
#ifdef ARM
		do
		:: j + 1 < buffer[p].n -> j++
		:: break
		od;
#endif
		d_step {
			ok = j == 0 || !buffer[p].release[j];
			k = 0;
			do
			:: k < j -> ok = ok && buffer[p].address[k] != buffer[p].address[j]; k++
			:: else -> break
			od;
			if
			:: ok ->
				mem[buffer[p].address[j]] = buffer[p].value[j];
				buffer[p].releases = buffer[p].releases - buffer[p].release[j];
				buffer[p].n--;
				do
				:: j < buffer[p].n ->
					buffer[p].address[j] = buffer[p].address[j + 1];
					buffer[p].value[j] = buffer[p].value[j + 1];
					buffer[p].release[j] = buffer[p].release[j + 1];
					j++
				:: else -> break
				od;
				buffer[p].address[j] = 0;
				buffer[p].value[j] = 0;
				buffer[p].release[j] = false
			:: else
			fi;
			j = 0;
			ok = false
		}
	}
}

active proctype memory() {
	byte j;
	bool ok;
end:
	do
	:: buffer[OWNER].n > 0 -> leave(OWNER)
	:: buffer[1].n > 0 -> leave(1)
#if THIEVES > 1
	:: buffer[2].n > 0 -> leave(2)
#endif
	od
}

#endif

// Early loads. Each process has room for one early load: one old value is enough to break
// something.

inline loadEarly(p, at) {
#ifdef ARM
	if
	:: d_step { read(p, at, early); earlyAt = at }
	:: skip
	fi
#endif
	skip
}

inline acquire() {
#ifdef ARM
	earlyAt = NONE;
	early = 0
#else
	skip
#endif
}

// load is a plain load.
inline load(p, at, v_) {
	d_step {
#ifdef ARM
		if
		:: earlyAt == at -> v_ = early; earlyAt = NONE; early = 0
		:: else -> read(p, at, v_)
		fi
#else
		read(p, at, v_)
#endif
	}
}

// public, a word of two numbers.

#ifdef PAIR
bool watched[PROCESSORS]; // by LDAXR: public was not written since
#endif

// changed is part of every write to public.
inline changed() {
#ifdef PAIR
	k = 0;
	do
	:: k < PROCESSORS -> watched[k] = false; k++
	:: else -> break
	od
#endif
	skip
}

inline loadPublic(p) {
	d_step {
		released(p) ->
		top = mem[TOP];
		read(p, SPLIT, public);
		acquire()
	}
}

// casPublic is public.CompareAndSwap, of what was loaded.
inline casPublic(p, newTop, newSplit) {
	d_step {
		drained(p) ->
		ok = mem[TOP] == top && mem[SPLIT] == public;
		if
		:: ok -> mem[TOP] = newTop; mem[SPLIT] = newSplit; changed()
		:: else
		fi;
		acquire()
	}
}

// storePublic is for mutants.
inline storePublic(p, newTop, newSplit) {
	d_step { drained(p) -> ok = true; mem[TOP] = newTop; mem[SPLIT] = newSplit; changed(); acquire() }
}

// # The forks, and the frames that thieves hold

mtype = { unborn, forked, left, gone, done };
mtype fork[FORKS + 1]; // by number, from 1
bool held[DEPTH];      // a thief has claimed the frame and not completed its latch

bool unparked; // the owner's parker: there was an unpark

#if defined(ALARM) || defined(HUNGER)

// # Alarms

bool alarmed = true; // slow is an alarm, as in a new stack

#ifdef ALARM
bool cancelled;     // the call's state
bool told;          // it was cancelled, and the alarm raised
bool inCall = true; // what the owner does belongs to the call

#define reason (inCall && cancelled)
#else
bool hungry;  // a worker is hungry
bool asked;   // it has raised the alarm
byte episode; // how often it has become hungry

#ifdef MUTANT_HUNGER_UNSEEN
#define reason false
#else
#define reason hungry
#endif
#endif

#endif

// # The owner

// write is a plain store into a frame.
inline write(frame, at, what_) {
	assert(!held[frame]);
	store(OWNER, at, what_)
}

#if defined(ALARM) || defined(HUNGER)

inline relax() {
#ifdef MUTANT_SLOW_AFTER_LOOK
	ok = reason;
	alarmed = ok;
#else
	if
	:: reason -> alarmed = true
	:: else ->
		alarmed = false;
#ifndef MUTANT_SLOW_WITHOUT_LOOK
		if
		:: reason -> alarmed = true
		:: else
		fi
#endif
	fi;
#endif
	ok = false
}

#else

#define relax() skip

#endif

#if defined(ALARM)

// leaveFastPath comes first in a fork, before any write. It may end the call.
inline leaveFastPath() {
	if
	:: d_step { !alarmed -> assert(!inCall || !told) } // the fast path
	:: was = told; // the slow one, for another reason perhaps
		if
#ifdef MUTANT_ALARM_WITHOUT_LOOK
		:: false -> unwinds = true
#else
		:: inCall && cancelled -> inCall = false; unwinds = true
#endif
		:: else -> slowly = true; assert(!inCall || !was)
		fi;
		was = false
	fi
}

#elif defined(HUNGER)

inline leaveFastPath() {
	if
	:: d_step { !alarmed -> assert(!asked) }
	:: d_step { was = (asked -> episode : 0); slowly = true }
	fi
}

#endif

inline push() {
	d_step {
		fresh++;
		work[bottom] = fresh;
		fork[fresh] = forked;
		if
		:: used <= bottom -> used = bottom + 1
		:: else
		fi
	};
	write(bottom, WHAT(bottom), fresh);
	bottom++
}

inline writeBodies() {
	i = split;
	do
	:: i < bottom -> write(i, BODY(i), work[i]); i++
	:: else -> break
	od;
	i = 0
}

// raise is public.Add.
inline raise() {
#if defined(MUTANT_PUBLISH_RELAXED)
	store(OWNER, SPLIT, bottom)
#elif defined(MUTANT_PUBLISH_WITHOUT_ADD)
	loadPublic(OWNER);
	storePublic(OWNER, top, bottom)
#else
	d_step { drained(OWNER) -> mem[SPLIT] = mem[SPLIT] + bottom - split; changed() }
#endif
}

inline publish() {
	if
	:: split < bottom ->
#ifdef MUTANT_PUBLISH_BEFORE_BODY
		raise();
		writeBodies();
#else
		writeBodies();
		raise();
#endif
		split = bottom;
		relax()
	:: else
	fi
}

// mayPublish publishes if the pool is hungry, or the frame is an eager one.
inline mayPublish() {
	if
	:: publish()
#ifdef HUNGER
	:: !hungry
#else
	:: skip
#endif
	fi
}

// runOwn runs a fork of the owner's that was not stolen.
inline runOwn() {
	assert(fork[work[d]] == forked);
	fork[work[d]] = done
}

// abandon notes that the forks from a depth up to high will not run, unless they were stolen.
// retire notes that they cannot be stolen any more.
inline abandon(from_) {
	d_step {
		i = from_;
		do
		:: i < high ->
			if
			:: fork[work[i]] == forked -> fork[work[i]] = left
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

inline retire(from_) {
	d_step {
		i = from_;
		do
		:: i < high ->
			if
			:: fork[work[i]] == left -> fork[work[i]] = gone
			:: else
			fi;
			work[i] = 0;
			i++
		:: else -> break
		od;
		i = 0
	}
}

// takeBack sets mine if the fork at depth d was not stolen.
inline takeBack() {
	mayPublish();
	if
	:: d >= split -> mine = true
	:: else ->
		do
		:: loadPublic(OWNER);
			if
			:: top > d -> mine = false; break
			:: else ->
#ifdef MUTANT_TAKEBACK_WITHOUT_CAS
				storePublic(OWNER, top, d);
#else
				casPublic(OWNER, top, d);
#endif
				if
				:: ok -> split = d; mine = true; break
				:: else
				fi
			fi
		od
	fi
}

// withdraw is the first part of frames.reclaim. It sets top to the depth from which on frames were not stolen.
inline withdraw() {
	bottom = d;
	if
	:: d >= split -> top = d
	:: else ->
		do
		:: loadPublic(OWNER);
			last = (top > d -> top : d);
#ifdef MUTANT_WITHDRAW_WITHOUT_CAS
			storePublic(OWNER, top, last);
#else
			casPublic(OWNER, top, last);
#endif
			if
			:: ok -> split = last; top = last; break
			:: else
			fi
		od;
		last = 0
	fi
}

// clear stores 0, which also is a pending latch. Where there is a 0 it stores nothing.
inline clear(at) {
	d_step { read(OWNER, at, last) };
	if
	:: last != 0 -> last = 0; store(OWNER, at, 0)
	:: else
	fi
}

// trim clears the frames that are not in use.
inline trim() {
#if defined(MUTANT_TRIM_FROM_SPLIT)
	j = split;
#elif defined(MUTANT_TRIM_ALL)
	j = 0;
#else
	j = bottom;
#endif
	do
	:: atomic { j < used ->
			assert(!held[j]);
			clear(WHAT(j));
			clear(BODY(j));
			clear(RESULT(j));
#ifdef PANICS
			clear(ENDING(j));
#endif
			clear(LATCH(j));
			j++
		}
	:: else -> break
	od;
	atomic { used = bottom; j = 0 }
}

// loadLatch is the load in latch.done.
inline loadLatch() {
	loadEarly(OWNER, RESULT(i));
	d_step {
		released(OWNER) -> read(OWNER, LATCH(i), latch);
#ifndef MUTANT_LATCH_RELAXED
		acquire()
#endif
	}
}

// await waits until the latch of frame i is done. A worker lends its place before it parks.
inline await() {
	loadLatch();
	if
	:: latch == DONE
	:: else ->
#if defined(MUTANT_PARK_WITHOUT_WAITING)
		ok = true;
#elif defined(MUTANT_WAITING_WITHOUT_CAS)
		d_step { drained(OWNER) -> mem[LATCH(i)] = WAITING; ok = true };
#else
		d_step {
			drained(OWNER) -> ok = mem[LATCH(i)] == PENDING;
			if
			:: ok -> mem[LATCH(i)] = WAITING
			:: else
			fi;
			acquire()
		};
#endif
		if
		:: ok ->
			trim();
			d_step { unparked -> unparked = false; acquire() }
		:: else // it is done
		fi
	fi;
	d_step { latch = PENDING; ok = false }
}

// reclaim is the other part. It waits for the frames from d to top-1, and sets result and ending to the outcome of
// the first.
inline reclaim() {
	stop = top;
#ifndef MUTANT_BOTTOM_NOT_MOVED
	bottom = stop;
#endif
#ifdef MUTANT_RESULT_BEFORE_LATCH
	load(OWNER, RESULT(d), result);
	load(OWNER, ENDING(d), ending);
#endif
	i = stop;
	do
	:: i > d ->
		i--;
#if defined(MUTANT_WAIT_FOR_FIRST_ONLY)
		if
		:: i == d -> await()
		:: else
		fi;
#elif !defined(MUTANT_REUSE_WITHOUT_WAITING)
		await();
#endif
		assert(fork[work[i]] == done);
		assert(!held[i]);
#ifndef MUTANT_LATCH_NOT_RESET
		storeRelease(OWNER, LATCH(i), PENDING);
#endif
#ifndef MUTANT_RESULT_BEFORE_LATCH
		load(OWNER, RESULT(i), result);
#ifdef PANICS
		load(OWNER, ENDING(i), ending);
#endif
#endif
#if defined(PANICS) && !defined(MUTANT_ENDING_NOT_CLEARED)
		write(i, ENDING(i), 0);
#endif
		write(i, RESULT(i), 0);
		write(i, WHAT(i), 0)
	:: else -> break
	od;
	atomic {
		bottom = d; split = d;
		top = stop; public = stop;
		high = stop
	};
	casPublic(OWNER, d, d);
	assert(ok); // else "a fork stack was stolen from while it was empty"
	stop = 0
}

// pop joins the fork at depth d. A panic left behind whatever lies above it.
inline pop() {
	high = bottom;
	bottom = d;
	abandon(d + 1);
#ifdef HUNGER
	if
	:: d_step { !alarmed && d >= split -> assert(!asked); mine = true } // the fast path
	:: takeBack()
	fi;
#else
	takeBack();
#endif
	if
	:: mine -> runOwn(); retire(d)
	:: else ->
		withdraw();
		abandon(top);
		retire(top);
		reclaim();
		assert((ending != 0 -> ending : result) == work[d]);
		retire(d)
	fi
}

// cut takes back all forks from d on, without running them.
inline cut() {
	high = bottom;
	abandon(d);
	withdraw();
	if
	:: top > d -> retire(top); reclaim(); retire(d)
	:: else -> retire(d)
	fi
}

inline choose(from_, upTo) {
	atomic {
		d = from_;
		do
		:: d < upTo -> d++
		:: break
		od
	}
}

// Scratch variables go back to 0 between two operations, lest states differ by them only.
inline tidy() { d_step { d = 0; high = 0; top = 0; public = 0; result = 0; ending = 0; ok = false; mine = false } }

// The depth at which the owner's present work begins.
#ifdef ALARM
#define base mark
#else
#define base 0
#endif

active proctype owner() {
	byte bottom, split, used; // as in the code
	byte fresh;               // number of the last fork
	byte work[DEPTH];         // numbers of the forks, as on the stack of the owner
	byte d, high, top, stop, public, last, latch, result, ending, i, j, early;
	byte earlyAt = NONE;
	bool ok, mine;
#ifdef ALARM
	byte mark;
	bool began, inner, wasIn, was, unwinds, slowly;
#elif defined(HUNGER)
	byte was;
	bool slowly;
#endif

	do
#ifdef ALARM
	:: bottom < DEPTH && fresh < FORKS ->
		leaveFastPath();
		if
		:: !unwinds ->
			push();
			mayPublish();
			if
			:: slowly -> relax(); slowly = false
			:: else
			fi
		:: unwinds && bottom > 0 -> d = 0; cut(); tidy(); unwinds = false
		:: unwinds && bottom == 0 -> unwinds = false
		fi
	:: !inner && !began && fresh < FORKS ->
		publish();
		d_step { began = true; inner = true; mark = bottom; wasIn = inCall; inCall = false }
	:: inner ->
		if
		:: bottom > mark -> d = mark; cut(); tidy()
		:: else
		fi;
		d_step { inner = false; mark = 0; inCall = wasIn; wasIn = false };
#ifndef MUTANT_END_WITHOUT_ALARM
		if
		:: inCall && cancelled -> alarmed = true
		:: else
		fi
#endif
#elif defined(HUNGER)
	:: bottom < DEPTH && fresh < FORKS ->
		leaveFastPath();
		push();
		if
		:: slowly ->
			mayPublish();
			relax();
			d_step {
				assert(was == 0 || !asked || was != episode || split == bottom);
				was = 0; slowly = false
			}
		:: else
		fi
#else
	:: bottom < DEPTH && fresh < FORKS -> push(); mayPublish()
#endif
	:: bottom > base -> d = bottom - 1; pop(); tidy()
	:: used > bottom -> trim() // before it waits for something else, or at the end of what it does
#ifdef PANICS
	:: bottom > base + 1 -> choose(base, bottom - 2); pop(); tidy()
	:: bottom > base -> choose(base, bottom - 1); cut(); tidy()
#endif
	:: bottom == 0 && fresh == FORKS -> break
	od;

	i = 1;
	do
	:: i <= FORKS -> assert(fork[i] == done || fork[i] == gone); i++
	:: else -> break
	od
}

#ifdef HUNGER

active proctype hungryWorker() {
	do
	:: episode < 2 ->
#ifdef MUTANT_ALARM_BEFORE_HUNGER
		alarmed = true;
		d_step { hungry = true; episode++; asked = true };
#else
		d_step { hungry = true; episode++ };
		d_step { alarmed = true; asked = true };
#endif
		d_step { asked = false; hungry = false }
	:: break
	od
}

#endif

#ifdef ALARM

active proctype canceller() {
#ifdef MUTANT_MARK_AFTER_ALARM
	alarmed = true;
	d_step { cancelled = true; told = true }
#else
	cancelled = true;
	d_step { alarmed = true; told = true }
#endif
}

#endif

// # A thief

// claim sets top to the oldest public frame, and ok if the thief has it. It begins when there
// is such a frame: a thief that finds none looks again.
inline claim() {
	d_step {
		mem[TOP] < mem[SPLIT] ->
		top = mem[TOP];
		public = mem[SPLIT];
#ifdef PAIR
		watched[me] = true
#endif
	};
#ifdef MUTANT_CLAIM_READS_FIRST
	load(me, WHAT(top), what);
#endif
	loadEarly(me, WHAT(top)); // its address is known from here on
#ifdef MUTANT_CLAIM_WITHOUT_CAS
	d_step { mem[TOP] = top + 1; mem[SPLIT] = public; ok = true }
#else
	d_step {
		ok = mem[TOP] == top && mem[SPLIT] == public;
#ifdef PAIR
		ok = ok && watched[me];
		watched[me] = false;
#elif !defined(MUTANT_CLAIM_RELAXED)
		acquire();
#endif
		if
		:: ok -> mem[TOP] = top + 1; changed(); assert(!held[top]); held[top] = true
		:: else -> acquire() // it begins anew, with an acquire
		fi
	}
#endif
}

inline unpark() {
	if
#ifndef MUTANT_COMPLETE_WITHOUT_UNPARK
	:: latch == WAITING -> d_step { assert(!unparked); unparked = true }
#endif
	:: else
	fi
}

inline complete() {
#ifdef MUTANT_UNPARK_BEFORE_DONE
	d_step { drained(me) -> latch = mem[LATCH(top)] };
	unpark();
	latch = PENDING;
#endif
#ifdef MUTANT_COMPLETE_WITHOUT_SWAP
	d_step { drained(me) -> latch = mem[LATCH(top)] };
#endif
	d_step {
#if !defined(ARM) || !defined(MUTANT_COMPLETE_RELAXED) // a locked instruction is a release in any case
		drained(me) ->
#endif
#if !defined(MUTANT_UNPARK_BEFORE_DONE) && !defined(MUTANT_COMPLETE_WITHOUT_SWAP)
		latch = mem[LATCH(top)];
#endif
		mem[LATCH(top)] = DONE;
		held[top] = false
	};
	unpark()
}

inline writeOutcome() {
	if
	:: store(me, RESULT(top), what)
#ifdef PANICS
	:: store(me, ENDING(top), what)
#endif
	fi
}

inline runStolen() {
#ifndef MUTANT_CLAIM_READS_FIRST
	load(me, WHAT(top), what);
#endif
	load(me, BODY(top), body);
	atomic {
		assert(what == body);
		assert(fork[what] == forked || fork[what] == left);
		fork[what] = done
	};
#ifdef MUTANT_COMPLETE_BEFORE_RESULT
	complete();
	writeOutcome()
#else
	writeOutcome();
	complete()
#endif
}

proctype thief(byte me) {
	byte top, public, what, body, latch, early;
	byte earlyAt = NONE;
	bool ok;
end:
	do
	:: claim();
		if
		:: ok -> runStolen()
		:: else
		fi;
		d_step { top = 0; public = 0; what = 0; body = 0; latch = 0; ok = false }
	od
}

init {
	atomic {
		run thief(1);
#if THIEVES > 1
		run thief(2)
#endif
	}
}
