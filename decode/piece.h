/* Pieces: where the byte stream of an AUX buffer can be entered and must be left.
 *
 *     extents  [········P·······][····P······]   hole   [···P······]     P = PSB
 *     cuts                              ^
 *     pieces           [────────────][──]                  [──────]
 *
 * A piece begins with a PSB and ends at the next one, at a cut, at a hole or at the end. Bytes
 * behind a cut or hole belong to no piece until a PSB comes; only where the ring was full,
 * tracing goes on with whole packets, and a piece begins at the cut. A piece within one extent
 * is a pointer into it; one that straddles extents is gathered. */
#ifndef DECODE_PIECE_H
#define DECODE_PIECE_H

#include "common/arena.h"
#include "common/error.h"
#include "common/vec.h"
#include "decode/flow.h"
#include "decode/sideband.h"

struct pieces {
	VEC(struct flow_piece) items; /* in stream order */
	struct arena gathered;
	uint64_t skipped_bytes; /* in no piece */
	uint64_t first_ns;      /* the first time that a PSB+ tells; TIME_NONE = none does */
};

/* The pieces of a buffer. ERR_NOMEM only. The buffer must outlive them. */
MUST_CHECK enum err pieces_find(const struct sideband *sideband, const struct aux_buffer *buffer,
				struct pieces *result);
void pieces_done(struct pieces *p);

/* piece_time.c, for pieces_find(): sets time_bias_ns and next_time_ns by header_time_ns. False
 * when memory is short. */
bool pieces_settle_times(const struct sideband *sideband, struct pieces *p);

#endif
