/* See check.h. One small function an item, in the order in which things must be mended. */
#include "capture/check.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct check_item *add(struct check_report *r, const char *name, enum check_status status,
			      const char *format, ...) PRINTF_LIKE(4, 5);
static struct check_item *add(struct check_report *r, const char *name, enum check_status status,
			      const char *format, ...)
{
	struct check_item *item =
		&r->items[r->count < CHECKS_MAX - 1 ? r->count++ : CHECKS_MAX - 1];
	va_list ap;

	*item = (struct check_item){.name = name, .status = status};
	va_start(ap, format);
	vsnprintf(item->text, sizeof item->text, format, ap);
	va_end(ap);
	if (status == CHECK_MISSING)
		r->ready = false;
	return item;
}

static void fix(struct check_item *item, const char *format, ...) PRINTF_LIKE(2, 3);
static void fix(struct check_item *item, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(item->fix, sizeof item->fix, format, ap);
	va_end(ap);
}

static void check_cpu(const struct capabilities *c, struct check_report *r)
{
	const char *model = c->cpu_model[0] ? c->cpu_model : "unknown CPU";

	if (c->cpu_pt || c->pt.present) {
		add(r, "cpu", CHECK_OK, "%s has Intel PT", model);
		return;
	}
	if (c->cpu_intel && c->cpu_hypervisor)
		fix(add(r, "cpu", CHECK_MISSING, "%s: this virtual machine is not given Intel PT",
			model),
		    "use the host or a bare-metal instance, or let the hypervisor pass PT through "
		    "(KVM: modprobe kvm_intel pt_mode=1)");
	else if (c->cpu_intel)
		fix(add(r, "cpu", CHECK_MISSING, "%s does not offer Intel PT", model),
		    "use an Intel CPU of Broadwell or later, with PT enabled in the firmware");
	else
		fix(add(r, "cpu", CHECK_MISSING, "%s is not an Intel CPU: it has no Intel PT",
			model),
		    "use a machine with an Intel CPU of Broadwell or later");
}

static void check_pmu(const struct capabilities *c, struct check_report *r)
{
	const struct pt_capabilities *pt = &c->pt;

	if (!pt->present) {
		struct check_item *item = add(r, "pmu", CHECK_MISSING,
					      "the kernel has no intel_pt PMU "
					      "(/sys/bus/event_source/devices/intel_pt)");
		if (c->cpu_pt)
			fix(item, "boot a kernel with CONFIG_PERF_EVENTS and CONFIG_CPU_SUP_INTEL, "
				  "and look for \"intel_pt\" or \"PT\" in dmesg");
		return;
	}
	if (pt->open_errno == EBUSY)
		fix(add(r, "pmu", CHECK_MISSING,
			"Intel PT is in use (by another perf, or LBR/BTS)"),
		    "find the user: pgrep -a perf");
	else if (pt->open_errno == 0)
		add(r, "pmu", CHECK_OK, "the kernel drives Intel PT");
	else if (pt->open_errno != EACCES && pt->open_errno != EPERM) /* those: see permissions */
		add(r, "pmu", CHECK_MISSING, "an intel_pt event cannot be opened: %s",
		    strerror(pt->open_errno));
	add(r, "features", CHECK_OK,
	    "cycle packets %s, MTC %s, PTWRITE %s, event trace %s, %u address filters",
	    pt->psb_cyc ? "yes" : "no", pt->mtc ? "yes" : "no", pt->ptwrite ? "yes" : "no",
	    pt->event_trace ? "yes" : "no", pt->address_filters);
}

static void check_kernel(const struct capabilities *c, struct check_report *r)
{
	if (!c->perf_events)
		fix(add(r, "kernel", CHECK_MISSING, "%s has no perf events", c->kernel_release),
		    "boot a kernel with CONFIG_PERF_EVENTS");
	else if (c->kernel.major && !version_at_least(c->kernel, 5, 4))
		fix(add(r, "kernel", CHECK_MISSING, "%s is older than 5.4", c->kernel_release),
		    "use a kernel of 5.4 or later");
	else
		add(r, "kernel", CHECK_OK, "%s", c->kernel_release[0] ? c->kernel_release : "?");
}

static void check_perf(const struct capabilities *c, struct check_report *r)
{
	const struct perf_capabilities *p = &c->perf;

	if (!p->path[0]) {
		fix(add(r, "perf", CHECK_MISSING, "perf is not installed"),
		    "apt-get install linux-perf (Ubuntu: linux-tools-$(uname -r)), dnf install "
		    "perf; or --perf PROGRAM");
		return;
	}
	if (p->unusable)
		fix(add(r, "perf", CHECK_MISSING, "%s does not work: see perf --version", p->path),
		    "install the perf it asks for (Ubuntu: linux-tools-$(uname -r)), or --perf "
		    "PROGRAM");
	else if (p->no_auxtrace)
		fix(add(r, "perf", CHECK_MISSING, "%s is built without AUX area tracing", p->path),
		    "install the distribution's perf, or build it with NO_AUXTRACE unset");
	else if (p->version.major && !version_at_least(p->version, 5, 4))
		fix(add(r, "perf", CHECK_MISSING, "%s is %u.%u, older than 5.4", p->path,
			p->version.major, p->version.minor),
		    "install a perf of 5.4 or later; it need not be that of the running kernel");
	else if (p->version.major)
		add(r, "perf", CHECK_OK, "%s %u.%u: snapshot by %s, build ids in maps %s, kcore %s",
		    p->path, p->version.major, p->version.minor,
		    p->control_snapshot ? "command" : "signal",
		    p->buildid_mmap && c->kernel_mmap_build_id ? "yes" : "no",
		    p->kcore ? "yes" : "no");
	else
		add(r, "perf", CHECK_NOTE, "%s does not tell its version", p->path);
}

static void check_permissions(const struct capabilities *c, struct check_report *r)
{
	int paranoid = c->perf_event_paranoid;
	int refused = c->software_event_errno;

	if (refused && c->seccomp == 2 &&
	    (refused == EPERM || refused == EACCES || refused == ENOSYS) &&
	    capabilities_may_trace_user(c)) {
		fix(add(r, "seccomp", CHECK_MISSING, "a seccomp filter forbids perf_event_open"),
		    c->container
			    ? "docker run --cap-add PERFMON --security-opt "
			      "seccomp=unconfined ... (or a profile that allows perf_event_open)"
			    : "run outside of the sandbox");
		return;
	}
	if (!capabilities_may_trace_user(c)) {
		char tool[PATH_MAX] = "$(command -v perf)";

		if (c->perf.path[0])
			snprintf(tool, sizeof tool, "%s", c->perf.path);
		fix(add(r, "permission", CHECK_MISSING,
			"kernel.perf_event_paranoid is %d and perf has not CAP_PERFMON", paranoid),
		    "sudo sysctl kernel.perf_event_paranoid=2, or sudo setcap "
		    "cap_perfmon,cap_ipc_lock,cap_sys_ptrace=ep %.160s%s",
		    tool, c->container ? ", or docker run --cap-add PERFMON" : "");
		return;
	}
	if (c->pt.open_errno == EACCES || c->pt.open_errno == EPERM)
		fix(add(r, "permission", CHECK_MISSING, "an intel_pt event cannot be opened: %s",
			strerror(c->pt.open_errno)),
		    "run as root, or sudo setcap cap_perfmon=ep %.160s", c->perf.path);
	else
		add(r, "permission", CHECK_OK, "user code may be traced (perf_event_paranoid %d)",
		    paranoid);
	if (capabilities_may_trace_kernel(c))
		add(r, "kernel code", CHECK_OK, "kernel code may be traced (--kernel)");
	else
		fix(add(r, "kernel code", CHECK_NOTE,
			"kernel code may not be traced (perf_event_paranoid %d)", paranoid),
		    "sudo sysctl kernel.perf_event_paranoid=1");
	if (c->kptr_restrict == 2 || (c->kptr_restrict == 1 && !c->root))
		fix(add(r, "kallsyms", CHECK_NOTE,
			"kernel symbols are hidden (kptr_restrict %d): --kernel has no names",
			c->kptr_restrict),
		    "sudo sysctl kernel.kptr_restrict=0");
}

static void check_memory(const struct capabilities *c, struct check_report *r)
{
	uint64_t lockable = capabilities_lockable_bytes(c);
	uint64_t need = (uint64_t)c->cpu_count * ((16 << 20) + (132 << 10));

	if (lockable >= need)
		add(r, "memory", CHECK_OK,
		    "buffers of 16M on %u CPUs lock %" PRIu64 " MiB, which is allowed",
		    c->cpu_count, need >> 20);
	else
		fix(add(r, "memory", CHECK_NOTE,
			"buffers of 16M on %u CPUs lock %" PRIu64 " MiB, %" PRIu64
			" MiB are allowed: smaller ones are used",
			c->cpu_count, need >> 20, lockable >> 20),
		    "sudo sysctl kernel.perf_event_mlock_kb=%" PRIu64
		    ", or ulimit -l unlimited, or give perf CAP_IPC_LOCK",
		    (need / c->cpu_count >> 10) + 1);
}

static void check_container(const struct capabilities *c, struct check_report *r)
{
	if (c->container)
		add(r, "container", CHECK_NOTE, "inside a container: only its processes are seen");
}

void check_build(const struct capabilities *caps, struct check_report *report)
{
	*report = (struct check_report){.ready = true};
	check_cpu(caps, report);
	check_pmu(caps, report);
	check_kernel(caps, report);
	check_perf(caps, report);
	check_permissions(caps, report);
	check_memory(caps, report);
	check_container(caps, report);
}

const struct check_item *check_first_missing(const struct check_report *report)
{
	for (size_t i = 0; i < report->count; i++)
		if (report->items[i].status == CHECK_MISSING)
			return &report->items[i];
	return NULL;
}

static const char *const status_names[] = {"ok", "note", "missing"};

char *check_text(const struct check_report *report)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	for (size_t i = 0; i < report->count; i++) {
		const struct check_item *item = &report->items[i];

		fprintf(out, "%-8s%s: %s%s%s\n", status_names[item->status], item->name, item->text,
			item->fix[0] ? "; fix: " : "", item->fix);
	}
	fprintf(out, report->ready ? "ready\n" : "not ready\n");
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

char *check_json(const struct check_report *report)
{
	json_t *root = json_object(), *checks = json_array();

	for (size_t i = 0; i < report->count; i++) {
		const struct check_item *item = &report->items[i];

		/* A failed allocation makes the pack NULL and the append fail: see below. */
		if (json_array_append_new(checks,
					  json_pack("{s:s, s:s, s:s%, s:s%}", "name", item->name,
						    "status", status_names[item->status], "text",
						    item->text, strlen(item->text), "fix",
						    item->fix, strlen(item->fix))) != 0) {
			json_decref(checks);
			checks = NULL;
			break;
		}
	}
	bool complete = json_object_set_new(root, "ready", json_boolean(report->ready)) == 0 &&
			json_object_set_new(root, "checks", checks) == 0;
	char *text = complete ? json_dumps(root, JSON_INDENT(2)) : NULL;
	json_decref(root);
	return text;
}
