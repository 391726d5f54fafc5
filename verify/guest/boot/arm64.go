package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// Instructions of arm64 that differ only in the size of what they store and in their
// registers:
//
//	STLR  Rt, [Rn]        store-release
//	SWPAL Rs, ZR, [Rn]    swap with acquire and release, and discard the old value
const (
	stlr     = 0x089ffc00
	swpal    = 0x38e0801f
	sizeMask = 0xc0000000
	stlrMask = ^uint32(sizeMask | rnMask | rtMask)
	rnMask   = 0x1f << 5
	rtMask   = 0x1f
	rsShift  = 16
)

// swapFor returns the swap that stands in for a store-release, and false for any other
// instruction.
func swapFor(word uint32) (uint32, bool) {
	return swpal | word&(sizeMask|rnMask) | word&rtMask<<rsShift, word&stlrMask == stlr
}

// orderStores replaces the store-releases in a program for arm64 by swaps, which do the
// same and more. A later load-acquire must not pass a store-release, and all of Go's
// atomics rely on that. But qemu 7.2 lets it pass when the CPUs are threads of the host:
// it puts no fence between the two (TestMachineKeepsStoresBeforeLaterLoads shows it). A
// swap is a fence. So guests do not test the order of memory on arm64. With one thread for
// all CPUs this would not be needed, but each CPU would run for 100 ms before the next,
// even while it waits.
func orderStores(program []byte) error {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	text := file.Section(".text")
	if file.Machine != elf.EM_AARCH64 || text == nil {
		return fmt.Errorf("a program for %v with a section .text was expected, not one for %v", elf.EM_AARCH64, file.Machine)
	}
	code := program[text.Offset : text.Offset+text.FileSize]
	for ; len(code) >= 4; code = code[4:] {
		if swap, is := swapFor(binary.LittleEndian.Uint32(code)); is {
			binary.LittleEndian.PutUint32(code, swap)
		}
	}
	return nil
}
