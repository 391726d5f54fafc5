// Package inspect has the types in which a pool describes itself: its configuration, its counters, and what goes on in it.
// The values are snapshots: nothing in them changes, and they keep nothing of the pool alive. [pool.Pool] makes them;
// people, pages and metrics read them.
//
// [pool.Pool]: https://pkg.go.dev/github.com/seed53057037/heist/pool#Pool
package inspect
