/* See dump_packets.h. */
#include "decode/dump_packets.h"

#include <inttypes.h>

#include "decode/packet.h"
#include "decode/piece.h"

static void print_tnt(FILE *out, const struct packet *p)
{
	char bits[65];

	for (unsigned i = 0; i < p->count; i++)
		bits[i] = p->payload >> (63 - i) & 1 ? 'T' : 'N';
	bits[p->count] = '\0';
	fprintf(out, " %s", bits);
}

static void print_fields(FILE *out, const struct packet *p, uint64_t ip)
{
	static const char *const tsx[] = {"", " in", " abort", " in abort"};

	switch (p->kind) {
	case PACKET_TNT: print_tnt(out, p); break;
	case PACKET_TIP:
	case PACKET_TIP_PGE:
	case PACKET_TIP_PGD:
	case PACKET_FUP:
		if (p->count)
			fprintf(out, " %" PRIx64, ip);
		break;
	case PACKET_MODE_EXEC:
		fprintf(out, " %u%s", (unsigned)p->payload, p->flag ? " IF" : "");
		break;
	case PACKET_MODE_TSX: fputs(tsx[p->payload & 3], out); break;
	case PACKET_PIP: fprintf(out, " %" PRIx64 "%s", p->payload, p->flag ? " NR" : ""); break;
	case PACKET_TMA: fprintf(out, " ctc %" PRIx64 " fast %x", p->payload, p->extra); break;
	case PACKET_VMCS:
	case PACKET_CBR:
	case PACKET_TSC:
	case PACKET_MTC:
	case PACKET_CYC:
	case PACKET_MNT:
	case PACKET_PWRE:
	case PACKET_PWRX:
	case PACKET_BBP: fprintf(out, " %" PRIx64, p->payload); break;
	case PACKET_MWAIT:
	case PACKET_BIP:
	case PACKET_CFE:
	case PACKET_EVD: fprintf(out, " %x %" PRIx64, p->extra, p->payload); break;
	case PACKET_PTW: fprintf(out, " %" PRIx64, p->payload); break;
	}
	if (p->flag && (p->kind == PACKET_PTW || p->kind == PACKET_EXSTOP ||
			p->kind == PACKET_BEP || p->kind == PACKET_CFE))
		fputs(" IP", out);
	fputc('\n', out);
}

static void dump_piece(FILE *out, const struct flow_piece *piece)
{
	enum packet_context context = PACKET_NO_BLOCK;
	uint64_t ip = 0;
	struct packet p;
	int length;

	if (piece->cut)
		fprintf(out, "%10" PRIx64 "  -- %s\n", piece->stream_off, loss_name(piece->cut));
	for (size_t at = 0; at < piece->count; at += (size_t)length) {
		length = packet_decode(piece->bytes + at, piece->count - at, context, &p);
		if (length <= 0) {
			fprintf(out, "%10" PRIx64 "  -- %s, %zu bytes skipped\n",
				piece->stream_off + at,
				length == PACKET_BAD ? "no packet" : "cut short",
				piece->count - at);
			break;
		}
		context = packet_next_context(context, &p);
		if (p.kind == PACKET_PAD)
			continue;
		if (p.kind == PACKET_PSB)
			ip = 0;
		if (p.kind >= PACKET_TIP && p.kind <= PACKET_FUP)
			ip = packet_ip(ip, p.count, p.payload);
		fprintf(out, "%10" PRIx64 "  %s", piece->stream_off + at, packet_name(p.kind));
		print_fields(out, &p, ip);
	}
}

enum err dump_packets(const struct sideband *sideband, FILE *out, struct error *error)
{
	for (size_t i = 0; i < sideband->buffers.count; i++) {
		const struct aux_buffer *b = &sideband->buffers.items[i];
		struct pieces pieces = {0};
		enum err err = pieces_find(sideband, b, &pieces);

		fprintf(out, "buffer %u cpu %d tid %d\n", b->index, b->cpu,
			sideband->tasks.items[b->task.v].tid);
		if (pieces.skipped_bytes)
			fprintf(out, "        --  %" PRIu64 " bytes belong to no PSB\n",
				pieces.skipped_bytes);
		for (size_t k = 0; err == ERR_NONE && k < pieces.items.count; k++)
			dump_piece(out, &pieces.items.items[k]);
		pieces_done(&pieces);
		if (err != ERR_NONE)
			return error_set(error, err, "out of memory");
	}
	if (ferror(out))
		return error_set(error, ERR_IO, "cannot write the dump");
	return ERR_NONE;
}
