//go:build gc && !purego

#include "textflag.h"

// SHA-1 of one block with the SHA instructions. An XMM register holds four words of
// the message or of the state, the first of them in its upper end.

#define STATE  X0 // a, b, c, d
#define E0     X1 // e of this group of four rounds, in the upper end
#define E1     X2 // and of the next; the two take turns
#define M0     X3
#define M1     X4
#define M2     X5
#define M3     X6

// The state that SHA-1 begins with.
DATA start<>+0(SB)/8, $0x98badcfe10325476
DATA start<>+8(SB)/8, $0x67452301efcdab89
DATA start<>+16(SB)/8, $0
DATA start<>+24(SB)/8, $0xc3d2e1f000000000
GLOBL start<>(SB), RODATA|NOPTR, $32

// Four rounds with the function f and the words w, which the message's words after
// next, three on and four on are prepared of meanwhile. The state before them is what
// the e of the four rounds that follow comes of.
#define ROUNDS(f, e, next, w, w1, w2, w3) \
	SHA1NEXTE w, e            \
	MOVO      STATE, next     \
	SHA1MSG2  w, w1           \
	SHA1RNDS4 $f, e, STATE    \
	SHA1MSG1  w, w3           \
	PXOR      w, w2

// func childSHA(a, b uint64, c, index uint32) (x, y uint64, z uint32)
TEXT ·childSHA(SB), NOSPLIT, $0-44
	MOVO start<>+0(SB), STATE
	MOVO start<>+16(SB), E0

	// The message: the parent, the index, a bit for its end, its length in bits.
	MOVQ       b+8(FP), M0
	MOVQ       a+0(FP), X8
	PUNPCKLQDQ X8, M0
	MOVL       c+16(FP), CX
	SHLQ       $32, CX
	MOVL       index+20(FP), AX
	ORQ        AX, CX
	MOVQ       $0x8000000000000000, DX
	MOVQ       CX, X8
	MOVQ       DX, M1
	PUNPCKLQDQ X8, M1
	PXOR       M2, M2
	MOVL       $192, R8
	MOVQ       R8, M3

	// The words that the message begins with need less preparation.
	PADDD     M0, E0
	MOVO      STATE, E1
	SHA1RNDS4 $0, E0, STATE

	SHA1NEXTE M1, E1
	MOVO      STATE, E0
	SHA1RNDS4 $0, E1, STATE
	SHA1MSG1  M1, M0

	SHA1NEXTE M2, E0
	MOVO      STATE, E1
	SHA1RNDS4 $0, E0, STATE
	SHA1MSG1  M2, M1
	PXOR      M2, M0

	ROUNDS(0, E1, E0, M3, M0, M1, M2)
	ROUNDS(0, E0, E1, M0, M1, M2, M3)
	ROUNDS(1, E1, E0, M1, M2, M3, M0)
	ROUNDS(1, E0, E1, M2, M3, M0, M1)
	ROUNDS(1, E1, E0, M3, M0, M1, M2)
	ROUNDS(1, E0, E1, M0, M1, M2, M3)
	ROUNDS(1, E1, E0, M1, M2, M3, M0)
	ROUNDS(2, E0, E1, M2, M3, M0, M1)
	ROUNDS(2, E1, E0, M3, M0, M1, M2)
	ROUNDS(2, E0, E1, M0, M1, M2, M3)
	ROUNDS(2, E1, E0, M1, M2, M3, M0)
	ROUNDS(2, E0, E1, M2, M3, M0, M1)
	ROUNDS(3, E1, E0, M3, M0, M1, M2)
	ROUNDS(3, E0, E1, M0, M1, M2, M3)
	ROUNDS(3, E1, E0, M1, M2, M3, M0)

	// The last words prepare nothing, or only the last four.
	SHA1NEXTE M2, E0
	MOVO      STATE, E1
	SHA1MSG2  M2, M3
	SHA1RNDS4 $3, E0, STATE

	SHA1NEXTE M3, E1
	MOVO      STATE, E0
	SHA1RNDS4 $3, E1, STATE

	SHA1NEXTE start<>+16(SB), E0
	PADDD     start<>+0(SB), STATE
	MOVHPS    STATE, x+24(FP)
	MOVQ      STATE, y+32(FP)
	PEXTRD    $3, E0, CX
	MOVL      CX, z+40(FP)
	RET
