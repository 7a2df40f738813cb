/* A process of one task whose only code is given bytes: what flow tests and fuzz targets stand on.
 *
 * The bytes are written to an ELF file (removed by flow_fixture_done()) and mapped at
 * FLOW_FIXTURE_BASE and, for the kernel, at FLOW_FIXTURE_KERNEL. Aborts when that fails. */
#ifndef DECODE_TESTS_FLOW_FIXTURE_H
#define DECODE_TESTS_FLOW_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "decode/graph.h"
#include "decode/sideband.h"

#define FLOW_FIXTURE_BASE   0x401000
#define FLOW_FIXTURE_KERNEL 0xffffffff81001000

struct flow_fixture {
	char path[64];
	struct symbolizer *symbolizer;
	struct sideband sideband; /* time: 1 TSC tick = 1 ns */
	struct graph *graph;
};

void flow_fixture_init(struct flow_fixture *f, const uint8_t *code, size_t bytes,
		       unsigned graph_flags);
void flow_fixture_done(struct flow_fixture *f);

#endif
