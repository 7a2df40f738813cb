/* Random programs, run at random, written as packets, decoded by both engines: each must give
 * the branches that were taken, our engine always, libipt where it can (see below).
 *
 * The input is the program (a slot of 16 bytes of code per two bytes) and then the choices of
 * its run; when these are used up, the run ends. A program may be kernel code, which is poked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fuzz/driver.h"
#include "common/vec.h"
#include "decode/flow.h"
#include "decode/piece.h"
#include "decode/tests/flow_fixture.h"

enum {
	SLOTS = 32,
	SLOT_BYTES = 16,
	CPU_STACK = 64,
	WAITING_MAX = 512,
	POKES_MAX = 256,
	POKE_BYTES = 5,
};

enum slot_kind { COND, JUMP, CALL, RETURN, CALL_INDIRECT, JUMP_INDIRECT, NOTHING, SYSCALL };

struct slot {
	uint8_t kind, target, offset; /* offset of the branch */
};

struct edge {
	uint64_t from, to;
	uint8_t kind; /* enum flow_kind */
};

struct machine {
	struct slot slots[SLOTS];
	uint8_t code[SLOTS * SLOT_BYTES];
	const uint8_t *choices, *end;
	uint64_t ip;
	uint64_t waiting[WAITING_MAX]; /* the program's stack */
	size_t depth;
	uint64_t cpu_stack[CPU_STACK]; /* the CPU's: ring */
	size_t cpu_depth, cpu_top;
	bool may_change_returns;
	uint64_t base;
	uint8_t file[SLOTS * SLOT_BYTES]; /* the code in one of its states */
	struct text_poke pokes[POKES_MAX];
	uint8_t poked[POKES_MAX][2][POKE_BYTES]; /* their bytes, old and new */
	size_t poke_count;
	bool changed_return; /* a return went elsewhere: libipt keeps its entry, we pop it */
	VEC(struct edge) edges;
	VEC(uint8_t) trace;
	uint8_t tnt;
	unsigned tnt_count;
	uint64_t last_ip, tsc;
};

static void check(bool good)
{
	if (!good)
		abort();
}

static uint8_t choice(struct machine *m)
{
	return m->choices < m->end ? *m->choices++ : 0;
}

/* ---- packets ---- */

static void put(struct machine *m, const void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check(vec_push(&m->trace, ((const uint8_t *)bytes)[i]));
}

static void put_byte(struct machine *m, uint8_t byte)
{
	put(m, &byte, 1);
}

static void flush_tnt(struct machine *m)
{
	if (m->tnt_count)
		put_byte(m, (uint8_t)((1u << m->tnt_count | m->tnt) << 1));
	m->tnt = 0;
	m->tnt_count = 0;
}

static void put_bit(struct machine *m, bool taken)
{
	m->tnt = (uint8_t)(m->tnt << 1 | taken);
	if (++m->tnt_count == 6)
		flush_tnt(m);
}

static void put_ip(struct machine *m, uint8_t opcode, uint64_t ip)
{
	unsigned how = (ip ^ m->last_ip) >> 16 == 0 ? 1 : (ip ^ m->last_ip) >> 32 == 0 ? 2 : 3;
	static const uint8_t bytes[] = {0, 2, 4, 6};

	flush_tnt(m);
	put_byte(m, (uint8_t)(opcode | how << 5));
	put(m, &ip, bytes[how]);
	m->last_ip = ip;
}

static void put_psb(struct machine *m)
{
	static const uint8_t psb[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
				      2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};

	flush_tnt(m);
	put(m, psb, sizeof psb);
	put_byte(m, 0x19);
	put(m, &m->tsc, 7);
	put(m, "\x99\x01", 2);
	m->last_ip = 0;
	put_ip(m, 0x1d, m->ip);
	put(m, "\x02\x23", 2);
	m->cpu_depth = 0;
	m->tsc += 1000;
}

/* ---- the program and its run ---- */

static uint64_t slot_ip(const struct machine *m, unsigned slot)
{
	return m->base + (uint64_t)slot % SLOTS * SLOT_BYTES;
}

static void assemble(struct machine *m, unsigned n)
{
	struct slot *s = &m->slots[n];
	uint8_t *at = m->code + n * SLOT_BYTES + s->offset;
	static const struct {
		uint8_t bytes[2], count, relative; /* relative: an offset of 4 bytes follows */
	} forms[] = {
		[COND] = {{0x0f, 0x85}, 2, 1},
		[JUMP] = {{0xe9}, 1, 1},
		[CALL] = {{0xe8}, 1, 1},
		[RETURN] = {{0xc3}, 1, 0},
		[CALL_INDIRECT] = {{0xff, 0xd0}, 2, 0},
		[JUMP_INDIRECT] = {{0xff, 0xe0}, 2, 0},
		[NOTHING] = {{0x90}, 1, 0},
		[SYSCALL] = {{0x0f, 0x05}, 2, 0},
	};

	memcpy(at, forms[s->kind].bytes, forms[s->kind].count);
	if (forms[s->kind].relative) {
		uint64_t end = slot_ip(m, n) + s->offset + forms[s->kind].count + 4u;
		int32_t relative = (int32_t)(slot_ip(m, s->target) - end);

		memcpy(at + forms[s->kind].count, &relative, 4);
	}
}

static void load_program(struct machine *m, const uint8_t *data)
{
	memset(m->code, 0x90, sizeof m->code);
	m->may_change_returns = data[0] & 0x80;
	m->base = data[1] & 0x80 ? FLOW_FIXTURE_KERNEL : FLOW_FIXTURE_BASE;
	for (unsigned i = 0; i < SLOTS; i++) {
		m->slots[i] = (struct slot){.kind = data[2 * i] & 7,
					    .target = data[2 * i + 1] % SLOTS,
					    .offset = data[2 * i] >> 3 & 3};
		/* Direct branches lead down: a FUP's ip is passed once between two packets. */
		if (i == SLOTS - 1)
			m->slots[i].kind = JUMP_INDIRECT;
		else if (m->slots[i].kind == JUMP || m->slots[i].kind == CALL ||
			 m->slots[i].kind == NOTHING)
			m->slots[i].target = (uint8_t)(i + 1 + data[2 * i + 1] % (SLOTS - 1 - i));
		assemble(m, i);
	}
	m->ip = slot_ip(m, 0);
}

static void take_edge(struct machine *m, enum flow_kind kind, uint64_t from, uint64_t to)
{
	struct edge e = {.from = from, .to = to, .kind = (uint8_t)kind};

	check(vec_push(&m->edges, e));
	if (kind != FLOW_END)
		m->ip = to;
}

static void push(struct machine *m, uint64_t ip)
{
	if (m->depth < WAITING_MAX)
		m->waiting[m->depth++] = ip;
	m->cpu_top = (m->cpu_top + 1) % CPU_STACK;
	m->cpu_stack[m->cpu_top] = ip;
	m->cpu_depth += m->cpu_depth < CPU_STACK;
}

static void return_to(struct machine *m, uint64_t from)
{
	bool elsewhere = m->depth == 0 || (m->may_change_returns && (choice(m) & 31) == 31);
	uint64_t to = elsewhere ? slot_ip(m, choice(m)) : m->waiting[m->depth - 1];
	bool compressed = m->cpu_depth && m->cpu_stack[m->cpu_top] == to;

	m->changed_return |= m->cpu_depth && !compressed;
	m->depth -= m->depth > 0;
	if (m->cpu_depth) {
		m->cpu_depth--;
		m->cpu_top = (m->cpu_top + CPU_STACK - 1) % CPU_STACK;
	}
	if (compressed)
		put_bit(m, true);
	else
		put_ip(m, 0x0d, to);
	take_edge(m, FLOW_RETURN, from, to);
}

static void stop_and_go(struct machine *m, uint64_t at)
{
	put_byte(m, 0x01); /* TIP.PGD */
	take_edge(m, FLOW_END, at, 0);
	put(m, "\x99\x01", 2);
	put_ip(m, 0x11, m->ip);
	take_edge(m, FLOW_BEGIN, 0, m->ip);
}

/* Runs the branch of the slot that ip is in. */
static void run_slot(struct machine *m)
{
	unsigned n = (unsigned)((m->ip - m->base) / SLOT_BYTES);
	struct slot *s = &m->slots[n];
	uint64_t at = slot_ip(m, n) + s->offset, target = slot_ip(m, s->target);

	if (s->kind == NOTHING || m->ip > at) {
		m->ip = slot_ip(m, n) + SLOT_BYTES; /* behind the branch: on to the next slot */
		return;
	}
	switch (s->kind) {
	case COND:
		if (choice(m) & 1) {
			put_bit(m, true);
			take_edge(m, FLOW_BRANCH, at, target);
		} else {
			put_bit(m, false);
			m->ip = at + 6;
		}
		break;
	case JUMP: take_edge(m, FLOW_BRANCH, at, target); break;
	case CALL:
		push(m, at + 5);
		take_edge(m, FLOW_CALL, at, target);
		break;
	case RETURN: return_to(m, at); break;
	case CALL_INDIRECT:
		target = slot_ip(m, choice(m));
		push(m, at + 2);
		put_ip(m, 0x0d, target);
		take_edge(m, FLOW_CALL, at, target);
		break;
	case JUMP_INDIRECT:
		target = slot_ip(m, choice(m));
		put_ip(m, 0x0d, target);
		take_edge(m, FLOW_BRANCH, at, target);
		break;
	default: /* SYSCALL */
		flush_tnt(m);
		m->ip = at + 2;
		stop_and_go(m, at);
		break;
	}
}

/* Turns a jump into nothing, or back, as the kernel does with its static keys: while it is
 * interrupted. */
static void poke(struct machine *m)
{
	unsigned n = choice(m) % SLOTS;
	struct slot *s = &m->slots[n];
	uint8_t *code = m->code + n * SLOT_BYTES + s->offset;

	if (m->base != FLOW_FIXTURE_KERNEL || m->poke_count == POKES_MAX ||
	    (s->kind != JUMP && s->kind != NOTHING))
		return;
	struct text_poke *p = &m->pokes[m->poke_count];
	uint8_t(*bytes)[POKE_BYTES] = m->poked[m->poke_count++];
	put_ip(m, 0x1d, m->ip); /* FUP */
	put_byte(m, 0x01);
	take_edge(m, FLOW_END, m->ip, 0);
	memcpy(bytes[0], code, POKE_BYTES);
	s->kind = s->kind == JUMP ? NOTHING : JUMP;
	memset(code, 0x90, POKE_BYTES);
	assemble(m, n);
	memcpy(bytes[1], code, POKE_BYTES);
	*p = (struct text_poke){.time_ns = m->tsc,
				.ip = slot_ip(m, n) + s->offset,
				.bytes = bytes[1],
				.old_bytes = bytes[0],
				.count = POKE_BYTES,
				.old_count = POKE_BYTES};
	put_byte(m, 0x19);
	put(m, &m->tsc, 7);
	m->tsc += 1000;
	put(m, "\x99\x01", 2);
	put_ip(m, 0x11, m->ip);
	take_edge(m, FLOW_BEGIN, 0, m->ip);
}

static void run(struct machine *m)
{
	bool is_old_file = choice(m) & 1;

	if (is_old_file)
		memcpy(m->file, m->code, sizeof m->code);
	put_psb(m);
	while (m->choices < m->end) {
		uint8_t what = choice(m);

		if (what == 0) {
			put_psb(m);
		} else if (what == 1) {
			put_ip(m, 0x1d, m->ip); /* FUP */
			stop_and_go(m, m->ip);
		} else if (what == 2) {
			poke(m);
		}
		run_slot(m);
	}
	if (!is_old_file)
		memcpy(m->file, m->code, sizeof m->code);
	put_ip(m, 0x1d, m->ip);
	put_byte(m, 0x01);
	take_edge(m, FLOW_END, m->ip, 0);
}

/* ---- comparison ---- */

struct comparison {
	const struct machine *machine;
	struct graph_tables tables;
	size_t next;
};

static void compare(void *context, const struct flow_event *events, size_t count)
{
	struct comparison *c = context;

	for (size_t i = 0; i < count; i++) {
		const struct flow_event *e = &events[i];
		const struct edge *expected = &c->machine->edges.items[c->next];
		uint64_t from = c->tables.cold[e->from].branch_ip;
		uint8_t kind = e->kind == FLOW_JUMP ? FLOW_BRANCH : e->kind;

		if (kind == FLOW_TASK || kind == FLOW_SYNC || kind == FLOW_STEP)
			continue;
		if (kind == FLOW_END && e->cause == FLOW_END_ASYNC)
			from = c->tables.hot[e->from].ip;
		if (c->next >= c->machine->edges.count || kind != expected->kind ||
		    (from != expected->from && kind != FLOW_BEGIN) ||
		    c->tables.hot[e->to].ip != expected->to) {
			fprintf(stderr, "edge %zu of %zu: kind %u %lx-%lx, expected %u %lx-%lx\n",
				c->next, c->machine->edges.count, kind, (unsigned long)from,
				(unsigned long)c->tables.hot[e->to].ip, expected->kind,
				(unsigned long)expected->from, (unsigned long)expected->to);
			abort();
		}
		c->next++;
	}
}

static void decode(struct flow_fixture *f, const struct machine *m, const struct pieces *pieces,
		   bool by_libipt)
{
	struct comparison c = {.machine = m, .tables = graph_tables(f->graph)};
	struct flow_sink sink = {.events = compare, .context = &c};
	struct flow_libipt *libipt = NULL;
	struct flow *flow = NULL;

	check((by_libipt ? flow_libipt_new(f->graph, &f->sideband, FLOW_ALL_BRANCHES, &libipt, NULL)
			 : flow_new(f->graph, &f->sideband, FLOW_ALL_BRANCHES, &flow, NULL)) ==
	      ERR_NONE);
	for (size_t i = 0; i < pieces->items.count; i++) {
		const struct flow_piece *piece = &pieces->items.items[i];

		check((by_libipt ? flow_libipt_decode(libipt, piece, sink)
				 : flow_decode(flow, piece, sink)) == ERR_NONE);
	}
	check(c.next == m->edges.count);
	flow_free(flow);
	flow_libipt_free(libipt);
}

/* The graph looks at them when it begins. */
static void add_pokes(struct flow_fixture *f, const struct machine *m)
{
	struct sideband *s = &f->sideband;

	graph_free(f->graph);
	for (size_t i = 0; i < m->poke_count; i++)
		check(vec_push(&s->text_pokes, m->pokes[i]));
	check(graph_new(s, f->symbolizer, GRAPH_SPLIT_JUMPS | GRAPH_NO_INLINE, &f->graph, NULL) ==
	      ERR_NONE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct machine *m = calloc(1, sizeof *m);
	struct flow_fixture fixture;
	struct pieces pieces = {0};
	struct aux_buffer buffer = {.cpu = -1, .task = {1}};

	if (!m || size < 2 * SLOTS) {
		free(m);
		return 0;
	}
	m->choices = data + 2 * SLOTS;
	m->end = data + size;
	load_program(m, data);
	run(m);
	flow_fixture_init(&fixture, m->file, sizeof m->file, GRAPH_SPLIT_JUMPS | GRAPH_NO_INLINE);
	add_pokes(&fixture, m);
	struct aux_extent extent = {.data = m->trace.items, .bytes = m->trace.count};
	check(vec_push(&buffer.extents, extent));
	check(pieces_find(&fixture.sideband, &buffer, &pieces) == ERR_NONE);
	decode(&fixture, m, &pieces, false);
	if (!m->changed_return)
		decode(&fixture, m, &pieces, true);
	pieces_done(&pieces);
	vec_done(&buffer.extents);
	vec_done(&fixture.sideband.text_pokes);
	flow_fixture_done(&fixture);
	vec_done(&m->edges);
	vec_done(&m->trace);
	free(m);
	return 0;
}

uint8_t *fuzz_seed(unsigned n, size_t *size)
{
	uint64_t random = n + 1;

	if (n >= 16)
		return NULL;
	*size = 2 * SLOTS + 200 * (n + 1);
	uint8_t *seed = malloc(*size);
	for (size_t i = 0; seed && i < *size; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		seed[i] = (uint8_t)(random >> 56);
	}
	return seed;
}
