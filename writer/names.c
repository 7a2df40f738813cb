/* See names.h. */
#include "writer/names.h"

#include <stdio.h>

/* Made from <asm/unistd_64.h> by writer/local.mk: [0] = "read", ... */
static const char *const syscall_names[] = {
#include "writer/syscall_names.inc"
};

const char *name_syscall(int32_t number)
{
	if (number < 0 || (size_t)number >= sizeof syscall_names / sizeof syscall_names[0])
		return NULL;
	return syscall_names[number];
}

const char *name_module(const struct trace_names *names, module_id id)
{
	const struct module *module = id.v ? symbolizer_module_get(names->symbolizer, id) : NULL;

	return module ? symbolizer_text(names->symbolizer, module->basename) : "";
}

/* A function of a module that has no name. */
static const char *name_in_module(const char *module, char scratch[NAME_SCRATCH_BYTES])
{
	/* Special mappings carry their brackets already: "[vdso]". */
	snprintf(scratch, NAME_SCRATCH_BYTES, module[0] == '[' ? "%s" : "[%s]", module);
	return scratch;
}

const char *name_frame(const struct trace_names *names, node_id node,
		       char scratch[NAME_SCRATCH_BYTES])
{
	const char *text = "";

	if (node == 0)
		return "[unknown]";
	func_id func = {names->graph.hot[node].func};
	if (func.v)
		text = symbolizer_text(names->symbolizer,
				       symbolizer_func_name(names->symbolizer, func));
	if (text[0])
		return text;
	const char *module = name_module(names, names->graph.cold[node].module);
	return module[0] ? name_in_module(module, scratch) : "[unknown]";
}

const char *name_inlined(const struct trace_names *names, inline_id id)
{
	const struct inline_frame *frame =
		id.v ? symbolizer_inline_get(names->symbolizer, id) : NULL;
	const char *text = frame ? symbolizer_text(names->symbolizer, frame->name) : "";

	return text[0] ? text : "[unknown]";
}

static const char *name_missing_code(const struct trace_names *names, const struct bracket *bracket,
				     char scratch[NAME_SCRATCH_BYTES])
{
	const char *module = name_module(names, bracket->module);

	if (!module[0])
		return "[missing code]";
	/* No file could name what runs in anonymous memory, where a JIT may not tell. */
	if (bracket->kind == BRACKET_MISSING_FRAME &&
	    symbolizer_module_get(names->symbolizer, bracket->module)->state == MODULE_ANONYMOUS)
		return name_in_module(module, scratch);
	snprintf(scratch, NAME_SCRATCH_BYTES, "[missing code %s]", module);
	return scratch;
}

const char *name_bracket(const struct trace_names *names, const struct bracket *bracket,
			 char scratch[NAME_SCRATCH_BYTES])
{
	switch ((enum bracket_kind)bracket->kind) {
	case BRACKET_SYSCALL: {
		const char *call = name_syscall(bracket->number);

		if (bracket->number < 0)
			return "[syscall]";
		if (call)
			snprintf(scratch, NAME_SCRATCH_BYTES, "[syscall %s]", call);
		else
			snprintf(scratch, NAME_SCRATCH_BYTES, "[syscall %d]", bracket->number);
		return scratch;
	}
	case BRACKET_INTERRUPTED: return "[interrupted]";
	case BRACKET_PAGE_FAULT: return "[page fault]";
	case BRACKET_DESCHEDULED: return "[descheduled]";
	case BRACKET_LOST:
		if (bracket->cause == LOSS_NONE || bracket->cause >= LOSS_COUNT)
			return "[lost]";
		snprintf(scratch, NAME_SCRATCH_BYTES, "[lost: %s]",
			 loss_name((enum loss)bracket->cause));
		return scratch;
	case BRACKET_MISSING_CODE:
	case BRACKET_MISSING_FRAME: return name_missing_code(names, bracket, scratch);
	case BRACKET_FILTERED: return "[filtered]";
	}
	return "[untraced]";
}

const char *name_call(const struct trace *trace, const struct trace_names *names,
		      const struct call *call, char scratch[NAME_SCRATCH_BYTES])
{
	switch ((enum call_kind)call->kind) {
	case CALL_FRAME: return name_frame(names, call->what, scratch);
	case CALL_INLINED: return name_inlined(names, (inline_id){call->what});
	case CALL_BRACKET:
		if (call->what < trace->brackets.count)
			return name_bracket(names, &trace->brackets.items[call->what], scratch);
		break;
	}
	return "[unknown]";
}

const char *name_task(const struct trace_names *names, task_id id, uint64_t time_ns,
		      char scratch[NAME_SCRATCH_BYTES])
{
	const struct sideband *sideband = names->sideband;
	const char *comm = intern_text(&sideband->names, sideband_comm_at(sideband, id, time_ns));

	if (comm[0])
		return comm;
	const struct task *task =
		id.v < sideband->tasks.count ? &sideband->tasks.items[id.v] : NULL;
	if (!task || task->tid < 0)
		return "[unknown thread]";
	snprintf(scratch, NAME_SCRATCH_BYTES, "tid %d", task->tid);
	return scratch;
}

void name_thread_line(const struct trace *trace, const struct trace_names *names,
		      const struct thread *thread, struct buffer *text)
{
	const struct sideband *sideband = names->sideband;
	const struct task *task = thread->task.v < sideband->tasks.count
					  ? &sideband->tasks.items[thread->task.v]
					  : NULL;
	char scratch[NAME_SCRATCH_BYTES];

	buffer_printf(text, "thread %d/%d %s", task ? task->pid : -1, task ? task->tid : -1,
		      name_task(names, thread->task, trace->end_ns, scratch));
}

const char *name_module_state(uint8_t state)
{
	switch ((enum module_state)state) {
	case MODULE_FOUND: return "found";
	case MODULE_NOT_FOUND: return "not found";
	case MODULE_OTHER_BUILD: return "other build";
	case MODULE_UNREADABLE: return "unreadable";
	case MODULE_ANONYMOUS: return "anonymous memory";
	}
	return "unknown";
}
