//go:build gc && !purego && !race

#include "textflag.h"

// func pauseYield(n int64)
TEXT ·pauseYield(SB), NOSPLIT, $0-8
	MOVD n+0(FP), R0

again:
	YIELD
	SUBS $1, R0, R0
	BNE  again
	RET

// func pauseISB(n int64)
TEXT ·pauseISB(SB), NOSPLIT, $0-8
	MOVD n+0(FP), R0

again:
	ISB  $15
	SUBS $1, R0, R0
	BNE  again
	RET
