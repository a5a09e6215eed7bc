/* SPDX-License-Identifier: MIT */
/* Cases: programs that look up and call the functions of uaio.h. */
#include "host.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "uaio.h"

static struct {
	int (*set_workers)(int max_workers[2]);
	int (*get_workers)(int ret_max_workers[2]);
	int (*set_fixed)(struct uaio_wq_fixed fixed[2]);
	int (*get_fixed)(struct uaio_wq_fixed ret_fixed[2]);
	int (*cancel)(uint64_t ctx, const void *iocb);
	int (*cancel_fd)(uint64_t ctx, int fd);
	int (*cancel_all)(uint64_t ctx);
} lib;

static void *find(const char *name)
{
	void *function = dlsym(RTLD_DEFAULT, name);

	REQUIRE(function);
	return function;
}

static void find_all(void)
{
	lib.set_workers = (int (*)(int *))find("uaio_wq_set_workers");
	lib.get_workers = (int (*)(int *))find("uaio_wq_get_workers");
	lib.set_fixed =
		(int (*)(struct uaio_wq_fixed *))find("uaio_wq_set_fixed");
	lib.get_fixed =
		(int (*)(struct uaio_wq_fixed *))find("uaio_wq_get_fixed");
	lib.cancel = (int (*)(uint64_t, const void *))find("uaio_cancel");
	lib.cancel_fd = (int (*)(uint64_t, int))find("uaio_cancel_fd");
	lib.cancel_all = (int (*)(uint64_t))find("uaio_cancel_all");
}

static int check_numbers(void *arg)
{
	struct uaio_wq_fixed fixed[2];
	int workers[2];

	(void)arg;
	REQUIRE(lib.get_workers(workers) == 0);
	REQUIRE(workers[UAIO_WQ_BOUNDED] == 3);
	REQUIRE(workers[UAIO_WQ_UNBOUNDED] == 256);
	REQUIRE(lib.get_fixed(fixed) == 0);
	REQUIRE(fixed[UAIO_WQ_BOUNDED].nr_workers == 1);
	REQUIRE(fixed[UAIO_WQ_BOUNDED].max_items == 64);
	REQUIRE(fixed[UAIO_WQ_UNBOUNDED].nr_workers == 0);
	REQUIRE(fixed[UAIO_WQ_UNBOUNDED].max_items == 5);
	return 0;
}

static int check_numbers_with_engine(void *arg)
{
	aio_context_t ctx = host_context(4);

	check_numbers(arg);
	REQUIRE(host_destroy(ctx) == 0);
	return check_numbers(arg);
}

static void refuse_in_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		struct uaio_wq_fixed fixed[2] = { { 0, 0 }, { 0, 0 } };
		int workers[2] = { 7, 7 };

		if (lib.set_workers(workers) != -EAGAIN ||
		    lib.get_workers(workers) != -EAGAIN ||
		    lib.set_fixed(fixed) != -EAGAIN ||
		    lib.get_fixed(fixed) != -EAGAIN)
			_exit(1);
		_exit(42);
	}
	REQUIRE(pid > 0 && host_finish(pid) == 42);
}

/*
 * Set the limits of workers and the numbers of fixed (permanent) workers: before the
 * library starts, after it has started, and in children.
 */
void control_numbers(void)
{
	struct uaio_wq_fixed fixed[2] = { { 1, -1 }, { -1, 5 } };
	int workers[2] = { 3, -1 }, nonsense[2] = { 4, -2 };
	void *nowhere = (void *)(UINTPTR_MAX - 7);
	aio_context_t ctx;

	find_all();
	errno = E2BIG;
	REQUIRE(lib.set_workers(workers) == 0);
	REQUIRE(workers[0] == 292 && workers[1] == 256);
	REQUIRE(lib.set_fixed(fixed) == 0);
	REQUIRE(fixed[0].nr_workers == 0 && fixed[1].max_items == 64);
	check_numbers(NULL);
	REQUIRE(lib.set_workers(nonsense) == -EINVAL);
	REQUIRE(nonsense[0] == 4 && nonsense[1] == -2);
	REQUIRE(lib.set_workers(NULL) == -EFAULT);
	REQUIRE(lib.get_workers(NULL) == -EFAULT);
	REQUIRE(lib.set_fixed(NULL) == -EFAULT);
	REQUIRE(lib.get_fixed(NULL) == -EFAULT);
	REQUIRE(lib.set_workers(nowhere) == -EFAULT);
	REQUIRE(lib.get_fixed(nowhere) == -EFAULT);
	REQUIRE(errno == E2BIG);
	REQUIRE(host_for_engine_threads(NULL) == 0);
	refuse_in_vfork();
	check_numbers(NULL);
	REQUIRE(host_in_child(check_numbers_with_engine, NULL) == 0);

	ctx = host_context(4);
	check_numbers(NULL);
	refuse_in_vfork();
	check_numbers(NULL);
	REQUIRE(host_in_child(check_numbers_with_engine, NULL) == 0);
	REQUIRE(host_destroy(ctx) == 0);
	check_numbers(NULL);
}

static void cancel_in_vfork(aio_context_t ctx, const struct iocb *iocb)
{
	pid_t pid = vfork();

	if (pid == 0) {
		if (lib.cancel(ctx, iocb) != -EAGAIN ||
		    lib.cancel_fd(ctx, (int)iocb->aio_fildes) != -EAGAIN ||
		    lib.cancel_all(ctx) != -EAGAIN)
			_exit(1);
		_exit(42);
	}
	REQUIRE(pid > 0 && host_finish(pid) == 42);
}

/*
 * In a child of fork(), the cancel functions of uaio.h must return -EINVAL for a
 * context of the parent.
 */
static int find_no_context(void *arg)
{
	const aio_context_t *ctx = arg;

	REQUIRE(lib.cancel_all(*ctx) == -EINVAL);
	REQUIRE(host_destroy(host_context(4)) == 0);
	REQUIRE(lib.cancel_all(*ctx) == -EINVAL);
	REQUIRE(lib.cancel_fd(*ctx, 0) == -EINVAL);
	REQUIRE(lib.cancel(*ctx, arg) == -EINVAL);
	return 0;
}

/*
 * A context of the main thread, with polls. Another thread, which has its own
 * descriptor table, cancels these polls.
 */
static struct {
	aio_context_t ctx;
	struct iocb *iocbs;
} apart;

static void *cancel_apart(void *arg)
{
	(void)arg;
	REQUIRE(unshare(CLONE_FILES) == 0);
	REQUIRE(lib.cancel(apart.ctx, &apart.iocbs[1]) == 0);
	REQUIRE(lib.cancel(apart.ctx, &apart.iocbs[1]) == -ENOENT);
	/*
	 * In this thread's own table the descriptor refers to another file, so no
	 * request matches it.
	 */
	REQUIRE(lib.cancel_fd(apart.ctx, (int)apart.iocbs[0].aio_fildes) ==
		-ENOENT);
	REQUIRE(lib.cancel_all(apart.ctx) == 3);
	REQUIRE(lib.cancel_all(apart.ctx) == -ENOENT);
	REQUIRE(lib.cancel_all(1) == -EINVAL);
	return NULL;
}

static void cancel_by_other(aio_context_t ctx, struct iocb iocbs[4])
{
	struct io_event events[4];
	pthread_t thread;

	for (unsigned i = 0; i < 4; i++)
		REQUIRE(host_submit(ctx, &iocbs[i]) == 1);
	apart.ctx = ctx;
	apart.iocbs = iocbs;
	REQUIRE(!pthread_create(&thread, NULL, cancel_apart, NULL));
	REQUIRE(!pthread_join(thread, NULL));
	REQUIRE(host_reap(ctx, 4, events) == 4);
	for (unsigned i = 0; i < 4; i++)
		REQUIRE(events[i].res == 0);
}

void control_cancel(void)
{
	struct io_event events[4];
	struct iocb iocbs[4];
	aio_context_t ctx = 1;
	int ends[2], others[2];

	find_all();
	errno = E2BIG;
	REQUIRE(lib.cancel_all(ctx) == -EINVAL);
	ctx = host_context(4);
	REQUIRE(pipe(ends) == 0 && pipe(others) == 0);
	for (unsigned i = 0; i < 4; i++) {
		iocbs[i] = host_poll(i < 3 ? ends[0] : others[0]);
		REQUIRE(host_submit(ctx, &iocbs[i]) == 1);
	}
	cancel_in_vfork(ctx, &iocbs[1]);
	REQUIRE(host_in_child(find_no_context, &ctx) == 0);

	errno = E2BIG;
	REQUIRE(lib.cancel(ctx, &iocbs[1]) == 0);
	REQUIRE(lib.cancel(ctx, &iocbs[1]) == -ENOENT);
	REQUIRE(lib.cancel_fd(ctx, ends[1]) == -ENOENT);
	REQUIRE(lib.cancel_fd(ctx, ends[0]) == 2);
	REQUIRE(lib.cancel_all(ctx) == 1);
	REQUIRE(lib.cancel_all(ctx) == -ENOENT);
	REQUIRE(errno == E2BIG);
	REQUIRE(host_reap(ctx, 4, events) == 4);
	for (unsigned i = 0; i < 4; i++)
		REQUIRE(events[i].res == 0);
	cancel_by_other(ctx, iocbs);
	REQUIRE(host_destroy(ctx) == 0);
	REQUIRE(lib.cancel_all(ctx) == -EINVAL);
}

static unsigned nr_workers;

static void count_worker(pid_t tid)
{
	char path[64], name[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (read(fd, name, sizeof(name) - 1) > 0)
		nr_workers += !strcmp(name, "uaio-bound\n");
	close(fd);
}

/* Count only workers: the library has other threads, too. */
static unsigned count_workers(void)
{
	nr_workers = 0;
	(void)host_for_engine_threads(count_worker);
	return nr_workers;
}

/* Wait until nr workers exist. If they never do, the alarm ends the process. */
static void await_workers(unsigned nr)
{
	while (count_workers() != nr)
		sched_yield();
}

static void submit_reads(aio_context_t ctx, int fd, unsigned nr)
{
	static char in[BLOCK];

	for (unsigned i = 0; i < nr; i++) {
		struct iocb iocb = host_iocb(IOCB_CMD_PREAD, fd, in, BLOCK,
					     (long long)i * BLOCK);

		REQUIRE(host_submit(ctx, &iocb) == 1);
	}
}

static void limit_to(int nr, int old)
{
	int workers[2] = { nr, -1 };

	REQUIRE(lib.set_workers(workers) == 0);
	REQUIRE(workers[0] == old && workers[1] == 256);
}

/*
 * The case starts with UAIO_WORKERS=2. Raise and lower the limit of workers while a
 * file system answers no read. There must never be more workers than the limit allows.
 */
void control_threads(void)
{
	enum { NR = 24 };
	struct slowfs *fs = host_slow();
	aio_context_t ctx;
	int fd;

	find_all();
	ctx = host_context(NR);
	fd = open("slow/file", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	REQUIRE(fd >= 0);
	host_write_blocks(ctx, fd, 0, NR);
	host_reap_blocks(ctx, NR);
	slowfs_hold(fs, SLOWFS_READ);
	submit_reads(ctx, fd, NR);
	slowfs_await(fs, SLOWFS_READ, 2);
	REQUIRE(count_workers() == 2);

	limit_to(5, 2);
	slowfs_await(fs, SLOWFS_READ, 5);
	REQUIRE(count_workers() == 5);
	limit_to(1, 5);
	slowfs_release(fs, SLOWFS_READ);
	host_reap_blocks(ctx, NR);
	await_workers(1);

	slowfs_hold(fs, SLOWFS_READ);
	submit_reads(ctx, fd, NR);
	slowfs_await(fs, SLOWFS_READ, 1);
	REQUIRE(count_workers() == 1);
	slowfs_release(fs, SLOWFS_READ);
	host_reap_blocks(ctx, NR);

	/*
	 * With a limit of no workers, the submitting thread must execute the reads.
	 */
	limit_to(0, 1);
	submit_reads(ctx, fd, NR);
	host_reap_blocks(ctx, NR);
	await_workers(0);
	limit_to(2, 0);
	submit_reads(ctx, fd, NR);
	host_reap_blocks(ctx, NR);
	REQUIRE(host_destroy(ctx) == 0);
	REQUIRE(close(fd) == 0);
	slowfs_stop(fs);
}
