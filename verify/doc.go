// Package verify is where heist is checked beyond its unit tests. It is a module of
// its own, so that what it needs is not downloaded by those who only use heist.
//
//   - linear: histories of the real queues, recorded while threads race, are checked
//     against sequential specifications.
//   - guest: emulated machines with several nodes, and the tests that need them.
//   - leak: what a closed pool leaves behind, which is nothing.
//   - soak: many tasks, and pauses in which workers sleep.
package verify
