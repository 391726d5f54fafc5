// Package pad keeps fields with different writers apart, so that they do not move between cores together.
package pad

import "unsafe"

// Size is the distance between two such fields, in bytes. Lines are 64 bytes on most CPUs that Go runs on, but
// Intel's adjacent-line prefetcher pulls them in pairs and Apple's cores have 128-byte lines; crossbeam and rayon use
// 128 for the same reason.
const Size = 128

// A struct that is padded inside is padded at both ends too. The allocator aligns to its size classes, such as 416 and
// 480 bytes, and not to lines, so the ends of two objects may share one. With two workers' fork stacks side by side a
// tree search took up to twice as long, in one process of five. See testutil.Padded.

// Line stands between two fields. It costs no time, only space.
type Line [Size]byte

// Slice returns n elements, which are not of size 0, with so much room at both ends that no other object is on their lines.
func Slice[T any](n int) []T {
	var one T
	k := int((Size + unsafe.Sizeof(one) - 1) / unsafe.Sizeof(one))
	return make([]T, k+n+k)[k : k+n : k+n]
}
