//go:build !heistdebug

package pool

const goroutineIDIsSlow = goroutineIDAllocates // as long as nobody debugs

// debug is mustBeMine in builds with the tag heistdebug.
func (w *Worker) debug(string) {}
