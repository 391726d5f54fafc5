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

// isolation holds the CPUs that the process has isolated. Its fields are under mu.
//
// Each thread loses the isolated CPUs, unless it has no others: such a thread was bound to them
// on purpose. New threads inherit the mask of the thread that clones them, which is never a
// locked one, so they lack these CPUs from the start.
var isolation = isolations{before: make(map[int]affinity), bound: make(map[int]affinity)}

type isolations struct {
	mu     sync.Mutex
	cpus   []int            // ascending
	before map[int]affinity // by thread: the mask that it had before it lost isolated CPUs
	bound  map[int]affinity // by thread: the mask that Pin asked for
	many   int              // length of bound at which forgetDead looks for ended threads
}

// forgetDead forgets bound threads that have ended, which they can do without a notice. It
// looks for them whenever there are twice as many entries as were left the last time.
func (s *isolations) forgetDead() {
	if len(s.bound) < max(s.many, 64) {
		return
	}
	maps.DeleteFunc(s.bound, func(tid int, _ affinity) bool { return isDead(tid) })
	s.many = 2 * len(s.bound)
}

func isDead(tid int) bool {
	_, err := affinityOf(tid)
	return errors.Is(err, unix.ESRCH)
}

func isolate(cpus []int) error {
	s := &isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cpu := range cpus {
		if slices.Contains(s.cpus, cpu) {
			return fmt.Errorf("heist: CPU %d is isolated already; end that isolation first", cpu)
		}
	}
	if initialErr != nil {
		return initialErr
	}
	old := s.cpus
	s.cpus = slices.Sorted(slices.Values(slices.Concat(old, cpus)))
	if initial.without(s.cpus).isEmpty() {
		s.cpus = old
		return fmt.Errorf("heist: cannot isolate CPUs %v: that leaves none of CPUs %v to the other threads of the process; isolate fewer", cpus, initial.cpus())
	}
	if err := settle(old); err != nil {
		now := s.cpus
		s.cpus = old
		return errors.Join(fmt.Errorf("heist: cannot isolate CPUs %v: %w", cpus, err), settle(now))
	}
	return nil
}

func unisolate(cpus []int) error {
	s := &isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.cpus
	s.cpus = slices.DeleteFunc(slices.Clone(old), func(cpu int) bool { return slices.Contains(cpus, cpu) })
	if err := settle(old); err != nil {
		s.cpus = old
		return fmt.Errorf("heist: cannot give CPUs %v back to all threads: %w", cpus, err)
	}
	return nil
}

// settle gives each thread of the process the mask that it should have, after a change of the
// isolated CPUs from old. Threads may start and end meanwhile, so settle makes passes over them
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
func settle(old []int) error {
	for quiet, idle := 0, 0; ; {
		changed, ended, err := settleOnce(old)
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

// settleOnce is one pass of settle. It reports whether it changed a thread, and whether a
// thread has ended meanwhile.
func settleOnce(old []int) (changed, ended bool, err error) {
	s := &isolation
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
		this, err := settleThread(tid, old)
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
	for _, masks := range []map[int]affinity{s.before, s.bound} {
		maps.DeleteFunc(masks, func(tid int, _ affinity) bool { return !alive[tid] && isDead(tid) })
	}
	return changed, ended, nil
}

// settleThread gives one thread its mask, and reports whether that changed the thread's mask.
// The mask that a thread should have may include CPUs that the kernel does not give it, because
// they have gone offline or have left the cpuset; then trying again would not help.
func settleThread(tid int, old []int) (changed bool, err error) {
	mask, err := affinityOf(tid)
	if err != nil {
		return false, err
	}
	original := unnarrowed(tid, mask, old)
	want := withoutIsolated(original)
	if slices.Equal(original, want) {
		delete(isolation.before, tid)
	} else {
		isolation.before[tid] = original
	}
	if slices.Equal(mask, want) {
		return false, nil
	}
	if err := want.give(tid); err != nil {
		return false, err
	}
	now, err := affinityOf(tid)
	return !slices.Equal(mask, now), err
}

// unnarrowed returns the mask that a thread had before it lost CPUs to an isolation.
func unnarrowed(tid int, mask affinity, isolated []int) affinity {
	// The entries may be those of an ended thread that had the same number. A new thread has
	// inherited its mask.
	for _, before := range []affinity{isolation.bound[tid], isolation.before[tid], initial} {
		if before == nil {
			continue
		}
		for _, less := range [][]int{nil, isolated, isolation.cpus} {
			if slices.Equal(mask, before.without(less)) {
				return before
			}
		}
	}
	return mask
}

// withoutIsolated returns the mask without the isolated CPUs, or all of it if it has no others.
func withoutIsolated(mask affinity) affinity {
	if less := mask.without(isolation.cpus); !less.isEmpty() {
		return less
	}
	return mask
}
