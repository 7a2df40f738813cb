/* AUX buffers while the sideband is built: AUXTRACE chunks + AUX records -> struct aux_buffer.
 *
 * Full trace: AUXTRACE.offset counts the bytes of the ring's whole life. A chunk may end in up
 * to 7 bytes of padding that the next chunk's offset (or an AUX record) tells.
 *
 *     chunk 0 |=========pp|                        hole between chunks: LOSS_AUX_LOST
 *     chunk 1          |======|   |=====| chunk 2  TRUNCATED, PARTIAL: cut where that
 *                          ^ cut                   AUX record ends, if data follows
 *
 * Snapshots and AUX samples: each chunk is a copy of (the end of) the ring, oldest byte first,
 * begins anywhere, and AUXTRACE.offset counts within the ring. What repeats the end of the
 * chunk before it is removed; then nothing was lost between the two. If nothing repeats, the
 * ring was overwritten in between.
 *
 * Sources: tools/perf/util/auxtrace.c (auxtrace_mmap__read), perf-intel-pt(1) on snapshots,
 * Intel SDM vol. 3, "Intel Processor Trace", PSB+ and TSC packets. */
#ifndef DECODE_AUX_H
#define DECODE_AUX_H

#include "decode/record.h"
#include "decode/sideband.h"

/* perf pads chunks to a multiple of 8 bytes. */
#define AUX_PADDING_MAX 7u

struct aux_chunk {
	uint32_t index;
	int32_t cpu, tid;
	uint64_t offset, reference;
	const uint8_t *data;
	size_t bytes;
	uint64_t time_ns; /* of an AUX sample; TIME_NONE = not known */
	size_t order;     /* of arrival */
};

struct aux_note {
	uint64_t time_ns;
	int32_t cpu, tid;
	uint64_t offset, bytes, flags;
	size_t order; /* of arrival, from 1 */
};

struct aux_builder {
	VEC(struct aux_chunk) chunks;
	VEC(struct aux_note) notes; /* AUX records in time order */
	bool is_snapshot;           /* by AUXTRACE_INFO, or by an OVERWRITE flag */
};

void aux_builder_done(struct aux_builder *b);
bool aux_add_chunk(struct aux_builder *b, const struct record_auxtrace *r, const uint8_t *data,
		   size_t bytes);
/* In time order. */
bool aux_add_note(struct aux_builder *b, const struct record_aux *r, const struct sample_id *id,
		  uint64_t time_ns);
/* An AUX area sample: a chunk of the CPU's (or with cpu -1 the thread's) buffer. */
bool aux_add_sample(struct aux_builder *b, const struct sample *sample, uint64_t time_ns);
/* Fills sideband.buffers (not their switches). The clock and the tasks must be known. */
MUST_CHECK enum err aux_finish(struct aux_builder *b, struct sideband *sideband);

/* How many bytes at the start of b repeat the end of a (0 = none, or none that is certain).
 * `padding` receives the bytes at a's end that are padding. `expected`: what the ring's
 * arithmetic says for an unpadded a; SIZE_MAX = unknown. Certain is what has the expected
 * length, or contains a PSB with a TSC. */
size_t aux_overlap(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes,
		   size_t expected, size_t *padding);

/* The TSC of the first PSB+ in the bytes that has one, extended by a reference. */
bool aux_first_tsc(const uint8_t *data, size_t bytes, uint64_t reference, uint64_t *tsc);

/* A 56-bit TSC with the upper bits that bring it nearest to the reference (0 = none given). */
static inline uint64_t aux_extend_tsc(uint64_t tsc, uint64_t reference)
{
	const uint64_t half = (uint64_t)1 << 55, whole = (uint64_t)1 << 56;

	if (reference == 0)
		return tsc;
	tsc |= reference & ~(whole - 1);
	if (tsc < reference && reference - tsc > half && tsc <= UINT64_MAX - whole)
		return tsc + whole;
	if (tsc > reference && tsc - reference > half && tsc >= whole)
		return tsc - whole;
	return tsc;
}

#endif
