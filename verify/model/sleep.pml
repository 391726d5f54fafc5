/*
Sleep and wake: internal/core/sleep.md has the protocol and its argument, internal/core/waiting.md what a place is.

Workers with places look for tasks, and put their places to sleep; submitters queue tasks and wake
places. Tasks queue more tasks, fork, open scopes, and wait, for which they lend their places. Guests
fork and wait as well. Pools pause, become smaller and larger, and end. Shown for every interleaving
within the bounds, when no process can move any more:

  - Every task has run, once. A task that lasts until all others have run (LONG) shows that no
    place sleeps while a task lies in a queue.
  - No worker waits for a latch that is done.
  - No worker searches and goes to sleep for ever: nothing goes on without an end. (Some
    configurations look for cycles and not for ends.) Where tasks wait again and again (POLLS),
    others have their turn nevertheless.
  - Every wake-up is accounted for: no worker searches, as many places sleep as there are bits,
    no worker wants a place back, every worker is idle or has ended, and none is woken twice for
    one sleep.
  - A fork is stolen if its owner does not come back to it before that (PATIENT), and if its owner
    waits meanwhile (PATIENT_AWAY), so no place sleeps over a fork either.
  - A worker that has come back from a wait is given its place, if it needs it for long enough
    (PLACED).
  - Close returns. All accepted tasks have run before, and afterwards only what guests need that
    have stayed longer. In a pool that pauses no task begins, except those that a running task
    waits for.

Abstract. Queues are counters; deque.pml, ring.pml and the tests of linearizability show that they
lose nothing. A place's batch buffer is part of its ring. A thief of several tasks takes any number
of them, and has them in its hands before they are in its ring. It is open which sleeping place of a
node is chosen (the waker begins with its own node), and which idle worker gets it: idle workers are
alike, and there is one list for all nodes. With ENOUGH it is open when enough workers are idle.
Victims come in one order, and then the forks of all owners: a thief that visits a place finds no
more, as a worker that is not linked there has no forks. That a look at a roster is not led astray by
workers that leave it is Roster.Shows's, see sleep.md. A worker has at most one fork at a time.
The last look of a search sees whatever the earlier looks see. Those are left out, except for the
first look (EARLY), before which a worker does not count as a searcher. The looks of a worker that
watches (HOT) are left out too, except for the one that sees something; with LINGER it gives up at
any time. With UNANSWERED a waker trusts no searcher, so many times, at any moment: in the code
it does so when no searcher has looked or been woken for a while, and the model has no time.

Memory. All that the protocol reads and writes are Go's atomics, or is under a lock, so the model is
sequentially consistent; a push without its fence is a push whose item is seen later. What is done
under a lock is one step, except for what others see without the lock. Worker.stealOn is a look that
finds something at the first victim: the worker does not count as a searcher, and leaves if there is a
task or an order. Mail of broadcasts is left out: for the sleep of a place it is like an
order to close it. The sender writes it before it looks whether the place sleeps, and the worker looks
for it after it has announced the sleep.

Bounds. Two places are the fewest of which one can sleep while the other is searched, worked in or
lent; one is enough where a place goes from hand to hand; with three there is a sleeper and a searcher
beside a busy one. There are as many workers as can wait, compute or end at a time, which is
asserted. Each configuration adds one thing: tasks that queue tasks, forks, waits, scopes, a second
node, guests, a pause, another size, the end. To keep them small, places sleep at first (ASLEEP),
except for one in the middle of a task (BEGUN), and one that was woken just now for a task (SUBMITTED).
*/

// stands for: pool/sleep.go: Worker.wakeHelper searcher.Look Pool.anyWork
// stands for: internal/core/sleep.go: Pool.NotifyTask Pool.NotifySeen Pool.NotifyAgain Pool.WakeOne Pool.unanswered Pool.searches Pool.lacksWatch Pool.anyWork Place.FallAsleep Place.WakeUp Place.startSearching Place.StopSearching
// stands for: internal/core/search.go: Place.FindWork Place.Watch Place.beginWatch Place.endWatch
// stands for: pool/place.go: place.queued claimed Worker.offers Worker.anyFork stealFork
// stands for: internal/core/place.go: Roster.Link Roster.Unlink Roster.AnyFork Roster.Shows Place.occupy Place.giveBack Place.IsTooMany Place.HasOrders Place.MayOpenMail Place.MustClose
// stands for: pool/worker.go: Worker.Go Worker.queue Worker.hasPlace Worker.main Worker.awaitPlace Worker.step Worker.stealOn Worker.runOne Worker.beIdle Worker.searchWork Worker.stealWork Worker.stealFromGuests place.stealTasks
// stands for: internal/core/worker.go: Worker.TakeUp Worker.EndBeside Worker.BeIdle Worker.listIdle Worker.AwaitPlace Worker.ClosePlace Worker.Lend Worker.ComeBack Worker.forgo Pool.EnterGuest Worker.LeaveGuest
// stands for: pool/waiting.go: latch latch.done latch.complete Worker.await Worker.lend Worker.comeBack
// stands for: pool/control.go: Worker.isControlled Worker.obeyControl Worker.closePlace Pool.Resize Pool.Pause Pool.Resume Pool.start
// stands for: internal/core/core.go: Pool.Held Pool.anyTooMany Pool.Resize Pool.Pause Pool.AwaitPause Pool.Resume
// stands for: internal/core/idle.go: Placement.push Placement.pop Placement.close Placement.Begins
// stands for: pool/pool.go: Pool.Shutdown Pool.awaitEnd Pool.isQuiet Pool.end
// stands for: pool/guest.go: Pool.admitGuest Pool.releaseGuest
// stands for: internal/core/park.go: Parker Parker.Park Parker.Unpark
// stands for: pool/find.go: Worker.nextLocalTask Worker.pullBatch Worker.nextRemoteTaskAnywhere
// stands for: pool/fork.go: frames.publish
// stands for: pool/scope.go: Worker.addChild Scope.stray children.visible children.claim Scope.claim Scope.take
// stands for: internal/policy/sleep.go: State.WantsForks Sleep.StartSearching Sleep.StopSearching Sleep.Announce Sleep.Choose Sleep.ChooseNear Sleep.Woken Sleep.Resumed Sleep.Nobody
// stands for: internal/policy/bitmap.go: Bitmap.Set Bitmap.Clear Bitmap.Empty Bitmap.TakeUnless

// configuration (small): two tasks: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=2 -DLONG
// configuration (small): tasks that queue tasks: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DSPAWNS=2 -DLONG
// configuration (small): a fork: -DASLEEP -DBEGUN -DPLACES=2 -DWORKERS=3 -DSUBMITTERS=0 -DFORKS=1 -DPATIENT
// configuration (small): a wait: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=2 -DSUBMITTERS=1 -DBLOCKS=1 -DPLACED
// configuration (small): the end: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DSPAWNS=1 -DLONG -DCLOSE
// configuration (small): nobody searches for ever: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DSPAWNS=1 -DLONG; pan: -DNP -l
// configuration: two tasks, with early looks: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=2 -DLONG -DEARLY
// configuration: tasks that queue tasks, with early looks: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DSPAWNS=3 -DLONG -DEARLY
// configuration: tasks that queue tasks, nobody searches for ever: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DSPAWNS=2 -DLONG -DEARLY; pan: -DNP -l
// configuration: places that may not spin: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DSPAWNS=2 -DLONG -DEARLY -DVAIN
// configuration: a wait and places that may not spin: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=3 -DSUBMITTERS=1 -DBLOCKS=1 -DVAIN
// configuration (full): two waits and places that may not spin: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=3 -DSUBMITTERS=1 -DBLOCKS=2 -DPLACED -DVAIN
// configuration: a wait, a task and places that may not spin: -DASLEEP -DBEGUN -DPLACES=2 -DWORKERS=3 -DSUBMITTERS=1 -DBLOCKS=1 -DLONG -DVAIN
// configuration: two that wait again and again, and places that may not spin: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=3 -DQUEUED=2 -DSUBMITTERS=0 -DPOLLS=2 -DVAIN; pan: -DNP -l -f
// configuration (full): a wait, the end and places that may not spin: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=3 -DSUBMITTERS=1 -DBLOCKS=1 -DCLOSE -DVAIN
// configuration: a pause, a wait and places that may not spin: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=2 -DSUBMITTERS=1 -DBLOCKS=1 -DPAUSE -DVAIN
// configuration: a fork of one who waits, and places that may not spin: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=3 -DSUBMITTERS=0 -DFORKS=2 -DPATIENT_AWAY -DVAIN
// configuration: a place less, a wait and places that may not spin: -DASLEEP -DBEGUN -DPLACES=2 -DWORKERS=3 -DSUBMITTERS=0 -DRESIZE=2 -DBLOCKS=1 -DVAIN
// configuration: several tasks in hands: -DASLEEP -DBEGUN -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DTASKS=3 -DLONG -DEARLY
// configuration: two nodes: -DASLEEP -DPLACES=2 -DWORKERS=2 -DNODES=2 -DSUBMITTERS=2 -DLONG
// configuration: two nodes, nobody searches for ever: -DASLEEP -DPLACES=2 -DWORKERS=2 -DNODES=2 -DSUBMITTERS=2; pan: -DNP -l
// configuration (full): a fork and a task: -DASLEEP -DBEGUN -DSUBMITTED -DPLACES=2 -DWORKERS=3 -DSUBMITTERS=0 -DFORKS=1 -DLONG
// configuration: a fork, nobody searches for ever: -DASLEEP -DBEGUN -DPLACES=2 -DWORKERS=3 -DSUBMITTERS=0 -DFORKS=1; pan: -DNP -l
// configuration: a fork of one who waits: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=3 -DSUBMITTERS=0 -DFORKS=2 -DPATIENT_AWAY
// configuration: a scope: -DASLEEP -DBEGUN -DPLACES=2 -DWORKERS=3 -DSUBMITTERS=0 -DFORKS=1 -DGROWS=1 -DPATIENT -DSCOPE
// configuration: a wait and a task: -DASLEEP -DBEGUN -DPLACES=2 -DWORKERS=3 -DSUBMITTERS=1 -DBLOCKS=1 -DLONG
// configuration: two waits: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=3 -DSUBMITTERS=1 -DBLOCKS=2 -DPLACED
// configuration: two that wait again and again: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=3 -DQUEUED=2 -DSUBMITTERS=0 -DPOLLS=2; pan: -DNP -l -f
// configuration: a wait and workers that end: -DASLEEP -DBEGUN -DENOUGH=1 -DPLACES=1 -DWORKERS=3 -DSUBMITTERS=1 -DBLOCKS=1
// configuration: a wait, nobody searches for ever: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=2 -DSUBMITTERS=1 -DBLOCKS=1; pan: -DNP -l
// configuration: two guests and a fork: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=0 -DFORKS=1 -DGUESTS=2 -DPATIENT
// configuration: a guest that waits: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=2 -DSUBMITTERS=0 -DFORKS=1 -DGUESTS=1 -DPATIENT_AWAY
// configuration: two guests: -DASLEEP -DPLACES=1 -DWORKERS=1 -DSUBMITTERS=0 -DFORKS=1 -DGUESTS=2 -DPATIENT_AWAY
// configuration: a guest and a scope: -DASLEEP -DPLACES=1 -DWORKERS=1 -DSUBMITTERS=0 -DFORKS=1 -DGUESTS=1 -DPATIENT -DSCOPE
// configuration: a wait and the end: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=3 -DSUBMITTERS=1 -DBLOCKS=1 -DCLOSE
// configuration: several tasks, a wait and the end: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=3 -DSUBMITTERS=1 -DTASKS=2 -DBLOCKS=1 -DCLOSE
// configuration: a guest and the end: -DASLEEP -DPLACES=2 -DWORKERS=4 -DSUBMITTERS=0 -DFORKS=1 -DGUESTS=1 -DCLOSE
// configuration: a guest, a scope and the end: -DASLEEP -DPLACES=1 -DWORKERS=3 -DSUBMITTERS=0 -DFORKS=1 -DGUESTS=1 -DSCOPE -DCLOSE
// configuration: the end, nobody searches for ever: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DSPAWNS=1 -DCLOSE; pan: -DNP -l
// configuration: a hot worker and the end: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DSPAWNS=1 -DHOT -DCLOSE -DLONG
// configuration: a worker that watches for a while: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DSPAWNS=2 -DHOT -DLINGER -DLONG
// configuration: a worker that watches for a while and the end: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DSPAWNS=1 -DHOT -DLINGER -DCLOSE -DLONG
// configuration: searchers that do not answer: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=2 -DUNANSWERED=2 -DLONG
// configuration: searchers that do not answer, and the end: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DSPAWNS=1 -DUNANSWERED=2 -DCLOSE
// configuration: a pause: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DPAUSE
// configuration: a pause and a wait: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=2 -DSUBMITTERS=1 -DBLOCKS=1 -DPAUSE
// configuration: a pause and a fork of one who waits: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=2 -DSUBMITTERS=0 -DFORKS=1 -DPATIENT_AWAY -DPAUSE
// configuration: a pause, nobody searches for ever: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DPAUSE; pan: -DNP -l
// configuration: a pause and a place less: -DASLEEP -DSUBMITTED -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=0 -DRESIZE=1 -DPAUSE
// configuration: a place less: -DASLEEP -DSUBMITTED -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DRESIZE=1
// configuration: a place less, with tasks: -DASLEEP -DSUBMITTED -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=0 -DSPAWNS=2 -DRESIZE=1
// configuration: a place less and one more: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=1 -DRESIZE=2
// configuration: a place less and a wait: -DASLEEP -DBEGUN -DPLACES=2 -DWORKERS=3 -DSUBMITTERS=0 -DRESIZE=2 -DBLOCKS=1
// configuration: a place less and the end: -DASLEEP -DSUBMITTED -DPLACES=2 -DWORKERS=3 -DSUBMITTERS=0 -DRESIZE=1 -DCLOSE
// configuration: a place less, closing, nobody searches for ever: -DASLEEP -DBEGUN -DSUBMITTED -DPLACES=2 -DWORKERS=3 -DSUBMITTERS=0 -DRESIZE=1 -DCLOSE -DCLOSING; pan: -DNP -l
// configuration (full): workers that are awake: -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=2 -DLONG -DEARLY
// configuration (full): two tasks and one more: -DASLEEP -DPLACES=2 -DWORKERS=2 -DSUBMITTERS=2 -DSPAWNS=1 -DLONG
// configuration (full): three places: -DASLEEP -DPLACES=3 -DWORKERS=3 -DNODES=2 -DSUBMITTERS=2 -DLONG; pan: -DCOLLAPSE
// configuration (full): three places and a wait: -DASLEEP -DBEGUN -DSUBMITTED -DPLACES=3 -DWORKERS=4 -DSUBMITTERS=0 -DBLOCKS=1 -DLONG; pan: -DCOLLAPSE
// configuration (full): a fork, a task and the end: -DASLEEP -DBEGUN -DPLACES=1 -DWORKERS=4 -DSUBMITTERS=1 -DFORKS=1 -DPATIENT_AWAY -DCLOSE; pan: -DCOLLAPSE
// configuration (full): a place less, with tasks, and the end: -DASLEEP -DSUBMITTED -DPLACES=2 -DWORKERS=3 -DSUBMITTERS=0 -DSPAWNS=1 -DRESIZE=1 -DCLOSE; pan: -DCOLLAPSE

// mutant MUTANT_LEND_ASLEEP_WITHOUT_LOOK, in a wait, a task and places that may not spin: a place that is lent and put to sleep is not looked after again
// mutant MUTANT_PUSH_WITHOUT_FENCE, in nobody searches for ever: a submitter looks for sleepers before its item is visible
// mutant MUTANT_SUBMIT_WITHOUT_NOTIFY, in nobody searches for ever: a submitter wakes no place
// mutant MUTANT_QUEUE_WITHOUT_NOTIFY, in nobody searches for ever: a task that queues another wakes no place
// mutant MUTANT_PULL_WITHOUT_NOTIFY, in several tasks in hands: a worker that pulls several tasks from an injector wakes no place for the others
// mutant MUTANT_STEAL_WITHOUT_NOTIFY, in tasks that queue tasks, with early looks: a thief of several tasks wakes no place for the others, though it does not count as a searcher and no other worker saw them in its hands
// mutant MUTANT_PUBLISH_WITHOUT_NOTIFY, in a fork: a worker that publishes a fork wakes no place
// mutant MUTANT_STATE_BEFORE_BIT, in two guests: a sleeper is counted before its bit is set
// mutant MUTANT_SLEEP_WITHOUT_LOOK, in a wait: no look at the queues after the announcement
// mutant MUTANT_LOOK_NOT_AT_SLOTS, in tasks that queue tasks: that look leaves out LIFO slots
// mutant MUTANT_LOOK_AT_OWN_NODE_ONLY, in two nodes: that look leaves out the injectors of other nodes
// mutant MUTANT_SLEEP_LOOKS_ONCE, in a wait and a task: a worker that sees something in that look, and finds the bit gone, leaves it to the waker that has cleared the bit
// mutant MUTANT_SLEEP_LEAVES_IT_TO_WHO_WANTS_IT, in a wait and a task: a worker that sees that the place is wanted back, or must be closed, and finds the bit gone, does not look for work
// mutant MUTANT_SLEEP_NOT_AT_LIST, in a wait: no look after the announcement for a worker that wants the place back
// mutant MUTANT_SLEEP_NOT_AT_SIZE, in a place less: no look after the announcement whether the place must be closed
// mutant MUTANT_LAST_LOOK_NOT_AT_SLOTS, in tasks that queue tasks: the last look of a search leaves out LIFO slots
// mutant MUTANT_LAST_LOOK_AT_OWN_NODE_ONLY, in two nodes, nobody searches for ever: that look leaves out the injectors of other nodes
// mutant MUTANT_LAST_SEARCHER_LEAVES, in two tasks: a worker that brings searching to 0 does not look
// mutant MUTANT_LAST_SEARCHER_FORGETS_FORKS, in two guests and a fork: such a worker does not look for forks
// mutant MUTANT_WOKEN_AFTER_WAKING, in nobody searches for ever: a waker counts the searcher after it has woken it
// mutant MUTANT_WOKEN_IS_NO_SEARCHER, in a wait and a task: a worker that was woken does not count as a searcher
// mutant MUTANT_CLEAR_WITHOUT_WAKING, in nobody searches for ever: a waker clears the bit and does not wake
// mutant MUTANT_WAKE_OWN_NODE_ONLY, in two nodes: a waker looks for sleepers on its own node only
// mutant MUTANT_GIVEN_BACK_SEARCHING, in a wait and a task: a worker that gets its place back counts as a searcher if the holder before was one
// mutant MUTANT_GIVE_BACK_WITHOUT_LOOK, in a wait and a task: a waker that gives the place back does not look for another one
// mutant MUTANT_BIT_BEFORE_LIST, in a wait: a worker that comes back looks at the bit before it is on the list
// mutant MUTANT_TAKEN_COUNTS_AS_SLEEPER, in a wait: a worker that comes back and takes its place still counts it as a sleeper
// mutant MUTANT_STAYS_ON_LIST_OF_PLACE, in a fork of one who waits: a worker that comes to its end without its place stays on the place's list
// mutant MUTANT_DOES_NOT_TAKE_UP, in a wait: a worker that comes to its end without its place does not see that it was given it just now
// mutant MUTANT_LEND_WITHOUT_STAND_IN, in a wait: a worker that waits keeps its place
// mutant MUTANT_STAND_IN_OBEYS_FIRST, in two that wait again and again: a stand-in gives the place back to a worker that has come back before queued tasks have their turn
// mutant MUTANT_LEND_GIVES_BACK_FIRST, in two that wait again and again: a worker that waits gives its place to one that has come back before queued tasks have their turn
// mutant MUTANT_LEND_HIDES_FORKS, in a fork of one who waits: the forks of a worker that waits cannot be stolen
// mutant MUTANT_WAIT_WITH_LATCH_PENDING, in a fork: the latch is not moved to waiting before the wait
// mutant MUTANT_COMPLETE_WITHOUT_UNPARK, in a fork: a thief that completes a latch does not unpark the owner
// mutant MUTANT_LEAVE_WITHOUT_LOOK, in two guests and a fork: a guest that leaves wakes no place for the forks that were left alone because of it
// mutant MUTANT_LEAVE_FORGETS_WHO_WAITS, in two guests: if all places sleep, it wakes none, though a guest with forks waits, or a worker does
// mutant MUTANT_WAITING_GUEST_IS_FORGOTTEN, in two guests: if all places sleep, it looks only for workers that wait
// mutant MUTANT_WAITING_GUEST_COMPUTES, in a guest that waits: a guest that waits counts as one that computes
// mutant MUTANT_GUEST_COUNTS_LATE, in two guests and a fork: a guest counts after its fork is visible, so the woken worker's look leaves it out
// mutant MUTANT_BUSY_AFTER_UNPARK, in the end: a worker is counted as busy after it was given a place
// mutant MUTANT_QUIET_COUNTS_ONCE, in several tasks, a wait and the end: the busy workers are not counted again after the look at the queues
// mutant MUTANT_INJECTOR_STAYS_OPEN, in the end: only the doors are closed
// mutant MUTANT_LIST_STAYS_OPEN, in a wait and the end: a worker that becomes idle when the pool has ended does not end
// mutant MUTANT_END_WAITS_FOR_LATE_WORKERS, in a guest and the end: Close also waits for the end of a worker that a guest needs when the pool has ended
// mutant MUTANT_WATCHER_IS_BUSY, in a hot worker and the end: a hot worker that watches counts as busy
// mutant MUTANT_UNANSWERED_IS_NO_SEARCHER, in searchers that do not answer: a waker that wakes another place because a searcher does not answer takes the searcher out of the count
// mutant MUTANT_HELD_THOUGH_SOMEBODY_WAITS, in a pause and a fork of one who waits: in a pause no task begins, though a running one waits for others
// mutant MUTANT_RESUME_WITHOUT_LOOK, in a pause: the end of a pause wakes no place
// mutant MUTANT_ORDER_AFTER_LOOK, in a place less: Resize looks at the sleeping places before it orders the others to close
// mutant MUTANT_TOO_MANY_SLEEPS, in a place less, closing, nobody searches for ever: while the pool closes a place that is too many goes to sleep instead, is still too many, and wakes itself up

// Each submitter submits TASKS tasks. Running tasks make SPAWNS tasks and FORKS forks, and wait in a
// Block BLOCKS times. GROWS children of a scope add another one. GUESTS guests come.
#ifndef TASKS
#define TASKS 1
#endif
#ifndef SPAWNS
#define SPAWNS 0
#endif
#ifndef FORKS
#define FORKS 0
#endif
#ifndef BLOCKS
#define BLOCKS 0
#endif
#ifndef GROWS
#define GROWS 0
#endif
#ifndef POLLS
#define POLLS 0
#endif
#ifndef GUESTS
#define GUESTS 0
#endif
#ifndef NODES
#define NODES 1
#endif

// With BEGUN the first worker has the first place and begins in the middle of a task.
#ifdef BEGUN
#define BUSY(i) ((i) == 0)
#define BEGUN_TASKS 1
#else
#define BUSY(i) false
#define BEGUN_TASKS 0
#endif

// With SUBMITTED there is a task from the beginning, and the last place was woken for it.
#ifdef SUBMITTED
#define SUBMITTED_TASKS 1
#else
#define SUBMITTED_TASKS 0
#endif

// With QUEUED so many tasks lie in the injector from the beginning.
#ifndef QUEUED
#define QUEUED 0
#endif

// The least number of tasks.
#define GIVEN (SUBMITTERS * TASKS + BEGUN_TASKS + SUBMITTED_TASKS + QUEUED)

// Workers and then guests can fork.
#define FORKERS (WORKERS + GUESTS)
#define NONE    255

// Looks skip the kinds of work that a configuration does not have.
#define SLOTTED (SPAWNS > 0)
#define FORKING (FORKS > 0)
#define WAITING (FORKS > 0 || BLOCKS > 0 || POLLS > 0)

#if defined(CLOSE) || defined(PAUSE)
#define COUNTED // busy is read
#endif

#define nodeOf(i)  ((i) % NODES)
#define bitOf(i)   (1 << (i))
#define nodeNear(node, i) (((node) + (i)) % NODES)

// # Work

byte injector[NODES];
byte ring[PLACES];
bool slot[PLACES];
bool fork[FORKERS]; // visible and not stolen: a fork, or with SCOPE a child of a scope

byte made, ran;   // tasks
byte spawns = SPAWNS;
byte forks = FORKS;
byte blocks = BLOCKS;
byte grows = GROWS;
byte polls = POLLS;
bool over;

mtype = { NOTHING, TASK, FORK }; // a job
bool lasting;      // a worker runs the long task

// # policy.Sleep

byte searching;       // these two are one word
short sleepers;
byte parked[NODES];   // bitmaps

// # Places

bool woken[PLACES];                        // the worker that gets the place counts as a searcher
bool standIn[PLACES];                      // the worker that gets it is a stand-in
chan back[PLACES] = [WORKERS] of { byte }; // the workers that have come back and compute without it
bool mu[PLACES];

// # Workers

byte listed;             // the workers on the list of the idle
byte out;                // the workers that have ended, or were not made yet
byte afterEnd;               // the workers that were made after the end of the pool
bool awake[FORKERS];     // the parker
byte granted[WORKERS];

mtype = { pending, waiting, done };
mtype latch[FORKERS] = pending; // of a fork, or a scope
byte children[FORKERS];         // that have not ended: one if it is a fork

#ifdef ENOUGH
byte enough = ENOUGH;    // how often enough workers are idle
#endif
byte busy, waits;
bool changed;                              // workerSet.changed
#ifdef HOT
bool watched;
#endif
#ifdef UNANSWERED
byte unanswered = UNANSWERED;
#endif
bool hold, paused;                         // Pause
bool refuses, closing, ends, listClosed, returned; // Close: refuses is the injectors

hidden byte w, seen; // each use is within one step

#ifndef PAUSE
#define HELD false
#elif defined(MUTANT_HELD_THOUGH_SOMEBODY_WAITS)
#define HELD hold
#else
#define HELD (hold && waits == 0)
#endif

// A look leaves out the rosters of guests if there are none.
#if GUESTS > 0
byte guests;
#define isGuest(forker) (forker >= WORKERS)
#else
#define isGuest(forker) false
#define guests 0
#endif

#if WAITING
#define OWED(pl) (len(back[pl]) > 0)
#else
#define OWED(pl) false
#endif

#ifdef RESIZE
byte size = PLACES;
bool orderClose, controlMu;
bool open[PLACES] = true;
#define SIZE size
#define ANY_TOO_MANY (size < 2 && open[1]) // of two places
#define TOO_MANY(pl) (orderClose && (pl) >= size)
#else
#define SIZE PLACES
#define TOO_MANY(pl) false
#endif

#define ORDERED (OWED(place) || HELD || TOO_MANY(place)) // Worker.isControlled
#if WAITING || defined(PAUSE) || defined(RESIZE)
#define ORDERS
#endif

// A child of a scope counts as a task does, a fork only if there are more sleepers than guests.
#ifdef SCOPE
#define forkCounts(more) true
#else
#define forkCounts(more) (more)
#endif

#ifdef MUTANT_LEND_HIDES_FORKS
bool hides[FORKERS];
#define forkAt(i) (fork[i] && !hides[i])
#else
#define forkAt(i) fork[i]
#endif

// # Waking: internal/core/sleep.go

// choose clears a place's bit, and sets ok if it was set: Sleep.Choose.
inline choose(pl_) {
	d_step {
		ok = (parked[nodeOf(pl_)] & bitOf(pl_)) != 0;
		parked[nodeOf(pl_)] = parked[nodeOf(pl_)] & ~bitOf(pl_)
	}
}

// announce says that a place is about to sleep, and whether its holder was a searcher.
inline announce(pl_, searched_) {
#ifdef MUTANT_STATE_BEFORE_BIT
	d_step { sleepers++; searching = searching - searched_; forksToo = sleepers > 0 };
	parked[nodeOf(pl_)] = parked[nodeOf(pl_)] | bitOf(pl_)
#else
	parked[nodeOf(pl_)] = parked[nodeOf(pl_)] | bitOf(pl_);
	d_step { sleepers++; searching = searching - searched_; forksToo = sleepers > 0 }
#endif
}

// wake wakes a place, if need be. How is the next step:
//
//	SEEN    some place, if there is work: notifySeen
//	SOME    some place, the node's if there is a choice: wakeOne
//	ANNOUNCED   mine_, whose sleep was announced just now, if there is work: FallAsleep
//	OWN     mine_, as there is work
//	WANTED  mine_, as a worker wants it back, or it must be closed
//	CHOSEN  the place whose bit was cleared: WakeUp
//	CHOSEN  the place whose bit was cleared: WakeUp
mtype = { NOBODY, SEEN, SOME, ANNOUNCED, OWN, WANTED, CHOSEN };

inline wake(mine_) {
	do
	:: how == NOBODY -> break
	:: how == SEEN || how == ANNOUNCED ->
#if FORKING && !defined(SCOPE)
#ifdef MUTANT_LAST_SEARCHER_FORGETS_FORKS
		forksToo = how == ANNOUNCED && forksToo;
#else
		forksToo = (how == SEEN -> sleepers > 0 : forksToo);
#endif
#endif
		anyWork()
	:: how == SOME ->
#ifdef PAUSE
		if
		:: HELD -> how = NOBODY
		:: else -> chooseNear()
		fi
#else
		chooseNear()
#endif
	:: how == OWN || how == WANTED -> atomic {
		choose(mine_);
		if
		:: ok -> ok = false; chosen = mine_; how = CHOSEN; forksToo = false
		// A waker has chosen it before, perhaps too early for its worker to see the work.
#ifdef MUTANT_SLEEP_LOOKS_ONCE
		:: !ok && how == OWN -> how = NOBODY
#else
		:: !ok && how == OWN -> how = SEEN
#endif
		// The worker that has chosen it wanted it for something else, and does not search.
#ifdef MUTANT_SLEEP_LEAVES_IT_TO_WHO_WANTS_IT
		:: !ok && how == WANTED -> how = NOBODY
#else
		:: !ok && how == WANTED -> how = SEEN
#endif
		fi }
	:: how == CHOSEN ->
#if WAITING
		if
		:: OWED(chosen) -> giveBack(chosen, 1, 0)
		:: else
		fi;
		if
		:: ok -> // the new holder does not search
			ok = false;
			chosen = 0;
#ifdef MUTANT_GIVE_BACK_WITHOUT_LOOK
			how = NOBODY
#else
			how = SEEN
#endif
		:: else -> wakeUp()
		fi
#else
		wakeUp()
#endif
	od;
	node = 0
}

// anyWork looks for a task and, with forksToo, for a fork, and sets how to the next step. Each queue
// is a look of its own: first the injectors, then the queues of places, then forks.
#define KINDS   (1 + SLOTTED)
#define QUEUES  (NODES + PLACES * KINDS)
#define placeAt ((n - NODES) / KINDS)
#define kindAt  ((n - NODES) % KINDS)

inline anyWork() {
	do
	:: atomic {
		seen = (n < NODES -> injector[n] > 0
#ifdef MUTANT_LOOK_AT_OWN_NODE_ONLY
				&& n == node
#endif
			: (n >= QUEUES -> forkCounts(forksToo) && (!isGuest(n - QUEUES) || guests > 0) && forkAt(n - QUEUES)
			: (kindAt == 0 -> ring[placeAt] > 0
			: slot[placeAt]
#ifdef MUTANT_LOOK_NOT_AT_SLOTS
				&& false
#endif
			)));
		if
		:: seen ->
#if NODES > 1
			node = (n < NODES -> n : nodeOf(placeAt));
#endif
			how = (how == SEEN -> SOME : OWN);
			n = 0;
			forksToo = false;
			break
		:: !seen && n + 1 == QUEUES + FORKING * FORKERS ->
			how = NOBODY;
			n = 0;
			forksToo = false;
			break
		:: else -> n++
		fi }
	od
}

// chooseNear chooses a sleeping place, if there is one, and sets how. In the code Sleep.Nobody comes
// before; it asks no more than chooseNear asks first.
inline chooseNear() {
	do
	:: atomic {
		word = parked[nodeNear(node, n)];
		if
		:: word == 0 ->
			n++;
			if
#ifdef MUTANT_WAKE_OWN_NODE_ONLY
			:: true -> n = 0; how = NOBODY; break
#else
			:: n == NODES -> n = 0; how = NOBODY; break
#endif
			:: else
			fi
		:: word & bitOf(0) -> chosen = 0
#if PLACES > 1
		:: word & bitOf(1) -> chosen = 1
#endif
#if PLACES > 2
		:: word & bitOf(2) -> chosen = 2
#endif
		fi };
		if
		:: word != 0 -> atomic {
				choose(chosen);
				word = 0;
				if
				:: ok -> ok = false; n = 0; how = CHOSEN; break
				:: else -> chosen = 0
				fi }
		:: else
		fi
	od
}

// wakeUp gives the chosen place to a worker, which is to search.
inline wakeUp() {
#ifdef MUTANT_WOKEN_AFTER_WAKING
	occupy(chosen);
#endif
#ifdef MUTANT_WOKEN_IS_NO_SEARCHER
	sleepers--;
#else
	d_step { searching++; sleepers--; woken[chosen] = true };
#endif
#if !defined(MUTANT_WOKEN_AFTER_WAKING) && !defined(MUTANT_CLEAR_WITHOUT_WAKING)
	occupy(chosen);
#endif
	d_step { chosen = 0; how = NOBODY }
}

// occupy gives a place to an idle worker, or to a new one. Idle workers are alike, so it does not
// matter to which.
inline occupy(pl_) {
#if defined(COUNTED) && !defined(MUTANT_BUSY_AFTER_UNPARK)
	busy++;
#endif
	d_step {
		w = 0;
		if
		:: listed != 0 ->
			do
			:: listed & bitOf(w) -> break
			:: else -> w++
			od;
			listed = listed & ~bitOf(w)
		:: else -> // Pool.hire
			assert(out != 0); // or the bounds are too small
			do
			:: out & bitOf(w) -> break
			:: else -> w++
			od;
			out = out & ~bitOf(w);
#ifndef MUTANT_END_WAITS_FOR_LATE_WORKERS
			if
			:: listClosed -> afterEnd = afterEnd | bitOf(w)
			:: else
			fi;
#endif
			assert(!returned || (afterEnd & bitOf(w))) // or Close may have waited for all workers already
		fi;
		assert(!awake[w] && granted[w] == NONE);
		granted[w] = pl_;
		awake[w] = true;
		w = 0
#if defined(COUNTED) && defined(MUTANT_BUSY_AFTER_UNPARK)
	};
	busy++
#else
	}
#endif
}

// giveBack gives a place to the first worker that wants it back, and sets ok if there is one. That
// worker does not search, though the holder before may count as a searcher; if the holder was the last
// one, how is set to what it owes. Taken_ says whether the place counts as a sleeper.
inline giveBack(pl_, taken_, searched_) {
	atomic { !mu[pl_] ->
		if
		:: OWED(pl_) -> mu[pl_] = true; ok = true
		:: else
		fi };
	if
	:: ok ->
		d_step {
			sleepers = sleepers - taken_;
#ifdef MUTANT_GIVEN_BACK_SEARCHING
			woken[pl_] = searched_
#else
			searching = searching - searched_;
			if
			:: searched_ && searching == 0 -> how = SEEN
			:: else
			fi
#endif
		};
		d_step {
			back[pl_]?w;
			assert(granted[w] == NONE);
			granted[w] = pl_;
			w = 0;
			mu[pl_] = false
		}
	:: else
	fi
}

// forgo is for a worker that does not want its place back any more. If it was given the place just
// now, it has it.
inline forgo() {
	atomic { !mu[home] ->
#ifndef MUTANT_STAYS_ON_LIST_OF_PLACE
		if
		:: back[home]??[eval(me)] -> back[home]??eval(me)
		:: else
		fi;
#endif
		takeUp() }
}

// takeUp takes up the place that the worker was given, if any.
inline takeUp() {
	d_step {
		place = granted[me];
		granted[me] = NONE;
		if
		:: place != NONE ->
			home = place;
			hunts = woken[place];
			stands = standIn[place];
			woken[place] = false;
			standIn[place] = false
		:: else
		fi
	}
}

// fallAsleep puts a place to sleep, which has no holder from here on.
inline fallAsleep(pl_, searched_) {
	announce(pl_, searched_);
	if
#ifndef MUTANT_SLEEP_NOT_AT_LIST
	:: OWED(pl_) -> how = WANTED
#endif
	:: else ->
		if
#if defined(RESIZE) && !defined(MUTANT_SLEEP_NOT_AT_SIZE)
		:: TOO_MANY(pl_) -> how = WANTED
#endif
#if defined(HOT) && !defined(LINGER)
		:: !watched && !ends && !HELD -> how = WANTED // lacksWatch
#endif
		:: else ->
			if
#ifndef MUTANT_SLEEP_WITHOUT_LOOK
			:: !HELD -> how = ANNOUNCED
#endif
			:: else -> forksToo = false
			fi
		fi
	fi;
	wake(pl_)
}

// stopSearching ends the search of a worker that has found something, if it searched.
inline stopSearching() {
	if
	:: hunts ->
		hunts = false;
		d_step {
			searching--;
			if
#ifndef MUTANT_LAST_SEARCHER_LEAVES
			:: searching == 0 -> how = SEEN; node = nodeOf(place)
#endif
			:: else
			fi
		};
		wake(0)
	:: else
	fi
}

inline notifyTask(node_) {
	atomic {
		if
		:: searching == 0 -> how = SOME; node = node_
#ifdef UNANSWERED
		:: searching > 0 && unanswered > 0 ->
			unanswered--;
#ifdef MUTANT_UNANSWERED_IS_NO_SEARCHER
			searching--;
#endif
			how = SOME;
			node = node_
		:: searching > 0
#else
		:: else
#endif
		fi
	};
	wake(0)
}

#ifdef UNANSWERED

// notifyAgain is for a worker between two tasks.
inline notifyAgain() {
	if
	:: atomic { searching > 0 && unanswered > 0 -> unanswered--; how = SEEN };
		wake(0)
	:: true
	fi
}

#endif

// # Tasks: worker.go, find.go

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

// push queues a task from outside, and sets ok unless the task is refused. A refused task counts as
// run; so does one from inside, which a worker without a place runs.
inline push(node_) {
	d_step {
		made++;
		if
#if defined(CLOSE) && !defined(MUTANT_INJECTOR_STAYS_OPEN)
		:: refuses -> ran++
#endif
#ifdef MUTANT_PUSH_WITHOUT_FENCE
		:: else -> buffered[node_]++; ok = true
#else
		:: else -> injector[node_]++; ok = true
#endif
		fi
	}
}

// queue is Worker.queue: the task goes into the place's slot, and the slot's former task into the ring.
// Without a place the task goes into the injector.
inline queue() {
#if WAITING
	if
	:: place == NONE -> takeUp()
	:: else
	fi;
#endif
	if
	:: place != NONE ->
		d_step { made++; ok = slot[place]; slot[place] = true };
		if
		:: ok -> ring[place]++
		:: else -> ok = true
		fi
	:: else -> push(nodeOf(home))
	fi;
#ifndef MUTANT_QUEUE_WITHOUT_NOTIFY
	if
	:: ok -> ok = false; notifyTask(nodeOf(home))
	:: else
	fi;
#endif
	ok = false
}

// pull takes all tasks from a node's injector. The worker runs the first.
inline pull(node_) {
	d_step {
		if
		:: injector[node_] > 0 -> job = TASK; moved = injector[node_] - 1; injector[node_] = 0
		:: else
		fi
	};
	if
	:: moved > 0 ->
		d_step { ring[place] = ring[place] + moved; moved = 0 };
#ifndef MUTANT_PULL_WITHOUT_NOTIFY
		notifyTask(nodeOf(place))
#endif
	:: else
	fi
}

// next takes one of the place's own tasks, or one from the injector. After several tasks in a row from
// the slot, the slot's next task goes to the end of the ring.
inline next() {
#if SLOTTED
	d_step {
		if
		:: slot[place] -> slot[place] = false; job = TASK
		:: else
		fi
	};
	if
	:: job == TASK ->
		if
		:: ring[place] > 0 -> job = NOTHING; ring[place]++
		:: true
		fi
	:: else
	fi;
#endif
	if
	:: job == NOTHING ->
		d_step {
			if
			:: ring[place] > 0 -> ring[place]--; job = TASK
			:: else
			fi
		}
	:: else
	fi;
	if
	:: job == NOTHING -> pull(nodeOf(place))
	:: else
	fi
}

// rob takes some of the tasks of another place.
inline rob(v_) {
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
		d_step { ring[place] = ring[place] + moved; moved = 0 };
#ifndef MUTANT_STEAL_WITHOUT_NOTIFY
		if
		:: !hunts -> notifyTask(nodeOf(place))
		:: else // stopSearching comes next
		fi
#endif
	:: else
	fi;
#if SLOTTED && !defined(MUTANT_LAST_LOOK_NOT_AT_SLOTS)
	if
	:: job == NOTHING && last ->
		d_step {
			if
			:: slot[v_] -> slot[v_] = false; job = TASK
			:: else
			fi
		}
	:: else
	fi
#endif
}

inline claim(v_) {
	d_step {
		if
		:: forkAt(v_) -> fork[v_] = false; job = FORK; victim = v_
		:: else
		fi
	}
}

// look looks at all queues once. The last look of a search includes LIFO slots. The worker has just
// looked at its own queues.
inline look() {
#if FORKING && !defined(SCOPE)
	mayFork = sleepers >= 0;
#endif
#if GUESTS > 0
	noGuests = guests == 0;
#endif
	do
	:: job == NOTHING && v < FORKERS ->
#if FORKING
		if
		:: forkCounts(mayFork) && !(isGuest(v) && noGuests) -> claim(v)
		:: else
		fi;
#endif
		if
		:: job == NOTHING && v < PLACES && v != place -> rob(v)
		:: else
		fi;
		v++
	:: else -> break
	od;
	atomic { v = 0; mayFork = false; noGuests = false };
	do
#ifdef MUTANT_LAST_LOOK_AT_OWN_NODE_ONLY
	:: job == NOTHING && v < 1 -> pull(nodeOf(place)); v++
#else
	:: job == NOTHING && v < NODES -> pull(nodeNear(nodeOf(place), v)); v++
#endif
	:: else -> break
	od;
	v = 0
}

// search finds a job or nothing. The first look comes before the worker counts as a searcher,
// unless its waker has counted it.
inline search() {
#ifndef EARLY
	startSearching();
	last = true;
#endif
	do
	:: hunts || !last ->
		look();
		if
		:: job != NOTHING || last -> break
		:: else -> startSearching(); last = true
		fi
	:: else -> break
	od;
	last = false
}

inline startSearching() {
	if
	:: hunts
#ifdef VAIN
	:: !hunts // the place does not spin
#endif
#ifdef ORDERS
	:: !hunts && ORDERED
	:: !hunts && !ORDERED ->
#else
	:: !hunts ->
#endif
		d_step {
			if
			:: !(searching > 0 && 2 * (searching + 1) > SIZE) -> searching++; hunts = true
			:: else
			fi
		}
	fi
}

// # Forks, scopes and waits: fork.go, scope.go, waiting.go

// publish shows a fork, or a child of a scope, to thieves.
inline publish(v_) {
	fork[v_] = true;
#ifndef MUTANT_PUBLISH_WITHOUT_NOTIFY
	d_step {
		if
#ifdef SCOPE
		:: searching == 0 -> how = SOME
#else
		:: sleepers > 0 && searching <= sleepers / 8 -> how = SOME // State.WantsForks
#endif
		:: else
		fi
	};
	wake(0)
#endif
}

// complete ends a stolen fork, or a child of a scope.
inline complete() {
	d_step { children[victim]--; ok = children[victim] == 0 };
	if
	:: ok ->
		d_step { ok = latch[victim] == waiting; latch[victim] = done };
#ifndef MUTANT_COMPLETE_WITHOUT_UNPARK
		if
		:: ok -> d_step { assert(!awake[victim]); awake[victim] = true }
		:: else
		fi
#endif
	:: else
	fi;
	d_step { ok = false; victim = 0 }
}

// setWaiting sets ok if the worker has to wait.
inline setWaiting() {
#ifdef MUTANT_WAIT_WITH_LATCH_PENDING
	ok = latch[me] == pending
#else
	d_step {
		if
		:: latch[me] == pending -> latch[me] = waiting; ok = true
		:: else
		fi
	}
#endif
}

// wait waits for something other than a latch: Worker.Block.
inline wait(condition_) {
	lend();
	condition_;
	comeBack();
#ifdef PLACED
	place != NONE || granted[me] != NONE // it goes on only when it has its place again
#endif
}

inline lend() {
	if
	:: place == NONE -> forgo()
	:: else
	fi;
	d_step { lent = place; place = NONE };
	assert(!hunts);
#ifdef MUTANT_LEND_HIDES_FORKS
	hides[me] = true;
#endif
#if defined(PAUSE) || GUESTS > 0
	waits++;
#endif
#ifdef PAUSE
	if
	:: hold -> d_step { how = SEEN; node = nodeOf(home) }; wake(0)
	:: else
	fi;
#endif
#ifndef MUTANT_LEND_WITHOUT_STAND_IN
	if
	:: lent != NONE ->
		if
#ifndef MUTANT_LEND_GIVES_BACK_FIRST
		:: OWED(lent) -> how = SEEN; forksToo = false; anyWork() // queued tasks come first
#else
		:: OWED(lent) -> how = NOBODY
#endif
		:: !OWED(lent) -> how = SOME
#ifdef VAIN
		:: how = SEEN; forksToo = false; anyWork(); dozes = how == NOBODY // the place does not spin
#endif
		fi;
		node = 0;
		if
		:: how == NOBODY -> giveBack(lent, 0, 0)
		:: else -> how = NOBODY
		fi;
		if
#ifdef VAIN
		:: d_step { dozes -> dozes = false };
			if
#ifdef MUTANT_LEND_ASLEEP_WITHOUT_LOOK
			:: !ok -> announce(lent, 0)
#else
			:: !ok -> fallAsleep(lent, 0)
#endif
			:: else -> ok = false
			fi
		:: else ->
		if
#endif
#ifdef MUTANT_STAND_IN_OBEYS_FIRST
		:: !ok -> occupy(lent)
#else
		:: !ok -> standIn[lent] = true; occupy(lent)
#endif
		:: else -> ok = false
		fi
#ifdef VAIN
		fi
#endif
	:: else
	fi;
#endif
	lent = NONE
}

inline comeBack() {
#if POLLS > 0
	atomic { // the lock is fair
#endif
	atomic { !mu[home] -> mu[home] = true };
#ifdef MUTANT_LEND_HIDES_FORKS
	hides[me] = false;
#endif
#if defined(PAUSE) || GUESTS > 0
	waits--;
#endif
#ifdef MUTANT_BIT_BEFORE_LIST
	choose(home);
	back[home]!me;
#else
	back[home]!me;
	choose(home);
#endif
	if
	:: ok ->
		d_step { ok = false; back[home]??eval(me) };
		d_step {
#ifndef MUTANT_TAKEN_COUNTS_AS_SLEEPER
			sleepers--;
#endif
			place = home;
			mu[home] = false
		}
	:: else -> mu[home] = false
	fi
#if POLLS > 0
	}
#endif
}

// join publishes a fork, or opens a scope with one child, and takes it back or waits for its thief.
inline join() {
	children[me] = 1;
	publish(me);
#ifdef PATIENT
	!fork[me];
#endif
#ifdef PATIENT_AWAY
	wait(!fork[me]);
#endif
	do
	:: d_step { fork[me] -> fork[me] = false };
		d_step { children[me]--; ok = children[me] == 0 };
		if
		:: ok -> ok = false; break
		:: else
		fi
	:: !fork[me] ->
		setWaiting();
		if
		:: ok ->
			ok = false;
			lend();
			atomic { awake[me] -> awake[me] = false };
			comeBack()
		:: else
		fi;
		latch[me] = pending;
		break
	od
}

// # What tasks do

// long is the long task, or the long fork: it lasts until all tasks but its own have run.
inline long() {
	atomic { !lasting -> lasting = true };
	made + spawns == GIVEN + SPAWNS && ran + 1 == made
}

inline runTask() {
	assert(!paused);
#if SLOTTED
	do
	:: atomic { spawns > 0 -> spawns-- }; queue()
	:: break
	od;
#endif
#if POLLS > 0
	if
	:: atomic { polls > 0 -> polls-- };
		do
		:: ran + POLLS < GIVEN -> wait(true)
		:: ran + POLLS >= GIVEN -> break // the others have run
		od
	:: else
	fi;
#endif
#if BLOCKS > 0
	if
	:: atomic { blocks > 0 -> blocks-- }; wait(true)
	:: true
	fi;
#endif
#if FORKING
	if
	:: atomic { forks > 0 -> forks-- }; join()
#if defined(PATIENT) || defined(PATIENT_AWAY)
	:: else
#else
	:: true
#endif
	fi;
#endif
#ifdef LONG
	if
	:: long()
	:: true
	fi;
#endif
	ran++
}

// runFork runs a stolen fork, or a child of a scope, which may add another one.
inline runFork() {
#if GROWS > 0
	if
	:: atomic { grows > 0 -> grows-- }; children[victim]++; publish(victim)
	:: true
	fi;
#endif
#ifdef LONG
	if
	:: long()
	:: true
	fi;
#endif
	complete()
}

// # Workers: worker.go

#ifdef HOT

// watch makes the first worker that would give up its place stay awake there, as an idle worker that
// searches. Of its endless looks the model has only the one that sees something.
inline watch() {
	if
#ifdef LINGER
	:: true // tasks do not come that often
#endif
	:: !ORDERED && !ends ->
		d_step { ok = !watched; watched = true };
		if
		:: ok ->
			ok = false;
#ifndef MUTANT_WATCHER_IS_BUSY
			busy--;
			changed = true;
#endif
			if
			:: !hunts -> hunts = true; searching++
			:: else
			fi;
			if
			:: injector[0] || ring[0] || ring[PLACES - 1] || slot[0] || slot[PLACES - 1] || ORDERED || ends -> ok = true
#ifdef LINGER
			:: true
#endif
			fi;
#ifndef MUTANT_WATCHER_IS_BUSY
			busy++;
#endif
			watched = false;
			if
			:: ok -> ok = false; goto placed
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

#endif

#ifdef RESIZE

// closePlace closes the worker's place, if it is still too many. If the injector is closed it sets
// job.
inline closePlace() {
	do
	:: job == NOTHING ->
		d_step {
			if
			:: ring[place] > 0 -> ring[place]--; job = TASK
			:: ring[place] == 0 && slot[place] -> slot[place] = false; job = TASK
			:: else
			fi
		};
		if
		:: job == TASK ->
			d_step {
				if
				:: !refuses -> injector[nodeOf(place)]++; job = NOTHING
				:: else
				fi
			};
		:: else -> break
		fi
	:: else -> break
	od;
	if
	:: job == NOTHING ->
		atomic { !controlMu -> controlMu = true };
		if
		:: place >= size ->
			d_step { open[place] = false; orderClose = ANY_TOO_MANY };
			d_step {
				place = NONE;
				home = NONE;
				if
				:: !listClosed -> listed = listed | bitOf(me); kept = true
				:: else
				fi
			};
#ifdef COUNTED
			busy--;
			changed = true;
#endif
			how = SEEN;
			wake(0)
		:: else
		fi;
		controlMu = false
	:: else
	fi
}

#endif

proctype worker(byte me) {
	byte place = NONE;
	byte home = NONE;
	byte lent = NONE;
	byte n, word, chosen, node, moved, v, victim;
	bool ok, hunts, stands, last, mayFork, noGuests, forksToo, kept;
#ifdef VAIN
	bool dozes; // nothing is queued, and a stand-in would not stay awake
#endif
	mtype how = NOBODY;
	mtype job = NOTHING;

	if
	:: BUSY(me) -> d_step { place = 0; home = 0; job = TASK }; goto working
	:: else
	fi;
idle:
	if
	:: atomic { awake[me] -> awake[me] = false; takeUp() }
	:: over -> goto stop
	fi;
	if
	:: place == NONE -> goto gone // the list was closed
	:: else
	fi;
placed: // it has a place
#if WAITING
	if
	:: stands -> // queued tasks have their turn before the worker that lent the place
		stands = false;
		if
		:: HELD
		:: else ->
			next();
			if
			:: job == NOTHING -> last = true; look(); last = false
			:: else
			fi;
			if
			:: job != NOTHING -> goto working
			:: else
			fi
		fi
	:: else
	fi;
#endif
#ifdef ORDERS
	if
	:: ORDERED -> // obey
		stopSearching();
#ifdef RESIZE
		if
#ifdef MUTANT_TOO_MANY_SLEEPS
		:: TOO_MANY(place) && !OWED(place) && closing -> goto givingUp
		:: TOO_MANY(place) && !OWED(place) && !closing -> closePlace()
#else
		:: TOO_MANY(place) && !OWED(place) -> closePlace()
#endif
		:: else -> goto givingUp
		fi;
		if
		:: job == TASK -> goto working
		:: job == NOTHING && place == NONE ->
			if
			:: kept -> kept = false; goto idle
			:: else -> goto gone
			fi
		:: else
		fi
#else
		goto givingUp
#endif
	:: else
	fi;
#endif
	next();
	if
	:: job == NOTHING -> search()
	:: else
	fi;
	if
	:: job != NOTHING -> stopSearching()
	:: else ->
#ifdef HOT
		watch();
#endif
		goto givingUp
	fi;
working:
	if
	:: job == TASK -> job = NOTHING; runTask();
#ifdef UNANSWERED
		notifyAgain()
#endif
	:: else -> job = NOTHING; runFork()
	fi;
	if
	:: place != NONE -> goto placed
	:: else ->
#ifdef MUTANT_DOES_NOT_TAKE_UP
		forgo(); place = NONE
#else
		forgo()
#endif
	fi;
	if
	:: place != NONE -> goto placed
	:: else
	fi;
givingUp: // it becomes idle, and lets go of its place if it has one
	atomic {
		lent = place;
		place = NONE;
		home = NONE;
		if
		:: !listClosed -> listed = listed | bitOf(me); kept = true
#ifdef ENOUGH
		:: enough > 0 -> enough-- // enough workers are idle
		:: listClosed
#else
		:: else
#endif
		fi
	};
	if
	:: lent != NONE ->
#if WAITING
		giveBack(lent, 0, hunts);
#endif
		if
		:: ok -> ok = false; hunts = false; wake(0)
		:: else -> fallAsleep(lent, hunts); hunts = false
		fi
	:: else
	fi;
	lent = NONE;
#ifdef COUNTED
	busy--;
	changed = true;
#endif
	if
	:: kept -> kept = false; goto idle
	:: else
	fi;
gone:
	atomic { out = out | bitOf(me); afterEnd = afterEnd & ~bitOf(me) };
	goto idle;
stop:
	skip
}

// # Submitters

proctype submitter(byte at) {
	byte n, word, chosen, node;
	byte left = TASKS;
	bool ok, forksToo;
	mtype how = NOBODY;

	do
	:: left > 0 ->
		if
#ifdef CLOSE
		:: closing -> d_step { made++; ran++ }
#endif
		:: else ->
			push(at);
#ifndef MUTANT_SUBMIT_WITHOUT_NOTIFY
			if
			:: ok -> ok = false; notifyTask(at)
			:: else
			fi;
#endif
			ok = false
		fi;
		left--
	:: else -> break
	od
}

// # Guests: guest.go

#if GUESTS > 0

// freePlace is for a guest that leaves. If all places sleep and no process waits, there is no fork to
// look after.
inline freePlace() {
	d_step {
		sleepers++;
		guests--;
		if
		:: sleepers > 0 && searching <= sleepers / 8 ->
			how = SEEN;
#if defined(MUTANT_LEAVE_FORGETS_WHO_WAITS) || defined(MUTANT_WAITING_GUEST_IS_FORGOTTEN)
			ok = sleepers >= SIZE
#else
			ok = sleepers >= SIZE && guests == 0
#endif
		:: else
		fi
	};
	if
	:: ok ->
		ok = false;
#ifndef MUTANT_LEAVE_FORGETS_WHO_WAITS
		if
		:: waits > 0
		:: else -> how = NOBODY
		fi
#else
		how = NOBODY
#endif
	:: else
	fi;
#ifdef MUTANT_LEAVE_WITHOUT_LOOK
	how = NOBODY;
#endif
	wake(0)
}

inline guestWaits(condition_) {
#ifndef MUTANT_WAITING_GUEST_COMPUTES
	sleepers++;
	how = SEEN;
	wake(0); // its forks, or those that were left alone because of it
#endif
	condition_;
#ifndef MUTANT_WAITING_GUEST_COMPUTES
	sleepers--
#endif
}

proctype visitor(byte me) {
	byte n, word, chosen, node;
	bool ok, forksToo;
	mtype how = NOBODY;

	d_step {
		sleepers--;
#ifndef MUTANT_GUEST_COUNTS_LATE
		guests++
#endif
	};
	if
	:: atomic { forks > 0 -> forks-- };
		children[me] = 1;
		publish(me);
#ifdef MUTANT_GUEST_COUNTS_LATE
		guests++;
#endif
#ifdef PATIENT
		!fork[me];
#endif
#ifdef PATIENT_AWAY
		guestWaits(!fork[me]);
#endif
		if
		:: d_step { fork[me] -> fork[me] = false; children[me] = 0 }
		:: !fork[me] ->
			setWaiting();
			if
			:: ok ->
				ok = false;
				guestWaits(awake[me]);
				awake[me] = false
			:: else
			fi;
			latch[me] = pending
		fi
	:: true
#ifdef MUTANT_GUEST_COUNTS_LATE
		-> guests++
#endif
	fi;
	freePlace()
}

#endif

// # The end: pool.go

#ifdef CLOSE

// isQuiet sets ok if no task is left.
inline isQuiet() {
	ok = busy == 0;
	do
	:: ok && n < NODES -> ok = injector[n] == 0; n++
	:: else -> break
	od;
	n = 0;
	do
	:: ok && n < PLACES -> ok = ring[n] == 0 && !slot[n]; n++
	:: else -> break
	od;
	n = 0;
#ifndef MUTANT_QUIET_COUNTS_ONCE
	if
	:: ok -> ok = busy == 0
	:: else
	fi
#endif
}

inline awaitQuiet() {
	do
	:: changed = false;
		before = made;
		isQuiet();
		if
		:: ok ->
			assert(ran >= before); // WaitIdle returns after such a look
			ok = false; before = 0;
			break
		:: else -> changed
		fi
	od
}

proctype closer() {
	byte n, node, before;
	bool ok, forksToo;
	mtype how = NOBODY;

#ifdef CLOSING
	changed; // before that it is not quiet
#else
	closing = true;
#endif
	awaitQuiet();
	refuses = true;
	awaitQuiet(); // for who looked before closing, and what that has added
	assert(ran == made); // all accepted tasks have run
#ifdef RESIZE
	atomic { !controlMu -> ends = true };
#else
	ends = true;
#endif
	d_step { // placement.close
#ifndef MUTANT_LIST_STAYS_OPEN
		listClosed = true;
#endif
		w = 0;
		do
		:: w == WORKERS -> break
		:: w < WORKERS && (listed & bitOf(w)) -> assert(!awake[w]); awake[w] = true; w++
		:: else -> w++
		od;
		w = 0;
		listed = 0
	};
	(out | afterEnd) == bitOf(WORKERS) - 1;
	returned = true
}

#endif

// # Pause and Resize: control.go

#ifdef PAUSE

proctype pauser() {
	byte n, word, chosen, node;
	bool ok, forksToo;
	mtype how = NOBODY;

	hold = true;
	do
	:: changed = false;
		if
		:: busy == 0 -> break
		:: else -> changed
		fi
	od;
	paused = true;
	paused = false;
	hold = false;
#ifndef MUTANT_RESUME_WITHOUT_LOOK
	how = SEEN;
	wake(0)
#endif
}

#endif

#ifdef RESIZE

inline resize(n_) {
	atomic { !controlMu -> controlMu = true };
	if
#ifdef CLOSE
	:: ends // the look at the doors is another one, and comes before
#endif
	:: else ->
		size = n_;
#ifndef MUTANT_ORDER_AFTER_LOOK
		orderClose = ANY_TOO_MANY;
#endif
		do
		:: n < n_ ->
			if
			:: !open[n] -> d_step { open[n] = true; opened = true }
			:: else
			fi;
			n++
		:: n >= n_ && n < PLACES ->
			if
			:: open[n] ->
				choose(n);
				if
				:: ok -> ok = false; sleepers--; open[n] = false
				:: else
				fi
			:: else
			fi;
			n++
		:: else -> break
		od;
		n = 0;
		orderClose = ANY_TOO_MANY
	fi;
	controlMu = false;
	if
	:: opened -> opened = false; fallAsleep(1, 0)
	:: else
	fi;
	how = SEEN;
	wake(0)
}

proctype resizer() {
	byte n, word, chosen, node;
	bool ok, opened, forksToo;
	mtype how = NOBODY;

	resize(1);
#if RESIZE == 2
	resize(2)
#endif
}

#endif

#if defined(RESIZE) && RESIZE == 1
#define IN_THE_END(pl) ((pl) == 0)
#else
#define IN_THE_END(pl) true
#endif

init {
	byte n, chosen;
	bool ok;

	atomic {
#if defined(CLOSE) || defined(ENOUGH)
		out = (bitOf(WORKERS) - 1) & ~(bitOf(PLACES) - 1);
#endif
		do
		:: n < WORKERS ->
			granted[n] = NONE;
			if
			:: BUSY(n) -> made++; busy++
			:: !BUSY(n) && (out & bitOf(n))
#ifdef ASLEEP
			:: !BUSY(n) && !(out & bitOf(n)) -> listed = listed | bitOf(n)
#else
			:: !BUSY(n) && n < PLACES -> granted[n] = n; awake[n] = true; busy++
			:: !BUSY(n) && n >= PLACES && !(out & bitOf(n)) -> listed = listed | bitOf(n)
#endif
			fi;
			if
#ifdef ASLEEP
			:: n < PLACES && !BUSY(n) -> parked[nodeOf(n)] = parked[nodeOf(n)] | bitOf(n); sleepers++
#endif
			:: else
			fi;
			run worker(n);
			n++
		:: else -> break
		od;
		n = 0;
#if GUESTS > 0
		do
		:: n < GUESTS -> run visitor(WORKERS + n); n++
		:: else -> break
		od;
		n = 0;
#endif
#ifdef CLOSE
#ifdef CLOSING
		closing = true;
		refuses = true;
#endif
		run closer();
#endif
#ifdef PAUSE
		run pauser();
#endif
#ifdef RESIZE
		run resizer();
#endif
		injector[0] = QUEUED;
		made = made + QUEUED;
#ifdef SUBMITTED
		injector[0]++;
		made++;
		choose(PLACES - 1);
		ok = false;
		searching++;
		sleepers--;
		woken[PLACES - 1] = true;
		occupy(PLACES - 1);
#endif
		do
		:: n < SUBMITTERS -> run submitter(0); n++
#if NODES > 1
		:: n < SUBMITTERS -> run submitter(1); n++
#endif
		:: else -> break
		od
	}
	timeout -> // no process moves any more
	assert(ran == made && made == GIVEN + SPAWNS - spawns);
	assert(searching == 0 && waits == 0 && !hold);
#ifdef COUNTED
	assert(busy == 0);
#endif
#ifdef CLOSE
	assert(returned);
#endif
#ifdef RESIZE
	assert(sleepers == open[0] + open[1]);
#else
	assert(sleepers == PLACES);
#endif
	assert(listed + out == bitOf(WORKERS) - 1);
	n = 0;
	do
	:: n < FORKERS -> assert(!awake[n] && !fork[n] && !children[n] && latch[n] == pending); n++
	:: else -> break
	od;
	n = 0;
	do
	:: n < PLACES ->
		assert(!ring[n] && !slot[n] && !woken[n] && !standIn[n] && !mu[n] && !len(back[n]));
#ifdef RESIZE
		assert(!controlMu && ((parked[nodeOf(n)] & bitOf(n)) != 0) == open[n]);
		assert(returned || !orderClose && open[n] == IN_THE_END(n));
#else
		assert(parked[nodeOf(n)] & bitOf(n));
#endif
		n++
	:: else -> break
	od;
	over = true
}
