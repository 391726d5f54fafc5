//go:build gc && !purego && !race

#include "textflag.h"

// func ticks() int64
//
// RDTSC does not wait for earlier instructions to complete. The measured intervals last a
// microsecond or more, and a fence would cost as much as the rest.
TEXT ·ticks(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET
