#include "symbolize/eh_frame.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define SECTION_VADDR 0x10000u

static void put32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof value);
}

/* A CIE "zPLR" (pcrel sdata4 pointers, plain LSDA pointers of 4 bytes), an FDE with an LSDA,
 * an FDE that begins headless, and the terminator. */
static size_t make_section(uint8_t section[128])
{
	static const uint8_t cie[] = {
		24,   0,    0,   0,           /* length */
		0,    0,    0,   0,           /* it is a CIE */
		1,    'z',  'P', 'L', 'R', 0, /* version, augmentation */
		1,    0x78, 16,               /* alignments, return register */
		7,                            /* bytes of augmentation data */
		0x03, 0,    0,   0,   0,      /* personality, udata4 */
		0x03,                         /* LSDA pointers: udata4 */
		0x1b,                         /* code pointers: pcrel sdata4 */
		0,    0,    0,
	};
	static const uint8_t fde[] = {
		20, 0, 0, 0, 0, 0, 0, 0, /* length, distance to the CIE */
		0,  0, 0, 0, 0, 0, 0, 0, /* start, size */
		4,  0, 0, 0, 0,          /* augmentation data: LSDA */
		0,  0, 0,                /* CFI: nops */
	};
	uint8_t *at = section;

	memset(section, 0, 128);
	memcpy(at, cie, sizeof cie);
	at += sizeof cie;
	for (int i = 0; i < 2; i++) {
		memcpy(at, fde, sizeof fde);
		put32(at + 4, (uint32_t)(at + 4 - section));
		put32(at + 8,
		      (i ? 0x3000u : 0x2000u) - (SECTION_VADDR + (uint32_t)(at + 8 - section)));
		put32(at + 12, 0x40);
		put32(at + 17, i ? 0 : 0x5000);
		if (i)
			memcpy(at + 21, "\x0e\x20\x00", 3); /* def_cfa_offset 32 */
		at += sizeof fde;
	}
	return (size_t)(at - section) + 4;
}

Test(eh_frame, ranges)
{
	uint8_t section[128];
	struct eh_frame eh = {0};
	uint64_t start = 0, end = UINT64_MAX;

	cr_assert(eh_frame_read(&eh, bytes_of(section, make_section(section)), SECTION_VADDR));
	cr_assert_eq(eh.ranges.count, 2);
	const struct eh_range *r = eh_frame_find(&eh, 0x203f, &start, &end);
	cr_assert_not_null(r);
	cr_expect_eq(r->start, 0x2000);
	cr_expect_eq(r->end, 0x2040);
	cr_expect_eq(r->lsda, 0x5000);
	cr_expect_not(r->headless);
	r = eh_frame_find(&eh, 0x3000, &start, &end);
	cr_assert_not_null(r);
	cr_expect_eq(r->lsda, 0);
	cr_expect(r->headless);
	cr_expect_null(eh_frame_find(&eh, 0x2040, &start, &end));
	cr_expect_eq(start, 0x2040, "the gap begins where the range before it ends");
	cr_expect_eq(end, 0x3000);
	eh_frame_done(&eh);
}

/* Cut and damaged sections give less, never something else to read. */
Test(eh_frame, damage)
{
	uint8_t section[128];
	size_t bytes = make_section(section);

	for (size_t cut = 0; cut <= bytes; cut++) {
		struct eh_frame eh = {0};
		uint8_t *copy = malloc(cut + 1); /* its end is guarded by the allocator's tools */

		cr_assert_not_null(copy);
		memcpy(copy, section, cut);
		cr_assert(eh_frame_read(&eh, bytes_of(copy, cut), SECTION_VADDR));
		cr_expect_leq(eh.ranges.count, 2);
		eh_frame_done(&eh);
		free(copy);
	}
	for (size_t i = 0; i < bytes * 256; i++) {
		struct eh_frame eh = {0};
		uint8_t kept = section[i / 256];

		section[i / 256] = (uint8_t)i;
		cr_assert(eh_frame_read(&eh, bytes_of(section, bytes), SECTION_VADDR));
		for (size_t k = 0; k < eh.ranges.count; k++)
			cr_expect_lt(eh.ranges.items[k].start, eh.ranges.items[k].end);
		eh_frame_done(&eh);
		section[i / 256] = kept;
	}
}

Test(eh_frame, landing_pads)
{
	/* No LPStart, no types; call sites uleb: { 0x04, 8, pad 0x30 } { 0x10, 4, none }
	 * { 0x18, 8, pad 0x38 } */
	static const uint8_t lsda[] = {0xff, 0xff, 0x01, 12, 0x04, 8, 0x30, 1,
				       0x10, 4,    0,    0,  0x18, 8, 0x38, 0};
	const struct eh_range range = {.start = 0x2000, .end = 0x2040, .lsda = 0x5000};
	static const struct {
		uint64_t return_vaddr, pad; /* 0 = none */
	} cases[] = {{0x2004, 0}, {0x2005, 0x2030}, {0x200c, 0x2030}, {0x200d, 0},
		     {0x2012, 0}, {0x2019, 0x2038}, {0x2020, 0x2038}, {0x2021, 0}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint64_t pad = 0;
		bool found = lsda_landing_pad(bytes_of(lsda, sizeof lsda), &range,
					      cases[i].return_vaddr, &pad);

		cr_expect_eq(found, cases[i].pad != 0, "%#x", (unsigned)cases[i].return_vaddr);
		cr_expect_eq(pad, cases[i].pad, "%#x: %#x", (unsigned)cases[i].return_vaddr,
			     (unsigned)pad);
	}
	for (size_t cut = 0; cut < sizeof lsda; cut++) {
		uint64_t pad;

		cr_expect_not(lsda_landing_pad(bytes_of(lsda, cut), &range, 0x2020, &pad));
	}
}
