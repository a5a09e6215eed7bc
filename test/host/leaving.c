/* SPDX-License-Identifier: MIT */
/*
 * Cases: each way to end a process, or replace its program, after io_submit accepted
 * writes. Afterwards the file must contain all these writes.
 */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "late.h"
#include "older.h"

enum { NR = 1000, STATUS = 42 };

/*
 * The program that replaces this one: a shell that checks its arguments and
 * environment.
 */
#define SHELL "/bin/sh"
#define SCRIPT "test $0-$1-$2-$MARK = name-one-two-yes && exit 42"
#define ARGS "name", "one", "two"

static char *const argv[] = { "sh", "-c", SCRIPT, ARGS, NULL };
static char *const envp[] = { "MARK=yes", "PATH=/bin:/usr/bin", NULL };

static void by_exit(void)
{
	exit(STATUS);
}

static void by_return(void)
{
	host_return(STATUS);
}

static void by_quick_exit(void)
{
	quick_exit(STATUS);
}

static void by_underscore_exit(void)
{
	_exit(STATUS);
}

static void by_underscore_capital_exit(void)
{
	_Exit(STATUS);
}

static void by_exit_group(void)
{
	syscall(SYS_exit_group, STATUS);
}

static void *exit_elsewhere(void *arg)
{
	(void)arg;
	exit(STATUS);
}

static void by_exit_in_a_thread(void)
{
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, exit_elsewhere, NULL));
	for (;;)
		pause();
}

static void by_execve(void)
{
	execve(SHELL, argv, envp);
}

static void by_execv(void)
{
	setenv("MARK", "yes", 1);
	execv(SHELL, argv);
}

static void by_execvp(void)
{
	setenv("MARK", "yes", 1);
	execvp("sh", argv);
}

static void by_execvpe(void)
{
	execvpe("sh", argv, envp);
}

static void by_execl(void)
{
	setenv("MARK", "yes", 1);
	execl(SHELL, "sh", "-c", SCRIPT, ARGS, (char *)NULL);
}

static void by_execlp(void)
{
	setenv("MARK", "yes", 1);
	execlp("sh", "sh", "-c", SCRIPT, ARGS, (char *)NULL);
}

static void by_execle(void)
{
	execle(SHELL, "sh", "-c", SCRIPT, ARGS, (char *)NULL, envp);
}

static void by_fexecve(void)
{
	fexecve(open(SHELL, O_RDONLY | O_CLOEXEC), argv, envp);
}

static void by_execveat(void)
{
	execveat(open("/bin", O_PATH | O_CLOEXEC), "sh", argv, envp, 0);
}

static void by_execve_number(void)
{
	syscall(SYS_execve, SHELL, argv, envp);
}

static void by_execveat_number(void)
{
	syscall(SYS_execveat, AT_FDCWD, SHELL, argv, envp, 0);
}

static void by_exec_from_a_thread(void)
{
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, (void *(*)(void *))by_execve,
				NULL));
	for (;;)
		pause();
}

static const struct way {
	const char *name;
	void (*leave)(void);
} ways[] = {
	{ "exit", by_exit },
	{ "return", by_return },
	{ "quick_exit", by_quick_exit },
	{ "_exit", by_underscore_exit },
	{ "_Exit", by_underscore_capital_exit },
	{ "exit_group", by_exit_group },
	{ "exit in a thread", by_exit_in_a_thread },
	{ "execve", by_execve },
	{ "execv", by_execv },
	{ "execvp", by_execvp },
	{ "execvpe", by_execvpe },
	{ "execl", by_execl },
	{ "execlp", by_execlp },
	{ "execle", by_execle },
	{ "fexecve", by_fexecve },
	{ "execveat", by_execveat },
	{ "SYS_execve", by_execve_number },
	{ "SYS_execveat", by_execveat_number },
	{ "execve in a thread", by_exec_from_a_thread },
};

static const struct way *way_named(const char *name)
{
	const struct way *way = ways;

	while (strcmp(way->name, name))
		way++;
	return way;
}

static struct attempt {
	const struct way *way;
	char path[64];
	unsigned
		nr_reads; /* how many reads the file system leaves unanswered */
	/* how many writes are submitted before the reads */
	unsigned nr_early;
} attempt;

static struct attempt *attempt_of(const struct way *way, const char *folder)
{
	attempt.way = way;
	snprintf(attempt.path, sizeof(attempt.path), "%s/%s", folder,
		 way->name);
	host_step(0);
	return &attempt;
}

static int create(const char *path)
{
	int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);

	REQUIRE(fd >= 0);
	return fd;
}

static void read_for_ever(aio_context_t ctx, unsigned nr)
{
	static char buf[BLOCK];
	int fd = create("slow/reads");

	for (unsigned i = 0; i < nr; i++) {
		struct iocb iocb = host_iocb(IOCB_CMD_PREAD, fd, buf, BLOCK, 0);

		REQUIRE(host_submit(ctx, &iocb) == 1);
	}
}

static int write_and_leave(void *arg)
{
	const struct attempt *this = arg;
	aio_context_t ctx = host_context(3 * NR);
	int fd = create(this->path);
	struct iocb sync = host_iocb(IOCB_CMD_FSYNC, fd, NULL, 0, 0);

	if (this->nr_reads) {
		host_write_blocks(ctx, fd, 0, this->nr_early);
		read_for_ever(ctx, this->nr_reads);
		host_step(1);
		host_await_step(2);
	}
	host_write_blocks(ctx, fd, this->nr_early, NR - this->nr_early);
	REQUIRE(host_submit(ctx, &sync) == 1);
	host_step(3);
	this->way->leave();
	return 1;
}

/*
 * Hold the process's writes in the file system: the process must not end before the
 * file system answers them.
 */
static void leave_slowly(struct slowfs *fs, const struct way *way)
{
	struct attempt *this = attempt_of(way, "slow");
	unsigned nr_syncs;
	pid_t pid;

	if (fs) {
		slowfs_hold(fs, SLOWFS_WRITE);
		nr_syncs = slowfs_nr_done(fs, SLOWFS_SYNC);
	}
	pid = host_start(write_and_leave, this);
	host_await_step(3);
	if (fs) {
		slowfs_await(fs, SLOWFS_WRITE, 1);
		host_await_sleep(pid);
		slowfs_release(fs, SLOWFS_WRITE);
	}
	printf("%s\n", way->name);
	REQUIRE(host_finish(pid) == STATUS);
	host_check_blocks(this->path, NR);
	if (fs)
		REQUIRE(slowfs_nr_done(fs, SLOWFS_SYNC) == nr_syncs + 1);
	REQUIRE(unlink(this->path) == 0 || errno == ENOSYS);
}

void leaving_slow(void)
{
	for (size_t i = 0; i < NR_ELEMENTS(ways); i++) {
		struct slowfs *fs = host_slow();

		leave_slowly(fs, &ways[i]);
		if (fs)
			slowfs_stop(fs);
	}
}

/*
 * The file system answers no read. Reads occupy all workers that one device may have,
 * and hundreds of further reads are queued. The process then submits writes to another
 * file system and ends. is_slow: the writes go to the same device, and the first one,
 * submitted before the reads, occupies one of these workers. No worker is free for the
 * other writes, so the thread that ends the process must execute them.
 */
static void leave_behind_reads(const struct way *way, bool is_slow)
{
	enum { WORKERS = 256 };
	struct slowfs *fs = host_slow();
	pid_t pid;

	attempt.nr_reads = NR;
	attempt.nr_early = is_slow;
	slowfs_hold(fs, SLOWFS_READ);
	if (is_slow)
		slowfs_hold(fs, SLOWFS_WRITE);
	pid = host_start(write_and_leave,
			 attempt_of(way, is_slow ? "slow" : "."));
	host_await_step(1);
	slowfs_await(fs, SLOWFS_READ, is_slow ? WORKERS - 1 : WORKERS);
	host_step(2);
	host_await_step(3);
	if (is_slow) {
		slowfs_await(fs, SLOWFS_WRITE, 1);
		host_await_sleep(pid);
		slowfs_release(fs, SLOWFS_WRITE);
	}
	REQUIRE(host_finish(pid) == STATUS);
	slowfs_release(fs, SLOWFS_READ);
	host_check_blocks(attempt.path, NR);
	slowfs_stop(fs);
}

void leaving_behind_reads(void)
{
	static const char *const names[] = { "exit", "_exit", "execve",
					     "quick_exit" };

	for (size_t i = 0; i < NR_ELEMENTS(names); i++) {
		const struct way *way = way_named(names[i]);

		leave_behind_reads(way, false);
		leave_behind_reads(way, true);
	}
}

/*
 * Each way to end a process. The file system answers the writes at once, so the process
 * ends while workers write.
 */
void leaving_fast(void)
{
	for (unsigned round = 0; round < host_rounds(10); round++)
		for (size_t i = 0; i < NR_ELEMENTS(ways); i++) {
			struct attempt *this = attempt_of(&ways[i], ".");

			REQUIRE(host_in_child(write_and_leave, this) == STATUS);
			host_check_blocks(this->path, NR);
			REQUIRE(unlink(this->path) == 0);
		}
}

/*
 * Many reads wait for one line of a terminal. Only one read gets the line. When the
 * process ends, the other reads must end too, wherever they wait.
 */
static int read_terminal_and_leave(void *arg)
{
	enum { READS = 8 };
	static char lines[READS][16];
	const struct attempt *this = arg;
	aio_context_t ctx = host_context(READS + NR);
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), terminal;
	struct io_event event;

	REQUIRE(grantpt(master) == 0 && unlockpt(master) == 0);
	terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	for (unsigned i = 0; i < READS; i++) {
		struct iocb iocb = host_iocb(IOCB_CMD_PREAD, terminal, lines[i],
					     sizeof(lines[i]), 0);

		REQUIRE(host_submit(ctx, &iocb) == 1);
	}
	REQUIRE(write(master, "line\n", 5) == 5);
	REQUIRE(host_reap(ctx, 1, &event) == 1 && event.res == 5);
	host_write_blocks(ctx, create(this->path), 0, NR);
	this->way->leave();
	return 1;
}

void leaving_terminals(void)
{
	for (size_t i = 0; i < NR_ELEMENTS(ways); i++) {
		struct attempt *this = attempt_of(&ways[i], ".");

		REQUIRE(host_in_child(read_terminal_and_leave, this) == STATUS);
		host_check_blocks(this->path, NR);
		REQUIRE(unlink(this->path) == 0);
	}
}

/*
 * For write_late(), which submits writes in a destructor that runs after the library's
 * own destructor.
 */
static struct {
	aio_context_t ctx;
	int fd;
} late;

static void write_late(void)
{
	host_write_blocks(late.ctx, late.fd, NR, 10);
}

static int write_and_exit(void *arg)
{
	late.fd = create(arg);
	late.ctx = host_context(NR + 10);
	host_write_blocks(late.ctx, late.fd, 0, NR);
	late_hook = write_late;
	exit(STATUS);
}

void leaving_late(void)
{
	REQUIRE(host_in_child(write_and_exit, "late") == STATUS);
	host_check_blocks("late", NR + 10);
}

/*
 * main() ends the program's only thread by pthread_exit(). The process must end,
 * although a poll request waits for ever.
 */
static int write_and_end_main(void *arg)
{
	aio_context_t ctx = host_context(NR + 1);
	struct iocb iocb;
	int ends[2];

	REQUIRE(pipe(ends) == 0);
	iocb = host_poll(ends[0]);
	REQUIRE(host_submit(ctx, &iocb) == 1);
	host_write_blocks(ctx, create(arg), 0, NR);
	pthread_exit(NULL);
}

void leaving_by_pthread_exit(void)
{
	REQUIRE(host_in_child(write_and_end_main, "end") == 0);
	host_check_blocks("end", NR);
}

/*
 * Each kind of exec fails, and the process continues: its requests must still work.
 */
static int fail_and_go_on(void *arg)
{
	static char *const none[] = { "none", NULL };
	aio_context_t ctx = host_context(NR);
	int fd = create(arg);

	host_write_blocks(ctx, fd, 0, NR - 10);
	host_step(1);
	host_await_step(2);
	errno = 0;
	REQUIRE(execve("/nonexistent", none, envp) < 0 && errno == ENOENT);
	REQUIRE(execv("/nonexistent", none) < 0 && errno == ENOENT);
	REQUIRE(execvp("nonexistent", none) < 0 && errno == ENOENT);
	REQUIRE(execvpe("nonexistent", none, envp) < 0 && errno == ENOENT);
	REQUIRE(execl("/nonexistent", "x", (char *)NULL) < 0);
	REQUIRE(execlp("nonexistent", "x", (char *)NULL) < 0);
	REQUIRE(execle("/nonexistent", "x", (char *)NULL, envp) < 0);
	REQUIRE(execveat(-1, "none", none, envp, 0) < 0 && errno == EBADF);
	REQUIRE(fexecve(fd, none, envp) < 0 && errno == EACCES);
	REQUIRE(syscall(SYS_execve, "/nonexistent", none, envp) < 0);
	REQUIRE(syscall(SYS_execveat, -1, "none", none, envp, 0) < 0);
	host_reap_blocks(ctx, NR - 10);
	host_step(3);
	host_await_step(4);
	/*
	 * io_submit must return, although the file system has not answered any write
	 * yet.
	 */
	host_write_blocks(ctx, fd, NR - 10, 10);
	host_step(5);
	host_reap_blocks(ctx, 10);
	REQUIRE(host_destroy(ctx) == 0);
	return STATUS;
}

void exec_fails(void)
{
	struct slowfs *fs = host_slow();
	pid_t pid;

	if (fs)
		slowfs_hold(fs, SLOWFS_WRITE);
	pid = host_start(fail_and_go_on, "slow/file");
	host_await_step(1);
	host_step(2);
	if (fs) {
		host_await_sleep(pid);
		slowfs_release(fs, SLOWFS_WRITE);
	}
	host_await_step(3);
	if (fs)
		slowfs_hold(fs, SLOWFS_WRITE);
	host_step(4);
	host_await_step(5);
	if (fs)
		slowfs_release(fs, SLOWFS_WRITE);
	REQUIRE(host_finish(pid) == STATUS);
	host_check_blocks("slow/file", NR);
	if (fs)
		slowfs_stop(fs);
}

/*
 * A thread submits writes, and counts each accepted write in shared memory. Another
 * thread ends the program at a random moment.
 */
static _Noreturn void *submit_and_tell(void *arg)
{
	aio_context_t ctx = host_context(NR);
	int fd = host_file(arg, NR);

	for (unsigned i = 0; i < NR; i++) {
		host_write_blocks(ctx, fd, i, 1);
		__atomic_store_n(&shared->accepted, i + 1, __ATOMIC_SEQ_CST);
	}
	for (;;)
		pause();
}

static int submit_under_exec(void *arg)
{
	unsigned after = *(unsigned *)arg;
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, submit_and_tell, "race"));
	while (__atomic_load_n(&shared->accepted, __ATOMIC_SEQ_CST) < after)
		;
	execve(SHELL, argv, envp);
	return 1;
}

void exec_loses_nothing(void)
{
	for (unsigned round = 0; round < host_rounds(100); round++) {
		unsigned after = 1 + round * 7 % (NR / 2), accepted;
		char seen[BLOCK];
		int fd;

		__atomic_store_n(&shared->accepted, 0, __ATOMIC_SEQ_CST);
		REQUIRE(host_in_child(submit_under_exec, &after) == STATUS);
		accepted = __atomic_load_n(&shared->accepted, __ATOMIC_SEQ_CST);
		REQUIRE(accepted >= after);
		fd = open("race", O_RDONLY);
		/*
		 * The file may have one more block: just before the end, io_submit
		 * accepted a write that the thread could not count.
		 */
		REQUIRE(truncate("race", (off_t)accepted * BLOCK) == 0);
		for (unsigned i = 0; i < accepted; i++)
			REQUIRE(pread(fd, seen, BLOCK, (off_t)i * BLOCK) ==
				BLOCK);
		host_check_blocks("race", accepted);
		REQUIRE(close(fd) == 0 && unlink("race") == 0);
	}
}

/*
 * Ends the process or replaces its program. Called by a signal handler that has
 * interrupted io_submit.
 */
static void (*leave_from_handler)(void);
static volatile sig_atomic_t until_leaving;

static void on_alarm(int sig)
{
	(void)sig;
	if (--until_leaving == 0)
		leave_from_handler();
}

static int submit_until_handled(void *arg)
{
	struct sigaction action = { .sa_handler = on_alarm };
	aio_context_t ctx = host_context(64);
	int fd = host_file("handled", 16);
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGUSR1 };
	struct itimerspec spec = { { 0, 200000 }, { 0, 200000 } };
	timer_t timer;

	leave_from_handler = ((const struct way *)arg)->leave;
	until_leaving = 20;
	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	REQUIRE(timer_settime(timer, 0, &spec, NULL) == 0);
	for (;;) {
		struct io_event events[16];

		host_write_blocks(ctx, fd, 0, 16);
		for (long left = 16; left;) {
			long got = host_reap(ctx, left, events);

			REQUIRE(got >= 0 || got == -EINTR);
			left -= got > 0 ? got : 0;
		}
	}
}

void handler_exits(void)
{
	static const char *const names[] = { "_exit", "_Exit", "exit_group",
					     "execve", "SYS_execve" };

	for (unsigned round = 0; round < host_rounds(20); round++)
		for (size_t i = 0; i < NR_ELEMENTS(names); i++) {
			const struct way *way = way_named(names[i]);

			REQUIRE(host_in_child(submit_until_handled,
					      (void *)way) == STATUS);
		}
}
