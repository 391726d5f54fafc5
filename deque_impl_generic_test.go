//go:build !((amd64 || arm64) && gc && !purego && !race)

package heist

import "testing"

var implementations = []implementation{
	dequeRow("atomic", "", func(testing.TB) {}),
	portableRow(),
}
