/* See packet.h. Each layout is in the SDM, volume 3, Intel PT chapter, "Packet Definitions". */
#include "testdata/packet.h"

#include <string.h>

void packet_raw(struct packet_writer *w, const void *bytes, size_t count)
{
	if (count == 0)
		return;
	if (w->failed || !vec_reserve(&w->bytes, w->bytes.count + count)) {
		w->failed = true;
		return;
	}
	memcpy(w->bytes.items + w->bytes.count, bytes, count);
	w->bytes.count += count;
}

/* `head` bytes given one by one, then the low `count` bytes of value. */
static void put(struct packet_writer *w, const char *head, size_t head_bytes, uint64_t value,
		size_t count)
{
	packet_raw(w, head, head_bytes);
	packet_raw(w, &value, count);
}

void packet_pad(struct packet_writer *w)
{
	packet_raw(w, "", 1);
}

void packet_psb(struct packet_writer *w)
{
	for (int i = 0; i < 8; i++)
		packet_raw(w, "\x02\x82", 2);
	w->ip_known = false;
}

void packet_psbend(struct packet_writer *w)
{
	packet_raw(w, "\x02\x23", 2);
	w->ip_known = false;
}

void packet_tnt_short(struct packet_writer *w, uint64_t taken, unsigned count)
{
	put(w, "", 0, (1ull << count | taken) << 1, 1);
}

void packet_tnt_long(struct packet_writer *w, uint64_t taken, unsigned count)
{
	put(w, "\x02\xa3", 2, 1ull << count | taken, 6);
}

void packet_ip_suppressed(struct packet_writer *w, enum packet_ip_kind kind)
{
	put(w, "", 0, kind, 1);
}

void packet_ip_as(struct packet_writer *w, enum packet_ip_kind kind, unsigned ip_bytes, uint64_t ip)
{
	static const uint8_t count[8] = {0, 2, 4, 6, 6, 0, 8, 0};

	put(w, "", 0, kind | ip_bytes << 5, 1);
	put(w, "", 0, ip, count[ip_bytes & 7]);
	w->last_ip = ip;
	w->ip_known = true;
}

void packet_ip(struct packet_writer *w, enum packet_ip_kind kind, uint64_t ip)
{
	unsigned ip_bytes = 6;

	if (w->ip_known && ip >> 16 == w->last_ip >> 16)
		ip_bytes = 1;
	else if (w->ip_known && ip >> 32 == w->last_ip >> 32)
		ip_bytes = 2;
	else if ((uint64_t)((int64_t)(ip << 16) >> 16) == ip)
		ip_bytes = 3;
	packet_ip_as(w, kind, ip_bytes, ip);
}

void packet_mode_exec(struct packet_writer *w, unsigned bits, bool interrupt_flag)
{
	put(w, "\x99", 1, (bits == 64) | (bits == 32) << 1 | interrupt_flag << 2, 1);
}

void packet_mode_tsx(struct packet_writer *w, bool in_tx, bool abort)
{
	put(w, "\x99", 1, 0x20u | in_tx | (unsigned)abort << 1, 1);
}

void packet_pip(struct packet_writer *w, uint64_t cr3, bool non_root)
{
	put(w, "\x02\x43", 2, cr3 >> 5 << 1 | non_root, 6);
}

void packet_vmcs(struct packet_writer *w, uint64_t base)
{
	put(w, "\x02\xc8", 2, base >> 12, 5);
}

void packet_cbr(struct packet_writer *w, unsigned ratio)
{
	put(w, "\x02\x03", 2, ratio, 2);
}

void packet_tsc(struct packet_writer *w, uint64_t tsc)
{
	put(w, "\x19", 1, tsc, 7);
}

void packet_tma(struct packet_writer *w, unsigned ctc, unsigned fast)
{
	put(w, "\x02\x73", 2, (ctc & 0xffff) | (uint64_t)(fast & 0x1ff) << 24, 5);
}

void packet_mtc(struct packet_writer *w, unsigned ctc)
{
	put(w, "\x59", 1, ctc, 1);
}

void packet_cyc(struct packet_writer *w, uint64_t cycles)
{
	uint8_t bytes[10];
	size_t n = 0;

	bytes[n++] = (uint8_t)(3 | (cycles > 31) << 2 | (cycles & 31) << 3);
	for (cycles >>= 5; cycles; cycles >>= 7)
		bytes[n++] = (uint8_t)((cycles > 127) | (cycles & 127) << 1);
	packet_raw(w, bytes, n);
}

void packet_ovf(struct packet_writer *w)
{
	packet_raw(w, "\x02\xf3", 2);
}

void packet_stop(struct packet_writer *w)
{
	packet_raw(w, "\x02\x83", 2);
}

void packet_ptw(struct packet_writer *w, uint64_t value, unsigned bytes, bool fup_follows)
{
	put(w, "\x02", 1, 0x12u | (bytes == 8) << 5 | (unsigned)fup_follows << 7, 1);
	put(w, "", 0, value, bytes);
}

void packet_exstop(struct packet_writer *w, bool fup_follows)
{
	put(w, "\x02", 1, 0x62u | (unsigned)fup_follows << 7, 1);
}

void packet_mwait(struct packet_writer *w, unsigned hints, unsigned extensions)
{
	put(w, "\x02\xc2", 2, (hints & 0xff) | (uint64_t)(extensions & 3) << 32, 8);
}

void packet_pwre(struct packet_writer *w, unsigned state)
{
	put(w, "\x02\x22", 2, (uint64_t)(state & 0xff) << 8, 2);
}

void packet_pwrx(struct packet_writer *w, unsigned last, unsigned deepest, unsigned reason)
{
	put(w, "\x02\xa2", 2, (last & 15) << 4 | (deepest & 15) | (uint64_t)(reason & 15) << 8, 5);
}

void packet_mnt(struct packet_writer *w, uint64_t value)
{
	put(w, "\x02\xc3\x88", 3, value, 8);
}

void packet_cfe(struct packet_writer *w, unsigned type, unsigned vector, bool fup_follows)
{
	put(w, "\x02\x13", 2,
	    (type & 31) | (unsigned)fup_follows << 7 | (uint64_t)(vector & 255) << 8, 2);
}

void packet_evd(struct packet_writer *w, unsigned type, uint64_t value)
{
	put(w, "\x02\x53", 2, type & 63, 1);
	put(w, "", 0, value, 8);
}
