//go:build !unix

package gauge

import "errors"

// UsageSoFar returns an error: the system does not tell.
func UsageSoFar() (Usage, error) { return Usage{}, errors.New("the system has no getrusage") }
