package pool

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// # The status of a goroutine
//
// The runtime's record of a goroutine has a word that says whether the goroutine runs, waits or is in a system call, and a
// byte that says what it waits for. Heist does not know where they are, so it looks for them, as labels.go does for labels:
// it has goroutines of its own wait for different things, and finds what is the same in records of goroutines that wait for
// the same and differs in the others. Where that does not fit, every status is unclear.
//
// A goroutine shows "waits" in moments in which it computes, too: when it helps the collector, or stops the world. Such
// waits have other reasons. So only the reasons that were seen at goroutines of heist's own, which wait for what programs
// wait for, are taken for waits.

// record is the runtime's record of a goroutine. It stays a pointer, because the runtime uses records again, and never
// frees them.
type record struct{ _ byte }

// A record is searched by words, in its first bytes; it has more.
const wordSize, mostSearched = 8, 400

// word returns the word so many bytes from the beginning.
func (r *record) word(at uintptr) uint64 { return *(*uint64)(unsafe.Add(unsafe.Pointer(r), at)) }

// status is what a goroutine does.
type status uint8

const (
	isRunning   status = iota // or could run
	isWaiting                 // for something that the program has to do
	isInSyscall               // perhaps a short one
	isUnclear                 // it waits, and heist does not know for what; or its status cannot be read
)

// Values of the runtime's status word, without the bit that the collector sets. They have been the same since Go 1.5; the
// first and the last are checked.
const (
	statusReady   = 1
	statusRunning = 2
	statusSyscall = 3
	statusWaiting = 4
	statusScan    = 0x1000
)

// statuses says where the status of goroutines is; zero if that is not known.
type statuses struct {
	at, reasonAt, numberAt uintptr
	reasons                [256]string // what those mean that are waits; empty for others
}

// finder finds the statuses at one of its tries, or gives up after the last. A try fails where goroutines of heist's own do not come to
// wait for longer than it has patience, as on a machine that stands still.
type finder struct {
	find  func() *statuses         // constant
	found atomic.Pointer[statuses] // what the tries came to; set once
	mu    sync.Mutex               // one try at a time
	tries int                      // that are left; under mu
}

var theStatuses = finder{find: findStatuses, tries: 10}

// goroutineStatuses finds out where the status of goroutines is, in a millisecond or two, and at the first try unless the
// machine stands still. A caller in a bubble of
// testing/synctest does not, because the goroutines that have to wait for that would belong to the bubble.
func goroutineStatuses() *statuses { return theStatuses.get() }

func (f *finder) get() *statuses {
	if s := f.found.Load(); s != nil {
		return s
	}
	if inBubble() {
		return new(statuses)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.found.Load(); s != nil {
		return s
	}
	s := f.find()
	if f.tries--; s.at != 0 || f.tries == 0 {
		f.found.Store(s)
	}
	return s
}

// of returns the status of a goroutine.
func (s *statuses) of(r *record) status {
	if s.at == 0 || r == nil {
		return isUnclear
	}
	switch s.value(r) {
	case statusWaiting:
		if s.reasons[s.reason(r)] != "" {
			return isWaiting
		}
		return isUnclear
	case statusSyscall:
		return isInSyscall
	}
	return isRunning
}

// isReady says whether a goroutine could run, and does not.
func (s *statuses) isReady(r *record) bool {
	return s.at != 0 && r != nil && s.value(r) == statusReady
}

// does says what a goroutine waits in, in the runtime's words; nothing if it goes on.
func (s *statuses) does(r *record) string {
	switch s.of(r) {
	case isWaiting:
		return s.reasons[s.reason(r)]
	case isInSyscall:
		return "a system call"
	}
	return ""
}

func (s *statuses) reason(r *record) uint8 {
	return *(*uint8)(unsafe.Add(unsafe.Pointer(r), s.reasonAt))
}

// number returns the number by which stack traces name a goroutine; 0 if that is not known.
func (s *statuses) number(r *record) uint64 {
	if s.at == 0 || r == nil {
		return 0
	}
	return atomic.LoadUint64((*uint64)(unsafe.Add(unsafe.Pointer(r), s.numberAt)))
}

// value returns the status word of a goroutine.
func (s *statuses) value(r *record) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Add(unsafe.Pointer(r), s.at))) &^ statusScan
}

// waitingSample is a goroutine of heist's own that waits, or is about to.
type waitingSample struct {
	kind   string
	record *record
	number uint64
}

// mostLooks is how often findStatuses looks whether all its goroutines wait.
const mostLooks = 500

// findStatuses has two goroutines wait in each way.
func findStatuses() *statuses { return findStatusesIn(mostLooks) }

func findStatusesIn(looks int) *statuses {
	none := new(statuses)
	if goroutineRecord() == nil {
		return none
	}
	var samples []waitingSample
	for range 2 {
		ways, end := waysToWait()
		defer end()
		for kind, wait := range ways {
			started := make(chan waitingSample)
			go func() {
				started <- waitingSample{kind, (*record)(goroutineRecord()), goroutineNumber()}
				wait()
			}()
			samples = append(samples, <-started)
		}
	}
	// Until they all wait, and two looks agree: a goroutine that the collector has stopped, to look at its stack, shows a wait of another kind for a
	// moment, before its own.
	var before *statuses
	for range looks {
		s := statusesOf(samples)
		if s != nil && before != nil && *s == *before {
			return s
		}
		before = s
		time.Sleep(100 * time.Microsecond)
	}
	return none
}

// statusesOf looks for the status in the records of the samples. It returns nil if they do not all wait by now.
func statusesOf(samples []waitingSample) *statuses {
	for at := uintptr(wordSize); at < mostSearched; at += wordSize {
		isOther := func(s waitingSample) bool { return s.record.word(at) != s.number }
		if slices.ContainsFunc(samples, isOther) {
			continue
		}
		// This is the runtime's goid. The status and a number of the stack share the word before it, and the reason comes
		// soon after.
		for _, statusAt := range []uintptr{at - wordSize, at - wordSize/2} {
			s := &statuses{at: statusAt, numberAt: at}
			for reasonAt := at + wordSize; s.fits(samples) && reasonAt < at+10*wordSize; reasonAt++ {
				if s.tells(samples, reasonAt) {
					return s
				}
			}
		}
	}
	return nil
}

// fits says whether the status of all samples, which wait, and of the caller, which runs, is as it should be.
func (s *statuses) fits(samples []waitingSample) bool {
	runs := func(w waitingSample) bool { return s.value(w.record) != statusWaiting }
	return s.value((*record)(goroutineRecord())) == statusRunning && !slices.ContainsFunc(samples, runs)
}

// tells says whether the byte at reasonAt tells the samples' kinds of waits apart, and if so, notes what it says.
func (s *statuses) tells(samples []waitingSample, reasonAt uintptr) bool {
	kinds := make(map[uint8]string)
	reasons := make(map[string]uint8)
	for _, w := range samples {
		reason := *(*uint8)(unsafe.Add(unsafe.Pointer(w.record), reasonAt))
		kind, sameReason := kinds[reason]
		before, sameKind := reasons[w.kind]
		if sameReason && kind != w.kind || sameKind && before != reason {
			return false
		}
		kinds[reason], reasons[w.kind] = w.kind, reason
	}
	s.reasonAt = reasonAt
	for reason, kind := range kinds {
		s.reasons[reason] = kind
	}
	return true
}

// waysToWait returns functions that wait until end is called, each in another way, by the runtime's names for these.
func waysToWait() (ways map[string]func(), end func()) {
	over, full, never := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var mutex, ofCond sync.Mutex
	var written, read sync.RWMutex
	var group sync.WaitGroup
	cond := sync.NewCond(&ofCond)
	isOver := false // under ofCond
	mutex.Lock()
	written.Lock()
	read.RLock()
	group.Add(1)
	ways = map[string]func(){
		"chan receive": func() { <-over },
		"chan send":    func() { full <- struct{}{} },
		"select": func() {
			select {
			case <-over:
			case <-never:
			}
		},
		"sync.Mutex.Lock":    func() { mutex.Lock() },
		"sync.RWMutex.RLock": func() { written.RLock() },
		"sync.RWMutex.Lock":  func() { read.Lock() },
		"sync.Cond.Wait": func() {
			ofCond.Lock()
			defer ofCond.Unlock()
			for !isOver {
				cond.Wait()
			}
		},
		"sync.WaitGroup.Wait": group.Wait,
		// Longer and longer: where other goroutines compute it waits for a P after each sleep, and would seldom be seen to wait.
		"sleep": func() {
			for d := 10 * time.Millisecond; !isClosed(over); d *= 2 {
				time.Sleep(d)
			}
		},
	}
	r, w, err := os.Pipe()
	if err == nil {
		ways["IO wait"] = func() { _, _ = r.Read(make([]byte, 1)) }
	}
	return ways, func() {
		ofCond.Lock()
		isOver = true
		ofCond.Unlock()
		cond.Signal()
		<-full
		close(over)
		mutex.Unlock()
		written.Unlock()
		read.RUnlock()
		group.Done()
		if err == nil {
			_ = w.Close()
			_ = r.Close()
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
