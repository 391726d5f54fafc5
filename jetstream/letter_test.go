package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/pool"
)

// TestNothingThatAJobAskedOfItsServerGoesAlongWithADeadLetter: the dead-letter stream would refuse such a letter each time, forget it soon, or delete all others.
func TestNothingThatAJobAskedOfItsServerGoesAlongWithADeadLetter(t *testing.T) {
	t.Parallel()
	js := newNode(t).connect()
	obeys := func(c *natsjs.StreamConfig) { c.AllowRollup, c.AllowMsgTTL = true, true }
	stream(t, js, "JOBS", "jobs", obeys)
	stream(t, js, "DEAD", "dead", obeys)
	for i, headers := range []nats.Header{
		{},
		{natsjs.ExpectedStreamHeader: {"JOBS"}},
		{natsjs.ExpectedLastSeqHeader: {"2"}, nats.MsgIdHdr: {"three"}},
		{natsjs.ExpectedLastMsgIDHeader: {"three"}},
		{natsjs.ExpectedLastSubjSeqHeader: {"0"}},
		{natsjs.MsgTTLHeader: {"1h"}},
		{natsjs.MsgRollup: {natsjs.MsgRollupSubject}},
		{HeaderStack: {"of an earlier letter"}, HeaderCut: {"stack"}, "nats-rollup": {"in the server's letters it would be an order"}},
	} {
		m := &nats.Msg{Subject: fmt.Sprint("jobs.", i), Header: headers, Data: fmt.Append(nil, i)}
		m.Header["Mine"] = []string{"one", "two"}
		_, err := js.PublishMsg(context.Background(), m)
		require.NoError(t, err)
	}
	w := run(t, js, Config{Pool: newPool(t), MaxDeliver: 1, DeadLetter: "dead", MaxRunning: 1}, func(*pool.Worker, *Job) error { return errors.New("planted") })
	requireDrained(t, js, "test")
	w.shutdown()
	letters := deadLetters(t, js)
	require.Len(t, letters, 8)
	for i, l := range letters {
		require.Equal(t, fmt.Sprint(i), string(l.Data))
		require.Equal(t, []string{"one", "two"}, l.Header["Mine"])
		require.Equal(t, "planted", l.Header.Get(HeaderError))
		require.Empty(t, l.Header.Get(HeaderStack))
		require.Empty(t, l.Header.Get(HeaderCut), "it is whole")
		for key := range l.Header {
			require.False(t, startsWith(key, "Nats-") && key != nats.MsgIdHdr, key)
		}
	}
}

// raw publishes a message as a client does that has its own opinion of headers.
func raw(t *testing.T, n *node, subject, headers, data string) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(n.url(), "nats://"))
	require.NoError(t, err)
	defer c.Close()
	headers = "NATS/1.0\r\n" + headers + "\r\n\r\n"
	_, err = fmt.Fprintf(c, "CONNECT {\"headers\":true,\"verbose\":false}\r\nHPUB %s %d %d\r\n%s%s\r\nPING\r\n", subject, len(headers), len(headers)+len(data), headers, data)
	require.NoError(t, err)
	var got []byte
	for !bytes.Contains(got, []byte("PONG")) {
		buffer := make([]byte, 4096)
		k, err := c.Read(buffer)
		require.NoError(t, err, "%s", got)
		got = append(got, buffer[:k]...)
	}
}

func TestADeadLetterThatTheServerDoesNotTakeWholeIsStoredInPartAndSaysSo(t *testing.T) {
	t.Parallel()
	const most = 100 << 10
	failure := errors.New(strings.Repeat("x", mostError))
	for name, test := range map[string]struct {
		limit   int32 // of the dead-letter stream, if it has one
		headers int
		odd     bool // a header that nats.go does not write
		id      int
		data    int
		stack   bool
		cut     string
		keeps   int // bytes of data at least
	}{
		"all of it":            {data: 1000, headers: 100, stack: true},
		"no room for a stack":  {data: most - 1200, headers: 100, stack: true, cut: "stack"},
		"long headers":         {data: 1000, headers: 64<<10 - 50, stack: true, cut: "stack, headers"},
		"long headers alone":   {data: 1000, headers: 64<<10 - 50, cut: "headers"},
		"odd headers":          {data: 1000, odd: true, stack: true, cut: "headers"},
		"odd and large":        {data: most - 1200, odd: true, stack: true, cut: "headers, stack"},
		"a long id":            {data: 1000, id: 63 << 10, stack: true},
		"no room at all":       {data: most, stack: true, cut: "stack, data after %d of 102400 bytes", keeps: most - 1000},
		"room for a brief one": {data: most - 1200, cut: ""},
		"a small stream":       {limit: 3 << 10, data: 10_000, headers: 100, stack: true, cut: "stack, headers, data after %d of 10000 bytes", keeps: 2000},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, func(o *server.Options) { o.MaxPayload = most })
			js := n.connect()
			stream(t, js, "JOBS", "jobs")
			stream(t, js, "DEAD", "dead", func(c *natsjs.StreamConfig) { c.MaxMsgSize = test.limit })
			data := strings.Repeat("d", test.data)
			if test.odd {
				raw(t, n, "jobs", "a b: c", data)
			} else {
				m := nats.NewMsg("jobs")
				m.Data = []byte(data)
				if test.headers > 0 {
					m.Header.Set("Mine", strings.Repeat("h", test.headers))
				}
				if test.id > 0 {
					m.Header.Set(nats.MsgIdHdr, strings.Repeat("i", test.id))
				}
				_, err := js.PublishMsg(context.Background(), m)
				require.NoError(t, err)
			}
			w := run(t, js, Config{Pool: newPool(t), MaxDeliver: 1, DeadLetter: "dead"}, func(*pool.Worker, *Job) error {
				if test.stack {
					panic("planted")
				}
				return failure
			})
			requireDrained(t, js, "test")
			w.shutdown()
			letters := deadLetters(t, js)
			require.Len(t, letters, 1)
			l := letters[0]
			if strings.Contains(test.cut, "%d") {
				require.Equal(t, fmt.Sprintf(test.cut, len(l.Data)), l.Header.Get(HeaderCut))
				require.GreaterOrEqual(t, len(l.Data), test.keeps)
				require.True(t, strings.HasPrefix(data, string(l.Data)))
			} else {
				require.Equal(t, test.cut, l.Header.Get(HeaderCut))
				require.Equal(t, data, string(l.Data))
			}
			require.Equal(t, test.headers > 0 && !strings.Contains(test.cut, "headers"), l.Header.Get("Mine") != "")
			require.Equal(t, test.stack && !strings.Contains(test.cut, "stack"), l.Header.Get(HeaderStack) != "")
			require.NotEmpty(t, l.Header.Get(HeaderError))
			require.NotEmpty(t, l.Header.Get(HeaderJob))
			require.Equal(t, "1", l.Header.Get(HeaderSequence))
			require.EqualValues(t, 1, w.Stats().Dead)
		})
	}
}
