// Package inspect has what a pool tells of itself: how it is configured, what it has counted, what goes on in it. The
// values are snapshots; nothing in them changes, and they keep nothing of the pool alive. [pool.Pool] makes them, and people, pages
// and metrics read them.
//
// [pool.Pool]: https://pkg.go.dev/github.com/seed53057037/heist/pool#Pool
package inspect
