/* SPDX-License-Identifier: MIT */
/*
 * Decides when and where a process reports. reportprint.c writes the text of the
 * report.
 */
#include "life/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/newer.h"
#include "base/signals.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "options/options.h"
#include "options/variables.h"
#include "proc/append.h"
#include "proc/process.h"
#include "check/check.h"
#include "req/stats.h"
#include "life/life.h"
#include "life/reportint.h"
#include "uaio.h"

/* A weak symbol, which is NULL unless the C library is glibc (base/libc.h). */
#pragma weak strerrordesc_np

enum { PATIENCE_NS = 1000000000 };

/* atomic: the id of the thread that is reporting; 0: none; or REPORTED */
static uint32_t reporter;
/* the process has written its last report */
static const uint32_t REPORTED = UINT32_MAX;

static struct output {
	enum uaio_option_id option;
	uaio_print_fn *print;
	/* where to report; immutable after load; empty: no report */
	char path[UAIO_OPTION_PATH_MAX];
	/*
	 * a write to this path has failed, and a message said so: write no more
	 * messages
	 */
	bool has_failed;
} outputs[] = {
	{ .option = UAIO_OPTION_STATS, .print = uaio_print_block },
	{ .option = UAIO_OPTION_STATS_JSON, .print = uaio_print_json },
};
enum { NR_OUTPUTS = sizeof(outputs) / sizeof(outputs[0]) };

/* immutable after load */
static struct {
	int pid;
	/* device and inode of the standard error when the library was loaded */
	dev_t err_dev;
	ino_t err_ino;
	bool has_err;
	/* this process is the one that `uaio run` started */
	bool is_started;
} load;

/* Where the report goes */

/*
 * Return: false if the standard error is now another file than when the library was
 * loaded.
 */
static bool is_our_stderr(void)
{
	struct stat st;

	return load.has_err && sys_fstat(STDERR_FILENO, &st) == 0 &&
	       st.st_dev == load.err_dev && st.st_ino == load.err_ino;
}

static void say_to_stderr(const struct uaio_text *text)
{
	if (is_our_stderr())
		(void)uaio_write_text(STDERR_FILENO, text->buf, text->len);
}

void uaio_report_say(const char *line)
{
	if (is_our_stderr())
		(void)uaio_write_text(STDERR_FILENO, line, strlen(line));
}

static int append(const char *path, const struct uaio_text *text)
{
	/* O_NONBLOCK: if the file is a FIFO that nobody reads, do not wait. */
	int fd = sys_openat(
		AT_FDCWD, path,
		O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
	ssize_t written;

	if (fd < 0)
		return fd;
	(void)sys_fcntl(fd, F_SETFL, O_APPEND);
	written = uaio_append_exceeds(fd, text->len)
			  ? -EFBIG
			  : uaio_write_text(fd, text->buf, text->len);
	(void)sys_close(fd);
	return written == (ssize_t)text->len ? 0
	       : written < 0                 ? (int)written
					     : -ENOSPC;
}

static void write_report(struct output *output, const struct uaio_text *text,
			 int pid)
{
	static char path[UAIO_OPTION_PATH_MAX];
	static struct uaio_text complaint;
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
	/*
	 * Do not use strerror(): it may translate the message, and so allocate memory.
	 */
	uaio_text_add(&complaint, "uaio: cannot write statistics to %s: %s\n",
		      path,
		      strerrordesc_np ? strerrordesc_np(-ret) : "an error");
	say_to_stderr(&complaint);
}

/* What the report says about the process */

static void read_comm(char comm[UAIO_COMM_MAX])
{
	int fd = sys_openat(AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC,
			    0);
	ssize_t got = fd < 0 ? 0 : sys_read(fd, comm, UAIO_COMM_MAX);

	if (got > 0)
		comm[got - 1] = '\0'; /* replaces the newline */
	/*
	 * If /proc is not mounted, use the name under which the process was started.
	 */
	else
		(void)snprintf(comm, UAIO_COMM_MAX, "%s",
			       program_invocation_short_name);
	if (fd >= 0)
		(void)sys_close(fd);
	/* Replace the characters that would make the JSON invalid. */
	for (char *p = comm; *p; p++)
		if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
			*p = '?';
}

static void read_subject(struct uaio_subject *subject)
{
	memset(subject, 0, sizeof(*subject));
	subject->pid = sys_getpid();
	subject->is_started = load.is_started;
	read_comm(subject->comm);
	if (!uaio_engine_is_up())
		return;
	uaio_counters_read(&subject->counters);
	uaio_stats_sum(&subject->stats);
}

/*
 * Return: whether to report. A process that has not used the library reports only at its
 * end (not before an exec), unless it is a child of fork(). A child of vfork() never
 * reports.
 */
static bool is_wanted(const char *counters_path, bool may_go_on)
{
	if (!counters_path && !uaio_config.has_report)
		return false;
	return uaio_engine_is_ours() ||
	       (!uaio_engine_is_up() && sys_getpid() == load.pid && !may_go_on);
}

/*
 * Return: whether this thread may report. Only one thread at a time may report, and
 * none after the last report. If another thread is reporting, wait for it: otherwise
 * the caller might end the process before the report is written. The wait ends after
 * PATIENCE_NS. In a signal handler that interrupted the report, there is no wait.
 */
static bool begin(void)
{
	int64_t patience = uaio_now_ns() + PATIENCE_NS;
	uint32_t me = (uint32_t)sys_gettid(), seen = 0;

	/*
	 * [MB:report] acquire: this thread sees the buffers that the last reporter has
	 * written. Pairs with end().
	 */
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
	/*
	 * [MB:report] release: this thread has written the buffers. Pairs with begin().
	 */
	store_release(&reporter, may_go_on ? 0 : REPORTED);
	uaio_wake(&reporter, ~0u);
}

void uaio_report_init(void)
{
	store_relaxed(&reporter, 0);
}

/* used only by the thread that is reporting */
static struct uaio_subject subject;
static struct uaio_text text;

static void print_to(struct output *output)
{
	text.len = 0;
	output->print(&text, &subject);
	if (text.len)
		write_report(output, &text, subject.pid);
}

void uaio_report(bool may_go_on)
{
	const char *counters_path = secure_getenv("UAIO_COUNTERS");

	if (!may_go_on && uaio_engine_is_ours())
		uaio_check_end();
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
		uaio_print_counters(&text, &subject);
		(void)append(counters_path, &text);
	}
	end(may_go_on);
}

void uaio_report_before_close(void)
{
	bool goes_to_stderr = false;

	for (unsigned i = 0; i < NR_OUTPUTS; i++)
		goes_to_stderr |= !strcmp(outputs[i].path, "-");
	if (!goes_to_stderr || !is_our_stderr() || !is_wanted(NULL, false) ||
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
	/*
	 * Do not use strtol(): newer headers rename it to a function that only glibc
	 * has.
	 */
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

		/*
		 * Store an absolute path, as the program may change its directory
		 * later.
		 */
		if (value && uaio_option_parse(option, value, &is_set) == 0 &&
		    is_set)
			uaio_option_absolute(option, value, outputs[i].path);
	}
}
