/* SPDX-License-Identifier: MIT */
#include "life/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/newer.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "options/operations.h"
#include "options/options.h"
#include "options/variables.h"
#include "proc/process.h"
#include "req/stats.h"
#include "life/door.h"
#include "life/life.h"
#include "uaio.h"

/* Only glibc has it: see base/libc.h. */
#pragma weak strerrordesc_np

enum {
	COMM_MAX = 16,
	PATIENCE_NS = 1000000000,
};

/* atomic: the thread that reports, 0 if none does, or REPORTED */
static uint32_t reporter;
static const uint32_t REPORTED = UINT32_MAX; /* no more reports */

/* atomic: why a client was not served, or NULL */
static const char *unserved;

/* Rings of the kernel's, beside those of the library. All atomic, relaxed. */
static struct {
	int pid; /* whose rings they are: a child of fork() has made none */
	uint64_t nr;
	const char *why;   /* the kernel and not the library makes them */
	const char *limit; /* that made the kernel refuse one, or NULL */
} kernels;

/* The data of a report. */
struct subject {
	int pid;
	char comm[COMM_MAX];
	struct uaio_counters counters;
	struct uaio_stats_sum stats;
};

struct text {
	char buf[8192];
	size_t len;
};

typedef void print_fn(struct text *text, const struct subject *subject);

static print_fn print_block, print_json;

static struct output {
	enum uaio_option_id option;
	print_fn *print;
	/* immutable after load; empty: not wanted */
	char path[UAIO_OPTION_PATH_MAX];
	bool has_failed; /* and the user has been told */
} outputs[] = {
	{ .option = UAIO_OPTION_STATS, .print = print_block },
	{ .option = UAIO_OPTION_STATS_JSON, .print = print_json },
};
enum { NR_OUTPUTS = sizeof(outputs) / sizeof(outputs[0]) };

/* immutable after load */
static struct {
	int pid;
	dev_t err_dev; /* the file that the standard error was */
	ino_t err_ino;
	bool has_err;
	bool is_started; /* `uaio run` has become this process */
} load;

static const char *const time_names[UAIO_NR_TIMES] = {
	[UAIO_TIME_SUBMIT] = "submit",   [UAIO_TIME_WAIT] = "queue wait",
	[UAIO_TIME_PAGES] = "page wait", [UAIO_TIME_SERVICE] = "service",
	[UAIO_TIME_TOTAL] = "total",
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text,
						      const char *format, ...)
{
	size_t room = sizeof(text->buf) - text->len;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text->buf + text->len, room, format, args);
	va_end(args);
	if (len > 0)
		text->len += (size_t)len < room ? (size_t)len : room - 1;
}

/* the block */

static void add_us(struct text *text, uint64_t ns)
{
	add(text, " %10" PRIu64 ".%" PRIu64, ns / 1000, ns % 1000 / 100);
}

static void add_times(struct text *text, const char *name,
		      const struct uaio_time_sum *time)
{
	add(text, "  %-12s", name);
	if (!time->nr) {
		add(text, " %12s %12s %12s %12s\n", "-", "-", "-", "-");
		return;
	}
	add_us(text, time->p50);
	add_us(text, time->p99);
	add_us(text, time->p999);
	add_us(text, time->max);
	add(text, "\n");
}

static void add_ways(struct text *text, const char *name,
		     const uint64_t nr[UAIO_NR_WAYS])
{
	uint64_t sum = 0;

	for (unsigned way = 0; way < UAIO_NR_WAYS; way++)
		sum += nr[way];
	if (!sum)
		return;
	add(text, "  %-12s", name);
	for (unsigned way = 0; way < UAIO_NR_WAYS; way++)
		add(text, " %12" PRIu64, nr[way]);
	add(text, "\n");
}

static void add_direct(struct text *text, const uint64_t *nr)
{
	if (nr[UAIO_DIRECT_CUT] + nr[UAIO_DIRECT_BOUNCED])
		add(text,
		    "  direct: %" PRIu64 " in %" PRIu64
		    " segments, bounced %" PRIu64 "\n",
		    nr[UAIO_DIRECT_CUT], nr[UAIO_DIRECT_SEGMENTS],
		    nr[UAIO_DIRECT_BOUNCED]);
	if (nr[UAIO_DIRECT_KERNEL])
		add(text, "  direct: %" PRIu64 " by kernel AIO\n",
		    nr[UAIO_DIRECT_KERNEL]);
	if (nr[UAIO_DIRECT_URING])
		add(text, "  by io_uring: %" PRIu64 "\n",
		    nr[UAIO_DIRECT_URING]);
}

/* What chance or the user has made fail is not what the program would see. */
static void add_faults(struct text *text, const uint64_t *nr)
{
	if (!uaio_config.has_faults)
		return;
	add(text, "  FAULTS ON PURPOSE:");
	for (unsigned i = 0; i < UAIO_NR_FAULT_KINDS; i++)
		add(text, "%s %s %" PRIu64, i ? "," : "", uaio_fault_names[i],
		    nr[i]);
	add(text, "; results and times are not the files' own\n");
}

/* No door was used: "made no io_setup call", or "a, b or c call". */
static void add_unused(struct text *text)
{
	const char *call;

	add(text, "made no");
	for (unsigned n = 0; (call = uaio_door_first_call(n)); n++)
		add(text, "%s %s",
		    !n                            ? ""
		    : uaio_door_first_call(n + 1) ? ","
						  : " or",
		    call);
	add(text, " call; programs that it starts are named if they make "
		  "one\n");
}

/* Return: whether this process, and not one that it was forked from, made the rings. */
static bool is_maker_of_rings(void)
{
	return load_relaxed(&kernels.pid) == sys_getpid();
}

/* This process makes a ring: forget those of the process that it was forked from. */
static void begin_rings(void)
{
	if (likely(is_maker_of_rings()))
		return;
	store_relaxed(&kernels.nr, 0);
	store_relaxed(&kernels.limit, NULL);
	store_relaxed(&kernels.pid, sys_getpid());
}

/* Return: why a client was not served, or NULL. */
static const char *why_unserved(void)
{
	const char *why = load_relaxed(&unserved);

	/* Of a process with rings of both kinds, add_rings() says more. */
	return why || load_relaxed(&kernels.limit) ? why
						   : load_relaxed(&kernels.why);
}

/* "33 by the kernel, 967 by uaio: RLIMIT_MEMLOCK" */
static void add_rings(struct text *text, uint64_t nr_ours)
{
	const char *limit = load_relaxed(&kernels.limit);

	if (limit && is_maker_of_rings())
		add(text,
		    "  rings: %" PRIu64 " by the kernel, %" PRIu64
		    " by uaio: %s\n",
		    load_relaxed(&kernels.nr), nr_ours, limit);
}

static void add_unserved(struct text *text)
{
	const char *why = why_unserved();

	if (why)
		add(text, "  not served: %s\n", why);
}

/* Add a number and what it counts: what has an s unless it is one. */
static void add_number(struct text *text, uint64_t nr, const char *noun,
		       const char *after)
{
	add(text, "%" PRIu64 " %s%s%s", nr, noun, nr == 1 ? "" : "s", after);
}

static uint64_t nr_contexts(const struct subject *s)
{
	return s->counters.nr_setups - s->stats.nr_rings;
}

/* What was set up; a program without rings is told that it has no context. */
static void add_setups(struct text *text, const struct subject *s)
{
	const uint64_t nr = nr_contexts(s), nr_rings = s->stats.nr_rings;

	if (nr || !nr_rings)
		add_number(text, nr, "context", nr_rings ? " and " : "\n");
	if (nr_rings)
		add_number(text, nr_rings, "ring", "\n");
}

static void print_block(struct text *text, const struct subject *s)
{
	const struct uaio_stats_sum *stats = &s->stats;
	/* POSIX AIO has requests, and nothing that is set up. */
	bool is_used = s->counters.nr_setups || stats->nr_accepted;

	/* With LD_PRELOAD a container has hundreds that use nothing: no word. */
	if (!is_used && !load.is_started && !why_unserved())
		return;
	add(text, "uaio: %s[%d]: ", s->comm, s->pid);
	if (!is_used) {
		add_unused(text);
		add_unserved(text);
		return;
	}
	add_number(text, stats->nr_accepted, "request", " in ");
	add_number(text, stats->nr_submits, "call", ", ");
	add_setups(text, s);
	add(text,
	    "  completed %" PRIu64 ", in flight at most %" PRIu32
	    ", threads %" PRIu32 ", at once at most %" PRIu32 "\n",
	    stats->nr_completed, stats->peak_in_flight, stats->nr_threads,
	    stats->peak_threads);
	add_rings(text, stats->nr_rings);
	add(text, "  %-12s %12s %12s %12s\n", "requests", uaio_way_names[0],
	    uaio_way_names[1], uaio_way_names[2]);
	for (unsigned op = 0; op < UAIO_NR_OPS; op++)
		add_ways(text, uaio_op_names[op], stats->nr_by_way[op]);
	add_direct(text, stats->nr_direct);
	add_faults(text, stats->nr_faults);
	add(text, "  %-12s %12s %12s %12s %12s\n", "time in us", "p50", "p99",
	    "p99.9", "max");
	for (unsigned time = 0; time < UAIO_NR_TIMES; time++)
		add_times(text, time_names[time], &stats->times[time]);
	add_unserved(text);
}

/* the line of JSON */

static void add_json_times(struct text *text, const struct uaio_time_sum *time)
{
	add(text,
	    "{\"count\": %" PRIu64 ", \"p50\": %" PRIu64 ", \"p99\": %" PRIu64
	    ", \"p99.9\": %" PRIu64 ", \"max\": %" PRIu64 "}",
	    time->nr, time->p50, time->p99, time->p999, time->max);
}

static void print_json(struct text *text, const struct subject *s)
{
	const struct uaio_stats_sum *stats = &s->stats;

	add(text,
	    "{\"schema\": 2, \"pid\": %d, \"comm\": \"%s\", "
	    "\"contexts\": %" PRIu64 ", \"rings\": %" PRIu64
	    ", \"submits\": %" PRIu64 ", \"accepted\": %" PRIu64
	    ", \"completed\": %" PRIu64 ", \"wakeups\": %" PRIu64
	    ", \"peak_in_flight\": %" PRIu32
	    ", \"threads\": {\"started\": %" PRIu32 ", \"peak\": %" PRIu32
	    "}, \"requests\": {",
	    s->pid, s->comm, nr_contexts(s), stats->nr_rings, stats->nr_submits,
	    stats->nr_accepted, stats->nr_completed, s->counters.nr_wakeups,
	    stats->peak_in_flight, stats->nr_threads, stats->peak_threads);
	for (unsigned op = 0; op < UAIO_NR_OPS; op++) {
		add(text, "%s\"%s\": {", op ? ", " : "", uaio_op_names[op]);
		for (unsigned way = 0; way < UAIO_NR_WAYS; way++)
			add(text, "%s\"%s\": %" PRIu64, way ? ", " : "",
			    uaio_way_names[way], stats->nr_by_way[op][way]);
		add(text, "}");
	}
	add(text,
	    "}, \"direct\": {\"cut\": %" PRIu64 ", \"segments\": %" PRIu64
	    ", \"bounced\": %" PRIu64 ", \"kernel_aio\": %" PRIu64
	    ", \"io_uring\": %" PRIu64 "}, \"faults\": {",
	    stats->nr_direct[UAIO_DIRECT_CUT],
	    stats->nr_direct[UAIO_DIRECT_SEGMENTS],
	    stats->nr_direct[UAIO_DIRECT_BOUNCED],
	    stats->nr_direct[UAIO_DIRECT_KERNEL],
	    stats->nr_direct[UAIO_DIRECT_URING]);
	for (unsigned i = 0; i < UAIO_NR_FAULT_KINDS; i++)
		add(text, "%s\"%s\": %" PRIu64, i ? ", " : "",
		    uaio_fault_names[i], stats->nr_faults[i]);
	add(text, "}, \"ns\": {");
	for (unsigned time = 0; time < UAIO_NR_TIMES; time++) {
		add(text, "%s\"%s\": ", time ? ", " : "",
		    uaio_time_names[time]);
		add_json_times(text, &stats->times[time]);
	}
	add(text, "}}\n");
}

/* the counters */

static void print_counters(struct text *text, const struct subject *s)
{
	const struct uaio_counters *c = &s->counters;

	add(text,
	    "{\"pid\": %d, \"comm\": \"%s\", \"requests\": %" PRIu64
	    ", \"inline\": %" PRIu64 ", \"worker\": %" PRIu64
	    ", \"contexts\": %" PRIu64 ", \"wakeups\": %" PRIu64 "}\n",
	    s->pid, s->comm, c->nr_requests, c->nr_inline, c->nr_worker,
	    c->nr_setups, c->nr_wakeups);
}

/* destinations */

/* Return: false if the host has put another file in the place of ours. */
static bool is_our_stderr(void)
{
	struct stat st;

	return load.has_err && sys_fstat(STDERR_FILENO, &st) == 0 &&
	       st.st_dev == load.err_dev && st.st_ino == load.err_ino;
}

static void say_to_stderr(const struct text *text)
{
	if (is_our_stderr())
		(void)sys_write(STDERR_FILENO, text->buf, text->len);
}

void uaio_report_say(const char *line)
{
	if (is_our_stderr())
		(void)sys_write(STDERR_FILENO, line, strlen(line));
}

/* Store the constant text *why unless one is there. Return: whether it was stored. */
static bool note_once(const char **reason, const char *why)
{
	const char *none = NULL;

	return cas_relaxed(reason, &none, why);
}

static void say_unserved(const char *why)
{
	char line[256];

	if (!uaio_config.says_lost)
		return;
	(void)snprintf(line, sizeof(line), "uaio: library: not served: %s\n",
		       why);
	uaio_report_say(line);
}

void uaio_report_unserved(const char *why)
{
	if (note_once(&unserved, why))
		say_unserved(why);
}

void uaio_report_kernels_ring(const char *why)
{
	begin_rings();
	(void)add_relaxed(&kernels.nr, 1);
	if (note_once(&kernels.why, why))
		say_unserved(why);
}

void uaio_report_limited_ring(const char *limit)
{
	char line[256];

	begin_rings();
	if (!note_once(&kernels.limit, limit) || !uaio_config.is_verbose)
		return;
	(void)snprintf(line, sizeof(line),
		       "uaio: library: the kernel refuses an io_uring (%s): "
		       "the library makes it; rings of the kernel's so far: "
		       "%" PRIu64 "\n",
		       limit, load_relaxed(&kernels.nr));
	uaio_report_say(line);
}

/* A write beyond the limit of files' sizes would raise SIGXFSZ. */
static bool is_beyond_limit(int fd, const struct text *text)
{
	struct rlimit limit;
	struct stat st;

	return sys_getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	       limit.rlim_cur != RLIM_INFINITY && sys_fstat(fd, &st) == 0 &&
	       S_ISREG(st.st_mode) &&
	       (uint64_t)st.st_size + text->len > limit.rlim_cur;
}

static int append(const char *path, const struct text *text)
{
	int fd = sys_openat(AT_FDCWD, path,
			    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	ssize_t written;

	if (fd < 0)
		return fd;
	written = is_beyond_limit(fd, text)
			  ? -EFBIG
			  : sys_write(fd, text->buf, text->len);
	(void)sys_close(fd);
	return written == (ssize_t)text->len ? 0
	       : written < 0                 ? (int)written
					     : -ENOSPC;
}

static void put_out(struct output *output, const struct text *text, int pid)
{
	static char path[UAIO_OPTION_PATH_MAX];
	static struct text complaint;
	int ret;

	if (!strcmp(output->path, "-")) {
		say_to_stderr(text);
		return;
	}
	ret = uaio_option_path(output->path, pid, path);
	if (ret == 0)
		ret = append(path, text);
	if (ret == 0 || output->has_failed)
		return;
	output->has_failed = true;
	complaint.len = 0;
	/* Not strerror(): it may translate, and so allocate. */
	add(&complaint, "uaio: cannot write statistics to %s: %s\n", path,
	    strerrordesc_np ? strerrordesc_np(-ret) : "an error");
	say_to_stderr(&complaint);
}

/* the process */

static void read_comm(char comm[COMM_MAX])
{
	int fd = sys_openat(AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC,
			    0);
	ssize_t got = fd < 0 ? 0 : sys_read(fd, comm, COMM_MAX);

	if (got > 0)
		comm[got - 1] = '\0'; /* it ends in a newline */
	else /* there is no /proc: the name by which it was started */
		(void)snprintf(comm, COMM_MAX, "%s",
			       program_invocation_short_name);
	if (fd >= 0)
		(void)sys_close(fd);
	/* These characters would break the JSON; all others are harmless. */
	for (char *p = comm; *p; p++)
		if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
			*p = '?';
}

static void read_subject(struct subject *subject)
{
	memset(subject, 0, sizeof(*subject));
	subject->pid = sys_getpid();
	read_comm(subject->comm);
	if (!uaio_engine_is_up())
		return;
	uaio_counters_read(&subject->counters);
	uaio_stats_sum(&subject->stats);
}

/*
 * No report of a child that has not used the library, of a child of vfork(), or
 * before an exec of a process that has not used it.
 */
static bool is_wanted(const char *counters_path, bool may_go_on)
{
	if (!counters_path && !uaio_config.has_report)
		return false;
	return uaio_engine_is_ours() ||
	       (!uaio_engine_is_up() && sys_getpid() == load.pid && !may_go_on);
}

/*
 * Return: whether this thread may report: one at a time may, and none after the
 * end has reported. A thread that comes while another reports waits, because it
 * would end the process otherwise; but not for ever, and not if it is a signal
 * handler that interrupted the report.
 */
static bool begin(void)
{
	int64_t patience = uaio_now_ns() + PATIENCE_NS;
	uint32_t me = (uint32_t)sys_gettid(), seen = 0;

	/* [MB:report] acquire: the buffers. Pairs with end(). */
	while (!cas_acquire(&reporter, &seen, me)) {
		if (seen == REPORTED || seen == me || uaio_now_ns() >= patience)
			return false;
		(void)uaio_sleep(&reporter, seen, patience);
		seen = 0;
	}
	return true;
}

static void end(bool may_go_on)
{
	/* [MB:report] release: the buffers. Pairs with begin(). */
	store_release(&reporter, may_go_on ? 0 : REPORTED);
	uaio_wake(&reporter, ~0u);
}

void uaio_report_init(void)
{
	store_relaxed(&reporter, 0);
}

/* of the thread that reports */
static struct subject subject;
static struct text text;

static void print_to(struct output *output)
{
	text.len = 0;
	output->print(&text, &subject);
	if (text.len)
		put_out(output, &text, subject.pid);
}

void uaio_report(bool may_go_on)
{
	const char *counters_path = secure_getenv("UAIO_COUNTERS");

	if (!is_wanted(counters_path, may_go_on))
		return;
	if (!begin())
		return;
	read_subject(&subject);
	for (unsigned i = 0; i < NR_OUTPUTS; i++)
		if (outputs[i].path[0])
			print_to(&outputs[i]);
	if (counters_path && *counters_path && uaio_engine_is_up()) {
		text.len = 0;
		print_counters(&text, &subject);
		(void)append(counters_path, &text);
	}
	end(may_go_on);
}

void uaio_report_before_close(void)
{
	bool is_for_it = false;

	for (unsigned i = 0; i < NR_OUTPUTS; i++)
		is_for_it |= !strcmp(outputs[i].path, "-");
	if (!is_for_it || !is_our_stderr() || !is_wanted(NULL, false) ||
	    !begin())
		return;
	read_subject(&subject);
	for (unsigned i = 0; i < NR_OUTPUTS; i++)
		if (!strcmp(outputs[i].path, "-"))
			print_to(&outputs[i]);
	end(true);
}

void uaio_report_load(void)
{
	const char *started = secure_getenv(UAIO_RUN_PID_VARIABLE);
	struct stat st;
	char pid[16];

	load.pid = sys_getpid();
	/* Not by strtol(): newer headers call it by a name that only glibc has. */
	(void)snprintf(pid, sizeof(pid), "%d", load.pid);
	load.is_started = started && !strcmp(started, pid);
	load.has_err = sys_fstat(STDERR_FILENO, &st) == 0;
	if (load.has_err) {
		load.err_dev = st.st_dev;
		load.err_ino = st.st_ino;
	}
	for (unsigned i = 0; i < NR_OUTPUTS; i++) {
		const struct uaio_option *option =
			&uaio_options[outputs[i].option];
		const char *value = secure_getenv(option->variable);
		uint64_t is_set = 0;

		/* The host may change its directory and its environment. */
		if (value && uaio_option_parse(option, value, &is_set) == 0 &&
		    is_set)
			uaio_option_absolute(option, value, outputs[i].path);
	}
}
