/* See ptasm_packets.h. */
#include "testdata/ptasm_packets.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "testdata/sim_clock.h"

enum { WORDS_MAX = 64 };

/* The words of a line. */
struct words {
	char *at[WORDS_MAX];
	unsigned count;
};

static struct words split(char *line)
{
	struct words w = {.count = 0};

	line[strcspn(line, "#")] = '\0';
	for (char *word = strtok(line, " \t"); word && w.count < WORDS_MAX;
	     word = strtok(NULL, " \t"))
		w.at[w.count++] = word;
	return w;
}

bool ptasm_address(const struct ptasm *p, const char *text, uint64_t *address)
{
	char name[128];
	size_t length = strcspn(text, "+-");
	int64_t offset = text[length] ? strtoll(text + length, NULL, 0) : 0;

	*address = 0;
	if (strcmp(text, "-") == 0)
		return true;
	if (isdigit((unsigned char)text[0])) {
		*address = strtoull(text, NULL, 0);
		return true;
	}
	if (length >= sizeof name)
		return false;
	memcpy(name, text, length);
	name[length] = '\0';
	for (size_t i = 0; i < p->images.count; i++) {
		if (image_find(&p->images.items[i], name, address)) {
			*address += (uint64_t)offset;
			return true;
		}
	}
	return false;
}

static uint64_t number(const struct words *w, unsigned i)
{
	return i < w->count ? strtoull(w->at[i], NULL, 0) : 0;
}

static bool has(const struct words *w, const char *word)
{
	return w->count > 1 && strcmp(w->at[w->count - 1], word) == 0;
}

static bool tnt(struct packet_writer *out, const struct words *w, bool is_long)
{
	uint64_t taken = 0;
	unsigned count = 0;

	for (unsigned i = 1; i < w->count; i++) {
		for (const char *c = w->at[i]; *c; c++) {
			if (*c != 't' && *c != 'n')
				return false;
			taken = taken << 1 | (*c == 't');
			count++;
		}
	}
	if (count == 0 || count > (is_long ? 47u : 6u))
		return false;
	if (is_long)
		packet_tnt_long(out, taken, count);
	else
		packet_tnt_short(out, taken, count);
	return true;
}

static bool ip_packet(const struct ptasm *p, struct packet_writer *out, enum packet_ip_kind kind,
		      const struct words *w)
{
	uint64_t ip;

	if (w->count == 1) {
		packet_ip_suppressed(out, kind);
		return true;
	}
	if (!ptasm_address(p, w->at[1], &ip))
		return false;
	if (w->count > 2)
		packet_ip_as(out, kind, (unsigned)number(w, 2), ip);
	else
		packet_ip(out, kind, ip);
	return true;
}

static bool raw(struct packet_writer *out, const struct words *w)
{
	for (unsigned i = 1; i < w->count; i++) {
		uint8_t byte = (uint8_t)strtoul(w->at[i], NULL, 16);

		packet_raw(out, &byte, 1);
	}
	return true;
}

/* Packets without arguments worth checking. false: no such packet. */
static bool simple(struct ptasm_stream *s, const struct words *w)
{
	struct packet_writer *out = &s->packets;
	const char *name = w->at[0];
	uint64_t a = number(w, 1), b = number(w, 2), c = number(w, 3);

	if (strcmp(name, "psb") == 0)
		packet_psb(out);
	else if (strcmp(name, "psbend") == 0)
		packet_psbend(out);
	else if (strcmp(name, "pad") == 0)
		packet_pad(out);
	else if (strcmp(name, "ovf") == 0)
		packet_ovf(out);
	else if (strcmp(name, "stop") == 0)
		packet_stop(out);
	else if (strcmp(name, "mode.exec") == 0)
		packet_mode_exec(out, (unsigned)a, has(w, "if"));
	else if (strcmp(name, "mode.tsx") == 0)
		packet_mode_tsx(out, w->count > 1 && strcmp(w->at[1], "begin") == 0,
				has(w, "abort"));
	else if (strcmp(name, "pip") == 0)
		packet_pip(out, a, has(w, "nr"));
	else if (strcmp(name, "vmcs") == 0)
		packet_vmcs(out, a);
	else if (strcmp(name, "cbr") == 0)
		packet_cbr(out, (unsigned)a);
	else if (strcmp(name, "tsc") == 0)
		packet_tsc(out, s->tsc = a);
	else if (strcmp(name, "tma") == 0)
		packet_tma(out, (unsigned)a, (unsigned)b);
	else if (strcmp(name, "mtc") == 0)
		packet_mtc(out, (unsigned)a);
	else if (strcmp(name, "cyc") == 0)
		packet_cyc(out, a);
	else if (strcmp(name, "ptw") == 0)
		packet_ptw(out, a, b == 4 ? 4 : 8, has(w, "ip"));
	else if (strcmp(name, "exstop") == 0)
		packet_exstop(out, has(w, "ip"));
	else if (strcmp(name, "mwait") == 0)
		packet_mwait(out, (unsigned)a, (unsigned)b);
	else if (strcmp(name, "pwre") == 0)
		packet_pwre(out, (unsigned)a);
	else if (strcmp(name, "pwrx") == 0)
		packet_pwrx(out, (unsigned)a, (unsigned)b, (unsigned)c);
	else if (strcmp(name, "mnt") == 0)
		packet_mnt(out, a);
	else if (strcmp(name, "cfe") == 0)
		packet_cfe(out, (unsigned)a, (unsigned)b, has(w, "ip"));
	else if (strcmp(name, "evd") == 0)
		packet_evd(out, (unsigned)a, b);
	else
		return false;
	return true;
}

/* Bytes in hex, or -. */
static bool hex_bytes(const char *text, uint8_t bytes[CONTAINER_POKE_MAX], uint16_t *count)
{
	*count = 0;
	if (strcmp(text, "-") == 0)
		return true;
	for (; text[0] && text[1] && *count < CONTAINER_POKE_MAX; text += 2, ++*count)
		if (sscanf(text, "%2" SCNx8, &bytes[*count]) != 1)
			return false;
	return *text == '\0';
}

static bool poke(const struct ptasm *p, struct container_poke *poke, const struct words *w)
{
	return w->count == 4 && ptasm_address(p, w->at[1], &poke->ip) &&
	       hex_bytes(w->at[2], poke->old_code, &poke->old_bytes) &&
	       hex_bytes(w->at[3], poke->new_code, &poke->new_bytes) &&
	       poke->old_bytes + poke->new_bytes > 0;
}

static bool sideband(const struct ptasm *p, struct ptasm_stream *s, const struct words *w)
{
	const char *name = w->at[0];
	struct ptasm_record record = {.tsc = s->tsc};
	int32_t tid = (int32_t)number(w, 1);

	if (strcmp(name, "time") == 0) {
		s->tsc += number(w, 1);
		return true;
	}
	if (strcmp(name, "in") == 0) {
		record.to = tid;
	} else if (strcmp(name, "out") == 0) {
		record.from = tid;
	} else if (strcmp(name, "switch") == 0) {
		record.from = tid;
		record.to = (int32_t)number(w, 2);
	} else if (strcmp(name, "aux") == 0) {
		record.aux_end = s->packets.bytes.count;
		record.aux_flags = has(w, "truncated");
	} else if (strcmp(name, "poke") == 0) {
		if (!poke(p, &record.poke, w))
			return false;
	} else {
		return false;
	}
	return vec_push(&s->records, record);
}

bool ptasm_packet(struct ptasm *p, struct ptasm_stream *s, char *line, const char **wrong)
{
	static const struct {
		const char *name;
		enum packet_ip_kind kind;
	} ips[] = {{"tip", PACKET_TIP},
		   {"tip.pge", PACKET_PGE},
		   {"tip.pgd", PACKET_PGD},
		   {"fup", PACKET_FUP}};
	struct words w = split(line);

	if (w.count == 0)
		return true;
	*wrong = "no such label";
	for (size_t i = 0; i < sizeof ips / sizeof *ips; i++)
		if (strcmp(w.at[0], ips[i].name) == 0)
			return ip_packet(p, &s->packets, ips[i].kind, &w);
	*wrong = "1 to 6 (47) outcomes, t or n";
	if (strcmp(w.at[0], "tnt") == 0 || strcmp(w.at[0], "tnt64") == 0)
		return tnt(&s->packets, &w, w.at[0][3] != '\0');
	*wrong = "no such packet";
	if (strcmp(w.at[0], "raw") == 0)
		return raw(&s->packets, &w);
	return simple(s, &w) || sideband(p, s, &w);
}

static struct moment moment_of(struct ptasm *p, uint32_t cpu, uint64_t tsc, int32_t tid)
{
	struct moment m = {.ns = sim_ns_of_tsc(tsc), .ring = cpu, .cpu = cpu, .tid = tid};

	for (size_t i = 0; i < p->threads.count; i++)
		if (p->threads.items[i].tid == tid)
			m.pid = p->threads.items[i].pid;
	return m;
}

static void itrace_start(struct ptasm *p, struct container *c, const struct moment *m)
{
	for (size_t i = 0; i < p->threads.count; i++) {
		struct ptasm_thread *t = &p->threads.items[i];

		if (t->tid == m->tid && !t->started) {
			t->started = true;
			container_itrace_start(c, m);
		}
	}
}

static void write_switch(struct ptasm *p, struct container *c, uint32_t cpu,
			 const struct ptasm_record *r)
{
	struct moment out = moment_of(p, cpu, r->tsc, r->from);
	struct moment in = moment_of(p, cpu, r->tsc, r->to);

	container_switch(c, &out, true, false, in.pid, in.tid);
	itrace_start(p, c, &in);
	container_switch(c, &in, false, false, out.pid, out.tid);
}

void ptasm_write_streams(struct ptasm *p, struct container *c)
{
	for (uint32_t cpu = 0; cpu < p->cpus; cpu++) {
		struct ptasm_stream *s = &p->streams[cpu];
		uint64_t announced = 0, head = s->packets.bytes.count;
		struct moment end = moment_of(p, cpu, s->tsc, p->threads.items[0].tid);

		for (size_t i = 0; i < s->records.count; i++) {
			const struct ptasm_record *r = &s->records.items[i];
			struct moment m = moment_of(p, cpu, r->tsc, p->threads.items[0].tid);

			if (r->poke.old_bytes || r->poke.new_bytes) {
				container_text_poke(c, &m, &r->poke);
				continue;
			}
			if (!r->aux_end) {
				write_switch(p, c, cpu, r);
				continue;
			}
			container_aux(c, &m, announced, r->aux_end - announced, r->aux_flags);
			announced = r->aux_end;
		}
		if (head > announced)
			container_aux(c, &end, announced, head - announced, 0);
	}
	container_drain(c);
	for (uint32_t cpu = 0; cpu < p->cpus; cpu++) {
		struct ptasm_stream *s = &p->streams[cpu];

		if (s->packets.bytes.count > 0)
			container_auxtrace(c, cpu, 0, 0, s->tsc, s->packets.bytes.items,
					   s->packets.bytes.count);
	}
	container_round(c);
}

void ptasm_done(struct ptasm *p)
{
	for (uint32_t i = 0; i < PTASM_CPUS; i++) {
		vec_done(&p->streams[i].packets.bytes);
		vec_done(&p->streams[i].records);
	}
}
