/* Damaged packets over real code, by our engine and by the packet dump's parser. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fuzz/driver.h"
#include "decode/flow.h"
#include "decode/packet.h"
#include "decode/piece.h"
#include "decode/tests/flow_fixture.h"

/* call f; jne .; call *%rax; jmp *%rax; ret; f: xbegin; ptwrite; ret; syscall; iretq; jmp . */
static const uint8_t code[] = {
	0xe8, 0x1b, 0x00, 0x00, 0x00, 0x75, 0xf9, 0xff, 0xd0, 0xff, 0xe0, 0xc3, 0x90, 0x90,
	0x90, 0x90, 0xc7, 0xf8, 0x0a, 0x00, 0x00, 0x00, 0xf3, 0x48, 0x0f, 0xae, 0xe0, 0x0f,
	0x01, 0xd5, 0xc3, 0x90, 0x74, 0xee, 0x0f, 0x05, 0xeb, 0xe8, 0x48, 0xcf, 0xeb, 0xfe,
	0xcc, 0xe8, 0x00, 0x00, 0x00, 0x00, 0xe9, 0xcb, 0xff, 0xff, 0xff,
};

/* Over, inside and across each other, in time and out of it; code that came and went. */
#define POKE(ns, offset, before, after) \
	{ \
		.time_ns = (ns), .ip = FLOW_FIXTURE_KERNEL + (offset), \
		.bytes = (const uint8_t *)(after), .old_bytes = (const uint8_t *)(before), \
		.count = sizeof(after) - 1, .old_count = sizeof(before) - 1 \
	}
static const struct text_poke pokes[] = {
	POKE(1000, 0x05, "\x75\xf9", "\xeb\x19"),
	POKE(1010, 0x05, "\xeb\x19", "\x66\x90"),
	POKE(1005, 0x06, "\x19\xff\xd0", "\x90\x90\x90"),
	POKE(1001, 0x00, "\xe8\x1b\x00\x00\x00\x75", "\x0f\x1f\x44\x00\x00\xcc"),
	POKE(1002, 0x1f, "", "\xc3\xc3"),
	POKE(1003, 0x1f, "\xc3\xc3", ""),
	POKE(1000, 0x2a, "\xcc", "\xe8"),
	POKE(1000, 0x2a, "\xe8", "\xcc"),
	POKE(1, 0x100, "\x90", "\xe9\xfb\xfe\xff\xff"),
};

/* Times never go back, and nodes are nodes. */
struct check {
	uint64_t time_ns;
	uint32_t nodes;
	struct graph *graph;
};

static void take(void *context, const struct flow_event *events, size_t count)
{
	struct check *c = context;

	c->nodes = graph_node_count(c->graph);
	for (size_t i = 0; i < count; i++) {
		if (events[i].time_ns < c->time_ns || events[i].from >= c->nodes ||
		    events[i].to >= c->nodes || events[i].kind >= FLOW_KIND_COUNT)
			abort();
		c->time_ns = events[i].time_ns;
	}
}

static void start(struct flow_fixture *f)
{
	flow_fixture_init(f, code, sizeof code, 0);
	unlink(f->path); /* it stays mapped */
	graph_free(f->graph);
	for (size_t i = 0; i < sizeof pokes / sizeof *pokes; i++)
		if (!vec_push(&f->sideband.text_pokes, pokes[i]))
			abort();
	if (graph_new(&f->sideband, f->symbolizer, 0, &f->graph, NULL) != ERR_NONE)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct flow_fixture fixture;
	struct flow *flow;
	struct pieces pieces = {0};
	struct aux_buffer buffer = {.cpu = -1, .task = {1}};
	struct aux_extent extent = {.data = data, .bytes = size};
	struct aux_cut cut = {
		.stream_off = size / 2, .time_ns = TIME_NONE, .cause = LOSS_AUX_TRUNCATED};

	if (!fixture.graph)
		start(&fixture);
	if (!vec_push(&buffer.extents, extent) || (size & 1 && !vec_push(&buffer.cuts, cut)) ||
	    pieces_find(&fixture.sideband, &buffer, &pieces) != ERR_NONE ||
	    flow_new(fixture.graph, &fixture.sideband, size & 2 ? FLOW_ALL_BRANCHES : 0, &flow,
		     NULL) != ERR_NONE)
		abort();
	for (size_t i = 0; i < pieces.items.count; i++) {
		struct check check = {.graph = fixture.graph};

		if (flow_decode(flow, &pieces.items.items[i],
				(struct flow_sink){.events = take, .context = &check}) != ERR_NONE)
			abort();
	}
	flow_free(flow);
	pieces_done(&pieces);
	vec_done(&buffer.extents);
	vec_done(&buffer.cuts);
	return 0;
}

static const uint8_t psb[] = {
	0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
	0x02, 0x82, 0x02, 0x82, 0x19, 0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x02, 0x73, 0x34, 0x12, 0x00, 0x45, 0x01, 0x02, 0x03, 0x15, 0x00, 0x99,
	0x01, 0x7d, 0x00, 0x10, 0x40, 0x00, 0x00, 0x00, 0x02, 0x23,
};
static const uint8_t bodies[][40] = {
	/* in the kernel: interrupts, TIPs and bits on both sides of the pokes */
	{0x6d, 0x00, 0x10, 0x00, 0x81, 0xff, 0xff, 0x16, 0x3d, 0x05, 0x10, 0x2d, 0x1f, 0x10,
	 0x19, 0xea, 0x03, 0,    0,    0,    0,    0,    0x2d, 0x00, 0x10, 0x1e, 0x2d, 0x05,
	 0x10, 0x19, 0xf4, 0x03, 0,    0,    0,    0,    0,    0x0e, 0x2d, 0x2a},
	{0xda, 0x6d, 0x00, 0x10, 0x40, 0,    0,    0,    0x1e, 0x3b, 0x2d,
	 0x20, 0x10, 0x59, 0x20, 0x7d, 0x20, 0x10, 0x40, 0,    0,    0,
	 0x01, 0x71, 0x00, 0x10, 0x40, 0,    0,    0,    0x06},
	{0x02, 0xf3, 0x7d, 0x10, 0x10, 0x40, 0,    0,    0,    0x99, 0x21,
	 0x3d, 0x16, 0x10, 0x02, 0x92, 1,    2,    3,    4,    0x3d, 0x16,
	 0x10, 0x99, 0x22, 0x3d, 0x1b, 0x10, 0x2d, 0x00, 0x10, 0x0e},
	{0x02, 0xa3, 0xff, 0xff, 0x07, 0,    0,    0,    0x02, 0x63, 0x01, 0x0c,
	 1,    2,    3,    4,    5,    6,    7,    8,    0x02, 0xb3, 0x3d, 0x05,
	 0x10, 0x02, 0x13, 0x81, 0x0e, 0x3d, 0x05, 0x10, 0x02, 0x83},
};

uint8_t *fuzz_seed(unsigned n, size_t *size)
{
	enum { BODIES = sizeof bodies / sizeof *bodies };

	if (n >= BODIES)
		return NULL;
	*size = 2 * (sizeof psb + sizeof bodies[n]) + n % 2;
	uint8_t *seed = calloc(1, *size);
	if (!seed)
		return NULL;
	for (size_t i = 0; i < 2; i++) {
		uint8_t *at = seed + i * (sizeof psb + sizeof bodies[n]);

		memcpy(at, psb, sizeof psb);
		memcpy(at + sizeof psb, bodies[(n + i) % BODIES], sizeof bodies[n]);
	}
	return seed;
}
