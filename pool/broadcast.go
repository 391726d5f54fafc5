package pool

import (
	"context"
	"slices"

	"github.com/seed53057037/heist/internal/causes"
	"github.com/seed53057037/heist/internal/core"
)

// # Broadcasts
//
// A broadcast posts **mail** to each place of a worker. The place's holder opens it between two tasks.
//
//  1. The caller of Broadcast posts the mail, and then wakes the place if it sleeps.
//  2. A worker whose place goes to sleep announces that, and then looks for mail.
//
// In whatever order the two meet, one of them sees the other, so no mail lies at a place that sleeps, except while the
// pool pauses. The goroutine that ends the pause looks for mail again, in the order of step 1.
//
// Mail is posted under the lock under which places open and close. A place that closes has no worker any more, so
// its mail counts as done.

// Broadcast calls f once for each place of a worker, on the worker that holds it, and returns when all calls have ended:
// with the first error, as a [Group] does. A worker calls f when it has ended its current task. If ctx ends, calls that
// have not begun never begin. Workers that wait, and have lent their places, do not call f; nor do guests, or workers in
// places that [Pool.Resize] closes. A paused pool begins when it resumes. While a coroutine of iter.Pull waits, a worker
// without a place may call f in the stead of one that does not come to it: that one may wait for the coroutine, unseen.
//
// Use Broadcast for what each worker has of its own. Use [WithHooks] for what a worker's thread needs, since workers
// come and go. (rayon calls it broadcast, too.) Any goroutine may call it, a task as well. Cost: that of a group, and a
// wake-up of all workers.
func (p *Pool) Broadcast(ctx context.Context, f func(w *Worker) error) error {
	if err := p.usable(); err != nil {
		return err
	}
	if f == nil {
		return errNilFunc("Pool.Broadcast")
	}
	if ctx == nil {
		return errNilContext("Pool.Broadcast")
	}
	if p.isSerial() {
		return errSerial
	}
	p.beginDelay() // before the look: drain looks in the opposite order
	defer p.endDelay()
	if p.isClosedToTasks() {
		return ErrClosed
	}
	g, _ := NewGroup(p.With(ctx))
	m := mail{taskOf(carry(func(w *Worker) { g.run(w, &inside{of: g, f: taskFor(f)}, f) }, taskFor(f), "")), g}
	var to []*place
	p.core.EachOpen(func(pl *core.Place) {
		g.tasks.Add(1)
		p.placeOf(pl).post(m)
		to = append(to, p.placeOf(pl))
	})
	p.core.Forward()
	defer context.AfterFunc(ctx, func() {
		g.fail(causes.Of(ctx))
		for _, pl := range to {
			if pl.takeBack(m) {
				g.mu.Lock()
				g.drop(1)
				g.mu.Unlock()
			}
		}
		g.wake(g.count())
	})()
	return g.Wait()
}

// mail is a broadcast's function for a place.
type mail struct {
	task  *task
	group *Group // in which it counts
}

func (pl *place) post(m mail) {
	pl.core.Mu.Lock()
	defer pl.core.Mu.Unlock()
	pl.mail = append(pl.mail, m)
	pl.core.Mail.Store(int32(len(pl.mail)))
}

// takeBack takes back mail that has not been opened, and says whether it did.
func (pl *place) takeBack(m mail) bool {
	pl.core.Mu.Lock()
	defer pl.core.Mu.Unlock()
	i := slices.Index(pl.mail, m)
	if i < 0 {
		return false
	}
	pl.mail = slices.Delete(pl.mail, i, i+1)
	pl.core.Mail.Store(int32(len(pl.mail)))
	return true
}

// openMail takes the task of the oldest mail, or returns nil if that was taken back.
func (pl *place) openMail() *task {
	pl.core.Mu.Lock()
	defer pl.core.Mu.Unlock()
	if len(pl.mail) == 0 {
		return nil
	}
	m := pl.mail[0]
	pl.mail = slices.Delete(pl.mail, 0, 1)
	pl.core.Mail.Store(int32(len(pl.mail)))
	return m.task
}

// dropMail counts the mail of a place that closes as done.
func (pl *place) dropMail() {
	pl.core.Mu.Lock()
	all := pl.mail
	pl.mail = nil
	pl.core.Mail.Store(0)
	pl.core.Mu.Unlock()
	for _, m := range all {
		m.group.done(1)
	}
}
