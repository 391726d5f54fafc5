//go:build !heistdebug

package pool

const goroutineIDIsSlow = goroutineIDAllocates // where asking allocates, only debug builds ask

// debug is mustBeMine in builds with the tag heistdebug.
func (w *Worker) debug(string) {}
