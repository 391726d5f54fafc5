/*
The Chase-Lev deque: one owner pushes and pops at the bottom, thieves steal at the top
(deque.go has the algorithm and its argument). Shown for every interleaving within the
bounds: no item is taken twice, none is lost, and whichever process takes index i gets the
item that was pushed there.

Memory. Three models of what the processor does with loads and stores:

  - neither TSO nor ARM: sequentially consistent, as Go's atomics are.
  - TSO, amd64: the owner's stores wait in a buffer and leave it in order. Thieves write
    nothing but top, by a locked CAS, so they need no buffer.
  - ARM, arm64: stores leave the buffer in any order, except that stores to one address keep
    their order and that a store-release waits for all stores before it. A load-acquire waits
    for the store-releases before it. The loads of a steal are done in any order that acquire,
    release and the dependencies of addresses allow. All processors see a store as soon as it
    has left: the memory is "other-multi-copy atomic". With PAIR the CAS is a load and a store
    that belong together and can fail for no reason; without PAIR it is one instruction.

The model does not move the owner's own loads. All but the loads of top read what the owner
itself wrote, and a load of top that is late or early relative to the stores is the same as
stores that leave early or late.

An order without a mutant below exists neither in the model nor in the assembly of arm64: the
array is loaded without acquire (the slot's address depends on it), a pop puts bottom back
without release, the owner's CAS does not wait for the owner's stores (the buffer is empty by
then: asserted), and nothing has to wait for a thief's CAS. Where the code uses Go's atomics,
they order more: on amd64 publishing an array needs only a plain store.

Bounds. The array has 2 slots and grows to 4, its limit; every run begins with the zero deque,
which has no array. Indices begin at FIRST so that they wrap in both arrays and are never
negative. Three pushes are the fewest that reuse a slot and that grow; with a fourth the grown
array is full. One thief is enough to catch every mutant; a second shows that thieves do not
harm each other. A steal leaves nothing behind in its thief, so many steals by one thief are no
more than one steal by each of many. Abstract: sweep clears the slots that hold something, and
items are numbers. PopFrom is a Pop that clears its slot, or that sees from the owner's own
bottom that there is nothing for it.
*/

// stands for: deque.go: Deque.Push Deque.Pop Deque.PopFrom Deque.Steal Deque.StealAt deque.forget deque.makeRoom deque.setArray deque.sweep
// stands for: asm.go: deque.push deque.pop deque.steal storeSlot popEmpty popLost stealLost
// stands for: deque_generic.go: deque.portablePush deque.portablePop deque.portableSteal
// stands for: noasm.go: deque.push deque.pop deque.steal storeSlot
// stands for: layout.go: slots.at slots.clear newSlots
// stands for: deque_amd64.s: asmPush asmPop asmSteal
// stands for: deque_arm64.s: asmPush asmPop asmSteal

// configuration (small): sequential: -DPUSHES=3 -DPOPS=3 -DTHIEVES=1 -DSTEALS=2
// configuration (small): amd64: -DTSO -DPUSHES=3 -DPOPS=3 -DTHIEVES=1 -DSTEALS=2
// configuration (small): arm64: -DARM -DPUSHES=3 -DPOPS=3 -DTHIEVES=1 -DSTEALS=2
// configuration: arm64 without LSE: -DARM -DPAIR -DPUSHES=3 -DPOPS=3 -DTHIEVES=1 -DSTEALS=2
// configuration (full): sequential, two thieves: -DPUSHES=3 -DPOPS=3 -DTHIEVES=2 -DSTEALS=2
// configuration: amd64, two thieves: -DTSO -DPUSHES=3 -DPOPS=2 -DTHIEVES=2 -DSTEALS=1
// configuration: arm64, two thieves: -DARM -DPUSHES=3 -DPOPS=2 -DTHIEVES=2 -DSTEALS=1
// configuration (full): sequential, four pushes: -DPUSHES=4 -DPOPS=3 -DTHIEVES=2 -DSTEALS=2
// configuration (full): amd64, four pushes: -DTSO -DPUSHES=4 -DPOPS=3 -DTHIEVES=2 -DSTEALS=1
// configuration (full): arm64, four pushes: -DARM -DPUSHES=4 -DPOPS=3 -DTHIEVES=2 -DSTEALS=1
// configuration (full): amd64, five pushes: -DTSO -DPUSHES=5 -DPOPS=4 -DTHIEVES=1 -DSTEALS=3
// configuration (full): arm64, five pushes: -DARM -DDEPTH=5 -DPUSHES=5 -DPOPS=4 -DTHIEVES=1 -DSTEALS=3
// configuration (full): arm64 without LSE, four pushes: -DARM -DPAIR -DPUSHES=4 -DPOPS=3 -DTHIEVES=2 -DSTEALS=1

// mutant MUTANT_POP_NO_FENCE: amd64: a pop stores bottom with a MOV, not an XCHG
// mutant MUTANT_POP_PLAIN_STORE: arm64: a pop stores bottom without release, so its load of top need not wait
// mutant MUTANT_POP_LDAPR: arm64: a pop loads top with LDAPR, which does not wait for the STLR of bottom
// mutant MUTANT_POP_TOP_FIRST: a pop reads top before it lowers bottom
// mutant MUTANT_POP_NO_CAS: a pop takes the last item without the CAS
// mutant MUTANT_POP_NO_RESTORE: a pop that finds the deque empty leaves bottom lowered
// mutant MUTANT_POP_NO_RESTORE_LAST: a pop that goes through the CAS leaves bottom lowered
// mutant MUTANT_PUSH_PLAIN_STORE: arm64: a push stores bottom without release
// mutant MUTANT_PUSH_BOTTOM_FIRST: a push stores bottom before the slot
// mutant MUTANT_PUSH_NO_ROOM: a push does not check whether there is room
// mutant MUTANT_PUSH_OLD_ARRAY: a push that has grown the array stores into the former one (Norris and Demsky)
// mutant MUTANT_GROW_PLAIN_STORE: arm64: growing publishes the array without release
// mutant MUTANT_GROW_PUBLISH_FIRST: growing publishes the array before it copies the items
// mutant MUTANT_GROW_NO_COPY_OF_TOP: growing copies only the items above top
// mutant MUTANT_STEAL_TOP_PLAIN: arm64: a steal loads top without acquire
// mutant MUTANT_STEAL_BOTTOM_PLAIN: arm64: a steal loads bottom without acquire
// mutant MUTANT_STEAL_CAS_PLAIN: arm64: the CAS of a steal has no release, so the slot may be loaded after it
// mutant MUTANT_STEAL_BOTTOM_FIRST: a steal reads bottom before top
// mutant MUTANT_STEAL_ARRAY_FIRST: a steal reads the array before bottom
// mutant MUTANT_STEAL_SLOT_LAST: a steal reads the slot after its CAS
// mutant MUTANT_STEAL_NO_EMPTY_CHECK: a steal does not compare top with bottom
// mutant MUTANT_STEAL_NO_CAS: a steal stores top

#define FIRST 3 /* the first index */
#define LIMIT 4

/* Addresses. An array is known by the address of its first slot. */
#define TOP    0
#define BOTTOM 1
#define ARRAY  2
#define SMALL  3 /* and 4 */
#define LARGE  5 /* to 8 */
#define CELLS  9
#define NIL    0

#define length(array)    ((array) == NIL -> 0 : ((array) == SMALL -> 2 : 4))
#define slotOf(array, i) ((array) + (i) % length(array))

byte memory[CELLS];

/* ---- What is checked. ---- */

byte pushed;         /* items 1..pushed were pushed */
byte abstract[FIRST + PUSHES]; /* the item that was pushed last at each index */
int taken;           /* a bit for each item */
byte finished;

inline take(thing, index) {
	assert(thing == abstract[index]);
	assert(!(taken & (1 << thing)));
	taken = taken | (1 << thing)
}

/* ---- The owner's memory operations. ---- */

#ifdef TSO
#define inOrder true
#else
#define inOrder false
#endif

#if defined(TSO) || defined(ARM)

#ifndef DEPTH
#define DEPTH 4
#endif

typedef Store {
	byte address;
	byte value;
	byte after;  /* a bit for each earlier store in the buffer that must leave first */
	bool release
};
Store buffer[DEPTH];
byte pending;  /* the number of stores in the buffer */
byte releases; /* the number of store-releases among them */

inline issue(to, what, isRelease) {
	atomic {
		pending < DEPTH ->
		d_step {
			buffer[pending].address = to;
			buffer[pending].value = what;
			buffer[pending].release = isRelease;
			i = 0;
			do
			:: i < pending ->
				if
				:: inOrder || isRelease || buffer[i].address == buffer[pending].address ->
					buffer[pending].after = buffer[pending].after | (1 << i)
				:: else
				fi;
				i++
			:: else -> break
			od;
			i = 0;
			pending++;
			releases = releases + isRelease;
			mine[to] = what
		}
	}
}

/* A store leaves the buffer. */
inline leave(n) {
	d_step {
		n < pending && buffer[n].after == 0 ->
		memory[buffer[n].address] = buffer[n].value;
		releases = releases - buffer[n].release;
		pending--;
		i = 0;
		do
		:: i < pending ->
			if
			:: i >= n ->
				buffer[i].address = buffer[i + 1].address;
				buffer[i].value = buffer[i + 1].value;
				buffer[i].release = buffer[i + 1].release;
				buffer[i].after = buffer[i + 1].after
			:: else
			fi;
			buffer[i].after = (buffer[i].after & ((1 << n) - 1)) | ((buffer[i].after >> (n + 1)) << n);
			i++
		:: else -> break
		od;
		i = 0;
		buffer[pending].address = 0;
		buffer[pending].value = 0;
		buffer[pending].release = false;
		buffer[pending].after = 0
	}
}

active proctype StoreBuffer() {
	byte i;
end:	do
	:: leave(0)
#ifdef ARM
	:: leave(1)
	:: leave(2)
	:: leave(3)
#if DEPTH > 4
	:: leave(4)
#endif
#endif
	od
}

#define drained (pending == 0)

#else

inline issue(to, what, isRelease) {
	d_step {
		memory[to] = what;
		mine[to] = what
	}
}

#define drained true

#endif

#ifdef ARM
#define releasesDone (releases == 0)
#else
#define releasesDone true
#endif

#define store(to, what)           issue(to, what, false)
#define storeRelease(to, what)    issue(to, what, true)
#define load(into, from)          into = memory[from]
#define loadAcquirePC(into, from) load(into, from)
#define loadAcquire(into, from)   atomic { releasesDone -> load(into, from) }

/* The full fence between a pop's store of bottom and its load of top. */
#if defined(TSO) && !defined(MUTANT_POP_NO_FENCE)
#define fence() drained /* XCHG is the store and the fence */
#else
#define fence() skip /* arm64 has no instruction here: a LDAR waits for the STLR before it */
#endif
#if defined(ARM) && defined(MUTANT_POP_PLAIN_STORE)
#define storeOfPop(to, what) store(to, what)
#else
#define storeOfPop(to, what) storeRelease(to, what)
#endif
#if defined(ARM) && defined(MUTANT_POP_LDAPR)
#define loadOfPop(into, from) loadAcquirePC(into, from)
#else
#define loadOfPop(into, from) loadAcquire(into, from)
#endif
#if defined(ARM) && defined(MUTANT_PUSH_PLAIN_STORE)
#define storeOfPush(to, what) store(to, what)
#else
#define storeOfPush(to, what) storeRelease(to, what)
#endif
#if defined(ARM) && defined(MUTANT_GROW_PLAIN_STORE)
#define storeOfGrow(to, what) store(to, what)
#else
#define storeOfGrow(to, what) storeRelease(to, what)
#endif

/* The CAS of top, for the owner. */
#ifdef PAIR
inline cas(ok, expected, new) {
	load(seen, TOP);
	if
	:: atomic { seen == expected && memory[TOP] == seen -> memory[TOP] = new; ok = true }
	:: ok = false /* overtaken, or the tries are used up */
	fi;
	seen = 0
}
#else
inline cas(ok, expected, new) {
	d_step {
		ok = (memory[TOP] == expected);
		memory[TOP] = (ok -> new : memory[TOP])
	}
}
#endif

/* ---- The owner. ---- */

inline copy() {
#ifdef MUTANT_GROW_NO_COPY_OF_TOP
	j = t + 1;
#else
	j = t;
#endif
	do
	:: j < b -> store(slotOf(LARGE, j), mine[slotOf(SMALL, j)]); j++
	:: else -> break
	od;
	j = 0
}

inline makeRoom() {
	loadAcquire(t, TOP);
	topSeen = t;
	if
	:: b - t < length(mine[ARRAY])
	:: else ->
		if
		:: b - t >= LIMIT -> refused = true
		:: else ->
			if
			:: mine[ARRAY] == NIL -> storeOfGrow(ARRAY, SMALL)
			:: else ->
#ifdef MUTANT_GROW_PUBLISH_FIRST
				storeOfGrow(ARRAY, LARGE);
				copy()
#else
				copy();
				storeOfGrow(ARRAY, LARGE)
#endif
			fi
		fi
	fi
}

inline push() {
	b = mine[BOTTOM];
	old = mine[ARRAY];
	refused = false;
	if
#ifdef MUTANT_PUSH_NO_ROOM
	:: mine[ARRAY] == NIL -> makeRoom()
#else
	:: b - topSeen >= length(mine[ARRAY]) -> makeRoom()
#endif
	:: else
	fi;
	if
	:: refused
	:: else ->
		d_step {
			pushed++;
			item = pushed;
			abstract[b] = item;
#ifndef MUTANT_PUSH_OLD_ARRAY
			old = mine[ARRAY];
#else
			old = (old == NIL -> mine[ARRAY] : old)
#endif
		}
#ifdef MUTANT_PUSH_BOTTOM_FIRST
		storeRelease(BOTTOM, b + 1);
		storeRelease(slotOf(old, b), item)
#else
		store(slotOf(old, b), item);
		storeOfPush(BOTTOM, b + 1)
#endif
	fi;
	forget()
}

/* The deque is empty, so no slot holds an item. */
inline sweep() {
	j = 0;
	do
	:: j < length(mine[ARRAY]) ->
		if
		:: mine[mine[ARRAY] + j] != 0 -> store(mine[ARRAY] + j, 0)
		:: else
		fi;
		j++
	:: else -> break
	od
}

inline forget() {
	d_step { b = 0; t = 0; j = 0; next = 0; old = 0; item = 0; won = false; refused = false }
}

/* PopFrom clears the slot of the item that it has popped, Pop does not. */
inline clear() {
	if
	:: store(slotOf(mine[ARRAY], b), 0)
	:: true
	fi
}

inline popOnce() {
	next = mine[BOTTOM];
	b = next - 1;
#ifdef MUTANT_POP_TOP_FIRST
	loadAcquire(t, TOP);
	storeRelease(BOTTOM, b);
	fence();
#else
	storeOfPop(BOTTOM, b);
	fence();
	loadOfPop(t, TOP);
#endif
	if
	:: b - t < 0 ->
#ifndef MUTANT_POP_NO_RESTORE
		store(BOTTOM, next);
#endif
		sweep()
	:: b - t > 0 ->
		d_step {
			item = mine[slotOf(mine[ARRAY], b)];
			take(item, b)
		};
		clear()
	:: else ->
		item = mine[slotOf(mine[ARRAY], b)];
#if !defined(MUTANT_POP_NO_FENCE) && !defined(MUTANT_POP_PLAIN_STORE) && !defined(MUTANT_POP_LDAPR)
		assert(drained);
#endif
#ifdef MUTANT_POP_NO_CAS
		won = true;
		memory[TOP] = t + 1;
#else
		cas(won, t, t + 1);
#endif
#ifndef MUTANT_POP_NO_RESTORE_LAST
		store(BOTTOM, next);
#endif
		if
		:: won -> take(item, b); clear()
		:: else -> lost = true
		fi
	fi;
	forget()
}

inline pop() {
	do
	:: lost = false;
		popOnce();
		if
		:: lost /* popLost */
		:: else -> break
		fi
	od
}

active proctype Owner() {
	byte mine[CELLS]; /* memory as the owner sees it: with its own stores at once */
	byte pushes, pops, topSeen = FIRST;
	byte i, j, b, t, next, old, item, seen;
	bool won, lost, refused;

	atomic {
		memory[TOP] = FIRST;
		memory[BOTTOM] = FIRST;
		mine[BOTTOM] = FIRST
	};
	do
	:: pushes < PUSHES -> pushes++; push()
	:: pops < POPS -> pops++; pop()
	:: pushes == PUSHES && pops == POPS -> break
	od;
	finished++
}

/* ---- The thieves. ---- */

/* The instructions of a steal, as bits. */
#define READ_TOP    1
#define READ_BOTTOM 2
#define READ_ARRAY  4
#define READ_SLOT   8
#define RAISE       16 /* the CAS, or STLXR */
#ifdef PAIR
#define LINK 32 /* LDAXR */
#else
#define LINK 0  /* no instruction of its own */
#endif
#define ALL (READ_TOP | READ_BOTTOM | READ_ARRAY | READ_SLOT | LINK | RAISE)

/* What each instruction has to wait for. On amd64 that is every instruction before it; on arm64
   the acquires and the release come to the same. */
#if defined(ARM) && defined(MUTANT_STEAL_TOP_PLAIN)
#define ACQUIRE_TOP 0
#else
#define ACQUIRE_TOP READ_TOP
#endif
#if defined(ARM) && defined(MUTANT_STEAL_BOTTOM_PLAIN)
#define ACQUIRE_BOTTOM 0
#else
#define ACQUIRE_BOTTOM READ_BOTTOM
#endif
#if defined(ARM) && defined(MUTANT_STEAL_CAS_PLAIN)
#define RELEASE 0
#else
#define RELEASE READ_SLOT
#endif

#define BEFORE_TOP    0
#define BEFORE_BOTTOM (ACQUIRE_TOP)
#define BEFORE_ARRAY  (ACQUIRE_TOP | ACQUIRE_BOTTOM)
#define BEFORE_SLOT   (ACQUIRE_TOP | ACQUIRE_BOTTOM | READ_TOP | READ_ARRAY) /* the address */
#define BEFORE_LINK   (ACQUIRE_TOP | ACQUIRE_BOTTOM)
#define BEFORE_RAISE  (READ_TOP | READ_BOTTOM | LINK | RELEASE) /* the operands and the branch */

#ifdef MUTANT_STEAL_BOTTOM_FIRST
#undef BEFORE_TOP
#undef BEFORE_BOTTOM
#define BEFORE_TOP    READ_BOTTOM
#define BEFORE_BOTTOM 0
#endif
#ifdef MUTANT_STEAL_ARRAY_FIRST
#undef BEFORE_ARRAY
#undef BEFORE_BOTTOM
#define BEFORE_ARRAY  READ_TOP
#define BEFORE_BOTTOM (READ_TOP | READ_ARRAY)
#endif
#ifdef MUTANT_STEAL_SLOT_LAST
#undef BEFORE_SLOT
#undef BEFORE_RAISE
#define BEFORE_SLOT   (READ_TOP | READ_ARRAY | RAISE)
#define BEFORE_RAISE  (READ_TOP | READ_BOTTOM | LINK)
#endif

#define may(instruction, before) ((instruction) && !(done & (instruction)) && (done & (before)) == (before))
#define did(instruction)         done = done | (instruction)

#ifdef MUTANT_STEAL_NO_EMPTY_CHECK
#define isEmpty false
#else
#define isEmpty ((done & READ_TOP) && (done & READ_BOTTOM) && b - t <= 0)
#endif

inline readSlot() {
	if
	:: a == NIL /* read too early: see settle */
	:: else -> load(item, slotOf(a, t))
	fi
}

#ifdef PAIR
inline raise() {
	if
	:: seen == t && memory[TOP] == seen -> memory[TOP] = t + 1; won = true
	:: true /* fails, for a reason or for none */
	fi
}
#else
inline raise() {
	if
#ifdef MUTANT_STEAL_NO_CAS
	:: true -> memory[TOP] = t + 1; won = true
#else
	:: memory[TOP] == t -> memory[TOP] = t + 1; won = true
	:: else
#endif
	fi
}
#endif

inline settle() {
	if
	:: !isEmpty ->
		assert(a != NIL);
		if
		:: won -> take(item, t)
		:: else
		fi
	:: else
	fi;
	t = 0; b = 0; a = 0; item = 0; seen = 0; won = false; done = 0
}

inline steal() {
	do
	:: atomic {
		if
		:: may(READ_TOP, BEFORE_TOP) -> load(t, TOP); did(READ_TOP)
		:: may(READ_BOTTOM, BEFORE_BOTTOM) -> load(b, BOTTOM); did(READ_BOTTOM)
		:: may(READ_ARRAY, BEFORE_ARRAY) -> load(a, ARRAY); did(READ_ARRAY)
		:: may(READ_SLOT, BEFORE_SLOT) -> readSlot(); did(READ_SLOT)
		:: may(LINK, BEFORE_LINK) -> load(seen, TOP); did(LINK)
		:: may(RAISE, BEFORE_RAISE) -> raise(); did(RAISE)
		fi;
		if
		:: isEmpty || done == ALL -> settle(); break
		:: else
		fi
	}
	od
}

active [THIEVES] proctype Thief() {
	byte steals, t, b, a, item, seen, done;
	bool won;

	memory[TOP] >= FIRST;
	do
	:: steals < STEALS -> steals++; steal()
	:: else -> break
	od;
	finished++
}

/* At the end every pushed item was taken or is still in the deque. */
active proctype Judge() {
	byte index;

	finished == THIEVES + 1 && drained;
	d_step {
		index = memory[TOP];
		do
		:: index < memory[BOTTOM] ->
			take(memory[slotOf(memory[ARRAY], index)], index);
			index++
		:: else -> break
		od;
		assert(taken == (1 << (pushed + 1)) - 2)
	}
}
