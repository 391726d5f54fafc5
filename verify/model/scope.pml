/*
Scopes: pool/scope.go has the branches, the rule by which a stolen child finds its branch, and how
branches count.

A worker opens a scope, and more scopes inside; it adds children and takes them back. A thief steals
a child and runs it in a branch of its own, which may add children and open scopes as well, and from
which other thieves steal in turn. Shown for every interleaving within the bounds:

  - Every child runs once, and its thief finds the branch that it was added to, which is still open.
  - A worker takes back only children of its innermost branch.
  - A branch ends when all its children have ended, with all that they have added, and not before.
  - No worker waits for ever, and no branch is completed twice or counted in after its end.

Abstract. The deque's slots and orderings are in deque.pml; here an item lies where its index says.
A latch is a flag: the sleep of its owner is in fork.pml. In the code a worker takes children back
when the function that added them is over, and runs them one at a time. Here it does so at any time;
a child that was taken back ends at once, and its branch does what the child would add or open. The
list of strays is under a lock. Added and took are the branch's here; in the code they are the
worker's, which keeps the outer branch's meanwhile.

Memory. Bottom, top, pending and the innermost branch are Go's atomics, or released and acquired by the deque, in
whose order a branch is opened before the first push in it. Base and the links of the chain never change.
So the model is sequentially consistent.

Bounds. Three children are the fewest for one to be stolen from a thief while another lies below an
inner scope. With two thieves one steals from the other while that one waits.
*/

// stands for: pool/scope.go: Scope branch childCounts open Worker.Scope branch.runIn branch.finish Scope.Go Worker.addChild Scope.stray children children.claim children.branchAt Scope.claim Scope.newest Scope.take branch.runStolen branch.leave

// configuration (small): a thief: -DTHIEVES=1 -DCHILDREN=3 -DSCOPES=1
// configuration (small): strays: -DTHIEVES=1 -DCHILDREN=2 -DSCOPES=1 -DSTRAYS
// configuration: two thieves: -DTHIEVES=2 -DCHILDREN=2 -DSCOPES=1
// configuration: strays and two scopes: -DTHIEVES=1 -DCHILDREN=2 -DSCOPES=2 -DSTRAYS
// configuration (full): more strays and two scopes: -DTHIEVES=1 -DCHILDREN=3 -DSCOPES=2 -DSTRAYS
// configuration (full): two thieves and three children: -DTHIEVES=2 -DCHILDREN=3 -DSCOPES=1; pan: -DCOLLAPSE
// configuration (full): two thieves and strays: -DTHIEVES=2 -DCHILDREN=3 -DSCOPES=1 -DSTRAYS; pan: -DCOLLAPSE

// mutant MUTANT_LOOKUP_BEFORE_CAS: a thief reads the chain before it has taken the item
// mutant MUTANT_LOOKUP_WITHOUT_BASE: a thief takes the innermost branch
// mutant MUTANT_POP_BELOW_BASE: a worker takes back children below its branch
// mutant MUTANT_CLOSE_BEFORE_WAIT: a branch leaves the chain before its stolen children have ended
// mutant MUTANT_LEAVE_BEFORE_OWN: a thief ends its child before the children that it has added have ended
// mutant MUTANT_NO_BIAS, in strays: pending holds no more than the children while the branch is open
// mutant MUTANT_LEAVE_WITHOUT_ADD, in strays: pending is lowered by a load and a store
// mutant MUTANT_WAIT_ALWAYS: the owner waits although its own addition brought pending to 0
// mutant MUTANT_STRAY_UNCOUNTED, in strays: a stray does not raise pending
// mutant MUTANT_STRAY_IN_DEQUE, in strays: a child of an outer scope goes through the deque as well

#define WORKERS  (1 + THIEVES)
#define BRANCHES (1 + SCOPES + CHILDREN)
#define NONE     255

#ifdef MUTANT_NO_BIAS
#define OPEN 0
#else
#define OPEN 100
#endif

typedef Deque {
	byte top;
	byte bottom;
	byte item[CHILDREN + 1]
}

Deque deque[WORKERS];
byte innermost[WORKERS];

// Branches, by number.
byte root[BRANCHES];  // the body of the scope
byte above[BRANCHES]; // the branch whose child it runs; NONE for a body
byte outer[BRANCHES];
byte base[BRANCHES];
byte added[BRANCHES], took[BRANCHES];
short pending[BRANCHES];
bool done[BRANCHES]; // the latch
byte branches, scopes;

bool strays[CHILDREN + 1]; // by child

// # What is checked

byte children;
byte belongs[CHILDREN + 1]; // by child: its branch
bool ran[CHILDREN + 1];
byte live[BRANCHES]; // children that have not ended
bool over[BRANCHES];
bool finished;

// begin notes that a child runs, in the branch b_ or below it.
inline begin(c_, b_) {
	assert(!ran[c_] && belongs[c_] == b_ && !over[b_]);
	ran[c_] = true
}

// # Workers

// enter opens a branch. It becomes the innermost in one step.
inline enter(root_, above_) {
	d_step {
		assert(branches < BRANCHES);
		root[branches] = (root_ == NONE -> branches : root_);
		above[branches] = above_;
		outer[branches] = innermost[me];
		base[branches] = deque[me].bottom;
		pending[branches] = OPEN;
		innermost[me] = branches;
		branches++
	}
}

inline create(b_) {
	assert(!over[b_]);
	children++;
	belongs[children] = b_;
	live[b_]++
}

inline push() {
	deque[me].item[deque[me].bottom] = children;
	deque[me].bottom++;
	added[innermost[me]]++
}

#ifdef MUTANT_POP_BELOW_BASE
#define mine(b_) (deque[me].bottom > 0)
#else
#define mine(b_) (deque[me].bottom > base[b_])
#endif

// pop takes back a child of the innermost branch. The child runs and ends.
inline pop() {
	d_step { deque[me].bottom--; i = deque[me].bottom };
	t = deque[me].top;
	if
	:: t < i -> c = deque[me].item[i]
	:: t == i ->
		atomic {
			if
			:: deque[me].top == t -> deque[me].top++; c = deque[me].item[i]
			:: else
			fi;
			deque[me].bottom++
		}
	:: t > i -> deque[me].bottom++
	fi;
	d_step {
		if
		:: c != 0 -> begin(c, innermost[me]); took[innermost[me]]++; live[innermost[me]]--
		:: else
		fi;
		c = 0; i = 0; t = 0
	}
}

// leave ends a child of the branch b_.
inline leave(b_) {
#ifdef MUTANT_LEAVE_WITHOUT_ADD
	n = pending[b_];
	d_step { assert(!over[b_]); live[b_]--; pending[b_] = n - 1; last = pending[b_] == 0; n = 0 };
#else
	d_step { assert(!over[b_]); live[b_]--; pending[b_]--; last = pending[b_] == 0 };
#endif
	if
	:: last -> d_step { assert(!done[b_] && !over[b_]); done[b_] = true; last = false }
	:: else
	fi
}

// finish ends the innermost branch, which has no children left to take back.
inline finish() {
	d_step { b = innermost[me]; pending[b] = pending[b] + added[b] - took[b] - OPEN; last = pending[b] == 0 };
#ifdef MUTANT_CLOSE_BEFORE_WAIT
	innermost[me] = outer[b];
#endif
#ifdef MUTANT_LEAVE_BEFORE_OWN
	if
	:: above[b] != NONE -> wasLast = last; leave(above[b]); last = wasLast; wasLast = false
	:: else
	fi;
#endif
#ifdef MUTANT_WAIT_ALWAYS
	done[b];
#else
	if
	:: last
	:: !last -> done[b]
	fi;
#endif
	d_step {
		last = false;
		assert(live[b] == 0);
		over[b] = true;
		innermost[me] = outer[b]
	};
#ifndef MUTANT_LEAVE_BEFORE_OWN
	if
	:: above[b] != NONE -> leave(above[b])
	:: else
	fi;
#endif
	b = 0
}

// steal takes the oldest child of the worker v.
inline steal() {
	t = deque[v].top;
#ifdef MUTANT_LOOKUP_BEFORE_CAS
	b = innermost[v];
#endif
	atomic {
		if
		:: t < deque[v].bottom && deque[v].top == t -> c = deque[v].item[t]; deque[v].top++
		:: else
		fi
	};
	if
	:: c != 0 ->
#ifndef MUTANT_LOOKUP_BEFORE_CAS
		b = innermost[v];
#endif
		d_step {
#ifndef MUTANT_LOOKUP_WITHOUT_BASE
			do
			:: b != NONE && base[b] > t -> b = outer[b]
			:: else -> break
			od;
#endif
			assert(b != NONE);
			begin(c, b)
		};
		enter(root[b], b)
	:: else
	fi;
	d_step { b = 0; c = 0; t = 0; v = 0 }
}

#define allTaken (deque[me].bottom == base[innermost[me]] || deque[me].top >= deque[me].bottom)

// inside is one step of a worker in its innermost branch.
inline inside() {
	if
	:: d_step { children < CHILDREN -> create(innermost[me]); push() }
	:: atomic { scopes < SCOPES -> scopes++; enter(NONE, NONE) }
	:: mine(innermost[me]) -> pop()
#ifdef STRAYS
	:: d_step { children < CHILDREN && outer[innermost[me]] != NONE && root[outer[innermost[me]]] != root[innermost[me]] ->
			b = root[outer[innermost[me]]];
			create(b);
#ifdef MUTANT_STRAY_IN_DEQUE
			push();
#else
#ifndef MUTANT_STRAY_UNCOUNTED
			pending[b]++;
#endif
			strays[children] = true;
#endif
			b = 0
		}
	:: d_step { innermost[me] == root[innermost[me]] && allTaken ->
			c = 1;
			do
			:: c <= CHILDREN && !(strays[c] && belongs[c] == innermost[me]) -> c++
			:: else -> break
			od
		};
		if
		:: atomic { c <= CHILDREN && strays[c] -> strays[c] = false; begin(c, innermost[me]); c = 0; enter(innermost[me], innermost[me]) }
		:: c <= CHILDREN && !strays[c] -> c = 0
		:: c > CHILDREN -> c = 0; finish()
		fi
	:: innermost[me] != root[innermost[me]] && allTaken -> finish()
#else
	:: allTaken -> finish()
#endif
	fi
}

active [WORKERS] proctype Worker() {
	byte me, b, c, i, t, v;
	bool last;
#ifdef MUTANT_LEAVE_BEFORE_OWN
	bool wasLast;
#endif
#ifdef MUTANT_LEAVE_WITHOUT_ADD
	short n;
#endif

	d_step { me = _pid; innermost[me] = NONE };
	if
	:: me == 0 -> enter(NONE, NONE)
	:: else
	fi;
	do
	:: innermost[me] != NONE -> inside()
	:: innermost[me] == NONE && me == 0 -> finished = true; break
	:: innermost[me] == NONE && me != 0 && finished -> break
	:: innermost[me] == NONE && me != 0 && deque[0].top < deque[0].bottom -> v = 0; steal()
#if THIEVES > 1
	:: innermost[me] == NONE && me != 0 && deque[3 - me].top < deque[3 - me].bottom -> v = 3 - me; steal()
#endif
#ifdef STRAYS
	:: atomic { innermost[me] == NONE && me != 0 && strays[1] -> c = 1; strays[c] = false }; begin(c, belongs[c]); enter(root[belongs[c]], belongs[c]); c = 0
	:: atomic { innermost[me] == NONE && me != 0 && strays[2] -> c = 2; strays[c] = false }; begin(c, belongs[c]); enter(root[belongs[c]], belongs[c]); c = 0
#if CHILDREN > 2
	:: atomic { innermost[me] == NONE && me != 0 && strays[3] -> c = 3; strays[c] = false }; begin(c, belongs[c]); enter(root[belongs[c]], belongs[c]); c = 0
#endif
#endif
	od
}

// At the end every child has run.
active proctype Judge() {
	byte c;

	finished;
	d_step {
		c = 1;
		do
		:: c <= children -> assert(ran[c]); c++
		:: else -> break
		od
	}
}
