/* Flow decoding alone, cold: flow_bench fast|libipt PERF.DATA [SYMFS]
 *
 * Decodes all pieces once, on one thread, into nothing. Prints a line:
 *     CPU-seconds branches events bytes
 * where a branch is a TNT bit or a TIP. scripts/bench runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "decode/packet.h"
#include "decode/perfdata.h"
#include "decode/piece.h"

struct bench {
	struct perfdata file;
	struct sideband sideband;
	struct symbolizer *symbolizer;
	struct graph *graph;
	struct flow *fast;
	struct flow_libipt *libipt;
	uint64_t events, bytes;
};

static void bench_events(void *context, const struct flow_event *events, size_t count)
{
	struct bench *b = context;

	(void)events;
	b->events += count;
}

static uint64_t branches_of(const struct flow_piece *piece)
{
	const uint8_t *p = piece->bytes, *end = p + piece->count;
	struct packet packet;
	uint64_t branches = 0;
	int length;

	for (; (length = packet_decode(p, (size_t)(end - p), PACKET_NO_BLOCK, &packet)) > 0;
	     p += length)
		if (packet.kind == PACKET_TNT)
			branches += packet.count;
		else
			branches += packet.kind == PACKET_TIP;
	return branches;
}

static enum err bench_piece(struct bench *b, const struct flow_piece *piece)
{
	struct flow_sink sink = {.events = bench_events, .context = b};

	b->bytes += piece->count;
	return b->fast ? flow_decode(b->fast, piece, sink)
		       : flow_libipt_decode(b->libipt, piece, sink);
}

static enum err bench_open(struct bench *b, const char *engine, const char *path, const char *symfs,
			   struct error *error)
{
	struct symbolizer_options where = {.symfs = symfs};
	enum err err = symbolizer_new(&where, &b->symbolizer, error);

	if (err == ERR_NONE)
		err = perfdata_open(&b->file, &path, 1, error);
	if (err == ERR_NONE)
		err = sideband_read(&b->file, b->symbolizer, &b->sideband, error);
	if (err == ERR_NONE)
		err = graph_new(&b->sideband, b->symbolizer, 0, &b->graph, error);
	if (err != ERR_NONE)
		return err;
	return strcmp(engine, "libipt") == 0
		       ? flow_libipt_new(b->graph, &b->sideband, 0, &b->libipt, error)
		       : flow_new(b->graph, &b->sideband, 0, &b->fast, error);
}

int main(int argc, char **argv)
{
	static struct bench b;
	struct error error = {0};
	uint64_t branches = 0;

	if (argc < 3 ||
	    bench_open(&b, argv[1], argv[2], argc > 3 ? argv[3] : NULL, &error) != ERR_NONE) {
		fprintf(stderr, "flow_bench: %s\n",
			argc < 3 ? "fast|libipt PERF.DATA [SYMFS]" : error.message);
		return 1;
	}
	clock_t start = clock();
	for (size_t i = 0; i < b.sideband.buffers.count; i++) {
		struct pieces pieces = {0};
		enum err err = pieces_find(&b.sideband, &b.sideband.buffers.items[i], &pieces);

		for (size_t k = 0; err == ERR_NONE && k < pieces.items.count; k++)
			err = bench_piece(&b, &pieces.items.items[k]);
		if (err != ERR_NONE) {
			fprintf(stderr, "flow_bench: %s\n", error_name(err));
			return 1;
		}
		pieces_done(&pieces);
	}
	double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
	for (size_t i = 0; i < b.sideband.buffers.count; i++) {
		struct pieces pieces = {0};

		if (pieces_find(&b.sideband, &b.sideband.buffers.items[i], &pieces) != ERR_NONE)
			return 1;
		for (size_t k = 0; k < pieces.items.count; k++)
			branches += branches_of(&pieces.items.items[k]);
		pieces_done(&pieces);
	}
	printf("%.6f %llu %llu %llu\n", seconds, (unsigned long long)branches,
	       (unsigned long long)b.events, (unsigned long long)b.bytes);
	flow_free(b.fast);
	flow_libipt_free(b.libipt);
	graph_free(b.graph);
	sideband_done(&b.sideband);
	perfdata_done(&b.file);
	symbolizer_free(b.symbolizer);
	return 0;
}
