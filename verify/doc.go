// Package verify is where heist is checked beyond its unit tests. It is a module of
// its own, so that what it needs is not downloaded by those who only use heist.
//
//   - linear: histories of the real queues, recorded while threads race, are checked
//     against sequential specifications.
package verify
