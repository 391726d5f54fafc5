//go:build !unix

package suites

import "errors"

func usageSoFar() (usage, error) {
	return usage{}, errors.New("the system has no getrusage")
}
