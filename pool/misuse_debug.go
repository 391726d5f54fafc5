//go:build heistdebug

package pool

const goroutineIDIsSlow = false

func (w *Worker) debug(method string) { w.mustBeMine(method) }
