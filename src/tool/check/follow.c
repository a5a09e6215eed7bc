/* SPDX-License-Identifier: MIT */
/*
 * Runs the command in a child process, like `uaio run`. If the tool receives a signal
 * it sends the signal to the command, so that a sender may signal either process.
 *
 * Tested by test/run/check.py.
 */
#include "tool/check/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/calls.h"
#include "options/variables.h"
#include "tool/common/children.h"
#include "tool/tool.h"

enum {
	PERIOD_NS = 100000000, /* time between two reads of the reports */
	/*
	 * After the command has ended, wait this number of periods for processes that
	 * it leaves behind.
	 */
	NR_PERIODS_AFTER = 10,
};

struct command {
	const struct uaio_check_how *how;
	pid_t pid;
	int64_t end_ns; /* when to kill the command */
	bool has_ended;
	int status; /* status, as from waitpid() */
};

/* how SIGXFSZ was handled before, as the command inherits this */
static void (*before_xfsz)(int);

void uaio_check_ignore_xfsz(void)
{
	before_xfsz = signal(SIGXFSZ, SIG_IGN);
}

static bool is_apart(const struct command *command)
{
	return command->how->output >= 0;
}

static int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* The signal settings before the tool changed them; the command inherits these. */
struct before {
	sigset_t mask;
	struct sigaction child;
};

/*
 * Block all signals that the tool passes on to the command; next_signal() accepts them
 * one by one. Stop and continue signals are not blocked, because the terminal also
 * sends them to the command. Signals of faults, such as SIGSEGV, are not blocked,
 * either.
 */
static void block_signals(struct before *ret_before)
{
	static const int left[] = {
		SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGKILL, SIGSEGV,
		SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP, SIGSYS,  SIGABRT, SIGXFSZ,
	};
	struct sigaction wait = { .sa_handler = SIG_DFL };
	sigset_t blocked;

	(void)sigfillset(&blocked);
	for (unsigned i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		(void)sigdelset(&blocked, left[i]);
	(void)sigprocmask(SIG_BLOCK, &blocked, &ret_before->mask);
	/*
	 * If SIGCHLD were ignored, as it may be at the start, the tool could not wait
	 * for its children.
	 */
	(void)sigaction(SIGCHLD, &wait, &ret_before->child);
}

static void restore_signals(const struct before *before)
{
	(void)sigaction(SIGCHLD, &before->child, NULL);
	(void)sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

/* Wait one period for a signal. Return: the signal's number, or 0. */
static int next_signal(siginfo_t *ret_info)
{
	const struct timespec period = { .tv_nsec = PERIOD_NS };
	sigset_t taken;
	int signal_number;

	(void)sigprocmask(SIG_BLOCK, NULL, &taken);
	/*
	 * Do not accept SIGPIPE. It arrives when this tool writes to a closed pipe, and
	 * is not needed, because the write itself then fails with EPIPE.
	 */
	(void)sigdelset(&taken, SIGPIPE);
	signal_number = sigtimedwait(&taken, ret_info, &period);
	return signal_number > 0 ? signal_number : 0;
}

/*
 * Return: whether the terminal has also sent the signal to the command. The terminal
 * sends a signal to all processes of the foreground group. The command is in this group
 * unless it has a process group of its own.
 */
static bool is_of_terminal(const struct command *command, int signal_number,
			   const siginfo_t *info)
{
	return !is_apart(command) && info->si_code > 0 &&
	       (signal_number == SIGINT || signal_number == SIGQUIT ||
		signal_number == SIGHUP || signal_number == SIGWINCH);
}

static void pass_on(const struct command *command, int signal_number,
		    const siginfo_t *info)
{
	if (signal_number && signal_number != SIGCHLD && !command->has_ended &&
	    !is_of_terminal(command, signal_number, info))
		(void)kill(is_apart(command) ? -command->pid : command->pid,
			   signal_number);
}

static bool is_ending(int signal_number)
{
	return signal_number == SIGINT || signal_number == SIGTERM ||
	       signal_number == SIGHUP || signal_number == SIGQUIT;
}

/*
 * When the time limit is over, kill the command. If the command has a process group of
 * its own, kill the whole group.
 */
static void limit(const struct command *command, struct uaio_check_run *run)
{
	if (!command->how->limit_ns || run->is_late || command->has_ended ||
	    now_ns() < command->end_ns)
		return;
	run->is_late = true;
	(void)kill(is_apart(command) ? -command->pid : command->pid, SIGKILL);
}

/*
 * Collect the status of children that have ended. Return: whether other children
 * remain.
 */
static bool reap(struct command *command)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == command->pid) {
			command->has_ended = true;
			command->status = status;
		}
	return pid == 0;
}

/*
 * Create the file for the reports of this process, with room for some reports. The
 * command keeps the process id, and so appends to this file.
 * Return: 0 or -errno.
 */
static int make_report_file(const char *dir)
{
	enum { ROOM = 1 << 16 };
	char path[96];
	int fd, r;

	(void)snprintf(path, sizeof(path), "%s/%d", dir, (int)getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write(fd, "\n", 1) < 0 ||
			    (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, ROOM) < 0 &&
			     (errno == ENOSPC || errno == EDQUOT))
		    ? -errno
		    : 0;
	(void)close(fd);
	return r;
}

/*
 * Without /proc the library does not know whether a filter would kill the process for
 * an open(2), and so opens no file (base/calls.h, I2).
 */
static bool may_open_files(void)
{
	const char *word = getenv(UAIO_CALLS_VARIABLE);

	return uaio_calls_nr_filters() >= 0 || (word && !strcmp(word, "all"));
}

/*
 * Prepare the directory `dir` for the command, which this process is about to execute.
 * Return: 0, or the exit status after a message.
 */
static int prepare(const char *dir)
{
	int tells = uaio_check_tell_valgrind(dir), r = make_report_file(dir);

	(void)signal(SIGXFSZ, before_xfsz);
	if (r < 0)
		return uaio_diag(EXIT_REFUSED,
				 "check: cannot write reports to %s: %s: %s",
				 dir, strerror(-r),
				 r == -EFBIG ? "raise ulimit -f"
					     : "set TMPDIR to a directory that "
					       "has room");
	if (tells < 0)
		(void)uaio_diag(0,
				"check: cannot write what valgrind is not to "
				"report: %s",
				strerror(-tells));
	if (!may_open_files())
		return uaio_diag(EXIT_REFUSED,
				 "check: the library would write no report to "
				 "%s, as it cannot tell which system calls are "
				 "allowed: mount /proc, or set UAIO_CALLS=all",
				 dir);
	return 0;
}

/*
 * Execute the command in this process.
 * Return: the exit status, only on failure.
 */
static int become(char **argv, const char *dir,
		  const struct uaio_check_how *how)
{
	static char run[] = "run", always[] = "--uring=always";
	static char fault[] = "--fault", end[] = "--";
	size_t nr = 0, front = 0;
	char **args;
	int r;

	while (argv[nr])
		nr++;
	args = calloc(nr + 6, sizeof(*args));
	if (!args || setenv(UAIO_CHECK_VARIABLE, dir, 1) ||
	    (how->has_hints ? setenv(UAIO_CHECK_HINTS_VARIABLE, "1", 1)
			    : unsetenv(UAIO_CHECK_HINTS_VARIABLE)))
		return uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM));
	r = prepare(dir);
	if (r)
		return r;
	args[front++] = run;
	args[front++] = always;
	if (how->faults && *how->faults) {
		args[front++] = fault;
		args[front++] = (char *)how->faults;
	}
	args[front++] = end;
	memcpy(args + front, argv, nr * sizeof(*args));
	optind = 0; /* getopt() starts again at the first argument */
	return uaio_run_main((int)(front + nr), args);
}

/*
 * Read the processes' reports until the command has ended. Processes that the command
 * leaves behind may be about to end, such as a server that a test has killed. So wait a
 * little for these processes.
 */
static void follow(struct command *command, struct uaio_check_files *files,
		   struct uaio_check_run *run)
{
	int nr_periods = 0;
	bool has_more = true;

	while (has_more &&
	       (!command->has_ended || nr_periods < NR_PERIODS_AFTER)) {
		siginfo_t info;
		int signal_number = next_signal(&info);

		if (is_ending(signal_number))
			run->stopped_by = signal_number;
		pass_on(command, signal_number, &info);
		limit(command, run);
		has_more = reap(command);
		if (signal_number)
			continue;
		uaio_check_files_read(files, false);
		nr_periods += command->has_ended;
	}
	uaio_check_files_read(files, true);
	if (faccessat(dirfd(files->dir), UAIO_CHECK_WHOLE, F_OK, 0) < 0) {
		run->has_lost = true;
		(void)uaio_diag(0,
				"check: a process could not write a report to "
				"%s, and errors may be missing: is there room, "
				"and does ulimit -f allow it?",
				run->dir);
	}
	run->leaves_some = has_more;
	if (has_more && is_apart(command))
		(void)kill(-command->pid, SIGKILL);
}

static int make_directory(char ret_dir[64])
{
	const char *temporary = getenv("TMPDIR");

	if (!temporary || *temporary != '/' || strlen(temporary) > 40)
		temporary = "/tmp";
	(void)snprintf(ret_dir, 64, "%s/uaio-check-XXXXXX", temporary);
	return mkdtemp(ret_dir) ? 0 : -errno;
}

void uaio_check_remove(const char *dir)
{
	DIR *entries = opendir(dir);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		(void)unlinkat(dirfd(entries), entry->d_name, 0);
	if (entries)
		(void)closedir(entries);
	(void)rmdir(dir);
}

/*
 * Give this process an empty input, `output` as its standard output and error, and a
 * process group of its own.
 * Return: 0, or -errno if a descriptor cannot be opened or duplicated.
 */
static int set_apart(int output)
{
	int input = open("/dev/null", O_RDONLY | O_CLOEXEC);

	/*
	 * The parent makes the same call for this process. So the group exists,
	 * whichever of the two processes runs first.
	 */
	(void)setpgid(0, 0);
	return input < 0 || dup2(input, STDIN_FILENO) < 0 ||
			       dup2(output, STDOUT_FILENO) < 0 ||
			       dup2(output, STDERR_FILENO) < 0
		       ? -errno
		       : 0;
}

/* Create the file that a process removes if it cannot write a report. */
static int make_whole(const struct uaio_check_files *files)
{
	int fd = openat(dirfd(files->dir), UAIO_CHECK_WHOLE,
			O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : close(fd);
}

static int start(struct command *command, char **argv, const char *dir,
		 const struct before *before, int *refused)
{
	command->end_ns = now_ns() + command->how->limit_ns;
	command->pid = fork();
	if (command->pid < 0)
		return -errno;
	if (command->pid == 0) {
		int status;

		restore_signals(before);
		if (is_apart(command) && set_apart(command->how->output))
			_exit(EXIT_REFUSED);
		status = become(argv, dir, command->how);
		/* relaxed: the parent reads this after the end of this process */
		store_relaxed(refused, 1);
		_exit(status);
	}
	if (is_apart(command))
		(void)setpgid(command->pid, command->pid);
	return 0;
}

int uaio_check_follow(struct uaio_check_run *ret_run,
		      struct uaio_check_files *files, char **argv,
		      const struct uaio_check_how *how)
{
	struct command command = { .how = how };
	struct before before;
	int *refused = uaio_shared_new(sizeof(*refused));
	int r = refused ? make_directory(ret_run->dir) : -ENOMEM;

	if (!r) {
		block_signals(&before);
		r = uaio_check_files_open(files, ret_run->dir);
		if (!r)
			r = make_whole(files);
		prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
		if (!r)
			r = start(&command, argv, ret_run->dir, &before,
				  refused);
		if (!r)
			follow(&command, files, ret_run);
		if (files->dir)
			uaio_check_files_close(files);
		if (r)
			uaio_check_remove(ret_run->dir);
		restore_signals(&before);
		ret_run->status = command.status;
		ret_run->is_refused = load_relaxed(refused);
	}
	uaio_shared_free(refused, sizeof(*refused));
	return r ? uaio_diag(EXIT_REFUSED, "check: %s: %s", ret_run->dir,
			     strerror(-r))
		 : 0;
}

int uaio_check_end_as(int status)
{
	static const struct rlimit none;
	int signal_number = WTERMSIG(status);
	sigset_t one;

	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	/* Leave no core file of this process: only the command may leave one. */
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)sigemptyset(&one);
	(void)sigaddset(&one, signal_number);
	(void)signal(signal_number, SIG_DFL);
	(void)sigprocmask(SIG_UNBLOCK, &one, NULL);
	(void)raise(signal_number);
	return 128 + signal_number;
}
