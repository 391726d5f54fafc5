//go:build gc && !purego && !race

#include "go_asm.h"
#include "textflag.h"

// The algorithm and its argument are in deque.go. The orderings on arm64:
//
//   - A STLR is not reordered with a later LDAR, which is the full fence that pop needs
//     between bottom and top. A later LDAPR could be, so LDAPR is not used.
//   - Loads that follow a LDAR in program order are done after it: top, then bottom,
//     then the array and what lies at its address. In pop the array is the owner's own.
//   - The CAS is one instruction with LSE (ARMv8.1) and a pair without. Steal's CAS is a
//     release, which keeps the load of the slot before it; nothing has to stay after it.
//     Pop's CAS is an acquire: the fence above has ordered the earlier stores.
//   - Pop restores bottom by a plain store: a thief that reads the old value finds the
//     same items.
//
// verify/model/deque.pml has exactly these orders.
//
// A STLXR or STXR can fail spuriously, so the pair is tried again, at most tries times:
// assembly must not loop without a bound. If all tries fail, the attempt counts as a lost
// race, after which pop starts again in Go.

#define DEQUE   R0
#define BOTTOMP R1 // address of bottom
#define TOPP    R2 // address of top
#define BOTTOM  R3
#define TOP     R4
#define LEFT    R5
#define ARRAY   R6
#define INDEX   R7
#define ITEM    R8
#define NEXT    R9
#define SEEN    R10
#define TMP     R11
#define TRIES   R12

#define tries 16

// addresses sets DEQUE, BOTTOMP and TOPP.
#define addresses \
	MOVD d+0(FP), DEQUE \
	ADD  $deque_bottom, DEQUE, BOTTOMP \
	ADD  $deque_top, DEQUE, TOPP

// load sets ITEM to the item in the slot of index INDEX.
#define load \
	MOVD deque_array(DEQUE), ARRAY \
	MOVD slots_mask(ARRAY), TMP \
	AND  TMP, INDEX, INDEX \
	MOVD slots_base(ARRAY), ARRAY \
	MOVD (ARRAY)(INDEX<<3), ITEM

// count adds one to one of the owner's counters.
#define count(offset) \
	MOVD offset(DEQUE), TMP \
	ADD  $1, TMP, TMP \
	MOVD TMP, offset(DEQUE)

// func publish(index *atomic.Int64, v int64)
TEXT ·publish(SB), NOSPLIT, $0-16
	MOVD index+0(FP), R0
	MOVD v+8(FP), R1
	STLR R1, (R0)
	RET

// func asmPush(d *deque)
TEXT ·asmPush(SB), NOSPLIT, $0-8
	MOVD d+0(FP), DEQUE
	ADD  $deque_bottom, DEQUE, BOTTOMP
	MOVD (BOTTOMP), BOTTOM
	ADD  $1, BOTTOM, BOTTOM
	STLR BOTTOM, (BOTTOMP)
	RET

// func asmPop(d *deque) (item unsafe.Pointer)
TEXT ·asmPop(SB), NOSPLIT, $0-16
	addresses
	MOVD (BOTTOMP), NEXT
	SUB  $1, NEXT, BOTTOM
	STLR BOTTOM, (BOTTOMP)
	LDAR (TOPP), TOP
	SUBS TOP, BOTTOM, LEFT
	BLT  empty
	MOVD BOTTOM, INDEX
	load
	CBZ  LEFT, last
	count(deque_taken)
	MOVD ITEM, item+8(FP)
	RET

last:
	MOVBU ·hasLSE(SB), TMP
	CBZ   TMP, pair
	MOVD  TOP, SEEN
	CASAD SEEN, (TOPP), NEXT // top is bottom - 1, so NEXT is top + 1
	CMP   TOP, SEEN
	BNE   lost

won:
	MOVD NEXT, (BOTTOMP)
	count(deque_last)
	MOVD ITEM, item+8(FP)
	RET

pair:
	MOVD $tries, TRIES

again:
	LDAXR (TOPP), SEEN
	CMP   TOP, SEEN
	BNE   unpair
	STXR  NEXT, (TOPP), TMP
	CBZ   TMP, won
	SUBS  $1, TRIES, TRIES
	BNE   again
	JMP   lost

unpair:
	CLREX

lost:
	MOVD NEXT, (BOTTOMP)
	JMP  ·popLost(SB)

empty:
	MOVD NEXT, (BOTTOMP)
	JMP  ·popEmpty(SB)

// func asmSteal(d *deque) (item unsafe.Pointer, index int64, r StealResult)
TEXT ·asmSteal(SB), NOSPLIT, $0-25
	addresses
	LDAR (TOPP), TOP
	LDAR (BOTTOMP), BOTTOM
	SUBS TOP, BOTTOM, LEFT
	BLE  empty
	MOVD TOP, INDEX
	load // before the CAS: afterwards the slot may be reused
	ADD   $1, TOP, NEXT
	MOVBU ·hasLSE(SB), TMP
	CBZ   TMP, pair
	MOVD  TOP, SEEN
	CASLD SEEN, (TOPP), NEXT
	CMP   TOP, SEEN
	BNE   lost

won:
	MOVD ITEM, item+8(FP)
	MOVD TOP, index+16(FP)
	MOVD $const_Success, TMP
	MOVB TMP, r+24(FP)
	RET

pair:
	MOVD $tries, TRIES

again:
	LDXR  (TOPP), SEEN
	CMP   TOP, SEEN
	BNE   unpair
	STLXR NEXT, (TOPP), TMP
	CBZ   TMP, won
	SUBS  $1, TRIES, TRIES
	BNE   again
	JMP   lost

unpair:
	CLREX

lost:
	JMP ·stealLost(SB)

empty:
	MOVD ZR, item+8(FP)
	MOVD ZR, index+16(FP)
	MOVD $const_Empty, TMP
	MOVB TMP, r+24(FP)
	RET
