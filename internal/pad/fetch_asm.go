//go:build (amd64 || arm64) && gc && !purego && !race

package pad

import "unsafe"

// fetch is PREFETCHW on amd64 and PRFM PSTL1KEEP on arm64.
//
//go:noescape
func fetch(p unsafe.Pointer)
