/* Our lengths and branch kinds against Zydis, at every byte offset of whole system libraries:
 * offsets inside instructions make each library a million odd instructions as well. */
#include <criterion/criterion.h>

#include <Zydis/Zydis.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "common/file_map.h"
#include "decode/insn.h"

static uint8_t kind_of(const ZydisDecodedInstruction *z)
{
	bool is_far = z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;
	bool direct = z->raw.imm[0].is_relative;

	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_CALL:
		return is_far ? INSN_FAR_CALL : direct ? INSN_CALL : INSN_CALL_INDIRECT;
	case ZYDIS_MNEMONIC_JMP:
		return is_far ? INSN_FAR_JUMP : direct ? INSN_JUMP : INSN_JUMP_INDIRECT;
	case ZYDIS_MNEMONIC_RET: return is_far ? INSN_FAR_RETURN : INSN_RETURN;
	case ZYDIS_MNEMONIC_SYSCALL:
	case ZYDIS_MNEMONIC_SYSENTER: return INSN_SYSCALL;
	case ZYDIS_MNEMONIC_SYSRET:
	case ZYDIS_MNEMONIC_SYSEXIT: return INSN_SYSRET;
	case ZYDIS_MNEMONIC_INT:
	case ZYDIS_MNEMONIC_INT1:
	case ZYDIS_MNEMONIC_INT3:
	case ZYDIS_MNEMONIC_INTO: return INSN_INT;
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_IRETQ:
	case ZYDIS_MNEMONIC_UIRET: return INSN_IRET;
	case ZYDIS_MNEMONIC_VMCALL: return INSN_VMCALL;
	case ZYDIS_MNEMONIC_VMLAUNCH:
	case ZYDIS_MNEMONIC_VMRESUME: return INSN_VMENTRY;
	case ZYDIS_MNEMONIC_XBEGIN: return INSN_XBEGIN;
	case ZYDIS_MNEMONIC_XEND: return INSN_XEND;
	case ZYDIS_MNEMONIC_XABORT: return INSN_XABORT;
	case ZYDIS_MNEMONIC_PTWRITE: return INSN_PTWRITE;
	default: break;
	}
	return z->meta.category == ZYDIS_CATEGORY_COND_BR ? INSN_COND : INSN_OTHER;
}

struct tally {
	size_t compared, wrong;
};

static void compare(struct tally *t, const ZydisDecoder *zydis, enum insn_mode mode,
		    const uint8_t *bytes, size_t count)
{
	ZydisDecodedInstruction z;
	struct insn insn = {0};

	/* JKZD and JKNZD exist only on Knights Corner. */
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(zydis, NULL, bytes, count, &z)) ||
	    z.mnemonic == ZYDIS_MNEMONIC_JKZD || z.mnemonic == ZYDIS_MNEMONIC_JKNZD ||
	    z.encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX)
		return;
	bool good = insn_decode(bytes, count, mode, &insn);
	uint8_t kind = kind_of(&z);
	bool same = good && insn.length == z.length && insn.kind == kind;
	if (same && (kind == INSN_COND || kind == INSN_JUMP || kind == INSN_CALL))
		same = insn.relative == z.raw.imm[0].value.s;
	t->compared++;
	if (same || t->wrong++ >= 20)
		return;
	char text[64] = "";
	for (size_t i = 0; i < z.length; i++)
		snprintf(text + 3 * i, sizeof text - 3 * i, "%02x ", bytes[i]);
	cr_log_error("%d-bit %s(%s): ours length %d kind %d, Zydis length %d kind %d",
		     mode == INSN_64 ? 64 : 32, text, ZydisMnemonicGetString(z.mnemonic),
		     insn.length, insn.kind, z.length, kind);
}

static bool compare_file(struct tally *t, const ZydisDecoder *zydis, enum insn_mode mode,
			 const char *path)
{
	struct file_map map;
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	if (file_map_open(path, &map, NULL) != ERR_NONE)
		return false;
	memcpy(&eh, map.data, sizeof eh);
	for (int i = 0; i < eh.e_phnum; i++) {
		memcpy(&ph, map.data + eh.e_phoff + (size_t)i * sizeof ph, sizeof ph);
		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X))
			continue;
		for (uint64_t at = 0; at < ph.p_filesz; at++)
			compare(t, zydis, mode, map.data + ph.p_offset + at, ph.p_filesz - at);
	}
	file_map_done(&map);
	return true;
}

static const char *const libraries[] = {
	"/lib/x86_64-linux-gnu/libc.so.6",
	"/lib/x86_64-linux-gnu/libm.so.6",
	"/lib64/ld-linux-x86-64.so.2",
	"/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
	"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
};

static void compare_libraries(enum insn_mode mode)
{
	ZydisDecoder zydis;
	struct tally t = {0};
	size_t files = 0;

	ZydisDecoderInit(
		&zydis, mode == INSN_64 ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32,
		mode == INSN_64 ? ZYDIS_STACK_WIDTH_64 : ZYDIS_STACK_WIDTH_32);
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
		files += compare_file(&t, &zydis, mode, libraries[i]);
	if (files == 0)
		cr_skip_test("no system libraries");
	cr_expect_gt(t.compared, 100000);
	cr_expect_eq(t.wrong, 0, "%zu of %zu differ", t.wrong, t.compared);
}

Test(insn_zydis, libraries_64)
{
	compare_libraries(INSN_64);
}

Test(insn_zydis, libraries_32)
{
	compare_libraries(INSN_32);
}

/* Opcodes that libraries hardly use: every prefix, escape and opcode, with random tails. */
static void compare_random(enum insn_mode mode)
{
	static const uint8_t starts[][3] = {{0},          {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a},
					    {0x66},       {0xf3}, {0xf2, 0x0f}, {0xf3, 0x0f},
					    {0x66, 0x0f}, {0x48}, {0x67},       {0x66, 0x67},
					    {0xc4},       {0xc5}, {0x62},       {0x8f}};
	ZydisDecoder zydis;
	struct tally t = {0};
	uint64_t random = 1;

	ZydisDecoderInit(
		&zydis, mode == INSN_64 ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32,
		mode == INSN_64 ? ZYDIS_STACK_WIDTH_64 : ZYDIS_STACK_WIDTH_32);
	for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
		for (unsigned i = 0; i < 100000; i++) {
			uint8_t bytes[16] = {0};
			size_t at = 0;

			while (at < 3 && starts[s][at]) {
				bytes[at] = starts[s][at];
				at++;
			}
			while (at < sizeof bytes) {
				random = random * 6364136223846793005u + 1442695040888963407u;
				bytes[at++] = (uint8_t)(random >> 56);
			}
			compare(&t, &zydis, mode, bytes, 15);
		}
	}
	cr_expect_eq(t.wrong, 0, "%zu of %zu differ", t.wrong, t.compared);
}

Test(insn_zydis, random_64)
{
	compare_random(INSN_64);
}

Test(insn_zydis, random_32)
{
	compare_random(INSN_32);
}
