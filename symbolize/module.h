/* One module: its files, and what was read of them. Everything is opened on first use. */
#ifndef SYMBOLIZE_MODULE_H
#define SYMBOLIZE_MODULE_H

#include "common/map64.h"
#include "symbolize/eh_frame.h"
#include "symbolize/got.h"
#include "symbolize/inline_table.h"
#include "symbolize/jit.h"
#include "symbolize/object.h"
#include "symbolize/search.h"
#include "symbolize/symbolize.h"
#include "symbolize/symtab.h"

struct module_entry {
	struct module pub;
	uint8_t asked_id_bytes; /* of the request; pub.build_id may be the file's */
	uint32_t next_of_key;   /* an older module whose request hashes the same; MAP64_NONE */
	struct object *code;    /* NULL unless MODULE_FOUND */
	struct object *debug;   /* its separate debug file; NULL = none */
	struct object *mini;    /* its packed symbol table; NULL = none */
	struct symtab symtab;
	struct got got;
	struct eh_frame eh_frame;
	struct inline_table *inlines; /* NULL = none */
	bool symbols_loaded, debug_searched, got_loaded, eh_frame_loaded, inlines_loaded;
	uint32_t *func_ids;    /* of symtab.funcs; 0 = none yet */
	const struct jit *jit; /* of a layer of generated code; NULL = none */
	uint32_t jit_layer;
	struct module_entry *shared; /* kernel modules: the one that knows; NULL = not kernel */
	struct map64 gap_funcs;      /* start of a function that no symbol names -> its id */
	struct map64 inline_ids;     /* node of inlines -> the symbolizer's id */
	const char *advice;          /* NULL = not made yet */
	const char *trouble;         /* what was wrong with the file refused; "" = nothing */
	bool suspect;                /* contradicts the trace */
	uint8_t other_id[OBJECT_BUILD_ID_MAX];
	uint8_t other_id_bytes;

	/* Of the entry that all kernel modules share. */
	struct object *image; /* vmlinux: vaddr there + slide = run-time address */
	uint64_t slide;
	str_id image_file;
	uint64_t text_start; /* of kallsyms; 0 = not known */
	char *names_text;    /* kallsyms */
	bool slide_known, names_of_image;
};

/* Sets what the request says. */
MUST_CHECK enum err module_init(struct module_entry *m, const struct module_request *request,
				struct intern *strings);
/* The same, and looks for the file. ERR_NOMEM only. At most OBJECT_BUILD_ID_MAX bytes of id. */
MUST_CHECK enum err module_open(struct module_entry *m, const struct module_request *request,
				const struct search *search, struct intern *strings);
void module_done(struct module_entry *m);

/* false when memory is short; then nothing is kept and the next call tries again. */
bool module_load_debug(struct module_entry *m, const struct search *search, struct intern *strings);
bool module_load_symbols(struct module_entry *m, const struct search *search,
			 struct intern *strings);
bool module_load_got(struct module_entry *m);
bool module_load_eh_frame(struct module_entry *m);
bool module_load_inlines(struct module_entry *m, const struct search *search,
			 struct intern *strings);

/* The part of a recorded path that people read. */
const char *module_basename(const char *path, size_t *length);

#endif
