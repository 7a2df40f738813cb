#include "testdata/packet.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Each packet against the bytes that the SDM's tables give. */
static void expect(const struct packet_writer *w, const char *name, const char *hex)
{
	char found[256] = "";
	size_t at = 0;

	for (size_t i = 0; i < w->bytes.count && at < sizeof found - 3; i++)
		at += (size_t)snprintf(found + at, sizeof found - at, "%s%02x", i ? " " : "",
				       w->bytes.items[i]);
	cr_expect_str_eq(found, hex, "%s: %s instead of %s", name, found, hex);
}

#define EXPECT(call, hex) \
	do { \
		struct packet_writer w = {0}; \
		call; \
		expect(&w, #call, hex); \
		vec_done(&w.bytes); \
	} while (0)

Test(packet, bytes)
{
	EXPECT(packet_pad(&w), "00");
	EXPECT(packet_psb(&w), "02 82 02 82 02 82 02 82 02 82 02 82 02 82 02 82");
	EXPECT(packet_psbend(&w), "02 23");
	EXPECT(packet_tnt_short(&w, 1, 1), "06");
	EXPECT(packet_tnt_short(&w, 0x14, 6), "a8"); /* n t n t n n: the oldest is on top */
	EXPECT(packet_tnt_long(&w, 0, 47), "02 a3 00 00 00 00 00 80");
	EXPECT(packet_tnt_long(&w, 5, 3), "02 a3 0d 00 00 00 00 00");
	EXPECT(packet_ip_suppressed(&w, PACKET_PGD), "01");
	EXPECT(packet_mode_exec(&w, 64, false), "99 01");
	EXPECT(packet_mode_exec(&w, 32, true), "99 06");
	EXPECT(packet_mode_tsx(&w, true, false), "99 21");
	EXPECT(packet_mode_tsx(&w, false, true), "99 22");
	EXPECT(packet_pip(&w, 0x12345000, true), "02 43 01 45 23 01 00 00");
	EXPECT(packet_vmcs(&w, 0x123456000), "02 c8 56 34 12 00 00");
	EXPECT(packet_cbr(&w, 28), "02 03 1c 00");
	EXPECT(packet_tsc(&w, 0x35b7b405d9ce8), "19 e8 9c 5d 40 7b 5b 03");
	EXPECT(packet_tma(&w, 0x111b, 0x10c), "02 73 1b 11 00 0c 01");
	EXPECT(packet_mtc(&w, 0x24), "59 24");
	EXPECT(packet_cyc(&w, 31), "fb");
	EXPECT(packet_cyc(&w, 32), "07 02");
	EXPECT(packet_cyc(&w, 0x1000), "07 01 02");
	EXPECT(packet_ovf(&w), "02 f3");
	EXPECT(packet_stop(&w), "02 83");
	EXPECT(packet_ptw(&w, 0x1234, 4, true), "02 92 34 12 00 00");
	EXPECT(packet_ptw(&w, 0x1234, 8, false), "02 32 34 12 00 00 00 00 00 00");
	EXPECT(packet_exstop(&w, true), "02 e2");
	EXPECT(packet_mwait(&w, 0x20, 1), "02 c2 20 00 00 00 01 00 00 00");
	EXPECT(packet_pwre(&w, 0x20), "02 22 00 20");
	EXPECT(packet_pwrx(&w, 2, 3, 1), "02 a2 23 01 00 00 00");
	EXPECT(packet_mnt(&w, 0x88), "02 c3 88 88 00 00 00 00 00 00 00");
	EXPECT(packet_cfe(&w, 1, 14, true), "02 13 81 0e");
	EXPECT(packet_evd(&w, 0, 0x7f00), "02 53 00 00 7f 00 00 00 00 00 00");
}

Test(packet, addresses_are_shortened_against_the_last_one)
{
	static const struct {
		uint64_t ip;
		const char *hex;
	} cases[] = {
		{0x7fd3b6983b70, "6d 70 3b 98 b6 d3 7f"}, /* nothing before it */
		{0x7fd3b6984770, "2d 70 47"},
		{0x7fd3b7001234, "4d 34 12 00 b7"},
		{0x401000, "6d 00 10 40 00 00 00"},
		{0xffffffff81000000, "6d 00 00 00 81 ff ff"}, /* sign-extended from bit 47 */
		{0x0100000000401000, "cd 00 10 40 00 00 00 00 01"},
	};
	struct packet_writer w = {0};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		w.bytes.count = 0;
		packet_ip(&w, PACKET_TIP, cases[i].ip);
		expect(&w, "tip", cases[i].hex);
	}
	w.bytes.count = 0;
	packet_ip(&w, PACKET_TIP, 0x401000);
	packet_ip_suppressed(&w, PACKET_PGD); /* changes nothing */
	packet_ip(&w, PACKET_TIP, 0x401000);
	expect(&w, "suppressed", "6d 00 10 40 00 00 00 01 2d 00 10");
	w.bytes.count = 0;
	packet_psbend(&w);
	packet_ip(&w, PACKET_FUP, 0x401000);
	expect(&w, "behind a PSB+", "02 23 7d 00 10 40 00 00 00");
	vec_done(&w.bytes);
}
