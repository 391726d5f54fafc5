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

// FullVariable is the environment variable that asks for full amounts, if it is set to
// "full".
const FullVariable = "HEIST_VERIFY"

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

// Full says whether the amounts are to be those of `go run ./verify`, not those of a quick
// `go test`.
func Full() bool { return os.Getenv(FullVariable) == "full" }

// Count writes a number so that it can be read: 1,234,567.
func Count[N int | int64 | uint64](n N) string { return humanize.Comma(int64(n)) }
