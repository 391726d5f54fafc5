//go:build gc && !purego && !race

#include "go_asm.h"
#include "textflag.h"

// The algorithm and its argument are in deque.go. On amd64 stores become visible
// in program order and loads are done in program order; the one reordering to
// prevent is that of a store with a later load, in pop. Every locked instruction
// is a full fence.

#define DEQUE   DI
#define TOP     AX // where CMPXCHG wants the expected value
#define BOTTOM  BX
#define LEFT    CX
#define SLOT    R8
#define INDEX   R9
#define ITEM    R10
#define NEXT    R11

// slotOf sets SLOT to the address of the slot of the index in INDEX, and ITEM to
// what it holds.
#define slotOf \
	MOVQ deque_array(DEQUE), SLOT \
	ANDQ slots_mask(SLOT), INDEX \
	MOVQ slots_base(SLOT), SLOT \
	LEAQ (SLOT)(INDEX*8), SLOT \
	MOVQ (SLOT), ITEM

// func publish(index *atomic.Int64, v int64)
TEXT ·publish(SB), NOSPLIT, $0-16
	MOVQ index+0(FP), DI
	MOVQ v+8(FP), AX
	MOVQ AX, (DI)
	RET

// func asmPop(d *deque) (item unsafe.Pointer, slot *unsafe.Pointer, r StealResult)
TEXT ·asmPop(SB), NOSPLIT, $0-25
	MOVQ d+0(FP), DEQUE
	MOVQ deque_bottom(DEQUE), BOTTOM
	DECQ BOTTOM
	MOVQ BOTTOM, LEFT
	XCHGQ LEFT, deque_bottom(DEQUE) // the store and the full fence
	MOVQ deque_top(DEQUE), TOP
	MOVQ BOTTOM, LEFT
	SUBQ TOP, LEFT
	JLT  empty
	MOVQ BOTTOM, INDEX
	slotOf
	TESTQ LEFT, LEFT
	JEQ  last
	INCQ deque_taken(DEQUE)

success:
	MOVQ ITEM, item+8(FP)
	MOVQ SLOT, slot+16(FP)
	MOVB $const_Success, r+24(FP)
	RET

last:
	LEAQ 1(TOP), NEXT // bottom + 1 as well, for top = bottom here
	LOCK
	CMPXCHGQ NEXT, deque_top(DEQUE)
	MOVQ NEXT, deque_bottom(DEQUE) // leaves the flags
	JNE  lost
	INCQ deque_last(DEQUE)
	JMP  success

lost:
	MOVQ $0, item+8(FP)
	MOVQ $0, slot+16(FP)
	MOVB $const_Retry, r+24(FP)
	RET

empty:
	INCQ BOTTOM
	MOVQ BOTTOM, deque_bottom(DEQUE)
	MOVQ $0, item+8(FP)
	MOVQ $0, slot+16(FP)
	MOVB $const_Empty, r+24(FP)
	RET

// func asmSteal(d *deque) (item unsafe.Pointer, r StealResult)
TEXT ·asmSteal(SB), NOSPLIT, $0-17
	MOVQ d+0(FP), DEQUE
	MOVQ deque_top(DEQUE), TOP
	MOVQ deque_bottom(DEQUE), BOTTOM
	SUBQ TOP, BOTTOM
	JLE  empty
	MOVQ TOP, INDEX
	slotOf // before the CAS: afterwards the slot may be reused
	LEAQ 1(TOP), NEXT
	LOCK
	CMPXCHGQ NEXT, deque_top(DEQUE)
	JNE  lost
	MOVQ ITEM, item+8(FP)
	MOVB $const_Success, r+16(FP)
	RET

lost:
	MOVQ $0, item+8(FP)
	MOVB $const_Retry, r+16(FP)
	RET

empty:
	MOVQ $0, item+8(FP)
	MOVB $const_Empty, r+16(FP)
	RET
