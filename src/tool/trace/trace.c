/* SPDX-License-Identifier: MIT */
/*
 * uaio trace: runs a command, and writes a line for each of its requests, when the
 * request completes
 *
 * The command runs as under `uaio run`, and finds the ring for its records
 * (trace/ring.h) by an environment variable. If the tracer ends, the command continues.
 * Processes that the command leaves behind become children of the tracer, so the tracer
 * knows when all have ended.
 *
 * Tested by test/run/trace.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/faults.h"
#include "tool/common/pages.h"
#include "tool/tool.h"
#include "tool/trace/tracing.h"

enum {
	/*
	 * The longest sleep between two reads of the ring. At a million requests a
	 * second, a thread fills a third of its lane (its part of the ring) in this
	 * time. When the tracer reads a lane's head, the writing thread loses the
	 * head's cache line. So the tracer reads seldom.
	 */
	NAP_MAX_US = 5000,
	NAP_MIN_US = NAP_MAX_US / 32,
	MANY = UAIO_TRACE_RECORDS / 4,
	FEW = UAIO_TRACE_RECORDS / 16,
	FLUSH_NS = 50000000,
	OUTPUT_BYTES = 1 << 16,
};

static struct {
	struct uaio_trace_filter filter;
	const char *output,
		*chrome; /* path of the file for trace viewers; NULL: not wanted */
	/* open files; NULL: not wanted, or closed after a failed write */
	FILE *lines, *viewer;
	bool has_begun;
	bool has_failed;  /* a write has failed */
	uint64_t nr_lost; /* lost records that were reported */
	unsigned nr_pids;
	int pids[UAIO_FOLLOWED_MAX]; /* processes to trace (--pid) */
} trace;

static uint32_t is_stopped; /* atomic */

/* how SIGXFSZ was handled before, as the command inherits this */
static void (*before_xfsz)(int);

static void stop(int signal_number)
{
	(void)signal_number;
	/* relaxed: read by the same thread */
	store_relaxed(&is_stopped, 1);
}

/* Options */

static void print_help(void)
{
	puts("usage: uaio trace [option...] [--] command [argument...]\n"
	     "       uaio trace [option...] -p PID [-p PID...]\n"
	     "\n"
	     "Starts the command as uaio run does, or attaches to processes "
	     "that run, and\n"
	     "writes a line for each of their asynchronous requests, as it "
	     "ends, to the\n"
	     "standard error.\n"
	     "\n"
	     "  -p, --pid PID       trace that process, which uses the "
	     "library\n"
	     "  -o, --output FILE   write the lines to FILE\n"
	     "  --chrome FILE       write a file for trace viewers "
	     "(ui.perfetto.dev)\n"
	     "  --op NAME[,NAME]    only these operations, as in read,fsync\n"
	     "  --file PATTERN      only files with such a path, as in "
	     "'*.ibd'\n"
	     "  --errors            only requests that ended with an error\n"
	     "  --slower TIME       only what took longer, as in 5ms\n"
	     "  -h, --help          show this");
}

enum { CHROME = 256, OP, FILE_, ERRORS, SLOWER };

static int add_pid(const char *text)
{
	int pid = uaio_pages_pid(text);

	if (pid < 0)
		return uaio_diag(EXIT_REFUSED,
				 "trace: %s: expected a process id", text);
	for (unsigned i = 0; i < trace.nr_pids; i++)
		if (trace.pids[i] == pid)
			return 0;
	if (trace.nr_pids == UAIO_FOLLOWED_MAX)
		return uaio_diag(EXIT_REFUSED,
				 "trace: at most %d processes at a time",
				 UAIO_FOLLOWED_MAX);
	trace.pids[trace.nr_pids++] = pid;
	return 0;
}

static int set_option(int c)
{
	switch (c) {
	case 'p': return add_pid(optarg);
	case 'o': trace.output = optarg; return 0;
	case CHROME: trace.chrome = optarg; return 0;
	case FILE_: trace.filter.file = optarg; return 0;
	case ERRORS: trace.filter.is_errors_only = true; return 0;
	case OP:
		if (uaio_operations_parse(optarg, &trace.filter.ops) == 0)
			return 0;
		return uaio_diag(EXIT_REFUSED,
				 "--op=%s: expected operations such as read, "
				 "write or fsync, separated by commas",
				 optarg);
	case SLOWER:
		if (uaio_time_parse(optarg, &trace.filter.slower_ns) == 0)
			return 0;
		return uaio_diag(EXIT_REFUSED,
				 "--slower=%s: expected a time such as 5ms, in "
				 "ns, us, ms or s",
				 optarg);
	default: return EXIT_REFUSED;
	}
}

/*
 * Return: 0: the command, if there is one, is at argv[optind]. -1: there is nothing
 * left to do, and *ret_status is the exit status.
 */
static int read_flags(int argc, char **argv, int *ret_status)
{
	static const struct option flags[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "pid", required_argument, NULL, 'p' },
		{ "chrome", required_argument, NULL, CHROME },
		{ "op", required_argument, NULL, OP },
		{ "file", required_argument, NULL, FILE_ },
		{ "errors", no_argument, NULL, ERRORS },
		{ "slower", required_argument, NULL, SLOWER },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = uaio_flags_next(argc, argv, "+ho:p:", flags)) != -1) {
		*ret_status = 0;
		if (c == 'h')
			print_help();
		else
			*ret_status = set_option(c);
		if (c == 'h' || *ret_status)
			return -1;
	}
	if (!trace.nr_pids != (optind == argc))
		return 0;
	*ret_status = uaio_diag(
		EXIT_REFUSED,
		optind < argc ? "trace: %s: a command and processes that run "
				"cannot be traced together"
			      : "trace: which command? See uaio trace --help",
		argv[optind]);
	return -1;
}

/* Output */

/*
 * Return: the file at this path, opened for writing; a stream for stderr if path is
 * NULL.
 */
static FILE *open_file(const char *path)
{
	FILE *file =
		path ? fopen(path, "we")
		     : fdopen(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), "w");

	if (!file)
		uaio_diag(0, "trace: %s: %s", path ? path : "standard error",
			  strerror(errno));
	else
		(void)setvbuf(file, NULL, _IOFBF, OUTPUT_BYTES);
	return file;
}

/* Return: whether both streams write to one regular file. */
static bool are_same(FILE *one, FILE *other)
{
	struct stat st, others;

	return fstat(fileno(one), &st) == 0 &&
	       fstat(fileno(other), &others) == 0 && S_ISREG(st.st_mode) &&
	       st.st_dev == others.st_dev && st.st_ino == others.st_ino;
}

static int open_output(void)
{
	if (trace.chrome && !(trace.viewer = open_file(trace.chrome)))
		return EXIT_REFUSED;
	if ((trace.output || !trace.chrome) &&
	    !(trace.lines = open_file(trace.output)))
		return EXIT_REFUSED;
	if (trace.lines && trace.viewer && are_same(trace.lines, trace.viewer))
		return uaio_diag(EXIT_REFUSED,
				 "trace: %s: --output and --chrome need a file "
				 "each",
				 trace.output);
	return 0;
}

void uaio_trace_begin(void)
{
	trace.has_begun = true;
	if (trace.lines)
		uaio_lines_begin(trace.lines);
	if (trace.viewer)
		uaio_chrome_begin(trace.viewer);
	/*
	 * Flush before the fork: otherwise the child would write the buffered lines,
	 * too.
	 */
	(void)uaio_trace_flush(0);
}

static void put(const struct uaio_traced *traced, void *arg)
{
	(void)arg;
	if (!uaio_trace_filter_passes(&trace.filter, traced))
		return;
	if (trace.lines)
		uaio_line(trace.lines, traced);
	if (trace.viewer)
		uaio_chrome(trace.viewer, traced);
}

/*
 * If an output file cannot be written, report this and stop writing to it. The command
 * continues.
 */
static void check_file(FILE **file)
{
	if (!*file || (fflush(*file) == 0 && !ferror(*file)))
		return;
	uaio_diag(0, "trace: cannot write: %s", strerror(errno));
	trace.has_failed = true;
	*file = NULL;
}

void uaio_trace_tell_lost(uint64_t nr_lost)
{
	if (trace.lines && nr_lost != trace.nr_lost)
		uaio_line_lost(trace.lines, nr_lost - trace.nr_lost);
	trace.nr_lost = nr_lost;
}

static void end_output(uint64_t nr_lost)
{
	if (!trace.has_begun)
		return;
	uaio_trace_tell_lost(nr_lost);
	if (trace.viewer)
		uaio_chrome_end(trace.viewer, nr_lost);
	check_file(&trace.lines);
	check_file(&trace.viewer);
	if (nr_lost)
		uaio_diag(0,
			  "trace: %llu records were lost: there were more than "
			  "could be written",
			  (unsigned long long)nr_lost);
}

uint64_t uaio_trace_write(struct uaio_trace_ring *ring)
{
	return uaio_records_take(ring, put, NULL);
}

bool uaio_trace_flush(uint64_t nr_taken)
{
	static int64_t flushed_ns;
	int64_t now_ns = uaio_trace_now_ns();

	if (nr_taken && now_ns - flushed_ns < FLUSH_NS)
		return true;
	flushed_ns = now_ns;
	check_file(&trace.lines);
	check_file(&trace.viewer);
	return trace.lines || trace.viewer;
}

bool uaio_trace_is_stopped(void)
{
	/* relaxed: a signal handler of this thread wrote it */
	return load_relaxed(&is_stopped);
}

void uaio_trace_nap(uint64_t nr_taken)
{
	static unsigned nap_us = NAP_MAX_US;
	struct timespec time;

	if (nr_taken > MANY && nap_us > NAP_MIN_US)
		nap_us /= 2;
	if (nr_taken < FEW && nap_us < NAP_MAX_US)
		nap_us *= 2;
	time = (struct timespec){ .tv_nsec = nap_us * 1000l };
	(void)nanosleep(&time, NULL);
}

static int follow_processes(void)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
	uint64_t nr_lost;
	int status;

	for (unsigned i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		signal(ending[i], stop);
	signal(SIGPIPE, SIG_IGN);
	status = uaio_follow(trace.pids, trace.nr_pids, &nr_lost);
	end_output(nr_lost);
	return !status && trace.has_failed ? EXIT_FAILURE : status;
}

/* The command */

/*
 * Execute the command in this process. The command opens the ring by the tracer's
 * descriptor in /proc.
 */
static int run(char **command, int nr, int fd)
{
	char path[64], **argv = calloc((size_t)nr + 3, sizeof(*argv));

	if (!argv)
		return uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM));
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getppid(), fd);
	setenv(UAIO_TRACE_VARIABLE, path, 1);
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	argv[0] = (char[]){ "run" };
	argv[1] = (char[]){ "--" };
	memcpy(argv + 2, command, (size_t)nr * sizeof(*argv));
	optind = 0; /* getopt() starts again at the first argument */
	return uaio_run_main(nr + 2, argv);
}

static int status_of(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/*
 * Collect the status of children that have ended.
 * Return: whether other children still run. *ret_status: the command's status, once it
 * has ended.
 */
static bool reap(pid_t command, int *ret_status)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == command)
			*ret_status = status_of(status);
	return pid == 0;
}

/*
 * Write records to the output until all processes have ended.
 * Return: the exit status.
 */
static int follow(struct uaio_trace_ring *ring, pid_t command)
{
	int status = 0;
	bool is_running = true;

	while (is_running && !uaio_trace_is_stopped()) {
		uint64_t nr;

		is_running = reap(command, &status);
		nr = uaio_trace_write(ring);
		uaio_trace_tell_lost(uaio_records_lost(ring));
		(void)uaio_trace_flush(nr);
		if (is_running)
			uaio_trace_nap(nr);
	}
	return uaio_trace_is_stopped() ? 128 + SIGTERM : status;
}

static int follow_command(int argc, char **argv)
{
	struct uaio_trace_ring *ring;
	int fd = uaio_records_open(&ring), status;
	pid_t command;

	if (fd < 0)
		return uaio_diag(EXIT_REFUSED,
				 "trace: cannot make the ring of records: %s%s",
				 strerror(-fd),
				 fd == -EFBIG    ? ": raise ulimit -f"
				 : fd == -ENOENT ? ": mount /proc"
						 : "");
	uaio_trace_begin();
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	/*
	 * An interrupt from the terminal also reaches the command, which decides what
	 * it does.
	 */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGTERM, stop);
	signal(SIGPIPE, SIG_IGN);
	command = fork();
	if (command < 0)
		return uaio_diag(EXIT_REFUSED, "trace: %s", strerror(errno));
	if (command == 0) {
		signal(SIGPIPE, SIG_DFL);
		signal(SIGXFSZ, before_xfsz);
		exit(run(argv + optind, argc - optind, fd));
	}
	status = follow(ring, command);
	end_output(uaio_records_lost(ring));
	return status;
}

int uaio_trace_main(int argc, char **argv)
{
	int status;

	if (read_flags(argc, argv, &status) < 0)
		return status;
	status = open_output();
	if (status)
		return status;
	/* A write beyond the limit of `ulimit -f` shall only fail. */
	before_xfsz = signal(SIGXFSZ, SIG_IGN);
	return trace.nr_pids ? follow_processes() : follow_command(argc, argv);
}
