// Package programs is what interleave's programs share.
package programs

import (
	"strconv"
	"testing"

	"github.com/seed53057037/heist/verify/explore"
)

// Explore explores a program. The test fails if an interleaving does, or if the search does not come to its end.
func Explore(t *testing.T, o explore.Options, program func()) {
	t.Helper()
	r := explore.Check(t, o, program)
	if !r.Complete && o.Random == 0 {
		t.Errorf("the search did not come to its end in %d interleavings", r.Executions)
	}
	t.Attr("interleavings", strconv.Itoa(r.Executions))
}
