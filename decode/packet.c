/* See packet.h. The first byte tells the family:
 *
 *   0000 0000  PAD          .... ...1, bit 1 set    CYC
 *   0000 0010  extended     ...0 1101, 1 0001, 0 0001, 1 1101   TIP, PGE, PGD, FUP
 *   .... ...0  short TNT    0001 1001 TSC   0101 1001 MTC   1001 1001 MODE
 *
 * The second byte of an extended packet tells its kind. */
#include "decode/packet.h"

#include <string.h>

#include "common/bytes.h"

/* Fixed-size packets: length and where the payload lies. */
static int fixed(struct packet *p, enum packet_kind kind, const uint8_t *bytes, size_t count,
		 size_t header, size_t payload)
{
	if (count < header + payload)
		return PACKET_CUT_SHORT;
	p->kind = (uint8_t)kind;
	p->payload = load_le(bytes + header, payload);
	return (int)(header + payload);
}

static int tnt(struct packet *p, uint64_t bits, unsigned width, int length)
{
	/* `bits` holds the payload with its stop bit in the low `width` bits. */
	if (bits == 0)
		return PACKET_BAD;
	unsigned stop = 63 - (unsigned)__builtin_clzll(bits);
	if (stop >= width)
		return PACKET_BAD;
	p->kind = PACKET_TNT;
	p->count = (uint8_t)stop;
	p->payload = stop ? bits << (64 - stop) : 0;
	return length;
}

static int decode_ip(struct packet *p, enum packet_kind kind, const uint8_t *bytes, size_t count)
{
	p->count = bytes[0] >> 5;
	size_t payload = packet_ip_bytes(p->count);

	return payload == 0xff ? PACKET_BAD : fixed(p, kind, bytes, count, 1, payload);
}

static int decode_cyc(struct packet *p, const uint8_t *bytes, size_t count)
{
	size_t at = 1;
	unsigned shift = 5;
	bool more = bytes[0] & 4;

	p->kind = PACKET_CYC;
	p->payload = bytes[0] >> 3;
	/* Erratum SKD007: an OVF may stand in place of a CYC's further bytes. Two CYCs in a row,
	 * the other reading, do not occur. */
	if (more && count >= 3 && bytes[1] == 0x02 && bytes[2] == 0xf3)
		more = false;
	while (more) {
		if (shift > 63)
			return PACKET_BAD;
		if (at >= count)
			return PACKET_CUT_SHORT;
		p->payload |= (uint64_t)(bytes[at] >> 1) << shift;
		more = bytes[at++] & 1;
		shift += 7;
	}
	return (int)at;
}

static int decode_mode(struct packet *p, const uint8_t *bytes, size_t count)
{
	static const uint8_t widths[] = {16, 64, 32};

	if (count < 2)
		return PACKET_CUT_SHORT;
	uint8_t low = bytes[1] & 3;
	if (low == 3 || bytes[1] >> 5 > 1)
		return PACKET_BAD;
	bool is_exec = bytes[1] >> 5 == 0;
	p->kind = is_exec ? PACKET_MODE_EXEC : PACKET_MODE_TSX;
	p->payload = is_exec ? widths[low] : low;
	p->flag = is_exec && (bytes[1] & 4);
	return 2;
}

static int decode_psb(struct packet *p, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < PSB_BYTES && i < count; i++)
		if (bytes[i] != (i % 2 ? 0x82 : 0x02))
			return PACKET_BAD;
	return fixed(p, PACKET_PSB, bytes, count, PSB_BYTES, 0);
}

static int decode_ptwrite(struct packet *p, const uint8_t *bytes, size_t count)
{
	if (bytes[1] & 0x40)
		return PACKET_BAD;
	p->flag = bytes[1] & 0x80;
	p->count = bytes[1] & 0x20 ? 8 : 4;
	return fixed(p, PACKET_PTW, bytes, count, 2, p->count);
}

static int decode_wide(struct packet *p, const uint8_t *bytes, size_t count)
{
	int length;

	switch (bytes[1]) {
	case 0xa3: /* long TNT */
		return count < 8 ? PACKET_CUT_SHORT : tnt(p, load_le(bytes + 2, 6), 48, 8);
	case 0x43:
		length = fixed(p, PACKET_PIP, bytes, count, 2, 6);
		p->flag = p->payload & 1;
		p->payload = p->payload >> 1 << 5;
		return length;
	case 0xc8:
		length = fixed(p, PACKET_VMCS, bytes, count, 2, 5);
		p->payload <<= 12;
		return length;
	case 0x73:
		length = fixed(p, PACKET_TMA, bytes, count, 2, 5);
		p->extra = p->payload >> 24 & 0x1ff;
		p->payload &= 0xffff;
		return length;
	case 0xc3:
		if (count < 3)
			return PACKET_CUT_SHORT;
		return bytes[2] == 0x88 ? fixed(p, PACKET_MNT, bytes, count, 3, 8) : PACKET_BAD;
	case 0xc2:
		length = fixed(p, PACKET_MWAIT, bytes, count, 2, 8);
		p->extra = (uint32_t)(p->payload >> 32);
		p->payload &= 0xffffffff;
		return length;
	case 0x03: /* two payload bytes, the upper reserved */
		length = fixed(p, PACKET_CBR, bytes, count, 2, 2);
		p->payload &= 0xff;
		return length;
	case 0x63:
		length = fixed(p, PACKET_BBP, bytes, count, 2, 1);
		p->count = p->payload & 0x80 ? 4 : 8;
		p->payload &= 0x1f;
		return length;
	case 0x13:
		length = fixed(p, PACKET_CFE, bytes, count, 2, 2);
		p->flag = p->payload & 0x80;
		p->extra = p->payload & 0x1f;
		p->payload >>= 8;
		return length;
	case 0x53:
		length = fixed(p, PACKET_EVD, bytes, count, 3, 8);
		p->extra = length > 0 ? bytes[2] & 0x3f : 0;
		return length;
	}
	return PACKET_BAD;
}

static int decode_extended(struct packet *p, const uint8_t *bytes, size_t count)
{
	if (count < 2)
		return PACKET_CUT_SHORT;
	if ((bytes[1] & 0x1f) == 0x12)
		return decode_ptwrite(p, bytes, count);
	switch (bytes[1]) {
	case 0x82: return decode_psb(p, bytes, count);
	case 0x23: return fixed(p, PACKET_PSBEND, bytes, count, 2, 0);
	case 0x83: return fixed(p, PACKET_TRACE_STOP, bytes, count, 2, 0);
	case 0xf3: return fixed(p, PACKET_OVF, bytes, count, 2, 0);
	case 0x22: return fixed(p, PACKET_PWRE, bytes, count, 2, 2);
	case 0xa2: return fixed(p, PACKET_PWRX, bytes, count, 2, 5);
	case 0x62:
	case 0xe2: p->flag = bytes[1] & 0x80; return fixed(p, PACKET_EXSTOP, bytes, count, 2, 0);
	case 0x33:
	case 0xb3: p->flag = bytes[1] & 0x80; return fixed(p, PACKET_BEP, bytes, count, 2, 0);
	}
	return decode_wide(p, bytes, count);
}

static int decode_any(struct packet *p, const uint8_t *bytes, size_t count,
		      enum packet_context context)
{
	uint8_t first = bytes[0];

	if (context != PACKET_NO_BLOCK && (first & 7) == 4) {
		p->extra = first >> 3;
		return fixed(p, PACKET_BIP, bytes, count, 1, context == PACKET_BLOCK_4 ? 4 : 8);
	}
	if (first == 0)
		return fixed(p, PACKET_PAD, bytes, count, 1, 0);
	if (first == 2)
		return decode_extended(p, bytes, count);
	if (!(first & 1))
		return tnt(p, first >> 1, 7, 1);
	if (first & 2)
		return decode_cyc(p, bytes, count);
	switch (first & 0x1f) {
	case 0x0d: return decode_ip(p, PACKET_TIP, bytes, count);
	case 0x11: return decode_ip(p, PACKET_TIP_PGE, bytes, count);
	case 0x01: return decode_ip(p, PACKET_TIP_PGD, bytes, count);
	case 0x1d: return decode_ip(p, PACKET_FUP, bytes, count);
	}
	switch (first) {
	case 0x99: return decode_mode(p, bytes, count);
	case 0x19: return fixed(p, PACKET_TSC, bytes, count, 1, 7);
	case 0x59: return fixed(p, PACKET_MTC, bytes, count, 1, 1);
	}
	return PACKET_BAD;
}

int packet_decode(const uint8_t *bytes, size_t count, enum packet_context context,
		  struct packet *result)
{
	struct packet p = {0};

	if (count == 0)
		return PACKET_CUT_SHORT;
	int length = decode_any(&p, bytes, count, context);
	if (length > 0) {
		p.length = (uint8_t)length;
		*result = p;
	}
	return length;
}

enum packet_context packet_next_context(enum packet_context context, const struct packet *p)
{
	switch (p->kind) {
	case PACKET_BBP: return p->count == 4 ? PACKET_BLOCK_4 : PACKET_BLOCK_8;
	/* Time and power packets may stand inside a block; whatever else comes ends it. */
	case PACKET_BIP:
	case PACKET_PAD:
	case PACKET_TSC:
	case PACKET_TMA:
	case PACKET_MTC:
	case PACKET_CYC:
	case PACKET_CBR:
	case PACKET_MNT:
	case PACKET_PWRE:
	case PACKET_PWRX:
	case PACKET_EXSTOP:
	case PACKET_FUP: return context;
	}
	return PACKET_NO_BLOCK;
}

const char *packet_name(enum packet_kind kind)
{
	static const char *const names[] = {
		"PAD",       "PSB",      "PSBEND",    "TNT",  "TIP", "TIP.PGE", "TIP.PGD", "FUP",
		"MODE.Exec", "MODE.TSX", "PIP",       "VMCS", "CBR", "TSC",     "TMA",     "MTC",
		"CYC",       "OVF",      "TraceStop", "MNT",  "PTW", "EXSTOP",  "MWAIT",   "PWRE",
		"PWRX",      "BBP",      "BIP",       "BEP",  "CFE", "EVD",
	};
	_Static_assert(sizeof names / sizeof *names == PACKET_KIND_COUNT, "a name each");

	return kind < PACKET_KIND_COUNT ? names[kind] : "?";
}

const uint8_t *packet_find_psb(const uint8_t *bytes, size_t count)
{
	static const uint8_t psb[PSB_BYTES] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
					       2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};

	const uint8_t *p = count ? memmem(bytes, count, psb, sizeof psb) : NULL;

	/* The packets before it may end as it begins: a CYC with 02, a TNT that is 82. */
	while (p && bytes + count - p >= PSB_BYTES + 2 && memcmp(p + PSB_BYTES, psb, 2) == 0)
		p += 2;
	return p;
}
