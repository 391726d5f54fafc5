package suites

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/gauge"
	"github.com/seed53057037/heist/bench/internal/runner"
	"github.com/seed53057037/heist/pool"
)

// mixedSuite measures programs in the shapes of real ones, each with heist and with raw
// goroutines. With raw goroutines a loop is an even split among as many goroutines as there are
// workers, and work beside other work is a goroutine.
//
// ntt: number-theoretic transforms of 2^14, 2^16 and 2^18 elements of the field with
// 2^64 - 2^32 + 1 elements: a loop for each stage, and before them the permutation, with one half
// in a raw goroutine. There is one caller, or there are four at the same time, each with its own transform.
//
// msm: 16 tasks, the i-th of which has i + 1 parts of 50 us, and their sum, in order.
//
// fixed-cost: 20,000 elements of the field are inverted. A call of the loop's body inverts the
// product of its elements, and sets up for 0, 2 or 8 us besides. Serial is one call.
//
// raw-beside: between two loops of 200 us the caller starts a goroutine that computes for 400 us,
// does as much itself, and waits for the goroutine. Raw-us is how long that takes.
//
// compress: 64 blocks of 64 kB are compressed at the same time and written in order, by one
// caller and by four.
//
// format: 7711 files of 5 us each, with their output in order. Each second file is a task that waits
// for its predecessor; the caller waits for all files in order. A file that is not done holds 20 kB, in the small pieces of which
// a syntax tree is made: how often the collector runs depends on how many files are in flight.
//
// nested: 16 handlers, each with a loop whose 4 items start a goroutine each that calls a loop.
//
// crowded: 20 loops of 130 us in a row, while two other goroutines for each P in turn compute for 40 us
// and sleep for 20. Loop-us is how long the median loop takes.
//
// All answers are checked. The time is that of an operation, which is all of the above once, and the CPU time that of the
// process for each.
func mixedSuite() runner.Suite {
	s := runner.Suite{
		Name:  "mixed",
		About: "shapes of real programs, with heist and with raw goroutines",
	}
	for _, log := range []int{14, 16, 18} {
		for _, callers := range []int{1, 4} {
			s.Cases = append(s.Cases, mixedCase(fmt.Sprintf("ntt-%d-%d", log, callers),
				fmt.Sprintf("transforms of 2^%d elements, callers: %d", log, callers), nttProgram(log, callers)))
		}
	}
	s.Cases = append(s.Cases, mixedCase("msm", "16 uneven tasks and their sum", msmProgram))
	for _, setUp := range []time.Duration{0, 2 * time.Microsecond, 8 * time.Microsecond} {
		c := mixedCase(fmt.Sprintf("fixed-cost-%d", setUp/time.Microsecond),
			fmt.Sprintf("20,000 inversions in batches, and %v for each", setUp), inversionProgram(setUp))
		c.Impls = append(c.Impls, mixedImpl("serial", inversionProgram(setUp), func(runner.Env) (means, func(), error) {
			return means{loop: undivided}, nil, nil
		}))
		s.Cases = append(s.Cases, c)
	}
	s.Cases = append(s.Cases, mixedCase("raw-beside", "a raw goroutine and its starter between loops", besideProgram, "raw-us"))
	for _, callers := range []int{1, 4} {
		s.Cases = append(s.Cases, mixedCase(fmt.Sprintf("compress-%d", callers),
			fmt.Sprintf("64 blocks in order, callers: %d", callers), compressProgram(callers)))
	}
	s.Cases = append(s.Cases,
		mixedCase("format", "7711 files of 20 kB of garbage, half of them after their predecessors", formatProgram),
		mixedCase("nested", "handlers' loops that start goroutines that call loops", nestedProgram),
		mixedCase("crowded", "20 loops beside goroutines that compute", crowdedProgram, "loop-us"))
	s.Cases = runner.InBothStates(s.Cases)
	return s
}

// means are a program's ways to do several things at the same time.
type means struct {
	loop summing
	// async begins f; wait returns when f has ended.
	async func(f func()) (wait func() error)
}

// A program prepares once, and then do runs it again and again. Further are figures of the
// last run besides its time, in microseconds.
type program = programOf[means]

// programOf is a program that runs by means of type M.
type programOf[M any] func(env runner.Env) (do func(m M) (further []float64, err error), err error)

// mixedCase is a case with further metrics between the time and the CPU time.
func mixedCase(name, about string, p program, further ...string) runner.Case {
	pinned := mixedImpl("heist-pinned", p, onAPool(pool.WithPinning(pool.PinCores)))
	pinned.Costly = true
	return runner.Case{
		Name: name, About: about + "; time for all", Metrics: lower(slices.Concat([]string{"us"}, further, []string{"cpu-us"})...), Workers: asked,
		Impls: []runner.Impl{
			mixedImpl("heist", p, onAPool()),
			pinned,
			mixedImpl("go", p, func(env runner.Env) (means, func(), error) {
				return means{
					loop: func(n int, f func(lo, hi int)) error {
						divided(env.Workers, n, body{items: f})
						return nil
					},
					async: func(f func()) func() error {
						done := make(chan struct{})
						go func() { defer close(done); f() }()
						return func() error { <-done; return nil }
					},
				}, nil, nil
			}),
		},
	}
}

// onAPool has the means of a pool with the options.
func onAPool(options ...pool.Option) func(env runner.Env) (means, func(), error) {
	return func(env runner.Env) (means, func(), error) {
		p, stop, err := newPool(env, options...)
		if err != nil {
			return means{}, nil, err
		}
		return means{
			loop: func(n int, f func(lo, hi int)) error { return pool.ForRange(p, n, f) },
			async: func(f func()) func() error {
				future := pool.Async(p, func(*pool.Worker) (struct{}, error) { f(); return struct{}{}, nil })
				return func() error { _, err := future.Wait(context.Background()); return err }
			},
		}, stop, nil
	}
}

// mixedImpl runs a program by the given means. The figures of a run are medians.
func mixedImpl[M any](name string, p programOf[M], with func(runner.Env) (M, func(), error)) runner.Impl {
	var do func(M) ([]float64, error)
	return runner.Impl{Name: name, Start: func(env runner.Env) (runner.Run, func(), error) {
		if do == nil {
			var err error
			if do, err = p(env); err != nil {
				return nil, nil, err
			}
		}
		m, stop, err := with(env)
		if err != nil {
			return nil, nil, err
		}
		return func() (runner.Sample, error) {
			if _, err := do(m); err != nil { // to warm up
				return runner.Sample{}, err
			}
			var figures [][]float64         // by metric
			before, _ := gauge.UsageSoFar() // where there is an error, there is no figure either
			for start := time.Now(); figures == nil || time.Since(start) < env.Time; {
				began := time.Now()
				further, err := do(m)
				if err != nil {
					return runner.Sample{}, err
				}
				for i, x := range append([]float64{float64(time.Since(began)) / 1e3}, further...) {
					if i == len(figures) {
						figures = append(figures, nil)
					}
					figures[i] = append(figures[i], x)
				}
			}
			cpu := gauge.CPUMicros(before, len(figures[0]))
			var s runner.Sample
			for _, f := range figures {
				s.Values = append(s.Values, contract.Summarise(f).Median)
			}
			s.Values = append(s.Values, cpu...)
			return s, nil
		}, stop, nil
	}}
}

// together has several callers do the same at the same time.
func together(callers int, f func(caller int) error) error {
	var all errgroup.Group
	for i := range callers {
		all.Go(func() error { return f(i) })
	}
	return all.Wait()
}

// # The field

const (
	prime   = 1<<64 - 1<<32 + 1
	epsilon = 1<<32 - 1 // 2^64 modulo prime
)

func addMod(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 || sum >= prime {
		sum -= prime
	}
	return sum
}

func subMod(a, b uint64) uint64 {
	d, borrow := bits.Sub64(a, b, 0)
	if borrow != 0 {
		d += prime
	}
	return d
}

func mulMod(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	t, borrow := bits.Sub64(low, high>>32, 0) // 2^96 is -1
	if borrow != 0 {
		t -= epsilon
	}
	sum, carry := bits.Add64(t, high&epsilon*epsilon, 0)
	if carry != 0 {
		sum += epsilon
	}
	if sum >= prime {
		sum -= prime
	}
	return sum
}

func powMod(a, n uint64) uint64 {
	p := uint64(1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = mulMod(p, a)
		}
		a = mulMod(a, a)
	}
	return p
}

func elements(from, n int) []uint64 {
	s := make([]uint64, n)
	for i := range s {
		s[i] = random(from+i)%(prime-1) + 1
	}
	return s
}

// # The programs

// nttProgram transforms as many vectors as there are callers. They differ, or the CPU would foresee the branches of one caller's butterflies by those
// of another that has just done the same: goroutines, whose callers go on in step, then took 0.8 of the time of callers that divide nothing.
func nttProgram(log, callers int) program {
	return func(env runner.Env) (func(means) ([]float64, error), error) {
		log := env.Size(log, 6)
		n := 1 << log
		roots := make([]uint64, n/2) // powers of an n-th root of unity
		root := powMod(7, (prime-1)>>log)
		for i, r := 0, uint64(1); i < n/2; i, r = i+1, mulMod(r, root) {
			roots[i] = r
		}
		in, out, want := make([][]uint64, callers), make([][]uint64, callers), make([][]uint64, callers)
		for k := range in {
			in[k], out[k], want[k] = elements(k*n, n), make([]uint64, n), make([]uint64, n)
			if err := transform(means{loop: undivided}, want[k], in[k], roots, log); err != nil {
				return nil, err
			}
			// The first value must be the sum, and the last one the value at the inverse root.
			var sum, last uint64
			for i := n - 1; i >= 0; i-- {
				sum = addMod(sum, in[k][i])
				last = addMod(mulMod(last, powMod(root, uint64(n-1))), in[k][i])
			}
			if err := errors.Join(runner.Check("the first value", want[k][0], sum), runner.Check("the last value", want[k][n-1], last)); err != nil {
				return nil, err
			}
		}
		return func(m means) ([]float64, error) {
			err := together(callers, func(caller int) error { return transform(m, out[caller], in[caller], roots, log) })
			for k := range out {
				if err == nil && !slices.Equal(out[k], want[k]) {
					err = runner.Check("a transform", out[k][1], want[k][1])
				}
			}
			return nil, err
		}, nil
	}
}

func transform(m means, out, in, roots []uint64, log int) error {
	n := len(in)
	half := make(chan struct{})
	permute := func(lo, hi int) {
		for i := lo; i < hi; i++ {
			out[i] = in[bits.Reverse64(uint64(i))>>(64-log)]
		}
	}
	go func() { permute(0, n/2); close(half) }()
	permute(n/2, n)
	<-half
	for stage := range log {
		width := 1 << stage // of half a butterfly's block
		err := m.loop(n/2, func(lo, hi int) {
			for k := lo; k < hi; k++ {
				at := k & (width - 1)
				i := (k-at)<<1 + at
				a, b := out[i], mulMod(out[i+width], roots[at<<(log-1-stage)])
				out[i], out[i+width] = addMod(a, b), subMod(a, b)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func msmProgram(env runner.Env) (func(means) ([]float64, error), error) {
	part := gauge.NewChore(env.Size(gauge.Rounds(50*time.Microsecond), 100))
	return func(m means) ([]float64, error) {
		var right [16]int
		var waits []func() error
		for i := range right {
			waits = append(waits, m.async(func() {
				for range i + 1 {
					if part.Do() {
						right[i]++
					}
				}
			}))
		}
		sum := 0
		for i, wait := range waits {
			if err := wait(); err != nil {
				return nil, err
			}
			sum = 3*sum + right[i]
		}
		want := 0
		for i := range right {
			want = 3*want + i + 1
		}
		return nil, runner.Check("the sum", sum, want)
	}, nil
}

func inversionProgram(setUp time.Duration) program {
	return func(env runner.Env) (func(means) ([]float64, error), error) {
		in := elements(0, env.Size(20_000, 500))
		out := make([]uint64, len(in))
		var cost gauge.Chore
		if setUp > 0 {
			cost = gauge.NewChore(gauge.Rounds(setUp))
		}
		return func(m means) ([]float64, error) {
			var wrong atomic.Bool
			err := m.loop(len(in), func(lo, hi int) {
				if setUp > 0 && !cost.Do() {
					wrong.Store(true)
				}
				product := uint64(1)
				for i := lo; i < hi; i++ {
					out[i] = product
					product = mulMod(product, in[i])
				}
				product = powMod(product, prime-2)
				for i := hi - 1; i >= lo; i-- {
					out[i], product = mulMod(out[i], product), mulMod(product, in[i])
				}
			})
			if err != nil || wrong.Load() {
				return nil, errors.Join(err, runner.Check("a set-up was wrong", wrong.Load(), false))
			}
			for i := 0; i < len(in); i += 37 {
				if x := mulMod(in[i], out[i]); x != 1 {
					return nil, runner.Check("an element by its inverse", x, 1)
				}
			}
			return nil, nil
		}, nil
	}
}

func besideProgram(env runner.Env) (func(means) ([]float64, error), error) {
	item, raw := gauge.NewChore(env.Size(gauge.Rounds(time.Microsecond), 10)), gauge.NewChore(env.Size(gauge.Rounds(400*time.Microsecond), 100))
	return func(m means) ([]float64, error) {
		var right atomic.Int64
		count := func(c *gauge.Chore) {
			if c.Do() {
				right.Add(1)
			}
		}
		loop := func() error {
			return m.loop(200, func(lo, hi int) {
				for range hi - lo {
					count(&item)
				}
			})
		}
		err := loop()
		start := time.Now()
		done := make(chan struct{})
		go func() { count(&raw); close(done) }()
		count(&raw)
		<-done
		took := time.Since(start)
		err = errors.Join(err, loop(), runner.Check("the parts that were right", right.Load(), 402))
		return []float64{float64(took) / 1e3}, err
	}, nil
}

func compressProgram(callers int) program {
	return func(env runner.Env) (func(means) ([]float64, error), error) {
		blocks, size := env.Size(64, 3), env.Size(64<<10, 1<<10)
		text := make([]byte, 0, blocks*size)
		for i := 0; len(text) < cap(text); i++ {
			text = append(text, fmt.Sprintf("%d is the square of %d; ", i*i, i)[:min(12, cap(text)-len(text))]...)
		}
		squeezers := sync.Pool{New: func() any {
			w, _ := flate.NewWriter(nil, flate.BestSpeed) // it fails only for an unknown level
			return w
		}}
		squeeze := func(block []byte) []byte {
			var out bytes.Buffer
			w := squeezers.Get().(*flate.Writer)
			w.Reset(&out)
			_, err := w.Write(block)
			if err = errors.Join(err, w.Close()); err != nil {
				panic(err) // a Buffer takes everything
			}
			squeezers.Put(w)
			return out.Bytes()
		}
		return func(m means) ([]float64, error) {
			return nil, together(callers, func(int) error {
				squeezed := make([][]byte, blocks)
				var waits []func() error
				for i := range squeezed {
					waits = append(waits, m.async(func() { squeezed[i] = squeeze(text[i*size:][:size]) }))
				}
				for i, wait := range waits {
					if err := wait(); err != nil {
						return err
					}
					if i%16 == 0 { // the check must not cost more than the work
						got, err := io.ReadAll(flate.NewReader(bytes.NewReader(squeezed[i])))
						if err != nil || !bytes.Equal(got, text[i*size:][:size]) {
							return errors.Join(err, runner.Wrong{What: "a block", Got: len(got), Want: size})
						}
					}
				}
				return nil
			})
		}, nil
	}
}

// syntax is a piece of the tree of a file, as large as those of go/ast, and treeSize how many a file has.
type syntax struct {
	next *syntax
	_    [4]uint64
}

const treeSize = 500

func newTree() (root *syntax) {
	for range treeSize {
		root = &syntax{next: root}
	}
	return root
}

func (s *syntax) size() (n int) {
	for ; s != nil; s = s.next {
		n++
	}
	return n
}

func formatProgram(env runner.Env) (func(means) ([]float64, error), error) {
	files := env.Size(7711, 50)
	work := gauge.NewChore(env.Size(gauge.Rounds(5*time.Microsecond), 10))
	return func(m means) ([]float64, error) {
		var right atomic.Int64
		waits := make([]func() error, files)
		for i := range files {
			waits[i] = m.async(func() {
				tree := newTree()
				ok := work.Do()
				if i%2 == 1 { // its output follows its predecessor's
					ok = waits[i-1]() == nil && ok
				}
				if ok && tree.size() == treeSize {
					right.Add(1)
				}
			})
		}
		for i := range files {
			if err := waits[i](); err != nil {
				return nil, err
			}
		}
		return nil, runner.Check("the files", right.Load(), int64(files))
	}, nil
}

func nestedProgram(env runner.Env) (func(means) ([]float64, error), error) {
	const handlers, items, inner = 16, 4, 64
	work := gauge.NewChore(env.Size(gauge.Rounds(time.Microsecond), 10))
	return func(m means) ([]float64, error) {
		var right atomic.Int64
		var failed atomic.Pointer[error]
		note := func(err error) {
			if err != nil {
				failed.Store(&err)
			}
		}
		err := together(handlers, func(int) error {
			return m.loop(items, func(lo, hi int) {
				var all sync.WaitGroup
				for range hi - lo {
					all.Go(func() {
						note(m.loop(inner, func(lo, hi int) {
							for range hi - lo {
								if work.Do() {
									right.Add(1)
								}
							}
						}))
					})
				}
				all.Wait()
			})
		})
		if other := failed.Load(); other != nil {
			err = errors.Join(err, *other)
		}
		return nil, errors.Join(err, runner.Check("the items", right.Load(), handlers*items*inner))
	}, nil
}

func crowdedProgram(env runner.Env) (func(means) ([]float64, error), error) {
	item, other := gauge.NewChore(env.Size(gauge.Rounds(time.Microsecond), 10)), gauge.NewChore(env.Size(gauge.Rounds(40*time.Microsecond), 100))
	return func(m means) ([]float64, error) {
		var over, wrong atomic.Bool
		var crowd sync.WaitGroup
		defer crowd.Wait()
		defer over.Store(true)
		for range 2 * runtime.GOMAXPROCS(0) {
			crowd.Go(func() {
				for !over.Load() {
					if !other.Do() {
						wrong.Store(true)
					}
					time.Sleep(20 * time.Microsecond)
				}
			})
		}
		const loops, items = 20, 130
		var right atomic.Int64
		var took []float64
		for range loops {
			start := time.Now()
			err := m.loop(items, func(lo, hi int) {
				for range hi - lo {
					if item.Do() {
						right.Add(1)
					}
				}
			})
			if err != nil {
				return nil, err
			}
			took = append(took, float64(time.Since(start))/1e3)
		}
		return []float64{contract.Summarise(took).Median}, errors.Join(runner.Check("the items", right.Load(), loops*items),
			runner.Check("a chore of the crowd was wrong", wrong.Load(), false))
	}, nil
}
