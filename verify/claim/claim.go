// Package claim is how the tests of verify say what they show. `go run ./verify` makes its
// table of it.
//
// A claim is said before it is checked, so that a test that fails, or hangs, has its row
// in the table too:
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

// AmountVariable is the environment variable that says how much the tests check: a little if it is not set, as much as
// CI has time for if it is Ordinary, and all if it is "full". Package testutil reads it too.
const (
	AmountVariable = "HEIST_VERIFY"
	Ordinary       = AmountVariable + "=ci" // what a test sets for the tests that it runs
)

// That says what the test shows if it passes, and how, each in a short sentence without a
// full stop. Call it first.
func That(t testing.TB, claim, how string) {
	t.Attr(Key, claim)
	t.Attr(HowKey, how)
}

// Amount says how much was checked. Call it last, with what was counted.
func Amount(t testing.TB, format string, args ...any) {
	t.Attr(AmountKey, fmt.Sprintf(format, args...))
}

// Full says whether the amounts are to be those of `go run ./verify`.
func Full() bool { return os.Getenv(AmountVariable) == "full" }

// Count writes a number so that it can be read: 1,234,567.
func Count[N int | int64 | uint64](n N) string { return humanize.Comma(int64(n)) }
