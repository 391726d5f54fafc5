package suites

import (
	"errors"
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

// parseSuite measures a typical job: a few thousand pieces that take microseconds to
// tens of milliseconds and allocate.
func parseSuite(linked libraries) runner.Suite {
	return runner.Suite{
		Name:  "parse",
		About: "go/parser over Go's own source",
		Cases: []runner.Case{goSourceCase(linked)},
	}
}

// parseGCPercent is the garbage collector's setting while parsing. At Go's default
// of 100 collecting takes a large part of the time, on whichever CPU is free, and
// hides how well the work was shared.
const parseGCPercent = 400

// goSourceCase measures how long it takes to parse every .go file of the Go
// distribution, test data included, one task per file, in the order in which the
// file system walk finds them. The files are in memory before; the syntax trees are
// dropped. The pieces are uneven, a few files being thousands of times as long as
// others, so "static", an equal number of files for each worker, shows what
// balancing is worth. The checked answer is the number of files and of top-level
// declarations.
//
// Utilisation is the time that a worker spent in files, on the wall clock, divided
// by the time of the run. Time that the garbage collector and other processes take
// from a worker in the middle of a file counts as spent.
func goSourceCase(linked libraries) runner.Case {
	var c corpus
	impl := func(name string, start func(env runner.Env, c *corpus) (parseAll func(*parsing) error, stop func(), err error)) runner.Impl {
		return runner.Impl{
			Name: name,
			Start: func(env runner.Env) (runner.Run, func(), error) {
				parseAll, stop, err := start(env, &c)
				return func() (runner.Sample, error) { return c.run(env, parseAll) }, stop, err
			},
		}
	}
	return runner.Case{
		Name: "go-source",
		About: fmt.Sprintf("parse Go's own source (at a glance a sixteenth), one task per file, GC percent %d for all; time for all files",
			parseGCPercent),
		Metrics: lower("ms"),
		Workers: asked,
		Setup:   c.load,
		Impls: []runner.Impl{
			impl("heist", func(env runner.Env, c *corpus) (func(*parsing) error, func(), error) {
				p, stop, err := newPool(env)
				return func(all *parsing) error {
					g, _ := pool.NewGroup(p)
					for i := range c.files {
						// Tasks run on workers only, never on guests.
						g.GoWorker(func(w *pool.Worker) error {
							all.file(seat(w, env.Workers), i)
							return nil
						})
					}
					return g.Wait()
				}, stop, err
			}),
			impl("serial", func(env runner.Env, c *corpus) (func(*parsing) error, func(), error) {
				return func(all *parsing) error {
					for i := range c.files {
						all.file(0, i)
					}
					return nil
				}, nil, nil
			}),
			impl("errgroup", func(env runner.Env, c *corpus) (func(*parsing) error, func(), error) {
				ids := newIDs(env.Workers)
				return func(all *parsing) error {
					var g errgroup.Group
					g.SetLimit(env.Workers)
					for i := range c.files {
						g.Go(func() error {
							id := <-ids
							all.file(id, i)
							ids <- id
							return nil
						})
					}
					return g.Wait()
				}, nil, nil
			}),
			linking("ants", impl("ants", func(env runner.Env, c *corpus) (func(*parsing) error, func(), error) {
				t, err := linked.of("ants").Open(env.Workers)
				ids := newIDs(env.Workers)
				return func(all *parsing) error {
					var left sync.WaitGroup
					for i := range c.files {
						left.Add(1)
						err := t.Submit(1, func() {
							defer left.Done()
							id := <-ids
							all.file(id, i)
							ids <- id
						})
						if err != nil {
							return err
						}
					}
					left.Wait()
					return nil
				}, t.Stop, err
			})),
			impl("static", func(env runner.Env, c *corpus) (func(*parsing) error, func(), error) {
				return func(all *parsing) error {
					var workers sync.WaitGroup
					n := len(c.files)
					for id := range env.Workers {
						workers.Go(func() {
							for i := id * n / env.Workers; i < (id+1)*n/env.Workers; i++ {
								all.file(id, i)
							}
						})
					}
					workers.Wait()
					return nil
				}, nil, nil
			}),
		},
	}
}

// newIDs are numbers 0..n-1 for the workers of libraries that do not number them. A
// worker takes one when it starts on a file and puts it back afterwards. That costs
// well under a microsecond per file.
func newIDs(n int) chan int {
	ids := make(chan int, n)
	for id := range n {
		ids <- id
	}
	return ids
}

// corpus is the source to parse. It is in memory only while the case is measured: a
// hundred megabytes that stay would change how often the garbage collector runs in
// the suites that follow.
type corpus struct {
	files [][]byte
	want  parsed
}

// parsed is the answer of a run.
type parsed struct{ files, declarations int }

func (p parsed) String() string {
	return fmt.Sprintf("%d files with %d declarations", p.files, p.declarations)
}

// load reads the files, and parses them once for the expected answer.
func (c *corpus) load(env runner.Env) (teardown func(), err error) {
	each := 1
	if env.Glance {
		each = 16
	}
	c.files, err = goSource(env.Size(math.MaxInt, 60), each)
	if err != nil {
		return nil, err
	}
	percent := debug.SetGCPercent(parseGCPercent)
	c.want = parsed{files: len(c.files)}
	for _, src := range c.files {
		c.want.declarations += declarations(src)
	}
	return func() {
		debug.SetGCPercent(percent)
		*c = corpus{}
	}, nil
}

// goSource returns the contents of at most limit files, one out of each so many.
func goSource(limit, each int) ([][]byte, error) {
	root := build.Default.GOROOT
	if root == "" {
		return nil, errors.New("needs Go's source, and GOROOT is not known; set it in the environment")
	}
	var files [][]byte
	seen := 0
	err := filepath.WalkDir(filepath.Join(root, "src"), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case len(files) == limit:
			return fs.SkipAll
		case d.Type().IsRegular() && filepath.Ext(path) == ".go":
			if seen++; seen%each != 0 {
				return nil
			}
			src, err := os.ReadFile(path)
			files = append(files, src)
			return err
		}
		return nil
	})
	return files, err
}

// declarations parses a file and counts its top-level declarations. Some files are
// broken on purpose, to test compilers; the declarations that the parser finds count.
func declarations(src []byte) int {
	file, _ := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if file == nil {
		return 0
	}
	return len(file.Decls)
}

// parsing is one run over all files.
type parsing struct {
	files   [][]byte
	workers []shift // and one for the worker's stand-ins
}

// seat numbers the workers that run tasks: the pool's own number for its workers, and
// then one for the stand-in that may run a task in the place of a worker that sleeps.
func seat(w *pool.Worker, workers int) int { return min(w.ID(), workers) }

func seatName(i, workers int) string {
	if i == workers {
		return "Stand-in"
	}
	return fmt.Sprintf("Worker %d", i)
}

// shift is the work of one worker in a run. Only that worker writes it, and it has
// its cache lines to itself.
type shift struct {
	parsed
	busy time.Duration
	_    [128 - 24]byte
}

// file parses the i-th file on the worker with this number.
func (p *parsing) file(worker, i int) {
	start := time.Now()
	n := declarations(p.files[i])
	s := &p.workers[worker]
	s.files++
	s.declarations += n
	s.busy += time.Since(start)
}

func (c *corpus) run(env runner.Env, parseAll func(*parsing) error) (runner.Sample, error) {
	l, err := runner.Repeat(env.Time, func() (runner.Lap, error) {
		all := &parsing{files: c.files, workers: make([]shift, env.Workers+1)}
		l, err := timed(1, func() error { return parseAll(all) })
		if err != nil {
			return l, err
		}
		var got parsed
		for _, s := range all.workers {
			got.files += s.files
			got.declarations += s.declarations
		}
		l.Detail = utilisation(all.workers, l.Took)
		return l, runner.Check("Go's source", got, c.want)
	})
	return runner.Sample{Values: []float64{l.PerOp() / 1e6}, Detail: l.Detail}, err
}

// utilisation draws a bar for each worker: how much of the elapsed time it was busy.
func utilisation(shifts []shift, elapsed time.Duration) string {
	var bars strings.Builder
	var total float64
	workers := len(shifts) - 1
	for i, s := range shifts {
		if i == workers && s.files == 0 {
			continue
		}
		share := s.busy.Seconds() / elapsed.Seconds()
		total += share
		fmt.Fprintf(&bars, "%s: [%s] %3.0f%%  %v, %d files\n", seatName(i, workers),
			bar(share, 0), 100*share, s.busy.Round(time.Millisecond), s.files)
	}
	fmt.Fprintf(&bars, "Utilisation: %.0f%% of %v\n", 100*total/float64(workers), elapsed.Round(time.Millisecond))
	return bars.String()
}

// bar draws a share of the time as "=" and a second share after it as "~".
func bar(first, second float64) string {
	const width = 40
	end := func(share float64) int { return min(width, int(share*width+0.5)) }
	a, b := end(first), end(first+second)
	return strings.Repeat("=", a) + strings.Repeat("~", b-a) + strings.Repeat(" ", width-b)
}
