//go:build gc && !purego && !race

#include "textflag.h"

// Go's assembler does not know PREFETCHW. CPUs that do not have it take it for a NOP.
//
// func fetch(p unsafe.Pointer)
TEXT ·fetch(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08               // PREFETCHW (AX)
	BYTE $0x0F; BYTE $0x0D; BYTE $0x48; BYTE $0x40   // PREFETCHW 64(AX)
	RET
