//go:build gc && !purego && !race

#include "textflag.h"

// func pause(n int64)
TEXT ·pause(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX

again:
	PAUSE
	DECQ CX
	JNE  again
	RET
