#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "decode/packet.h"

struct packet_case {
	const char *name, *bytes; /* hex */
	enum packet_context context;
	int length; /* or PACKET_CUT_SHORT, PACKET_BAD */
	struct packet expected;
};

static const struct packet_case cases[] = {
	{"pad", "00", 0, 1, {.kind = PACKET_PAD}},
	{"psb", "02820282028202820282028202820282", 0, 16, {.kind = PACKET_PSB}},
	{"psb cut", "028202820282", 0, PACKET_CUT_SHORT, {0}},
	{"psb broken", "0282028202820283", 0, PACKET_BAD, {0}},
	{"psbend", "0223", 0, 2, {.kind = PACKET_PSBEND}},
	{"tnt 1 taken", "06", 0, 1, {.kind = PACKET_TNT, .count = 1, .payload = 1ull << 63}},
	{"tnt 6", "da", 0, 1, {.kind = PACKET_TNT, .count = 6, .payload = 0x2dull << 58}},
	{"tnt 1 not taken", "04", 0, 1, {.kind = PACKET_TNT, .count = 1}},
	{"long tnt 47",
	 "02a3010000000080",
	 0,
	 8,
	 {.kind = PACKET_TNT, .count = 47, .payload = 1ull << 17}},
	{"long tnt 4",
	 "02a31b0000000000",
	 0,
	 8,
	 {.kind = PACKET_TNT, .count = 4, .payload = 0xbull << 60}},
	{"long tnt without stop", "02a3000000000000", 0, PACKET_BAD, {0}},
	{"tip suppressed", "0d", 0, 1, {.kind = PACKET_TIP}},
	{"tip 2 bytes", "2d3412", 0, 3, {.kind = PACKET_TIP, .count = 1, .payload = 0x1234}},
	{"tip 4 bytes",
	 "4d78563412",
	 0,
	 5,
	 {.kind = PACKET_TIP, .count = 2, .payload = 0x12345678}},
	{"pge 6 bytes",
	 "71010203040506",
	 0,
	 7,
	 {.kind = PACKET_TIP_PGE, .count = 3, .payload = 0x060504030201}},
	{"pgd 6 bytes update",
	 "81010203040506",
	 0,
	 7,
	 {.kind = PACKET_TIP_PGD, .count = 4, .payload = 0x060504030201}},
	{"fup 8 bytes",
	 "dd0102030405060708",
	 0,
	 9,
	 {.kind = PACKET_FUP, .count = 6, .payload = 0x0807060504030201}},
	{"ip bytes 5 are reserved", "ad010203040506", 0, PACKET_BAD, {0}},
	{"ip bytes 7 are reserved", "ed010203040506", 0, PACKET_BAD, {0}},
	{"mode exec 64", "9901", 0, 2, {.kind = PACKET_MODE_EXEC, .payload = 64}},
	{"mode exec 32 IF", "9906", 0, 2, {.kind = PACKET_MODE_EXEC, .payload = 32, .flag = true}},
	{"mode exec 16", "9900", 0, 2, {.kind = PACKET_MODE_EXEC, .payload = 16}},
	{"mode exec reserved", "9903", 0, PACKET_BAD, {0}},
	{"mode tsx abort", "9922", 0, 2, {.kind = PACKET_MODE_TSX, .payload = PACKET_TSX_ABORT}},
	{"mode reserved", "9940", 0, PACKET_BAD, {0}},
	{"pip", "0243030000000000", 0, 8, {.kind = PACKET_PIP, .payload = 0x20, .flag = true}},
	{"vmcs", "02c80100000000", 0, 7, {.kind = PACKET_VMCS, .payload = 0x1000}},
	{"cbr", "02031500", 0, 4, {.kind = PACKET_CBR, .payload = 0x15}},
	{"tsc", "1901020304050607", 0, 8, {.kind = PACKET_TSC, .payload = 0x07060504030201}},
	{"tma", "02733412004501", 0, 7, {.kind = PACKET_TMA, .payload = 0x1234, .extra = 0x145}},
	{"mtc", "5942", 0, 2, {.kind = PACKET_MTC, .payload = 0x42}},
	{"cyc 5 bits", "fb", 0, 1, {.kind = PACKET_CYC, .payload = 31}},
	{"cyc 12 bits", "07fe", 0, 2, {.kind = PACKET_CYC, .payload = 0x7f << 5}},
	{"cyc without an end", "0701010101010101010101", 0, PACKET_BAD, {0}},
	{"cyc cut off by an overflow (SKD007)", "0702f3", 0, 1, {.kind = PACKET_CYC}},
	{"cyc cut", "0701", 0, PACKET_CUT_SHORT, {0}},
	{"ovf", "02f3", 0, 2, {.kind = PACKET_OVF}},
	{"tracestop", "0283", 0, 2, {.kind = PACKET_TRACE_STOP}},
	{"mnt",
	 "02c3880102030405060708",
	 0,
	 11,
	 {.kind = PACKET_MNT, .payload = 0x0807060504030201}},
	{"ptw 4", "021201020304", 0, 6, {.kind = PACKET_PTW, .count = 4, .payload = 0x04030201}},
	{"ptw 8 ip",
	 "02b20102030405060708",
	 0,
	 10,
	 {.kind = PACKET_PTW, .count = 8, .flag = true, .payload = 0x0807060504030201}},
	{"ptw reserved", "025201020304", 0, PACKET_BAD, {0}},
	{"exstop", "0262", 0, 2, {.kind = PACKET_EXSTOP}},
	{"exstop ip", "02e2", 0, 2, {.kind = PACKET_EXSTOP, .flag = true}},
	{"mwait", "02c20100000002000000", 0, 10, {.kind = PACKET_MWAIT, .payload = 1, .extra = 2}},
	{"pwre", "02220102", 0, 4, {.kind = PACKET_PWRE, .payload = 0x0201}},
	{"pwrx", "02a20102030405", 0, 7, {.kind = PACKET_PWRX, .payload = 0x0504030201}},
	{"bbp 8", "026301", 0, 3, {.kind = PACKET_BBP, .count = 8, .payload = 1}},
	{"bbp 4", "026384", 0, 3, {.kind = PACKET_BBP, .count = 4, .payload = 4}},
	{"bip 8",
	 "0c0102030405060708",
	 PACKET_BLOCK_8,
	 9,
	 {.kind = PACKET_BIP, .extra = 1, .payload = 0x0807060504030201}},
	{"bip 4",
	 "1401020304",
	 PACKET_BLOCK_4,
	 5,
	 {.kind = PACKET_BIP, .extra = 2, .payload = 0x04030201}},
	{"no block, no bip", "0c", 0, 1, {.kind = PACKET_TNT, .count = 2, .payload = 2ull << 62}},
	{"bep", "0233", 0, 2, {.kind = PACKET_BEP}},
	{"bep ip", "02b3", 0, 2, {.kind = PACKET_BEP, .flag = true}},
	{"cfe", "0213810e", 0, 4, {.kind = PACKET_CFE, .flag = true, .extra = 1, .payload = 14}},
	{"evd",
	 "0253010807060504030201",
	 0,
	 11,
	 {.kind = PACKET_EVD, .extra = 1, .payload = 0x0102030405060708}},
	{"unknown extension", "02ff", 0, PACKET_BAD, {0}},
	{"unknown header", "05", 0, PACKET_BAD, {0}},
	{"empty", "", 0, PACKET_CUT_SHORT, {0}},
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

Test(packet, table)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct packet_case *c = &cases[i];
		uint8_t bytes[32];
		struct packet p = {0};
		int length = packet_decode(bytes, from_hex(c->bytes, bytes), c->context, &p);

		cr_expect_eq(length, c->length, "%s: length %d", c->name, length);
		if (length <= 0)
			continue;
		cr_expect_eq(p.length, length, "%s", c->name);
		cr_expect_eq(p.kind, c->expected.kind, "%s: kind %d", c->name, p.kind);
		cr_expect_eq(p.count, c->expected.count, "%s: count %d", c->name, p.count);
		cr_expect_eq(p.flag, c->expected.flag, "%s: flag %d", c->name, p.flag);
		cr_expect_eq(p.extra, c->expected.extra, "%s: extra %x", c->name, p.extra);
		cr_expect_eq(p.payload, c->expected.payload, "%s: payload %lx", c->name,
			     (unsigned long)p.payload);
	}
}

Test(packet, cut_short_is_said_at_every_length)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint8_t bytes[32];
		struct packet p;

		from_hex(cases[i].bytes, bytes);
		for (int count = 0; count < cases[i].length; count++)
			cr_expect_eq(packet_decode(bytes, (size_t)count, cases[i].context, &p),
				     PACKET_CUT_SHORT, "%s cut to %d", cases[i].name, count);
	}
}

Test(packet, ips)
{
	const uint64_t last = 0x1122334455667788;

	cr_expect_eq(packet_ip(last, 0, 0), last);
	cr_expect_eq(packet_ip(last, 1, 0xabcd), 0x112233445566abcd);
	cr_expect_eq(packet_ip(last, 2, 0x89abcdef), 0x1122334489abcdef);
	cr_expect_eq(packet_ip(last, 3, 0x7fffffffffff), 0x7fffffffffff);
	cr_expect_eq(packet_ip(last, 3, 0x800000000000), 0xffff800000000000);
	cr_expect_eq(packet_ip(last, 4, 0x800000000000), 0x1122800000000000);
	cr_expect_eq(packet_ip(last, 6, 5), 5);
}

Test(packet, find_psb)
{
	uint8_t bytes[64] = {0x02, 0x82};

	cr_expect_null(packet_find_psb(bytes, sizeof bytes));
	cr_expect_null(packet_find_psb(NULL, 0));
	from_hex("02820282028202820282028202820282", bytes + 11);
	cr_expect_eq(packet_find_psb(bytes, sizeof bytes), bytes + 11);
	cr_expect_null(packet_find_psb(bytes, 11 + 15));
	from_hex("570282", bytes + 8); /* CYC, TNT */
	cr_expect_eq(packet_find_psb(bytes, sizeof bytes), bytes + 11);
}

Test(packet, contexts)
{
	struct packet bbp = {.kind = PACKET_BBP, .count = 4}, cyc = {.kind = PACKET_CYC},
		      bep = {.kind = PACKET_BEP};

	cr_expect_eq(packet_next_context(PACKET_NO_BLOCK, &bbp), PACKET_BLOCK_4);
	cr_expect_eq(packet_next_context(PACKET_BLOCK_4, &cyc), PACKET_BLOCK_4);
	cr_expect_eq(packet_next_context(PACKET_BLOCK_4, &bep), PACKET_NO_BLOCK);
}
