/* The machine's state, and what its files call of each other. */
#ifndef TESTDATA_MACHINE_PRIVATE_H
#define TESTDATA_MACHINE_PRIVATE_H

#include "common/map64.h"
#include "testdata/machine.h"
#include "testdata/truth.h"

enum { NO_CPU = -1 };

struct thread {
	int32_t pid, tid, parent_pid, parent_tid;
	int cpu, last_cpu;
	bool in_user, traced, known, exited;
	uint64_t ip; /* in_user: the next instruction */
	uint32_t depth;
	uint32_t comm; /* string */
	uint32_t stack_capacity;
	uint64_t *stack; /* stack[n]: where the frame at depth n + 1 returns to; 0 = signal frame */
	uint32_t image;  /* distinguishes address spaces, for page faults */
};

/* One ring: its PT packets, and how far they were announced and saved. */
struct stream {
	struct tracer tracer;
	size_t psbs_told;
	uint64_t aux_at, saved_at;
	int32_t tid;
};

/* The fault under way, see fault.c. */
struct fault {
	uint32_t begun;        /* so many, the one under way included */
	struct stream *stream; /* NULL = none under way */
	uint64_t end_cycles;   /* it lasts until then ... */
	uint64_t place, bytes; /* ... or until these are in the stream */
};

struct machine {
	const struct recording *r;
	const struct machine_options *o;
	struct container file;
	struct truth *truth;
	uint64_t now, random, next_irq;
	uint32_t images;
	struct thread *threads;
	struct stream streams[CONTAINER_RINGS];
	struct thread *running[CONTAINER_RINGS]; /* per CPU */
	uint32_t cpus;
	size_t first, end; /* events of the recording that are replayed */
	struct map64 touched;
	struct fault fault;
	bool switches_lost;
	bool failed;
};

/* machine_cpu.c */
uint64_t machine_chance(struct machine *m, uint64_t below);
/* Between low and high cycles go by. */
void machine_spend(struct machine *m, uint64_t low, uint64_t high);
struct stream *machine_stream(struct machine *m, const struct thread *t);
struct moment machine_moment(const struct machine *m, const struct thread *t);
void machine_tell(struct machine *m, const struct thread *t, enum truth_kind kind, uint64_t from,
		  uint64_t to, const char *note);
void machine_tell_psbs(struct machine *m, struct stream *s);
void machine_enter(struct machine *m, struct thread *t, uint64_t ip);
void machine_leave_async(struct machine *m, struct thread *t, const char *why);
/* A fault or interrupt at the next instruction, and back again. */
void machine_interrupt(struct machine *m, struct thread *t, const char *why, uint64_t low,
		       uint64_t high);
/* The thread goes to t->ip: a page fault if nobody was there yet. */
void machine_touch(struct machine *m, struct thread *t);
/* Announces what is in the stream up to `head`. */
void machine_aux_record(struct machine *m, struct thread *t, uint64_t head, bool truncated);
/* perf wakes up: everything so far goes to the file. */
void machine_save(struct machine *m);
void machine_switch_out(struct machine *m, struct thread *t, bool preempt);
void machine_ensure_on_cpu(struct machine *m, struct thread *t, size_t event);
/* System-wide: PT runs from here on, whoever is on the CPU. */
void machine_start_cpus(struct machine *m);
/* The end of tracing on a CPU. */
void machine_stop_cpu(struct machine *m, uint32_t cpu);
/* The clock event: a sample with the last bytes of the thread's stream. */
void machine_aux_sample(struct machine *m, struct thread *t);
void machine_snapshot(struct machine *m);
void machine_watermark(struct machine *m, struct thread *t);

/* fault.c */
/* After each branch (number `event`), and when user mode is about to begin. */
void fault_at_branch(struct machine *m, struct thread *t, size_t event);
void fault_before_enter(struct machine *m, struct thread *t);
void fault_after_enter(struct machine *m, struct thread *t);
/* Bytes at the end of the stream are about to change: they cannot be announced yet. */
bool fault_holds_bytes(const struct machine *m, const struct stream *s);

#endif
