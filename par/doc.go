// Package par has parallel loops and algorithms that run on the workers of a pool. It is made of what
// package pool exports, so it is also an example of how to write others: [pool.ForBody], [pool.Do],
// [pool.Worker.Idle], [pool.Worker.Cancelled].
//
// # Elements and ranges
//
// An algorithm over elements, such as [Map] or [Reduce], takes a function of one element. Go does
// not inline that function into the loop, so each element costs a call: 2 ns, which is little if
// the function does real work, and most of the time if it adds two numbers. Nearly every algorithm has
// a range form, whose function gets lo and hi and contains the inner loop itself, where the compiler sees it:
//
//	par.For        pool.ForRange     par.Count    par.CountRange
//	par.Map        par.MapRange      par.Find     par.FindRange
//	par.Reduce     par.ReduceRange   par.Filter   par.FilterRange
//	par.Scan       par.ScanRange     par.FlatMap  par.FilterRange
//
// For numbers [Sum], [Sums] and [MinMax] are ready made. Use the form for elements if its function takes more
// than some 10 ns, and the range form otherwise, but for [Filter], whose form for elements is the faster one unless the test is one
// comparison and few elements are kept.
//
// # Functions that fail
//
// The forms whose names end in Err are for functions that return errors: [ForErr], [ForRangeErr], [ForEachErr],
// [MapErr], [ReduceErr], [FilterErr], [FlatMapErr], [PartitionErr], [GroupByErr], [FindErr], [AnyErr], [AllErr],
// [CountErr], [ForSeqErr] and [MapSeqErr]. The first error ends the call, and cancels the context that the function
// is given; at a place from [JoinErrors] all errors are returned. Comparators and functions that merge or scan
// cannot fail.
//
// [Stream] and [AsCompleted] compute the values of a sequence and yield results meanwhile.
//
// # What is promised
//
// Unless said otherwise, as by [Scan] of operators that round and by [Reduce] into what refers to memory, results are the same for any number of workers, idle or
// not, and floats are rounded the same way. For places, cancellation, panics and errors see [For]. What an algorithm does after the
// last call of a function, such as merging, copying and a second pass, is a part of it: a context that ends then ends it early. Granularities are those
// of package pool: [pool.Grain] and others, see [pool.Granularity]. A nil function, a negative length, slices whose lengths
// should be equal and are not, or a second granularity give an error that says so. When an error is returned, the other
// results are not specified. A slice or map that is returned is new and not nil, and shares no memory with another one.
//
// A function of elements is given no worker, and runs on any. What it calls in par or pool it calls at the pool, not at a worker or view of its surroundings: that is a
// call of its own, which the outer one's context does not end.
package par
