package par

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed53057037/heist/internal/testutil"
	"github.com/seed53057037/heist/internal/testutil/pools"
	"github.com/seed53057037/heist/pool"
)

// errForms has every form whose function may fail, over the items 0 to n-1. Each calls f for items and returns
// what the form returns besides an error, and what the form that cannot fail returns.
func errForms(n int) map[string]func(at pool.Place, f func(ctx context.Context, i int) error) (got, want any, err error) {
	items := count(n)
	even := func(i int) bool { return i%2 == 0 }
	negative := func(int) bool { return false }
	type failing = func(ctx context.Context, i int) error
	type form = func(at pool.Place, f failing) (got, want any, err error)
	is := func(f failing, what func(int) bool) func(context.Context, int) (bool, error) {
		return func(ctx context.Context, i int) (bool, error) { return what(i), f(ctx, i) }
	}
	wanted := func(got any, err error, want any, other error) (any, any, error) {
		if other != nil {
			panic(other)
		}
		return got, want, err
	}
	serial := func() []bool { return make([]bool, n) }
	all := func() []bool { return slices.Repeat([]bool{true}, n) }
	return map[string]form{
		"ForErr": func(at pool.Place, f failing) (any, any, error) {
			done := serial()
			err := ForErr(at, n, func(ctx context.Context, i int) error { done[i] = true; return f(ctx, i) })
			return done, all(), err
		},
		"ForRangeErr": func(at pool.Place, f failing) (any, any, error) {
			done := serial()
			err := ForRangeErr(at, n, func(ctx context.Context, lo, hi int) (err error) {
				for i := lo; i < hi && err == nil; i++ {
					done[i] = true
					err = f(ctx, i)
				}
				return err
			})
			return done, all(), err
		},
		"ForEachErr": func(at pool.Place, f failing) (any, any, error) {
			done := serial()
			err := ForEachErr(at, done, func(ctx context.Context, e *bool) error {
				*e = true
				i := -1 // the others need not be told apart
				if e == &done[0] {
					i = 0
				}
				return f(ctx, i)
			})
			return done, all(), err
		},
		"MapErr": func(at pool.Place, f failing) (any, any, error) {
			got, err := MapErr(at, items, func(ctx context.Context, i int) (int, error) { return 3 * i, f(ctx, i) })
			want := make([]int, n)
			for i := range want {
				want[i] = 3 * i
			}
			return got, want, err
		},
		"ReduceErr": func(at pool.Place, f failing) (any, any, error) {
			got, err := ReduceErr(at, items, nought, func(ctx context.Context, v, i int) (int, error) { return v + i, f(ctx, i) },
				func(a, b int) int { return a + b })
			return got, n * (n - 1) / 2, err
		},
		"FilterErr": func(at pool.Place, f failing) (any, any, error) {
			got, err := FilterErr(at, items, is(f, even))
			want, other := Filter(pool.Place(reference), items, even)
			return wanted(got, err, want, other)
		},
		"FlatMapErr": func(at pool.Place, f failing) (any, any, error) {
			got, err := FlatMapErr(at, items, func(ctx context.Context, out []int, i int) ([]int, error) {
				return append(out, i, -i), f(ctx, i)
			})
			want := make([]int, 0, 2*n)
			for i := range n {
				want = append(want, i, -i)
			}
			return got, want, err
		},
		"PartitionErr": func(at pool.Place, f failing) (any, any, error) {
			yes, no, err := PartitionErr(at, items, is(f, even))
			wantYes, wantNo, other := Partition(pool.Place(reference), items, even)
			return wanted([][]int{yes, no}, err, [][]int{wantYes, wantNo}, other)
		},
		"GroupByErr": func(at pool.Place, f failing) (any, any, error) {
			got, err := GroupByErr(at, items, func(ctx context.Context, i int) (int, error) { return i % 7, f(ctx, i) })
			want, other := GroupBy(pool.Place(reference), items, func(i int) int { return i % 7 })
			return wanted(got, err, want, other)
		},
		"FindErr": func(at pool.Place, f failing) (any, any, error) {
			got, err := FindErr(at, items, is(f, negative))
			return got, -1, err
		},
		"AnyErr": func(at pool.Place, f failing) (any, any, error) {
			got, err := AnyErr(at, items, is(f, negative))
			return got, false, err
		},
		"AllErr": func(at pool.Place, f failing) (any, any, error) {
			got, err := AllErr(at, items, is(f, func(int) bool { return true }))
			return got, true, err
		},
		"CountErr": func(at pool.Place, f failing) (any, any, error) {
			got, err := CountErr(at, items, is(f, even))
			return got, (n + 1) / 2, err
		},
		"ForSeqErr": func(at pool.Place, f failing) (any, any, error) {
			done := serial()
			err := ForSeqErr(at, slices.Values(items), func(ctx context.Context, i int) error { done[i] = true; return f(ctx, i) })
			return done, all(), err
		},
		"MapSeqErr": func(at pool.Place, f failing) (any, any, error) {
			got, err := MapSeqErr(at, slices.Values(items), func(ctx context.Context, i int) (int, error) { return i, f(ctx, i) })
			return got, items, err
		},
	}
}

// reference is a place that nothing cancels.
var reference = func() *pool.Pool {
	p, err := pool.New(pool.WithWorkers(1))
	if err != nil {
		panic(err)
	}
	return p
}()

func TestErrFormsAreThePlainOnesWhereNothingFails(t *testing.T) {
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		lens := []int{0, 1, 2, 1000, 20_000}
		if testutil.UnderRace { // which takes half a minute for the longest
			lens = lens[:4]
		}
		for _, n := range lens {
			for name, form := range errForms(n) {
				for which, at := range map[string]pool.Place{"pool": p, "context": p.With(t.Context()), "joined": JoinErrors(p)} {
					var calls atomic.Int64
					got, want, err := form(at, func(ctx context.Context, _ int) error { calls.Add(1); return ctx.Err() })
					require.NoError(t, err, "%s of %d, %s", name, n, which)
					require.EqualValues(t, n, calls.Load(), "%s of %d, %s", name, n, which)
					if n > 0 { // an empty result may be nil
						require.Equal(t, want, got, "%s of %d, %s", name, n, which)
					}
				}
			}
		}
	})
}

// TestTheFirstErrorEndsAnErrForm: it is returned, the context is cancelled with it, and nothing begins any more.
func TestTheFirstErrorEndsAnErrForm(t *testing.T) {
	boom := errors.New("boom")
	const n = 20_000
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for name, form := range errForms(n) {
			t.Run(name, func(t *testing.T) {
				var calls, after atomic.Int64
				var failed, returned atomic.Bool
				var seen context.Context
				_, _, err := form(p, func(ctx context.Context, i int) error {
					if returned.Load() {
						after.Add(1)
					}
					if calls.Add(1) == 10 {
						seen = ctx
						failed.Store(true)
						return boom
					}
					return nil
				})
				returned.Store(true)
				require.Same(t, boom, err)
				require.ErrorIs(t, context.Cause(seen), boom)
				require.Less(t, calls.Load(), int64(n), "what had not begun has run")
				if p.Workers() == 1 && name != "ForRangeErr" {
					require.EqualValues(t, 10, calls.Load())
				}
				requireAtRest(t, p)
				require.Zero(t, after.Load())
			})
		}
	})
}

// TestItemsOfGrain1MayWaitForOneAnother in Block, here for the context that the error of the last one ends.
func TestItemsOfGrain1MayWaitForOneAnother(t *testing.T) {
	boom := errors.New("boom")
	const n = 50
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for where, call := range inPlaces {
			for range testutil.Stress(10) {
				err := call(p, func(at pool.Place) error {
					return ForErr(at, n, func(ctx context.Context, i int) error {
						if i == n-1 {
							return boom
						}
						p.Block(func() { <-ctx.Done() })
						assert.Same(t, boom, context.Cause(ctx))
						return ctx.Err()
					}, pool.Grain(1))
				})
				require.ErrorIs(t, err, boom, where)
			}
		}
	})
}

func TestAnErrFormEndsWithItsPlace(t *testing.T) {
	boom := errors.New("boom")
	const n = 20_000
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for name, form := range errForms(n) {
			for _, join := range []bool{false, true} {
				ctx, cancel := context.WithCancelCause(t.Context())
				var at pool.Place = p.With(ctx)
				if join {
					at = JoinErrors(at)
				}
				var calls atomic.Int64
				_, _, err := form(at, func(inner context.Context, i int) error {
					if calls.Add(1) == 10 {
						cancel(boom)
						<-inner.Done()
					}
					return nil
				})
				require.ErrorIs(t, err, boom, name)
				calls.Store(0)
				_, _, err = form(at, func(context.Context, int) error { calls.Add(1); return nil })
				require.ErrorIs(t, err, boom, name)
				require.Zero(t, calls.Load(), name)
			}
		}
	})
}

// TestAnErrFormUnwindsToTheCallWhoseContextHasEnded, and not only to its own context, which ends with that one. Otherwise the
// call would return nil although something was left out in it.
func TestAnErrFormUnwindsToTheCallWhoseContextHasEnded(t *testing.T) {
	boom := errors.New("boom")
	const n = 20
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for name, form := range errForms(n) {
			for _, joins := range []bool{false, true} {
				for last := range int64(n + 1) { // the call of f in which the context ends; 0 is before the form
					ctx, cancel := context.WithCancelCause(t.Context())
					var calls atomic.Int64
					end := func() {
						if calls.Load() == last {
							cancel(boom)
						}
					}
					returned := false
					err := p.With(ctx).Run(func(w *pool.Worker) {
						end()
						var at pool.Place = w
						if joins {
							at = JoinErrors(w)
						}
						_, _, err := form(at, func(context.Context, int) error { calls.Add(1); end(); return nil })
						require.NoError(t, err, name)
						returned = true
					})
					if !returned {
						require.ErrorIs(t, err, boom, name)
					} else if err != nil || calls.Load() < n {
						require.Fail(t, "it has returned", "%s, after %d calls, %v", name, calls.Load(), err)
					}
					cancel(nil)
				}
			}
		}
	})
}

func TestJoinErrorsReturnsAllInOrder(t *testing.T) {
	const n = 3000
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for name, form := range errForms(n) {
			if name == "ForRangeErr" || name == "ForEachErr" {
				continue // their functions see other items
			}
			var calls atomic.Int64
			_, _, err := form(JoinErrors(p), func(ctx context.Context, i int) error {
				calls.Add(1)
				if i%1000 == 7 {
					return fmt.Errorf("item %d", i)
				}
				return ctx.Err()
			})
			require.EqualValues(t, n, calls.Load(), name)
			require.EqualError(t, err, "item 7\nitem 1007\nitem 2007", name)
		}
		got, err := MapErr(JoinErrors(p), []int{1, 0, 2}, func(_ context.Context, i int) (int, error) {
			if i == 0 {
				return -1, errors.New("nothing")
			}
			return i, nil
		})
		require.EqualError(t, err, "nothing")
		require.Equal(t, []int{1, -1, 2}, got)
	})
}

func TestErrFormsPassPanicsOn(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for name, form := range errForms(1000) {
		var calls atomic.Int64
		e := testutil.Caught(func() {
			_, _, _ = form(p, func(context.Context, int) error {
				if calls.Add(1) == 10 {
					panic("boom")
				}
				return nil
			})
		})
		if pe, ok := e.(*pool.PanicError); ok {
			e = pe.Value
		}
		require.Equal(t, "boom", e, name)
	}
}

// TestAKeyWithAnErrorIsNotHashed: it may be one that cannot be.
func TestAKeyWithAnErrorIsNotHashed(t *testing.T) {
	p := pools.New(t)
	bad := errors.New("bad")
	for _, n := range []int{1, 10, 1000, 5 * leastGrouped, 20 * leastGrouped} {
		for _, at := range []pool.Place{p, JoinErrors(p), pool.Serial()} {
			for _, wrong := range []int{0, n / 2, n - 1} {
				groups, err := GroupByErr(at, count(n), func(_ context.Context, i int) (any, error) {
					if i == wrong {
						return []int{}, bad
					}
					return i % 10, nil
				})
				require.ErrorIs(t, err, bad)
				require.Nil(t, groups)
			}
		}
	}
}

func TestErrFormsRefuseWhatTheyCannotDo(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	closed, err := pool.New(pool.WithWorkers(1))
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.Nil(t, JoinErrors(nil))
	for name, form := range errForms(10) {
		for _, at := range []pool.Place{nil, (*pool.Pool)(nil), (*pool.Worker)(nil), JoinErrors((*pool.Pool)(nil))} {
			_, _, err := form(at, func(context.Context, int) error { t.Error("called"); return nil })
			require.Equal(t, pool.Do(at), err, name)
			require.Error(t, err)
		}
		_, _, err := form(closed, func(context.Context, int) error { return nil })
		require.ErrorIs(t, err, pool.ErrClosed, name)
	}
	require.ErrorContains(t, ForErr(p, -1, func(context.Context, int) error { return nil }), "-1")
	for want, err := range map[string]error{
		"ForErr":      ForErr(p, 1, nil),
		"ForRangeErr": ForRangeErr(p, 1, nil),
		"ForEachErr":  ForEachErr(p, []int{1}, nil),
		"ForSeqErr":   ForSeqErr[int](p, nil, nil),
	} {
		require.EqualError(t, err, fmt.Sprintf("par: %s was given a nil function", want))
	}
	_, err = MapErr[int, int](p, nil, nil)
	require.EqualError(t, err, "par: MapErr was given a nil function")
	_, err = ReduceErr[int, int](p, nil, nil, nil, nil)
	require.EqualError(t, err, "par: ReduceErr was given a nil function")
	_, err = FilterErr[int](p, nil, nil)
	require.EqualError(t, err, "par: FilterErr was given a nil function")
	_, err = FlatMapErr[int, int](p, nil, nil)
	require.EqualError(t, err, "par: FlatMapErr was given a nil function")
	_, _, err = PartitionErr[int](p, nil, nil)
	require.EqualError(t, err, "par: PartitionErr was given a nil function")
	_, err = GroupByErr[int, int](p, nil, nil)
	require.EqualError(t, err, "par: GroupByErr was given a nil function")
	_, err = FindErr[int](p, nil, nil)
	require.EqualError(t, err, "par: FindErr was given a nil function")
	_, err = AnyErr[int](p, nil, nil)
	require.EqualError(t, err, "par: AnyErr was given a nil function")
	_, err = AllErr[int](p, nil, nil)
	require.EqualError(t, err, "par: AllErr was given a nil function")
	_, err = CountErr[int](p, nil, nil)
	require.EqualError(t, err, "par: CountErr was given a nil function")
	_, err = MapSeqErr[int, int](p, nil, nil)
	require.EqualError(t, err, "par: MapSeqErr was given a nil function")
	require.ErrorContains(t, ForSeqErr(p, nil, func(context.Context, int) error { return nil }), "nil sequence")
}

// TestTheLongestRangesThereAre overflow nothing. The first range that begins cancels the loop, so that it ends.
func TestTheLongestRangesThereAre(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	for _, n := range []int{math.MaxInt, math.MaxInt - 1} {
		// A caller that is preempted at the beginning takes the items for long ones, and the loop would have 2^39 chunks.
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		got, err := CountRange(p.With(brief), n, func(lo, hi int) int { return hi - lo })
		if cancel(); err == nil {
			require.Equal(t, n, got)
		} else {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		for _, g := range []pool.Granularity{pool.Granularity{}, pool.Grain(1), pool.Grain(2), pool.Grain(math.MaxInt), pool.Chunks(3)} {
			ctx, cancel := context.WithCancel(t.Context())
			err := pool.ForRange(p.With(ctx), n, func(lo, hi int) {
				if lo < 0 || hi <= lo || hi > n {
					t.Errorf("%d to %d", lo, hi)
				}
				cancel()
			}, g)
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
		}
	}
}

// A short call whose function asks for no more than Err makes none of the standard library's contexts.
func TestTheContextOfAnErrFormIsMadeWhereItIsNeeded(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	run := func(ask func(ctx context.Context)) float64 {
		return testing.AllocsPerRun(100, func() {
			require.NoError(t, ForErr(p, 3, func(ctx context.Context, _ int) error { ask(ctx); return ctx.Err() }))
		})
	}
	most := run(func(ctx context.Context) { ctx.Deadline() })
	require.LessOrEqual(t, most, 4.0)
	require.Greater(t, run(func(ctx context.Context) { ctx.Done() }), most)
}

func TestTheContextOfAnErrFormIsLikeOneOfTheStandardLibrary(t *testing.T) {
	type key struct{}
	boom, gone := errors.New("boom"), errors.New("gone")
	forSizes(t, func(t *testing.T, p *pool.Pool) {
		for _, asks := range []string{"before", "after", "never"} {
			for _, want := range []error{boom, gone, context.Canceled} { // of the function, of the place, of the end of the call
				deadline := time.Now().Add(time.Hour)
				outer, stop := context.WithDeadline(context.WithValue(t.Context(), key{}, 5), deadline)
				outer, cancel := context.WithCancelCause(outer)
				var seen context.Context
				err := ForErr(p.With(outer), 5, func(ctx context.Context, i int) error {
					seen = ctx
					if asks == "before" {
						assert.Equal(t, 5, ctx.Value(key{}))
						select {
						case <-ctx.Done():
							t.Error("it has ended before")
						default:
						}
					}
					assert.NoError(t, ctx.Err())
					at, ok := ctx.Deadline()
					assert.True(t, ok && at.Equal(deadline))
					switch {
					case want == boom:
						return boom
					case want == gone && i == 4:
						cancel(gone)
						assert.Equal(t, context.Canceled, ctx.Err())
						if asks == "after" {
							<-ctx.Done()
							assert.Equal(t, gone, context.Cause(ctx))
						}
					}
					return nil
				}, pool.Grain(10))
				if want == boom {
					require.Equal(t, boom, err)
				}
				require.Equal(t, context.Canceled, seen.Err())
				if asks != "never" {
					<-seen.Done()
					require.Equal(t, want, context.Cause(seen))
					require.Equal(t, 5, seen.Value(key{}))
					inner, end := context.WithCancel(seen)
					require.Equal(t, want, context.Cause(inner))
					end()
				}
				require.NotContains(t, fmt.Sprintf("%v %+v", seen, seen), "{")
				cancel(nil)
				stop()
			}
		}
	})
}

func TestErrFormsAllocateNothingPerItem(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(1))
	run := func(n int) uint64 {
		return allocations(func() {
			require.NoError(t, ForErr(p, n, func(context.Context, int) error { return nil }))
		})
	}
	run(10)
	require.LessOrEqual(t, run(100_000), run(10)+20)
}

// TestJoinErrorsAreInTheOrderOfTheItems, not in that in which they came: an item fails only after a later one has.
func TestJoinErrorsAreInTheOrderOfTheItems(t *testing.T) {
	const n, held = 3000, 300
	p := pools.New(t, pool.WithWorkers(2))
	for name, form := range errForms(n) {
		if name == "ForRangeErr" || name == "ForEachErr" {
			continue // their functions see other items
		}
		for range testutil.Stress(20) {
			requireAtRest(t, p)
			noted := make(gate)
			var caller, other atomic.Int64 // the goroutines of the first item and of the later one
			var waits, open atomic.Bool
			_, _, err := form(JoinErrors(p), func(_ context.Context, i int) error {
				who := int64(goroutineID())
				switch {
				case i == 0:
					caller.Store(who)
				case i == held:
					waits.Store(true)
					if noted.await(); who == caller.Load() {
						return fmt.Errorf("item %d", i)
					}
				case who != caller.Load() && waits.Load() && other.CompareAndSwap(0, who):
					return fmt.Errorf("item %d", i)
				case who == other.Load() && open.CompareAndSwap(false, true): // the next item of that goroutine
					noted.open()
				}
				return nil
			})
			if err == nil {
				continue // the other worker had the item that is held up
			}
			var items []int
			for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
				var i int
				_, scan := fmt.Sscanf(e.Error(), "item %d", &i)
				require.NoError(t, scan)
				items = append(items, i)
			}
			require.IsIncreasing(t, items, name)
		}
	}
}

// TestJoinErrorsOfRangesAreInTheirOrder: a range fails only after later ones have.
func TestJoinErrorsOfRangesAreInTheirOrder(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	require.True(t, testutil.Eventually(func() bool {
		requireAtRest(t, p)
		others := make(gate)
		var first, begun atomic.Int64 // the goroutine of the range at 0, and how many others have begun elsewhere
		err := ForRangeErr(JoinErrors(p), 4, func(_ context.Context, lo, _ int) error {
			if who := int64(goroutineID()); lo == 0 {
				first.Store(who)
				others.await()
			} else if first.Load() != 0 && first.Load() != who && begun.Add(1) == 2 { // so one of them has ended
				others.open()
			}
			return fmt.Errorf("range %d", lo)
		}, pool.Grain(1))
		require.EqualError(t, err, "range 0\nrange 1\nrange 2\nrange 3")
		return begun.Load() >= 2 // otherwise the second worker came too late
	}))
}

// TestFormsPassTheirGranularityOn to the loop that they are made of, which refuses two.
func TestFormsPassTheirGranularityOn(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	s := make([]int, 10)
	never := errors.New("called")
	for name, form := range map[string]func(g ...pool.Granularity) error{
		"For":     func(g ...pool.Granularity) error { return For(p, 10, func(int) { t.Error(never) }, g...) },
		"ForEach": func(g ...pool.Granularity) error { return ForEach(p, s, func(*int) { t.Error(never) }, g...) },
		"Map": func(g ...pool.Granularity) error {
			_, err := Map(p, s, func(int) int { t.Error(never); return 0 }, g...)
			return err
		},
		"MapTo": func(g ...pool.Granularity) error {
			return MapTo(p, s, s, func(int) int { t.Error(never); return 0 }, g...)
		},
		"MapRange": func(g ...pool.Granularity) error {
			_, err := MapRange(p, 10, func([]int, int, int) { t.Error(never) }, g...)
			return err
		},
		"ForErr": func(g ...pool.Granularity) error {
			return ForErr(p, 10, func(context.Context, int) error { return never }, g...)
		},
		"ForRangeErr": func(g ...pool.Granularity) error {
			return ForRangeErr(p, 10, func(context.Context, int, int) error { return never }, g...)
		},
		"ForEachErr": func(g ...pool.Granularity) error {
			return ForEachErr(p, s, func(context.Context, *int) error { return never }, g...)
		},
		"MapErr": func(g ...pool.Granularity) error {
			_, err := MapErr(p, s, func(context.Context, int) (int, error) { return 0, never }, g...)
			return err
		},
	} {
		assert.ErrorContains(t, form(pool.Grain(1), pool.Grain(1)), "more than one granularity", name)
	}
}

// TestOnlyMapErrReturnsResultsAlongWithErrors, and that only where all errors are wanted.
func TestOnlyMapErrReturnsResultsAlongWithErrors(t *testing.T) {
	p := pools.New(t, pool.WithWorkers(2))
	forms := errForms(1000)
	for name, none := range map[string]any{
		"MapErr": []int(nil), "ReduceErr": 0, "FilterErr": []int(nil), "FlatMapErr": []int(nil), "PartitionErr": [][]int{nil, nil},
		"GroupByErr": map[int][]int(nil), "FindErr": -1, "AnyErr": false, "AllErr": false, "CountErr": 0, "MapSeqErr": []int(nil),
	} {
		for _, at := range []pool.Place{p, JoinErrors(p)} {
			got, _, err := forms[name](at, func(_ context.Context, i int) error {
				if i == 500 {
					return errStolen
				}
				return nil
			})
			require.ErrorIs(t, err, errStolen, name)
			if name != "MapErr" || at == p {
				assert.Equal(t, none, got, name)
			}
		}
	}
	for _, at := range []pool.Place{p, JoinErrors(p)} { // what is said along with the error does not count
		i, err := FindErr(at, count(3), func(context.Context, int) (bool, error) { return true, errStolen })
		require.ErrorIs(t, err, errStolen)
		require.Equal(t, -1, i)
	}
}
