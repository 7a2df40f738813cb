/* The TRACING_DATA feature: what a tracepoint's raw bytes mean. Layout as libtraceevent's
 * trace.dat documentation tells it; one event, sched:sched_switch, as the kernel prints its
 * format file. */
#include <string.h>

#include "testdata/container_private.h"

static const char header_page[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
				  "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
				  "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
				  "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

static const char header_event[] = "# compressed entry header\n"
				   "\ttype_len    :    5 bits\n"
				   "\ttime_delta  :   27 bits\n"
				   "\tarray       :   32 bits\n"
				   "\n"
				   "\tpadding     : type == 29\n"
				   "\ttime_extend : type == 30\n"
				   "\ttime_stamp : type == 31\n"
				   "\tdata max type_len  == 28\n";

static const char sched_switch[] =
	"name: sched_switch\n"
	"ID: 314\n"
	"format:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
	"\n"
	"\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
	"\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
	"\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n"
	"\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
	"\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n"
	"\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n"
	"\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n"
	"\n"
	"print fmt: \"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%ld ==> next_comm=%s "
	"next_pid=%d next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, "
	"REC->prev_state, REC->next_comm, REC->next_pid, REC->next_prio\n";

_Static_assert(SCHED_SWITCH_TYPE == 314, "the format text says so");

static bool write_bytes(FILE *f, const void *bytes, size_t count)
{
	return fwrite(bytes, 1, count, f) == count;
}

static bool write_number(FILE *f, uint64_t value, size_t bytes)
{
	return write_bytes(f, &value, bytes);
}

static bool write_text(FILE *f, const char *text)
{
	return write_number(f, strlen(text), 8) && write_bytes(f, text, strlen(text));
}

bool write_tracing_data(FILE *f)
{
	return write_bytes(f, "\027\010Dtracing0.6", 14) && /* with the NUL */
	       write_number(f, 0, 1) &&                     /* little-endian */
	       write_number(f, 8, 1) &&                     /* size of long */
	       write_number(f, 4096, 4) &&                  /* of a page */
	       write_bytes(f, "header_page", 12) && write_text(f, header_page) &&
	       write_bytes(f, "header_event", 13) && write_text(f, header_event) &&
	       write_number(f, 0, 4) && /* ftrace's own events */
	       write_number(f, 1, 4) && write_bytes(f, "sched", 6) && write_number(f, 1, 4) &&
	       write_text(f, sched_switch) && write_number(f, 0, 4) && /* kallsyms */
	       write_number(f, 0, 4) &&                                /* printk formats */
	       write_number(f, 0, 8);                                  /* command names */
}
