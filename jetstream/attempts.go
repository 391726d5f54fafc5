package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed53057037/heist/pool"
)

// # Attempts
//
// The server counts the deliveries of a job, whether it began or not. How often it has begun stands in a bucket, under its
// sequence, from the second time on: a job that succeeds at once costs nothing. An entry is the number of attempts, and
// the word "answered" if the last one ended with an error. If there is none, or no such word, the job is a suspect.

const answered = " answered"

// pastAttempts finds out how often a job has begun before, and whether it is a suspect. It returns the revision of what is known.
func (w *Worker) pastAttempts(pw *pool.Worker, j *Job) (revision uint64, err error) {
	var entry natsjs.KeyValueEntry
	pw.Block(func() { entry, err = w.attempts.Get(j.ctx, j.sequenceKey()) })
	switch {
	case errors.Is(err, natsjs.ErrKeyNotFound):
		j.attempt, j.suspect = 2, true
		return 0, nil
	case err != nil:
		return 0, err
	}
	number, ended := strings.CutSuffix(string(entry.Value()), answered)
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0, fmt.Errorf("the bucket %s has %q for it: %w", w.attempts.Bucket(), entry.Value(), err)
	}
	j.attempt, j.suspect = n+1, !ended
	return entry.Revision(), nil
}

// writeAttempt writes down that the job begins now. It fails if another process did so meanwhile.
func (w *Worker) writeAttempt(pw *pool.Worker, j *Job, revision uint64) (err error) {
	pw.Block(func() {
		_, err = w.attempts.Update(j.ctx, j.sequenceKey(), []byte(strconv.Itoa(j.attempt)), revision)
	})
	return err
}

// clear writes down that an attempt ended with an error, so the job is no suspect.
func (w *Worker) clear(pw *pool.Worker, j *Job) {
	if w.attempts == nil {
		return
	}
	var err error
	pw.Block(func() {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		_, err = w.attempts.Put(ctx, j.sequenceKey(), []byte(strconv.Itoa(j.attempt)+answered))
	})
	if err != nil {
		w.config.OnError(fmt.Errorf("jetstream: the attempt of job %s was not written down, so it will run alone the next time: %w", j.id, err))
	}
}

func (j *Job) sequenceKey() string { return strconv.FormatUint(j.sequence, 10) }

// isNextSuspect says whether a suspect may run. If not it is in the line, and unstarted once more.
func (w *Worker) isNextSuspect(j *Job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.suspect == nil {
		w.suspect = j
		return true
	}
	j.begun = false
	w.begun--
	w.queued++
	w.waiting[j.lane]++
	w.line = append(w.line, j)
	return false
}

// nextSuspect lets the first of the line run if no suspect does but j, which is over. All that may have been in the line call it, for
// one that comes from there may fail before it is found to be a suspect again.
func (w *Worker) nextSuspect(j *Job) {
	w.mu.Lock()
	if w.suspect == j {
		w.suspect = nil
	}
	var next *Job
	if w.suspect == nil && len(w.line) > 0 {
		next, w.line = w.line[0], w.line[1:]
	}
	w.mu.Unlock()
	if next != nil {
		w.submit(next)
	}
}
