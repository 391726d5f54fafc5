// Package example is what the explorer's tests rewrite: a lock-free stack, and a mailbox with a lock. They are wrong in one place
// each, if their field Broken is set.
package example

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Stack is Treiber's stack.
type Stack struct {
	Broken bool // push does not look whether it was overtaken
	head   atomic.Pointer[node]
}

type node struct {
	value int
	next  *node
}

// Push adds a value.
func (s *Stack) Push(value int) {
	n := &node{value: value}
	for {
		n.next = s.head.Load()
		if s.Broken {
			s.head.Store(n)
			return
		}
		if s.head.CompareAndSwap(n.next, n) {
			return
		}
	}
}

// Pop takes the newest value.
func (s *Stack) Pop() (int, bool) {
	for {
		n := s.head.Load()
		if n == nil {
			return 0, false
		}
		if s.head.CompareAndSwap(n, n.next) {
			return n.value, true
		}
	}
}

// Mailbox has room for one letter.
type Mailbox struct {
	Broken bool // a sender wakes only one of those who wait
	mu     sync.Mutex
	cond   sync.Cond
	letter int // 0: none
}

// NewMailbox returns an empty mailbox.
func NewMailbox() *Mailbox {
	m := new(Mailbox)
	m.cond.L = &m.mu
	return m
}

// Send waits for room.
func (m *Mailbox) Send(letter int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.letter != 0 {
		m.cond.Wait()
	}
	m.letter = letter
	m.wake()
}

// Receive waits for a letter.
func (m *Mailbox) Receive() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.letter == 0 {
		m.cond.Wait()
	}
	letter := m.letter
	m.letter = 0
	m.wake()
	return letter
}

func (m *Mailbox) wake() {
	if m.Broken {
		m.cond.Signal()
	} else {
		m.cond.Broadcast()
	}
}

// Later calls f in goroutines, with two numbers each, and waits until ended was called twice.
func Later(f func(a, b int, ended func())) {
	var left atomic.Int32
	left.Store(2)
	ended := func() { left.Add(-1) }
	a := 1
	go f(a, 10, ended)
	a = 2
	go func() {
		f(a, 20, ended)
	}()
	for left.Load() > 0 {
		runtime.Gosched()
	}
}
