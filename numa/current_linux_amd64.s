//go:build gc && !purego

#include "textflag.h"

// func callGetcpu(fn uintptr) (cpu, node uint32)
//
// The frame is the C function's stack: it is entered at the frame's end. It may use 400 bytes, where the
// kernel's takes 8. It keeps R12.
TEXT ·callGetcpu(SB), 0, $432-16
	MOVQ fn+0(FP), AX
	LEAQ cpu+8(FP), DI
	LEAQ node+12(FP), SI
	XORL DX, DX
	MOVQ SP, R12
	ADDQ $424, SP
	ANDQ $~15, SP // as C's calling convention wants it
	CALL AX
	MOVQ R12, SP
	RET
