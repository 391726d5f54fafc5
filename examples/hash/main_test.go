package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed53057037/heist/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree writes files and returns what their sums should be printed as.
func tree(t *testing.T) (root, want string) {
	root = t.TempDir()
	for i, size := range []int{0, 1, 1000, 256 << 10, 256<<10 + 1, 700_000, 3, 5, 8} {
		path := filepath.Join(root, fmt.Sprintf("d%d", i/3), fmt.Sprintf("f%d", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		content := bytes.Repeat([]byte{byte(i + 1)}, size)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf("%x  %s\n", sha256.Sum256(content), path)
	}
	return root, want
}

func TestSums(t *testing.T) {
	root, want := tree(t)
	for _, open := range []string{"1", "2", "16"} {
		var out strings.Builder
		if err := run(t.Context(), []string{"-open", open, root}, &out); err != nil {
			t.Error(err)
		}
		if out.String() != want {
			t.Errorf("-open %s: got\n%swant\n%s", open, &out, want)
		}
	}
}

func TestErrorsComeAtTheEnd(t *testing.T) {
	root, want := tree(t)
	var out strings.Builder
	err := run(t.Context(), []string{filepath.Join(root, "none"), root, filepath.Join(root, "never")}, &out)
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "none") || !strings.Contains(err.Error(), "never") {
		t.Errorf("got error %v, want a line for each path that is not there", err)
	}
}

// content is a file that counts as open until it is closed.
type content struct {
	io.Reader
	open *atomic.Int32
}

func (c content) Close() error {
	c.open.Add(-1)
	return nil
}

func newHasher(t *testing.T, open func(path string) (io.ReadCloser, error)) *hasher {
	p, err := pool.New(pool.WithWorkers(4))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return &hasher{pool: p, open: open}
}

func numbers(n int) (paths []string) {
	for i := range n {
		paths = append(paths, fmt.Sprint(i))
	}
	return paths
}

func TestFewAreOpen(t *testing.T) {
	var open, most atomic.Int32
	h := newHasher(t, func(path string) (io.ReadCloser, error) {
		now := open.Add(1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		return content{io.LimitReader(strings.NewReader(strings.Repeat(path, 1000)), 1000), &open}, nil
	})
	for _, bound := range []int32{1, 3} {
		most.Store(0)
		if err := h.print(t.Context(), io.Discard, numbers(500), int(bound)); err != nil {
			t.Error(err)
		}
		if open.Load() != 0 || most.Load() < 1 || most.Load() > bound {
			t.Errorf("%d files are open, %d were at a time, want 0 and at most %d", open.Load(), most.Load(), bound)
		}
	}
}

func TestUnreadable(t *testing.T) {
	h := newHasher(t, func(path string) (io.ReadCloser, error) {
		if strings.HasSuffix(path, "3") {
			return nil, fmt.Errorf("%s is locked", path)
		}
		return io.NopCloser(strings.NewReader(path)), nil
	})
	var out strings.Builder
	err := h.print(t.Context(), &out, numbers(20), 4)
	if err == nil || err.Error() != "3 is locked\n13 is locked" {
		t.Errorf("got error %v, want those of 3 and 13", err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 18 {
		t.Errorf("got %d sums, want the other 18", lines)
	}
}

func TestEndsEarly(t *testing.T) {
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	var opened atomic.Int32
	h := newHasher(t, func(string) (io.ReadCloser, error) {
		if opened.Add(1) == 5 {
			cancel(interrupted)
		}
		return io.NopCloser(strings.NewReader("")), nil
	})
	if err := h.print(ctx, io.Discard, numbers(100_000), 4); !errors.Is(err, interrupted) {
		t.Errorf("got error %v, want %v", err, interrupted)
	}
	if opened.Load() == 100_000 {
		t.Error("all files were opened")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestOutputFails(t *testing.T) {
	root, _ := tree(t)
	if err := run(t.Context(), []string{root}, full{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got error %v, want that of the output", err)
	}
}

func TestUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"no path was given": nil,
		"want 1 or more":    {"-open", "0", "."},
		"invalid value":     {"-open", "many", "."},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", args, err, want)
		}
	}
}
