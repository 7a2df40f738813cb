/* x86 instructions as a trace sees them: their length, and how they move control.
 *
 * A pure function of the bytes: nothing is disassembled beyond that. It covers 64- and
 * 32-bit mode as Intel CPUs decode them, legacy, REX, VEX, EVEX, XOP and REX2 encodings.
 * Bytes that fault at run time (#UD by prefix or operand) may still get a length: the trace
 * decides what ran.
 *
 * Source: SDM vol. 2, chapter 2 and appendix A; APX and FRED specifications. */
#ifndef DECODE_INSN_H
#define DECODE_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INSN_MAX_BYTES 15

enum insn_kind {
	INSN_OTHER,
	INSN_COND, /* Jcc, LOOPcc, JrCXZ */
	INSN_JUMP,
	INSN_JUMP_INDIRECT, /* JMPABS too: the trace gives its target */
	INSN_CALL,
	INSN_CALL_INDIRECT,
	INSN_RETURN,  /* near */
	INSN_SYSCALL, /* SYSCALL, SYSENTER */
	INSN_INT,     /* INT n, INT1, INT3, INTO */
	INSN_SYSRET,  /* SYSRET, SYSEXIT, ERETU */
	INSN_IRET,    /* IRET, UIRET, ERETS */
	INSN_FAR_CALL,
	INSN_FAR_JUMP,
	INSN_FAR_RETURN,
	INSN_VMCALL,
	INSN_VMENTRY, /* VMLAUNCH, VMRESUME */
	INSN_XBEGIN,  /* `relative` is the fallback */
	INSN_XEND,
	INSN_XABORT,
	INSN_PTWRITE,
};

enum insn_mode { INSN_64, INSN_32 };

struct insn {
	uint8_t length;
	uint8_t kind;      /* enum insn_kind */
	bool truncates_ip; /* target is cut to 16 bits (operand size 16 in 32-bit mode) */
	int32_t relative;  /* to the end, of a direct branch or XBEGIN */
	uint8_t operand;   /* offset of the ModRM byte; 0 = none. For FF /2, /4 call typing */
};

/* False when the bytes are no instruction; INSN_MAX_BYTES of them always suffice, fewer may
 * cut one short (then false too). */
bool insn_decode(const uint8_t *bytes, size_t count, enum insn_mode mode, struct insn *result);

/* Where a direct branch at ip goes. */
static inline uint64_t insn_target(const struct insn *insn, uint64_t ip, enum insn_mode mode)
{
	uint64_t target = ip + insn->length + (uint64_t)(int64_t)insn->relative;

	if (insn->truncates_ip)
		return target & 0xffff;
	return mode == INSN_32 ? target & 0xffffffff : target;
}

#endif
