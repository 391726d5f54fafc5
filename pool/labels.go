package pool

import (
	"context"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"unsafe"
)

// # Labels
//
// A goroutine has labels, which pprof shows (runtime/pprof.Do). On every worker, the work of a pool has the labels of
// its submitter or caller, as a new goroutine has those of its creator: a task takes them along (taskMeta), and a stolen
// fork or child gets the labels of its victim. The workers of a pool with a name have its name and their number as
// labels, too.
//
// The runtime keeps labels as a pointer to a value that never changes; nil is none. pprof itself has access to the
// pointer, and so have other packages by linkname. The pointer is a field of the runtime's record of the goroutine.
// findLabels finds the field by looking at what changes when labels are set. So thieves can read their victims' labels,
// and a fork or a scope, which may be stolen or not, costs nothing. Where the field cannot be found, or without
// assembly, thieves read the labels with which the victim's job began.
//
// A thief reads the labels that its victim has at that moment. If the victim is by then in a pprof.Do of its own, deeper
// than the fork, the stolen fork gets these labels. To avoid that, each fork would have to look at its labels.

// labels are the labels of a goroutine.
type labels = unsafe.Pointer

// workerLabels is which labels a worker's goroutine has, and why. Owner only, unless said otherwise.
type workerLabels struct {
	jobLabels labels    // labels that the goroutine has for what it runs, see setLabels
	merged    [2]merged // see withName; thieves read them as they read labels
	title     string    // the name of the worker's task, or of what it began last by Named in a task without one
}

// labelsOffset is the offset of the labels in the runtime's record of a goroutine, or 0 if it was not found.
var labelsOffset = findLabels()

// findLabels looks for the field that changes as the labels of the calling goroutine do.
func findLabels() (offset uintptr) {
	record := goroutineRecord()
	if record == nil {
		return 0
	}
	before := goroutineLabels()
	defer setGoroutineLabels(before)
	const most = 400 // bytes, less than the size of a record
	for at := range uintptr(most / unsafe.Sizeof(record)) {
		field := (*uintptr)(unsafe.Add(record, at*unsafe.Sizeof(record)))
		follows := true
		for _, ctx := range []context.Context{sample, context.Background(), other, sample} {
			pprof.SetGoroutineLabels(ctx)
			follows = follows && *field == uintptr(goroutineLabels())
		}
		if follows {
			return at * unsafe.Sizeof(record)
		}
	}
	return 0
}

// locateLabels records where the labels of the calling goroutine are, which is the worker from now on.
func (w *Worker) locateLabels() {
	w.record.Set((*record)(goroutineRecord()))
	if labelsOffset > 0 {
		w.labels = (*labels)(unsafe.Add(goroutineRecord(), labelsOffset))
		return
	}
	w.labels = &w.jobLabels
	if w.core.Guest {
		w.jobLabels = goroutineLabels()
	}
}

// carries returns the labels of the worker's goroutine, without the worker's own. The worker may call it, and so may a
// thief while the worker cannot leave what was stolen from it.
func (w *Worker) carries() labels {
	ls := atomic.LoadPointer(w.labels)
	if ls != nil && w.pool.name != "" {
		return w.withoutName(ls)
	}
	return ls
}

// labelsWith returns the labels that the worker's goroutine has while it runs something with the labels others.
func (w *Worker) labelsWith(others labels) labels {
	if w.core.Guest {
		return others
	}
	return w.withName(others)
}

// withoutName undoes withName.
func (w *Worker) withoutName(all labels) labels {
	for _, m := range w.merged {
		if m.all == all {
			return m.of
		}
	}
	return all
}

// submitterLabels returns the labels for a task that the calling goroutine submits.
func submitterLabels() labels {
	ls := goroutineLabels()
	if ls == nil {
		return nil
	}
	if w := goroutines.find(goroutineID()); w != nil && !w.core.Guest {
		return w.withoutName(ls)
	}
	return ls
}

//go:linkname goroutineLabels runtime/pprof.runtime_getProfLabel
func goroutineLabels() labels

//go:linkname setGoroutineLabels runtime/pprof.runtime_setProfLabel
func setGoroutineLabels(labels)

// The labels of a pool that has a name.
const labelPool, labelWorker = "heist_pool", "heist_worker"

// setLabels gives the worker's goroutine the labels others for what it runs, and returns the labels that it had, for the next
// call of setLabels. That call discards labels that the goroutine's function has set meanwhile.
func (w *Worker) setLabels(others labels) (before labels) {
	before = w.jobLabels
	if w.core.Guest || others == before {
		return before
	}
	w.jobLabels = others
	setGoroutineLabels(w.withName(others))
	return before
}

// hasLabels says whether the worker's goroutine has labels other than the worker's own.
func (w *Worker) hasLabels() bool { return atomic.LoadPointer(w.labels) != w.merged[0].all }

// resetLabels gives the worker's goroutine the worker's own labels, and no others.
func (w *Worker) resetLabels() {
	w.jobLabels = nil
	setGoroutineLabels(w.withName(nil))
}

// withName returns the labels together with the worker's own.
func (w *Worker) withName(others labels) labels {
	if w.pool.name == "" {
		return others
	}
	m := &w.merged[0]
	if others != nil {
		m = &w.merged[1]
	}
	if m.all == nil || m.of != others {
		ctx := context.Context(context.Background())
		if others != nil {
			ctx = labelled{ctx, others}
		}
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(labelPool, w.pool.name, labelWorker, strconv.Itoa(w.id))))
		*m = merged{others, goroutineLabels()}
	}
	return m.all
}

// merged is a result of withName. A worker keeps two: one for no other labels, one for the last ones.
type merged struct{ of, all labels }

// labelled is a context with the labels. pprof asks a context for its labels by a key of its own, and expects a pointer of
// a type of its own. So Value takes the answer of the context sample, and replaces the pointer in it.
type labelled struct {
	context.Context
	labels labels
}

// Value implements context.Context.
func (l labelled) Value(key any) any {
	if v := sample.Value(key); v != nil {
		(*[2]unsafe.Pointer)(unsafe.Pointer(&v))[1] = l.labels // an interface is a type and a pointer
		return v
	}
	return l.Context.Value(key)
}

// sample and other are contexts that have labels and nothing else.
var (
	sample = pprof.WithLabels(context.Background(), pprof.Labels("", ""))
	other  = pprof.WithLabels(context.Background(), pprof.Labels("", ""))
)
