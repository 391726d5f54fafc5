// Command vet is "go vet" for systems other than this one. Go's command compiles the standard library for them first, in more than
// ten times the time in which this one reads it.
//
//	GOOS=darwin GOARCH=arm64 go run ./verify/vet . ./pool
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() { multichecker.Main(vet.Suite...) }
