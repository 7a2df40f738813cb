/* Intel PT packets: bytes in, one packet and its length out. No state beyond the context that
 * block packets need; the flow walker parses the frequent packets itself and comes here for
 * the rest.
 *
 * Source: SDM vol. 3, "Intel Processor Trace", section on packet definitions. */
#ifndef DECODE_PACKET_H
#define DECODE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packet_kind {
	PACKET_PAD,
	PACKET_PSB,
	PACKET_PSBEND,
	PACKET_TNT, /* payload: bits, the oldest at bit 63; count of them */
	PACKET_TIP, /* TIP .. FUP: count = IPBytes, payload = the bytes; see packet_ip() */
	PACKET_TIP_PGE,
	PACKET_TIP_PGD,
	PACKET_FUP,
	PACKET_MODE_EXEC, /* payload = address bits 16, 32 or 64; flag = interrupts enabled */
	PACKET_MODE_TSX,  /* payload = PACKET_TSX_* */
	PACKET_PIP,       /* payload = CR3; flag = VMX non-root */
	PACKET_VMCS,      /* payload = VMCS pointer */
	PACKET_CBR,       /* payload = ratio */
	PACKET_TSC,       /* payload = the lower 56 bits */
	PACKET_TMA,       /* payload = CTC, extra = fast counter */
	PACKET_MTC,       /* payload = CTC bits */
	PACKET_CYC,       /* payload = cycles since the last CYC */
	PACKET_OVF,
	PACKET_TRACE_STOP,
	PACKET_MNT,
	PACKET_PTW,    /* count = payload bytes; flag = a FUP follows */
	PACKET_EXSTOP, /* flag = a FUP follows */
	PACKET_MWAIT,  /* payload = hints, extra = extensions */
	PACKET_PWRE,   /* payload as in the packet */
	PACKET_PWRX,
	PACKET_BBP, /* payload = block type; count = bytes of a BIP, 4 or 8 */
	PACKET_BIP, /* payload = value, extra = id */
	PACKET_BEP, /* flag = a FUP follows */
	PACKET_CFE, /* payload = vector, extra = type; flag = a FUP follows */
	PACKET_EVD, /* payload = data, extra = type */
	PACKET_KIND_COUNT
};

enum { PACKET_TSX_IN = 1, PACKET_TSX_ABORT = 2 };

/* BIP shares its header bits with TNT: only inside a block is it one. */
enum packet_context { PACKET_NO_BLOCK, PACKET_BLOCK_8, PACKET_BLOCK_4 };

struct packet {
	uint8_t kind; /* enum packet_kind */
	uint8_t length;
	uint8_t count;
	bool flag;
	uint32_t extra;
	uint64_t payload;
};

enum { PACKET_CUT_SHORT = 0, PACKET_BAD = -1 };
#define PACKET_MAX_BYTES 16
#define PSB_BYTES        16

/* The packet's length, or PACKET_CUT_SHORT when more bytes are needed, or PACKET_BAD. */
int packet_decode(const uint8_t *bytes, size_t count, enum packet_context context,
		  struct packet *result);
/* The context after this packet. */
enum packet_context packet_next_context(enum packet_context context, const struct packet *p);
const char *packet_name(enum packet_kind kind); /* as the SDM writes it */

/* The first PSB in [bytes, bytes + count), or NULL. */
const uint8_t *packet_find_psb(const uint8_t *bytes, size_t count);

/* How many bytes follow the header of a TIP, TIP.PGE, TIP.PGD or FUP; 0xff = reserved. */
static inline uint8_t packet_ip_bytes(uint8_t ip_bytes)
{
	return (uint8_t)(0xff08ff0606040200 >> (ip_bytes * 8));
}

/* The ip that such a packet means (LastIP is the caller's; unchanged when suppressed). */
static inline uint64_t packet_ip(uint64_t last_ip, uint8_t ip_bytes, uint64_t payload)
{
	switch (ip_bytes) {
	case 1: return (last_ip & ~(uint64_t)0xffff) | payload;
	case 2: return (last_ip & ~(uint64_t)0xffffffff) | payload;
	case 3: return (uint64_t)((int64_t)(payload << 16) >> 16);
	case 4: return (last_ip & (uint64_t)0xffff << 48) | payload;
	case 6: return payload;
	}
	return last_ip;
}

#endif
