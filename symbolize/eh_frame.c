/* See eh_frame.h.
 *
 *   CIE  length 0 version augmentation...       what its FDEs share: pointer encodings
 *   FDE  length ->CIE start size ->LSDA CFI     one contiguous piece of a function
 *   LSDA encodings, { start size pad action }   one entry per group of calls of that piece
 */
#include "symbolize/eh_frame.h"

#include <stdlib.h>
#include <string.h>

enum {
	EH_ABSPTR = 0x00,
	EH_ULEB = 0x01,
	EH_UDATA2 = 0x02,
	EH_UDATA4 = 0x03,
	EH_UDATA8 = 0x04,
	EH_SLEB = 0x09,
	EH_SDATA2 = 0x0a,
	EH_SDATA4 = 0x0b,
	EH_SDATA8 = 0x0c,
	EH_PCREL = 0x10,
	EH_INDIRECT = 0x80,
	EH_OMIT = 0xff,
};

/* Bytes with their address, for pointers relative to where they stand. */
struct eh_reader {
	struct bytes b;
	const uint8_t *base;
	uint64_t vaddr; /* of base */
};

struct eh_cie {
	uint8_t pointer_encoding, lsda_encoding;
	bool has_size;     /* 'z': the length of the augmentation data is given */
	bool signal_frame; /* 'S' */
};

static uint64_t read_uleb(struct bytes *b)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = bytes_u8(b);

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static uint64_t read_sleb(struct bytes *b)
{
	uint64_t value = 0;

	for (unsigned shift = 0;;) {
		uint8_t byte = bytes_u8(b);

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (byte & 0x40 && shift < 64)
			value |= UINT64_MAX << shift;
		return value;
	}
}

/* A pointer, or with only the low bits of an encoding a plain number. Forms that need a
 * running process (relative to text, data or function; indirect) fail the reader. */
static uint64_t read_encoded(struct eh_reader *r, uint8_t encoding)
{
	uint64_t here = r->vaddr + (uint64_t)(r->b.p - r->base), value;

	switch (encoding & 0x0f) {
	case EH_ABSPTR:
	case EH_UDATA8:
	case EH_SDATA8: value = bytes_u64(&r->b); break;
	case EH_ULEB: value = read_uleb(&r->b); break;
	case EH_SLEB: value = read_sleb(&r->b); break;
	case EH_UDATA2: value = bytes_u16(&r->b); break;
	case EH_UDATA4: value = bytes_u32(&r->b); break;
	case EH_SDATA2: value = (uint64_t)(int64_t)(int16_t)bytes_u16(&r->b); break;
	case EH_SDATA4: value = (uint64_t)(int64_t)(int32_t)bytes_u32(&r->b); break;
	default: r->b.failed = true; return 0;
	}
	switch (encoding & 0xf0) {
	case 0: return value;
	case EH_PCREL: return value ? value + here : 0; /* 0 is "none", not "here" */
	default: r->b.failed = true; return 0;
	}
}

static bool read_cie(struct eh_reader r, struct eh_cie *cie)
{
	uint8_t version = bytes_u8(&r.b);
	const char *augmentation = bytes_string(&r.b);

	*cie = (struct eh_cie){.pointer_encoding = EH_ABSPTR, .lsda_encoding = EH_OMIT};
	if (!augmentation || (version != 1 && version != 3))
		return false;
	read_uleb(&r.b); /* code alignment */
	read_sleb(&r.b); /* data alignment */
	if (version == 1)
		bytes_u8(&r.b);
	else
		read_uleb(&r.b); /* return address register */
	if (augmentation[0] != 'z')
		return augmentation[0] == '\0' && !r.b.failed;
	cie->has_size = true;
	read_uleb(&r.b);
	for (const char *a = augmentation + 1; *a && !r.b.failed; a++) {
		if (*a == 'R')
			cie->pointer_encoding = bytes_u8(&r.b);
		else if (*a == 'L')
			cie->lsda_encoding = bytes_u8(&r.b);
		else if (*a == 'P')
			read_encoded(&r, bytes_u8(&r.b) & ~EH_INDIRECT);
		else if (*a == 'S')
			cie->signal_frame = true;
		else if (*a != 'B')
			break; /* what follows is not known; what matters stands before */
	}
	return !r.b.failed;
}

/* A function starts with the return address on top of its stack, as the CIE says. CFI that
 * changes this before the first instruction tells of a piece whose frame another made. */
static bool cfi_is_headless(struct bytes cfi)
{
	while (bytes_left(&cfi)) {
		uint8_t op = bytes_u8(&cfi);

		switch (op) {
		case 0x00: /* nop */
		case 0x0a: /* remember_state */ break;
		case 0x2e: read_uleb(&cfi); break;   /* GNU_args_size */
		case 0x0c:                           /* def_cfa */
		case 0x0d:                           /* def_cfa_register */
		case 0x0e:                           /* def_cfa_offset */
		case 0x0f: return true;              /* def_cfa_expression */
		default: return (op & 0xc0) == 0x80; /* offset */
		}
	}
	return false;
}

static bool read_fde(struct eh_reader r, const struct eh_cie *cie, struct eh_range *range)
{
	*range = (struct eh_range){.start = read_encoded(&r, cie->pointer_encoding)};
	range->end = range->start + read_encoded(&r, cie->pointer_encoding & 0x0f);
	if (cie->has_size) {
		uint64_t size = read_uleb(&r.b);

		if (size > bytes_left(&r.b))
			return false;
		struct eh_reader augmentation = r;
		augmentation.b.end = augmentation.b.p + size;
		if (cie->lsda_encoding != EH_OMIT)
			range->lsda = read_encoded(&augmentation, cie->lsda_encoding);
		if (augmentation.b.failed)
			range->lsda = 0;
		r.b.p += size;
	}
	range->headless = cfi_is_headless(r.b);
	/* Unwinders look one byte before a return address, so a signal restorer, which no call
	 * precedes, is described from one byte before its code. */
	if (cie->signal_frame && range->end > range->start)
		range->start++;
	return !r.b.failed && range->end > range->start && range->start != 0;
}

static int range_compare(const void *left, const void *right)
{
	const struct eh_range *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

bool eh_frame_read(struct eh_frame *eh, struct bytes section, uint64_t vaddr)
{
	const uint8_t *base = section.p, *cie_at = NULL;
	struct eh_cie cie = {0};
	bool cie_good = false;

	while (bytes_left(&section) >= 4) {
		uint64_t length = bytes_u32(&section);

		if (length == 0)
			break; /* the terminator */
		if (length == 0xffffffff)
			length = bytes_u64(&section);
		const uint8_t *entry = section.p, *p = bytes_take(&section, length);
		if (!p || length < 4)
			break;
		struct eh_reader r = {.b = bytes_of(entry, length), .base = base, .vaddr = vaddr};
		uint32_t back = bytes_u32(&r.b);

		if (back == 0 || back > (uint64_t)(entry - base))
			continue; /* a CIE, read where it is used */
		const uint8_t *at = entry - back;
		if (at != cie_at) {
			struct bytes head = bytes_of(at, (size_t)(entry - at));
			uint64_t cie_length = bytes_u32(&head);
			uint64_t id_bytes = 4;

			if (cie_length == 0xffffffff)
				cie_length = bytes_u64(&head);
			struct eh_reader body = {.b = head, .base = base, .vaddr = vaddr};
			cie_at = at;
			cie_good = cie_length <= bytes_left(&head) && cie_length > id_bytes;
			if (cie_good) {
				body.b.end = body.b.p + cie_length;
				cie_good = bytes_u32(&body.b) == 0 && read_cie(body, &cie);
			}
		}
		struct eh_range range;
		if (cie_good && read_fde(r, &cie, &range) && !vec_push(&eh->ranges, range))
			return false;
	}
	if (eh->ranges.count)
		qsort(eh->ranges.items, eh->ranges.count, sizeof *eh->ranges.items, range_compare);
	return true;
}

bool eh_frame_load(struct eh_frame *eh, const struct object *o)
{
	const struct object_section *section = object_find_section(o, ".eh_frame");

	return !section || eh_frame_read(eh, object_section_bytes(o, section), section->vaddr);
}

void eh_frame_done(struct eh_frame *eh)
{
	vec_done(&eh->ranges);
}

const struct eh_range *eh_frame_find(const struct eh_frame *eh, uint64_t vaddr, uint64_t *start,
				     uint64_t *end)
{
	size_t low = 0, high = eh->ranges.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (eh->ranges.items[middle].start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	if (low && vaddr < eh->ranges.items[low - 1].end)
		return &eh->ranges.items[low - 1];
	if (low && *start < eh->ranges.items[low - 1].end)
		*start = eh->ranges.items[low - 1].end;
	if (low<eh->ranges.count && * end> eh->ranges.items[low].start)
		*end = eh->ranges.items[low].start;
	return NULL;
}

bool lsda_landing_pad(struct bytes lsda, const struct eh_range *range, uint64_t return_vaddr,
		      uint64_t *pad)
{
	struct eh_reader r = {.b = lsda, .base = lsda.p, .vaddr = range->lsda};
	uint8_t encoding = bytes_u8(&r.b);
	uint64_t pads = encoding == EH_OMIT ? range->start : read_encoded(&r, encoding);
	uint64_t call = return_vaddr - 1 - range->start; /* a byte of the call instruction */

	if (bytes_u8(&r.b) != EH_OMIT)
		read_uleb(&r.b); /* the type table */
	encoding = bytes_u8(&r.b) & 0x0f;
	uint64_t table_bytes = read_uleb(&r.b);
	if (r.b.failed || table_bytes > bytes_left(&r.b))
		return false;
	r.b.end = r.b.p + table_bytes;
	while (bytes_left(&r.b)) {
		uint64_t start = read_encoded(&r, encoding), size = read_encoded(&r, encoding);
		uint64_t offset = read_encoded(&r, encoding);

		read_uleb(&r.b); /* action */
		if (r.b.failed || call < start)
			return false; /* the table is sorted */
		if (call - start >= size)
			continue;
		if (offset)
			*pad = pads + offset;
		return offset != 0;
	}
	return false;
}

bool eh_frame_landing_pad(const struct object *o, const struct eh_range *range,
			  uint64_t return_vaddr, uint64_t *pad)
{
	struct bytes lsda = range->lsda ? object_memory(o, range->lsda) : (struct bytes){0};

	return bytes_left(&lsda) && lsda_landing_pad(lsda, range, return_vaddr, pad);
}
