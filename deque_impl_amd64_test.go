//go:build gc && !purego && !race

package heist

import "testing"

var implementations = []implementation{
	dequeRow("assembly", "amd64", func(testing.TB) {}),
	portableRow(),
}
