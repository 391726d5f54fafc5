// Package programs is what interleave's programs share.
package programs

import (
	"strconv"
	"testing"

	"github.com/seed53057037/heist/verify/claim"
	"github.com/seed53057037/heist/verify/explore"
)

// inFull is how many times more interleavings are chosen at random in a run of full amounts.
const inFull = 4

// Explore explores a program. The test fails if an interleaving does, or if the search does not come to its end.
func Explore(t *testing.T, o explore.Options, program func()) {
	t.Helper()
	if claim.Full() {
		o.Random *= inFull
	}
	r := explore.Check(t, o, program)
	if !r.Complete && o.Random == 0 {
		t.Errorf("the search did not come to its end in %d interleavings", r.Executions)
	}
	t.Attr("interleavings", strconv.Itoa(r.Executions))
}
