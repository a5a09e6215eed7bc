/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/sleep.h"
#include "options/config.h"
#include "live/live.h"
#include "aio/aio.h"
#include "unit.h"

/*
 * Each round executes the same few requests. In round n, the engine's n-th system call
 * fails; in the last round the engine makes fewer calls, so none fails. Whichever call
 * fails, nothing may crash or hang, and each accepted request must have one event.
 */
enum { SIZE = UNIT_KEY_BYTES, NR_VECTORS = 100, NR_MAX = 32 };

static struct {
	int disk, memory, pipe[2], socket, resfd;
	char buffers[NR_MAX][SIZE];
	struct iovec vectors[NR_VECTORS];
	char pieces[NR_VECTORS][8];
	struct iocb iocbs[NR_MAX];
	unsigned nr;
} work;

static struct iocb *add(unsigned opcode, int fd, void *buf, size_t bytes,
			int64_t off)
{
	struct iocb *iocb = &work.iocbs[work.nr];

	*iocb = unit_iocb(opcode, fd, buf, bytes, off);
	iocb->aio_data = work.nr++;
	return iocb;
}

static void add_signalled(struct iocb *iocb)
{
	iocb->aio_flags |= IOCB_FLAG_RESFD;
	iocb->aio_resfd = (uint32_t)work.resfd;
}

static void prepare(void)
{
	int fds[] = { work.disk, work.memory };

	work.nr = 0;
	for (unsigned i = 0; i < NR_VECTORS; i++)
		work.vectors[i] = (struct iovec){ work.pieces[i], 8 };
	for (unsigned i = 0; i < 2; i++) {
		add(IOCB_CMD_PWRITE, fds[i], work.buffers[i], SIZE, 0);
		add(IOCB_CMD_PREAD, fds[i], work.buffers[2 + i], SIZE, 0);
		add_signalled(add(IOCB_CMD_PWRITEV, fds[i], work.vectors,
				  NR_VECTORS, 0));
		add_signalled(add(IOCB_CMD_PREADV, fds[i], work.vectors,
				  NR_VECTORS, 0));
		add(IOCB_CMD_PREADV, fds[i], work.vectors, 3, 0);
		add(IOCB_CMD_FSYNC, fds[i], NULL, 0, 0);
		add_signalled(add(IOCB_CMD_FDSYNC, fds[i], NULL, 0, 0));
	}
	add_signalled(add(IOCB_CMD_POLL, work.pipe[0], (void *)POLLIN, 0, 0));
	add(IOCB_CMD_POLL, work.pipe[1], (void *)POLLOUT, 0, 0);
	add(IOCB_CMD_PREAD, work.pipe[0], work.buffers[4], 4, 0);
	add_signalled(add(IOCB_CMD_PREADV, work.pipe[0], work.vectors, 1, 0));
	add(IOCB_CMD_PWRITE, work.pipe[1], "0123", 4, 0);
	add(IOCB_CMD_PWRITE, work.pipe[1], "01234567", 8, 0);
}

/*
 * Submit all requests. If io_submit refuses a request, skip that request.
 * Return: how many were accepted.
 */
static unsigned submit(uint64_t handle, bool *accepted)
{
	struct iocb *list[NR_MAX];
	unsigned nr = 0;

	for (unsigned i = 0; i < work.nr; i++)
		list[i] = &work.iocbs[i];
	for (unsigned i = 0; i < work.nr;) {
		long ret = uaio_aio_submit(handle, work.nr - i, list + i);

		if (ret <= 0) {
			assert_in_range(-ret, 1, 4095);
			accepted[i++] = false;
			continue;
		}
		for (long j = 0; j < ret; j++)
			accepted[i++] = true;
		nr += (unsigned)ret;
	}
	return nr;
}

/*
 * Reap nr events. If a write has failed, a read of the pipe may wait for ever: so write
 * to the pipe when no event comes.
 */
static void reap(uint64_t handle, unsigned nr, bool *accepted)
{
	struct uaio_event events[NR_MAX];
	const struct timespec moment = { 0, 20000000 };
	unsigned got = 0;

	while (got < nr) {
		long ret =
			uaio_aio_getevents(handle, 1, NR_MAX, events, &moment);

		if (ret == 0)
			assert_int_equal(write(work.pipe[1], "fill", 4), 4);
		assert_true(ret >= 0 || ret == -EINTR || ret == -ENOMEM);
		for (long i = 0; i < ret; i++) {
			assert_true(events[i].data < work.nr);
			assert_true(accepted[events[i].data]);
			accepted[events[i].data] = false;
			got++;
		}
	}
	assert_int_equal(got, nr);
}

static void open_all(void)
{
	work.disk = unit_numbered_file(false, 4);
	work.memory = unit_numbered_file(true, 4);
	assert_int_equal(pipe2(work.pipe, O_CLOEXEC), 0);
	work.resfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void close_all(void)
{
	unit_close(work.disk);
	unit_close(work.memory);
	unit_close(work.pipe[0]);
	unit_close(work.pipe[1]);
	unit_close(work.resfd);
}

/*
 * The library duplicates the descriptors of requests, and must close the duplicates when
 * the requests have completed or were refused. Only four descriptors of the library may
 * be left: the fallback thread's epoll and eventfd, and the commons' epoll and eventfd.
 * A worker may need a moment to release a file.
 * Return: whether only these descriptors are left.
 */
static bool are_files_gone(void)
{
	enum { NR_FALLBACK = 4 };
	int64_t deadline = uaio_now_ns() + 10000000000;
	unsigned nr, fd;

	do {
		nr = 0;
		for (unsigned at = 0; uaio_own_fd(at, ~0u, &fd); at = fd + 1)
			nr++;
	} while (nr > NR_FALLBACK && uaio_now_ns() < deadline);
	return nr <= NR_FALLBACK;
}

/*
 * Run a round.
 * Return: whether it made the n-th call, which then failed.
 */
static bool one_round(unsigned n, bool is_fresh)
{
	bool accepted[NR_MAX] = { false };
	uint64_t handle = 0;
	bool has_failed;
	long ret;

	open_all();
	prepare();
	unit_fail_nth(n, false);
	ret = uaio_aio_setup(NR_MAX, &handle);
	if (ret < 0) {
		assert_true(ret == -ENOMEM || ret == -EAGAIN);
		assert_true(unit_has_failed());
		ret = uaio_aio_setup(NR_MAX, &handle);
		assert_int_equal(ret, 0);
	}
	reap(handle, submit(handle, accepted), accepted);
	assert_int_equal(uaio_aio_destroy(handle), 0);
	has_failed = unit_has_failed();
	/*
	 * Stop the fault before the descriptors are closed, because closing them makes
	 * calls that may fail, too.
	 */
	unit_fail_nth(0, false);
	close_all();
	assert_true(are_files_gone());
	(void)is_fresh;
	return has_failed;
}

static void sweep(bool force_worker)
{
	unsigned n = 1;

	uaio_config.force_worker = force_worker;
	while (one_round(n, false))
		n++;
	print_message("%u calls\n", n - 1);
	assert_true(n > 10);
	uaio_config.force_worker = false;
}

static void any_call_may_fail_inside_io_submit(void **state)
{
	(void)state;
	sweep(false);
}

static void any_call_may_fail_in_workers(void **state)
{
	(void)state;
	sweep(true);
}

static int request_refused_half_made(void)
{
	uint64_t handle;
	struct iocb *iocb;
	unsigned own;

	if (unit_engine(NULL) < 0)
		return 1;
	uaio_config.force_worker = true;
	handle = unit_context(4);
	open_all();
	prepare();
	if (unit_submit(handle, add(IOCB_CMD_PREAD, work.disk, work.buffers[0],
				    SIZE, 0)) != 1 ||
	    unit_reap_one(handle) != SIZE)
		return 2;
	iocb = add(IOCB_CMD_PREADV, work.memory, work.vectors, NR_VECTORS, 0);
	add_signalled(iocb);
	unit_hook(unit_refuse_memory);
	if (unit_submit(handle, iocb) != -EAGAIN)
		return 3;
	unit_hook(NULL);
	/*
	 * If the library still had a reference to a file of the request, or a duplicate
	 * of its descriptor, close_all() would wait.
	 */
	close_all();
	return uaio_own_fd(0, ~0u, &own) ? 4 : 0;
}

static void a_request_refused_half_made_lets_its_files_go(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(request_refused_half_made), 0);
}

/*
 * A round in a child process, in which the library uses everything for the first time:
 * memory, tables, threads, descriptors. `nth` and `in_workers` are the round's
 * parameters, set before fork().
 */
static unsigned nth;
static bool in_workers;

static int fresh_round(void)
{
	if (unit_engine(NULL) < 0)
		return 2;
	uaio_config.force_worker = in_workers;
	return one_round(nth, true);
}

static int fresh_start_and_round(void)
{
	long ret;
	uint64_t handle = 0;

	uaio_engine_load();
	unit_fail_nth(nth, false);
	ret = uaio_aio_setup(1, &handle);
	if (ret < 0 && ret != -ENOMEM)
		return 2;
	if (ret < 0 && !unit_has_failed())
		return 3;
	ret = one_round(nth, true);
	unit_hook(NULL);
	uaio_live_remove();
	return (int)ret;
}

static void any_call_may_fail_the_first_time(void **state)
{
	int ret;

	(void)state;
	for (int i = 0; i < 2; i++) {
		in_workers = i;
		nth = 1;
		while ((ret = unit_in_child(fresh_round)) == 1)
			nth++;
		assert_int_equal(ret, 0);
		print_message("%u calls\n", nth - 1);
	}
	nth = 1;
	while ((ret = unit_in_child(fresh_start_and_round)) == 1)
		nth++;
	assert_int_equal(ret, 0);
}

int main(void)
{
	const struct CMUnitTest fresh[] = {
		UNIT_TEST(a_request_refused_half_made_lets_its_files_go),
		UNIT_TEST(any_call_may_fail_the_first_time),
	};
	const struct CMUnitTest tests[] = {
		UNIT_TEST(any_call_may_fail_inside_io_submit),
		UNIT_TEST(any_call_may_fail_in_workers),
	};
	int nr_failed = cmocka_run_group_tests(fresh, NULL, NULL);

	return nr_failed + cmocka_run_group_tests(tests, unit_engine, NULL);
}
