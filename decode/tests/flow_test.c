/* What the flow decoder makes of packets that recorded traces hardly hold. The code is an ELF
 * file of a few instructions, made here; the packets are hex; the events are read as text. */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/flow.h"
#include "decode/tests/flow_fixture.h"

#define BASE   FLOW_FIXTURE_BASE
#define KERNEL FLOW_FIXTURE_KERNEL

/* Offsets are from BASE. The same bytes are mapped at KERNEL. */
static const struct {
	unsigned offset;
	const char *hex;
} code[] = {
	{0x00, "e81b000000"},   /* call 20 */
	{0x05, "7409"},         /* je 10 */
	{0x07, "ffd0"},         /* call *%rax */
	{0x09, "ffe0"},         /* jmp *%rax */
	{0x0b, "0f05"},         /* syscall */
	{0x0d, "c3"},           /* ret */
	{0x10, "ebee"},         /* jmp 0 */
	{0x20, "90"},           /* nop */
	{0x21, "7502"},         /* jne 25 */
	{0x23, "c3"},           /* ret */
	{0x25, "e8f6ffffff"},   /* call 20 */
	{0x2a, "c3"},           /* ret */
	{0x30, "c7f806000000"}, /* xbegin 3c */
	{0x36, "90"},           /* nop */
	{0x37, "0f01d5"},       /* xend */
	{0x3a, "eb00"},         /* jmp 3c */
	{0x3c, "c3"},           /* ret */
	{0x40, "f3480faee0"},   /* ptwrite %rax */
	{0x45, "90"},           /* nop */
	{0x46, "c3"},           /* ret */
	{0x50, "ebfe"},         /* jmp 50 */
	{0x60, "90"},           /* nop */
	{0x61, "48cf"},         /* iretq */
	{0x68, "06"},           /* push %es: none in 64-bit mode */
	{0x70, "e88affffff"},   /* call BASE - 1: no code */
	{0x75, "c3"},           /* ret */
};

enum { CODE_BYTES = 0x100 };

#define PSB       "02820282028202820282028202820282"
#define PSBEND    "0223"
#define TSC(b)    "19" b "0000000000" /* b: two bytes */
#define FUP(b)    "7d" b "1040000000" /* b: the lowest byte of an ip at BASE */
#define TIP(b)    "6d" b "1040000000"
#define PGE(b)    "71" b "1040000000"
#define PGD_IP(b) "61" b "1040000000"
#define PGD       "01"
#define TIP_KERNEL(b) \
	"6d" b "10" \
	"0081ffff"
#define START(b) PSB TSC("e803") FUP(b) PSBEND

struct flow_case {
	const char *name, *packets;
	unsigned next_sync; /* offset, 0 = none */
	const char *expected;
};

static const struct flow_case cases[] = {
	{"call, compressed return, branches", START("00") "0c" /* TN: jne, ret of recursion... */,
	 0, "task 1; sync 0; call 0-20; branch 21-25; call 25-20; "},
	{"a return without its TNT bit pops too", START("00") "04" TIP("05") "06", 0,
	 "task 1; sync 0; call 0-20; return! 23-5; branch 5-10; "},
	{"indirect call and jump",
	 START("05") "04" TIP("20") "04"
				    "06" TIP("0d"),
	 0, "task 1; sync 5; call 7-20; return 23-9; branch 9-d; "},
	{"deferred TIP: the bits of younger branches come first",
	 START("05") "12" /* NNT */ TIP("20"), 0, "task 1; sync 5; call 7-20; return 23-9; "},
	{"to the start of the next piece without packets", START("05") "06", 0x20,
	 "task 1; sync 5; branch 5-10; branch 10-0; call 0-20; "},
	{"not to the start of the next piece", START("05") "06", 0x23,
	 "task 1; sync 5; branch 5-10; branch 10-0; call 0-20; "
	 "gap trace and code disagree at 20; "},
	{"syscall, off and on", START("0b") PGD PGE("0d"), 0,
	 "task 1; sync b; end syscall b; begin d; "},
	{"interrupted in front of a call", START("00") FUP("00") PGD PGE("00") FUP("20") PGD, 0,
	 "task 1; sync 0; end async 0; begin 0; call 0-20; end async 20; "},
	{"interrupted inside a line", START("20") FUP("21") PGD PGE("21") "04", 0,
	 "task 1; sync 20; end async 21; begin 21; "},
	{"interrupt into the kernel and back",
	 START("20") FUP("21") TIP_KERNEL("60") TIP("21") "04", 0,
	 "task 1; sync 20; interrupt 21-k60; exit k61-21; "},
	{"a FUP in a PSB+ in front of a TIP.PGE starts nothing", START("00") PGE("00") "06", 0,
	 "task 1; begin 0; call 0-20; branch 21-25; "},
	{"overflow, resumed by FUP; returns behind it are not compressed",
	 START("00") "02f3" FUP("23") TIP("05"), 0,
	 "task 1; sync 0; gap overflow at 0; resume 23; return! 23-5; "},
	{"overflow, resumed by TIP.PGE", START("00") "02f3" PGE("23") TIP("05"), 0,
	 "task 1; sync 0; gap overflow at 0; resume 23; return! 23-5; "},
	{"overflow inside PSB+", PSB TSC("e803") "02f3" FUP("05") "06", 0,
	 "task 1; gap overflow; resume 5; branch 5-10; "},
	{"transaction", START("30") "9921" FUP("36") "9920" FUP("3a") TIP("05"), 0,
	 "task 1; sync 30; tx begin 36; tx commit 3a; branch 3a-3c; return! 3c-5; "},
	{"transaction aborted", START("30") "9921" FUP("36") "9922" FUP("37") TIP("3c"), 0,
	 "task 1; sync 30; tx begin 36; tx abort 37-3c; "},
	{"PTWRITE with ip", START("40") "029278563412" FUP("40") TIP("05"), 0,
	 "task 1; sync 40; ptwrite 40 12345678; return! 46-5; "},
	{"PTWRITE without ip", START("40") "021278563412", 0,
	 "task 1; sync 40; ptwrite 40 12345678; "},
	{"a branch out of the filter, with its target", START("05") PGD_IP("10") PGE("00"), 0,
	 "task 1; sync 5; end branch 5; begin 0; "},
	{"TraceStop", START("05") "0283" PGE("00"), 0, "task 1; sync 5; end branch 5; begin 0; "},
	{"code is missing: one gap, then the next TIP",
	 START("70") "02a3ffffffffffff" TIP("75") TIP("05"), 0,
	 "task 1; sync 70; call 70-fff; gap missing code at fff; resume 75; return! 75-5; "},
	{"code is missing up to the end: for as long as times follow",
	 START("70") "06" TSC("d007") TSC("b80b"), 0,
	 "task 1; sync 70; call 70-fff; gap missing code at fff; still lost; "},
	{"bytes that are no instruction", START("68") "06", 0,
	 "task 1; sync 68; gap trace and code disagree at 68; "},
	{"a bit where a TIP is needed",
	 START("07") "04"
		     "04",
	 0, "task 1; sync 7; gap trace and code disagree at 7; "},
	{"a TIP where a bit is needed", START("05") TIP("20"), 0,
	 "task 1; sync 5; gap trace and code disagree at 5; resume 20; "},
	{"bytes that are no packet",
	 START("05") "06"
		     "05ffff"
		     "06",
	 0, "task 1; sync 5; branch 5-10; gap bad packet at 10; "},
	{"a packet cut short at the end",
	 START("05") "06"
		     "6d00",
	 0, "task 1; sync 5; branch 5-10; "},
	{"interrupted in an endless loop", START("50") FUP("50") PGD, 0,
	 "task 1; sync 50; end async 50; "},
	{"bits behind an interrupt without TIP.PGE", START("20") FUP("21") PGD "06", 0,
	 "task 1; sync 20; end async 21; branch 21-25; "},
	{"no PSB", "06", 0, "task 1; gap bad packet; "},
	{"32-bit code", PSB TSC("e803") "9902" FUP("68") PSBEND FUP("69") PGD, 0,
	 "task 1; sync 68; end async 69; "},
};

static size_t from_hex(const char *hex, uint8_t *bytes)
{
	size_t count = strlen(hex) / 2;

	for (size_t i = 0; i < count; i++) {
		unsigned value;
		cr_assert_eq(sscanf(hex + 2 * i, "%2x", &value), 1);
		bytes[i] = (uint8_t)value;
	}
	return count;
}

struct fixture {
	struct flow_fixture base;
	struct flow *flow;
	char text[4096];
	size_t length;
};

static void fixture_init(struct fixture *f)
{
	uint8_t bytes[CODE_BYTES];

	*f = (struct fixture){0};
	memset(bytes, 0x90, sizeof bytes);
	for (size_t i = 0; i < sizeof code / sizeof *code; i++)
		from_hex(code[i].hex, bytes + code[i].offset);
	flow_fixture_init(&f->base, bytes, sizeof bytes, GRAPH_SPLIT_JUMPS | GRAPH_NO_INLINE);
	cr_assert_eq(flow_new(f->base.graph, &f->base.sideband, FLOW_ALL_BRANCHES, &f->flow, NULL),
		     ERR_NONE);
}

static void fixture_done(struct fixture *f)
{
	flow_free(f->flow);
	flow_fixture_done(&f->base);
}

static void put(struct fixture *f, const char *format, ...) PRINTF_LIKE(2, 3);
static void put(struct fixture *f, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	f->length +=
		(size_t)vsnprintf(f->text + f->length, sizeof f->text - f->length, format, args);
	va_end(args);
	cr_assert_lt(f->length, sizeof f->text);
}

/* An ip as an offset: from BASE, or "k" and from KERNEL. */
static const char *place(uint64_t ip)
{
	static char texts[4][32];
	static unsigned next;
	char *text = texts[next++ % 4];

	if (ip_is_kernel(ip))
		sprintf(text, "k%" PRIx64, ip - KERNEL);
	else
		sprintf(text, "%" PRIx64, (ip - BASE) & 0xfff);
	return text;
}

static void put_event(struct fixture *f, const struct flow_event *e)
{
	static const char *const names[FLOW_KIND_COUNT] = {
		[FLOW_CALL] = "call",           [FLOW_RETURN] = "return",
		[FLOW_JUMP] = "jump",           [FLOW_BRANCH] = "branch",
		[FLOW_ENTRY] = "entry",         [FLOW_INTERRUPT] = "interrupt",
		[FLOW_EXIT] = "exit",           [FLOW_TX_ABORT] = "tx abort",
		[FLOW_SYNC] = "sync",           [FLOW_BEGIN] = "begin",
		[FLOW_RESUME] = "resume",       [FLOW_TX_BEGIN] = "tx begin",
		[FLOW_TX_COMMIT] = "tx commit",
	};
	static const char *const ends[] = {"syscall", "async", "branch"};
	struct graph_tables t = graph_tables(f->base.graph);
	uint64_t from =
		e->kind == FLOW_INTERRUPT || e->kind == FLOW_TX_ABORT || e->cause == FLOW_END_ASYNC
			? t.hot[e->from].ip
			: t.cold[e->from].branch_ip;

	switch (e->kind) {
	case FLOW_TASK: put(f, "task %u; ", e->data); return;
	case FLOW_END: put(f, "end %s %s; ", ends[e->cause], place(from)); return;
	case FLOW_GAP:
		put(f, "gap %s", loss_name(e->cause));
		if (e->from)
			put(f, " at %s", place(t.hot[e->from].ip));
		put(f, "; ");
		return;
	case FLOW_PTWRITE:
		put(f, "ptwrite %s %" PRIx64 "; ", place(t.hot[e->from].ip),
		    flow_payloads(f->flow)[e->data]);
		return;
	case FLOW_STILL_LOST: put(f, "still lost; "); return;
	case FLOW_STEP: return;
	}
	cr_assert_not_null(names[e->kind], "event %d", e->kind);
	if (!e->from)
		put(f, "%s %s; ", names[e->kind], place(t.hot[e->to].ip));
	else
		put(f, "%s%s %s-%s; ", names[e->kind], e->flags & FLOW_UNCOMPRESSED ? "!" : "",
		    place(from), place(t.hot[e->to].ip));
}

static void take(void *context, const struct flow_event *events, size_t count)
{
	for (size_t i = 0; i < count; i++)
		put_event(context, &events[i]);
}

static void run(const struct flow_case *c)
{
	struct fixture f;
	uint8_t bytes[512];
	struct aux_buffer buffer = {.cpu = -1, .task = {1}};
	struct flow_piece piece = {.bytes = bytes,
				   .count = from_hex(c->packets, bytes),
				   .buffer = &buffer,
				   .next_sync_ip = c->next_sync ? BASE + c->next_sync : 0,
				   .start_time_ns = TIME_NONE,
				   .next_time_ns = TIME_NONE};

	fixture_init(&f);
	cr_assert_eq(flow_decode(f.flow, &piece, (struct flow_sink){.events = take, .context = &f}),
		     ERR_NONE);
	cr_expect_str_eq(f.text, c->expected, "%s:\n  expected %s\n  got      %s", c->name,
			 c->expected, f.text);
	fixture_done(&f);
}

struct taken {
	VEC(struct flow_event) all;
	size_t batches;
};

static void keep(void *context, const struct flow_event *events, size_t count)
{
	struct taken *t = context;

	cr_assert(vec_reserve(&t->all, t->all.count + count));
	memcpy(t->all.items + t->all.count, events, count * sizeof *events);
	t->all.count += count;
	t->batches++;
}

/* Leaves an array that is larger than what the flow would make itself. */
static bool keep_array(void *context, struct flow_event **events, size_t *capacity, size_t count,
		       size_t need)
{
	keep(context, *events, count);
	free(*events);
	*capacity = need + ((size_t)3 << 20);
	*events = malloc(*capacity * sizeof **events);
	cr_assert_not_null(*events);
	return true;
}

/* More events without a time than are kept waiting for one. */
Test(flow, events_do_not_depend_on_whose_array_they_are_in)
{
	enum { CALLS = 4 << 20, BYTES = CALLS / 6 + 256 };
	struct fixture f;
	struct taken copied = {0}, taken = {0};
	uint8_t *bytes = malloc(BYTES);
	size_t count = 0;

	cr_assert_not_null(bytes);
	count += from_hex(START("00"), bytes);
	for (; count < CALLS / 6; count++)
		bytes[count] = 0xfe; /* six times: jne 25, call 20 */
	count += from_hex(TSC("a00f") "fe", bytes + count);
	struct aux_buffer buffer = {.cpu = -1, .task = {1}};
	struct flow_piece piece = {.bytes = bytes,
				   .count = count,
				   .buffer = &buffer,
				   .start_time_ns = TIME_NONE,
				   .next_time_ns = TIME_NONE};
	fixture_init(&f);
	cr_assert_eq(flow_decode(f.flow, &piece, (struct flow_sink){keep, &copied, NULL}),
		     ERR_NONE);
	cr_assert_eq(flow_decode(f.flow, &piece, (struct flow_sink){keep, &taken, keep_array}),
		     ERR_NONE);
	cr_expect_gt(copied.batches, 3);
	cr_expect_eq(copied.batches, taken.batches);
	cr_assert_eq(copied.all.count, taken.all.count);
	for (size_t i = 0; i < copied.all.count; i++)
		cr_assert_eq(
			memcmp(&copied.all.items[i], &taken.all.items[i], sizeof *copied.all.items),
			0, "%zu", i);
	vec_done(&copied.all);
	vec_done(&taken.all);
	free(bytes);
	fixture_done(&f);
}

/* Task 1 runs on a CPU from 500 on, task 2 from 3000 on. */
static void run_on_cpu(const char *packets, bool kernel, const char *expected)
{
	struct fixture f;
	uint8_t bytes[128];
	struct aux_buffer buffer = {.cpu = 0, .last_switch = 2};
	struct flow_piece piece = {.bytes = bytes,
				   .count = from_hex(packets, bytes),
				   .buffer = &buffer,
				   .start_time_ns = TIME_NONE,
				   .next_time_ns = TIME_NONE};

	fixture_init(&f);
	struct sideband *s = &f.base.sideband;
	struct task other = {.pid = 1, .tid = 2};
	struct cpu_switch switches[] = {{.time_ns = 500, .task = {1}},
					{.time_ns = 3000, .task = {2}}};
	cr_assert(vec_push(&s->tasks, other));
	cr_assert(vec_push(&s->cpu_switches, switches[0]) &&
		  vec_push(&s->cpu_switches, switches[1]));
	s->config.kernel = kernel;
	cr_assert_eq(flow_decode(f.flow, &piece, (struct flow_sink){.events = take, .context = &f}),
		     ERR_NONE);
	cr_expect_str_eq(f.text, expected, "%s", f.text);
	vec_done(&s->cpu_switches);
	fixture_done(&f);
}

/* With the kernel traced a switch counts in kernel code, from the next time on. */
Test(flow, task_of_a_cpu)
{
	run_on_cpu(PSB TSC("e803") "7d"
				   "60100081ffff" PSBEND TSC("a00f") TIP("20") "04" TIP("05"),
		   true, "task 1; sync k60; task 2; exit k61-20; return! 23-5; ");
}

/* Another task came to the CPU while its trace was lost: no TIP.PGE tells. */
Test(flow, task_behind_an_overflow)
{
	run_on_cpu(START("00") "02f3" TSC("a00f") FUP("23") TIP("05"), false,
		   "task 1; sync 0; gap overflow at 0; task 2; resume 23; return! 23-5; ");
}

#define PADS "00000000000000000000000000000000"

static void keep_mode(void *context, const struct flow_event *events, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (events[i].kind == FLOW_CALL)
			*(node_id *)context = events[i].to;
}

/* The target of a TIP is remembered in the node that the pieces share; it may be of another mode
 * in each. */
Test(flow, targets_of_either_mode)
{
	static const struct {
		const char *packets;
		enum insn_mode mode;
	} pieces[] = {
		{START("05") "04" TIP("20") PADS, INSN_64},
		{START("05") "04"
			     "9902" TIP("20") PADS,
		 INSN_32}, /* MODE.Exec */
		{START("05") "04" TIP("20") PADS, INSN_64},
	};
	struct aux_buffer buffer = {.cpu = -1, .task = {1}};
	struct fixture f;

	fixture_init(&f);
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		uint8_t bytes[64];
		struct flow_piece piece = {.bytes = bytes,
					   .count = from_hex(pieces[i].packets, bytes),
					   .buffer = &buffer,
					   .start_time_ns = TIME_NONE,
					   .next_time_ns = TIME_NONE};
		node_id to = 0;

		cr_assert_eq(flow_decode(f.flow, &piece,
					 (struct flow_sink){.events = keep_mode, .context = &to}),
			     ERR_NONE);
		cr_assert_neq(to, 0);
		cr_expect_eq(graph_tables(f.base.graph).cold[to].mode, pieces[i].mode, "%zu", i);
	}
	fixture_done(&f);
}

/* With DisRETC a return has its TIP: a bit for it tells that bytes are missing. */
Test(flow, no_return_compression)
{
	struct fixture f;
	uint8_t bytes[64];
	struct aux_buffer buffer = {.cpu = -1, .task = {1}};
	struct flow_piece piece = {.bytes = bytes,
				   .count = from_hex(START("05") "04" TIP("20") "04"
										"06",
						     bytes),
				   .buffer = &buffer,
				   .start_time_ns = TIME_NONE,
				   .next_time_ns = TIME_NONE};

	fixture_init(&f);
	flow_free(f.flow);
	f.base.sideband.config.no_return_compression = true;
	cr_assert_eq(flow_new(f.base.graph, &f.base.sideband, FLOW_ALL_BRANCHES, &f.flow, NULL),
		     ERR_NONE);
	cr_assert_eq(flow_decode(f.flow, &piece, (struct flow_sink){.events = take, .context = &f}),
		     ERR_NONE);
	cr_expect_str_eq(f.text, "task 1; sync 5; call 7-20; gap trace and code disagree at 23; ",
			 "%s", f.text);
	fixture_done(&f);
}

/* The AUX buffer was full twice between two PSBs. */
Test(flow, cuts_inside_a_piece)
{
	struct fixture f;
	uint8_t bytes[128];
	struct aux_cut cuts[] = {{.cause = LOSS_AUX_TRUNCATED}, {.cause = LOSS_AUX_TRUNCATED}};
	struct aux_buffer buffer = {.cpu = -1, .task = {1}};
	struct flow_piece piece = {
		.bytes = bytes,
		.count = from_hex(START("05") "06" PGE("20") "06" PGE("0b") PGD, bytes),
		.buffer = &buffer,
		.end_cut = 2,
		.start_time_ns = TIME_NONE,
		.next_time_ns = TIME_NONE};

	cuts[0].stream_off = strlen(START("05") "06") / 2;
	cuts[1].stream_off = cuts[0].stream_off + strlen(PGE("20") "06") / 2;
	fixture_init(&f);
	cr_assert(vec_push(&buffer.cuts, cuts[0]) && vec_push(&buffer.cuts, cuts[1]));
	cr_assert_eq(flow_decode(f.flow, &piece, (struct flow_sink){.events = take, .context = &f}),
		     ERR_NONE);
	cr_expect_str_eq(f.text,
			 "task 1; sync 5; branch 5-10; gap aux truncated at 10; resume 20; "
			 "branch 21-25; gap aux truncated at 25; resume b; end syscall b; ",
			 "%s", f.text);
	vec_done(&buffer.cuts);
	fixture_done(&f);
}

static void last_of(void *context, const struct flow_event *events, size_t count)
{
	struct flow_event *last = context;

	last->data += (uint32_t)count;
	last->kind = events[count - 1].kind;
}

Test(flow, a_loop_without_packets_ends)
{
	struct fixture f;
	uint8_t bytes[64];
	struct aux_buffer buffer = {.cpu = -1, .task = {1}};
	struct flow_piece piece = {.bytes = bytes,
				   .count = from_hex(START("50") "06", bytes),
				   .buffer = &buffer,
				   .start_time_ns = TIME_NONE,
				   .next_time_ns = TIME_NONE};
	struct flow_event last = {0};

	fixture_init(&f);
	cr_assert_eq(flow_decode(f.flow, &piece,
				 (struct flow_sink){.events = last_of, .context = &last}),
		     ERR_NONE);
	cr_expect_eq(last.kind, FLOW_GAP);
	cr_expect_lt(last.data, 10000);
	fixture_done(&f);
}

static void time_of(void *context, const struct flow_event *events, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (events[i].kind == FLOW_RETURN)
			*(uint64_t *)context = events[i].time_ns;
}

#define CBR  "02030100" /* a cycle is a tick of the TSC */
#define TMA  "0273000000000000"
#define CYC3 "57ffff02" /* 2^15 cycles and more */

/* The time of the return, in a piece that begins at 1000. Damaged bytes look like times, too. */
static const struct time_case {
	const char *name, *packets;
	bool has_cyc;
	uint64_t next_ns; /* of the next piece */
	uint64_t expected_ns;
} times[] = {
	{"a CYC counts up to the packet behind it", START("20") "0453" TIP("05") "f306" TSC("d007"),
	 true, TIME_NONE, 1250},
	{"also if it has a second byte", START("20") "045700" TIP("05") "f70006" TSC("d007"), true,
	 TIME_NONE, 1250},
	{"no CYC where none is enabled", START("20") "0453" TIP("05") "f306" TSC("d007"), false,
	 TIME_NONE, 1750},
	{"nor at the end of the piece", START("20") CBR "0453" TIP("05") CYC3 "06", false,
	 TIME_NONE, 1000},
	{"cycles that end far behind the next piece's first time",
	 START("20") CBR "04" TIP("05") "06" CYC3 "04", true, 2000, 1000},
	{"an MTC behind the next piece's first time",
	 PSB TSC("e803") TMA FUP("20") PSBEND "04" TIP("05") "06"
							     "59ff",
	 false, 2000, 1000},
	{"an MTC that does not follow the one before",
	 PSB TSC("e803") TMA FUP("20") PSBEND "590104" TIP("05") "06"
								 "59400659025903",
	 false, TIME_NONE, 1011},
	{"MTCs were lost: the next one follows this one",
	 PSB TSC("e803") TMA FUP("20") PSBEND "590104" TIP("05") "06"
								 "5940065941",
	 false, TIME_NONE, 1386},
	{"a clock that falls back goes on from where it was",
	 START("20") TSC("60ea") TSC("8813") "04" TIP("05") "06" TSC("7017"), false, TIME_NONE,
	 60750},
	{"and forward again",
	 START("20") TSC("60ea") TSC("8813") TSC("c8fa") "04" TIP("05") "06" TSC("b0fe"), false,
	 65500, 64950},
};

static void run_time(const struct time_case *c)
{
	struct fixture f;
	uint8_t bytes[128];
	struct aux_buffer buffer = {.cpu = -1, .task = {1}};
	struct flow_piece piece = {.bytes = bytes,
				   .count = from_hex(c->packets, bytes),
				   .buffer = &buffer,
				   .start_time_ns = 1000,
				   .next_time_ns = c->next_ns};
	uint64_t time_ns = 0;

	fixture_init(&f);
	struct sideband *s = &f.base.sideband;
	s->config.has_cyc = c->has_cyc;
	s->config.max_non_turbo_ratio = s->config.tsc_ctc_numerator =
		s->config.tsc_ctc_denominator = 1;
	s->config.mtc_period = 3;
	cr_assert_eq(flow_decode(f.flow, &piece,
				 (struct flow_sink){.events = time_of, .context = &time_ns}),
		     ERR_NONE);
	cr_expect_eq(time_ns, c->expected_ns, "%s: %" PRIu64, c->name, time_ns);
	fixture_done(&f);
}

Test(flow, times)
{
	for (size_t i = 0; i < sizeof times / sizeof *times; i++)
		run_time(&times[i]);
}

Test(flow, cases)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		run(&cases[i]);
}
