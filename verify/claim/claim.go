// Package claim lets the tests of verify say what they show. `go run ./verify` makes its
// table from the claims.
//
// A test states its claim before it checks it, so that a test that fails, or hangs, has its
// row in the table too:
//
//	claim.That(t, "a deque loses no item", "histories of racing threads, checked by porcupine")
//	...
//	claim.Amount(t, "%s histories", claim.Count(n))
package claim

import (
	"fmt"
	"os"
	"testing"

	"github.com/dustin/go-humanize"
)

// The keys of the attributes (testing.T.Attr) that carry a claim to the reader of the test's
// output.
const (
	Key       = "claim"
	HowKey    = "how"
	AmountKey = "amount"
)

// AmountVariable is the environment variable for how much the tests check: a little if it is not set, as much as
// CI has time for if it is Ordinary, and all if it is "full". Package testutil reads it too.
const (
	AmountVariable = "HEIST_VERIFY"
	Ordinary       = AmountVariable + "=ci" // for the environment of tests that a test runs
)

// That says what the test shows if it passes, and how, each in a short sentence without a
// full stop. Call it first.
func That(t testing.TB, claim, how string) {
	t.Attr(Key, claim)
	t.Attr(HowKey, how)
}

// Amount says how much was checked. Call it last, with the counts.
func Amount(t testing.TB, format string, args ...any) {
	t.Attr(AmountKey, fmt.Sprintf(format, args...))
}

// Full says whether to check the amounts of `go run ./verify`.
func Full() bool { return os.Getenv(AmountVariable) == "full" }

// Count writes a number readably: 1,234,567.
func Count[N int | int64 | uint64](n N) string { return humanize.Comma(int64(n)) }
