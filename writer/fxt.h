/* Fuchsia trace format, encoded into memory: a pure function of the calls made.
 *
 * Source: fuchsia.dev, "Fuchsia trace format"; what Perfetto does with each record is in
 * docs/fxt.md. Records are whole 8-byte words; time is ns (ticks_per_second = 1e9).
 *
 * Strings are always interned, threads always referenced by index: some readers know no
 * inline ones. Both tables are small (32767 strings, 255 threads) and recycled: strings by
 * generations - when the table is full, all but the fixed ones are forgotten and defined
 * again at their next use - threads in turn. A ref is valid until `generation` changes,
 * which only fxt_string() and fxt_strings_reserve() can do: reserve for all the strings of a
 * record, then take their refs.
 *
 * Failure: a failed allocation sets out.failed, later calls are harmless; check once. */
#ifndef WRITER_FXT_H
#define WRITER_FXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/intern.h"
#include "common/vec.h"
#include "writer/buffer.h"

typedef uint16_t fxt_ref; /* string index, 0 = the empty string */

enum {
	FXT_STRINGS_MAX = 32767,
	FXT_STRING_BYTES_MAX = 32000, /* longer texts are cut, with an ellipsis */
	FXT_THREADS_MAX = 255,
	FXT_ARGS_MAX = 15,
	FXT_EVENT_WORDS_MAX = 3 + 2 * FXT_ARGS_MAX,
};

enum fxt_event_type {
	FXT_INSTANT = 0,
	FXT_COUNTER = 1,
	FXT_BEGIN = 2,
	FXT_END = 3,
	FXT_COMPLETE = 4,
	FXT_FLOW_BEGIN = 8,
	FXT_FLOW_STEP = 9,
	FXT_FLOW_END = 10,
};

struct fxt_thread {
	uint64_t pid, tid;
};

struct fxt {
	struct buffer out;           /* what was encoded; taken and emptied by the caller */
	uint32_t generation;         /* of string refs */
	uint64_t string_records;
	struct intern texts;         /* every string ever used, as written */
	VEC(fxt_ref) refs;           /* by str_id: its index now, 0 = not defined */
	struct buffer scratch;
	uint32_t last_string, fixed_strings;
	struct fxt_thread threads[FXT_THREADS_MAX + 1]; /* [0] is not used */
	uint32_t last_thread;        /* given out last */
	bool threads_full;
};

/* The start of the file: magic, provider, clock rate. f is zeroed before. */
void fxt_init(struct fxt *f, const char *provider);
void fxt_done(struct fxt *f);

/* The ref of a string; its record is written if the table does not hold it. Invalid UTF-8
 * and control characters become U+FFFD. */
fxt_ref fxt_string(struct fxt *f, const char *text);
/* A string that is never recycled. Only before the first fxt_string(). */
fxt_ref fxt_string_fixed(struct fxt *f, const char *text);
/* Do the next `count` fxt_string() fit this generation? */
bool fxt_strings_fit(const struct fxt *f, unsigned count);
/* The next `count` fxt_string() do not start a new generation. */
void fxt_strings_reserve(struct fxt *f, unsigned count);

/* The index of a thread; its record is written if the table does not hold it. Valid until
 * FXT_THREADS_MAX - 1 others were asked for. */
uint8_t fxt_thread(struct fxt *f, uint64_t pid, uint64_t tid);
void fxt_name_process(struct fxt *f, uint64_t pid, fxt_ref name);
/* `process_arg` = the ref of "process". */
void fxt_name_thread(struct fxt *f, uint64_t pid, uint64_t tid, fxt_ref name,
		     fxt_ref process_arg);
/* Wall clock: at time ts of the trace it was real_ns since 1970. */
void fxt_wall_clock(struct fxt *f, fxt_ref name, uint64_t ts, uint64_t real_ns);

/* Events are written in place:
 *
 *     uint64_t *start = fxt_event_start(f), *w = start + 2;      (NULL: no memory)
 *     w = fxt_arg_string(w, name, value);                        (up to FXT_ARGS_MAX)
 *     *w++ = end;                                                (FXT_COMPLETE; id of a flow
 *                                                                 or counter)
 *     fxt_event_finish(f, start, w, type, args, thread, category, name, ts); */
static inline uint64_t *fxt_event_start(struct fxt *f)
{
	if (!buffer_reserve(&f->out, FXT_EVENT_WORDS_MAX * sizeof(uint64_t))) {
		f->out.failed = true;
		return NULL;
	}
	return (uint64_t *)(void *)(f->out.data + f->out.bytes);
}

/* The first word of an event without category and name (fxt_header_names). */
static inline uint64_t fxt_header(enum fxt_event_type type, size_t words, unsigned args,
				  uint8_t thread)
{
	return 4 | (uint64_t)words << 4 | (uint64_t)type << 16 | (uint64_t)args << 20 |
	       (uint64_t)thread << 24;
}

static inline uint64_t fxt_header_names(fxt_ref category, fxt_ref name)
{
	return (uint64_t)category << 32 | (uint64_t)name << 48;
}

/* Of a header that is there. */
static inline size_t fxt_header_words(uint64_t header)
{
	return header >> 4 & 0xfff;
}

static inline uint64_t fxt_header_names_of(uint64_t header)
{
	return header >> 32 << 32;
}

/* The two words that begin an event which ends before `end`; returns `end`. */
static inline uint64_t *fxt_event(uint64_t *start, uint64_t *end, enum fxt_event_type type,
				  unsigned args, uint8_t thread, fxt_ref category, fxt_ref name,
				  uint64_t ts)
{
	start[0] = fxt_header(type, (size_t)(end - start), args, thread) |
		   fxt_header_names(category, name);
	start[1] = ts;
	return end;
}

static inline void fxt_event_finish(struct fxt *f, uint64_t *start, uint64_t *end,
				    enum fxt_event_type type, unsigned args, uint8_t thread,
				    fxt_ref category, fxt_ref name, uint64_t ts)
{
	fxt_event(start, end, type, args, thread, category, name, ts);
	f->out.bytes += (size_t)(end - start) * sizeof *start;
}

enum fxt_arg_type {
	FXT_ARG_I32 = 1,
	FXT_ARG_U32 = 2,
	FXT_ARG_I64 = 3,
	FXT_ARG_U64 = 4,
	FXT_ARG_STRING = 6,
	FXT_ARG_POINTER = 7,
	FXT_ARG_KOID = 8,
};

/* Arguments whose value fits the header: one word. */
static inline uint64_t *fxt_arg_short(uint64_t *w, enum fxt_arg_type type, fxt_ref name,
				      uint32_t value)
{
	*w++ = (uint64_t)type | 1 << 4 | (uint64_t)name << 16 | (uint64_t)value << 32;
	return w;
}

static inline uint64_t *fxt_arg_long(uint64_t *w, enum fxt_arg_type type, fxt_ref name,
				     uint64_t value)
{
	*w++ = (uint64_t)type | 2 << 4 | (uint64_t)name << 16;
	*w++ = value;
	return w;
}

static inline uint64_t *fxt_arg_string(uint64_t *w, fxt_ref name, fxt_ref value)
{
	return fxt_arg_short(w, FXT_ARG_STRING, name, value);
}

/* Unsigned, in as few words as it needs. Perfetto shows what is beyond 2^63 as negative. */
static inline uint64_t *fxt_arg_unsigned(uint64_t *w, fxt_ref name, uint64_t value)
{
	if (value <= UINT32_MAX)
		return fxt_arg_short(w, FXT_ARG_U32, name, (uint32_t)value);
	return fxt_arg_long(w, FXT_ARG_U64, name, value);
}

#endif
