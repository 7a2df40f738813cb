#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "decode/insn.h"

struct insn_case {
	const char *name;
	enum insn_mode mode;
	const char *bytes; /* hex */
	uint8_t length;    /* 0 = no instruction */
	enum insn_kind kind;
	int32_t relative;
};

static const struct insn_case cases[] = {
	{"nop", INSN_64, "90", 1, INSN_OTHER, 0},
	{"endbr64", INSN_64, "f30f1efa", 4, INSN_OTHER, 0},
	{"jne rel8", INSN_64, "75fe", 2, INSN_COND, -2},
	{"jne rel32", INSN_64, "0f8500010000", 6, INSN_COND, 256},
	{"jne with 66 keeps rel32 in 64-bit mode", INSN_64, "660f8500010000", 7, INSN_COND, 256},
	{"jne with 66 has rel16 in 32-bit mode", INSN_32, "660f850001", 5, INSN_COND, 256},
	{"jrcxz", INSN_64, "e310", 2, INSN_COND, 16},
	{"jecxz", INSN_64, "67e310", 3, INSN_COND, 16},
	{"loop", INSN_64, "e2f0", 2, INSN_COND, -16},
	{"loopne", INSN_32, "e0f0", 2, INSN_COND, -16},
	{"call rel32", INSN_64, "e878563412", 5, INSN_CALL, 0x12345678},
	{"call with rex and 66", INSN_64, "6648e878563412", 7, INSN_CALL, 0x12345678},
	{"call rel16", INSN_32, "66e83412", 4, INSN_CALL, 0x1234},
	{"bnd call", INSN_64, "f2e800000000", 6, INSN_CALL, 0},
	{"jmp rel8", INSN_64, "eb80", 2, INSN_JUMP, -128},
	{"jmp rel32", INSN_64, "e9fcffffff", 5, INSN_JUMP, -4},
	{"call *rip", INSN_64, "ff1500000000", 6, INSN_CALL_INDIRECT, 0},
	{"call *reg with double prefixes", INSN_64, "66666648ffd0", 6, INSN_CALL_INDIRECT, 0},
	{"jmp *sib", INSN_64, "ff24c500000000", 7, INSN_JUMP_INDIRECT, 0},
	{"notrack jmp", INSN_64, "3effe0", 3, INSN_JUMP_INDIRECT, 0},
	{"far call", INSN_64, "48ff18", 3, INSN_FAR_CALL, 0},
	{"far jump", INSN_64, "ff6c2408", 4, INSN_FAR_JUMP, 0},
	{"far call direct", INSN_32, "9a000000000800", 7, INSN_FAR_CALL, 0},
	{"far call direct is gone in 64-bit mode", INSN_64, "9a000000000800", 0, 0, 0},
	{"far jump direct", INSN_32, "66ea00000800", 6, INSN_FAR_JUMP, 0},
	{"ret", INSN_64, "c3", 1, INSN_RETURN, 0},
	{"rep ret", INSN_64, "f3c3", 2, INSN_RETURN, 0},
	{"ret imm16", INSN_64, "c20800", 3, INSN_RETURN, 0},
	{"far ret", INSN_64, "48cb", 2, INSN_FAR_RETURN, 0},
	{"syscall", INSN_64, "0f05", 2, INSN_SYSCALL, 0},
	{"sysenter", INSN_32, "0f34", 2, INSN_SYSCALL, 0},
	{"sysretq", INSN_64, "480f07", 3, INSN_SYSRET, 0},
	{"sysexit", INSN_64, "0f35", 2, INSN_SYSRET, 0},
	{"int3", INSN_64, "cc", 1, INSN_INT, 0},
	{"int 80", INSN_64, "cd80", 2, INSN_INT, 0},
	{"int1", INSN_64, "f1", 1, INSN_INT, 0},
	{"into", INSN_32, "ce", 1, INSN_INT, 0},
	{"iretq", INSN_64, "48cf", 2, INSN_IRET, 0},
	{"uiret", INSN_64, "f30f01ec", 4, INSN_IRET, 0},
	{"erets", INSN_64, "f20f01ca", 4, INSN_IRET, 0},
	{"eretu", INSN_64, "f30f01ca", 4, INSN_SYSRET, 0},
	{"clac is none of them", INSN_64, "0f01ca", 3, INSN_OTHER, 0},
	{"vmcall", INSN_64, "0f01c1", 3, INSN_VMCALL, 0},
	{"vmlaunch", INSN_64, "0f01c2", 3, INSN_VMENTRY, 0},
	{"vmresume", INSN_64, "0f01c3", 3, INSN_VMENTRY, 0},
	{"xbegin", INSN_64, "c7f810000000", 6, INSN_XBEGIN, 16},
	{"xbegin rel16", INSN_64, "66c7f81000", 5, INSN_XBEGIN, 16},
	{"xabort", INSN_64, "c6f8ff", 3, INSN_XABORT, 0},
	{"xend", INSN_64, "0f01d5", 3, INSN_XEND, 0},
	{"ptwrite reg", INSN_64, "f3480faee0", 5, INSN_PTWRITE, 0},
	{"ptwrite mem", INSN_64, "f30fae642410", 6, INSN_PTWRITE, 0},
	{"xsave is no ptwrite", INSN_64, "0fae642410", 5, INSN_OTHER, 0},
	{"mov imm64", INSN_64, "48b80102030405060708", 10, INSN_OTHER, 0},
	{"rex before 66 does not count", INSN_64, "4866b80102", 5, INSN_OTHER, 0},
	{"mov moffs64", INSN_64, "48a10102030405060708", 10, INSN_OTHER, 0},
	{"mov moffs32", INSN_64, "67a101020304", 6, INSN_OTHER, 0},
	{"test imm", INSN_64, "48f7c000010000", 7, INSN_OTHER, 0},
	{"not has none", INSN_64, "48f7d0", 3, INSN_OTHER, 0},
	{"mov cr3 ignores mod", INSN_64, "0f221c", 3, INSN_OTHER, 0},
	{"enter", INSN_64, "c8100001", 4, INSN_OTHER, 0},
	{"16-bit addressing", INSN_32, "678b4610", 4, INSN_OTHER, 0},
	{"les is no vex", INSN_32, "c44610", 3, INSN_OTHER, 0},
	{"bound is no evex", INSN_32, "624610", 3, INSN_OTHER, 0},
	{"vzeroupper", INSN_64, "c5f877", 3, INSN_OTHER, 0},
	{"vex2 with imm8", INSN_64, "c5f970c001", 5, INSN_OTHER, 0},
	{"vex3 map 3", INSN_64, "c4e37d18c001", 6, INSN_OTHER, 0},
	{"evex disp8", INSN_64, "62f17c48284101", 7, INSN_OTHER, 0},
	{"evex map 3 imm8", INSN_64, "62f37d483bc001", 7, INSN_OTHER, 0},
	{"pop is no xop", INSN_64, "8f4510", 3, INSN_OTHER, 0},
	{"xop map 8", INSN_64, "8fe878c0c001", 6, INSN_OTHER, 0},
	{"xop map a", INSN_64, "8fea7810c001020304", 9, INSN_OTHER, 0},
	{"3dnow", INSN_64, "0f0fc1bf", 4, INSN_OTHER, 0},
	{"rex2 add", INSN_64, "d50801c0", 4, INSN_OTHER, 0},
	{"rex2 mov imm64", INSN_64, "d518b80102030405060708", 11, INSN_OTHER, 0},
	{"rex2 map 1 imul", INSN_64, "d590afc0", 4, INSN_OTHER, 0},
	{"rex2 call *r16", INSN_64, "d510ffd0", 4, INSN_CALL_INDIRECT, 0},
	{"jmpabs", INSN_64, "d500a10102030405060708", 11, INSN_JUMP_INDIRECT, 0},
	{"rex2 has no jcc", INSN_64, "d50075fe", 0, 0, 0},
	{"aad in 32-bit mode", INSN_32, "d50a", 2, INSN_OTHER, 0},
	{"apx ndd add imm8", INSN_64, "62f47c1883c005", 7, INSN_OTHER, 0},
	{"apx imul imm32", INSN_64, "62f4fc0869c000010000", 10, INSN_OTHER, 0},
	{"apx imul imm16", INSN_64, "62f47d0869c00001", 8, INSN_OTHER, 0},
	{"apx map 4 ret is none", INSN_64, "62f47c08c3c0", 6, INSN_OTHER, 0},
	{"urdmsr imm32", INSN_64, "c4e77bf8c001020304", 9, INSN_OTHER, 0},
	{"cut short", INSN_64, "e8785634", 0, 0, 0},
	{"cut in sib", INSN_64, "ff24", 0, 0, 0},
	{"nothing but prefixes", INSN_64, "666666666666666666666666666666", 0, 0, 0},
	{"16 bytes", INSN_64, "66666666666666666666662e480f1f8400", 0, 0, 0},
	{"salc", INSN_64, "d6", 0, 0, 0},
	{"push es", INSN_32, "06", 1, INSN_OTHER, 0},
	{"push es is gone", INSN_64, "06", 0, 0, 0},
};

static size_t from_hex(const char *hex, uint8_t *bytes)
{
	size_t count = strlen(hex) / 2;

	for (size_t i = 0; i < count; i++) {
		unsigned value;
		cr_assert_eq(sscanf(hex + 2 * i, "%2x", &value), 1);
		bytes[i] = (uint8_t)value;
	}
	return count;
}

Test(insn, table)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct insn_case *c = &cases[i];
		uint8_t bytes[32];
		struct insn insn = {0};
		size_t count = from_hex(c->bytes, bytes);
		bool good = insn_decode(bytes, count, c->mode, &insn);

		cr_expect_eq(good, c->length != 0, "%s", c->name);
		cr_expect_eq(insn.length, c->length, "%s: length %d", c->name, insn.length);
		cr_expect_eq(insn.kind, c->kind, "%s: kind %d", c->name, insn.kind);
		cr_expect_eq(insn.relative, c->relative, "%s: %d", c->name, insn.relative);
	}
}

Test(insn, no_length_is_shortened_silently)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint8_t bytes[32];
		struct insn insn;

		if (!cases[i].length)
			continue;
		from_hex(cases[i].bytes, bytes);
		for (size_t count = 0; count < cases[i].length; count++)
			cr_expect_not(insn_decode(bytes, count, cases[i].mode, &insn),
				      "%s cut to %zu", cases[i].name, count);
	}
}

Test(insn, targets)
{
	struct insn insn;

	cr_assert(insn_decode((const uint8_t *)"\xeb\xfe", 2, INSN_64, &insn));
	cr_expect_eq(insn_target(&insn, 0x401000, INSN_64), 0x401000);
	cr_assert(insn_decode((const uint8_t *)"\xe8\x00\x00\x00\x80", 5, INSN_32, &insn));
	cr_expect_eq(insn_target(&insn, 0x1000, INSN_32), 0x80001005);
	cr_expect_eq(insn_target(&insn, 0xf0001000, INSN_32), 0x70001005);
	cr_assert(insn_decode((const uint8_t *)"\x66\xe9\x00\x80", 4, INSN_32, &insn));
	cr_expect_eq(insn_target(&insn, 0x12340000, INSN_32), 0x8004);
}
