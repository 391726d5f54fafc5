/*
Fork stacks, their joins and their latches: pool/fork.go has the algorithm.

One worker, the owner, forks and joins on one fork stack; thieves steal its frames. The owner
does whatever it likes: it forks, joins the newest fork, publishes or does not (in the code that
depends on who is hungry, which is left open here), and while it waits it helps with something
that forks on the same stack. With PANICS it also goes back to any older fork, since a panic that
user code recovered leaves the newer ones behind; and it gives up a wait, since a function that
it helped with ended by runtime.Goexit. Shown for every interleaving within the bounds:

  - Every fork is run once, by the owner or by one thief. One that a panic left behind is run at
    most once, and not after its frame was taken back.
  - A thief reads what the owner wrote for this fork, not for an earlier one at that depth: forks
    are numbered, and what, body and outcome are that number.
  - The owner writes nothing into a frame that a thief holds.
  - The owner reads the outcome that the thief wrote, and that of this fork.
  - Nobody waits for ever: all end, or rest where there is nothing to steal.

What is abstract. What a thief forks lies on the thief's own stack, which is another instance of
this model. Frames do not move when a stack grows, so there are no blocks. The latch's thief is a
hint, and left out. The call stands with the body: publish writes both. Run writes either a result
or an ending. The protocol of sleep is a bit and a word here, and in sleep.pml the rest; somebody
wakes the owner at most once for something else than its latch.

Memory. What is atomic in the code is atomic here, and what is plain is plain: what, body, result,
ending. Three models of what the processor does with loads and stores:

  - neither TSO nor ARM: no buffers.
  - TSO, amd64: a processor's plain stores wait in a buffer and leave it in order. Atomic stores
    and read-modify-writes are locked, and wait until it is empty.
  - ARM, arm64: stores leave the buffer in any order, except that stores to one address keep
    theirs and that a store-release waits for all before it. Atomic read-modify-writes are both
    acquire and release, a load-acquire waits for the store-releases before it. A plain load may
    be done earlier than it stands, but not before the last acquire, nor before its address is
    known. A store that has left is seen by all at once. With PAIR a CAS is LDAXR and STLXR,
    which fails if anybody wrote the word in between, and loads after it may be done between the
    two; without it is CASAL.

Early loads are asked for where an operation without acquire might follow (loadEarly). Only the
thief's CAS has a plain load after it that what somebody else writes could spoil, so only there
PAIR makes a difference. The stores after a CAS cannot overtake its STLXR to any effect: if it
fails, they are not done, and if it succeeds, whoever has seen the word before cannot.

Bounds. Three frames: one to wait for, one that a panic left behind it, and one to fork in while
helping; without panics two are as good. Three forks reuse a frame that was stolen and, by two at
the same depth, bring public back to an old value, which a thief that is late could mistake. Two
thieves can hold two frames at a time, and get into each other's way. The buffers have room for
what is stored between two atomic operations; a processor waits when its buffer is full.
*/

// stands for: pool/fork.go: borders bordersAt frame outcome frames.push frames.pop frames.newest frames.takeBack frames.settle frames.withdraw frames.reclaim frames.publish stack.claim frames.run frames.cut
// stands for: pool/latch.go: latch latch.done latch.complete Worker.await
// stands for: pool/join.go: Join joinInPublic Both bothInPublic Worker.Do

// configuration (small): sequential: -DTHIEVES=1 -DDEPTH=2 -DFORKS=3
// configuration (small): amd64: -DTSO -DTHIEVES=1 -DDEPTH=2 -DFORKS=3
// configuration (small): arm64: -DARM -DTHIEVES=1 -DDEPTH=2 -DFORKS=3
// configuration (small): arm64 without LSE: -DARM -DPAIR -DTHIEVES=1 -DDEPTH=2 -DFORKS=3
// configuration: sequential, two thieves: -DTHIEVES=2 -DDEPTH=2 -DFORKS=3
// configuration: sequential, panics: -DTHIEVES=1 -DDEPTH=3 -DFORKS=3 -DPANICS
// configuration (full): amd64, two thieves: -DTSO -DTHIEVES=2 -DDEPTH=2 -DFORKS=3
// configuration (full): arm64, two thieves: -DARM -DTHIEVES=2 -DDEPTH=2 -DFORKS=3
// configuration (full): arm64 without LSE, two thieves: -DARM -DPAIR -DTHIEVES=2 -DDEPTH=2 -DFORKS=3
// configuration (full): sequential, panics, four forks: -DTHIEVES=1 -DDEPTH=3 -DFORKS=4 -DPANICS
// configuration (full): sequential, panics, two thieves: -DTHIEVES=2 -DDEPTH=3 -DFORKS=3 -DPANICS; pan: -DCOLLAPSE
// configuration (full): amd64, panics: -DTSO -DTHIEVES=1 -DDEPTH=3 -DFORKS=3 -DPANICS
// configuration (full): arm64, panics: -DARM -DTHIEVES=1 -DDEPTH=3 -DFORKS=3 -DPANICS

// mutant MUTANT_PUBLISH_RELAXED: split is raised by a plain store into its half of public, which on arm64 can overtake what is in the frames
// mutant MUTANT_PUBLISH_WITHOUT_ADD: split is raised by a load and a store of public, which forgets what was claimed meanwhile
// mutant MUTANT_PUBLISH_BEFORE_BODY: split is raised before body and call are written
// mutant MUTANT_CLAIM_WITHOUT_CAS: a thief raises top by a load and a store
// mutant MUTANT_CLAIM_READS_FIRST: a thief reads what is in the frame before its CAS
// mutant MUTANT_CLAIM_RELAXED: arm64: the thief's CAS is no acquire
// mutant MUTANT_TAKEBACK_WITHOUT_CAS: the owner lowers split by a load and a store
// mutant MUTANT_WITHDRAW_WITHOUT_CAS: the same in withdraw
// mutant MUTANT_COMPLETE_BEFORE_RESULT: a thief completes the latch before it writes the outcome
// mutant MUTANT_COMPLETE_RELAXED: arm64: the swap that completes the latch is no release
// mutant MUTANT_COMPLETE_WITHOUT_UNPARK: a thief wakes nobody
// mutant MUTANT_REUSE_WITHOUT_WAITING: the owner does not wait for the latch
// mutant MUTANT_WAIT_FOR_FIRST_ONLY: the owner does not wait for the frames that a panic left behind
// mutant MUTANT_RESULT_BEFORE_LATCH: the owner reads the outcome before it waits
// mutant MUTANT_LATCH_RELAXED: arm64: the owner's look at the latch is no acquire
// mutant MUTANT_LATCH_NOT_RESET: the latch stays done
// mutant MUTANT_LATCH_STAYS_WAITING: the latch is not moved back to pending when the owner wakes up
// mutant MUTANT_ENDING_NOT_CLEARED: the ending stays for the next fork in the frame
// mutant MUTANT_BOTTOM_NOT_MOVED: while the owner helps, bottom is at the frame that it waits for, not behind those with thieves
// mutant MUTANT_PARK_WITHOUT_WAITING: the owner parks with its latch pending
// mutant MUTANT_PARK_WITHOUT_LOOK: the owner does not look at the latch again when it has announced its sleep

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
	byte releases // how many of them are
}

Buffer buffer[PROCESSORS];

// What locked instructions and releases wait for, and what a load-acquire waits for.
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

// read looks into the processor's own buffer first. Only within one step.
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

// Early loads. Each process has room for one that is done early: that one is old is
// enough to break something.

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
bool watched[PROCESSORS]; // by LDAXR: nobody has written public since
#endif

// changed is part of whatever writes public.
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

// # What has become of the forks, and who holds the frames

mtype = { unborn, forked, left, gone, done };
mtype fork[FORKS + 1]; // by number, from 1
bool held[DEPTH];      // a thief has claimed the frame and not completed its latch

// # The owner's sleep

bool parked;       // the owner is among the sleepers
bool awake;     // its futex word
bool disturbed; // somebody has woken it for something else

// # The owner

// write is a plain store into a frame.
inline write(frame, at, what_) {
	assert(!held[frame]);
	store(OWNER, at, what_)
}

inline push() {
	fresh++;
	atomic { work[bottom] = fresh; fork[fresh] = forked };
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
		split = bottom
	:: else
	fi
}

// hungry publishes if somebody is hungry, or the frame is an eager one.
inline hungry() {
	if
	:: publish()
	:: skip
	fi
}

// run is the owner's: the frame was not stolen.
inline runOwn() {
	assert(fork[work[d]] == forked);
	fork[work[d]] = done
}

// abandon notes that what lies from a depth on up to high will not be run, unless it was
// stolen. retire notes that it can't be stolen any more.
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
	hungry();
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

// withdraw sets top to the depth from which on frames were not stolen.
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

// A wait: the frames from start to stop-1 are with thieves. While the owner helps it may
// come to wait again, for frames above.
typedef Wait {
	byte start;
	byte stop;
	byte next;   // the first of which the latch was not seen done
	bool wanted  // the outcome of the first is
}

#define WAITS DEPTH
#define wait waits[waiting - 1]

// The depth at which what the owner does now begins.
#define base (waiting == 0 -> 0 : wait.stop)

inline reclaim(wanted_) {
	atomic {
		waits[waiting].start = d;
		waits[waiting].stop = top;
		waits[waiting].next = d;
		waits[waiting].wanted = wanted_;
		waiting++
	};
#ifndef MUTANT_BOTTOM_NOT_MOVED
	bottom = wait.stop;
#endif
#ifdef MUTANT_RESULT_BEFORE_LATCH
	load(OWNER, RESULT(d), result);
	load(OWNER, ENDING(d), ending);
#endif
}

// loadLatch is the load in latch.done.
inline loadLatch() {
	loadEarly(OWNER, RESULT(wait.start));
	d_step {
		released(OWNER) -> read(OWNER, LATCH(wait.next), latch);
#ifndef MUTANT_LATCH_RELAXED
		acquire()
#endif
	}
}

// await looks at the next latch, and perhaps parks if it is not done.
inline await() {
	loadLatch();
#ifdef MUTANT_REUSE_WITHOUT_WAITING
	latch = DONE;
#endif
	if
	:: latch == DONE ->
#ifdef MUTANT_WAIT_FOR_FIRST_ONLY
		wait.next = wait.stop
#else
		wait.next++
#endif
	:: latch != DONE // look again, or help before that
	:: latch != DONE -> park()
	fi;
	latch = PENDING
}

inline casLatch(old, new) {
	d_step {
		drained(OWNER) -> ok = mem[LATCH(wait.next)] == old;
		if
		:: ok -> mem[LATCH(wait.next)] = new
		:: else
		fi;
		acquire()
	}
}

inline park() {
#ifdef MUTANT_PARK_WITHOUT_WAITING
	ok = true;
#else
	casLatch(PENDING, WAITING);
#endif
	if
	:: ok ->
		parked = true;
#ifndef MUTANT_PARK_WITHOUT_LOOK
		d_step { released(OWNER) -> latch = mem[LATCH(wait.next)]; acquire() };
#endif
		if
		:: d_step { latch == DONE && parked -> parked = false }
		:: else -> // nothing to do, or somebody is about to wake this one
			do
			:: d_step { awake -> awake = false }; break
			:: atomic { parked && !disturbed -> disturbed = true; parked = false; awake = true }
			od
		fi;
#ifndef MUTANT_LATCH_STAYS_WAITING
		casLatch(WAITING, PENDING)
#endif
	:: else -> wait.next++ // it is done
	fi
}

// reclaimed is the end of reclaim, when all latches are done.
inline reclaimed() {
	d = wait.start;
	last = wait.stop;
	i = last;
	do
	:: i > d ->
		i--;
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
		write(i, RESULT(i), 0)
	:: else -> break
	od;
	if
	:: wait.wanted -> assert((ending != 0 -> ending : result) == work[d])
	:: else
	fi;
	d_step {
		result = 0; ending = 0;
		waiting--;
		waits[waiting].start = 0; waits[waiting].stop = 0; waits[waiting].next = 0;
		waits[waiting].wanted = false;
		bottom = d; split = d;
		top = last; public = last;
		high = last
	};
	casPublic(OWNER, d, d);
	assert(ok); // else "a fork stack was stolen from while it was empty"
	retire(d);
	last = 0
}

// pop joins the fork at depth d. What lies above was left behind by a panic.
inline pop() {
	high = bottom;
	bottom = d;
	abandon(d + 1);
	takeBack();
	if
	:: mine -> runOwn(); retire(d)
	:: else ->
		withdraw();
		abandon(top);
		retire(top);
		reclaim(true)
	fi
}

// cut takes back what lies from d on, without running it.
inline cut() {
	high = bottom;
	abandon(d);
	withdraw();
	if
	:: top > d -> retire(top); reclaim(false)
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
inline tidy() { d_step { d = 0; high = 0; top = 0; public = 0; ok = false; mine = false } }

active proctype owner() {
	byte bottom, split; // as in the code
	byte fresh;         // number of the last fork
	byte work[DEPTH];   // numbers of the forks, as the owner has them on its stack
	Wait waits[WAITS];
	byte waiting;       // how many waits there are
	byte d, high, top, public, last, latch, result, ending, i, early;
	byte earlyAt = NONE;
	bool ok, mine;

	do
	:: bottom < DEPTH && fresh < FORKS -> push(); hungry()
	:: bottom > base -> d = bottom - 1; pop(); tidy()
	:: waiting > 0 && wait.next < wait.stop && bottom <= wait.stop -> await(); tidy()
	:: waiting > 0 && wait.next == wait.stop && bottom <= wait.stop -> reclaimed(); tidy()
#ifdef PANICS
	:: bottom > base + 1 -> choose(base, bottom - 2); pop(); tidy()
	:: bottom > base -> choose(base, bottom - 1); cut(); tidy()
	:: waiting > 0 && bottom == wait.stop -> // runtime.Goexit leads out of the wait, to a cut below
		atomic { high = wait.start; waiting-- };
		choose(base, high);
		cut();
		tidy()
#endif
	:: waiting == 0 && bottom == 0 && fresh == FORKS -> break
	od;

	i = 1;
	do
	:: i <= FORKS -> assert(fork[i] == done || fork[i] == gone); i++
	:: else -> break
	od
}

// # A thief

// claim sets top to the oldest public frame, and ok if the thief has it. It begins when there
// is one: a thief that finds nothing looks again.
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

inline complete() {
	d_step {
#if !defined(ARM) || !defined(MUTANT_COMPLETE_RELAXED) // a locked instruction is a release in any case
		drained(me) ->
#endif
		latch = mem[LATCH(top)];
		mem[LATCH(top)] = DONE;
		held[top] = false
	};
	if
#ifndef MUTANT_COMPLETE_WITHOUT_UNPARK
	:: latch == WAITING ->
		if
		:: d_step { parked -> parked = false }; awake = true
		:: else // it is on its way to look, or was woken for something else
		fi
#endif
	:: else
	fi
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
