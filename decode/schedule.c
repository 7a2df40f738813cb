/* See schedule.h.
 *
 * Pieces of all buffers stand in one list, by the time they start. Every thread runs the same
 * loop: hand over what can be handed over (one thread at a time holds that role), else decode
 * the next piece, else wait. Decoding runs ahead by a bounded window, so memory is bounded,
 * too. A stay may be handed over when no other buffer can still bring an earlier one. */
#include "decode/schedule.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/vec.h"
#include "decode/piece.h"

enum { PIECES_AHEAD_PER_JOB = 8 };

struct decoded {
	VEC(struct flow_event) events;
	VEC(uint64_t) payloads;
	struct trees trees;
	bool out_of_memory;
};

enum item_state { ITEM_WAITING, ITEM_DECODING, ITEM_DECODED, ITEM_CONSUMED };

struct item {
	const struct flow_piece *piece;
	uint32_t source;
	uint64_t start_ns;
	enum item_state state;
	struct decoded *decoded;
};

/* One AUX buffer: the next stay of it is at events[at] of the first unconsumed item, its trees
 * from trees[tree_at] on. */
struct source {
	const struct aux_buffer *buffer;
	struct pieces pieces;
	uint32_t *items; /* indices into schedule.items, in stream order */
	size_t item_count, head, at, tree_at;
	uint64_t key_ns; /* stays of a source never go back */
};

struct schedule {
	struct graph *graph;
	const struct sideband *sideband;
	const struct schedule_options *o;
	schedule_consumer *consume;
	void *context;

	struct source *sources;
	size_t source_count;
	struct item *items;
	size_t item_count;
	VEC(uint32_t) heap; /* sources with something left, the earliest stay on top */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t next_item, first_unconsumed;
	bool consuming, stop;
	enum err err;
	VEC(struct decoded *) spare;
	uint64_t done_bytes, all_bytes;
	struct flow_stats stats;
};

static void decoded_free(struct decoded *d)
{
	if (!d)
		return;
	vec_done(&d->events);
	vec_done(&d->payloads);
	trees_done(&d->trees);
	free(d);
}

/* ---- the list of pieces ---- */

static int item_order(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static bool wants_cpu(const struct schedule_options *o, int32_t cpu)
{
	for (size_t i = 0; i < o->cpu_count; i++)
		if (o->cpus[i] == cpu)
			return true;
	return o->cpu_count == 0;
}

static enum err schedule_find_pieces(struct schedule *s)
{
	size_t count = 0;

	for (size_t i = 0; i < s->sideband->buffers.count; i++) {
		const struct aux_buffer *buffer = &s->sideband->buffers.items[i];

		if (!wants_cpu(s->o, buffer->cpu))
			continue;
		struct source *source = &s->sources[s->source_count];
		*source = (struct source){.buffer = buffer};
		if (pieces_find(s->sideband, buffer, &source->pieces) != ERR_NONE)
			return ERR_NOMEM;
		s->source_count++;
		count += source->pieces.items.count;
	}
	s->items = calloc(count ? count : 1, sizeof *s->items);
	if (!s->items || count >= UINT32_MAX)
		return ERR_NOMEM;
	for (size_t i = 0; i < s->source_count; i++) {
		const struct pieces *pieces = &s->sources[i].pieces;
		uint64_t start_ns = 0;

		for (size_t k = 0; k < pieces->items.count; k++) {
			const struct flow_piece *p = &pieces->items.items[k];
			bool before =
				p->next_time_ns != TIME_NONE && p->next_time_ns < s->o->from_ns;

			if (!before && start_ns < s->o->until_ns) {
				s->items[s->item_count++] = (struct item){
					.piece = p, .source = (uint32_t)i, .start_ns = start_ns};
				s->all_bytes += p->count;
			}
			if (p->next_time_ns != TIME_NONE && p->next_time_ns > start_ns)
				start_ns = p->next_time_ns;
		}
	}
	qsort(s->items, s->item_count, sizeof *s->items, item_order);
	for (size_t i = 0; i < s->item_count; i++)
		s->sources[s->items[i].source].item_count++;
	for (size_t i = 0; i < s->source_count; i++) {
		struct source *source = &s->sources[i];

		source->items = calloc(source->item_count + 1, sizeof *source->items);
		if (!source->items)
			return ERR_NOMEM;
		source->item_count = 0;
	}
	for (size_t i = 0; i < s->item_count; i++) {
		struct source *source = &s->sources[s->items[i].source];

		source->items[source->item_count++] = (uint32_t)i;
	}
	return ERR_NONE;
}

/* ---- the heap of sources ---- */

static bool source_before(const struct schedule *s, uint32_t a, uint32_t b)
{
	if (s->sources[a].key_ns != s->sources[b].key_ns)
		return s->sources[a].key_ns < s->sources[b].key_ns;
	return a < b;
}

static void heap_down(struct schedule *s, size_t i)
{
	uint32_t *heap = s->heap.items;

	for (;;) {
		size_t least = i;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < s->heap.count; child++)
			if (source_before(s, heap[child], heap[least]))
				least = child;
		if (least == i)
			return;
		uint32_t swap = heap[i];
		heap[i] = heap[least];
		heap[least] = swap;
		i = least;
	}
}

static bool heap_fill(struct schedule *s)
{
	for (uint32_t i = 0; i < s->source_count; i++)
		if (s->sources[i].item_count && !vec_push(&s->heap, i))
			return false;
	for (size_t i = s->heap.count; i-- > 0;)
		heap_down(s, i);
	return true;
}

/* The earliest source's key may have grown, or it may be at its end. */
static void heap_fix_top(struct schedule *s)
{
	struct source *top = &s->sources[s->heap.items[0]];

	if (top->head == top->item_count)
		s->heap.items[0] = s->heap.items[--s->heap.count];
	if (s->heap.count)
		heap_down(s, 0);
}

/* ---- handing over ---- */

/* Sets the source's key to the start of its next stay. Into a piece of which nothing was handed
 * over only the top of the heap looks: whether others are decoded depends on the threads. */
static void source_rekey(const struct schedule *s, struct source *source, bool at_top)
{
	if (source->head == source->item_count)
		return;
	const struct item *item = &s->items[source->items[source->head]];
	uint64_t key = item->start_ns;

	if ((at_top || source->at > 0) && source->at < item->decoded->events.count)
		key = item->decoded->events.items[source->at].time_ns;
	if (key > source->key_ns)
		source->key_ns = key;
}

/* Lower bound of the next event in all sources but the earliest. */
static uint64_t heap_second_key(const struct schedule *s)
{
	uint64_t key = TIME_NONE;

	for (size_t i = 1; i <= 2 && i < s->heap.count; i++)
		if (s->sources[s->heap.items[i]].key_ns < key)
			key = s->sources[s->heap.items[i]].key_ns;
	return key;
}

/* Is this the first event of another stay? Never inside a tree. */
static bool stay_ends(const struct flow_event *e, uint64_t others_ns)
{
	return e->kind == FLOW_TASK || (e->kind == FLOW_BEGIN && e->time_ns > others_ns);
}

/* Hands over the stay at the top of the heap; its item is decoded. Called with the lock. A
 * stay also ends where tracing begins again after another source's next event: the thread may
 * have been on that CPU meanwhile, and no record of others may lie between. */
static void schedule_hand_over(struct schedule *s)
{
	uint64_t others_ns = heap_second_key(s);
	struct source *source = &s->sources[s->heap.items[0]];
	struct item *item = &s->items[source->items[source->head]];
	struct decoded *d = item->decoded;
	size_t from = source->at, to = from, tree_from = source->tree_at, tree_to = tree_from;

	s->consuming = true;
	pthread_mutex_unlock(&s->lock);
	while (to < d->events.count &&
	       (to == from || !stay_ends(&d->events.items[to], others_ns))) {
		bool is_tree = tree_to < d->trees.items.count &&
			       d->trees.items.items[tree_to].first_event == to;

		to = is_tree ? d->trees.items.items[tree_to++].end_event : to + 1;
	}
	enum err err = ERR_NONE;
	if (to > from) {
		struct stay stay = {.events = &d->events.items[from],
				    .count = to - from,
				    .payloads = d->payloads.items,
				    .tree_count = tree_to - tree_from,
				    .first_event = from,
				    .rows = d->trees.rows.items};

		if (stay.tree_count)
			stay.trees = &d->trees.items.items[tree_from];
		err = s->consume(s->context, source->buffer, &stay);
	}
	pthread_mutex_lock(&s->lock);
	s->consuming = false;
	if (err != ERR_NONE) {
		s->err = err;
		s->stop = true;
	}
	source->at = to;
	source->tree_at = tree_to;
	if (to >= d->events.count) {
		item->state = ITEM_CONSUMED;
		item->decoded = NULL;
		d->events.count = d->payloads.count = 0;
		d->trees.items.count = d->trees.rows.count = 0;
		if (!vec_push(&s->spare, d))
			decoded_free(d);
		source->head++;
		source->at = source->tree_at = 0;
		while (s->first_unconsumed < s->item_count &&
		       s->items[s->first_unconsumed].state == ITEM_CONSUMED)
			s->first_unconsumed++;
		s->done_bytes += item->piece->count;
		if (s->o->progress)
			s->o->progress(s->o->progress_context, s->done_bytes, s->all_bytes);
	}
	source_rekey(s, source, false);
	heap_fix_top(s);
}

/* Whether the earliest stay is known: its item is decoded and its key is exact. */
static bool schedule_can_hand_over(struct schedule *s)
{
	while (s->heap.count) {
		struct source *top = &s->sources[s->heap.items[0]];
		uint64_t key = top->key_ns;

		if (s->items[top->items[top->head]].state != ITEM_DECODED)
			return false;
		source_rekey(s, top, true);
		if (top->key_ns == key)
			return true;
		heap_down(s, 0); /* its first stay starts later than its piece seemed to */
	}
	return false;
}

/* ---- decoding ---- */

static void decoded_append(void *context, const struct flow_event *events, size_t count)
{
	struct decoded *d = context;

	if (!vec_reserve(&d->events, d->events.count + count)) {
		d->out_of_memory = true;
		return;
	}
	memcpy(d->events.items + d->events.count, events, count * sizeof *events);
	d->events.count += count;
}

static bool decoded_take(void *context, struct flow_event **events, size_t *capacity, size_t count,
			 size_t need)
{
	struct decoded *d = context;

	if (d->events.count || !vec_reserve(&d->events, need))
		return false;
	struct flow_event *empty = d->events.items;
	size_t empty_capacity = d->events.capacity;
	d->events.items = *events;
	d->events.capacity = *capacity;
	d->events.count = count;
	*events = empty;
	*capacity = empty_capacity;
	return true;
}

/* What a thread needs to decode. */
struct worker {
	struct flow *own;
	struct flow_libipt *libipt;
	struct tree_builder *builder; /* NULL = no trees */
};

static enum err worker_init(struct worker *w, const struct schedule *s)
{
	unsigned flags = s->o->flow_flags;
	enum err err = s->o->libipt
			       ? flow_libipt_new(s->graph, s->sideband, flags, &w->libipt, NULL)
			       : flow_new(s->graph, s->sideband, flags, &w->own, NULL);

	if (err == ERR_NONE && s->o->trees)
		err = tree_builder_new(s->graph, &w->builder);
	return err;
}

static void worker_done(struct worker *w)
{
	flow_free(w->own);
	flow_libipt_free(w->libipt);
	tree_builder_free(w->builder);
}

static const struct flow *worker_flow(const struct worker *w)
{
	return w->libipt ? flow_libipt_flow(w->libipt) : w->own;
}

static enum err worker_decode(struct worker *w, const struct flow_piece *piece, struct decoded *d)
{
	struct flow_sink sink = {.events = decoded_append, .take = decoded_take, .context = d};
	enum err err = w->libipt ? flow_libipt_decode(w->libipt, piece, sink)
				 : flow_decode(w->own, piece, sink);
	size_t count = err == ERR_NONE ? flow_payload_count(worker_flow(w)) : 0;

	if (!vec_reserve(&d->payloads, count))
		d->out_of_memory = true;
	else if (count)
		memcpy(d->payloads.items, flow_payloads(worker_flow(w)),
		       count * sizeof *d->payloads.items);
	if (d->out_of_memory)
		err = ERR_NOMEM;
	if (err == ERR_NONE && w->builder)
		err = trees_build(w->builder, d->events.items, d->events.count, &d->trees);
	return err;
}

/* Called with the lock, which it gives up while decoding. */
static void schedule_decode(struct schedule *s, struct worker *w, struct item *item)
{
	struct decoded *d = s->spare.count ? s->spare.items[--s->spare.count] : NULL;
	enum err err;

	item->state = ITEM_DECODING;
	pthread_mutex_unlock(&s->lock);
	if (!d)
		d = calloc(1, sizeof *d);
	err = d ? worker_decode(w, item->piece, d) : ERR_NOMEM;
	pthread_mutex_lock(&s->lock);
	item->decoded = d;
	item->state = ITEM_DECODED;
	if (err != ERR_NONE) {
		s->err = err;
		s->stop = true;
	}
}

/* What to decode next; NULL = nothing now. Beyond the window only what the consumer waits for: with
 * a damaged clock that may be far ahead. */
static struct item *schedule_next(struct schedule *s)
{
	const struct source *top = &s->sources[s->heap.items[0]];
	struct item *wanted = &s->items[top->items[top->head]];

	while (s->next_item < s->item_count && s->items[s->next_item].state != ITEM_WAITING)
		s->next_item++;
	if (s->next_item < s->item_count &&
	    s->next_item <
		    s->first_unconsumed + s->o->jobs * PIECES_AHEAD_PER_JOB + s->source_count)
		return &s->items[s->next_item];
	return wanted->state == ITEM_WAITING ? wanted : NULL;
}

static void stats_add(struct flow_stats *sum, const struct flow_stats *part)
{
	sum->packets += part->packets;
	sum->tnt_bits += part->tnt_bits;
	sum->tips += part->tips;
	sum->instructions += part->instructions;
	for (size_t i = 0; i < LOSS_COUNT; i++)
		sum->losses[i] += part->losses[i];
	sum->bad_times += part->bad_times;
	sum->bytes += part->bytes;
}

static void *schedule_work(void *context)
{
	struct schedule *s = context;
	struct worker w = {0};
	enum err err = worker_init(&w, s);

	pthread_mutex_lock(&s->lock);
	if (err != ERR_NONE) {
		s->err = err;
		s->stop = true;
	}
	while (!s->stop && s->heap.count) {
		struct item *item = schedule_next(s);

		if (!s->consuming && schedule_can_hand_over(s))
			schedule_hand_over(s);
		else if (item)
			schedule_decode(s, &w, item);
		else {
			pthread_cond_wait(&s->changed, &s->lock);
			continue;
		}
		pthread_cond_broadcast(&s->changed);
	}
	pthread_cond_broadcast(&s->changed);
	if (worker_flow(&w))
		stats_add(&s->stats, flow_stats(worker_flow(&w)));
	pthread_mutex_unlock(&s->lock);
	worker_done(&w);
	return NULL;
}

static void schedule_run_threads(struct schedule *s)
{
	pthread_t threads[256];
	unsigned started = 0, jobs = s->o->jobs;

	if (jobs > s->item_count)
		jobs = (unsigned)s->item_count;
	if (jobs > sizeof threads / sizeof *threads + 1)
		jobs = sizeof threads / sizeof *threads + 1;
	while (started + 1 < jobs && pthread_create(&threads[started], NULL, schedule_work, s) == 0)
		started++;
	schedule_work(s);
	while (started > 0)
		pthread_join(threads[--started], NULL);
}

enum err schedule_run(struct graph *graph, const struct sideband *sideband,
		      const struct schedule_options *options, schedule_consumer *consume,
		      void *context, struct flow_stats *stats, struct error *error)
{
	struct schedule s = {.graph = graph,
			     .sideband = sideband,
			     .o = options,
			     .consume = consume,
			     .context = context,
			     .lock = PTHREAD_MUTEX_INITIALIZER,
			     .changed = PTHREAD_COND_INITIALIZER};

	s.sources = calloc(sideband->buffers.count + 1, sizeof *s.sources);
	s.err = s.sources ? schedule_find_pieces(&s) : ERR_NOMEM;
	if (s.err == ERR_NONE && !heap_fill(&s))
		s.err = ERR_NOMEM;
	if (s.err == ERR_NONE)
		schedule_run_threads(&s);
	stats_add(stats, &s.stats);
	for (size_t i = 0; i < s.item_count; i++)
		decoded_free(s.items[i].decoded);
	for (size_t i = 0; i < s.spare.count; i++)
		decoded_free(s.spare.items[i]);
	for (size_t i = 0; i < s.source_count; i++) {
		pieces_done(&s.sources[i].pieces);
		free(s.sources[i].items);
	}
	vec_done(&s.spare);
	vec_done(&s.heap);
	free(s.items);
	free(s.sources);
	if (s.err != ERR_NONE)
		error_set(error, s.err, "%s", error_name(s.err));
	return s.err;
}
