package heist

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// isolation holds the CPUs that the process may use, and those that it has isolated. Its
// fields are under mu.
//
// A thread that nobody bound is **free**. Free threads have the CPUs that the mask of the
// process and its cpuset leave. When the cpuset changes, the kernel changes the masks of all
// threads with it; heist sees that at its next look.
//
// Each thread loses the isolated CPUs, unless it has no others: such a thread was bound to them
// on purpose. New threads inherit the mask of the thread that clones them, which is never a
// locked one, so they lack these CPUs from the start.
var isolation = newIsolations()

type isolations struct {
	mu      sync.Mutex
	free    affinity             // what free threads have while no CPU is isolated
	err     error                // why free is not known
	witness int                  // a thread that was free at the last look; 0 for none
	kept    bool                 // something else than the cpuset keeps free threads from other CPUs, see give
	cpus    []int                // the isolated CPUs, ascending
	before  map[int]affinity     // by thread that was not free: the mask that it had before it lost isolated CPUs
	bound   map[int]*boundThread // by thread with live Pins
	many    int                  // length of bound at which forgetDead looks for ended threads
}

// newIsolations reads the mask that the process was started with, on the main thread. Later
// any thread may have been bound.
func newIsolations() *isolations {
	free, err := affinityOf(0)
	return &isolations{free: free, err: err, before: make(map[int]affinity), bound: make(map[int]*boundThread)}
}

// lookAgain makes look look; tests that pretend CPUs replace it.
var lookAgain = (*isolations).lookAtThreads

// look brings free up to date. While the mask of the witness is as it was, so are those of the
// other free threads.
func (s *isolations) look() {
	if s.witness != 0 {
		if mask, err := affinityOf(s.witness); err == nil && slices.Equal(mask, s.free.without(s.cpus)) {
			return
		}
	}
	lookAgain(s)
}

// lookAtThreads finds free: some thread is free, and the others have CPUs of a free thread. The
// isolated CPUs stay what they were, because perhaps no thread has them.
func (s *isolations) lookAtThreads() {
	masks := make(map[int]affinity)
	for range 2 { // the list is no snapshot, see applyMasks
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return // what was known last is the best there is
		}
		for _, task := range tasks {
			if tid, err := strconv.Atoi(task.Name()); err == nil {
				if mask, err := affinityOf(tid); err == nil {
					masks[tid] = mask
				}
			}
		}
	}
	free := make(affinity, len(s.free))
	for _, mask := range masks {
		for i, word := range mask.without(s.cpus) {
			free[i] |= word
		}
	}
	if free.isEmpty() {
		return
	}
	s.witness = 0
	for tid, mask := range masks {
		if s.bound[tid] == nil && slices.Equal(mask, free) {
			s.witness = tid
		}
	}
	for _, cpu := range s.cpus {
		if s.free.has(cpu) {
			free.set(cpu)
		}
	}
	s.free = free
}

// forgetDead forgets bound threads that have ended, which they can do without a notice. It
// looks for them whenever there are twice as many entries as were left the last time.
func (s *isolations) forgetDead() {
	if len(s.bound) < max(s.many, 64) {
		return
	}
	maps.DeleteFunc(s.bound, func(tid int, _ *boundThread) bool { return isDead(tid) })
	s.many = 2 * len(s.bound)
}

func isDead(tid int) bool {
	_, err := affinityOf(tid)
	return errors.Is(err, unix.ESRCH)
}

func isolate(cpus []int) error {
	s := isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cpu := range cpus {
		if slices.Contains(s.cpus, cpu) {
			return fmt.Errorf("heist: CPU %d is isolated already; end that isolation first", cpu)
		}
	}
	s.look()
	old := s.cpus
	s.cpus = slices.Sorted(slices.Values(slices.Concat(old, cpus)))
	if s.free.without(s.cpus).isEmpty() {
		s.cpus = old
		return fmt.Errorf("heist: cannot isolate CPUs %v: that leaves none of CPUs %v to the other threads of the process; isolate fewer", cpus, s.free.cpus())
	}
	if err := applyMasks(old); err != nil {
		now := s.cpus
		s.cpus = old
		return errors.Join(fmt.Errorf("heist: cannot isolate CPUs %v: %w", cpus, err), applyMasks(now))
	}
	return nil
}

func (i *Isolation) restore() error {
	s := isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.restored {
		return nil
	}
	s.look()
	old := s.cpus
	s.cpus = slices.DeleteFunc(slices.Clone(old), func(cpu int) bool { return slices.Contains(i.cpus, cpu) })
	if err := applyMasks(old); err != nil {
		s.cpus = old
		return fmt.Errorf("heist: cannot give CPUs %v back to all threads: %w", i.cpus, err)
	}
	i.restored = true
	return nil
}

// applyMasks gives each thread of the process the mask that it should have, after a change of the
// isolated CPUs from old. Threads may start and end meanwhile, so applyMasks makes passes over them
// until nothing is left to do:
//
//   - A new thread has the mask that its parent had when the clone began, and is listed only
//     when the clone is about to end. So a child of a thread that was just changed may be on
//     its way, not yet listed and with the old mask. Stopping the world waits for such a child:
//     either the parent holds a P while it clones, or the child is to begin with one, and a P
//     counts as stopped only when its thread has stopped.
//   - The list is no snapshot: while threads end, it can lack one that lives on. So a pass that
//     finds nothing to do is repeated.
//   - A thread that was listed but has ended since may have cloned another one with the old
//     mask. So a pass that meets such a thread does not count; but where threads end all the
//     time, ten passes without a change are enough.
//
// On a machine with four CPUs where threads ended all the time, one isolation in a hundred
// missed a thread without the stops of the world, and one in a thousand without the repeated
// pass.
func applyMasks(old []int) error {
	for quiet, idle := 0, 0; ; {
		changed, ended, err := applyMasksOnce(old)
		if err != nil {
			return err
		}
		quiet, idle = quiet+1, idle+1
		if changed || ended {
			quiet = 0
		}
		if changed {
			idle = 0
		}
		if quiet == 2 || idle == 10 {
			return nil
		}
		runtime.ReadMemStats(new(runtime.MemStats)) // stops the world
	}
}

// applyMasksOnce is one pass of applyMasks. It reports whether it changed a thread, and whether a
// thread has ended meanwhile.
func applyMasksOnce(old []int) (changed, ended bool, err error) {
	s := isolation
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false, false, err
	}
	alive := make(map[int]bool)
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		this, err := applyMask(tid, old)
		switch {
		case errors.Is(err, unix.ESRCH):
			ended = true
			continue
		case err != nil:
			return false, false, err
		}
		changed = changed || this
		alive[tid] = true
	}
	maps.DeleteFunc(s.before, func(tid int, _ affinity) bool { return !alive[tid] && isDead(tid) })
	maps.DeleteFunc(s.bound, func(tid int, _ *boundThread) bool { return !alive[tid] && isDead(tid) })
	return changed, ended, nil
}

// applyMask gives one thread its mask, and reports whether that changed the thread's mask.
// The mask that a thread should have may include CPUs that the kernel does not give it, because
// they have gone offline or have left the cpuset; then trying again would not help.
func applyMask(tid int, old []int) (changed bool, err error) {
	s := isolation
	mask, err := affinityOf(tid)
	if err != nil {
		return false, err
	}
	original := s.unnarrowed(tid, mask, old)
	s.note(tid, original)
	if slices.Equal(mask, s.left(original)) {
		return false, nil
	}
	if err := s.give(tid, original); err != nil {
		return false, err
	}
	now, err := affinityOf(tid)
	return !slices.Equal(mask, now), err
}

// note notes the mask that a thread had before it lost isolated CPUs, if it was not free.
func (s *isolations) note(tid int, original affinity) {
	delete(s.before, tid)
	if original != nil && !slices.Equal(original, s.free) && !slices.Equal(original, s.left(original)) {
		s.before[tid] = original
	}
}

// unnarrowed returns the mask that a thread had before it lost CPUs to an isolation.
func (s *isolations) unnarrowed(tid int, mask affinity, isolated []int) affinity {
	// The entries may be those of an ended thread that had the same number. A new thread has
	// inherited its mask.
	candidates := []affinity{s.before[tid], s.free}
	if t := s.bound[tid]; t != nil {
		candidates = []affinity{t.mask(), s.before[tid], s.free}
	}
	for _, before := range candidates {
		for _, less := range [][]int{nil, isolated, s.cpus} {
			if before != nil && slices.Equal(mask, before.without(less)) {
				return before
			}
		}
	}
	return mask
}

// left returns the mask without the isolated CPUs, or all of it if it has no others.
func (s *isolations) left(mask affinity) affinity {
	if less := mask.without(s.cpus); !less.isEmpty() {
		return less
	}
	return mask
}

// give gives a thread what is left of a mask; nil stands for the mask of free threads.
//
// To a free thread it offers all CPUs, of which the kernel leaves it those of the cpuset. Such a
// thread follows the cpuset when it grows, as a thread does that was given nothing. A thread that
// was given just the CPUs of the cpuset does not, since Linux 6.2. But taskset, too, may keep free
// threads from other CPUs. If the kernel leaves a thread more than free threads have, it gets no
// more than these, and no thread is offered all CPUs again.
func (s *isolations) give(tid int, mask affinity) error {
	if mask == nil {
		mask = s.free
	}
	want := s.left(mask)
	if !s.kept && slices.Equal(mask, s.free) {
		if err := s.left(everyCPU(len(mask))).give(tid); err != nil {
			return err
		}
		if now, err := affinityOf(tid); err != nil || slices.Equal(now, want) {
			return err
		}
		s.kept = true
	}
	return want.give(tid)
}
