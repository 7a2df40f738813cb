/* See pt-capture.h. The functions must exist as such, with their argument in its register:
 * no inlining, no clones, and no equal bodies that a linker could fold into one. */
#include "capture/lib/pt-capture.h"

#if defined(__clang__)
#define KEEP __attribute__((noinline, optnone, used))
#else
#define KEEP __attribute__((noipa, used))
#endif

KEEP void ptcapture_mark_start(uint64_t argument)
{
	__asm__ volatile("nop" : : "r"(argument) : "memory");
}

KEEP void ptcapture_take_snapshot(uint64_t argument)
{
	__asm__ volatile("xchg %%ax, %%ax" : : "r"(argument) : "memory");
}
