package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed53057037/heist/pool/inspect"
)

// # Pulling
//
// A lane has one subscription, to an inbox, and asks for jobs by requests that name the inbox (NATS's ADR-37). Jobs arrive in the
// subscription's goroutine, which queues them. The Fetch of nats.go makes a subscription and goroutines for each
// request: jobs of two requests overtook each other, and reached the pool two hops later.
//
// What was asked for and has not arrived counts as waiting. The server does not say to which request a job belongs, so jobs count
// against the oldest. Nor need all jobs of a request arrive: at its end the server says how many do not. A request that is silent
// at its end is void; then a message was lost, or the server is not there. A job that arrives nevertheless is held as any other.
//
// A worker that ends sends no more requests, but listens until the last one is over: a job that arrives where nobody
// listens is delivered again only after AckWait.
//
// # Room
//
// The unstarted jobs of all lanes together should be what the pool can begin within soon. The lanes share that evenly, for a lane
// whose jobs have to wait must not keep those of another one away from the pool. What was asked for and has not arrived counts as if it were there.
//
// If jobs turn out to take longer, a lane may hold more than its share: the newest are given back when it has been twice as much for stallTime, as the
// average moves with each job. A worker is **stalled** if it holds unstarted jobs and none has begun or ended for stallTime. It gives back all, and asks for none until one ends, a place is free or stallRetry has passed.

const (
	// soon is how much work is held, in time. On two CPUs that a server and the jobs keep busy a request takes up to 5 ms to
	// be answered, and with 10 ms of work less than a third of it had arrived.
	soon = 25 * time.Millisecond

	// stallTime is after how long a worker gives back what it does not begin, or has too much of. A judgement: sooner would not be worth the messages.
	stallTime = time.Second

	// stallRetry is after how long a worker that has stalled asks again.
	stallRetry = 10 * time.Second

	// leastRoom and mostRoom bound the jobs that are held for each place of the pool, whatever they take.
	leastRoom, mostRoom = 2, 256

	// pullTime is how long a request to the server stays open, and so how long Run may wait for it at its end. What is asked for
	// follows how long jobs take, so it must not be old. An idle worker asks eight times a second.
	pullTime = 250 * time.Millisecond

	// answerGrace is how long after its end a request may be silent.
	answerGrace = 250 * time.Millisecond

	// pullers is how many requests a lane has under way: one is answered while the next is on its way.
	pullers = 2
)

// request is a request for jobs, of which some have not arrived. Under Worker.mu.
type request struct{ left int }

var errSilent = errors.New("the server does not answer a request for jobs")

// listen makes the lane's inbox.
func (w *Worker) listen(l *lane) error {
	nc := w.js.Conn()
	l.inbox = nc.NewInbox()
	s, err := nc.Subscribe(l.inbox, func(m *nats.Msg) { w.receive(l, m) })
	if err != nil {
		return err
	}
	l.arrivals = s
	return s.SetPendingLimits(-1, -1) // no more arrives than was asked for
}

// askSubject is where requests for the jobs of a consumer go.
func (w *Worker) askSubject(l *lane) string {
	prefix := natsjs.DefaultAPIPrefix
	switch o := w.js.Options(); {
	case o.Domain != "":
		prefix = "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		prefix = strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return prefix + "CONSUMER.MSG.NEXT." + w.config.Stream + "." + l.durable
}

// ask sends a request for n jobs.
func (w *Worker) ask(l *lane, n int) (err error) {
	r := &request{left: n}
	w.mu.Lock()
	l.open = append(l.open, r)
	l.waiting += n
	w.mu.Unlock()
	defer func() {
		if err != nil {
			w.void(l, r)
		}
	}()
	nc := w.js.Conn()
	if nc.IsClosed() {
		return nats.ErrConnectionClosed
	}
	if !nc.IsConnected() { // nats.go would send it later, when it is out of date
		return nats.ErrDisconnected
	}
	body, err := json.Marshal(struct {
		Expires time.Duration `json:"expires"`
		Batch   int           `json:"batch"`
	}{pullTime, n})
	if err != nil {
		return err
	}
	time.AfterFunc(pullTime+answerGrace, func() {
		if w.void(l, r) {
			w.trouble(l, errSilent)
		}
	})
	return nc.PublishRequest(w.askSubject(l), l.inbox, body)
}

// void says that the rest of a request does not arrive, and whether there was one.
func (w *Worker) void(l *lane, r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.left == 0 {
		return false
	}
	l.waiting -= r.left
	r.left = 0
	l.open = slices.DeleteFunc(l.open, func(r *request) bool { return r.left == 0 })
	w.room.Broadcast()
	return true
}

// fulfil takes up to n from the oldest requests, and returns how many there were. The caller holds mu.
func (l *lane) fulfil(n int) (fulfilled int) {
	for fulfilled < n && len(l.open) > 0 {
		k := min(n-fulfilled, l.open[0].left)
		fulfilled += k
		if l.open[0].left -= k; l.open[0].left == 0 {
			l.open = l.open[1:]
		}
	}
	return fulfilled
}

// trouble has take report what is wrong with the lane's requests.
func (w *Worker) trouble(l *lane, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.err = err
	w.room.Broadcast()
}

// receive takes what arrives at the lane's inbox: jobs, and the ends of requests.
func (w *Worker) receive(l *lane, m *nats.Msg) {
	if m.Reply != "" { // for its answer: it is a job
		if err := w.accept(l, m); err != nil {
			w.config.OnError(err)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	if err != nil { // all of them
		n = l.waiting
	}
	l.waiting -= l.fulfil(n)
	w.room.Broadcast()
	switch status, what := m.Header.Get("Status"), m.Header.Get("Description"); {
	case status == "408": // its time is over
	case status == "503":
		l.err = nats.ErrNoResponders
	case strings.EqualFold(what, "Consumer Deleted"):
		l.err = natsjs.ErrConsumerDeleted
	default: // such as a server that shuts down, or another one that leads
		l.err = fmt.Errorf("the server says %s %s", status, what)
	}
}

// take asks for jobs of a lane until the worker stops, and waits until no request is open.
func (w *Worker) take(l *lane) {
	defer l.arrivals.Unsubscribe() // an error says that the connection is closed
	pause, last := leastPause, time.Time{}
	for {
		n, err := w.awaitRoom(l)
		if err == nil && n == 0 {
			return
		}
		if err == nil {
			err = w.ask(l, n)
		}
		if err == nil {
			continue
		}
		if err = l.cause(err); cannotGoOn(err) {
			w.fail(w.config.explain(err))
			continue
		}
		if pause = min(2*pause, mostPause); time.Since(last) > 2*mostPause {
			pause = leastPause
		}
		last = time.Now()
		w.config.OnError(fmt.Errorf("jetstream: consumer %s: %w; the next try is in %v", l.durable, err, pause))
		select {
		case <-w.stop:
		case <-time.After(pause):
		}
	}
}

// awaitRoom waits until a lane has room for a quarter of its share, and returns for how many jobs, half of its share at most. It returns
// 0 if the worker stops and no request is open, and an error if there is trouble with those that were.
func (w *Worker) awaitRoom(l *lane) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if w.ending() {
			if len(l.open) == 0 {
				return 0, nil
			}
		} else if l.err != nil {
			err, l.err = l.err, nil
			return 0, err
		} else {
			share := w.share()
			w.enough = share
			if n := min(share-l.waiting, (share+1)/pullers); n > 0 && 4*n >= share {
				return n, nil
			}
		}
		w.room.Wait()
	}
}

// cause returns a better reason for an error of a request, if the consumer or the stream was removed: a request for jobs of one that is not
// there gets no answer.
func (l *lane) cause(err error) error {
	if cannotGoOn(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), mostPause)
	defer cancel()
	if _, missing := l.consumer.Info(ctx); missing != nil && cannotGoOn(missing) {
		return missing
	}
	return err
}

func cannotGoOn(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, natsjs.ErrConsumerDeleted) ||
		errors.Is(err, natsjs.ErrConsumerNotFound) || errors.Is(err, natsjs.ErrStreamNotFound)
}

// share returns how many unstarted jobs a lane may hold. The caller holds mu.
func (w *Worker) share() int {
	if w.stalled {
		return 0
	}
	n := leastRoom
	if w.average > 0 {
		n = max(int(min(soon/w.average, mostRoom)), leastRoom)
	}
	others := w.config.Pool.Load().Queued.Total() - w.queued
	return max(min(w.config.Pool.Workers()*n-max(others, 0), w.mostRunning())/len(w.lanes), 1)
}

// surplus takes jobs out of the queues that are to be given back. The caller, extend, holds mu.
func (w *Worker) surplus(load inspect.Load, period time.Duration) (back []*Job) {
	w.still++
	if w.moved {
		w.still = 0
	}
	w.moved = false
	stalled := w.queued > 0 && time.Duration(w.still)*period >= stallTime || w.stalled && w.still > 0
	switch {
	case w.begun < w.mostRunning() && load.Running < load.Workers: // a place is free
		stalled = false
	case time.Duration(w.still)*period >= stallRetry: // perhaps the pool has come to an end with what others gave it
		w.still, stalled = 0, false
	}
	if w.stalled && !stalled {
		w.room.Broadcast()
	}
	w.stalled = stalled
	if stalled { // the suspects in line too: those that are in a queue lead to the next ones when they run, and are given back
		back, w.line = w.line, nil
		w.queued -= len(back)
		for _, j := range back {
			j.lane.waiting--
		}
	}
	most := 2 * w.share()
	for _, l := range w.lanes {
		n := len(l.queue) - most
		if l.excess++; n <= 0 {
			l.excess = 0
		}
		if w.stalled && n > 0 || time.Duration(l.excess)*period >= stallTime {
			l.excess = 0
			back = append(back, l.queue[most:]...)
			l.queue = slices.Clone(l.queue[:most])
			l.waiting -= n
			w.queued -= n
		}
	}
	return back
}
