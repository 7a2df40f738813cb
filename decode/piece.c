/* See piece.h. Extents are grouped into runs without holes or cuts; each run is searched for
 * PSBs, also across the seams of its extents. */
#include "decode/piece.h"

#include <string.h>

#include "decode/flow_time.h"
#include "decode/packet.h"

/* A part of an extent: a run is a list of them. */
struct span {
	const uint8_t *data;
	size_t bytes;
	uint64_t stream_off;
};

struct finder {
	const struct sideband *sideband;
	const struct aux_buffer *buffer;
	struct pieces *out;
	VEC(struct span) run;
	VEC(uint64_t) psbs; /* stream offsets */
	size_t next_cut;    /* of the buffer's, behind the last piece */
	uint8_t cut;        /* why the run begins, and what was skipped before it */
	uint64_t cut_ns;    /* when */
	bool first;
};

/* Copies [off, off + bytes) of the run; the number of bytes that it has of them. */
static size_t run_copy(const struct finder *f, uint64_t off, uint8_t *to, size_t bytes)
{
	size_t done = 0;

	for (size_t i = 0; i < f->run.count && done < bytes; i++) {
		const struct span *s = &f->run.items[i];
		uint64_t at = off + done;

		if (at < s->stream_off || at >= s->stream_off + s->bytes)
			continue;
		size_t skip = at - s->stream_off, take = s->bytes - skip;
		if (take > bytes - done)
			take = bytes - done;
		memcpy(to + done, s->data + skip, take);
		done += take;
	}
	return done;
}

static bool find_in_span(struct finder *f, const struct span *s)
{
	const uint8_t *p = s->data, *end = s->data + s->bytes;

	while ((p = packet_find_psb(p, (size_t)(end - p)))) {
		if (!vec_push(&f->psbs, s->stream_off + (uint64_t)(p - s->data)))
			return false;
		p += PSB_BYTES;
	}
	return true;
}

/* A PSB that begins before `seam` and ends behind it. */
static bool find_at_seam(struct finder *f, uint64_t seam)
{
	uint8_t window[2 * (PSB_BYTES - 1)];
	uint64_t from = f->run.items[0].stream_off;

	if (seam - from > PSB_BYTES - 1)
		from = seam - (PSB_BYTES - 1);
	size_t bytes = run_copy(f, from, window, (seam - from) + PSB_BYTES - 1);
	const uint8_t *p = packet_find_psb(window, bytes);
	if (!p)
		return true;
	uint64_t off = from + (uint64_t)(p - window);
	/* Tiny extents: the seam before may have found it. */
	if (f->psbs.count && *vec_last(&f->psbs) + PSB_BYTES > off)
		return true;
	return vec_push(&f->psbs, off);
}

/* What the header of the piece says for the one before: where and when it begins. */
static void read_header(const struct finder *f, const struct flow_piece *piece, uint64_t *ip,
			uint64_t *time_ns)
{
	const uint8_t *p = piece->bytes, *end = p + piece->count;
	bool in_header = true;
	struct packet packet;
	int length;

	*ip = 0;
	*time_ns = TIME_NONE;
	for (; p < end; p += length) {
		length = packet_decode(p, (size_t)(end - p), PACKET_NO_BLOCK, &packet);
		if (length <= 0)
			return;
		switch (packet.kind) {
		case PACKET_PSB:
		case PACKET_PAD:
		case PACKET_TMA:
		case PACKET_MTC:
		case PACKET_CYC:
		case PACKET_CBR:
		case PACKET_PIP:
		case PACKET_VMCS:
		case PACKET_MNT:
		case PACKET_MODE_EXEC:
		case PACKET_MODE_TSX: break;
		case PACKET_FUP:
			if (!in_header)
				return;
			*ip = packet_ip(0, packet.count, packet.payload);
			break;
		case PACKET_TSC:
			*time_ns = clock_ns(
				&f->sideband->clock,
				flow_time_extend(f->buffer->reference_tsc, packet.payload));
			break;
		case PACKET_TIP_PGE:
			/* Tracing is only about to begin there. */
			*ip = 0;
			return;
		case PACKET_PSBEND: in_header = false; break;
		default: return;
		}
	}
}

static bool time_is_possible(const struct finder *f, uint64_t time_ns)
{
	struct flow_time t;

	flow_time_init(&t, f->sideband);
	return time_ns >= t.earliest_ns && time_ns <= t.latest_ns;
}

/* When a piece whose own first time is damaged begins, at the earliest. */
static uint64_t earliest_start(const struct finder *f)
{
	for (size_t i = f->out->items.count; i-- > 0;)
		if (f->out->items.items[i].header_time_ns != TIME_NONE)
			return f->out->items.items[i].header_time_ns;
	return f->sideband->first_ns;
}

static bool add_piece(struct finder *f, uint64_t off, uint64_t end)
{
	struct flow_piece piece = {.count = end - off,
				   .stream_off = off,
				   .buffer = f->buffer,
				   .start_time_ns = f->cut_ns,
				   .header_time_ns = TIME_NONE,
				   .next_time_ns = TIME_NONE,
				   .cut = f->cut,
				   .first = f->first};
	const struct aux_buffer *b = f->buffer;
	for (; f->next_cut < b->cuts.count && b->cuts.items[f->next_cut].stream_off <= off;)
		f->next_cut++;
	piece.first_cut = f->next_cut;
	for (; f->next_cut < b->cuts.count && b->cuts.items[f->next_cut].stream_off < end;)
		f->next_cut++;
	piece.end_cut = f->next_cut;
	bool is_continuous = f->cut == LOSS_NONE && !f->first && f->out->items.count;
	uint64_t ip, time_ns;

	for (size_t i = 0; i < f->run.count; i++) {
		const struct span *s = &f->run.items[i];

		if (off >= s->stream_off && end <= s->stream_off + s->bytes)
			piece.bytes = s->data + (off - s->stream_off);
	}
	if (!piece.bytes) {
		uint8_t *gathered = arena_alloc(&f->out->gathered, piece.count);

		if (!gathered)
			return false;
		run_copy(f, off, gathered, piece.count);
		piece.bytes = gathered;
	}
	read_header(f, &piece, &ip, &time_ns);
	if (f->out->first_ns == TIME_NONE)
		f->out->first_ns = time_ns;
	if (f->out->items.count) {
		struct flow_piece *before = vec_last(&f->out->items);

		if (is_continuous) {
			static const uint8_t ovf[] = {0x02, 0xf3};
			size_t n = before->count;

			before->next_sync_ip = ip;
			piece.after_overflow = memcmp(before->bytes + n - 2, ovf, 2) == 0;
		} else {
			before->cut_behind = piece.cut;
			piece.cut_is_told = piece.cut != LOSS_NONE;
		}
	}
	if (time_is_possible(f, time_ns))
		piece.header_time_ns = time_ns;
	else if (time_ns != TIME_NONE && piece.start_time_ns == TIME_NONE)
		piece.start_time_ns = earliest_start(f);
	f->cut = LOSS_NONE;
	f->cut_ns = TIME_NONE;
	f->first = false;
	return vec_push(&f->out->items, piece);
}

/* In front of a cut of this cause no more was traced, and what is behind it goes on whole. */
static bool hardware_stopped(uint8_t cause)
{
	return cause == LOSS_AUX_TRUNCATED || cause == LOSS_AUX_PARTIAL;
}

/* Searches the run and starts a new one. */
static bool finish_run(struct finder *f)
{
	size_t n = f->run.count;

	if (n == 0)
		return true;
	const struct span *last = &f->run.items[n - 1];
	uint64_t start = f->run.items[0].stream_off, end = last->stream_off + last->bytes;
	f->psbs.count = 0;
	for (size_t i = 0; i < n; i++) {
		const struct span *s = &f->run.items[i];

		if ((i > 0 && !find_at_seam(f, s->stream_off)) || !find_in_span(f, s))
			return false;
	}
	size_t psbs = f->psbs.count;
	f->out->skipped_bytes += psbs ? f->psbs.items[0] - start : end - start;
	for (size_t i = 0; i < psbs; i++)
		if (!add_piece(f, f->psbs.items[i], i + 1 < psbs ? f->psbs.items[i + 1] : end))
			return false;
	f->run.count = 0;
	return true;
}

/* Whether the bytes behind a cut are whole packets of a tracing that starts anew: then nothing
 * up to the next PSB need be given up. */
static bool goes_on_in_step(const uint8_t *data, size_t bytes)
{
	struct packet p;
	int length;

	for (; bytes && (length = packet_decode(data, bytes, PACKET_NO_BLOCK, &p)) > 0;
	     data += length, bytes -= (size_t)length)
		switch (p.kind) {
		case PACKET_PAD:
		case PACKET_TSC:
		case PACKET_TMA:
		case PACKET_MTC:
		case PACKET_CYC:
		case PACKET_CBR:
		case PACKET_PIP:
		case PACKET_VMCS:
		case PACKET_MODE_EXEC:
		case PACKET_MODE_TSX: break;
		default: return p.kind == PACKET_TIP_PGE;
		}
	return false;
}

/* The cut's record comes behind the data of a snapshot: what was known before ends earlier. */
static uint64_t cut_time(const struct aux_buffer *b, const struct aux_cut *cut)
{
	if (hardware_stopped(cut->cause))
		return cut->time_ns;
	for (size_t i = 0; i < b->known.count; i++)
		if (b->known.items[i].stream_end == cut->stream_off &&
		    b->known.items[i].until_ns <= cut->time_ns)
			return b->known.items[i].until_ns;
	return TIME_NONE;
}

/* Adds [data, data + bytes) at stream_off, broken where cuts fall into it. */
static bool add_extent(struct finder *f, const struct aux_extent *e, size_t *cut)
{
	const struct aux_buffer *b = f->buffer;
	uint64_t at = e->stream_off, end = e->stream_off + e->bytes;

	if (f->run.count && vec_last(&f->run)->stream_off + vec_last(&f->run)->bytes != at) {
		if (!finish_run(f))
			return false;
		if (f->cut == LOSS_NONE)
			f->cut = LOSS_AUX_LOST;
	}
	while (at < end) {
		uint64_t until = end;

		for (; *cut < b->cuts.count && b->cuts.items[*cut].stream_off <= at; ++*cut) {
			if (f->run.count && b->cuts.items[*cut].stream_off == at &&
			    b->cuts.items[*cut].cause != LOSS_NONE &&
			    goes_on_in_step(e->data + (at - e->stream_off), end - at))
				continue;
			if (!finish_run(f))
				return false;
			f->first |= b->cuts.items[*cut].cause == LOSS_NONE;
			if (b->cuts.items[*cut].cause != LOSS_NONE) {
				f->cut = b->cuts.items[*cut].cause;
				f->cut_ns = cut_time(b, &b->cuts.items[*cut]);
			}
		}
		if (*cut < b->cuts.count && b->cuts.items[*cut].stream_off < end)
			until = b->cuts.items[*cut].stream_off;
		struct span span = {.data = e->data + (at - e->stream_off),
				    .bytes = until - at,
				    .stream_off = at};
		if (!vec_push(&f->run, span))
			return false;
		at = until;
	}
	return true;
}

enum err pieces_find(const struct sideband *sideband, const struct aux_buffer *buffer,
		     struct pieces *result)
{
	struct finder f = {.sideband = sideband,
			   .buffer = buffer,
			   .out = result,
			   .cut_ns = TIME_NONE,
			   .first = true};
	bool good = true;
	size_t cut = 0;

	result->first_ns = TIME_NONE;
	for (size_t i = 0; good && i < buffer->extents.count; i++)
		good = add_extent(&f, &buffer->extents.items[i], &cut);
	good = good && finish_run(&f) && pieces_settle_times(sideband, result);
	vec_done(&f.run);
	vec_done(&f.psbs);
	return good ? ERR_NONE : ERR_NOMEM;
}

void pieces_done(struct pieces *p)
{
	vec_done(&p->items);
	arena_done(&p->gathered);
}
