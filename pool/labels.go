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
// A goroutine has labels, which pprof shows (runtime/pprof.Do). The work of a pool has those of its submitter or caller on every worker, as
// a new goroutine has those of its creator: a task takes them along (errand), and a fork or child that is stolen those of
// the worker from whom it was stolen. The workers of a pool with a name have its name and their number besides.
//
// The runtime keeps labels as a pointer to a value that never changes, and has a way to it that pprof itself uses, and other packages
// by linkname: nil is none. The pointer is a field of its record of the goroutine. Where in it is found by a look at what changes when labels are set; so
// thieves read their victims' labels, and a fork or a scope, which may be stolen or not, costs nothing. Where that cannot be found, or without assembly,
// thieves read what the victim's job began with.
//
// What a thief reads is what its victim has at that moment. If the victim is in a pprof.Do of its own by then, deeper than the fork, the stolen one
// has these labels. To know better, each fork would have to look.

// labels are those of a goroutine.
type labels = unsafe.Pointer

// labelsOffset is where in the runtime's record of a goroutine its labels are, 0 if nobody knows.
var labelsOffset = findLabels()

// findLabels looks for the field that changes as the labels of the calling goroutine do.
func findLabels() (offset uintptr) {
	record := goroutineRecord()
	if record == nil {
		return 0
	}
	before := goroutineLabels()
	defer setGoroutineLabels(before)
	const most = 400 // bytes, less than there are in a record
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

// wearer is for the goroutine that is the worker from now on: others find its labels there.
func (w *Worker) wearer() {
	if labelsOffset > 0 {
		w.labels = (*labels)(unsafe.Add(goroutineRecord(), labelsOffset))
		return
	}
	w.labels = &w.worn
	if w.guest {
		w.worn = goroutineLabels()
	}
}

// carries returns the labels of the worker's goroutine, without the worker's own. It is for the worker, and for thieves of what the worker cannot
// leave meanwhile.
func (w *Worker) carries() labels {
	ls := atomic.LoadPointer(w.labels)
	if ls != nil && w.pool.name != "" {
		return w.withoutName(ls)
	}
	return ls
}

// dressed returns the labels that the worker's goroutine has where it runs something with others.
func (w *Worker) dressed(others labels) labels {
	if w.guest {
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

// submitterLabels returns what the calling goroutine's task takes along.
func submitterLabels() labels {
	ls := goroutineLabels()
	if ls == nil {
		return nil
	}
	if w := goroutines.find(goroutineID()); w != nil && !w.guest {
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

// wear gives the worker's goroutine labels for what it runs, and returns those that it had, for the next call of wear. What a goroutine's own
// function has set meanwhile is gone then.
func (w *Worker) wear(others labels) (before labels) {
	before = w.worn
	if w.guest || others == before {
		return before
	}
	w.worn = others
	setGoroutineLabels(w.withName(others))
	return before
}

// isDressed says whether the worker's goroutine has other labels than its own.
func (w *Worker) isDressed() bool { return atomic.LoadPointer(w.labels) != w.merged[0].all }

// undress gives the worker's goroutine its own labels.
func (w *Worker) undress() {
	w.worn = nil
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

// merged is what withName has made: of none, and of the last ones.
type merged struct{ of, all labels }

// labelled is a context with the labels. Pprof asks a context for its labels by a key and expects a pointer of a type,
// both its own, so the answer is made of an answer that it has given.
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
