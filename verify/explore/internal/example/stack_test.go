//go:build explore

package example

import (
	"testing"

	"github.com/seed53057037/heist/verify/explore"
)

// The tests of package rewrite run these.

func TestExploreStack(t *testing.T) {
	explore.Check(t, explore.Options{}, stack(false))
}

func TestExploreBrokenStack(t *testing.T) {
	explore.Check(t, explore.Options{}, stack(true))
}

func stack(broken bool) func() {
	return func() {
		s := Stack{Broken: broken}
		seen := [3]int{}
		pop := func() {
			if v, ok := s.Pop(); ok {
				seen[v]++
			}
		}
		explore.Go("one", func() { s.Push(1); pop() })
		explore.Go("two", func() { s.Push(2); pop() })
		explore.Wait()
		pop()
		pop()
		explore.Assert(seen == [3]int{0, 1, 1}, "the values were popped so often: %v", seen)
	}
}

func TestExploreMailbox(t *testing.T) {
	explore.Check(t, explore.Options{}, mailbox(false))
}

func TestExploreBrokenMailbox(t *testing.T) {
	explore.Check(t, explore.Options{}, mailbox(true))
}

// Two senders and two receivers share a condition, so that one signal may wake the wrong one.
func mailbox(broken bool) func() {
	return func() {
		m := NewMailbox()
		m.Broken = broken
		sum := 0
		for range 2 {
			explore.Go("receiver", func() { sum += m.Receive() })
		}
		explore.Go("sender", func() { m.Send(1); m.Send(2) })
		explore.Wait()
		explore.Assert(sum == 3, "letters of the sum %d were received", sum)
	}
}

func TestExploreLater(t *testing.T) {
	explore.Check(t, explore.Options{}, func() {
		sum := 0
		Later(func(a, b int, ended func()) {
			sum += a + b
			ended()
		})
		explore.Wait()
		explore.Assert(sum == 1+10+2+20, "the arguments are not those of the go statements: %d", sum)
	})
}
