/* See insn.h.
 *
 * An instruction is  prefixes [REX|REX2|VEX|EVEX|XOP] opcode [ModRM [SIB] disp] immediates.
 * One table per opcode map says for each opcode what follows it, a letter each:
 *
 *   .  nothing            M  ModRM               x  no such opcode
 *   b  imm8               B  ModRM, imm8         P  a prefix        E  another map
 *   w  imm16              Z  ModRM, imm16/32     r  ModRM, registers only (mod ignored)
 *   z  imm16/32           v  imm16/32/64         o  address-sized offset
 *   p  far pointer        e  imm16, imm8         g, G  ModRM, imm8 or imm16/32 for TEST only
 *
 * Sizes and lengths come from there; the few opcodes that branch are then looked at by hand. */
#include "decode/insn.h"

#include <string.h>

/* Rows 00, 10, ...: columns 0-F. The 32-bit view; what 64-bit mode lacks is in one_byte_64(). */
static const char map_one[] = "MMMMbz..MMMMbz.E"
			      "MMMMbz..MMMMbz.."
			      "MMMMbzP.MMMMbzP."
			      "MMMMbzP.MMMMbzP."
			      "................"
			      "................"
			      "..MMPPPPzZbB...."
			      "bbbbbbbbbbbbbbbb"
			      "BZBBMMMMMMMMMMMM"
			      "..........p....."
			      "oooo....bz......"
			      "bbbbbbbbvvvvvvvv"
			      "BBw.MMBZe.w..b.."
			      "MMMMbb..MMMMMMMM"
			      "bbbbbbbbzzpb...."
			      "P.PP..gG......MM";

static const char map_0f[] = "MMMMx.....x.xM.B"
			     "MMMMMMMMMMMMMMMM"
			     "rrrrxxxxMMMMMMMM"
			     "......x.ExExxxxx"
			     "MMMMMMMMMMMMMMMM"
			     "MMMMMMMMMMMMMMMM"
			     "MMMMMMMMMMMMMMMM"
			     "BBBBMMM.MMxxMMMM"
			     "zzzzzzzzzzzzzzzz"
			     "MMMMMMMMMMMMMMMM"
			     "...MBMMM...MBMMM"
			     "MMMMMMMMMMBMMMMM"
			     "MMBMBBBM........"
			     "MMMMMMMMMMMMMMMM"
			     "MMMMMMMMMMMMMMMM"
			     "MMMMMMMMMMMMMMMM";

enum {
	MAP_ONE,
	MAP_0F,
	MAP_0F38,
	MAP_0F3A,
	MAP_APX,
	MAP_5,
	MAP_6,
	MAP_7,
	MAP_XOP_8,
	MAP_XOP_9,
	MAP_XOP_A
};

enum encoding { LEGACY, REX2, VEX, EVEX, XOP };

/* What the prefixes and the opcode said so far. */
struct decoding {
	const uint8_t *bytes;
	size_t count, at; /* at: the next byte */
	enum insn_mode mode;
	enum encoding encoding;
	uint8_t map, opcode;
	bool size_16, address_size, repeat, repeat_ne; /* 66, 67, F3, F2 seen */
	bool wide;                                     /* REX.W and its kin */
	uint8_t modrm;
	size_t modrm_at;
};

static bool is_legacy_prefix(uint8_t byte)
{
	return map_one[byte] == 'P';
}

static bool take(struct decoding *d, uint8_t *byte)
{
	if (d->at >= d->count)
		return false;
	*byte = d->bytes[d->at++];
	return true;
}

/* In 32-bit mode C4, C5 and 62 are vector prefixes only where the ModRM of the legacy
 * instruction would name a register. */
static bool next_is_register_form(const struct decoding *d)
{
	return d->at < d->count && d->bytes[d->at] >= 0xc0;
}

static bool decode_vex(struct decoding *d, uint8_t first)
{
	uint8_t byte;

	d->encoding = VEX;
	d->map = MAP_0F;
	if (!take(d, &byte))
		return false;
	if (first == 0xc4) {
		d->map = byte & 0x1f;
		if (!take(d, &byte))
			return false;
		d->wide = byte & 0x80;
		if (d->map == MAP_ONE || d->map == MAP_APX || d->map > MAP_7)
			return false;
	}
	return take(d, &d->opcode);
}

static bool decode_evex(struct decoding *d)
{
	uint8_t p0, p1, p2;

	if (!take(d, &p0) || !take(d, &p1) || !take(d, &p2))
		return false;
	d->encoding = EVEX;
	d->map = p0 & 7;
	d->wide = p1 & 0x80;
	d->size_16 = (p1 & 3) == 1;
	if (d->map == MAP_ONE || (d->map == MAP_APX && d->mode == INSN_32))
		return false;
	return take(d, &d->opcode);
}

static bool decode_xop(struct decoding *d)
{
	uint8_t p0, p1;

	if (!take(d, &p0) || !take(d, &p1))
		return false;
	d->encoding = XOP;
	switch (p0 & 0x1f) {
	case 8: d->map = MAP_XOP_8; break;
	case 9: d->map = MAP_XOP_9; break;
	case 10: d->map = MAP_XOP_A; break;
	default: return false;
	}
	return take(d, &d->opcode);
}

static bool decode_0f_escape(struct decoding *d)
{
	if (!take(d, &d->opcode))
		return false;
	d->map = MAP_0F;
	if (d->opcode != 0x38 && d->opcode != 0x3a)
		return true;
	d->map = d->opcode == 0x38 ? MAP_0F38 : MAP_0F3A;
	return take(d, &d->opcode);
}

static bool decode_rex2(struct decoding *d)
{
	uint8_t payload;

	if (!take(d, &payload))
		return false;
	d->encoding = REX2;
	d->wide = payload & 8;
	d->map = payload & 0x80 ? MAP_0F : MAP_ONE;
	if (!take(d, &d->opcode))
		return false;
	/* Escapes, prefixes and short branches have no REX2 form; only A1 of row A is JMPABS. */
	uint8_t row = d->opcode >> 4;
	if (d->map == MAP_0F)
		return row != 3 && row != 8;
	return d->opcode != 0x0f && !is_legacy_prefix(d->opcode) && row != 4 && row != 7 &&
	       row != 0xe && (row != 0xa || d->opcode == 0xa1);
}

/* Reads prefixes and the opcode. */
static bool decode_opcode(struct decoding *d)
{
	uint8_t byte;

	for (;;) {
		if (!take(d, &byte))
			return false;
		if (d->mode == INSN_64 && (byte & 0xf0) == 0x40) {
			/* A REX counts only directly before the opcode. */
			d->wide = byte & 8;
			continue;
		}
		if (!is_legacy_prefix(byte))
			break;
		d->wide = false;
		d->size_16 |= byte == 0x66;
		d->address_size |= byte == 0x67;
		d->repeat |= byte == 0xf3;
		d->repeat_ne |= byte == 0xf2;
	}
	d->opcode = byte;
	bool vector = d->mode == INSN_64 || next_is_register_form(d);
	switch (byte) {
	case 0x0f: return decode_0f_escape(d);
	case 0xc4:
	case 0xc5: return !vector || decode_vex(d, byte);
	case 0x62: return !vector || decode_evex(d);
	case 0x8f:
		/* POP has reg 0, so its second byte is below 8 in the low five bits. */
		if (d->at < d->count && (d->bytes[d->at] & 0x1f) >= 8)
			return decode_xop(d);
		return true;
	case 0xd5: return d->mode != INSN_64 || decode_rex2(d);
	}
	return true;
}

static char one_byte_64(uint8_t opcode)
{
	switch (opcode) {
	case 0x06:
	case 0x07:
	case 0x0e:
	case 0x16:
	case 0x17:
	case 0x1e:
	case 0x1f:
	case 0x27:
	case 0x2f:
	case 0x37:
	case 0x3f:
	case 0x60:
	case 0x61:
	case 0x82:
	case 0x9a:
	case 0xce:
	case 0xd4:
	case 0xd6:
	case 0xea: return 'x';
	}
	return map_one[opcode];
}

static bool has_imm8_in_0f(uint8_t opcode)
{
	return map_0f[opcode] == 'B' && opcode != 0x0f && opcode != 0xa4 && opcode != 0xac &&
	       opcode != 0xba;
}

/* The letter of the tables for this opcode. */
static char operand_form(const struct decoding *d)
{
	switch (d->map) {
	case MAP_ONE:
		if (d->encoding == REX2 && d->opcode == 0xa1)
			return 'o';
		return d->mode == INSN_64 ? one_byte_64(d->opcode) : map_one[d->opcode];
	case MAP_0F:
		if (d->encoding == LEGACY || d->encoding == REX2) {
			/* EXTRQ and INSERTQ (SSE4A) carry two immediate bytes. */
			if (d->opcode == 0x78 && (d->size_16 || d->repeat_ne))
				return 's';
			return map_0f[d->opcode];
		}
		if (d->encoding == VEX && d->opcode == 0x77)
			return '.';
		return has_imm8_in_0f(d->opcode) ? 'B' : 'M';
	case MAP_0F3A:
	case MAP_XOP_8: return 'B';
	case MAP_APX:
		/* Promoted legacy instructions keep their immediates. */
		switch (d->opcode) {
		case 0x24:
		case 0x2c:
		case 0x6b:
		case 0x80:
		case 0x83:
		case 0xc0:
		case 0xc1: return 'B';
		case 0x69:
		case 0x81: return 'Z';
		case 0xf6: return 'g';
		case 0xf7: return 'G';
		}
		return 'M';
	case MAP_7: return 'i'; /* URDMSR, UWRMSR, RDMSR, WRMSRNS with an immediate MSR */
	case MAP_XOP_A: return 'i';
	}
	return 'M';
}

static size_t displacement_bytes(struct decoding *d)
{
	uint8_t mod = d->modrm >> 6, rm = d->modrm & 7;

	if (d->mode == INSN_32 && d->address_size) {
		if (mod == 0)
			return rm == 6 ? 2 : 0;
		return mod; /* 1 or 2 */
	}
	size_t bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
	if (rm == 4) {
		uint8_t sib = 0;
		if (!take(d, &sib))
			d->at = d->count + 1;
		if (mod == 0 && (sib & 7) == 5)
			bytes = 4;
	} else if (mod == 0 && rm == 5) {
		bytes = 4;
	}
	return bytes;
}

static bool skip_modrm(struct decoding *d, char form)
{
	d->modrm_at = d->at;
	if (!take(d, &d->modrm))
		return false;
	if (form == 'r' || d->modrm >= 0xc0)
		return true;
	d->at += displacement_bytes(d);
	return d->at <= d->count;
}

static bool is_near_branch(const struct decoding *d)
{
	if (d->map == MAP_0F)
		return d->encoding == LEGACY && (d->opcode & 0xf0) == 0x80;
	return d->map == MAP_ONE && (d->opcode == 0xe8 || d->opcode == 0xe9);
}

static size_t immediate_bytes(const struct decoding *d, char form)
{
	/* In 64-bit mode Intel CPUs ignore the operand size of near branches. */
	bool half = d->size_16 && !d->wide && !(d->mode == INSN_64 && is_near_branch(d));
	size_t z = half ? 2 : 4;
	bool is_test = (d->modrm & 0x38) <= 8;
	size_t address = d->mode == INSN_64 ? 8 : 4;

	switch (form) {
	case 'b':
	case 'B': return 1;
	case 'w':
	case 's': return 2;
	case 'z':
	case 'Z': return z;
	case 'v': return d->wide ? 8 : z;
	case 'i': return 4;
	case 'e': return 3;
	case 'p': return z + 2;
	case 'o':
		if (d->encoding == REX2)
			return 8;
		return d->address_size ? address / 2 : address;
	case 'g': return is_test ? 1 : 0;
	case 'G': return is_test ? z : 0;
	}
	return 0;
}

static uint8_t kind_in_0f(const struct decoding *d)
{
	uint8_t reg = d->modrm >> 3 & 7;

	switch (d->opcode) {
	case 0x05:
	case 0x34: return INSN_SYSCALL;
	case 0x07:
	case 0x35: return INSN_SYSRET;
	case 0xae: return d->repeat && reg == 4 ? INSN_PTWRITE : INSN_OTHER;
	case 0x01:
		switch (d->modrm) {
		case 0xc1: return INSN_VMCALL;
		case 0xc2:
		case 0xc3: return INSN_VMENTRY;
		case 0xca:
			if (d->mode == INSN_64 && d->repeat)
				return INSN_SYSRET;
			return d->mode == INSN_64 && d->repeat_ne ? INSN_IRET : INSN_OTHER;
		case 0xd5: return d->repeat || d->size_16 ? INSN_OTHER : INSN_XEND;
		case 0xec: return d->mode == INSN_64 && d->repeat ? INSN_IRET : INSN_OTHER;
		}
		return INSN_OTHER;
	}
	return (d->opcode & 0xf0) == 0x80 ? INSN_COND : INSN_OTHER;
}

static uint8_t kind_in_one(const struct decoding *d)
{
	static const uint8_t group_ff[8] = {
		[2] = INSN_CALL_INDIRECT,
		[3] = INSN_FAR_CALL,
		[4] = INSN_JUMP_INDIRECT,
		[5] = INSN_FAR_JUMP,
	};

	if ((d->opcode & 0xf0) == 0x70)
		return INSN_COND;
	switch (d->opcode) {
	case 0x9a: return INSN_FAR_CALL;
	case 0xa1: return d->encoding == REX2 ? INSN_JUMP_INDIRECT : INSN_OTHER;
	case 0xc2:
	case 0xc3: return INSN_RETURN;
	case 0xc6: return d->modrm == 0xf8 ? INSN_XABORT : INSN_OTHER;
	case 0xc7: return d->modrm == 0xf8 ? INSN_XBEGIN : INSN_OTHER;
	case 0xca:
	case 0xcb: return INSN_FAR_RETURN;
	case 0xcc:
	case 0xcd:
	case 0xce:
	case 0xf1: return INSN_INT;
	case 0xcf: return INSN_IRET;
	case 0xe0:
	case 0xe1:
	case 0xe2:
	case 0xe3: return INSN_COND;
	case 0xe8: return INSN_CALL;
	case 0xe9:
	case 0xeb: return INSN_JUMP;
	case 0xea: return INSN_FAR_JUMP;
	case 0xff: return group_ff[d->modrm >> 3 & 7];
	}
	return INSN_OTHER;
}

static uint8_t branch_kind(const struct decoding *d)
{
	if (d->encoding != LEGACY && d->encoding != REX2)
		return INSN_OTHER;
	if (d->map == MAP_0F)
		return kind_in_0f(d);
	return d->map == MAP_ONE ? kind_in_one(d) : INSN_OTHER;
}

static int32_t load_relative(const uint8_t *p, size_t bytes)
{
	int16_t word;
	int32_t dword;

	switch (bytes) {
	case 1: return (int8_t)*p;
	case 2: memcpy(&word, p, 2); return word;
	}
	memcpy(&dword, p, 4);
	return dword;
}

bool insn_decode(const uint8_t *bytes, size_t count, enum insn_mode mode, struct insn *result)
{
	struct decoding d = {
		.bytes = bytes,
		.count = count < INSN_MAX_BYTES ? count : INSN_MAX_BYTES,
		.mode = mode,
	};

	if (!decode_opcode(&d))
		return false;
	char form = operand_form(&d);
	if (form == 'x' || form == 'P' || form == 'E')
		return false;
	if (strchr("MBZrgGsi", form) && !skip_modrm(&d, form))
		return false;
	size_t immediate = immediate_bytes(&d, form);
	if (immediate > d.count - d.at)
		return false;
	*result = (struct insn){
		.length = (uint8_t)(d.at + immediate),
		.kind = branch_kind(&d),
		.operand = (uint8_t)d.modrm_at,
	};
	switch (result->kind) {
	case INSN_COND:
	case INSN_JUMP:
	case INSN_CALL:
	case INSN_XBEGIN:
		result->relative = load_relative(bytes + d.at, immediate);
		result->truncates_ip = mode == INSN_32 && d.size_16;
	}
	return true;
}
