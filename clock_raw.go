package heist

import _ "unsafe" // for go:linkname

// nanotime is the monotonic clock that time.Now reads. Inside a bubble of testing/synctest time.Now
// stands still while goroutines run, and a loop that spins until a time has passed would spin for
// ever. The runtime keeps nanotime open to linkname: "many external packages" use it, as its source
// says.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64
