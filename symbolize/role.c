/* See role.h. Names come from glibc, musl, libgcc, LLVM's libunwind and the kernel. Most
 * symbols are refused on their first characters: this runs for every symbol of a file. */
#include "symbolize/role.h"

#include <stdbool.h>
#include <string.h>

#include "symbolize/symbolize.h"

static const struct {
	const char *name; /* a trailing '*' stands for any rest */
	uint8_t role;
} role_names[] = {
	{"_dl_runtime_resolve*", FUNC_LAZY_RESOLVER},
	{"_dl_runtime_profile*", FUNC_LAZY_RESOLVER},
	{"__x86_indirect_thunk_*", FUNC_INDIRECT_THUNK},
	{"__x86_indirect_jump_thunk_*", FUNC_INDIRECT_THUNK},
	{"__x86_indirect_its_thunk_*", FUNC_INDIRECT_THUNK},
	{"__llvm_retpoline_*", FUNC_INDIRECT_THUNK},
	{"__x86_return_thunk", FUNC_RETURN_THUNK},
	{"its_return_thunk", FUNC_RETURN_THUNK},
	{"srso_return_thunk", FUNC_RETURN_THUNK},
	{"srso_alias_return_thunk", FUNC_RETURN_THUNK},
	{"srso_safe_ret", FUNC_RETURN_THUNK},
	{"srso_alias_safe_ret", FUNC_RETURN_THUNK},
	{"retbleed_return_thunk", FUNC_RETURN_THUNK},
	{"call_depth_return_thunk", FUNC_RETURN_THUNK},
	{"__x86_return_skl", FUNC_RETURN_THUNK},
	{"return_to_handler", FUNC_RETURN_TRAMPOLINE},
	{"arch_rethook_trampoline", FUNC_RETURN_TRAMPOLINE},
	{"__kretprobe_trampoline", FUNC_RETURN_TRAMPOLINE},
	{"kretprobe_trampoline", FUNC_RETURN_TRAMPOLINE},
	{"__restore_rt", FUNC_SIGNAL_RESTORER},
	{"__kernel_rt_sigreturn", FUNC_SIGNAL_RESTORER},
	{"__switch_to_asm", FUNC_STACK_SWITCH},
	{"_Unwind_Resume", FUNC_UNWIND_RESUME},
	{"_Unwind_Resume_or_Rethrow", FUNC_UNWIND_RESUME},
	{"_Unwind_RaiseException", FUNC_UNWINDER},
	{"_Unwind_ForcedUnwind", FUNC_UNWINDER},
	{"__gxx_personality_v0", FUNC_PERSONALITY},
	{"__gcc_personality_v0", FUNC_PERSONALITY},
	{"__gnat_personality_v0", FUNC_PERSONALITY},
	{"__gdc_personality_v0", FUNC_PERSONALITY},
	{"__objc_personality_v0", FUNC_PERSONALITY},
	{"__gnu_objc_personality_v0", FUNC_PERSONALITY},
	{"rust_eh_personality", FUNC_PERSONALITY},
	{"longjmp", FUNC_LONGJMP},
	{"_longjmp", FUNC_LONGJMP},
	{"siglongjmp", FUNC_LONGJMP},
	{"__longjmp", FUNC_LONGJMP},
	{"__longjmp_chk", FUNC_LONGJMP},
	{"____longjmp_chk", FUNC_LONGJMP},
	{"__longjmp_cancel", FUNC_LONGJMP},
	{"__libc_longjmp", FUNC_LONGJMP},
	{"__libc_siglongjmp", FUNC_LONGJMP},
	{"setjmp", FUNC_SETJMP},
	{"_setjmp", FUNC_SETJMP},
	{"__setjmp", FUNC_SETJMP},
	{"sigsetjmp", FUNC_SETJMP},
	{"__sigsetjmp", FUNC_SETJMP},
};

uint8_t role_of_name(const char *name)
{
	if (name[0] == '_' ? !name[1] || !strchr("_dUlsg", name[1]) : !strchr("lsirakc", name[0]))
		return FUNC_PLAIN;
	for (size_t i = 0; i < sizeof role_names / sizeof role_names[0]; i++) {
		const char *want = role_names[i].name;

		if (name[0] != want[0])
			continue;
		size_t length = strlen(want);
		if (want[length - 1] == '*' ? strncmp(name, want, length - 1) == 0
					    : strcmp(name, want) == 0)
			return role_names[i].role;
	}
	return FUNC_PLAIN;
}

static bool code_starts(const uint8_t *code, size_t bytes, const uint8_t *want, size_t want_bytes)
{
	return bytes >= want_bytes && memcmp(code, want, want_bytes) == 0;
}

uint8_t role_of_code(const uint8_t *code, size_t bytes)
{
	/* mov $15,%rax (or %eax); syscall */
	static const uint8_t restorer[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
	static const uint8_t restorer32[] = {0xb8, 15, 0, 0, 0, 0x0f, 0x05};
	/* push %rbx; mov %rsp,%rbx; and $-64,%rsp: only _dl_runtime_resolve begins so */
	static const uint8_t resolver[] = {0x53, 0x48, 0x89, 0xe3, 0x48, 0x83, 0xe4, 0xc0};
	static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};

	if (code_starts(code, bytes, endbr, sizeof endbr)) {
		code += sizeof endbr;
		bytes -= sizeof endbr;
	}
	if (code_starts(code, bytes, restorer, sizeof restorer) ||
	    code_starts(code, bytes, restorer32, sizeof restorer32))
		return FUNC_SIGNAL_RESTORER;
	if (code_starts(code, bytes, resolver, sizeof resolver))
		return FUNC_LAZY_RESOLVER;
	return FUNC_PLAIN;
}
