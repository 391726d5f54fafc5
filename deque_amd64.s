//go:build gc && !purego && !race

#include "go_asm.h"
#include "textflag.h"

// The algorithm and its argument are in deque.go. On amd64 stores become visible in
// program order and loads are done in program order; the one reordering to prevent is
// that of a store with a later load, in pop. Every locked instruction is a full fence:
// it waits until all earlier stores have left the core, those of arguments, results and
// return addresses too. So the routines have few of these, and when there is more to do
// they jump to Go and do not return to it.

#define DEQUE   DI
#define TOP     AX // where CMPXCHG wants the expected value
#define BOTTOM  BX
#define LEFT    CX
#define ARRAY   R8
#define INDEX   R9
#define ITEM    R10
#define NEXT    R11

// load sets ITEM to the item in the slot of index INDEX of the array ARRAY.
#define load \
	ANDQ slots_mask(ARRAY), INDEX \
	MOVQ slots_base(ARRAY), ARRAY \
	MOVQ (ARRAY)(INDEX*8), ITEM

// func publish(index *atomic.Int64, v int64)
TEXT ·publish(SB), NOSPLIT, $0-16
	MOVQ index+0(FP), DI
	MOVQ v+8(FP), AX
	MOVQ AX, (DI)
	RET

// func asmPush(d *deque)
TEXT ·asmPush(SB), NOSPLIT, $0-8
	MOVQ d+0(FP), DEQUE
	MOVQ deque_bottom(DEQUE), BOTTOM
	INCQ BOTTOM
	MOVQ BOTTOM, deque_bottom(DEQUE)
	RET

// func asmPop(d *deque) (item unsafe.Pointer)
TEXT ·asmPop(SB), NOSPLIT, $0-16
	MOVQ d+0(FP), DEQUE
	MOVQ deque_bottom(DEQUE), NEXT
	LEAQ -1(NEXT), BOTTOM
	MOVQ BOTTOM, INDEX
	MOVQ BOTTOM, LEFT
	MOVQ deque_array(DEQUE), ARRAY // the owner's own: it need not wait for the fence
	XCHGQ BOTTOM, deque_bottom(DEQUE) // the store and the full fence
	MOVQ deque_top(DEQUE), TOP
	SUBQ TOP, LEFT
	JLE  few
	load
	INCQ deque_taken(DEQUE)
	MOVQ ITEM, item+8(FP)
	RET

few:
	JLT  empty
	load
	LOCK
	CMPXCHGQ NEXT, deque_top(DEQUE) // top is bottom - 1, so this is top + 1
	MOVQ NEXT, deque_bottom(DEQUE)  // leaves the flags
	JNE  lost
	INCQ deque_last(DEQUE)
	MOVQ ITEM, item+8(FP)
	RET

lost:
	JMP ·popLost(SB)

empty:
	MOVQ NEXT, deque_bottom(DEQUE)
	JMP ·popEmpty(SB)

// func asmSteal(d *deque) (item unsafe.Pointer, index int64, r StealResult)
TEXT ·asmSteal(SB), NOSPLIT, $0-25
	MOVQ d+0(FP), DEQUE
	MOVQ deque_top(DEQUE), TOP
	MOVQ deque_bottom(DEQUE), LEFT
	SUBQ TOP, LEFT
	JLE  empty
	MOVQ TOP, INDEX
	MOVQ deque_array(DEQUE), ARRAY
	load // before the CAS: afterwards the slot may be reused
	LEAQ 1(TOP), NEXT
	LOCK
	CMPXCHGQ NEXT, deque_top(DEQUE)
	JNE  lost
	MOVQ ITEM, item+8(FP)
	MOVQ TOP, index+16(FP)
	MOVB $const_Success, r+24(FP)
	RET

lost:
	JMP ·stealLost(SB)

empty:
	MOVQ $0, item+8(FP)
	MOVQ $0, index+16(FP)
	MOVB $const_Empty, r+24(FP)
	RET
