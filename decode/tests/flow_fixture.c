/* See flow_fixture.h. */
#include "decode/tests/flow_fixture.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CODE_OFFSET = 0x1000 };

static void check(bool good)
{
	if (!good)
		abort();
}

static void write_elf(const char *path, const uint8_t *code, size_t bytes)
{
	Elf64_Ehdr eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			 .e_type = ET_EXEC,
			 .e_machine = EM_X86_64,
			 .e_version = EV_CURRENT,
			 .e_phoff = sizeof eh,
			 .e_ehsize = sizeof eh,
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 1};
	Elf64_Phdr ph = {.p_type = PT_LOAD,
			 .p_flags = PF_R | PF_X,
			 .p_offset = CODE_OFFSET,
			 .p_vaddr = FLOW_FIXTURE_BASE,
			 .p_filesz = bytes,
			 .p_memsz = bytes,
			 .p_align = 0x1000};
	uint8_t header[CODE_OFFSET] = {0};
	FILE *out = fopen(path, "wb");

	memcpy(header, &eh, sizeof eh);
	memcpy(header + sizeof eh, &ph, sizeof ph);
	check(out && fwrite(header, sizeof header, 1, out) == 1 &&
	      fwrite(code, bytes, 1, out) == 1 && fclose(out) == 0);
}

void flow_fixture_init(struct flow_fixture *f, const uint8_t *code, size_t bytes,
		       unsigned graph_flags)
{
	struct sideband *s = &f->sideband;
	module_id module;

	*f = (struct flow_fixture){.path = "/tmp/flow_fixture.XXXXXX"};
	int fd = mkstemp(f->path);
	check(fd >= 0 && close(fd) == 0);
	write_elf(f->path, code, bytes);
	check(symbolizer_new(&(struct symbolizer_options){0}, &f->symbolizer, NULL) == ERR_NONE);
	check(symbolizer_module(f->symbolizer, &(struct module_request){.path = f->path},
				&module) == ERR_NONE);
	struct mapping mapping = {.start = FLOW_FIXTURE_BASE,
				  .end = FLOW_FIXTURE_BASE + bytes,
				  .file_off = CODE_OFFSET,
				  .module = module};
	struct task none = {.pid = -1, .tid = -1}, task = {.pid = 1, .tid = 1};
	struct space empty = {.pid = -1, .until_ns = TIME_NONE};
	struct space_period period = {.pid = 1, .space = {2}};
	check(vec_push(&s->tasks, none) && vec_push(&s->tasks, task) &&
	      vec_push(&s->space_periods, period));
	for (int i = 0; i < 3; i++)
		check(vec_push(&s->spaces, empty));
	s->spaces.items[2].pid = 1;
	check(vec_push(&s->spaces.items[2].mappings, mapping));
	mapping.start = FLOW_FIXTURE_KERNEL;
	mapping.end = FLOW_FIXTURE_KERNEL + bytes;
	check(vec_push(&s->spaces.items[1].mappings, mapping));
	s->clock = (struct clock){.time_mult = 1, .valid = true};
	s->config.has_tsc = true;
	check(graph_new(s, f->symbolizer, graph_flags, &f->graph, NULL) == ERR_NONE);
}

void flow_fixture_done(struct flow_fixture *f)
{
	struct sideband *s = &f->sideband;

	graph_free(f->graph);
	for (size_t i = 0; i < s->spaces.count; i++)
		vec_done(&s->spaces.items[i].mappings);
	vec_done(&s->tasks);
	vec_done(&s->spaces);
	vec_done(&s->space_periods);
	symbolizer_free(f->symbolizer);
	unlink(f->path);
}
