/* See aux.h.
 *
 * Overlap. A ring of R bytes was copied at stream position P, then at Q: the copies are the
 * last R bytes up to P and to Q. With Q - P < R the second one begins inside the first:
 *
 *     first copy   [ a b c d e f g h ]P
 *     second copy        [ c d e f g h i j ]Q      6 bytes repeat
 *
 * The positions are known only modulo R (AUXTRACE.offset), so the count of repeated bytes is
 * known if Q - P < R, and the bytes themselves must confirm it: each PSB+ carries a TSC that
 * occurs once in a stream's life, while the packets between are often periodic. Without
 * usable offsets the candidates are the PSBs of the first copy. */
#include "decode/aux.h"

#include <string.h>

#include "decode/packet.h"

void aux_builder_done(struct aux_builder *b)
{
	vec_done(&b->chunks);
	vec_done(&b->notes);
}

bool aux_add_chunk(struct aux_builder *b, const struct record_auxtrace *r, const uint8_t *data,
		   size_t bytes)
{
	struct aux_chunk chunk = {.index = r->index,
				  .cpu = r->cpu,
				  .tid = r->tid,
				  .offset = r->offset,
				  .reference = r->reference,
				  .data = data,
				  .bytes = bytes,
				  .time_ns = TIME_NONE,
				  .order = b->chunks.count};

	return vec_push(&b->chunks, chunk);
}

bool aux_add_sample(struct aux_builder *b, const struct sample *sample, uint64_t time_ns)
{
	bool has_cpu = sample->id.has & SAMPLE_ID_CPU;
	struct aux_chunk chunk = {.cpu = has_cpu ? sample->id.cpu : -1,
				  .tid = has_cpu ? -1 : sample->id.tid,
				  .data = sample->aux,
				  .bytes = (size_t)sample->aux_bytes,
				  .time_ns = time_ns ? time_ns : TIME_NONE,
				  .order = b->chunks.count};

	return vec_push(&b->chunks, chunk);
}

bool aux_add_note(struct aux_builder *b, const struct record_aux *r, const struct sample_id *id,
		  uint64_t time_ns)
{
	struct aux_note note = {.time_ns = time_ns,
				.cpu = id->has & SAMPLE_ID_CPU ? id->cpu : -1,
				.tid = id->has & SAMPLE_ID_TID ? id->tid : -1,
				.offset = r->offset,
				.bytes = r->bytes,
				.flags = r->flags,
				.order = b->notes.count + 1};

	if (r->flags & AUX_FLAG_OVERWRITE)
		b->is_snapshot = true;
	return vec_push(&b->notes, note);
}

bool aux_first_tsc(const uint8_t *data, size_t bytes, uint64_t reference, uint64_t *tsc)
{
	const uint8_t *p = data, *end = data + bytes;

	while ((p = packet_find_psb(p, (size_t)(end - p)))) {
		struct packet packet;

		for (p += PSB_BYTES;; p += packet.length) {
			int length = packet_decode(p, (size_t)(end - p), PACKET_NO_BLOCK, &packet);

			if (length <= 0 || packet.kind == PACKET_PSB ||
			    packet.kind == PACKET_PSBEND || packet.kind == PACKET_OVF)
				break;
			if (packet.kind == PACKET_TSC) {
				*tsc = aux_extend_tsc(packet.payload, reference);
				return true;
			}
		}
	}
	return false;
}

static bool is_zero(const uint8_t *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i])
			return false;
	return true;
}

/* Do the first `count` bytes of b repeat the end of a? Where b reaches further back than a,
 * it must hold bytes that were never written. */
static bool aux_repeats(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t count)
{
	size_t same = count < a_bytes ? count : a_bytes;

	return is_zero(b, count - same) && memcmp(a + a_bytes - same, b + count - same, same) == 0;
}

/* Bytes compared in search of one overlap: repetitive input must not cost more than this. */
static uint64_t aux_search_budget(size_t a_bytes, size_t b_bytes)
{
	return 8 * ((uint64_t)a_bytes + b_bytes) + (1 << 20);
}

/* Tries the PSBs of a, oldest first, as the place of b's first PSB. */
static size_t aux_overlap_search(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes)
{
	const uint8_t *first = packet_find_psb(b, b_bytes);
	const uint8_t *p = a, *end = a + a_bytes;
	uint64_t budget = aux_search_budget(a_bytes, b_bytes);
	uint64_t tsc;

	if (!first)
		return 0;
	size_t head = (size_t)(first - b); /* of b, before its first PSB */
	for (; (p = packet_find_psb(p, (size_t)(end - p))); p++) {
		size_t rest = (size_t)(end - p), count = head + rest;

		/* nearly all candidates differ in the TSC behind the PSB */
		size_t probe = rest < 64 ? rest : 64;
		if (count > b_bytes || memcmp(p, first, probe) != 0)
			continue;
		if (count > budget)
			return 0;
		budget -= count;
		if (aux_repeats(a, a_bytes, b, count) && aux_first_tsc(p, rest, 0, &tsc))
			return count;
	}
	return 0;
}

size_t aux_overlap(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes,
		   size_t expected, size_t *padding)
{
	for (size_t pad = 0; pad <= AUX_PADDING_MAX && pad < a_bytes; pad++) {
		if (pad && a[a_bytes - pad] != 0)
			break;
		size_t kept = a_bytes - pad;
		size_t count = 0;
		uint64_t tsc;

		if (expected != SIZE_MAX && expected > pad && expected - pad <= b_bytes &&
		    aux_repeats(a, kept, b, expected - pad)) {
			/* many bytes, or a PSB's time: not by chance */
			size_t same = expected - pad < kept ? expected - pad : kept;

			if (same >= 64 || aux_first_tsc(a + kept - same, same, 0, &tsc))
				count = expected - pad;
		}
		if (!count)
			count = aux_overlap_search(a, kept, b, b_bytes);
		if (count) {
			*padding = pad;
			return count;
		}
	}
	*padding = 0;
	return 0;
}

static int aux_chunk_compare(const void *left, const void *right)
{
	const struct aux_chunk *a = left, *b = right;

	if (a->index != b->index)
		return a->index < b->index ? -1 : 1;
	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static bool aux_same_buffer(const struct aux_chunk *a, const struct aux_chunk *b)
{
	return a->index == b->index && a->cpu == b->cpu && a->tid == b->tid;
}

/* AUX records do not name their ring: it is the CPU's, or with rings of threads the thread's.
 * perf makes either kind, never both. */
static int aux_note_by_cpu(const void *left, const void *right)
{
	const struct aux_note *a = left, *b = right;

	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static int aux_note_by_tid(const void *left, const void *right)
{
	const struct aux_note *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

struct aux_notes {
	const struct aux_note *items;
	size_t count;
};

/* The notes of a chunk's ring, out of all notes sorted by that key. */
static struct aux_notes aux_notes_of(const struct aux_builder *b, const struct aux_chunk *chunk)
{
	struct aux_note key = {.cpu = chunk->cpu, .tid = chunk->tid};
	int (*compare)(const void *, const void *) =
		chunk->cpu >= 0 ? aux_note_by_cpu : aux_note_by_tid;
	size_t bounds[2];

	if (b->notes.count == 0)
		return (struct aux_notes){0};
	for (int i = 0; i < 2; i++) {
		size_t low = 0, high = b->notes.count;

		key.order = i ? SIZE_MAX : 0;
		while (low < high) {
			size_t middle = low + (high - low) / 2;

			if (compare(&b->notes.items[middle], &key) < 0)
				low = middle + 1;
			else
				high = middle;
		}
		bounds[i] = low;
	}
	return (struct aux_notes){b->notes.items + bounds[0], bounds[1] - bounds[0]};
}

static bool aux_push_extent(struct aux_buffer *buffer, uint64_t stream_off, const uint8_t *data,
			    size_t bytes)
{
	struct aux_extent extent = {.stream_off = stream_off, .data = data, .bytes = bytes};

	return bytes == 0 || vec_push(&buffer->extents, extent);
}

static bool aux_push_cut(struct aux_buffer *buffer, uint64_t stream_off, uint64_t time_ns,
			 uint64_t lost_bytes, enum loss cause)
{
	struct aux_cut cut = {.stream_off = stream_off,
			      .time_ns = time_ns,
			      .lost_bytes = lost_bytes,
			      .cause = (uint8_t)cause};

	return vec_push(&buffer->cuts, cut);
}

static uint64_t aux_stream_end(const struct aux_buffer *buffer)
{
	if (buffer->extents.count == 0)
		return 0;
	const struct aux_extent *last = vec_last(&buffer->extents);
	return last->stream_off + last->bytes;
}

static int aux_cut_compare(const void *left, const void *right)
{
	const struct aux_cut *a = left, *b = right;

	if (a->stream_off != b->stream_off)
		return a->stream_off < b->stream_off ? -1 : 1;
	/* of several at one place the one that knows how much was lost comes first */
	if (a->lost_bytes != b->lost_bytes)
		return a->lost_bytes > b->lost_bytes ? -1 : 1;
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->cause < b->cause ? -1 : a->cause > b->cause;
}

/* One cut a place, only inside the stream. */
static void aux_tidy_cuts(struct aux_buffer *buffer)
{
	uint64_t start = buffer->extents.count ? buffer->extents.items[0].stream_off : 0;
	uint64_t end = aux_stream_end(buffer);
	size_t kept = 0;

	if (buffer->cuts.count)
		qsort(buffer->cuts.items, buffer->cuts.count, sizeof *buffer->cuts.items,
		      aux_cut_compare);
	for (size_t i = 0; i < buffer->cuts.count; i++) {
		struct aux_cut cut = buffer->cuts.items[i];

		if (cut.stream_off <= start || cut.stream_off >= end)
			continue;
		if (kept && buffer->cuts.items[kept - 1].stream_off == cut.stream_off) {
			if (buffer->cuts.items[kept - 1].time_ns == TIME_NONE)
				buffer->cuts.items[kept - 1].time_ns = cut.time_ns;
			continue;
		}
		buffer->cuts.items[kept++] = cut;
	}
	buffer->cuts.count = kept;
}

static bool aux_apply_notes(struct aux_notes notes, struct aux_buffer *buffer)
{
	for (size_t i = 0; i < notes.count; i++) {
		const struct aux_note *note = &notes.items[i];
		enum loss cause =
			note->flags & AUX_FLAG_TRUNCATED ? LOSS_AUX_TRUNCATED : LOSS_AUX_PARTIAL;

		if (!(note->flags & (AUX_FLAG_TRUNCATED | AUX_FLAG_PARTIAL | AUX_FLAG_COLLISION)) ||
		    note->offset > UINT64_MAX - note->bytes)
			continue;
		if (!aux_push_cut(buffer, note->offset + note->bytes, note->time_ns, 0, cause))
			return false;
	}
	return true;
}

/* The end of the last AUX record within the padding of the last chunk: where data ends. */
static void aux_trim_end(struct aux_notes notes, struct aux_buffer *buffer)
{
	uint64_t end = aux_stream_end(buffer), written = 0;

	for (size_t i = 0; i < notes.count; i++) {
		const struct aux_note *note = &notes.items[i];

		if (note->offset <= UINT64_MAX - note->bytes &&
		    note->offset + note->bytes > written)
			written = note->offset + note->bytes;
	}
	if (buffer->extents.count && written < end && end - written <= AUX_PADDING_MAX) {
		struct aux_extent *last = vec_last(&buffer->extents);

		if (last->bytes > end - written)
			last->bytes -= (size_t)(end - written);
	}
}

static bool aux_build_full(struct aux_notes notes, const struct aux_chunk *chunks, size_t count,
			   struct aux_buffer *buffer)
{
	uint64_t shift = 0; /* stream position minus offset; changes when offsets start again */

	for (size_t i = 0; i < count; i++) {
		const struct aux_chunk *chunk = &chunks[i];
		uint64_t end = aux_stream_end(buffer), off = chunk->offset + shift;
		bool is_first = buffer->extents.count == 0;

		if (chunk->bytes == 0)
			continue;
		uint64_t padding = !is_first && off < end ? end - off : 0;
		bool restarts = off > UINT64_MAX / 2 || padding > AUX_PADDING_MAX ||
				(padding && padding >= vec_last(&buffer->extents)->bytes);
		if (restarts) {
			shift += end - off;
			off = end;
		} else if (padding) {
			vec_last(&buffer->extents)->bytes -= (size_t)padding;
		}
		if (!is_first && (restarts || off > end) &&
		    !aux_push_cut(buffer, off, TIME_NONE, off - end, LOSS_AUX_LOST))
			return false;
		if (!aux_push_extent(buffer, off, chunk->data, chunk->bytes))
			return false;
	}
	aux_trim_end(notes, buffer);
	if (buffer->extents.count) {
		struct aux_interval all = {.stream_off = buffer->extents.items[0].stream_off,
					   .stream_end = aux_stream_end(buffer),
					   .until_ns = TIME_NONE};

		if (!vec_push(&buffer->known, all))
			return false;
	}
	return aux_apply_notes(notes, buffer);
}

/* The size of the rings, which is the same for all: what AUX records say in snapshot mode,
 * else that of the largest copy, rounded up to a power of two of pages as the kernel has it. */
static uint64_t aux_ring_bytes(const struct aux_builder *b)
{
	uint64_t bytes = 4096, largest = 0;

	for (size_t i = 0; i < b->notes.count; i++)
		if ((b->notes.items[i].flags & AUX_FLAG_OVERWRITE) &&
		    b->notes.items[i].bytes > largest)
			largest = b->notes.items[i].bytes;
	for (size_t i = 0; i < b->chunks.count; i++)
		if (b->chunks.items[i].bytes > largest)
			largest = b->chunks.items[i].bytes;
	while (bytes < largest && bytes < UINT64_MAX / 2)
		bytes *= 2;
	return bytes;
}

/* When the ring was read. */
static uint64_t aux_chunk_time(const struct aux_chunk *chunk, const struct clock *clock)
{
	if (chunk->time_ns != TIME_NONE)
		return chunk->time_ns;
	return clock->valid && chunk->reference ? clock_ns(clock, chunk->reference) : TIME_NONE;
}

/* When tracing into it had stopped for that: the last AUX record before. */
static uint64_t aux_stop_time(struct aux_notes notes, uint64_t read_ns)
{
	size_t low = 0, high = notes.count;

	while (low < high && read_ns != TIME_NONE) {
		size_t middle = low + (high - low) / 2;

		if (notes.items[middle].time_ns <= read_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? notes.items[low - 1].time_ns : read_ns;
}

/* Was the ring never filled before its first copy was made? */
static bool aux_is_unfilled(const struct aux_chunk *chunk, uint64_t ring_bytes)
{
	enum { NEVER_WRITTEN = 64 };

	if (chunk->time_ns != TIME_NONE)
		return false;
	return (chunk->bytes < ring_bytes && chunk->offset == 0) ||
	       (chunk->bytes >= NEVER_WRITTEN && is_zero(chunk->data, NEVER_WRITTEN));
}

/* What the ring still held when it was copied: from the first TSC in the new bytes on (without
 * one nothing is certain), up to where tracing stopped for the copy. */
static struct aux_interval aux_known(const struct aux_chunk *chunk, size_t skip, uint64_t stop_ns,
				     const struct aux_buffer *buffer, const struct clock *clock)
{
	struct aux_interval known = {.until_ns = stop_ns};
	uint64_t reference = chunk->reference ? chunk->reference : buffer->reference_tsc;
	uint64_t tsc;

	if (!clock->valid)
		return known;
	known.from_ns = stop_ns;
	if (aux_first_tsc(chunk->data + skip, chunk->bytes - skip, reference, &tsc))
		known.from_ns = clock_ns(clock, tsc);
	return known;
}

/* How a copy continues the one before it. */
struct aux_link {
	size_t repeated; /* bytes at its start */
	size_t padding;  /* bytes at the end of the one before */
	bool is_next;    /* nothing repeats, but it begins where the one before ended */
};

static struct aux_link aux_link_of(const struct aux_chunk *before, const struct aux_chunk *chunk,
				   uint64_t ring_bytes)
{
	struct aux_link link = {0};
	size_t expected = SIZE_MAX;

	/* AUX samples have no offset */
	if (chunk->time_ns == TIME_NONE)
		expected = (size_t)((before->offset + before->bytes - chunk->offset) % ring_bytes);
	link.repeated = aux_overlap(before->data, before->bytes, chunk->data, chunk->bytes,
				    expected, &link.padding);
	/* a whole ring that begins there may as well be turns later */
	if (!link.repeated && expected <= AUX_PADDING_MAX && chunk->bytes < ring_bytes &&
	    expected < before->bytes &&
	    is_zero(before->data + before->bytes - expected, expected)) {
		link.is_next = true;
		link.padding = expected;
	}
	return link;
}

static bool aux_build_snapshots(struct aux_notes notes, const struct aux_chunk *chunks,
				size_t count, uint64_t ring, const struct clock *clock,
				struct aux_buffer *buffer)
{
	const struct aux_chunk *before = NULL;
	uint64_t before_ns = TIME_NONE;

	for (size_t i = 0; i < count; i++) {
		const struct aux_chunk *chunk = &chunks[i];
		uint64_t read_ns = aux_chunk_time(chunk, clock);
		struct aux_link link = {0};

		if (chunk->bytes == 0)
			continue;
		if (before)
			link = aux_link_of(before, chunk, ring);
		if (before && vec_last(&buffer->extents)->bytes > link.padding)
			vec_last(&buffer->extents)->bytes -= link.padding;

		uint64_t off = aux_stream_end(buffer);
		if (before && !link.repeated &&
		    !aux_push_cut(buffer, off, read_ns, 0,
				  link.is_next ? LOSS_NONE : LOSS_OVERWRITTEN))
			return false;
		if (!aux_push_extent(buffer, off, chunk->data + link.repeated,
				     chunk->bytes - link.repeated))
			return false;
		uint64_t stop_ns = aux_stop_time(notes, read_ns);
		/* perf stops tracing while it copies, an AUX sample stops the task */
		bool is_joined = link.repeated && (chunk->time_ns != TIME_NONE || !clock->valid);
		if (!is_joined) {
			struct aux_interval known =
				aux_known(chunk, link.repeated, stop_ns, buffer, clock);

			if (!before && aux_is_unfilled(chunk, ring))
				known.from_ns = 0;
			else if ((link.repeated || link.is_next) && before_ns != TIME_NONE)
				known.from_ns = before_ns;
			known.stream_off = off;
			if (!vec_push(&buffer->known, known))
				return false;
		}
		vec_last(&buffer->known)->stream_end = aux_stream_end(buffer);
		vec_last(&buffer->known)->until_ns = stop_ns;
		before = chunk;
		before_ns = read_ns;
	}
	return true;
}

static bool aux_build_buffer(const struct aux_builder *b, const struct aux_chunk *chunks,
			     size_t count, uint64_t ring_bytes, struct sideband *s)
{
	struct aux_buffer *buffer = vec_last(&s->buffers);
	const struct aux_chunk *first = &chunks[0];
	uint64_t time_ns = aux_chunk_time(first, &s->clock);
	bool is_copies = b->is_snapshot || s->config.sample_mode;

	buffer->index = first->index;
	buffer->cpu = first->cpu;
	buffer->reference_tsc = first->reference;
	if (buffer->reference_tsc == 0 && first->time_ns != TIME_NONE && s->clock.valid)
		buffer->reference_tsc = clock_tsc(&s->clock, first->time_ns);
	buffer->task = sideband_task_of_tid(s, first->tid, time_ns);
	struct aux_notes notes = aux_notes_of(b, first);
	if (!(is_copies ? aux_build_snapshots(notes, chunks, count, ring_bytes, &s->clock, buffer)
			: aux_build_full(notes, chunks, count, buffer)))
		return false;
	aux_tidy_cuts(buffer);
	return true;
}

enum err aux_finish(struct aux_builder *b, struct sideband *s)
{
	struct aux_chunk *chunks = b->chunks.items;
	size_t count = b->chunks.count;
	uint64_t ring_bytes = aux_ring_bytes(b);

	if (count)
		qsort(chunks, count, sizeof *chunks, aux_chunk_compare);
	if (count && b->notes.count)
		qsort(b->notes.items, b->notes.count, sizeof *b->notes.items,
		      chunks[0].cpu >= 0 ? aux_note_by_cpu : aux_note_by_tid);
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && aux_same_buffer(&chunks[i], &chunks[end]);)
			end++;
		if (!vec_push(&s->buffers, (struct aux_buffer){0}) ||
		    !aux_build_buffer(b, &chunks[i], end - i, ring_bytes, s))
			return ERR_NOMEM;
	}
	return ERR_NONE;
}
