/* See dump_records.h. Strings out of the file are printed with control characters escaped,
 * so that a path cannot forge a line or talk to the terminal. */
#include "decode/dump_records.h"

#include <inttypes.h>

#include "common/bytes.h"
#include "decode/tracepoint.h"

enum { PREVIEW_BYTES = 16, TRACEPOINT_TEXT = 1024 };

struct dump {
	const struct perfdata *p;
	FILE *out;
	struct tracepoints *tracepoints; /* NULL: none in the file */
};

static void put_string_bytes(FILE *out, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\\' || c < ' ' || c == 0x7f)
			fprintf(out, "\\x%02x", c);
		else
			putc(c, out);
	}
}

static void put_string(FILE *out, const char *text)
{
	put_string_bytes(out, text, strlen(text));
}

static void put_hex(FILE *out, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%02x", bytes[i]);
}

static void put_preview(FILE *out, const char *label, const uint8_t *bytes, uint64_t count)
{
	fprintf(out, " %s %" PRIu64, label, count);
	if (count == 0)
		return;
	putc(':', out);
	put_hex(out, bytes, count < PREVIEW_BYTES ? (size_t)count : PREVIEW_BYTES);
	if (count > PREVIEW_BYTES)
		fputs("..", out);
}

static void put_named_string(FILE *out, const char *label, const char *text)
{
	if (text[0] == '\0')
		return;
	fprintf(out, "# %s: ", label);
	put_string(out, text);
	putc('\n', out);
}

static void dump_callchain(FILE *out, const struct sample *s)
{
	fprintf(out, " callchain %" PRIu64 ":", s->callchain_count);
	for (uint64_t i = 0; i < s->callchain_count; i++) {
		uint64_t ip = load_le(s->callchain + 8 * i, 8);

		/* PERF_CONTEXT_*: -128 kernel, -512 user ... */
		if ((int64_t)ip < 0 && (int64_t)ip >= -4095)
			fprintf(out, " (%" PRId64 ")", (int64_t)ip);
		else
			fprintf(out, " %" PRIx64, ip);
	}
}

static void dump_branches(FILE *out, const struct sample *s)
{
	fprintf(out, " branches %" PRIu64 ":", s->branch_count);
	for (uint64_t i = 0; i < s->branch_count; i++)
		fprintf(out, " %" PRIx64 ">%" PRIx64, load_le(s->branches + 24 * i, 8),
			load_le(s->branches + 24 * i + 8, 8));
}

static void dump_raw(const struct dump *d, const struct perfdata_event *event,
		     const struct sample *s)
{
	enum { TYPE_TRACEPOINT = 2 };
	char text[TRACEPOINT_TEXT];

	if (event->type == TYPE_TRACEPOINT && d->tracepoints) {
		tracepoints_format(d->tracepoints, (uint32_t)event->config, s->raw, s->raw_bytes,
				   text, sizeof text);
		if (text[0] != '\0') {
			putc(' ', d->out);
			put_string(d->out, text);
			return;
		}
	}
	put_preview(d->out, "raw", s->raw, s->raw_bytes);
}

static void dump_regs(FILE *out, const char *label, const uint8_t *regs, uint64_t mask,
		      uint64_t abi)
{
	fprintf(out, " %s abi %" PRIu64, label, abi);
	for (unsigned bit = 0; regs && bit < 64; bit++) {
		if (!(mask >> bit & 1))
			continue;
		fprintf(out, " %u=%" PRIx64, bit, load_le(regs, 8));
		regs += 8;
	}
}

static void dump_read(FILE *out, const struct sample *s)
{
	if (!s->read.values) {
		fprintf(out, " value %" PRIu64, s->read.value);
		return;
	}
	fputs(" values", out);
	for (uint64_t i = 0; i < s->read.count; i++)
		fprintf(out, " %" PRIu64, load_le(s->read.values + i * s->read.value_bytes, 8));
}

static bool dump_sample(const struct dump *d, const struct record *r)
{
	FILE *out = d->out;
	struct sample s;

	if (r->event < 0)
		return false;
	const struct perfdata_event *event = &d->p->events.items[r->event];
	if (!record_sample(r, event, &s))
		return false;
	if (event->name[0] != '\0') {
		putc(' ', out);
		put_string(out, event->name);
	} else {
		fprintf(out, " event %" PRId32, r->event);
	}
	if (s.ip)
		fprintf(out, " ip %" PRIx64, s.ip);
	if (s.addr)
		fprintf(out, " addr %" PRIx64, s.addr);
	fprintf(out, " period %" PRIu64, s.period);
	if (s.read.values || s.read.value)
		dump_read(out, &s);
	if (s.weight)
		fprintf(out, " weight %" PRIx64, s.weight);
	if (s.data_src)
		fprintf(out, " data_src %" PRIx64, s.data_src);
	if (s.transaction)
		fprintf(out, " transaction %" PRIx64, s.transaction);
	if (s.phys_addr)
		fprintf(out, " phys %" PRIx64, s.phys_addr);
	if (s.cgroup)
		fprintf(out, " cgroup %" PRIu64, s.cgroup);
	if (s.data_page_size)
		fprintf(out, " data_page %" PRIu64, s.data_page_size);
	if (s.code_page_size)
		fprintf(out, " code_page %" PRIu64, s.code_page_size);
	if (s.regs_user_abi)
		dump_regs(out, "user", s.regs_user, event->regs_user_mask, s.regs_user_abi);
	if (s.regs_intr_abi)
		dump_regs(out, "intr", s.regs_intr, event->regs_intr_mask, s.regs_intr_abi);
	if (s.stack)
		put_preview(out, "stack", s.stack, s.stack_bytes);
	if (s.aux)
		put_preview(out, "aux", s.aux, s.aux_bytes);
	if (s.raw)
		dump_raw(d, event, &s);
	if (s.callchain_count)
		dump_callchain(out, &s);
	if (s.branch_count)
		dump_branches(out, &s);
	return true;
}

static bool dump_mmap(FILE *out, const struct record *r)
{
	struct record_mmap m;

	if (!record_mmap(r, &m))
		return false;
	fprintf(out, " %d/%d [%" PRIx64 "(%" PRIx64 ") @ %" PRIx64 "] %c%c%c%c", m.pid, m.tid,
		m.start, m.length, m.file_off, m.prot & 1 ? 'r' : '-', m.prot & 2 ? 'w' : '-',
		m.prot & 4 ? 'x' : '-', m.flags & 1 ? 's' : 'p');
	if (m.build_id_bytes > 0) {
		fputs(" build-id ", out);
		put_hex(out, m.build_id, m.build_id_bytes);
	} else if (m.inode) {
		fprintf(out, " %02x:%02x inode %" PRIu64 " %" PRIu64, m.device_major,
			m.device_minor, m.inode, m.inode_generation);
	}
	putc(' ', out);
	put_string(out, m.path);
	return true;
}

static bool dump_tasks(FILE *out, const struct record *r)
{
	struct record_comm comm;
	struct record_task task;
	struct record_namespaces ns;
	struct record_cgroup cgroup;
	struct record_thread_map threads;

	switch (r->type) {
	case RECORD_COMM:
		if (!record_comm(r, &comm))
			return false;
		fprintf(out, " %d/%d ", comm.pid, comm.tid);
		put_string(out, comm.comm);
		if (comm.exec)
			fputs(" (exec)", out);
		return true;
	case RECORD_FORK:
	case RECORD_EXIT:
		if (!record_task(r, &task))
			return false;
		fprintf(out, " %d/%d parent %d/%d", task.pid, task.tid, task.parent_pid,
			task.parent_tid);
		return true;
	case RECORD_NAMESPACES:
		if (!record_namespaces(r, &ns))
			return false;
		fprintf(out, " %d/%d", ns.pid, ns.tid);
		for (uint64_t i = 0; i < ns.count; i++)
			fprintf(out, " %" PRIx64 ":%" PRIu64, load_le(ns.links + 16 * i, 8),
				load_le(ns.links + 16 * i + 8, 8));
		return true;
	case RECORD_CGROUP:
		if (!record_cgroup(r, &cgroup))
			return false;
		fprintf(out, " id %" PRIu64 " ", cgroup.id);
		put_string(out, cgroup.path);
		return true;
	default:
		if (!record_thread_map(r, &threads))
			return false;
		for (uint64_t i = 0; i < threads.count; i++) {
			const uint8_t *entry = threads.entries + 24 * i;

			fprintf(out, " %" PRId64 " ", (int64_t)load_le(entry, 8));
			put_string_bytes(out, (const char *)entry + 8,
					 strnlen((const char *)entry + 8, 16));
		}
		return true;
	}
}

static bool dump_kernel_code(FILE *out, const struct record *r)
{
	struct record_ksymbol symbol;
	struct record_bpf bpf;
	struct record_text_poke poke;

	switch (r->type) {
	case RECORD_KSYMBOL:
		if (!record_ksymbol(r, &symbol))
			return false;
		fprintf(out, " %" PRIx64 "(%" PRIx32 ") type %u flags %x ", symbol.address,
			symbol.bytes, symbol.kind, symbol.flags);
		put_string(out, symbol.name);
		return true;
	case RECORD_BPF_EVENT:
		if (!record_bpf(r, &bpf))
			return false;
		fprintf(out, " type %u flags %x id %" PRIu32 " tag ", bpf.kind, bpf.flags, bpf.id);
		put_hex(out, bpf.tag, sizeof bpf.tag);
		return true;
	default:
		if (!record_text_poke(r, &poke))
			return false;
		fprintf(out, " %" PRIx64, poke.address);
		put_preview(out, "old", poke.old_code, poke.old_bytes);
		put_preview(out, "new", poke.new_code, poke.new_bytes);
		return true;
	}
}

static bool dump_aux(FILE *out, const struct record *r)
{
	struct record_aux aux;
	struct record_itrace_start start;
	struct record_aux_output_hw_id hw_id;
	struct record_auxtrace trace;
	struct record_auxtrace_info info;
	struct record_auxtrace_error error;

	switch (r->type) {
	case RECORD_AUX:
		if (!record_aux(r, &aux))
			return false;
		fprintf(out, " offset %" PRIx64 " size %" PRIx64 " flags %" PRIx64 "%s%s%s%s",
			aux.offset, aux.bytes, aux.flags,
			aux.flags & AUX_FLAG_TRUNCATED ? " truncated" : "",
			aux.flags & AUX_FLAG_OVERWRITE ? " overwrite" : "",
			aux.flags & AUX_FLAG_PARTIAL ? " partial" : "",
			aux.flags & AUX_FLAG_COLLISION ? " collision" : "");
		return true;
	case RECORD_ITRACE_START:
		if (!record_itrace_start(r, &start))
			return false;
		fprintf(out, " %d/%d", start.pid, start.tid);
		return true;
	case RECORD_AUX_OUTPUT_HW_ID:
		if (!record_aux_output_hw_id(r, &hw_id))
			return false;
		fprintf(out, " hw_id %" PRIx64, hw_id.hw_id);
		return true;
	case RECORD_AUXTRACE:
		if (!record_auxtrace(r, &trace))
			return false;
		fprintf(out,
			" size %" PRIx64 " offset %" PRIx64 " ref %" PRIx64 " idx %" PRIu32
			" tid %d cpu %d",
			trace.bytes, trace.offset, trace.reference, trace.index, trace.tid,
			trace.cpu);
		return true;
	case RECORD_AUXTRACE_INFO:
		if (!record_auxtrace_info(r, &info))
			return false;
		fprintf(out, " type %" PRIu32 " priv", info.kind);
		for (size_t i = 0; i < info.priv_count; i++)
			fprintf(out, " %" PRIx64, load_le(info.priv + 8 * i, 8));
		return true;
	default:
		if (!record_auxtrace_error(r, &error))
			return false;
		fprintf(out, " type %" PRIu32 " code %" PRIu32 " cpu %d %d/%d ip %" PRIx64 " ",
			error.kind, error.code, error.cpu, error.pid, error.tid, error.ip);
		put_string_bytes(out, error.text, error.text_bytes);
		return true;
	}
}

static bool dump_rest(FILE *out, const struct record *r)
{
	struct record_switch sw;
	struct record_lost lost;
	struct record_throttle throttle;
	struct record_time_conv time;
	struct record_id_index ids;
	struct record_build_id build_id;

	switch (r->type) {
	case RECORD_SWITCH:
	case RECORD_SWITCH_CPU_WIDE:
		if (!record_switch(r, &sw))
			return false;
		fprintf(out, " %s%s", sw.in ? "in" : "out", sw.preempted ? " preempt" : "");
		if (sw.has_other)
			fprintf(out, " %s %d/%d", sw.in ? "prev" : "next", sw.other_pid,
				sw.other_tid);
		return true;
	case RECORD_LOST:
	case RECORD_LOST_SAMPLES:
		if (!record_lost(r, &lost))
			return false;
		fprintf(out, " id %" PRIu64 " lost %" PRIu64, lost.id, lost.count);
		return true;
	case RECORD_THROTTLE:
	case RECORD_UNTHROTTLE:
		if (!record_throttle(r, &throttle))
			return false;
		fprintf(out, " id %" PRIu64, throttle.id);
		return true;
	case RECORD_TIME_CONV:
		if (!record_time_conv(r, &time))
			return false;
		fprintf(out, " shift %" PRIu64 " mult %" PRIu64 " zero %" PRIu64 "%s",
			time.time_shift, time.time_mult, time.time_zero,
			time.has_zero ? "" : " (not usable)");
		if (time.is_short)
			fprintf(out, " cycles %" PRIu64 " mask %" PRIx64, time.time_cycles,
				time.time_mask);
		return true;
	case RECORD_ID_INDEX:
		if (!record_id_index(r, &ids))
			return false;
		for (uint64_t i = 0; i < ids.count; i++) {
			const uint8_t *entry = ids.entries + 32 * i;

			fprintf(out, " %" PRIu64 ":cpu %" PRId64 " tid %" PRId64, load_le(entry, 8),
				(int64_t)load_le(entry + 16, 8), (int64_t)load_le(entry + 24, 8));
		}
		return true;
	case RECORD_HEADER_BUILD_ID:
		if (!record_build_id(r, &build_id))
			return false;
		putc(' ', out);
		put_hex(out, build_id.build_id, build_id.build_id_bytes);
		putc(' ', out);
		put_string(out, build_id.path);
		return true;
	default: return true;
	}
}

static bool dump_body(const struct dump *d, const struct record *r)
{
	switch (r->type) {
	case RECORD_SAMPLE: return dump_sample(d, r);
	case RECORD_MMAP:
	case RECORD_MMAP2: return dump_mmap(d->out, r);
	case RECORD_COMM:
	case RECORD_FORK:
	case RECORD_EXIT:
	case RECORD_NAMESPACES:
	case RECORD_CGROUP:
	case RECORD_THREAD_MAP: return dump_tasks(d->out, r);
	case RECORD_KSYMBOL:
	case RECORD_BPF_EVENT:
	case RECORD_TEXT_POKE: return dump_kernel_code(d->out, r);
	case RECORD_AUX:
	case RECORD_ITRACE_START:
	case RECORD_AUX_OUTPUT_HW_ID:
	case RECORD_AUXTRACE:
	case RECORD_AUXTRACE_INFO:
	case RECORD_AUXTRACE_ERROR: return dump_aux(d->out, r);
	default: return dump_rest(d->out, r);
	}
}

static enum err dump_visit(void *context, const struct record *r, struct error *error)
{
	const struct dump *d = context;
	FILE *out = d->out;
	const char *name = record_type_name(r->type);

	(void)error;
	if (d->p->files.count > 1)
		fprintf(out, "%" PRIu32 ":", r->file);
	fprintf(out, "%06" PRIx64 " %zu ", r->file_off, r->bytes);
	if (name)
		fputs(name, out);
	else
		fprintf(out, "UNKNOWN_%" PRIu32, r->type);
	if (r->id.has & SAMPLE_ID_TIME)
		fprintf(out, " %" PRIu64 ".%09" PRIu64, r->id.time / 1000000000,
			r->id.time % 1000000000);
	if (r->id.has & SAMPLE_ID_CPU)
		fprintf(out, " cpu %d", r->id.cpu);
	if (r->id.has & SAMPLE_ID_TID)
		fprintf(out, " %d/%d", r->id.pid, r->id.tid);
	if (r->type < RECORD_USER_FIRST && r->event < 0)
		fputs(" (unknown event)", out);
	putc(':', out);
	if (!dump_body(d, r))
		fputs(" (malformed)", out);
	if (r->payload)
		fprintf(out, " +%zu bytes", r->payload_bytes);
	putc('\n', out);
	return ferror(out) ? ERR_IO : ERR_NONE;
}

static void dump_header(const struct dump *d)
{
	const struct perfdata_info *info = &d->p->info;

	for (size_t i = 0; i < d->p->files.count; i++) {
		const struct perfdata_file *f = &d->p->files.items[i];

		fprintf(d->out, "# file %zu: ", i);
		put_string(d->out, f->path);
		fprintf(d->out, ", %zu bytes%s%s\n", f->map.bytes, f->is_pipe ? ", pipe mode" : "",
			f->is_unfinished ? ", the recording did not end properly" : "");
	}
	put_named_string(d->out, "hostname", info->hostname);
	put_named_string(d->out, "os release", info->os_release);
	put_named_string(d->out, "perf version", info->perf_version);
	put_named_string(d->out, "arch", info->arch);
	put_named_string(d->out, "cpu", info->cpu_description);
	put_named_string(d->out, "cpuid", info->cpuid);
	if (info->command_line.count > 0) {
		fputs("# command line:", d->out);
		for (size_t i = 0; i < info->command_line.count; i++) {
			putc(' ', d->out);
			put_string(d->out, info->command_line.items[i]);
		}
		putc('\n', d->out);
	}
	for (size_t i = 0; i < d->p->events.count; i++) {
		const struct perfdata_event *event = &d->p->events.items[i];
		const char *pmu = perfdata_pmu_name(d->p, event->type);

		fprintf(d->out, "# event %zu: ", i);
		put_string(d->out, event->name[0] != '\0' ? event->name : "(no name)");
		fprintf(d->out, " type %" PRIu32, event->type);
		if (pmu) {
			fputs(" (", d->out);
			put_string(d->out, pmu);
			putc(')', d->out);
		}
		fprintf(d->out, " config %" PRIx64 " sample_type %" PRIx64 " ids %zu\n",
			event->config, event->sample_type, event->id_count);
	}
	if (info->unknown_features > 0)
		fprintf(d->out, "# %" PRIu32 " header features newer than this program\n",
			info->unknown_features);
	if (info->damaged_features > 0)
		fprintf(d->out, "# %" PRIu32 " damaged header features\n", info->damaged_features);
}

static void dump_trailer(const struct dump *d)
{
	const struct perfdata *p = d->p;

	fprintf(d->out, "# %" PRIu64 " records", p->record_count);
	if (p->unknown_records > 0)
		fprintf(d->out, ", %" PRIu64 " of unknown type (%" PRIu64 " bytes)",
			p->unknown_records, p->unknown_bytes);
	putc('\n', d->out);
	for (size_t i = 0; i < p->damage.count; i++) {
		const struct perfdata_damage *damage = &p->damage.items[i];

		fprintf(d->out, "# file %" PRIu32 " at %" PRIx64 ": %s, %" PRIu64 " bytes lost\n",
			damage->file, damage->file_off, perfdata_damage_name(damage->kind),
			damage->lost_bytes);
	}
}

enum err dump_records(struct perfdata *p, FILE *out, struct error *error)
{
	struct dump d = {.p = p, .out = out};

	if (p->info.tracing_data) {
		enum err err = tracepoints_new(&d.tracepoints, p->info.tracing_data,
					       p->info.tracing_data_bytes, NULL);

		/* without them raw bytes are printed */
		if (err == ERR_NOMEM)
			return error_set(error, err, "out of memory");
	}
	dump_header(&d);
	enum err err = perfdata_walk(p, dump_visit, &d, error);
	if (err == ERR_NONE)
		dump_trailer(&d);
	tracepoints_free(d.tracepoints);
	if (ferror(out))
		return error_set(error, ERR_IO, "cannot write the records");
	return err;
}
