// Package par has parallel loops and algorithms, on the workers of a pool. It is made of what package
// pool exports, so it is also an example of how to write others: [pool.Loop], [pool.Do],
// [pool.Worker.Idle], [pool.Worker.Cancelled].
//
// # Elements and ranges
//
// A function over elements, such as [Map] or [Reduce], is given a function for one element. Go
// does not compile that into the loop, so each element costs a call: 1 to 2 ns, which is little where
// the function does something, and most of the time where it adds two numbers. Nearly each of them has a
// range form, in which the function is given lo and hi and has the inner loop itself, for the compiler to see:
//
//	par.For        pool.ForRange     par.Count    par.CountRange
//	par.Map        par.MapRange      par.Find     par.FindRange
//	par.Reduce     par.ReduceRange   par.Filter   par.FilterRange
//	par.Scan       par.ScanRange     par.FlatMap  par.FilterRange
//
// For numbers [Sum], [Sums] and [MinMax] are ready made. Take the form for elements if its function takes more
// than some 10 ns, and the range form else.
//
// # Functions that fail
//
// The forms with Err at their ends are for functions that return errors: [ForErr], [ForRangeErr], [ForEachErr], [MapErr], [ReduceErr],
// [FilterErr], [FlatMapErr], [PartitionErr], [GroupByErr], [FindErr], [AnyErr], [AllErr], [CountErr], [ForSeqErr] and
// [MapSeqErr]. The first error ends the call, and the context that the function is given; at [JoinErrors] of a place
// all errors are returned. Comparators, and what merges or scans, cannot fail.
//
// [Stream] and [AsCompleted] compute the values of a sequence and yield results while they do.
//
// # What is promised
//
// Results are the same for any number of workers, and for floats rounded the same way, if not said
// otherwise. For places, cancellation, panics and errors see [For]. Granularities are pool's: [pool.Grain] and others, see
// [pool.Granularity]. A nil function, a negative length, slices that should be as long as each other and are not, or a second
// granularity give an error that says so. Beside an error the other results are not specified.
package par
