/* See insn.h. */
#include "testdata/insn.h"

#include <stdbool.h>

#include <Zydis/Zydis.h>

static enum insn_kind branch_kind(const ZydisDecodedInstruction *insn, bool direct)
{
	if (insn->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return INSN_FAR;
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_CALL: return direct ? INSN_CALL : INSN_ICALL;
	case ZYDIS_CATEGORY_RET: return INSN_RET;
	case ZYDIS_CATEGORY_UNCOND_BR: return direct ? INSN_JMP : INSN_IJMP;
	case ZYDIS_CATEGORY_COND_BR: return INSN_JCC;
	case ZYDIS_CATEGORY_SYSCALL: return INSN_SYSCALL;
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_INTERRUPT: return INSN_FAR;
	default: return INSN_PLAIN;
	}
}

struct insn insn_decode(uint64_t ip, const uint8_t *code, size_t bytes)
{
	ZydisDecoder decoder;
	ZydisDecodedInstruction decoded;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	struct insn insn = {.kind = INSN_BAD};

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, code, bytes, &decoded, operands)))
		return insn;
	insn.length = decoded.length;
	insn.kind = INSN_PLAIN;
	/* Zydis counts these as branches; they only branch when a transaction aborts. */
	if (decoded.mnemonic == ZYDIS_MNEMONIC_XBEGIN || decoded.mnemonic == ZYDIS_MNEMONIC_XABORT)
		return insn;
	bool direct = decoded.operand_count > 0 && operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	insn.kind = (uint8_t)branch_kind(&decoded, direct);
	if (insn.kind == INSN_CALL || insn.kind == INSN_JMP || insn.kind == INSN_JCC)
		insn.target = ip + decoded.length + operands[0].imm.value.u;
	return insn;
}
