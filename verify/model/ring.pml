/*
The ring: its owner pushes at the tail and pops at the head, thieves move half of it into rings
of their own (ring.go has the scheme and its argument). Shown for every interleaving within the
bounds: no item is taken twice, none is lost, whichever process takes index i gets the item that
was put there, and an operation says "empty" or "full" only if the ring was so at some moment of it.

The owner of ring 0 pushes to it and pops from it, and the ring spills into the injector. Thief 1
steals from it into ring 1, and pops from ring 1 too. Thief 2 steals into ring 2 from either of the
two, and from ring 1 while thief 1 is writing there: the hazard of tokio#2387.

Memory is sequentially consistent, as Go's atomics are. Some builds write slots by plain stores; a
reader that uses what it read has seen the tail that was stored after the slot.

Nothing limits a steal to half of the capacity, but a steal that succeeds never exceeds it, which
is asserted. A steal that fails leaves what it wrote; in the code it clears that, for the garbage
collector.

Bounds. From 4 slots a thief takes one item or two, so one item goes through its ring; from 2 slots
thieves take one at a time. Rings 1 and 2 have one slot in configurations that fill them, and
two in the others. Indices begin at FIRST so that they wrap early. Five pushes are the fewest
that spill from 4 slots. Abstract: the injector is a set, which may close at any moment with
CLOSING; the owner's sweep clears every slot at once; items are numbers.
*/

// stands for: ring.go: Ring.Push Ring.PushBatch Ring.spill Ring.Pop Ring.sweep Ring.StealInto Ring.load
// stands for: layout.go: slots.at slots.clear

// configuration (small): 2 slots: -DCAPACITY=2 -DOTHERS=2 -DPUSHES=3 -DPOPS=1 -DSTEALS=1 -DSTEALS2=1
// configuration (small): no injector: -DCAPACITY=2 -DOTHERS=2 -DPUSHES=3 -DPOPS=1 -DSTEALS=1 -DSTEALS2=1 -DREFUSING
// configuration: closing injector: -DCAPACITY=2 -DOTHERS=2 -DPUSHES=4 -DPOPS=1 -DSTEALS=1 -DSTEALS2=0 -DCLOSING
// configuration: batches: -DCAPACITY=2 -DOTHERS=2 -DPUSHES=4 -DPOPS=1 -DSTEALS=1 -DSTEALS2=0 -DBATCH
// configuration: 4 slots: -DCAPACITY=4 -DOTHERS=2 -DPUSHES=5 -DPOPS=1 -DSTEALS=1 -DSTEALS2=1
// configuration: full destination: -DCAPACITY=4 -DOTHERS=1 -DPUSHES=5 -DPOPS=0 -DSTEALS=2 -DSTEALS2=1
// configuration (full): closing injector, two thieves: -DCAPACITY=2 -DOTHERS=2 -DPUSHES=4 -DPOPS=1 -DSTEALS=1 -DSTEALS2=1 -DCLOSING
// configuration (full): 2 slots, more of all: -DCAPACITY=2 -DOTHERS=2 -DPUSHES=4 -DPOPS=2 -DSTEALS=1 -DSTEALS2=2
// configuration (full): 4 slots, more of all: -DCAPACITY=4 -DOTHERS=2 -DPUSHES=5 -DPOPS=1 -DSTEALS=1 -DSTEALS2=1 -DBATCH
// configuration (full): full destinations: -DCAPACITY=4 -DOTHERS=1 -DPUSHES=5 -DPOPS=1 -DSTEALS=2 -DSTEALS2=1

// mutant MUTANT_PUSH_TAIL_FIRST: a push stores the tail before the slot
// mutant MUTANT_PUSH_ONE_TOO_MANY: a push takes a full ring for one with room, and overwrites a slot that the head has not passed
// mutant MUTANT_PUSH_NO_REFRESH: a push does not look at the head again when the ring seems full
// mutant MUTANT_BATCH_TAIL_FIRST: a batch is published before its slots are stored
// mutant MUTANT_BATCH_NO_ROOM: a batch does not check how much room there is
// mutant MUTANT_POP_NO_CAS: the owner's pop stores the head
// mutant MUTANT_POP_CLEAR_FIRST: the owner's pop clears the slot before its CAS
// mutant MUTANT_SPILL_NO_CAS: a spill stores the head
// mutant MUTANT_SPILL_STALE_HEAD: a spill reads from an old head and raises the present one
// mutant MUTANT_SPILL_NO_RETURN: the items that a closed injector refuses are not put back
// mutant MUTANT_STEAL_NO_CAS: a thief stores the head
// mutant MUTANT_STEAL_HEAD_FIRST: a thief raises the head before it reads the slots
// mutant MUTANT_STEAL_TAIL_FIRST: a thief reads the victim's tail before its head
// mutant MUTANT_STEAL_NO_ROOM: a thief does not check how much fits into its ring
// mutant MUTANT_STEAL_PUBLISH_FIRST: a thief publishes its tail before it has written the slots
// mutant MUTANT_STEAL_PUBLISH_UNCLAIMED: a thief publishes its tail before its CAS

#define FIRST   1
#define INDICES (FIRST + PUSHES + 2)
#define WIDEST  4 /* slots that the model reserves for every ring */

#define capacity(ring) ((ring) == 0 -> CAPACITY : OTHERS) /* OTHERS: of rings 1 and 2 */
#define at(ring, i)    slot[(ring) * WIDEST + (i) % capacity(ring)]

byte head[3] = FIRST;
byte tail[3] = FIRST;
byte slot[3 * WIDEST];

/* ---- What is checked. ---- */

byte items;    /* items 1..items were pushed or refused */
int taken;     /* a bit for each item that was taken or refused */
int injected;  /* a bit for each item in the injector */
byte finished;

byte abstract[3 * INDICES]; /* the item that belongs to each index of each ring */
#define promised(ring, i) abstract[(ring) * INDICES + (i)]

inline take(thing) {
	assert(thing != 0 && !(taken & (1 << thing)));
	taken = taken | (1 << thing)
}

inline inject(thing) {
	assert(thing != 0 && !((taken | injected) & (1 << thing)));
	injected = injected | (1 << thing)
}

/* ---- Memory operations. ---- */

#define load(into, from) into = from
#define store(to, what)  to = what

inline cas(ok, word, old, new) {
	d_step {
		ok = (word == old);
		word = (ok -> new : word)
	}
}

/* The store of a mutant that has no CAS. */
inline overwrite(ok, word, new) {
	d_step {
		ok = true;
		word = new
	}
}

/* ---- The owners. ---- */

inline sweep(ring) {
	d_step {
		i = 0;
		do
		:: i < capacity(ring) -> at(ring, i) = 0; i++
		:: else -> break
		od;
		i = 0
	}
}

inline pop(ring) {
	t = tail[ring];
	do
	:: load(h, head[ring]);
		if
		:: h == t -> sweep(ring); break
		:: else
		fi;
		load(item, at(ring, h));
#ifdef MUTANT_POP_CLEAR_FIRST
		store(at(ring, h), 0);
#endif
#ifdef MUTANT_POP_NO_CAS
		overwrite(won, head[ring], h + 1);
#else
		cas(won, head[ring], h, h + 1);
#endif
		if
		:: won ->
			d_step {
				assert(item == promised(ring, h));
				take(item);
				store(at(ring, h), 0)
			};
			break
		:: else
		fi
	od;
	atomic { t = 0; h = 0; item = 0; won = false }
}

/* ---- The owner of ring 0. ---- */

inline storeSlot(index, thing) {
	d_step {
		promised(0, index) = thing;
		store(at(0, index), thing)
	}
}

inline put(thing) {
#ifdef MUTANT_PUSH_TAIL_FIRST
	store(tail[0], t + 1);
	storeSlot(t, thing);
#else
	storeSlot(t, thing);
	store(tail[0], t + 1);
#endif
	t++
}

#ifdef MUTANT_PUSH_ONE_TOO_MANY
#define isFull (t - headSeen > CAPACITY)
#else
#define isFull (t - headSeen > CAPACITY - 1)
#endif

inline push() {
	items++;
	item = items;
	t = tail[0];
	do
	:: reallyFull = false;
		if
#ifndef MUTANT_PUSH_NO_REFRESH
		:: isFull ->
			d_step {
				load(headSeen, head[0]);
				reallyFull = (t - headSeen == CAPACITY)
			}
#endif
		:: else
		fi;
		if
		:: isFull -> spill()
		:: else -> put(item); item = 0
		fi;
		if
		:: item == 0 -> break
		:: else -> assert(t - head[0] < CAPACITY) /* overtaken: there is room now */
		fi
	od;
	forget()
}

#ifdef REFUSING

/* There is no injector: the item stays with the caller. */
inline spill() {
	d_step {
		assert(reallyFull);
		take(item);
		item = 0
	}
}

#else

#define HALF (CAPACITY / 2)

inline spill() {
	h = headSeen;
	i = 0;
	do
	:: i < HALF -> load(batch[i], at(0, h + i)); i++
	:: else -> break
	od;
#ifdef MUTANT_SPILL_NO_CAS
	overwrite(won, head[0], h + HALF);
#else
#ifdef MUTANT_SPILL_STALE_HEAD
	atomic { won = true; head[0] = head[0] + HALF };
#else
	cas(won, head[0], h, h + HALF);
#endif
#endif
	if
	:: won ->
		headSeen = h + HALF;
		i = 0;
		do
		:: i < HALF -> d_step { assert(batch[i] == promised(0, h + i)); i++ }
		:: else -> break
		od;
		batch[HALF] = item;
		toInjector();
		item = 0
	:: else
	fi
}

/* The injector takes the batch, or the part of it that comes before its closing. */
inline toInjector() {
	i = 0;
	do
	:: i <= HALF && !closed -> d_step { inject(batch[i]); i++ }
#ifdef CLOSING
	:: i <= HALF && !closed -> closed = true
#endif
	:: closed || i > HALF -> break
	od;
	do
	:: i < HALF ->
#ifndef MUTANT_SPILL_NO_RETURN
		assert(!isFull);
		put(batch[i]);
#endif
		i++
	:: i == HALF -> d_step { take(item); i++ } /* refused: it stays with the caller */
	:: i > HALF -> break
	od
}

#endif

/* PushBatch, of two items. */
inline pushBatch() {
	t = tail[0];
	load(headSeen, head[0]);
#ifdef MUTANT_BATCH_NO_ROOM
	n = 2;
#else
	n = CAPACITY - (t - headSeen);
	n = (n > 2 -> 2 : n);
#endif
#ifdef MUTANT_BATCH_TAIL_FIRST
	store(tail[0], t + n);
#endif
	i = 0;
	do
	:: i < n -> d_step { items++; item = items }; storeSlot(t + i, item); i++
	:: else -> break
	od;
#ifndef MUTANT_BATCH_TAIL_FIRST
	store(tail[0], t + n);
#endif
	forget()
}

inline forget() {
	atomic { h = 0; t = 0; i = 0; n = 0; item = 0; won = false; reallyFull = false; batch[0] = 0; batch[1] = 0; batch[2] = 0 }
}

active proctype Owner() {
	byte pushes, pops, headSeen = FIRST;
	byte h, t, i, n, item, batch[3];
	bool won, reallyFull, closed;

	do
	:: pushes < PUSHES -> pushes++; push()
#ifdef BATCH
	:: pushes + 1 < PUSHES -> pushes = pushes + 2; pushBatch()
#endif
	:: pops < POPS -> pops++; pop(0)
	:: pushes == PUSHES && pops == POPS -> break
	od;
	finished++
}

/* ---- The thieves. ---- */

inline readVictim(victim) {
#ifdef MUTANT_STEAL_TAIL_FIRST
	load(t, tail[victim]);
	d_step {
		load(h, head[victim]);
#else
	load(h, head[victim]);
	d_step {
		load(t, tail[victim]);
#endif
		n = (t > h -> t - h : 0);
		assert(n > 0 || tail[victim] <= head[victim]); /* empty now */
#ifdef MUTANT_STEAL_NO_ROOM
		n = n - n / 2
#else
		n = n - n / 2;
		n = (n > room + 1 -> room + 1 : n)
#endif
	}
}

inline copy(victim, own) {
	load(first, at(victim, h));
	i = 1;
	do
	:: i < n ->
		load(item, at(victim, h + i));
		d_step {
			promised(own, dt + i - 1) = item;
			store(at(own, dt + i - 1), item);
			item = 0;
			i++
		}
	:: else -> i = 0; break
	od
}

inline claim(victim) {
#ifdef MUTANT_STEAL_NO_CAS
	overwrite(won, head[victim], h + n)
#else
	cas(won, head[victim], h, h + n)
#endif
}

inline publish(own) {
	if
	:: n > 1 -> store(tail[own], dt + n - 1)
	:: else
	fi
}

/* The items that were copied must be those that were claimed. */
inline compare(victim, own) {
	d_step {
		assert(n <= capacity(victim) / 2 || capacity(victim) == 1);
		assert(first == promised(victim, h));
		take(first);
		i = 1;
		do
		:: i < n -> assert(promised(own, dt + i - 1) == promised(victim, h + i)); i++
		:: else -> break
		od;
		i = 0
	}
}

inline stealInto(victim, own) {
	dt = tail[own];
	load(room, head[own]);
	room = capacity(own) - (dt - room);
	readVictim(victim);
	if
	:: n > 0 ->
#ifdef MUTANT_STEAL_PUBLISH_FIRST
		publish(own);
#endif
#ifdef MUTANT_STEAL_HEAD_FIRST
		claim(victim);
		copy(victim, own);
#else
		copy(victim, own);
#ifdef MUTANT_STEAL_PUBLISH_UNCLAIMED
		publish(own);
#endif
		claim(victim);
#endif
		if
		:: won -> compare(victim, own); publish(own)
		:: else
		fi
	:: else
	fi;
	d_step { dt = 0; h = 0; t = 0; n = 0; room = 0; first = 0; won = false }
}

active proctype Thief1() {
	byte steals, pops;
	byte dt, h, t, i, n, room, first, item;
	bool won;

	do
	:: steals < STEALS -> steals++; stealInto(0, 1)
	:: pops < 1 -> pops++; pop(1)
	:: steals == STEALS && pops == 1 -> break
	od;
	finished++
}

active proctype Thief2() {
	byte steals;
	byte dt, h, t, i, n, room, first, item;
	bool won;

	do
	:: steals < STEALS2 -> steals++; stealInto(0, 2)
	:: steals < STEALS2 -> steals++; stealInto(1, 2)
	:: else -> break
	od;
	finished++
}

/* At the end each item was taken, or is in the injector or in a ring. */
active proctype Judge() {
	byte ring, index;

	finished == 3;
	d_step {
		do
		:: ring < 3 ->
			index = head[ring];
			do
			:: index < tail[ring] ->
				assert(at(ring, index) == promised(ring, index));
				take(at(ring, index));
				index++
			:: else -> break
			od;
			ring++
		:: else -> break
		od;
		assert(!(taken & injected));
		assert((taken | injected) == (1 << (items + 1)) - 2)
	}
}
