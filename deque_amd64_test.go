//go:build gc && !purego && !race

package heist

import "testing"

func init() { assemblyRows = []implementation{dequeRow("assembly", "amd64", func(testing.TB) {})} }
