//go:build gc && !purego && !race

#include "textflag.h"

// func ticks() int64
TEXT ·ticks(SB), NOSPLIT, $0-8
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET
