/* Code and names: the one door to object files, debug files, kallsyms and JIT maps.
 *
 * The decoder asks for code bytes (to follow the trace), for functions (to build stacks)
 * and for facts that decide how stacks move (PLT, landing pads, call targets); the writer
 * asks for names, inlined frames and lines. All of it is found once and cached.
 *
 * Addresses: `ip` is a run-time address, `vaddr` the address inside the file (ELF p_vaddr
 * space; for the kernel and for JIT code vaddr == ip, also where a vmlinux answers).
 * Ids: 0 is "none" in every id space. Pointers returned live as long as the symbolizer.
 * Threads: callers serialise; nothing here locks.
 * Failure: a file that is missing, damaged or of another build is a state of its module,
 * never an error of the call; enum err is for memory and for wrong options only. */
#ifndef SYMBOLIZE_SYMBOLIZE_H
#define SYMBOLIZE_SYMBOLIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/intern.h"

struct bundle; /* common/bundle.h */
struct symbolizer;

typedef struct {
	uint32_t v;
} module_id;

typedef struct {
	uint32_t v;
} func_id;

typedef struct {
	uint32_t v;
} inline_id;

/* What is pointed to must outlive the symbolizer. */
struct symbolizer_options {
	const char *symfs;             /* files at their recorded path below it; NULL = host */
	const char *const *debug_dirs; /* NULL-terminated; searched by build id and debuglink */
	const char *const *perf_maps;  /* NULL-terminated FILEs: perf-PID.map */
	const char *const *jitdumps;   /* NULL-terminated FILEs: jit-PID.dump */
	const char *kcore, *kallsyms;  /* NULL = none */
	const struct bundle *bundle;   /* a capture bundle, open: searched first; NULL = none */
	bool debuginfod; /* may ask servers of $DEBUGINFOD_URLS; off = never a network */
	bool no_demangle;
	bool no_inline;
};

/* What the recording says about a mapped file. */
struct module_request {
	const char *path;        /* as recorded, e.g. "/usr/lib/libc.so.6", "[vdso]", "//anon",
				    "[kernel.kallsyms]_text", "[nf_tables]", "/memfd:x (deleted)" */
	const uint8_t *build_id; /* NULL = not recorded */
	size_t build_id_bytes;
	bool kernel;
};

enum module_state {
	MODULE_FOUND,
	MODULE_NOT_FOUND,   /* no such file at any of the places searched */
	MODULE_OTHER_BUILD, /* found, but its build id differs from the recorded one: refused */
	MODULE_UNREADABLE,  /* found, but no usable object file */
	MODULE_ANONYMOUS,   /* memory that belongs to no file (JIT without a map) */
};

struct module {
	str_id path;          /* as recorded */
	str_id basename;      /* for display: "libc.so.6", "[vdso]", "vmlinux" */
	str_id file;          /* what was opened; empty if nothing */
	str_id debug_file;    /* separate debug file in use; empty if none */
	uint8_t build_id[20]; /* recorded one, else the file's */
	uint8_t build_id_bytes;
	uint8_t state; /* enum module_state */
	bool kernel;
};

/* How control flow treats a function beyond "call pushes, return pops". */
enum func_role {
	FUNC_PLAIN,
	FUNC_PLT,               /* PLT stub (any flavour): transparent */
	FUNC_LAZY_RESOLVER,     /* _dl_runtime_resolve*: jumps to its target, transparent */
	FUNC_INDIRECT_THUNK,    /* __x86_indirect_thunk_*: an indirect jump in disguise */
	FUNC_RETURN_THUNK,      /* __x86_return_thunk, its_*, srso_*, retbleed_*: a return */
	FUNC_RETURN_TRAMPOLINE, /* return_to_handler, arch_rethook_trampoline, [uprobes] page */
	FUNC_SIGNAL_RESTORER,   /* __restore_rt, __kernel_rt_sigreturn */
	FUNC_STACK_SWITCH,      /* kernel __switch_to_asm */
	FUNC_UNWIND_RESUME,     /* _Unwind_Resume and its kin */
	FUNC_UNWINDER,          /* _Unwind_RaiseException, _Unwind_ForcedUnwind, ... */
	FUNC_PERSONALITY,       /* __gxx_personality_v0 ...: the unwinder asks it about a frame */
	FUNC_LONGJMP,           /* longjmp, siglongjmp, __longjmp* */
	FUNC_SETJMP,            /* setjmp, sigsetjmp, ... */
};

enum func_source {
	FUNC_FROM_SYMBOL,   /* ELF symbol, kallsyms, perf map, jitdump */
	FUNC_FROM_FDE,      /* .eh_frame range of a stripped file: "libc.so.6+0x1234" */
	FUNC_FROM_BOUNDARY, /* neither: the range between its neighbours */
};

/* One function: the range of an ELF symbol with its .cold pieces (foo.cold maps to foo;
 * foo.part.0, foo.constprop.0, foo.isra.0 are functions of their own). Every vaddr of a
 * module that was found belongs to some function. */
struct func {
	module_id module;
	uint64_t start, end; /* vaddr, half-open, of its main piece */
	uint8_t role;        /* enum func_role */
	uint8_t source;      /* enum func_source */
	bool headless;       /* FUNC_FROM_FDE only: begins with a frame already set up, so it is
				an outlined piece of the function that jumps to it */
};

/* One inlined call: `parent` encloses it (0: the physical function itself). The same id
 * means the same inlined instance. */
struct inline_frame {
	inline_id parent;
	str_id name;        /* demangled as the options say */
	uint32_t call_line; /* where it was inlined; the file: symbolizer_inline_call_file() */
	uint32_t depth;     /* 1 = directly inside the physical function */
};

MUST_CHECK enum err symbolizer_new(const struct symbolizer_options *options,
				   struct symbolizer **result, struct error *error);
void symbolizer_free(struct symbolizer *s);

/* The module for a request; equal requests give the same id. Opens the file on first use. */
MUST_CHECK enum err symbolizer_module(struct symbolizer *s, const struct module_request *request,
				      module_id *id);
const struct module *symbolizer_module_get(const struct symbolizer *s, module_id id);
size_t symbolizer_module_count(const struct symbolizer *s); /* ids are 1 .. count */

/* The vaddr of ip, which lies in a mapping of the module at [start, ...) from file_off. */
bool symbolizer_vaddr(struct symbolizer *s, module_id module, uint64_t map_start,
		      uint64_t map_file_off, uint64_t ip, uint64_t *vaddr);
/* Executable bytes from vaddr on: their count (0 = none known) and where they are. */
size_t symbolizer_code(struct symbolizer *s, module_id module, uint64_t vaddr,
		       const uint8_t **bytes);

/* JIT code of process pid at ip and time (perf clock ns): the module that holds it (vaddr ==
 * ip there) and the time from which the answer may differ. False = nothing known. A time that
 * is not known is UINT64_MAX: what was there last. Addresses
 * in the kernel's half are looked up in what symbolizer_add_ksymbol() told, whatever pid. */
bool symbolizer_jit(struct symbolizer *s, int32_t pid, uint64_t ip, uint64_t time_ns,
		    module_id *module, uint64_t *valid_until_ns);

/* How TSC stamps of jitdumps become perf clock (perf_event_mmap_page's time_*). To be called
 * before the first symbolizer_jit(), which reads the dumps. */
void symbolizer_set_clock(struct symbolizer *s, uint16_t time_shift, uint32_t time_mult,
			  uint64_t time_zero);

/* Kernel symbols that appear and go: KSYMBOL records, BPF programs (code may be NULL). */
MUST_CHECK enum err symbolizer_add_ksymbol(struct symbolizer *s, uint64_t ip, uint64_t bytes,
					   const char *name, const uint8_t *code, uint64_t from_ns,
					   uint64_t until_ns);

func_id symbolizer_func(struct symbolizer *s, module_id module, uint64_t vaddr);
const struct func *symbolizer_func_get(const struct symbolizer *s, func_id id);
/* Display name (demangled as the options say), and the linker's name. */
str_id symbolizer_func_name(struct symbolizer *s, func_id id);
str_id symbolizer_func_linkage_name(struct symbolizer *s, func_id id);
/* All functions of that linkage or display name, for --between and triggers. Returns the
 * count; at most max ids are stored. */
size_t symbolizer_func_find(struct symbolizer *s, const char *name, func_id *ids, size_t max);

/* The landing pad that the LSDA gives for a call whose return address is vaddr. */
bool symbolizer_landing_pad(struct symbolizer *s, module_id module, uint64_t return_vaddr,
			    uint64_t *pad_vaddr);
/* Where the GOT slot at slot_vaddr leads, by relocation: the linkage name of its symbol. */
bool symbolizer_got_target(struct symbolizer *s, module_id module, uint64_t slot_vaddr,
			   str_id *linkage_name);

/* The innermost inlined frame at vaddr (0 = none), and the vaddr where that changes. */
inline_id symbolizer_inline_at(struct symbolizer *s, module_id module, uint64_t vaddr,
			       uint64_t *until_vaddr);
const struct inline_frame *symbolizer_inline_get(const struct symbolizer *s, inline_id id);
/* The source file of the call that was inlined. Costs more than the rest: reads line tables. */
str_id symbolizer_inline_call_file(struct symbolizer *s, inline_id id);
/* file:line of vaddr by the line table; false = unknown. */
bool symbolizer_line(struct symbolizer *s, module_id module, uint64_t vaddr, str_id *file,
		     uint32_t *line);

const char *symbolizer_text(const struct symbolizer *s, str_id id);
/* One line: why the module's code or names are missing and what fixes it; "" = nothing to say.
 * E.g. "libfoo.so build-id 12ab...: not found; put it under --symfs as /lib/libfoo.so, or ...". */
const char *symbolizer_module_advice(struct symbolizer *s, module_id id);
/* The trace contradicts the module's code: the advice will say that the file is probably of
 * another build. false = that cannot be: its build id was recorded, or it has no file. */
bool symbolizer_module_suspect(struct symbolizer *s, module_id id);

#endif
