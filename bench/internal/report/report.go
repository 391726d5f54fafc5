// Package report prints results.
package report

import (
	"io"

	"github.com/seed53057037/heist/bench/internal/contract"
	"github.com/seed53057037/heist/bench/internal/runner"
)

// JSON prints the contract's lines and nothing else: first the figures of each
// implementation, then the ratios.
func JSON(w io.Writer, outcomes []runner.Outcome) error {
	for _, o := range outcomes {
		for _, line := range o.Lines() {
			if err := contract.Encode(w, line); err != nil {
				return err
			}
		}
		ratios, _ := o.Ratios()
		for _, ratio := range ratios {
			if err := contract.Encode(w, ratio); err != nil {
				return err
			}
		}
	}
	return nil
}
