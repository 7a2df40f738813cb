/* See line.h. */
#include "decode/line.h"

#include <string.h>

enum { LINE_INSNS_MAX = 1024 }; /* longer lines go on in another node */

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
};

/* Decodes the instruction at l->ip, gathering it where it straddles two mappings. */
static bool line_decode(struct line *l, struct insn *insn, bool *have_bytes)
{
	uint8_t gathered[INSN_MAX_BYTES];
	struct code *c = &l->code;

	if (l->ip < c->ip || l->ip - c->ip >= c->count)
		*c = code_at(l->map, l->cold->space, l->ip, l->time_ns);
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
		struct code more = code_at(l->map, l->cold->space, l->ip + count, l->time_ns);

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

bool line_is_call_preceded(const struct code_map *map, space_id space, enum insn_mode mode,
			   uint64_t end_ip, uint64_t time_ns)
{
	enum { LONGEST = 10 };
	struct code c = code_at(map, space, end_ip - LONGEST, time_ns);
	struct insn insn;

	/* A module may begin less than a call's length before. */
	for (size_t length = LONGEST; length >= 2; length--) {
		uint64_t at = end_ip - length;

		if (at - c.ip >= c.count)
			c = code_at(map, space, at, time_ns);
		size_t skip = at - c.ip;
		if (c.count < skip + length)
			continue;
		if (insn_decode(c.bytes + skip, length, mode, &insn) && insn.length == length &&
		    (insn.kind == INSN_CALL || insn.kind == INSN_CALL_INDIRECT))
			return true;
	}
	return false;
}

void line_discover(const struct code_map *map, struct node *hot, struct node_cold *cold,
		   uint64_t time_ns)
{
	struct line l = {.map = map, .hot = hot, .cold = cold, .time_ns = time_ns, .ip = cold->ip};
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
			const struct func *f;
			func_id func =
				symbolizer_func(map->symbolizer, l.code.module, l.code.vaddr);

			cold->module = l.code.module;
			cold->vaddr = l.code.vaddr;
			cold->is_generated = l.code.is_generated;
			if (l.code.is_generated)
				cold->from_ns = time_ns == TIME_NONE ? TIME_NONE - 1 : time_ns;
			cold->until_ns = l.code.until_ns;
			hot->func = func.v;
			f = func.v ? symbolizer_func_get(map->symbolizer, func) : NULL;
			if (f) {
				l.func_start = f->start;
				l.func_end = f->end;
				l.switches_stacks = f->role == FUNC_STACK_SWITCH;
				if (f->start == l.code.vaddr)
					hot->flags |= NODE_INTO_FUNCTION;
			}
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
}

bool line_has_instruction(const struct code_map *map, const struct node *hot,
			  const struct node_cold *cold, uint64_t ip)
{
	struct node scratch_hot = {0};
	struct node_cold scratch = *cold;
	struct line l = {.map = map,
			 .hot = &scratch_hot,
			 .cold = &scratch,
			 .time_ns = TIME_NONE,
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
