/* SPDX-License-Identifier: MIT */
/*
 * Direct requests that the kernel executes by itself. A hook plays the kernel: it
 * takes requests or refuses them, and completes them when the test says so.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "options/config.h"
#include "proc/ownfd.h"
#include "native/kaio.h"
#include "native/native.h"
#include "aio/aio.h"
#include "unit.h"

enum {
	NR_BLOCKS = 16,
	SIZE = UNIT_KEY_BYTES,
	NR_EVENTS = 512,
	EAGAIN_RESULT = -EAGAIN,
};

/* The kernel, as the hook plays it. */
static struct {
	pthread_mutex_t lock;
	union {
		struct uaio_kaio_ring ring;
		char bytes[sizeof(struct uaio_kaio_ring) +
			   NR_EVENTS * sizeof(struct io_event)];
	};
	struct iocb taken[64]; /* that are not complete */
	unsigned nr_taken;     /* atomic */

	int setup_error;  /* of io_setup, or 0 */
	int submit_error; /* of io_submit, or 0 */
	unsigned nr_more; /* requests that are taken before that error */
	bool gives_back;  /* each with EAGAIN */
	unsigned nr_setups, nr_submits, nr_destroys;
	unsigned nr_sizes; /* atomic: how often the file's size was asked for */
} kernel;

static struct {
	int fd, direct; /* of one file, the second as if opened with O_DIRECT */
	uint64_t handle;
	struct iocb iocbs[32];
	char buffers[32][SIZE];
	unsigned nr;
} test;

static void complete_locked(const struct iocb *iocb, int64_t res)
{
	uint32_t tail = kernel.ring.tail;
	uint64_t one = 1;

	kernel.ring.events[tail] = (struct io_event){
		.data = iocb->aio_data,
		.obj = (uintptr_t)iocb,
		.res = res,
	};
	store_release(&kernel.ring.tail, (tail + 1) % NR_EVENTS);
	assert_int_equal(write((int)iocb->aio_resfd, &one, sizeof(one)),
			 sizeof(one));
}

static long setup(uint64_t *ret_ctx)
{
	kernel.nr_setups++;
	if (kernel.setup_error)
		return kernel.setup_error;
	memset(kernel.bytes, 0, sizeof(kernel.bytes));
	kernel.ring.nr = NR_EVENTS;
	kernel.ring.magic = 0xa10a10a1;
	kernel.ring.compat = 1;
	kernel.ring.header_bytes = sizeof(kernel.ring);
	*ret_ctx = (uintptr_t)&kernel.ring;
	return 0;
}

static void take(const struct iocb *iocb)
{
	assert_true(iocb->aio_flags & IOCB_FLAG_RESFD);
	assert_true(iocb->aio_rw_flags & RWF_NOWAIT);
	if (kernel.gives_back)
		complete_locked(iocb, EAGAIN_RESULT);
	else
		kernel.taken[kernel.nr_taken++] = *iocb;
}

static long submit_some(long nr, struct iocb **list)
{
	kernel.nr_submits++;
	for (long i = 0; i < nr; i++) {
		if (kernel.submit_error && !kernel.nr_more)
			return i ? i : kernel.submit_error;
		kernel.nr_more -= kernel.nr_more > 0;
		take(list[i]);
	}
	return nr;
}

static bool play(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_fcntl && args[1] == F_GETFL && args[0] == test.direct) {
		*ret_res = O_RDWR | O_DIRECT;
		return true;
	}
	if (nr == SYS_fstat && args[0] == test.direct)
		add_relaxed(&kernel.nr_sizes, 1);
	if (nr == SYS_fstatfs) {
		*ret_res = unit_say_ext4(args);
		return true;
	}
	if (nr != SYS_io_setup && nr != SYS_io_submit && nr != SYS_io_destroy)
		return false;
	pthread_mutex_lock(&kernel.lock);
	if (nr == SYS_io_setup)
		*ret_res = setup((uint64_t *)args[1]);
	else if (nr == SYS_io_submit)
		*ret_res = submit_some(args[1], (struct iocb **)args[2]);
	else
		*ret_res = 0;
	kernel.nr_destroys += nr == SYS_io_destroy;
	pthread_mutex_unlock(&kernel.lock);
	return true;
}

/* The kernel executes the oldest request that it has. */
static void execute(void)
{
	struct iocb iocb;
	int64_t res;

	pthread_mutex_lock(&kernel.lock);
	assert_true(kernel.nr_taken);
	iocb = kernel.taken[0];
	memmove(kernel.taken, kernel.taken + 1,
		--kernel.nr_taken * sizeof(iocb));
	res = iocb.aio_lio_opcode == IOCB_CMD_PREAD
		      ? pread(test.fd, (void *)(uintptr_t)iocb.aio_buf,
			      iocb.aio_nbytes, iocb.aio_offset)
		      : pwrite(test.fd, (void *)(uintptr_t)iocb.aio_buf,
			       iocb.aio_nbytes, iocb.aio_offset);
	complete_locked(&iocb, res);
	pthread_mutex_unlock(&kernel.lock);
}

/* It gives it back. */
static void give_back(void)
{
	pthread_mutex_lock(&kernel.lock);
	assert_int_equal(kernel.nr_taken, 1);
	kernel.nr_taken = 0;
	complete_locked(&kernel.taken[0], EAGAIN_RESULT);
	pthread_mutex_unlock(&kernel.lock);
}

static void open_direct(void)
{
	char path[32];

	test.fd = unit_numbered_file(false, NR_BLOCKS);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", test.fd);
	test.direct = open(path, O_RDWR | O_CLOEXEC);
	assert_true(test.direct >= 0);
}

static int start(void **state)
{
	int ret = unit_setup(state);

	/* No ring that was kept, nor any refusal that was noted. */
	uaio_natives_init();
	uaio_config.backend = UAIO_BACKEND_AIO;
	test.nr = 0;
	kernel.setup_error = kernel.submit_error = 0;
	kernel.nr_more = 0;
	kernel.gives_back = false;
	kernel.nr_taken = 0;
	kernel.nr_setups = kernel.nr_submits = kernel.nr_destroys = 0;
	pthread_mutex_init(&kernel.lock, NULL);
	open_direct();
	unit_hook(play);
	test.handle = unit_context(32);
	return ret;
}

static int stop(void **state)
{
	unit_destroy(test.handle);
	unit_hook(NULL);
	unit_close(test.fd);
	if (test.direct >= 0)
		unit_close(test.direct);
	uaio_config.backend = UAIO_BACKEND_THREADS;
	return unit_teardown(state);
}

static struct iocb *prepared(unsigned opcode, unsigned block)
{
	struct iocb *iocb = &test.iocbs[test.nr];
	char *buffer = test.buffers[test.nr++];

	memset(buffer, opcode == IOCB_CMD_PWRITE ? 'w' : '.', SIZE);
	*iocb = unit_iocb(opcode, test.direct, buffer, SIZE,
			  (int64_t)block * SIZE);
	return iocb;
}

static void submit(unsigned opcode, unsigned block)
{
	assert_int_equal(unit_submit(test.handle, prepared(opcode, block)), 1);
}

static void assert_block(const char *bytes, unsigned block)
{
	char expected[SIZE];

	memset(expected, (int)block, SIZE);
	assert_memory_equal(bytes, expected, SIZE);
}

static void reap(unsigned nr)
{
	struct io_event events[32];

	assert_int_equal(unit_reap(test.handle, nr, events), nr);
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(events[i].res, SIZE);
}

static void a_batch_is_one_call(void **state)
{
	struct iocb *list[8];

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		list[i] = prepared(i & 1 ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD, i);
	assert_int_equal(uaio_aio_submit(test.handle, 8, list), 8);
	assert_int_equal(kernel.nr_submits, 1);
	assert_int_equal(kernel.nr_taken, 8);
	for (unsigned i = 0; i < 8; i++)
		execute();
	reap(8);
	for (unsigned i = 0; i < 8; i += 2)
		assert_block(test.buffers[i], i);
	assert_int_equal(kernel.nr_setups, 1);
}

/* Each of them was asked for its place in the file once. */
static void a_sync_comes_after_writes_that_end_together(void **state)
{
	struct io_event events[5];
	struct iocb *list[5], sync;
	unsigned nr_sizes;

	(void)state;
	submit(IOCB_CMD_PWRITE, 0);
	execute();
	reap(1);
	nr_sizes = load_relaxed(&kernel.nr_sizes);
	for (unsigned i = 0; i < 4; i++)
		list[i] =
			prepared(i == 1 ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE, i);
	sync = unit_iocb(IOCB_CMD_FSYNC, test.direct, NULL, 0, 0);
	list[4] = &sync;
	assert_int_equal(uaio_aio_submit(test.handle, 5, list), 5);
	assert_int_equal(load_relaxed(&kernel.nr_sizes), nr_sizes + 3);
	assert_int_equal(kernel.nr_taken, 4);
	for (unsigned i = 0; i < 4; i++)
		execute();
	assert_int_equal(unit_reap(test.handle, 5, events), 5);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(events[i].res, SIZE);
	assert_int_equal(events[4].obj, (uintptr_t)&sync);
	assert_int_equal(events[4].res, 0);
}

static long reap_two(void *arg)
{
	(void)arg;
	reap(2);
	return 0;
}

static void a_waiter_sleeps_until_the_kernel_is_done(void **state)
{
	struct unit_thread thread;

	(void)state;
	for (unsigned i = 0; i < unit_rounds(50); i++) {
		test.nr = 0;
		submit(IOCB_CMD_PREAD, 3);
		submit(IOCB_CMD_PWRITE, 4);
		unit_thread_start(&thread, reap_two, NULL);
		if (i & 1)
			unit_await_sleep(&thread);
		execute();
		execute();
		unit_thread_join(&thread);
		assert_block(test.buffers[0], 3);
	}
}

/* The waiter was there first: it sleeps for a request that is still to come. */
static void a_waiter_learns_of_what_is_submitted_later(void **state)
{
	struct unit_thread thread;

	(void)state;
	unit_thread_start(&thread, reap_two, NULL);
	unit_await_sleep(&thread);
	submit(IOCB_CMD_PREAD, 1);
	submit(IOCB_CMD_PREAD, 2);
	execute();
	execute();
	unit_thread_join(&thread);
}

static bool has_event(void *arg)
{
	(void)arg;
	return !uaio_aio_is_empty(test.handle);
}

static void a_client_that_does_not_call_finds_its_events(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		submit(IOCB_CMD_PREAD, i);
		execute();
		unit_await(has_event, NULL);
		reap(1);
	}
}

static void what_is_given_back_goes_to_a_worker(void **state)
{
	(void)state;
	kernel.gives_back = true;
	for (unsigned i = 0; i < 8; i++) {
		submit(i & 1 ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD, i);
		reap(1);
	}
	assert_block(test.buffers[0], 0);
	/* After eight in vain only one now and then is tried. */
	assert_int_equal(kernel.nr_submits, 8);
	for (unsigned i = 0; i < 16; i++) {
		submit(IOCB_CMD_PREAD, 2);
		reap(1);
	}
	assert_int_equal(kernel.nr_submits, 8);
}

static void a_file_that_cannot_is_asked_once(void **state)
{
	(void)state;
	kernel.submit_error = -EOPNOTSUPP;
	for (unsigned i = 0; i < 3; i++) {
		submit(IOCB_CMD_PREAD, i);
		reap(1);
		assert_block(test.buffers[i], i);
	}
	assert_int_equal(kernel.nr_submits, 1);
}

static void what_the_kernel_has_no_room_for_goes_to_workers(void **state)
{
	struct iocb *list[4];

	(void)state;
	kernel.submit_error = -EAGAIN;
	kernel.nr_more = 2;
	for (unsigned i = 0; i < 4; i++)
		list[i] = prepared(IOCB_CMD_PREAD, i);
	assert_int_equal(uaio_aio_submit(test.handle, 4, list), 4);
	reap(2);
	assert_int_equal(kernel.nr_taken, 2);
	execute();
	execute();
	reap(2);
	for (unsigned i = 0; i < 4; i++)
		assert_block(test.buffers[i], i);
}

static void a_filter_that_comes_later_ends_it(void **state)
{
	int64_t since = uaio_now_ns();

	(void)state;
	submit(IOCB_CMD_PREAD, 0);
	kernel.submit_error = -EPERM;
	submit(IOCB_CMD_PREAD, 1);
	reap(1);
	submit(IOCB_CMD_PREAD, 2);
	reap(1);
	/* It is asked again after a second. */
	assert_in_range(kernel.nr_submits, 2,
			2 + (uaio_now_ns() - since) / 1000000000);
	/* What the kernel has is not lost. */
	execute();
	reap(1);
	for (unsigned i = 0; i < 3; i++)
		assert_block(test.buffers[i], i);
}

static long destroy(void *arg)
{
	(void)arg;
	unit_destroy(test.handle);
	return 0;
}

static void destroying_waits_for_the_kernel(void **state)
{
	struct unit_thread thread;

	(void)state;
	submit(IOCB_CMD_PWRITE, 5);
	unit_thread_start(&thread, destroy, NULL);
	unit_await_sleep(&thread);
	execute();
	unit_thread_join(&thread);
	test.handle = unit_context(32);
	submit(IOCB_CMD_PREAD, 6);
	execute();
	reap(1);
	/* The ring serves the next context. */
	assert_int_equal(kernel.nr_setups, 1);
	assert_int_equal(kernel.nr_destroys, 0);
}

static long close_direct(void *arg)
{
	(void)arg;
	unit_close(test.direct);
	return 0;
}

static void closing_waits_for_the_kernel(void **state)
{
	struct unit_thread thread;

	(void)state;
	submit(IOCB_CMD_PREAD, 7);
	submit(IOCB_CMD_PWRITE, 8);
	unit_thread_start(&thread, close_direct, NULL);
	unit_await_sleep(&thread);
	execute();
	execute();
	unit_thread_join(&thread);
	reap(2);
	assert_block(test.buffers[0], 7);
	test.direct = -1;
}

/* A worker executes it on the descriptor. */
static void what_is_given_back_late_is_not_lost(void **state)
{
	struct unit_thread thread;
	char bytes[SIZE];

	(void)state;
	submit(IOCB_CMD_PWRITE, 8);
	unit_thread_start(&thread, close_direct, NULL);
	unit_await_sleep(&thread);
	give_back();
	unit_thread_join(&thread);
	reap(1);
	assert_int_equal(pread(test.fd, bytes, SIZE, 8 * SIZE), SIZE);
	assert_memory_equal(bytes, test.buffers[0], SIZE);
	test.direct = -1;
}

static sigjmp_buf to_client;

static void leave_by_a_jump(int signal)
{
	(void)signal;
	siglongjmp(to_client, 1);
}

static long wait_and_jump(void *arg)
{
	struct io_event event;

	(void)arg;
	if (sigsetjmp(to_client, 1) == 0)
		(void)unit_reap(test.handle, 1, &event);
	submit(IOCB_CMD_PREAD, 1);
	execute();
	unit_await(has_event, NULL);
	return 0;
}

/* It led the context, and sleeps there no more. */
static void a_thread_that_jumped_out_of_its_sleep_submits(void **state)
{
	struct sigaction action = { .sa_handler = leave_by_a_jump }, old;
	struct unit_thread thread;

	(void)state;
	/* What a sanitizer makes of a jump out of a handler is its own. */
	if (UNIT_IS_SANITIZED)
		return;
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	submit(IOCB_CMD_PREAD, 0);
	unit_thread_start(&thread, wait_and_jump, NULL);
	unit_await_sleep(&thread);
	assert_int_equal(pthread_kill(thread.id, SIGUSR1), 0);
	unit_thread_join(&thread);
	execute();
	reap(2);
	assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

static void a_lost_eventfd_ends_it(void **state)
{
	(void)state;
	kernel.submit_error = -EBADF;
	for (unsigned i = 0; i < 3; i++) {
		submit(IOCB_CMD_PREAD, i);
		reap(1);
		assert_block(test.buffers[i], i);
	}
	assert_int_equal(kernel.nr_submits, 1);
}

static void the_program_may_have_the_eventfd_s_number(void **state)
{
	int fd;

	(void)state;
	submit(IOCB_CMD_PREAD, 0);
	fd = (int)kernel.taken[0].aio_resfd;
	assert_int_equal(uaio_own_fd_yield(fd), 0);
	assert_int_equal(close(fd), 0);
	submit(IOCB_CMD_PREAD, 1);
	assert_int_not_equal(kernel.taken[1].aio_resfd, fd);
	/* The kernel itself goes by the file, and not by its number. */
	kernel.taken[0].aio_resfd = kernel.taken[1].aio_resfd;
	execute();
	execute();
	reap(2);
}

static void a_ring_that_is_refused_is_asked_for_later(void **state)
{
	int64_t since = uaio_now_ns();

	(void)state;
	kernel.setup_error = -EAGAIN;
	for (unsigned i = 0; i < 3; i++) {
		submit(IOCB_CMD_PREAD, i);
		reap(1);
		assert_block(test.buffers[i], i);
	}
	/* Once, and again each second. */
	assert_in_range(kernel.nr_setups, 1,
			1 + (uaio_now_ns() - since) / 1000000000);
	assert_int_equal(kernel.nr_submits, 0);
}

#define NATIVE_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		NATIVE_TEST(a_batch_is_one_call),
		NATIVE_TEST(a_sync_comes_after_writes_that_end_together),
		NATIVE_TEST(a_waiter_sleeps_until_the_kernel_is_done),
		NATIVE_TEST(a_waiter_learns_of_what_is_submitted_later),
		NATIVE_TEST(a_client_that_does_not_call_finds_its_events),
		NATIVE_TEST(what_is_given_back_goes_to_a_worker),
		NATIVE_TEST(a_file_that_cannot_is_asked_once),
		NATIVE_TEST(what_the_kernel_has_no_room_for_goes_to_workers),
		NATIVE_TEST(destroying_waits_for_the_kernel),
		NATIVE_TEST(closing_waits_for_the_kernel),
		NATIVE_TEST(what_is_given_back_late_is_not_lost),
		NATIVE_TEST(a_thread_that_jumped_out_of_its_sleep_submits),
		NATIVE_TEST(a_lost_eventfd_ends_it),
		NATIVE_TEST(the_program_may_have_the_eventfd_s_number),
		NATIVE_TEST(a_filter_that_comes_later_ends_it),
		NATIVE_TEST(a_ring_that_is_refused_is_asked_for_later),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
