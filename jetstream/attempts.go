package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed53057037/heist/pool"
)

// # Attempts
//
// The server counts the deliveries of a job, whether it began or not. How often it has begun stands in a bucket, under its
// sequence: a job that succeeds at its first delivery costs nothing. An entry is the number of attempts and, if the last
// one ended with an error, the word "answered" and that error. Without an entry the job may have begun once, in a process that died; as it may
// also have been given back, that attempt does not count. If no answer is known, the job is a suspect.

const (
	answered  = " answered "
	mostError = 2 << 10 // bytes of an error that are kept
)

// pastAttempts finds out how often a job has begun before, and whether it is a suspect. It returns the revision of what is known.
func (w *Worker) pastAttempts(pw *pool.Worker, j *Job) (revision uint64, err error) {
	var entry natsjs.KeyValueEntry
	pw.Block(func() {
		if entry, err = w.bucket().Get(j.ctx, j.attemptsKey()); err == nil || errors.Is(err, natsjs.ErrKeyNotFound) {
			return
		}
		if err = w.reopen(j.ctx); err == nil { // it may have been removed
			entry, err = w.bucket().Get(j.ctx, j.attemptsKey())
		}
	})
	switch {
	case errors.Is(err, natsjs.ErrKeyNotFound):
		j.attempt, j.suspect = 1, true
		return 0, nil
	case err != nil:
		return 0, err
	}
	number, text, ended := strings.Cut(string(entry.Value()), answered)
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0, fmt.Errorf("the bucket %s has %q for it: %w", w.config.AttemptsBucket(), entry.Value(), err)
	}
	j.attempt, j.suspect, j.lastErr = n+1, !ended, text
	return entry.Revision(), nil
}

// writeAttempt writes down that the job begins now. It fails if another process did so meanwhile.
func (w *Worker) writeAttempt(pw *pool.Worker, j *Job, revision uint64) (err error) {
	pw.Block(func() {
		_, err = w.bucket().Update(j.ctx, j.attemptsKey(), []byte(strconv.Itoa(j.attempt)), revision)
	})
	return err
}

// writeAnswer writes down that an attempt ended with an error, so the job is no suspect.
func (w *Worker) writeAnswer(pw *pool.Worker, j *Job, attempt int, reason error) {
	if w.bucket() == nil {
		return
	}
	var err error
	pw.Block(func() {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		_, err = w.bucket().Put(ctx, j.attemptsKey(), []byte(strconv.Itoa(attempt)+answered+brief(reason.Error(), mostError)))
	})
	if err != nil {
		w.config.OnError(fmt.Errorf("jetstream: the attempt of job %s was not written down, so it will run alone the next time; is the bucket %s there, and may these credentials publish to $KV.>?: %w", j.ID(), w.config.AttemptsBucket(), err))
	}
}

func brief(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

func (w *Worker) bucket() natsjs.KeyValue {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.attempts
}

// reopen opens the bucket of attempts anew, and makes it if it is gone.
func (w *Worker) reopen(ctx context.Context) error {
	bucket, err := w.config.attempts(ctx, w.js, w.replicas)
	if err == nil {
		w.mu.Lock()
		w.attempts = bucket
		w.mu.Unlock()
	}
	return err
}

// attemptsKey tells jobs of one consumer apart, those of an older stream of the same name too.
func (j *Job) attemptsKey() string { return j.worker.born + "." + strconv.FormatUint(j.sequence, 10) }

// giveBackToOthers gives back jobs that the worker has too many of. It is certain that those of a first delivery have not begun, which is written
// down so that they are no suspects.
func (w *Worker) giveBackToOthers(jobs []*Job) {
	if bucket := w.bucket(); bucket != nil {
		for _, j := range jobs {
			if j.delivery == 1 {
				ctx, cancel := context.WithTimeout(context.Background(), answerTime)
				_, _ = bucket.Create(ctx, j.attemptsKey(), []byte("0"+answered)) // without it they are suspects, and run one at a time
				cancel()
			}
		}
	}
	w.giveBack(jobs...)
}

// isNextSuspect says whether a suspect may run. If not it is in the line, and unstarted once more.
func (w *Worker) isNextSuspect(j *Job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.suspect == nil {
		w.suspect = j
		return true
	}
	w.ended()
	w.queued++
	j.lane.waiting++
	w.line = append(w.line, j)
	return false
}

// nextSuspect lets the first of the line run if no suspect does but j, which is over. All that may have been in the line call it, for
// one that comes from there may fail before it is found to be a suspect again. What came into the line after the worker's end is given back.
func (w *Worker) nextSuspect(j *Job) {
	w.mu.Lock()
	if w.suspect == j {
		w.suspect = nil
	}
	if w.suspect != nil || len(w.line) == 0 {
		w.mu.Unlock()
		return
	}
	next := w.line[0]
	w.line = w.line[1:]
	if w.ending() {
		w.queued--
		next.lane.waiting--
		w.mu.Unlock()
		w.giveBack(next)
		w.nextSuspect(j)
		return
	}
	next.lane.queue = slices.Insert(next.lane.queue, 0, next)
	w.mu.Unlock()
	w.submit(next.lane)
}
