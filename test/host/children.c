/* SPDX-License-Identifier: MIT */
/*
 * Cases: processes that create children during I/O by fork in many threads, vfork,
 * posix_spawn, system or daemon
 */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "older.h"

enum { NR = 1000, FAR = 300, FIRST_OF_ENGINE = 512 };

extern char **environ;

/*
 * Children of fork()
 */

/* Run requests of several kinds, so that the library creates threads and queues. */
static void work_once(unsigned round)
{
	aio_context_t ctx = host_context(8);
	struct timespec soon = { .tv_nsec = 100000 };
	struct iocb iocb, *list[] = { &iocb };
	struct io_event events[8];
	struct {
		const sigset_t *mask;
		size_t bytes;
	} no_signals;
	sigset_t mask;
	int ends[2], fd;

	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	fd = host_file(NULL, 64 + 4);
	iocb = host_poll(ends[0]);
	host_submit_all(ctx, 1, list);
	host_write_blocks(ctx, fd, round % 64, 4);
	REQUIRE(close(fd) == 0 && close(ends[0]) == 0);
	host_reap_blocks(ctx, 4);
	sigemptyset(&mask);
	no_signals.mask = &mask;
	no_signals.bytes = 8;
	REQUIRE(host_is_posix() || syscall(SYS_io_pgetevents, ctx, 1l, 1l,
					   events, &soon, &no_signals) == 0);
	REQUIRE(close(ends[1]) == 0);
	REQUIRE(host_reap(ctx, 1, events) == 1);
	REQUIRE(host_destroy(ctx) == 0);
}

static void *work_until_over(void *arg)
{
	unsigned round = 0;

	(void)arg;
	while (!__atomic_load_n(&shared->is_over, __ATOMIC_SEQ_CST))
		work_once(round++);
	return NULL;
}

static aio_context_t inherited;

/*
 * A child of fork() can use no context of its parent, but must be able to create its
 * own.
 */
static int live_as_child(void *arg)
{
	struct timespec now = { 0 };
	struct io_event event;
	struct iocb iocb = host_iocb(IOCB_CMD_NOOP, 0, NULL, 0, 0);

	(void)arg;
	REQUIRE(host_find_fd(FIRST_OF_ENGINE, "") < 0);
	if (!host_is_posix()) {
		REQUIRE(host_submit(inherited, &iocb) == -EINVAL);
		REQUIRE(syscall(SYS_io_getevents, inherited, 0l, 1l, &event,
				&now) == -1 &&
			errno == EINVAL);
		REQUIRE(host_destroy(inherited) == -EINVAL);
	}
	for (unsigned i = 0; i < 3; i++)
		work_once(i);
	return 7;
}

static void *fork_often(void *arg)
{
	(void)arg;
	unsigned nr = host_rounds(host_is_uaio() ? 100 : 10);

	for (unsigned i = 0; i < nr; i++)
		REQUIRE(host_in_child(live_as_child, NULL) == 7);
	return NULL;
}

void fork_storm(void)
{
	pthread_t workers[4], forkers[2];

	inherited = host_context(8);
	for (size_t i = 0; i < NR_ELEMENTS(workers); i++)
		REQUIRE(!pthread_create(&workers[i], NULL, work_until_over,
					NULL));
	for (size_t i = 0; i < NR_ELEMENTS(forkers); i++)
		REQUIRE(!pthread_create(&forkers[i], NULL, fork_often, NULL));
	for (size_t i = 0; i < NR_ELEMENTS(forkers); i++)
		REQUIRE(!pthread_join(forkers[i], NULL));
	__atomic_store_n(&shared->is_over, 1, __ATOMIC_SEQ_CST);
	for (size_t i = 0; i < NR_ELEMENTS(workers); i++)
		REQUIRE(!pthread_join(workers[i], NULL));
	REQUIRE(host_destroy(inherited) == 0);
}

/*
 * vfork(), and functions that use it. Meanwhile a thousand writes are in flight, of
 * which the file system answers none.
 */

struct pending {
	struct slowfs *fs;
	aio_context_t ctx;
	int fd;
};

static struct pending write_held(void)
{
	struct pending pending = { .fs = host_slow_to_close() };

	if (pending.fs)
		slowfs_hold(pending.fs, SLOWFS_WRITE);
	pending.ctx = host_context(NR);
	pending.fd = open("slow/file", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	REQUIRE(pending.fd >= 0);
	host_write_blocks(pending.ctx, pending.fd, 0, NR);
	if (pending.fs)
		slowfs_await(pending.fs, SLOWFS_WRITE, 1);
	return pending;
}

static void let_finish(struct pending *pending)
{
	/*
	 * The file system has still not answered any write. So no child has waited for
	 * the parent's writes.
	 */
	if (pending->fs) {
		REQUIRE(slowfs_nr_done(pending->fs, SLOWFS_WRITE) == 0);
		slowfs_release(pending->fs, SLOWFS_WRITE);
	}
	host_reap_blocks(pending->ctx, NR);
	host_check_blocks("slow/file", NR);
	REQUIRE(close(pending->fd) == 0);
	REQUIRE(host_destroy(pending->ctx) == 0);
	if (pending->fs)
		slowfs_stop(pending->fs);
}

static int await_child(pid_t pid)
{
	REQUIRE(pid > 0);
	return host_finish(pid);
}

/*
 * In the child of vfork(), make the calls that Python's subprocess module makes there.
 */
static pid_t vfork_and_run(const char *path, int file)
{
	char *const argv[] = { "sh", "-c", "echo out; echo err >&2; exit 42",
			       NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid = vfork();

	if (pid == 0) {
		if (dup2(null, 0) != 0 || dup2(null, 1) != 1 ||
		    dup3(null, 2, 0) != 2 || close(file) != 0 ||
		    dup2(null, file) != file || close(null) != 0)
			_exit(97);
		if (close_range(3, ~0u, 0) != 0)
			_exit(96);
		closefrom(3);
		execve(path, argv, environ);
		_exit(98);
	}
	REQUIRE(close(null) == 0);
	return pid;
}

void vfork_starts_at_once(void)
{
	struct pending pending = write_held();

	for (unsigned i = 0; i < 20; i++) {
		REQUIRE(await_child(vfork_and_run("/bin/sh", pending.fd)) ==
			42);
		REQUIRE(await_child(vfork_and_run("/nonexistent",
						  pending.fd)) == 98);
	}
	let_finish(&pending);
}

/*
 * A child of vfork() must be able to close and replace descriptors of the library, just
 * as it can close and replace the program's descriptors.
 */
void vfork_numbers(void)
{
	enum { NR_AFTER = 8 };
	int flags[NR_AFTER];
	aio_context_t ctx = host_context(4);
	struct io_event event;
	struct iocb iocb;
	int ends[2], number;
	pid_t pid;

	REQUIRE(pipe(ends) == 0);
	iocb = host_poll(ends[0]);
	REQUIRE(host_submit(ctx, &iocb) == 1);
	number = host_find_fd(FIRST_OF_ENGINE, "[eventfd]");
	REQUIRE(number >= 0);
	pid = vfork();
	if (pid == 0) {
		for (int i = 0; i < NR_AFTER; i++)
			flags[i] = fcntl(number + 1 + i, F_GETFD);
		if (dup2(ends[1], number) != number ||
		    fcntl(number, F_GETFL) != O_WRONLY || close(number) ||
		    fcntl(number, F_GETFL) != -1)
			_exit(1);
		/*
		 * In the parent, dup2() would have moved the library's file to another
		 * descriptor. In this child it must not have done so.
		 */
		for (int i = 0; i < NR_AFTER; i++)
			if (fcntl(number + 1 + i, F_GETFD) != flags[i])
				_exit(3);
		if (close(ends[0]) || close(ends[1]) ||
		    syscall(SYS_close_range, 3, ~0u, 0))
			_exit(2);
		_exit(42);
	}
	REQUIRE(await_child(pid) == 42);
	REQUIRE(host_find_fd(FIRST_OF_ENGINE, "[eventfd]") == number);
	REQUIRE(write(ends[1], "x", 1) == 1);
	REQUIRE(host_reap(ctx, 1, &event) == 1);
	REQUIRE(host_destroy(ctx) == 0);
}

/* AIO calls in a child of vfork() must start no thread and must not harm the parent. */
static void call_in_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		aio_context_t ctx = 0;

		(void)syscall(SYS_io_setup, 4, &ctx);
		if (ctx) {
			struct iocb iocb =
				host_iocb(IOCB_CMD_FSYNC, FAR, NULL, 0, 0);

			(void)host_submit(ctx, &iocb);
			(void)host_destroy(ctx);
		}
		_exit(42);
	}
	REQUIRE(await_child(pid) == 42);
}

void vfork_makes_calls(void)
{
	REQUIRE(dup2(open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0644), FAR) ==
		FAR);
	/*
	 * Call AIO in a child of vfork() before the library has started, then before it
	 * has threads, then with its threads.
	 */
	call_in_vfork();
	REQUIRE(host_destroy(host_context(4)) == 0);
	call_in_vfork();
	work_once(0);
	call_in_vfork();
	REQUIRE(host_in_child(live_as_child, NULL) == 7);
	work_once(0);
}

/*
 * A shell script that exits with status 1 if it has inherited a descriptor of the
 * library (512 and higher).
 */
#define LIST                                        \
	"for f in /proc/self/fd/*; do f=${f##*/}; " \
	"test $f -lt 512 || test $f = 255 || exit 1; done; exit 42"

void spawn_starts_at_once(void)
{
	char *const argv[] = { "sh", "-c", LIST, NULL };
	struct pending pending = write_held();
	struct io_event event;
	struct iocb iocb;
	FILE *stream;
	char line[16];
	int ends[2];
	pid_t pid;

	/* Make the library open descriptors of all kinds that it uses. */
	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	iocb = host_poll(ends[0]);
	{
		aio_context_t ctx = host_context(4);

		REQUIRE(host_submit(ctx, &iocb) == 1);
		REQUIRE(close(ends[0]) == 0);

		REQUIRE(!posix_spawn(&pid, "/bin/sh", NULL, NULL, argv,
				     environ));
		REQUIRE(await_child(pid) == 42);
		REQUIRE(!posix_spawnp(&pid, "sh", NULL, NULL, argv, environ));
		REQUIRE(await_child(pid) == 42);
		REQUIRE(WEXITSTATUS(system(LIST)) == 42);
		stream = popen("echo here", "re");
		REQUIRE(stream && fgets(line, sizeof(line), stream));
		REQUIRE(!strcmp(line, "here\n") && pclose(stream) == 0);
		pid = fork();
		if (pid == 0)
			execv("/bin/sh", argv);
		REQUIRE(await_child(pid) == 42);

		REQUIRE(write(ends[1], "x", 1) == 1);
		REQUIRE(host_reap(ctx, 1, &event) == 1);
		REQUIRE(host_destroy(ctx) == 0);
	}
	let_finish(&pending);
}

/* daemon() ends its caller by an _exit() inside the C library, which uaio cannot see */

static int become_daemon(void *arg)
{
	const char *path = arg;
	aio_context_t ctx = host_context(NR);
	int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);

	REQUIRE(fd >= 0);
	host_write_blocks(ctx, fd, 0, NR);
	host_step(1);
	REQUIRE(daemon(1, 0) == 0);
	/* In the daemon, the library starts again. */
	inherited = ctx;
	(void)live_as_child(NULL);
	host_step(2);
	return 0;
}

void daemon_finishes(void)
{
	struct slowfs *fs = host_slow();
	pid_t pid;

	if (fs)
		slowfs_hold(fs, SLOWFS_WRITE);
	pid = host_start(become_daemon, "slow/file");
	host_await_step(1);
	if (fs) {
		host_await_sleep(pid);
		slowfs_release(fs, SLOWFS_WRITE);
	}
	REQUIRE(host_finish(pid) == 0);
	host_check_blocks("slow/file", NR);
	host_await_step(2);
	if (fs)
		slowfs_stop(fs);
}
