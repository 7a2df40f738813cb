#include "symbolize/demangle.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(demangle, names)
{
	static const struct {
		const char *name, *want; /* NULL = stays as it is */
	} cases[] = {
		{"main", NULL},
		{"_start", NULL},
		{"_Z", NULL},
		{"_ZN2ns1fEi", "ns::f"},
		{"_ZN2ns1fEi.part.0", "ns::f.part.0"},
		{"_ZN2ns1fEi.constprop.0.isra.0", "ns::f.constprop.0.isra.0"},
		{"_ZN2ns1fEi.llvm.1234567", "ns::f"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi",
		 "std::vector<int, std::allocator<int> >::push_back"},
		{"_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()"},
		{"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
		{"_ZN3std2rt10lang_start28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE.llvm.77",
		 "std::rt::lang_start::{{closure}}"},
		{"_RNvC6_123foo3bar", "123foo::bar"},
		{"_ZNSs4_Rep8_M_cloneERKSaIcEm",
		 "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::_Rep::"
		 "_M_clone"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char *text = demangle_name(cases[i].name);

		if (cases[i].want)
			cr_expect_str_eq(text ? text : "(NULL)", cases[i].want);
		else
			cr_expect_null(text, "%s: %s", cases[i].name, text);
		free(text);
	}
}

Test(demangle, refuses_endless_names)
{
	size_t bytes = 1 << 20;
	char *name = malloc(bytes + 1);

	cr_assert_not_null(name);
	memset(name, 'P', bytes);
	memcpy(name, "_Z1f", 4);
	name[bytes] = '\0';
	cr_expect_null(demangle_name(name));
	free(name);
}
