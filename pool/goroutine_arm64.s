//go:build gc && !purego

#include "textflag.h"

// func goroutineRecord() unsafe.Pointer
TEXT ·goroutineRecord(SB), NOSPLIT, $0-8
	MOVD g, R0
	MOVD R0, ret+0(FP)
	RET
