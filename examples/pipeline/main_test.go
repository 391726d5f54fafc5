package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed53057037/heist/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runOn runs the program on a file and returns what it wrote.
func runOn(t *testing.T, text string) (string, error) {
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := run(t.Context(), []string{path}, &out)
	return out.String(), err
}

// objects returns so many lines, and what should become of them.
func objects(n int) (in, want string) {
	var a, b strings.Builder
	for i := range n {
		// Some lines take much longer than others.
		long := strings.Repeat("<&>", i%7*i%60)
		fmt.Fprintf(&a, "{ \"z\": %d.50, \"a\": %q }\n", i, long)
		fmt.Fprintf(&b, "{\"a\":%q,\"z\":%d.50}\n", long, i)
	}
	return a.String(), b.String()
}

func TestOrder(t *testing.T) {
	for _, n := range []int{0, 1, 3000} {
		in, want := objects(n)
		if got, err := runOn(t, in); err != nil || got != want {
			t.Errorf("%d lines: got %d bytes and error %v, want %d bytes", n, len(got), err, len(want))
		}
	}
}

func TestBadLine(t *testing.T) {
	for bad, want := range map[string]string{
		"{":                                  "line 1501 is no JSON",
		"":                                   "line 1501 is empty",
		"1 2":                                "line 1501 has more than one",
		"1 }":                                "line 1501 has more than one",
		strings.Repeat("[", 20000):           "line 1501 is no JSON",
		strings.Repeat("1", maxLine+1):       "line 1501: it has more than",
		"{}\n\"\x00\"\n" + "{}\n{]\nnothing": "line 1502 is no JSON",
	} {
		before, written := objects(1500)
		after, _ := objects(1500)
		got, err := runOn(t, before+bad+"\n"+after)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: got error %v, want one that begins with %q", bad, err, want)
		}
		if !strings.HasPrefix(got, written) || strings.Count(got[len(written):], "\n") > 1 {
			t.Errorf("%.20q: what was written is not the lines before it", bad)
		}
	}
}

// endless has a line again and again, without end.
type endless struct {
	line string
	rest string
}

func (e *endless) Read(b []byte) (int, error) {
	if e.rest == "" {
		e.rest = e.line
	}
	n := copy(b, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// full takes so many bytes.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errors.New("disk full")
	}
	return len(b), nil
}

func TestOutputFails(t *testing.T) {
	p, err := pool.New(pool.WithWorkers(4))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	// It would not return if it went on.
	err = process(p, &endless{line: "[1, 2]\n"}, &full{100_000})
	if err == nil || err.Error() != "disk full" {
		t.Errorf("got error %v, want that of the output, once", err)
	}
}

func TestContextEnds(t *testing.T) {
	p, err := pool.New()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	in := io.MultiReader(strings.NewReader(strings.Repeat("[]\n", 10_000)), readerFunc(func([]byte) (int, error) {
		cancel(stop)
		return 0, nil
	}), &endless{line: "[]\n"})
	if err := process(p.With(ctx), in, io.Discard); !errors.Is(err, stop) {
		t.Errorf("got error %v, want %v", err, stop)
	}
}

type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestReaderFails(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("1\n2\n"), readerFunc(func([]byte) (int, error) { return 0, broken }))
	var out strings.Builder
	err := process(pool.Serial(), in, &out)
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "line 3:") || out.String() != "1\n2\n" {
		t.Errorf("got %q and error %v, want two lines and that of the reader", &out, err)
	}
}

func TestUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"2 files":   {"a", "b"},
		"none":      {filepath.Join(t.TempDir(), "none")},
		"directory": {t.TempDir()},
		"-window":   {"-window", "1"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", args, err, want)
		}
	}
}
