package par

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed53057037/heist"
	"github.com/seed53057037/heist/internal/pad"
	"github.com/seed53057037/heist/internal/panics"
	"github.com/seed53057037/heist/pool"
)

// # Streams
//
// The **consumer**, the goroutine that ranges over a stream, does four things in turn: it takes values from the source,
// puts them into batches, yields results, and computes when it would wait otherwise. A batch is a child of a scope, so
// other workers take the oldest. A worker claims a batch before it computes it. The consumer claims one too when the
// next result is not ready, so the stream goes on even if no other worker ever comes. A child whose batch is already
// claimed does nothing.
//
// The consumer looks at no batch twice. Batches that may be unclaimed wait in one queue, the oldest first, and a claimed one
// that comes to its front is dropped. What is to be yielded waits in another: for Stream all batches, of which the first has
// to be done, for AsCompleted those that are. A worker that has computed a batch for AsCompleted pushes it onto a list,
// which the consumer takes whole.
//
// A batch has as many values as take batchOfStream to compute. But when the consumer has been taking values for as long as that, it ends
// the batch: the source is slow, and waiting for another value would gain nothing. Until a batch has been measured batches have one value,
// and when there are two for each worker, the consumer computes one to measure it.
//
// Taking a value appends it to the batch. The consumer does everything else in a **turn**, when the batch or the window is full, or
// the source is slow. It looks at the clock after the first values, and then after mostUnseen of them.
//
// A batch that takes less than worthABatch is **short**. The consumer computes it at once, and no other worker hears of it. All batches are short
// if the values and the window are. A batch is judged by the last one and by the mean of all values, whichever is worse, so an f that
// is long for one value in a thousand is shared. If a batch of one value would be short, the consumer also computes the first batchOfStream alone:
// the stream may end before another worker comes. To know that before it has measured one, par remembers, by the address of
// f's code, whether the last values of f were short. If they were, its next stream takes the first ones for short.

// batchOfStream is how long a batch of a stream should take. A batch costs 0.3 microseconds.
const batchOfStream = 20 * time.Microsecond

// mostUnseen is how many values of a fast source the consumer takes between two looks at the clock, which with what belongs to it takes 20 to 30 ns. So
// many wait for one another where the source becomes slow.
const mostUnseen = 8

// worthABatch is how long a batch takes, at least, that another worker may compute. With two workers on far cores 3 microseconds took up to 1.3
// times as long as the plain loop, and 5 took 0.7 to 0.9 of it.
const worthABatch = 4 * time.Microsecond

// shortFuncs are the addresses of functions whose values were short. Consumers write; functions with the same place take it from one another.
var shortFuncs [1 << 6]atomic.Uintptr

// Stream returns f of each value, in the order of the values, and computes several at a time. At most window values
// have been taken from the source and not been yielded yet. It is for pipelines: read, compute in parallel, write in
// order.
//
// The first error of f, in the order of the values, comes after the results before it, and ends the stream. The end of
// the place's context ends it too, with the context's cause, after any of the results. Once an error is known, no call
// of f begins for a value behind the one that failed. The context that f is given, a child of the place's, is cancelled
// when the error is yielded, or when the consumer breaks off. When the range loop is over, no f runs any more. A panic
// in f continues in the consumer, as a [*pool.PanicError]; one in the source or in the loop's body goes on as it is. An
// error that should not end the stream belongs in the result; [JoinErrors] changes nothing here. For a source that
// can fail, as another stream is, there is package pipeline.
//
// While f waits for something other values are computed; [pool.Pool.Block] saves the time until the wait is noticed.
//
// The source runs in the consumer's goroutine, which also computes, and values that take little are computed in
// batches, by the consumer alone if a quarter of the window takes less than 4 microseconds, and in the first 20 microseconds if one value
// does. So f must not wait for what the consumer does with a result, for another value, nor for its context to end by
// another value's error, and the source must not wait for f. Results and errors are yielded only between two values of the
// source, and between two that the consumer computes: one that takes or waits for long holds back what is finished, and a
// source also the values in a batch that is not full. Nothing happens before the stream is ranged over; to range over it
// twice runs the source twice.
//
// Cost: some 1 to 3 microseconds for a stream, 30 nanoseconds for each value, and no allocation for each if f takes less than
// 10 microseconds. Bad arguments are yielded as an error.
func Stream[T, R any](at pool.Place, values iter.Seq[T], window int, f func(ctx context.Context, v T) (R, error)) iter.Seq2[R, error] {
	return streamOf("Stream", true, at, values, window, f)
}

// AsCompleted is [Stream] without the order: results are yielded when they are ready. The first error that is ready ends the stream, with or
// without the results of the values before and behind it.
func AsCompleted[T, R any](at pool.Place, values iter.Seq[T], window int, f func(ctx context.Context, v T) (R, error)) iter.Seq2[R, error] {
	return streamOf("AsCompleted", false, at, values, window, f)
}

func streamOf[T, R any](name string, ordered bool, at pool.Place, values iter.Seq[T], window int, f func(context.Context, T) (R, error)) iter.Seq2[R, error] {
	var err error
	switch {
	case f == nil:
		err = errNilFunc(name)
	case values == nil:
		err = errors.New("par: " + name + " was given a nil sequence")
	case window < 1:
		err = fmt.Errorf("par: %s was given a window of %d values; it must be 1 or more", name, window)
	}
	return func(yield func(R, error) bool) {
		err := err
		s := stream[T, R]{ordered: ordered, window: window, f: f, yield: yield, target: heist.TicksIn(batchOfStream), size: 1, look: 1, step: 1}
		if err == nil {
			err = pool.Do(at)
		}
		if err == nil {
			around := at.Context()
			s.ends = around.Done() != nil
			s.ctx = &lazyContext{outer: around}
			defer s.ctx.end(context.Canceled)
			s.failedAt.Store(math.MaxInt64)
			code := reflect.ValueOf(f).Pointer()
			known := &shortFuncs[code>>4%uintptr(len(shortFuncs))]
			s.alone = known.Load() == code
			err = at.With(around).Run(func(w *pool.Worker) {
				s.call = w.Call()
				s.yieldAll = s.yieldResults
				w.Scope(func(scope *pool.Scope) {
					finished := false
					defer func() {
						if !finished { // batches that have not begun never will
							s.failedAt.Store(-1)
							s.ctx.end(context.Canceled)
						}
						if was := known.Load() == code; s.values > 0 && was != s.short(1) {
							if was {
								code = 0
							}
							known.Store(code)
						}
					}()
					finished = s.run(w, scope, values)
				})
			})
		}
		if err != nil && !s.over {
			var none R
			yield(none, err)
		}
	}
}

// stream is one range over a stream.
type stream[T, R any] struct {
	// Any worker that computes reads these for each value.

	f        func(context.Context, T) (R, error) // constant
	ctx      *lazyContext                        // constant
	failedAt atomic.Int64                        // number of the first failed batch: no later one begins; workers write
	ended    chan struct{}                       // one or more batches have ended; the worker that computed one sends. The consumer makes it before it shares the first

	_ pad.Line // two cache lines, for CPUs that fetch them in pairs

	finished atomic.Pointer[batch[T, R]] // AsCompleted: what is done, the newest first; workers push, the consumer takes all

	_ pad.Line

	// Consumer only; it writes these for each value.

	ordered bool  // constant
	window  int   // constant
	target  int64 // constant: batchOfStream, in heist.Ticks
	ends    bool  // constant: the place's context may end
	yield   func(R, error) bool
	over    bool // yield must not be called any more

	worker    *pool.Worker
	scope     *pool.Scope
	filling   *batch[T, R]       // takes the next value
	look      int                // how many values it has at the next turn
	step      int                // how many values are taken without a look at the clock
	turned    int64              // when the last turn was over that did more than look at it
	unclaimed fifo[*batch[T, R]] // may be claimed meanwhile
	queue     fifo[*batch[T, R]] // to yield
	call      pool.Call          // the call that computes the stream
	yieldAll  func()             // yields the results of giving, and sets more if the range loop goes on
	giving    *batch[T, R]
	more      bool
	taken     int          // values in batches that are queued and not yielded
	size      int          // of the next batch
	alone     bool         // the next batch is likely to be short, and the consumer computes it at once
	each      float64      // what a value takes, in heist.Ticks
	ticks     int64        // what the values of all batches took that have been measured
	values    int64        // in these
	spare     *batch[T, R] // one that was not shared, and is delivered, or nil
	count     int64        // of batches
}

// batch is a number of values. number, in and shared are constant once it is queued; the worker that claims it writes the other
// fields until done is set.
type batch[T, R any] struct {
	number  int64
	in      []T
	out     []R // of the values before the one that failed
	err     error
	broken  bool  // f panicked
	shared  bool  // other workers may claim it; the consumer does not use it again
	took    int64 // in heist.Ticks
	claimed atomic.Bool
	done    atomic.Bool
	next    *batch[T, R] // in stream.finished
}

// compute computes a batch unless it is already claimed, and says whether it did. Any worker may call it.
func (s *stream[T, R]) compute(b *batch[T, R]) bool {
	if b.claimed.Load() || !b.claimed.CompareAndSwap(false, true) {
		return false
	}
	start := heist.Ticks()
	b.broken = true
	defer func() {
		b.took = heist.Ticks() - start
		b.done.Store(true)
		for !s.ordered {
			b.next = s.finished.Load()
			if s.finished.CompareAndSwap(b.next, b) {
				break
			}
		}
		select {
		case s.ended <- struct{}{}:
		default: // a signal is pending already, and the consumer looks after it has received that
		}
		if b.broken {
			if v := panics.Recovered(recover()); v != nil { // to arrive as a [*pool.PanicError] also if the consumer has computed
				_ = pool.Do(pool.Serial(), func(*pool.Worker) { panic(v) })
			}
		}
	}()
	b.out = slices.Grow(b.out[:0], len(b.in))
	for _, v := range b.in {
		if s.failedAt.Load() < b.number {
			break
		}
		r, err := s.f(s.ctx, v)
		if err != nil {
			b.err = err
			lower(&s.failedAt, b.number)
			break
		}
		b.out = append(b.out, r)
	}
	b.broken = false
	return true
}

// run says whether it has come to the end of the source and yielded all results. If not, the call was cancelled, which
// the scope then reports, or s.over is set.
func (s *stream[T, R]) run(w *pool.Worker, scope *pool.Scope, values iter.Seq[T]) bool {
	s.worker, s.scope, s.turned = w, scope, heist.Ticks()
	s.filling = s.newBatch()
	for v := range values {
		if s.ends && s.call.Cancelled() {
			return false
		}
		if s.filling.in = append(s.filling.in, v); len(s.filling.in) >= s.look && !s.turn() {
			return false
		}
	}
	if len(s.filling.in) > 0 {
		s.flush()
	}
	for s.taken > 0 {
		if s.call.Cancelled() || !s.deliver(true) {
			return false
		}
	}
	return true
}

// turn does what there is to do when the batch that is being filled has s.look values. It says whether to go on.
func (s *stream[T, R]) turn() bool {
	n := len(s.filling.in)
	full := s.taken+n >= s.window
	slow := heist.Ticks()-s.turned > s.target
	if s.step = min(2*s.step, mostUnseen); slow {
		s.step = 1
	}
	if n >= s.size || full || slow {
		if s.call.Cancelled() {
			return false
		}
		if n >= s.size || slow || s.taken == 0 {
			s.flush()
		}
		if !s.deliver(full) {
			return false
		}
		if s.filling == nil {
			s.filling = s.newBatch()
		}
		s.turned = heist.Ticks()
	}
	s.look = min(len(s.filling.in)+s.step, s.size, s.window-s.taken)
	return true
}

// flush queues the batch that is being filled, and computes it if no other worker is to hear of it.
func (s *stream[T, R]) flush() {
	full := s.filling
	s.filling = nil
	s.taken += len(full.in)
	full.shared = !s.alone
	if s.ordered {
		s.queue.push(full)
	}
	if s.alone {
		s.compute(full)
		return
	}
	for s.unclaimed.len() > 0 && s.unclaimed.first().claimed.Load() {
		s.unclaimed.pop()
	}
	s.unclaimed.push(full)
	if s.ended == nil {
		s.ended = make(chan struct{}, 1)
	}
	s.scope.Go(s.worker, func(*pool.Worker) { s.compute(full) })
	if s.values == 0 && s.count >= int64(2*s.worker.Pool().Workers()) {
		s.computeOldest()
	}
}

// deliver yields the batches that are ready. If must is set, it first waits until one is. It says whether to go on: not if the call was cancelled
// while it waited, since the window has no room for another value.
func (s *stream[T, R]) deliver(must bool) bool {
	for ; ; must = false {
		b := s.next()
		for b == nil && must && !s.call.Cancelled() {
			s.help()
			b = s.next()
		}
		if b == nil {
			return !must
		}
		s.taken -= len(b.in)
		if !s.give(b) {
			s.over = true
			return false
		}
		s.resize(b)
		if !b.shared {
			s.spare = b
		}
	}
}

// newBatch returns an empty batch, with the next number.
func (s *stream[T, R]) newBatch() *batch[T, R] {
	b := s.spare
	if s.spare = nil; b == nil {
		b = &batch[T, R]{}
	}
	clear(b.in)
	clear(b.out)
	*b = batch[T, R]{number: s.count, in: b.in[:0], out: b.out[:0]}
	if !s.alone {
		b.in = slices.Grow(b.in, s.size)
	}
	s.count++
	return b
}

// resize says how long batches are after one that was computed.
func (s *stream[T, R]) resize(b *batch[T, R]) {
	s.ticks += b.took
	s.values += int64(len(b.in))
	fits := s.target * int64(len(b.in)) / max(b.took, 1)
	s.size = int(min(max(fits, int64(s.size/2), 1), int64(s.window), mostBatch, 8*int64(s.size)))
	shared := max(1, min(s.size, s.window/4)) // how many values the next batch has if it is
	s.each = max(float64(b.took)/float64(len(b.in)), float64(s.ticks)/float64(s.values))
	if s.alone = s.short(shared) || s.short(1) && s.ticks < s.target; !s.alone {
		s.size = shared
	}
}

// short says whether a batch of so many values takes less than worthABatch.
func (s *stream[T, R]) short(values int) bool {
	return float64(values)*s.each < float64(heist.TicksIn(worthABatch))
}

// next takes the batch to yield next, or nil if that has not ended yet.
func (s *stream[T, R]) next() *batch[T, R] {
	if !s.ordered && s.queue.len() == 0 && s.finished.Load() != nil {
		for b := s.finished.Swap(nil); b != nil; b = b.next {
			s.queue.push(b)
		}
		slices.Reverse(s.queue.items) // the list has the newest first
	}
	if s.queue.len() == 0 || !s.queue.first().done.Load() {
		return nil
	}
	return s.queue.pop()
}

// help computes the oldest batch that is not claimed, or waits until one has ended.
func (s *stream[T, R]) help() {
	if !s.computeOldest() {
		s.worker.Block(func() { <-s.ended }) // all are claimed, and the workers that claimed them send
	}
}

// computeOldest computes the oldest batch that is not claimed, and says whether there was one.
func (s *stream[T, R]) computeOldest() bool {
	for s.unclaimed.len() > 0 {
		if b := s.unclaimed.pop(); s.compute(b) {
			s.resize(b)
			return true
		}
	}
	return false
}

// give yields the results of a batch, and says whether to go on.
func (s *stream[T, R]) give(b *batch[T, R]) bool {
	if b.broken { // the scope has the panic
		return false
	}
	s.giving, s.more = b, true
	s.call.Outside(s.yieldAll)
	return s.more
}

// yieldResults yields what is in s.giving. It is s.yieldAll, made once for all batches.
func (s *stream[T, R]) yieldResults() {
	for _, r := range s.giving.out {
		if s.more = s.yield(r, nil); !s.more {
			return
		}
	}
	if err := s.giving.err; err != nil {
		var none R
		s.more = false
		s.ctx.end(err)
		s.yield(none, err)
	}
}

// fifo is a queue, of constant cost for each item.
type fifo[E any] struct {
	items []E // those before head were popped
	head  int
}

func (q *fifo[E]) len() int { return len(q.items) - q.head }

func (q *fifo[E]) first() E { return q.items[q.head] }

func (q *fifo[E]) push(e E) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		q.items = slices.Delete(q.items, 0, q.head)
		q.head = 0
	}
	q.items = append(q.items, e)
}

func (q *fifo[E]) pop() (e E) {
	e, q.items[q.head] = q.items[q.head], e
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return e
}
