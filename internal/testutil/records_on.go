//go:build (amd64 || arm64) && gc && !purego

package testutil

// ReadsRecords says whether heist reads the runtime's records of goroutines: who the caller is, without an allocation, and what goroutines wait
// for. Otherwise it allocates to tell the caller, and time decides what waits.
const ReadsRecords = true
