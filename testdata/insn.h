/* What an x86-64 instruction does to control flow.
 *
 * Decoded by Zydis: neither pt-decode's nor perf's nor libipt's tables, so that a
 * mistake of theirs shows. */
#ifndef TESTDATA_INSN_H
#define TESTDATA_INSN_H

#include <stddef.h>
#include <stdint.h>

enum insn_kind {
	INSN_PLAIN,
	INSN_CALL,
	INSN_ICALL,
	INSN_RET,
	INSN_JMP,
	INSN_IJMP,
	INSN_JCC, /* also LOOPcc, JrCXZ */
	INSN_SYSCALL,
	INSN_FAR, /* int n, iret, far jumps ...: always ends tracing of user mode here */
	INSN_BAD,
};

struct insn {
	uint8_t kind;
	uint8_t length;
	uint64_t target; /* CALL, JMP, JCC: absolute */
};

/* Decodes the instruction at ip from the bytes that are there (15 suffice). */
struct insn insn_decode(uint64_t ip, const uint8_t *code, size_t bytes);

#endif
