// Package poolhttp shows the pools of the process on a page, while they work: what each worker did over the last minute,
// how busy they are, how long tasks wait, who steals from whom, how the machine is built, the configuration, slow tasks,
// and a dump that names circles of waits.
//
//	http.Handle("/debug/heist/", poolhttp.Handler())
//
// Import package debug for its side effect and the default mux of net/http has it at that path:
//
//	import _ "github.com/seed53057037/heist/pool/poolhttp/debug"
//
// # Who may see it
//
// The page shows names of functions and tasks, and stacks, as net/http/pprof does. Protect it as you protect that: by an
// address of its own that is not public, or by a handler around it that authenticates the client. The page changes
// nothing, answers GET and HEAD only, and loads nothing from other servers.
//
// # Cost
//
// Without requests nothing runs. While the page is open, and for a minute after, a goroutine reads the pools' counters
// ten times a second, which holds up no worker. At most 16 clients may watch at a time; one more gets status 503. Without
// JavaScript the page shows one moment, and loads again every five seconds.
package poolhttp

import (
	"net/http"
	"sync"

	"github.com/seed53057037/heist/internal/census"
	"github.com/seed53057037/heist/internal/page"
	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool"
)

// Handler returns the page. Register it for a path that ends in a slash, on as many muxes as you like: there is one
// handler, which counts the watchers of all together.
//
// Below the path are also dump, the dump of a pool as text, and what the page itself loads. A pool in a bubble of
// testing/synctest is not shown.
func Handler() http.Handler { return handler() }

var handler = sync.OnceValue(func() *page.Handler { return page.New(&process{}) })

// process is this process as the page sees it: its pools and its machine.
type process struct {
	read    sync.Once
	machine *numa.Topology
}

// Pools returns the process's pools, the oldest first.
func (*process) Pools() (all []page.Pool) {
	for _, p := range census.Pools[*pool.Pool]() {
		if !p.InBubble {
			all = append(all, page.Pool{ID: p.ID, Source: p.Pool})
		}
	}
	return all
}

// Machine returns the topology. Part of it may be a guess, which the drawing cannot show.
func (p *process) Machine() *numa.Topology {
	p.read.Do(func() { p.machine, _ = numa.Read() })
	return p.machine
}
