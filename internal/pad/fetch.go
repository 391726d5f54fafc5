package pad

import "unsafe"

// Fetch says that the caller will soon write to the Size bytes at p. They come over from another CPU while the caller goes on.
// Without assembly it does nothing.
func Fetch(p unsafe.Pointer) { fetch(p) }
