package pool

import (
	"fmt"
	"strings"
)

// String describes the pool in a line: how many workers it has, where they run and why, and whether it is paused or at its end.
func (p *Pool) String() string {
	if p.usable() != nil {
		return "pool: none"
	}
	if p.isSerial() {
		return "pool: the place of Serial"
	}
	n, workers := p.core.Size(), "workers"
	if n == 1 {
		workers = "worker"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d %s, %v (%s)", p.title(), n, workers, p.pinning, p.why)
	if len(p.nodes) > 1 {
		fmt.Fprintf(&b, ", on nodes %v", p.Nodes())
	}
	paused := p.core.IsPaused()
	select {
	case <-p.closed:
		b.WriteString(", closed")
	default:
		switch {
		case p.aborted.Load():
			b.WriteString(", aborted")
		case p.core.Closing.Load():
			b.WriteString(", closing")
		case paused:
			b.WriteString(", paused")
		}
	}
	return b.String()
}

// title returns the pool's name for messages.
func (p *Pool) title() string {
	if p.name == "" {
		return "pool"
	}
	return fmt.Sprintf("pool %q", p.name)
}
