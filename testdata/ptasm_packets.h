/* The packets and sideband records of a text case, one a line.
 *
 *     psb psbend pad ovf stop                      stop = TraceStop
 *     tnt t n t ...                                tnt64 for the long form
 *     tip tip.pge tip.pgd fup [ADDRESS [IPBYTES]]  no address: suppressed
 *     mode.exec 16|32|64 [if]                      mode.tsx [begin] [abort]
 *     pip CR3 [nr]    vmcs BASE    cbr RATIO    tsc TICKS    tma CTC FAST    mtc CTC
 *     cyc N    ptw VALUE [4|8] [ip]    exstop [ip]    mwait HINTS EXT    pwre STATE
 *     pwrx LAST DEEPEST REASON    mnt VALUE    cfe TYPE VECTOR [ip]    evd TYPE VALUE
 *     raw BYTE...                                  hex
 *
 * and, at the time of the last TSC packet plus what `time` added:
 *
 *     time TICKS             later by so much
 *     in TID, out TID        a context switch from and to idle
 *     switch TID TID         from the one to the other
 *     poke ADDRESS OLD NEW   the kernel rewrites its code: hex, or - for no bytes
 *     aux [truncated]        an AUX record up to here (the last one comes by itself) */
#ifndef TESTDATA_PTASM_PACKETS_H
#define TESTDATA_PTASM_PACKETS_H

#include <stdio.h>

#include "testdata/container.h"
#include "testdata/image.h"
#include "testdata/packet.h"

enum { PTASM_CPUS = 8 };

struct ptasm_thread {
	int32_t pid, tid;
	uint32_t comm; /* string of the recording */
	bool started;
};

struct ptasm_stream {
	struct packet_writer packets;
	uint64_t tsc;
	VEC(struct ptasm_record) records;
};

struct ptasm_record {
	uint64_t tsc;
	int32_t from, to; /* a switch */
	uint64_t aux_end; /* or, if not 0, an AUX record up to here */
	uint64_t aux_flags;
	struct container_poke poke; /* or, if bytes are told, a poke */
};

struct ptasm {
	const char *path, *dir;
	FILE *file;
	unsigned line;
	struct recording recording; /* maps and strings only */
	VEC(struct image) images;
	VEC(struct ptasm_thread) threads;
	struct ptasm_stream streams[PTASM_CPUS];
	uint32_t cpus;
	char filter[256];
	bool kernel, no_compression, cyc, timeless;
};

bool ptasm_address(const struct ptasm *p, const char *text, uint64_t *address);
/* false: *wrong says why, or NULL: the line as a whole. */
bool ptasm_packet(struct ptasm *p, struct ptasm_stream *s, char *line, const char **wrong);
void ptasm_write_streams(struct ptasm *p, struct container *c);
void ptasm_done(struct ptasm *p);

#endif
