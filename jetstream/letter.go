package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/seed53057037/heist/pool"
)

// # Dead letters
//
// A dead letter has the job's data and headers, and headers that say what happened. Two kinds of headers are left out: those that begin
// with Nats- tell the server what to do with a message, such as to store it only after another one, to forget it soon, or to delete
// all others of its subject; those that begin with Heist- are of an earlier dead letter, which somebody has published as a job again.
//
// A letter is larger than its job, so the server may take the job but not the letter. A job that is refused for that is
// refused each time, so it is buried in part: without the stack, then without the job's headers, then without the end of its data. HeaderCut says what is missing.

// The headers of a dead letter. Values that are long end with "...".
const (
	HeaderError    = "Heist-Error"    // in one line
	HeaderStack    = "Heist-Stack"    // of a panic, in one line
	HeaderJob      = "Heist-Job"      // the job's ID
	HeaderSubject  = "Heist-Subject"  // to which the job was published
	HeaderStream   = "Heist-Stream"   // of the job
	HeaderSequence = "Heist-Sequence" // in that stream
	HeaderDelivery = "Heist-Delivery" // the number of deliveries that began

	// HeaderCut says what is missing because the server does not take it: "stack", "headers" (those of the job) and "data after 900 of 1024
	// bytes", with commas between them. A whole dead letter has no such header.
	HeaderCut = "Heist-Cut"
)

const (
	// mostStack bounds a stack, in bytes. The server takes 64 kB of headers, and the default max_payload is a megabyte.
	mostStack = 32 << 10

	// leastText bounds the error and the job's ID where they would take the room of its data.
	leastText = 128
)

// bury publishes a job as a dead letter, and ends it when the dead-letter stream has it. A job that cannot be stored
// there, or for which there is no such stream, is refused with the longest delay.
func (w *Worker) bury(pw *pool.Worker, j *Job, reason error, stack []byte) {
	if w.config.DeadLetter == "" {
		w.refuse(j, fmt.Errorf("it is no dead letter, for Config.DeadLetter is empty: %w", reason))
		return
	}
	var err error
	pw.Block(func() { err = w.publishLetter(j, reason.Error(), string(stack)) })
	if err != nil {
		w.writeAnswer(pw, j, max(j.attempt, w.config.MaxDeliver), reason) // so that it is not run again
		w.refuse(j, fmt.Errorf("it failed with %q, and is no dead letter yet, for the stream of %s did not take it; is that stream there, has it room, and may these credentials publish to it?: %w",
			brief(reason.Error(), mostError), w.config.DeadLetter, err))
		return
	}
	w.counts.dead.Add(1)
	w.tell(j, j.message.Respond([]byte("+TERM dead letter")))
}

// letter is a dead letter, whole or in part.
type letter struct {
	worker        *Worker
	job           *Job
	headers       nats.Header // of the job, those that are kept
	reason, stack string
	most          int // bytes of the error, and of the job's ID, which may be as long as all headers together
	data          []byte
	cut           []string // what is missing, for HeaderCut
}

// publishLetter publishes a job's dead letter, or what the server takes of it.
func (w *Worker) publishLetter(j *Job, reason, stack string) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	l := &letter{w, j, nats.Header{}, reason, brief(stack, mostStack), mostError, j.Data(), nil}
	for key, values := range j.Header() {
		if !startsWith(key, "Nats-") && !startsWith(key, "Heist-") {
			l.headers[key] = values
		}
	}
	err := l.publish(ctx)
	if errors.Is(err, nats.ErrBadHeaderMsg) { // nats.go reads keys of other clients that it does not write
		l.headers, l.cut = nil, append(l.cut, "headers")
		err = l.publish(ctx)
	}
	if tooLarge(err) && l.stack != "" {
		l.stack, l.cut = "", append(l.cut, "stack")
		err = l.publish(ctx)
	}
	if tooLarge(err) && len(l.headers) > 0 {
		l.headers, l.cut = nil, append(l.cut, "headers")
		err = l.publish(ctx)
	}
	if !tooLarge(err) {
		return err
	}
	all, missing := l.data, l.cut
	dataAfter := func(n int) []string {
		return append(slices.Clip(missing), fmt.Sprintf("data after %d of %d bytes", n, len(all)))
	}
	l.most, l.cut = leastText, dataAfter(len(all)) // as many digits as there can be
	others := l.size() - len(all)
	for most := l.limit(ctx); tooLarge(err) && most > 0; most /= 2 { // a server on the way may have a limit of its own
		l.data, l.cut = all, missing
		if n := max(most-others, 0); n < len(all) {
			l.data, l.cut = all[:n], dataAfter(n)
		}
		err = l.publish(ctx)
	}
	return err
}

func (l *letter) publish(ctx context.Context) error {
	_, err := l.worker.js.PublishMsg(ctx, l.message())
	return err
}

func (l *letter) message() *nats.Msg {
	j := l.job
	m := nats.NewMsg(l.worker.config.DeadLetter)
	m.Data = l.data
	maps.Copy(m.Header, l.headers)
	for key, value := range map[string]string{
		nats.MsgIdHdr: "dead/" + l.worker.Name() + "/" + j.attemptsKey(),
		HeaderError:   brief(l.reason, l.most), HeaderStack: l.stack, HeaderJob: brief(j.ID(), l.most), HeaderSubject: j.Subject(), HeaderStream: l.worker.config.Stream,
		HeaderSequence: strconv.FormatUint(j.sequence, 10), HeaderDelivery: strconv.Itoa(j.attempt), HeaderCut: strings.Join(l.cut, ", "),
	} {
		if value != "" {
			m.Header.Set(key, headerText(value))
		}
	}
	return m
}

// size returns the bytes of headers and data, which is what servers and streams limit.
func (l *letter) size() int {
	m := l.message()
	return m.Size() - len(m.Subject)
}

// limit returns the most bytes that the connection and the dead-letter stream take.
func (l *letter) limit(ctx context.Context) int {
	js := l.worker.js
	most := int(js.Conn().MaxPayload())
	name, err := js.StreamNameBySubject(ctx, l.worker.config.DeadLetter)
	if err != nil {
		return most
	}
	if s, err := js.Stream(ctx, name); err == nil && s.CachedInfo().Config.MaxMsgSize > 0 {
		most = min(most, int(s.CachedInfo().Config.MaxMsgSize))
	}
	return most
}

// tooLarge says whether a server or a stream refuses a message for its size or that of its headers.
func tooLarge(err error) bool {
	const messageExceeds, headersExceed natsjs.ErrorCode = 10054, 10097 // JSStreamMessageExceedsMaximumErr and JSStreamHeaderExceedsMaximumErr of the server
	var refused *natsjs.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &refused) && (refused.ErrorCode == messageExceeds || refused.ErrorCode == headersExceed)
}

func startsWith(key, prefix string) bool {
	return len(key) >= len(prefix) && strings.EqualFold(key[:len(prefix)], prefix)
}

// headerText makes text fit into a header, whose lines end it.
func headerText(s string) string {
	return strings.NewReplacer("\r", "", "\n", " | ", "\t", " ").Replace(s)
}
