//go:build gc && !purego && !race

#include "textflag.h"

// func fetch(p unsafe.Pointer)
TEXT ·fetch(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PSTL1KEEP
	ADD  $64, R0
	PRFM (R0), PSTL1KEEP
	RET
