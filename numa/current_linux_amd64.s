//go:build gc && !purego

#include "textflag.h"

// func hasRDPID() bool
//
// Leaf 7, subleaf 0, bit 22 of ECX, if there is a leaf 7.
TEXT ·hasRDPID(SB), NOSPLIT, $0-1
	MOVB $0, ret+0(FP)
	XORL AX, AX
	CPUID
	CMPL AX, $7
	JB   none
	MOVL $7, AX
	XORL CX, CX
	CPUID
	BTL  $22, CX
	SETCS ret+0(FP)

none:
	RET

// func rdpid() uint32
TEXT ·rdpid(SB), NOSPLIT, $0-4
	RDPID AX
	MOVL  AX, ret+0(FP)
	RET

// func rdtscp() uint32
TEXT ·rdtscp(SB), NOSPLIT, $0-4
	RDTSCP
	MOVL CX, ret+0(FP)
	RET
