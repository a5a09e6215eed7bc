/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "options/config.h"
#include "wq/wq.h"
#include "aio/aio.h"
#include "items.h"
#include "threads.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES };

/*
 * Submit reads, writes and syncs. Each request must end once, with the right result.
 */
static int mixed_work(unsigned nr)
{
	static char buffers[64][SIZE];
	static struct io_event events[64];
	struct iocb iocbs[64], *list[64];
	int fd = unit_numbered_file(true, 64);
	uint64_t handle = unit_context(64);
	bool seen[64] = { false };

	for (unsigned i = 0; i < nr; i++) {
		iocbs[i] = i % 8 == 7
				   ? unit_iocb(IOCB_CMD_FSYNC, fd, NULL, 0, 0)
			   : i % 3 ? unit_iocb(IOCB_CMD_PREAD, fd, buffers[i],
					       SIZE, i * SIZE)
				   : unit_iocb(IOCB_CMD_PWRITE, fd, buffers[i],
					       SIZE, i * SIZE);
		iocbs[i].aio_data = i;
		list[i] = &iocbs[i];
	}
	if (uaio_aio_submit(handle, nr, list) != nr)
		return 10;
	if (unit_reap(handle, nr, events) != nr)
		return 11;
	for (unsigned i = 0; i < nr; i++) {
		if (seen[events[i].data])
			return 12;
		seen[events[i].data] = true;
		if ((int64_t)events[i].res !=
		    (events[i].data % 8 == 7 ? 0 : SIZE))
			return 13;
	}
	unit_close(fd);
	return uaio_aio_destroy(handle) ? 14 : 0;
}

static int work_without_threads(void)
{
	if (unit_engine(NULL) < 0)
		return 1;
	uaio_config.force_worker = true;
	for (unsigned i = 0; i < 20; i++) {
		int ret = mixed_work(1 + i * 3);

		if (ret)
			return ret;
	}
	return 0;
}

static void refused_threads_only_make_items_slower(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 6; k++) {
		unit_allow_threads(k);
		assert_int_equal(unit_in_child(work_without_threads), 0);
	}
	unit_allow_threads(UINT32_MAX);
}

/* Several threads submit at the same time, while no thread can be created. */
static long submit_mixed_work(void *arg)
{
	uint32_t rounds = *(uint32_t *)arg;
	int fd = unit_numbered_file(true, 8);
	uint64_t handle = unit_context(8);
	long ret = 0;

	for (uint32_t i = 0; i < rounds && !ret; i++) {
		char buffers[8][SIZE];
		struct io_event events[8];
		struct iocb iocbs[8], *list[8];

		for (unsigned j = 0; j < 8; j++) {
			iocbs[j] = unit_iocb(j % 2 ? IOCB_CMD_PREAD
						   : IOCB_CMD_PWRITE,
					     fd, buffers[j], SIZE, j * SIZE);
			list[j] = &iocbs[j];
		}
		if (uaio_aio_submit(handle, 8, list) != 8 ||
		    unit_reap(handle, 8, events) != 8)
			ret = 1;
	}
	unit_close(fd);
	return ret + uaio_aio_destroy(handle);
}

static int many_submitters_without_threads(void)
{
	enum { NR = 4 };
	struct unit_thread threads[NR];
	uint32_t rounds = unit_rounds(500);

	if (unit_engine(NULL) < 0)
		return 1;
	uaio_config.force_worker = true;
	unit_allow_threads(0);
	for (unsigned i = 0; i < NR; i++)
		unit_thread_start(&threads[i], submit_mixed_work, &rounds);
	for (unsigned i = 0; i < NR; i++)
		if (unit_thread_join(&threads[i]))
			return 2;
	return 0;
}

static void submitters_that_are_all_refused_help_themselves(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(many_submitters_without_threads), 0);
	unit_allow_threads(UINT32_MAX);
}

static void no_more_workers_for_files_than_allowed(void **state)
{
	/* One device may occupy 28 (7/8) of 32 workers. */
	enum { NR = 60, LIMIT = 32, SHARE = 28 };
	int fd = unit_numbered_file(true, NR);
	uint64_t handle = unit_context(NR);
	static char buffers[NR][SIZE];
	static struct io_event events[NR];
	struct iocb iocbs[NR];

	(void)state;
	assert_int_equal(uaio_wq_limit_workers(UAIO_BOUNDED, LIMIT), 292);
	uaio_config.force_worker = true;
	unit_gate_close(fd);
	for (unsigned i = 0; i < NR; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, fd, buffers[i], SIZE,
				     i * SIZE);
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	unit_gate_await(SHARE);
	assert_in_range(uaio_wq_nr_workers(UAIO_BOUNDED), SHARE, LIMIT);
	assert_int_equal(unit_gate_began(SHARE), -1);
	unit_gate_open();
	assert_int_equal(unit_reap(handle, NR, events), NR);
	assert_in_range(uaio_wq_nr_workers(UAIO_BOUNDED), SHARE, LIMIT);
	uaio_config.force_worker = false;
	unit_destroy(handle);
	unit_close(fd);
}

/*
 * If each request is submitted after the completion of the one before, one or two
 * workers suffice.
 */
static int a_chain_of_requests(void)
{
	int fd;
	uint64_t handle;
	char buffer[SIZE];

	if (unit_engine(NULL) < 0)
		return 1;
	uaio_config.force_worker = true;
	fd = unit_numbered_file(true, 1);
	handle = unit_context(1);
	for (unsigned i = 0; i < 200; i++) {
		struct iocb iocb =
			unit_iocb(IOCB_CMD_PREAD, fd, buffer, SIZE, 0);

		if (unit_submit(handle, &iocb) != 1 ||
		    unit_reap_one(handle) != SIZE)
			return 2;
	}
	return uaio_wq_nr_workers(UAIO_BOUNDED) > 2 ? 3 : 0;
}

static void one_request_at_a_time_needs_few_workers(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(a_chain_of_requests), 0);
}

/*
 * In all reads together: how many signals the reading thread had not blocked. The
 * library's workers should block all signals.
 */
static uint32_t nr_open; /* atomic */

static bool count_open_signals(long nr, const long args[6], long *ret_res)
{
	sigset_t set;

	(void)args;
	(void)ret_res;
	if (nr != SYS_pread64)
		return false;
	pthread_sigmask(SIG_SETMASK, NULL, &set);
	for (int signal = 1; signal < NSIG; signal++)
		/*
		 * SIGKILL and SIGSTOP cannot be blocked, and the C library uses some
		 * signals itself.
		 */
		if (signal != SIGKILL && signal != SIGSTOP &&
		    (signal < 32 || signal >= SIGRTMIN) &&
		    !sigismember(&set, signal))
			add_relaxed(&nr_open, 1);
	return false;
}

static int start_a_worker(void)
{
	static char buffer[SIZE];
	struct iocb iocb;
	sigset_t mask, after;
	uint64_t handle;

	if (unit_engine(NULL) < 0)
		return 1;
	uaio_config.force_worker = true;
	unit_hook(count_open_signals);
	handle = unit_context(1);
	iocb = unit_iocb(IOCB_CMD_PREAD, unit_numbered_file(true, 1), buffer,
			 SIZE, 0);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (unit_submit(handle, &iocb) != 1)
		return 2;
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	if (unit_reap_one(handle) != SIZE)
		return 3;
	if (load_relaxed(&nr_open))
		return 4;
	for (int signal = 1; signal < NSIG; signal++)
		if (sigismember(&after, signal) != (signal == SIGUSR2))
			return 5;
	return 0;
}

static void workers_take_no_signal_and_leave_the_hosts_alone(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(start_a_worker), 0);
}

static bool are_gone(void *arg)
{
	(void)arg;
	return uaio_wq_nr_workers(UAIO_BOUNDED) == 0;
}

static int idle_away(void)
{
	if (unit_engine(NULL) < 0)
		return 1;
	uaio_config.force_worker = true;
	for (unsigned i = 0; i < 20; i++) {
		int ret = mixed_work(40);

		if (ret)
			return ret;
		if (uaio_wq_nr_workers(UAIO_BOUNDED) == 0)
			return 2;
		unit_hook(items_hurry);
		/*
		 * The hook lets a sleeping worker end at once, but has no effect on
		 * workers that sleep already. These requests wake them, so that they
		 * sleep with the hook later.
		 */
		ret = mixed_work(40);
		if (ret)
			return ret;
		for (unsigned j = 0; j < 40 && !are_gone(NULL); j++)
			if ((ret = mixed_work(40)))
				return ret;
		unit_hook(NULL);
	}
	return 0;
}

static void workers_that_leave_lose_no_work(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(idle_away), 0);
}

static int leave_in_the_end(void)
{
	int ret;

	if (unit_engine(NULL) < 0)
		return 1;
	uaio_config.force_worker = true;
	unit_hook(items_hurry);
	ret = mixed_work(40);
	unit_await(are_gone, NULL);
	return ret;
}

static void idle_workers_leave_all_of_them(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(leave_in_the_end), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(refused_threads_only_make_items_slower),
		UNIT_TEST(submitters_that_are_all_refused_help_themselves),
		UNIT_TEST(one_request_at_a_time_needs_few_workers),
		UNIT_TEST(workers_take_no_signal_and_leave_the_hosts_alone),
		UNIT_TEST(workers_that_leave_lose_no_work),
		UNIT_TEST(idle_workers_leave_all_of_them),
		UNIT_TEST(no_more_workers_for_files_than_allowed),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
