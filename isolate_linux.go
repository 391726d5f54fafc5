package heist

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// isolation is what the process has isolated. Its fields are under mu.
//
// Each thread loses the isolated CPUs, unless it has no others: then it was bound there on
// purpose. New threads inherit the mask of the thread that clones them, which is never a
// locked one, so they lack these CPUs from the start.
var isolation = isolations{before: make(map[int]affinity), bound: make(map[int]affinity)}

type isolations struct {
	mu     sync.Mutex
	cpus   []int            // ascending
	before map[int]affinity // by thread: the mask that it had before it lost some of them
	bound  map[int]affinity // by thread: the mask that Pin was to give it
	many   int              // entries of bound at which the dead are looked for
}

// forgetDead forgets bound threads that have ended, which they need not tell, whenever there
// are twice as many entries as were left the last time.
func (s *isolations) forgetDead() {
	if len(s.bound) < max(s.many, 64) {
		return
	}
	for tid := range s.bound {
		if _, err := affinityOf(tid); errors.Is(err, unix.ESRCH) {
			delete(s.bound, tid)
		}
	}
	s.many = 2 * len(s.bound)
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
		return fmt.Errorf("heist: cannot give CPUs %v back to all threads: %w", cpus, err)
	}
	return nil
}

// settle gives each thread of the process the mask that it should have, after the isolated
// CPUs were old. Threads may come and go meanwhile, so it goes on until there is nothing
// left to do: a thread that it has not seen was cloned by one that it has seen later.
func settle(old []int) error {
	s := &isolation
	for again := true; again; {
		again = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		before, bound := make(map[int]affinity), make(map[int]affinity)
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil {
				continue
			}
			if mask, ok := s.bound[tid]; ok {
				bound[tid] = mask
			}
			changed, err := settleThread(tid, old, before)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
			again = again || changed
		}
		s.before, s.bound = before, bound // of threads that are still there
	}
	return nil
}

func settleThread(tid int, old []int, before map[int]affinity) (changed bool, err error) {
	mask, err := affinityOf(tid)
	if err != nil {
		return false, err
	}
	original := unnarrowed(tid, mask, old)
	want := withoutIsolated(original)
	if !slices.Equal(original, want) {
		before[tid] = original
	}
	if slices.Equal(mask, want) {
		return false, nil
	}
	return true, want.give(tid)
}

// unnarrowed returns the mask that a thread had before it lost CPUs to an isolation.
func unnarrowed(tid int, mask affinity, isolated []int) affinity {
	// The number may be that of a thread that is no more. If a thread is new, its mask is
	// inherited.
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

// withoutIsolated returns the mask less what is isolated, or all of it if there is nothing
// else in it.
func withoutIsolated(mask affinity) affinity {
	if less := mask.without(isolation.cpus); !less.isEmpty() {
		return less
	}
	return mask
}
