/* See flow.h: the reference engine. The only file that includes intel-pt.h.
 *
 * libipt's block decoder gives straight lines of code; what happens at their ends is told to
 * the same struct flow that our own walk uses, which makes the events, tasks and times of it:
 *
 *     block [ip .. end_ip]  next block [ip ..   =>   branch at end_ip to the next ip
 *
 * A piece is given to libipt with a FUP and a TIP.PGD behind it, at the ip where the next piece
 * starts: so it also runs what needs no packets, just up to there. Behind an error it finds
 * nothing before the next PSB, which is the next piece. */
#include <intel-pt.h>
#include <stdlib.h>
#include <string.h>

#include "decode/flow_state.h"

enum { TRAILER_BYTES = 10 };

struct image {
	space_id space;
	struct pt_image *image;
};

struct flow_libipt {
	struct flow *flow;
	struct symbolizer *symbolizer;
	struct pt_image_section_cache *cache;
	VEC(struct image) images;
	VEC(uint8_t) bytes; /* of the piece, with the trailer */
	space_id space;     /* whose image is set */
	uint64_t end_ip;    /* the last block's last instruction; 0 = none to go on from */
	bool aborted;       /* in front of the branch of a TSX abort */
	bool finished;
};

/* For code that is in no file. */
static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
		     void *context)
{
	struct flow *f = context;
	const uint8_t *bytes;
	size_t count = graph_code_at(f->graph, f->space, ip, flow_time_now(&f->time), &bytes);

	(void)asid;
	if (count == 0)
		return -pte_nomap;
	if (count > size)
		count = size;
	memcpy(buffer, bytes, count);
	return (int)count;
}

static bool add_mappings(struct flow_libipt *l, struct pt_image *image, space_id id)
{
	const struct space *space = &l->flow->sideband->spaces.items[id.v];

	for (size_t i = 0; i < space->mappings.count; i++) {
		const struct mapping *m = &space->mappings.items[i];
		const struct module *module = symbolizer_module_get(l->symbolizer, m->module);
		const char *file = module && module->state == MODULE_FOUND
					   ? symbolizer_text(l->symbolizer, module->file)
					   : "";

		if (!*file || m->flags & (MAPPING_ANONYMOUS | MAPPING_KERNEL | MAPPING_VDSO))
			continue;
		int section = pt_iscache_add_file(l->cache, file, m->file_off, m->end - m->start,
						  m->start);
		/* What libipt cannot map, it reads through us. */
		if (section > 0 &&
		    pt_image_add_cached(image, l->cache, section, NULL) == -pte_nomem)
			return false;
	}
	return true;
}

static struct pt_image *image_of(struct flow_libipt *l, space_id space)
{
	for (size_t i = 0; i < l->images.count; i++)
		if (l->images.items[i].space.v == space.v)
			return l->images.items[i].image;
	struct image new = {.space = space, .image = pt_image_alloc(NULL)};
	if (!new.image || !vec_push(&l->images, new)) {
		pt_image_free(new.image);
		return NULL;
	}
	pt_image_set_callback(new.image, read_code, l->flow);
	return add_mappings(l, new.image, space) ? new.image : NULL;
}

enum err flow_libipt_new(struct graph *graph, const struct sideband *sideband, unsigned flags,
			 struct flow_libipt **result, struct error *error)
{
	struct flow_libipt *l = calloc(1, sizeof *l);
	enum err err;

	if (!l)
		return error_set(error, ERR_NOMEM, "out of memory");
	l->symbolizer = graph_symbolizer(graph);
	l->cache = pt_iscache_alloc(NULL);
	err = flow_new(graph, sideband, flags, &l->flow, error);
	if (err == ERR_NONE && !l->cache)
		err = error_set(error, ERR_NOMEM, "out of memory");
	if (err != ERR_NONE) {
		flow_libipt_free(l);
		return err;
	}
	*result = l;
	return ERR_NONE;
}

void flow_libipt_free(struct flow_libipt *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->images.count; i++)
		pt_image_free(l->images.items[i].image);
	vec_done(&l->images);
	vec_done(&l->bytes);
	pt_iscache_free(l->cache);
	flow_free(l->flow);
	free(l);
}

const struct flow *flow_libipt_flow(const struct flow_libipt *l)
{
	return l->flow;
}

/* The node whose code begins with the instruction at ip. */
static node_id code_at(struct flow *f, uint64_t ip)
{
	node_id n = flow_target(f, ip);

	return f->cold[n].is_poked ? flow_edge(f, n, 0) & ~NODE_EDGE_EVENT : n;
}

/* The branch behind the last block goes to ip. */
static void take_branch(struct flow_libipt *l, uint64_t ip)
{
	struct flow *f = l->flow;
	node_id from = code_at(f, l->end_ip);

	l->end_ip = 0;
	if (!from)
		return;
	f->node = from;
	if (f->hot[from].kind == NODE_COND)
		flow_take_bit(f, ip != f->cold[from].end_ip);
	else if (flow_node_is_direct(f, from))
		flow_step(f);
	else
		flow_take_tip(f, ip);
}

/* On its way to a PTWRITE libipt runs through calls and jumps without ending the block. */
static void walk_inside(struct flow *f, const struct pt_block *block)
{
	f->node = flow_target(f, block->ip);
	for (unsigned i = 0; i < block->ninsn && f->node && flow_node_is_direct(f, f->node) &&
			     !graph_node_has_instruction(f->graph, f->node, block->end_ip);
	     i++)
		if (!flow_step(f))
			return;
}

static void take_block(struct flow_libipt *l, const struct pt_block *block)
{
	struct flow *f = l->flow;

	if (block->ninsn == 0)
		return;
	if (l->end_ip)
		take_branch(l, block->ip);
	node_id n = code_at(f, block->end_ip);
	if (n && f->cold[n].branch == INSN_PTWRITE)
		walk_inside(f, block);
	f->ordinal += block->ninsn - 1u;
	f->mode = block->mode == ptem_64bit ? INSN_64 : INSN_32;
	l->end_ip = block->end_ip;
	/* A block may also end where code is only cut into pieces. */
	if (n && f->cold[n].branch_ip != block->end_ip) {
		l->end_ip = 0;
		f->ordinal++; /* counted here, as no branch counts it */
	}
}

/* The time packets that libipt has passed: it tells the time only with events and blocks, which
 * while tracing is off is long after it could be known. It reads ahead, but not so we: what is
 * behind a TIP.PGE or TIP.PGD comes when its event has. */
static void take_times(struct flow_libipt *l, const struct pt_block_decoder *decoder,
		       bool has_event)
{
	struct flow *f = l->flow;
	struct packet packet;
	uint64_t offset;
	int length;

	if (pt_blk_get_offset(decoder, &offset) < 0)
		return;
	size_t count = offset < f->piece->count ? (size_t)offset : f->piece->count;
	for (const uint8_t *end = f->piece->bytes + count; f->p < end; f->p += length) {
		length = packet_decode(f->p, (size_t)(f->end - f->p), f->context, &packet);
		if (length <= 0)
			return;
		if (packet.kind == PACKET_TIP_PGE || packet.kind == PACKET_TIP_PGD) {
			if (!has_event)
				return;
			has_event = false;
		}
		f->context = packet_next_context(f->context, &packet);
		if (flow_time_packet(&f->time, &packet))
			flow_anchor(f);
	}
}

/* What is decoded from here on is code of f->space. */
static enum err set_image(struct flow_libipt *l, struct pt_block_decoder *decoder)
{
	space_id space = l->flow->space;

	if (space.v == l->space.v)
		return ERR_NONE;
	l->space = space;
	struct pt_image *image = image_of(l, space);
	return image && pt_blk_set_image(decoder, image) == 0 ? ERR_NONE : ERR_NOMEM;
}

static enum err take_enabled(struct flow_libipt *l, struct pt_block_decoder *decoder, uint64_t ip)
{
	struct flow *f = l->flow;

	flow_context_begin(f, ip);
	flow_emit(f, FLOW_BEGIN, 0, 0, flow_target(f, ip), 0);
	f->state = FLOW_STATE_ON;
	return set_image(l, decoder);
}

static void take_disabled(struct flow_libipt *l, const struct pt_event *event)
{
	struct flow *f = l->flow;
	node_id from = l->end_ip ? code_at(f, l->end_ip) : 0;
	node_id to = event->ip_suppressed ? 0 : flow_target(f, event->variant.disabled.ip);

	f->ordinal++;
	flow_emit(f, FLOW_END,
		  f->hot[from].kind == NODE_SYSCALL ? FLOW_END_SYSCALL : FLOW_END_BRANCH, from, to,
		  0);
	f->state = FLOW_STATE_OFF;
	l->end_ip = 0;
}

static void take_async_branch(struct flow_libipt *l, uint64_t from, uint64_t to)
{
	struct flow *f = l->flow;

	if (l->end_ip)
		take_branch(l, from);
	flow_emit(f, l->aborted ? FLOW_TX_ABORT : FLOW_INTERRUPT, 0, flow_target(f, from),
		  flow_target(f, to), 0);
	l->aborted = false;
	l->end_ip = 0;
}

static void take_tsx(struct flow_libipt *l, const struct pt_event *event)
{
	struct flow *f = l->flow;

	if (event->variant.tsx.aborted) {
		l->aborted = true;
		return;
	}
	if (f->in_tx == event->variant.tsx.speculative || event->ip_suppressed)
		return;
	f->in_tx = event->variant.tsx.speculative;
	flow_emit(f, f->in_tx ? FLOW_TX_BEGIN : FLOW_TX_COMMIT, 0, 0,
		  flow_target(f, event->variant.tsx.ip), 0);
}

static enum err take_event(struct flow_libipt *l, struct pt_block_decoder *decoder,
			   const struct pt_event *event)
{
	struct flow *f = l->flow;
	uint64_t offset;

	if (event->status_update)
		return ERR_NONE;
	switch (event->type) {
	case ptev_enabled: return take_enabled(l, decoder, event->variant.enabled.ip);
	case ptev_disabled: take_disabled(l, event); break;
	case ptev_async_disabled:
		if (l->end_ip)
			take_branch(l, event->variant.async_disabled.at);
		if (pt_blk_get_offset(decoder, &offset) >= 0 &&
		    offset >= f->piece->count + TRAILER_BYTES) {
			/* Our trailer; with an event before it libipt has read on into it. */
			l->finished = true;
			break;
		}
		flow_emit(f, FLOW_END, FLOW_END_ASYNC,
			  flow_target(f, event->variant.async_disabled.at), 0, 0);
		f->state = FLOW_STATE_OFF;
		l->end_ip = 0;
		break;
	case ptev_async_branch:
		take_async_branch(l, event->variant.async_branch.from,
				  event->variant.async_branch.to);
		break;
	case ptev_overflow:
		flow_gap(f, LOSS_OVERFLOW, l->end_ip ? code_at(f, l->end_ip) : 0, 0);
		l->end_ip = 0;
		if (!event->ip_suppressed)
			flow_resume(f, event->variant.overflow.ip, FLOW_RESUME_CERTAIN);
		break;
	case ptev_tsx: take_tsx(l, event); break;
	default: break;
	}
	return ERR_NONE;
}

/* Does a TIP.PGE or TIP.PGD tell it? */
static bool is_switch(const struct pt_event *event)
{
	return !event->status_update &&
	       (event->type == ptev_enabled || event->type == ptev_disabled ||
		event->type == ptev_async_disabled);
}

/* Runs to the end, or to the first error. */
static int run(struct flow_libipt *l, struct pt_block_decoder *decoder, enum err *err)
{
	int status = pt_blk_sync_forward(decoder);

	while (status >= 0 && !l->finished && l->flow->err == ERR_NONE) {
		struct pt_block block = {0};
		struct pt_event event;

		if (status & pts_event_pending) {
			status = pt_blk_event(decoder, &event, sizeof event);
			if (status < 0)
				break;
			take_times(l, decoder, false);
			*err = take_event(l, decoder, &event);
			take_times(l, decoder, is_switch(&event));
			if (*err != ERR_NONE)
				return 0;
			continue;
		}
		status = pt_blk_next(decoder, &block, sizeof block);
		take_block(l, &block);
		/* With an event at hand libipt has read on to it. */
		if (!(status & pts_event_pending))
			take_times(l, decoder, false);
		/* In kernel code another task may have come to run. */
		*err = set_image(l, decoder);
		if (*err != ERR_NONE)
			return 0;
	}
	return status;
}

static void take_error(struct flow_libipt *l, int status)
{
	struct flow *f = l->flow;
	node_id from = l->end_ip ? code_at(f, l->end_ip) : 0;

	if (status >= 0)
		return;
	switch (-status) {
	case pte_eos: break;
	case pte_nomap: flow_gap(f, LOSS_MISSING_CODE, from, 0); break;
	case pte_bad_packet:
	case pte_bad_opc: flow_gap(f, LOSS_BAD_PACKET, from, 0); break;
	default: flow_gap(f, LOSS_MISMATCH, from, 0); break;
	}
}

static void configure(const struct flow_libipt *l, struct pt_config *config)
{
	const struct trace_config *c = &l->flow->sideband->config;

	pt_config_init(config);
	config->begin = l->bytes.items;
	config->end = l->bytes.items + l->bytes.count;
	config->cpu.vendor = c->cpu_is_intel ? pcv_intel : pcv_unknown;
	config->cpu.family = c->cpu_family;
	config->cpu.model = c->cpu_model;
	config->cpu.stepping = c->cpu_stepping;
	config->cpuid_0x15_eax = c->tsc_ctc_denominator;
	config->cpuid_0x15_ebx = c->tsc_ctc_numerator;
	config->mtc_freq = (uint8_t)c->mtc_period;
	config->nom_freq = (uint8_t)c->max_non_turbo_ratio;
	config->flags.variant.block.end_on_call = 1;
	config->flags.variant.block.end_on_jump = 1;
	/* Real traces fail without the errata; an unknown CPU has none. */
	if (c->cpu_is_intel && pt_cpu_errata(&config->errata, &config->cpu) < 0)
		memset(&config->errata, 0, sizeof config->errata);
}

/* The piece's bytes, and a stop at the next piece's first ip. */
static bool copy_bytes(struct flow_libipt *l, const struct flow_piece *piece)
{
	uint8_t trailer[TRAILER_BYTES] = {0xdd}; /* FUP with 8 bytes */
	bool has_trailer = piece->next_sync_ip != 0;

	memcpy(trailer + 1, &piece->next_sync_ip, 8);
	trailer[9] = 0x01; /* TIP.PGD without ip */
	l->bytes.count = 0;
	if (!vec_reserve(&l->bytes, piece->count + TRAILER_BYTES))
		return false;
	memcpy(l->bytes.items, piece->bytes, piece->count);
	memcpy(l->bytes.items + piece->count, trailer, sizeof trailer);
	l->bytes.count = piece->count + (has_trailer ? TRAILER_BYTES : 0);
	return true;
}

enum err flow_libipt_decode(struct flow_libipt *l, const struct flow_piece *piece,
			    struct flow_sink sink)
{
	struct flow *f = l->flow;
	struct pt_config config;
	enum err err = ERR_NONE;

	if (!copy_bytes(l, piece))
		return ERR_NOMEM;
	configure(l, &config);
	l->end_ip = 0;
	l->aborted = l->finished = false;
	flow_begin(f, piece, sink);
	struct pt_block_decoder *decoder = pt_blk_alloc_decoder(&config);
	l->space = (space_id){UINT32_MAX};
	err = decoder ? set_image(l, decoder) : ERR_NOMEM;
	if (err == ERR_NONE)
		take_error(l, run(l, decoder, &err));
	pt_blk_free_decoder(decoder);
	f->state = FLOW_STATE_OFF; /* libipt has walked to the end */
	enum err end = flow_finish(f);
	return err != ERR_NONE ? err : end;
}
