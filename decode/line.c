/* See line.h. Whether a line has poked bytes does not depend on the time at which it is read: up
 * to the first of them it is always the same. */
#include "decode/line.h"

#include <stdatomic.h>
#include <string.h>

enum {
	LINE_INSNS_MAX = 1024,   /* longer lines go on in another node */
	PRECEDING_POKES_MAX = 64 /* of the code before an ip, in which a call is looked for */
};

/* What the pokes of the kernel's code make of it. */
static void code_poke(const struct code_map *map, struct code *c, uint64_t time_ns)
{
	struct poked poked = pokes_at(&map->pokes, c->ip, time_ns);

	c->is_poked = poked.is_poked;
	c->from_ns = poked.from_ns;
	if (!c->module.v)
		c->vaddr = c->ip;
	if (poked.until_ns < c->until_ns)
		c->until_ns = poked.until_ns;
	if (poked.bytes) {
		c->bytes = poked.bytes;
		c->count = poked.count;
	} else if (c->count > poked.count) {
		c->count = poked.count;
	}
}

/* The mapping decides; memory that no file backs may still be known as JIT code. */
struct code code_at(const struct code_map *map, space_id in, uint64_t ip, uint64_t time_ns)
{
	struct code c = {.ip = ip, .until_ns = TIME_NONE};
	const struct space *space = NULL;
	const struct mapping *m = NULL;

	if (in.v && in.v < map->sideband->spaces.count) {
		space = &map->sideband->spaces.items[in.v];
		m = space_find(space, ip);
	}
	if (m && !(m->flags & MAPPING_ANONYMOUS)) {
		c.module = m->module;
		if (symbolizer_vaddr(map->symbolizer, m->module, m->start, m->file_off, ip,
				     &c.vaddr))
			c.count = symbolizer_code(map->symbolizer, m->module, c.vaddr, &c.bytes);
		if (c.count > m->end - ip)
			c.count = m->end - ip;
	}
	if (c.count == 0 && space) {
		module_id module;

		if (symbolizer_jit(map->symbolizer, space->pid, ip, time_ns, &module,
				   &c.until_ns)) {
			c.is_generated = true;
			c.module = module;
			c.vaddr = ip;
			c.count = symbolizer_code(map->symbolizer, module, ip, &c.bytes);
		}
	}
	if (m && !c.module.v)
		c.module = m->module;
	if (ip_is_kernel(ip))
		code_poke(map, &c, time_ns);
	return c;
}

/* A line under construction. */
struct line {
	const struct code_map *map;
	struct node *hot;
	struct node_cold *cold;
	uint64_t time_ns;
	struct code code; /* holds `ip` */
	uint64_t ip;      /* the next instruction */
	uint64_t func_start, func_end;
	bool switches_stacks;
	uint64_t inline_from, inline_until; /* vaddrs for which `inlined` holds */
	uint32_t inlined;
	bool is_poked;
	uint64_t poked_from_ns, poked_until_ns; /* when the bytes read so far are what they are */
};

static struct code line_read(struct line *l, uint64_t ip)
{
	struct code c = code_at(l->map, l->cold->space, ip, l->time_ns);

	if (c.is_poked) {
		l->is_poked = true;
		if (c.from_ns > l->poked_from_ns)
			l->poked_from_ns = c.from_ns;
		if (c.until_ns < l->poked_until_ns)
			l->poked_until_ns = c.until_ns;
	}
	return c;
}

/* Decodes the instruction at l->ip, gathering it where it straddles two mappings. */
static bool line_decode(struct line *l, struct insn *insn, bool *have_bytes)
{
	uint8_t gathered[INSN_MAX_BYTES];
	struct code *c = &l->code;

	if (l->ip < c->ip || l->ip - c->ip >= c->count)
		*c = line_read(l, l->ip);
	size_t skip = l->ip - c->ip, count = c->count > skip ? c->count - skip : 0;
	*have_bytes = count > 0;
	if (!count)
		return false;
	if (insn_decode(c->bytes + skip, count, l->cold->mode, insn))
		return true;
	if (count >= INSN_MAX_BYTES)
		return false;
	memcpy(gathered, c->bytes + skip, count);
	while (count < INSN_MAX_BYTES) {
		struct code more = line_read(l, l->ip + count);

		if (!more.count)
			break;
		size_t take = INSN_MAX_BYTES - count;
		if (take > more.count)
			take = more.count;
		memcpy(gathered + count, more.bytes, take);
		count += take;
	}
	return insn_decode(gathered, count, l->cold->mode, insn);
}

static uint64_t line_vaddr(const struct line *l)
{
	return l->ip - l->code.ip + l->code.vaddr;
}

/* Follows the chain of inlined frames to the next instruction. */
static void line_inline(struct line *l, bool is_first)
{
	struct symbolizer *s = l->map->symbolizer;
	uint64_t vaddr = line_vaddr(l);

	if (l->map->flags & GRAPH_NO_INLINE)
		return;
	if (!is_first && vaddr >= l->inline_from && vaddr < l->inline_until)
		return;
	l->inline_from = vaddr;
	l->inline_until = vaddr;
	uint32_t inlined = symbolizer_inline_at(s, l->code.module, vaddr, &l->inline_until).v;
	if (is_first)
		l->hot->start_inline = inlined;
	else if (inlined != l->inlined)
		l->hot->flags |= NODE_INLINE_CHANGES;
	l->inlined = inlined;
}

/* Is the target of a jump part of this line's function? Pieces of one function (.cold) have
 * one id. */
static bool line_stays(struct line *l, uint64_t target)
{
	uint64_t vaddr = target - l->code.ip + l->code.vaddr;

	if (vaddr >= l->func_start && vaddr < l->func_end)
		return true;
	struct code c = code_at(l->map, l->cold->space, target, l->time_ns);
	if (!l->hot->func || !c.count || c.module.v != l->code.module.v)
		return !l->hot->func && c.module.v == l->code.module.v;
	return symbolizer_func(l->map->symbolizer, c.module, c.vaddr).v == l->hot->func;
}

static uint8_t node_kind_of(uint8_t insn_kind)
{
	static const uint8_t kinds[] = {
		[INSN_OTHER] = NODE_THROUGH,
		[INSN_COND] = NODE_COND,
		[INSN_JUMP] = NODE_JUMP,
		[INSN_JUMP_INDIRECT] = NODE_JUMP_INDIRECT,
		[INSN_CALL] = NODE_CALL,
		[INSN_CALL_INDIRECT] = NODE_CALL_INDIRECT,
		[INSN_RETURN] = NODE_RETURN,
		[INSN_SYSCALL] = NODE_SYSCALL,
		[INSN_INT] = NODE_SYSCALL,
		[INSN_SYSRET] = NODE_SYSRET,
		[INSN_IRET] = NODE_SYSRET,
		[INSN_FAR_CALL] = NODE_FAR,
		[INSN_FAR_JUMP] = NODE_FAR,
		[INSN_FAR_RETURN] = NODE_SYSRET,
		/* A guest's VMCALL leaves for the host, whose code is not ours to see. */
		[INSN_VMCALL] = NODE_THROUGH,
		[INSN_VMENTRY] = NODE_SYSRET,
		[INSN_XBEGIN] = NODE_THROUGH,
		[INSN_XEND] = NODE_THROUGH,
		[INSN_XABORT] = NODE_THROUGH,
		[INSN_PTWRITE] = NODE_THROUGH,
	};

	return kinds[insn_kind];
}

/* Ends the line at this instruction, or says that it goes on at l->ip. */
static bool line_take(struct line *l, const struct insn *insn)
{
	struct node *hot = l->hot;
	struct node_cold *cold = l->cold;
	uint64_t end = l->ip + insn->length;

	hot->insn_count++;
	cold->branch_ip = l->ip;
	cold->end_ip = cold->mode == INSN_32 ? end & 0xffffffff : end;
	cold->branch = insn->kind;
	hot->kind = node_kind_of(insn->kind);
	switch (insn->kind) {
	case INSN_OTHER:
	case INSN_VMCALL: l->ip = end; return hot->insn_count >= LINE_INSNS_MAX;
	case INSN_JUMP:
		cold->target_ip = insn_target(insn, l->ip, cold->mode);
		bool stays = line_stays(l, cold->target_ip);
		if (!stays)
			hot->flags |= NODE_TAIL_JUMP;
		if (!stays || l->map->flags & GRAPH_SPLIT_JUMPS)
			return true;
		if (hot->insn_count >= LINE_INSNS_MAX)
			return true;
		l->ip = cold->target_ip;
		return false;
	case INSN_COND:
		cold->target_ip = insn_target(insn, l->ip, cold->mode);
		if (!line_stays(l, cold->target_ip))
			hot->flags |= NODE_TAIL_JUMP;
		return true;
	case INSN_CALL:
		cold->target_ip = insn_target(insn, l->ip, cold->mode);
		if (cold->target_ip == cold->end_ip)
			hot->flags |= NODE_CALL_NEXT;
		return true;
	case INSN_XBEGIN:
	case INSN_XEND:
	case INSN_XABORT: return true;
	case INSN_PTWRITE: hot->flags |= NODE_PTWRITE; return true;
	}
	return true;
}

/* The first instruction has no bytes, or is none: the node is that fact. Later ones make a
 * node of their own. */
static void line_breaks(struct line *l, bool have_bytes)
{
	l->cold->target_ip = 0;
	if (l->hot->insn_count == 0) {
		l->hot->kind = have_bytes ? NODE_BAD : NODE_MISSING;
		l->cold->branch_ip = l->cold->end_ip = l->ip;
		l->cold->module = l->code.module;
		return;
	}
	l->hot->kind = NODE_THROUGH;
	l->cold->end_ip = l->ip;
}

/* Does a call end at end_ip at that time? *until_ns: when pokes may make another answer. */
static bool is_call_preceded_at(const struct code_map *map, space_id space, enum insn_mode mode,
				uint64_t end_ip, uint64_t time_ns, uint64_t *until_ns)
{
	enum { LONGEST = 10 };
	struct code c = {0};
	struct insn insn;

	*until_ns = TIME_NONE;
	/* A module may begin less than a call's length before. */
	for (size_t length = LONGEST; length >= 2; length--) {
		uint64_t at = end_ip - length;

		if (at - c.ip >= c.count) {
			c = code_at(map, space, at, time_ns);
			if (c.is_poked && c.until_ns < *until_ns)
				*until_ns = c.until_ns;
		}
		size_t skip = at - c.ip;
		if (c.count < skip + length)
			continue;
		if (insn_decode(c.bytes + skip, length, mode, &insn) && insn.length == length &&
		    (insn.kind == INSN_CALL || insn.kind == INSN_CALL_INDIRECT))
			return true;
	}
	return false;
}

bool line_is_call_preceded(const struct code_map *map, space_id space, enum insn_mode mode,
			   uint64_t end_ip, uint64_t time_ns)
{
	uint64_t until_ns;

	if (is_call_preceded_at(map, space, mode, end_ip, time_ns, &until_ns))
		return true;
	if (!ip_is_kernel(end_ip))
		return false;
	until_ns = 0;
	for (unsigned i = 0; i < PRECEDING_POKES_MAX && until_ns != TIME_NONE; i++)
		if (is_call_preceded_at(map, space, mode, end_ip, until_ns, &until_ns))
			return true;
	return false;
}

/* Which function the first instruction is in. */
static void line_begin(struct line *l)
{
	struct symbolizer *s = l->map->symbolizer;
	func_id func = symbolizer_func(s, l->code.module, l->code.vaddr);
	const struct func *f = func.v ? symbolizer_func_get(s, func) : NULL;

	l->cold->module = l->code.module;
	l->cold->vaddr = l->code.vaddr;
	l->hot->func = func.v;
	if (!f)
		return;
	l->func_start = f->start;
	l->func_end = f->end;
	l->switches_stacks = f->role == FUNC_STACK_SWITCH;
	if (f->start == l->code.vaddr)
		l->hot->flags |= NODE_INTO_FUNCTION;
}

bool line_discover(const struct code_map *map, struct node *hot, struct node_cold *cold,
		   uint64_t time_ns)
{
	struct line l = {.map = map,
			 .hot = hot,
			 .cold = cold,
			 .time_ns = time_ns,
			 .ip = cold->ip,
			 .poked_until_ns = TIME_NONE};
	struct insn insn;
	bool have_bytes, done = false;

	hot->ip = cold->ip;
	hot->flags = ip_is_kernel(cold->ip) ? NODE_KERNEL : 0;
	while (!done) {
		bool is_first = hot->insn_count == 0;

		if (!line_decode(&l, &insn, &have_bytes)) {
			line_breaks(&l, have_bytes);
			break;
		}
		if (is_first) {
			line_begin(&l);
			cold->is_generated = l.code.is_generated;
			if (l.code.is_generated)
				cold->from_ns = time_ns == TIME_NONE ? TIME_NONE - 1 : time_ns;
			cold->until_ns = l.code.until_ns;
		}
		line_inline(&l, is_first);
		done = line_take(&l, &insn);
	}
	hot->end_inline = l.inlined;
	if (l.switches_stacks &&
	    (hot->kind == NODE_RETURN || (hot->kind == NODE_JUMP && hot->flags & NODE_TAIL_JUMP)))
		hot->flags |= NODE_STACK_SWITCH;
	if (hot->insn_count &&
	    line_is_call_preceded(map, cold->space, cold->mode, cold->ip, time_ns))
		hot->flags |= NODE_CALL_PRECEDED;
	/* Generated code has its times already. */
	if (!l.is_poked || cold->is_generated)
		return false;
	cold->from_ns = l.poked_from_ns ? l.poked_from_ns : 1;
	cold->until_ns = l.poked_until_ns;
	return true;
}

void line_discover_poked(const struct code_map *map, struct node *hot, struct node_cold *cold)
{
	space_id space = cold->space;
	uint64_t ip = cold->ip;
	uint8_t mode = cold->mode;

	*cold = (struct node_cold){.ip = ip,
				   .branch_ip = ip,
				   .end_ip = ip,
				   .space = space,
				   .mode = mode,
				   .branch = INSN_OTHER,
				   .is_poked = true};
	*hot = (struct node){.ip = ip, .kind = NODE_THROUGH, .flags = NODE_KERNEL};
	struct line l = {.map = map, .hot = hot, .cold = cold, .ip = ip};
	l.code = code_at(map, space, ip, 0);
	line_begin(&l);
	line_inline(&l, true);
	hot->end_inline = l.inlined;
	if (line_is_call_preceded(map, space, mode, ip, 0))
		hot->flags |= NODE_CALL_PRECEDED;
}

uint64_t line_time(const struct node_cold *cold)
{
	uint64_t from_ns = atomic_load_explicit(&cold->from_ns, memory_order_relaxed);

	return from_ns ? from_ns : TIME_NONE;
}

bool line_has_instruction(const struct code_map *map, const struct node *hot,
			  const struct node_cold *cold, uint64_t ip)
{
	struct node scratch_hot = {0};
	struct node_cold scratch = *cold;
	struct line l = {.map = map,
			 .hot = &scratch_hot,
			 .cold = &scratch,
			 .time_ns = line_time(cold),
			 .ip = cold->ip};
	struct insn insn;
	bool found = false, have_bytes;

	for (unsigned i = 0; i < hot->insn_count && !found; i++) {
		found = l.ip == ip;
		if (!line_decode(&l, &insn, &have_bytes))
			break;
		l.ip = insn.kind == INSN_JUMP ? insn_target(&insn, l.ip, cold->mode)
					      : l.ip + insn.length;
	}
	return found;
}
