/* SPDX-License-Identifier: MIT */
/*
 * conform [--raw | --calls] [group | row]...
 * conform --list [group | row]...
 * conform --differences | --library
 *
 * Prints a line for each test case (row): its group, its name and its fields, separated
 * by tabs. Each test case runs in its own process and its own new directory, with a
 * deadline. When a test case ends, conform removes the files in that directory.
 *
 * --raw makes the test cases call syscall(2) instead of libaio's functions. --calls is
 * for the test cases of stream.h, whose requests wait. Kernel AIO would block in
 * io_submit, so it cannot show what these requests should return. With --calls, a
 * thread makes a plain system call in place of each request.
 *
 * --list prints a line for each intended difference that a test case shows. The line
 * has the group, the test case, the difference, and two environment variables. The
 * first variable removes the difference; without the second the difference does not
 * exist. The next field names the only file system on which the test case shows the
 * difference, or is empty. Then follow pairs of fields: first what the kernel gives,
 * then what uaio gives. --differences prints doc/differences.md. --library prints the
 * path of the library that answers, so that the caller can check it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conform.h"
#include "ring.h"
#include "stream.h"

/*
 * Deadline that ends a test case that hangs. A wait inside a test case ends earlier,
 * after PATIENCE_MS.
 */
enum { ROW_SECONDS = 240 };

const struct group groups[] = {
	{ "setup", rows_setup },
	{ "handle", rows_handle },
	{ "ring", rows_ring },
	{ "submit", rows_submit },
	{ "memory", rows_memory },
	{ "file", rows_file },
	{ "rw", rows_rw },
	{ "vector", rows_vector },
	{ "flags", rows_flags },
	{ "direct", rows_direct },
	{ "large", rows_large },
	{ "whole", rows_whole },
	{ "sync", rows_sync },
	{ "poll", rows_poll },
	{ "cancel", rows_cancel },
	{ "getevents", rows_getevents },
	{ "signal", rows_signal },
	{ "raw", rows_raw },
	{ "compat", rows_compat },
	{ "process", rows_process },
	{ "files", rows_files },
	{ "others", rows_others },
	{ "polls", rows_polls },
	{ "atonce", rows_atonce },
	{ "stream", rows_stream },
	{ "edges", rows_edges },
	{ "uring-setup", rows_uring_setup },
	{ "uring-enter", rows_uring_enter },
	{ "uring-cq", rows_uring_cq },
	{ "uring-rw", rows_uring_rw },
	{ "uring-link", rows_uring_link },
	{ "uring-skip", rows_uring_skip },
	{ "uring-timeout", rows_uring_timeout },
	{ "uring-poll", rows_uring_poll },
	{ "uring-cancel", rows_uring_cancel },
	{ "uring-random", rows_uring_random },
	{ "uring-register", rows_uring_register },
	{ "uring-fixed", rows_uring_fixed },
	{ "uring-buffers", rows_uring_buffers },
	{ "uring-direct", rows_uring_direct },
	{ "uring-regbuf", rows_uring_regbuf },
	{ "uring-pass", rows_uring_pass },
	{ "uring-fd", rows_uring_fd },
	{ "uring-ring", rows_uring_ring },
	{ "uring-socket", rows_uring_socket },
	{ "uring-first", rows_uring_first },
	{ "uring-hint", rows_uring_hint },
	{ "uring-multishot", rows_uring_multishot },
	{ "uring-bundle", rows_uring_bundle },
	{ "uring-send", rows_uring_send },
	{ "uring-fields", rows_uring_fields },
	{ "uring-flags", rows_uring_flags },
	{ "uring-files", rows_uring_files },
	{ "uring-msg", rows_uring_msg },
	{ "uring-futex", rows_uring_futex },
	{ "uring-waitid", rows_uring_waitid },
	{ "uring-mistakes", rows_uring_mistakes },
	{ "uring-restrict", rows_uring_restrict },
	{ "uring-layout", rows_uring_layout },
	{ "uring-mixed", rows_uring_mixed },
	{ "uring-resize", rows_uring_resize },
	{ "uring-query", rows_uring_query },
	{ "uring-region", rows_uring_region },
	{ "posix-submit", rows_posix_submit },
	{ "posix-state", rows_posix_state },
	{ "posix-cancel", rows_posix_cancel },
	{ "posix-list", rows_posix_list },
	{ "posix-notice", rows_posix_notice },
	{ "posix-order", rows_posix_order },
	{ NULL, NULL },
};

const struct row *this_row;

void add_row(struct row rows[], size_t nr_max, const struct row *row,
	     const char *format, ...)
{
	va_list args;
	size_t nr = 0;
	char *name;

	while (rows[nr].name)
		nr++;
	va_start(args, format);
	if (nr == nr_max || vasprintf(&name, format, args) < 0)
		abort();
	va_end(args);
	rows[nr] = *row;
	rows[nr].name = name;
}

static int remove_entry(const char *path, const struct stat *st, int type,
			struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static _Noreturn void run_row(const struct row *row, const char *dir,
			      int out_fd)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(out_fd, STDOUT_FILENO) < 0 || chdir(dir) < 0)
		_exit(1);
	close(out_fd);
	alarm(ROW_SECONDS);
	this_row = row;
	row->run();
	rings_note();
	_exit(0);
}

/*
 * Copies to stdout what the test case writes to the pipe fd.
 * Return: false if the test case took too long.
 */
static bool copy_fields(int fd)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };
	char text[4096];
	ssize_t len;

	for (;;) {
		if (poll(&readable, 1, (ROW_SECONDS + 2) * 1000) <= 0)
			return false;
		len = read(fd, text, sizeof(text));
		if (len <= 0)
			return true;
		fwrite(text, 1, (size_t)len, stdout);
	}
}

/*
 * Return: the name of a signal that may end a test case. Old C libraries lack
 * sigabbrev_np(), which would return this name.
 */
static const char *signal_name(int number)
{
	static const char *const names[] = {
		[SIGHUP] = "HUP",   [SIGINT] = "INT",   [SIGQUIT] = "QUIT",
		[SIGILL] = "ILL",   [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT",
		[SIGBUS] = "BUS",   [SIGFPE] = "FPE",   [SIGKILL] = "KILL",
		[SIGUSR1] = "USR1", [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
		[SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
		[SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ", [SIGIO] = "IO",
		[SIGSYS] = "SYS",
	};
	bool is_known =
		number > 0 && number < (int)(sizeof(names) / sizeof(names[0]));

	return is_known && names[number] ? names[number] : "?";
}

static void print_row(const struct group *group, const struct row *row)
{
	const char *base = getenv("CONFORM_DIR");
	char dir[PATH_MAX];
	int fds[2], status;
	pid_t pid;

	snprintf(dir, sizeof(dir), "%s/conform-XXXXXX",
		 base ? base : "/var/tmp");
	if (!mkdtemp(dir) || pipe2(fds, O_CLOEXEC) < 0) {
		perror("conform");
		exit(2);
	}
	printf("%s\t%s", group->name, row->name);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_row(row, dir, fds[1]);
	close(fds[1]);
	if (pid < 0 || !copy_fields(fds[0]))
		printf("\tended=deadline");
	close(fds[0]);
	if (pid > 0) {
		kill(-pid, SIGKILL);
		waitpid(pid, &status, 0);
		if (WIFSIGNALED(status))
			printf("\tended=SIG%s", signal_name(WTERMSIG(status)));
	}
	putchar('\n');
	fflush(stdout);
	nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static void list_row(const struct group *group, const struct row *row)
{
	const struct showing *showing = row->differs;
	const struct pair *pair;

	for (; showing && showing->difference; showing++) {
		printf("%s\t%s\t%s\t%s\t%s\t%s", group->name, row->name,
		       showing->difference->title,
		       showing->difference->unless ?: "",
		       showing->difference->with ?: "",
		       showing->file_system ?: "");
		for (pair = showing->pairs; pair->kernel; pair++)
			printf("\t%s\t%s", pair->kernel, pair->uaio);
		putchar('\n');
	}
}

static bool is_wanted(const struct group *group, const struct row *row,
		      char **wanted)
{
	if (!*wanted)
		return true;
	for (; *wanted; wanted++)
		if (!strcmp(*wanted, group->name) ||
		    !strcmp(*wanted, row->name))
			return true;
	return false;
}

static int print_library(void)
{
	void *io_setup = dlsym(RTLD_DEFAULT, "io_setup");
	char path[PATH_MAX];
	Dl_info info;

	if (!io_setup || !dladdr(io_setup, &info) ||
	    !realpath(info.dli_fname, path))
		return 2;
	puts(path);
	return 0;
}

int main(int argc, char **argv)
{
	const struct group *group;
	const struct row *row;
	bool is_list = false;
	int arg;

	make_matrix();
	make_streams();
	make_edges();
	make_polls();
	make_atonce();
	make_uring_matrix();
	make_posix();

	for (arg = 1; arg < argc && argv[arg][0] == '-'; arg++) {
		if (!strcmp(argv[arg], "--library"))
			return print_library();
		if (!strcmp(argv[arg], "--differences"))
			return print_differences();
		if (!strcmp(argv[arg], "--list"))
			is_list = true;
		else if (!strcmp(argv[arg], "--raw"))
			door = DOOR_SYSCALL;
		else if (!strcmp(argv[arg], "--calls"))
			by_calls = true;
		else
			return 2;
	}
	for (group = groups; group->name; group++) {
		for (row = group->rows; row->name; row++) {
			if (!is_wanted(group, row, argv + arg))
				continue;
			if (is_list)
				list_row(group, row);
			else
				print_row(group, row);
		}
	}
	return 0;
}
