#include "symbolize/role.h"

#include <criterion/criterion.h>

#include "symbolize/symbolize.h"

Test(role, by_name)
{
	static const struct {
		const char *name;
		enum func_role want;
	} cases[] = {
		{"", FUNC_PLAIN},
		{"_", FUNC_PLAIN},
		{"main", FUNC_PLAIN},
		{"_ZN4_dl_6lookupEv", FUNC_PLAIN},
		{"__gxx_personality_v0", FUNC_PERSONALITY},
		{"rust_eh_personality", FUNC_PERSONALITY},
		{"longjmp", FUNC_LONGJMP},
		{"longjmp_msg", FUNC_PLAIN},
		{"____longjmp_chk", FUNC_LONGJMP},
		{"__sigsetjmp", FUNC_SETJMP},
		{"_dl_runtime_resolve_xsavec", FUNC_LAZY_RESOLVER},
		{"__x86_indirect_thunk_rax", FUNC_INDIRECT_THUNK},
		{"__x86_return_thunk", FUNC_RETURN_THUNK},
		{"its_return_thunk", FUNC_RETURN_THUNK},
		{"srso_alias_untrain_ret", FUNC_PLAIN},
		{"return_to_handler", FUNC_RETURN_TRAMPOLINE},
		{"arch_rethook_trampoline", FUNC_RETURN_TRAMPOLINE},
		{"kretprobe_trampoline", FUNC_RETURN_TRAMPOLINE},
		{"call_depth_return_thunk", FUNC_RETURN_THUNK},
		{"__restore_rt", FUNC_SIGNAL_RESTORER},
		{"__switch_to_asm", FUNC_STACK_SWITCH},
		{"_Unwind_Resume", FUNC_UNWIND_RESUME},
		{"_Unwind_RaiseException", FUNC_UNWINDER},
		{"_Unwind_GetIP", FUNC_PLAIN},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		cr_expect_eq(role_of_name(cases[i].name), cases[i].want, "%s: %d", cases[i].name,
			     role_of_name(cases[i].name));
}

Test(role, by_code)
{
	static const struct {
		uint8_t code[16];
		size_t bytes;
		enum func_role want;
	} cases[] = {
		{{0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05}, 9, FUNC_SIGNAL_RESTORER},
		{{0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f}, 8, FUNC_PLAIN},
		{{0xb8, 15, 0, 0, 0, 0x0f, 0x05}, 7, FUNC_SIGNAL_RESTORER},
		{{0xb8, 14, 0, 0, 0, 0x0f, 0x05}, 7, FUNC_PLAIN},
		{{0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x48, 0x89, 0xe3, 0x48, 0x83, 0xe4, 0xc0},
		 12,
		 FUNC_LAZY_RESOLVER},
		{{0}, 0, FUNC_PLAIN},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		cr_expect_eq(role_of_code(cases[i].code, cases[i].bytes), cases[i].want, "%zu", i);
}
