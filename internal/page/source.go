// Package page makes a page that shows pools while they work. pool/poolhttp serves it for the pools of the process;
// tests give it others.
//
//	source.go    what is shown
//	recorder.go  looks at the pools, ten times a second while a watcher is there, and keeps a minute
//	record.go    what is kept of a pool
//	parts.go     the parts of the page, as HTML
//	charts.go    their pictures, as SVG
//	handler.go   requests, and the stream of what has changed
//	static       the page's template, style and script
//
// Everything visible is made here, for the page as it is first sent and for each change of it. The script only puts
// parts in their places, so the page without the script is the same page, at one moment.
package page

import (
	"io"

	"github.com/seed53057037/heist/numa"
	"github.com/seed53057037/heist/pool/inspect"
)

// Source is what the page reads of a pool. A *pool.Pool is one.
type Source interface {
	String() string
	Config() inspect.Config
	Load() inspect.Load
	Stats() inspect.Stats
	Timings() inspect.Timings
	StealMatrix() [][]uint64
	Snapshot() inspect.Snapshot
	Dump(to io.Writer) error
}

// Pool is a pool and its number, which stays the same as long as the process runs.
type Pool struct {
	ID uint64 // above 0
	Source
}

// Process is what the page shows.
type Process interface {
	Pools() []Pool // by their numbers
	Machine() *numa.Topology
}
