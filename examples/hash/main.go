// Hash shows a pipeline over files: it opens a bounded number at a time, reads and hashes them in parallel, and
// prints the SHA-256 sums in the order of the paths. A file that cannot be read is reported at the end.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/seed53057037/heist/examples/internal/cli"
	"github.com/seed53057037/heist/par"
	"github.com/seed53057037/heist/pool"
)

func main() { cli.Main(run, os.Interrupt, syscall.SIGTERM) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("hash", flag.ContinueOnError)
	open := flags.Int("open", 16, "this `number` of files may be open at a time, 1 or more")
	if err := cli.Parse(flags, "PATH ...", args, stdout); err != nil {
		return err
	}
	if *open < 1 {
		return cli.Usagef("-open is %d, want 1 or more", *open)
	}
	if flags.NArg() == 0 {
		return cli.Usagef("no path was given; name files or directories, such as .")
	}
	paths, problems := list(ctx, flags.Args())
	p, err := pool.New()
	if err != nil {
		return err
	}
	defer p.Close()
	h := hasher{pool: p, open: func(path string) (io.ReadCloser, error) { return os.Open(path) }}
	return errors.Join(append(problems, h.print(ctx, stdout, paths, *open))...)
}

// list returns the paths of all files in the trees, and the errors of what could not be read.
func list(ctx context.Context, roots []string) (paths []string, problems []error) {
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				problems = append(problems, err) // go on elsewhere
			case entry.Type().IsRegular():
				paths = append(paths, path)
			case path == root && !entry.IsDir():
				problems = append(problems, fmt.Errorf("%s is neither a file nor a directory; name what it leads to", path))
			}
			return nil
		})
	}
	return paths, problems
}

type hasher struct {
	pool    *pool.Pool
	open    func(path string) (io.ReadCloser, error)
	buffers sync.Pool
}

type result struct {
	path string
	sum  [sha256.Size]byte
	err  error
}

// print writes the sums to out. It returns the errors of single files when all others are done, or the error that ended
// it early.
func (h *hasher) print(ctx context.Context, out io.Writer, paths []string, open int) error {
	bar := newBar(len(paths))
	defer bar.Exit()
	var problems []error
	// The window bounds the open files: each belongs to a path whose result has not been yielded.
	for r, err := range par.Stream(h.pool.With(ctx), slices.Values(paths), open, h.sum) {
		if err != nil {
			return errors.Join(append(problems, fmt.Errorf("ended early: %w", err))...)
		}
		_ = bar.Clear()
		if r.err != nil {
			problems = append(problems, r.err)
		} else if _, err := fmt.Fprintf(out, "%x  %s\n", r.sum, r.path); err != nil {
			return errors.Join(append(problems, fmt.Errorf("writing results: %w", err))...)
		}
		_ = bar.Add(1)
	}
	return errors.Join(problems...)
}

// sum puts a file's error into its result, as an error of its own would end the stream.
func (h *hasher) sum(ctx context.Context, path string) (result, error) {
	sum, err := h.read(ctx, path)
	return result{path, sum, err}, nil
}

func (h *hasher) read(ctx context.Context, path string) (sum [sha256.Size]byte, err error) {
	var file io.ReadCloser
	h.pool.Block(func() { file, err = h.open(path) })
	if err != nil {
		return sum, err
	}
	defer file.Close()
	buffer, _ := h.buffers.Get().(*[256 << 10]byte)
	if buffer == nil {
		buffer = new([256 << 10]byte)
	}
	defer h.buffers.Put(buffer)
	hash := sha256.New()
	for ctx.Err() == nil {
		var n int
		h.pool.Block(func() { n, err = io.ReadFull(file, buffer[:]) }) // other workers hash meanwhile
		hash.Write(buffer[:n])
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return [sha256.Size]byte(hash.Sum(nil)), nil
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, context.Cause(ctx)
}

// newBar returns a progress bar that shows only on a terminal.
func newBar(n int) *progressbar.ProgressBar {
	return progressbar.NewOptions(n,
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetVisibility(n > 0 && term.IsTerminal(int(os.Stderr.Fd()))),
		progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish())
}
