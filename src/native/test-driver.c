/* SPDX-License-Identifier: MIT */
/*
 * Requests that the driver (the library's thread that uses io_uring) gives to the
 * kernel. The ring is a real one. A hook makes its system calls fail, lets the kernel
 * accept fewer requests, or makes requests wait.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/newer.h"
#include "base/io_uring.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "file/file.h"
#include "life/life.h"
#include "native/driver.h"
#include "aio/aio.h"
#include "uaio.h"
#include "unit.h"

enum { NR_BLOCKS = 16, SIZE = UNIT_KEY_BYTES, NR = 32 };

static struct {
	/*
	 * Two descriptors of one file. The hook makes the library believe that `direct`
	 * is O_DIRECT.
	 */
	int fd, direct;
	uint64_t handle;
	struct iocb iocbs[NR];
	char buffers[NR][SIZE];
	unsigned nr;

	/* the real ring's submission entries */
	struct io_uring_sqe *sqes;
	unsigned nr_submitted;
	int empty[2]; /* a pipe without data, so reads of it block */

	/* atomic */
	uint32_t setup_error, enter_error, register_error;
	/* how many requests the kernel accepts in one call; 0: all */
	uint32_t max_taken;
	/* turn requests into reads of the empty pipe, which do not complete */
	uint32_t holds;
	/*
	 * turn requests into reads of the empty pipe with RWF_NOWAIT, which end with
	 * EAGAIN
	 */
	uint32_t gives_back;
	/* stop the driver at its next submitting call (the gate) */
	uint32_t is_closed;
	uint32_t is_at_gate; /* the driver is stopped at the gate */
	uint32_t nr_enters, nr_setups;
	/* io_setup fails, so there is no kernel AIO */
	uint32_t is_quota_used_up;
	/* make the driver's epoll fail, as if the program had closed it */
	uint32_t is_deaf;
	/* suppress wake-ups, as if the program had closed the driver's eventfd */
	uint32_t is_mute;
	/* how many waits of the driver the test lets end */
	uint32_t nr_turns;
	uint32_t nr_waits; /* how many waits of the driver have begun */

	/* requests executed by the kernel before this test */
	uint64_t nr_before;
} test;

/*
 * Change the next nr submission entries into reads of the empty pipe, with RWF_NOWAIT
 * if gives_back is set.
 */
static void bend(unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		struct io_uring_sqe *sqe =
			&test.sqes[(test.nr_submitted + i) % 64];

		sqe->opcode = IORING_OP_READ;
		sqe->fd = test.empty[0];
		sqe->off = 0;
		sqe->rw_flags = load_relaxed(&test.gives_back) ? RWF_NOWAIT : 0;
	}
}

static bool is_open(void *arg)
{
	(void)arg;
	return !load_acquire(&test.is_closed);
}

static _Thread_local bool is_driver;

static long enter(const long args[6])
{
	unsigned nr = (unsigned)args[1];
	uint32_t max = load_relaxed(&test.max_taken);
	long changed[6];

	is_driver = true;
	store_release(&test.is_at_gate, 1);
	unit_await(is_open, NULL);
	store_release(&test.is_at_gate, 0);
	add_relaxed(&test.nr_enters, 1);
	if (load_relaxed(&test.enter_error))
		return -(long)load_relaxed(&test.enter_error);
	if (load_relaxed(&test.holds) || load_relaxed(&test.gives_back))
		bend(nr);
	memcpy(changed, args, sizeof(changed));
	if (max && max < nr)
		changed[1] = max;
	test.nr_submitted += (unsigned)changed[1];
	return unit_make_call(SYS_io_uring_enter, changed);
}

static bool has_turn(void *nr)
{
	return load_acquire(&test.nr_turns) > (uintptr_t)nr;
}

/* Simulates a wait of the driver that times out when the test says so. */
static long wait_for_turn(void)
{
	uint32_t nr = add_relaxed(&test.nr_waits, 1);

	unit_await(has_turn, (void *)(uintptr_t)nr);
	return 0;
}

static bool play(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_fcntl && args[1] == F_GETFL && args[0] == test.direct) {
		*ret_res = O_RDWR | O_DIRECT;
	} else if (nr == SYS_fstatfs) {
		*ret_res = unit_say_ext4(args);
	} else if (nr == SYS_epoll_pwait2 && is_driver &&
		   load_relaxed(&test.is_deaf)) {
		*ret_res = -EBADF;
	} else if (nr == SYS_epoll_pwait2 && is_driver &&
		   load_relaxed(&test.is_mute)) {
		*ret_res = wait_for_turn();
	} else if (nr == SYS_io_setup && load_relaxed(&test.is_quota_used_up)) {
		*ret_res = -EAGAIN;
	} else if (nr == SYS_io_uring_setup) {
		add_relaxed(&test.nr_setups, 1);
		*ret_res = load_relaxed(&test.setup_error)
				   ? -(long)load_relaxed(&test.setup_error)
				   : unit_make_call(nr, args);
	} else if (nr == SYS_io_uring_register &&
		   load_relaxed(&test.register_error)) {
		*ret_res = -(long)load_relaxed(&test.register_error);
	} else if (nr == SYS_io_uring_enter) {
		*ret_res = enter(args);
	} else if (nr == SYS_mmap && args[5] == (long)IORING_OFF_SQES) {
		*ret_res = unit_make_call(nr, args);
		test.sqes = (struct io_uring_sqe *)*ret_res;
		test.nr_submitted = 0;
	} else {
		return false;
	}
	return true;
}

static void open_direct(void)
{
	char path[32];

	test.fd = unit_numbered_file(false, NR_BLOCKS);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", test.fd);
	test.direct = open(path, O_RDWR | O_CLOEXEC);
	assert_true(test.direct >= 0);
}

static bool has_no_driver(void *arg)
{
	(void)arg;
	return !uaio_driver_is_there();
}

static bool is_quiet(void *arg)
{
	(void)arg;
	return uaio_driver_is_quiet();
}

static bool is_refused(void *arg)
{
	(void)arg;
	return uaio_driver_is_refused();
}

static bool is_at_gate(void *arg)
{
	(void)arg;
	return load_acquire(&test.is_at_gate);
}

static bool has_entered(void *arg)
{
	(void)arg;
	return load_relaxed(&test.nr_enters);
}

/* Return: how many requests the kernel has executed in this test. */
static uint64_t nr_executed(void)
{
	return uaio_driver_executed() - test.nr_before;
}

static int start(void **state)
{
	int ret = unit_setup(state);

	uaio_config.backend = UAIO_BACKEND_URING;
	test.nr = 0;
	test.nr_before = uaio_driver_executed();
	test.setup_error = test.enter_error = test.register_error = 0;
	test.max_taken = test.holds = test.gives_back = 0;
	test.is_quota_used_up = test.is_deaf = test.is_mute = 0;
	test.nr_turns = test.nr_waits = 0;
	/*
	 * Tests may stop the driver at the gate for long. So the library must never
	 * consider it held up.
	 */
	uaio_driver_have_patience(UAIO_FOREVER);
	test.is_closed = test.is_at_gate = test.nr_enters = test.nr_setups = 0;
	assert_int_equal(pipe2(test.empty, O_CLOEXEC), 0);
	open_direct();
	unit_hook(play);
	test.handle = unit_context(NR);
	return ret;
}

/* Each test has a ring of its own, so the driver must end here. */
static int stop(void **state)
{
	unit_destroy(test.handle);
	uaio_driver_end_when_idle();
	unit_await(has_no_driver, NULL);
	unit_hook(NULL);
	uaio_driver_ask_again();
	unit_close(test.fd);
	if (test.direct >= 0)
		unit_close(test.direct);
	close(test.empty[0]);
	close(test.empty[1]);
	uaio_config.backend = UAIO_BACKEND_THREADS;
	return unit_teardown(state);
}

static struct iocb *prepared(unsigned opcode, unsigned block)
{
	struct iocb *iocb = &test.iocbs[test.nr];
	char *buffer = test.buffers[test.nr++];

	memset(buffer, opcode == IOCB_CMD_PWRITE ? 'w' : '.', SIZE);
	*iocb = opcode == IOCB_CMD_FSYNC
			? unit_iocb(opcode, test.direct, NULL, 0, 0)
			: unit_iocb(opcode, test.direct, buffer, SIZE,
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
	struct io_event events[NR];

	assert_int_equal(unit_reap(test.handle, nr, events), nr);
	for (unsigned i = 0; i < nr; i++) {
		const struct iocb *iocb =
			(const struct iocb *)(uintptr_t)events[i].obj;

		assert_int_equal(events[i].res, iocb->aio_nbytes);
	}
}

/*
 * Read nr blocks, and check the data.
 * Return: how many of the reads the kernel has executed.
 */
static uint64_t read_some(unsigned nr)
{
	uint64_t before = nr_executed();
	unsigned first = test.nr;

	for (unsigned i = 0; i < nr; i++)
		submit(IOCB_CMD_PREAD, i);
	reap(nr);
	for (unsigned i = 0; i < nr; i++)
		assert_block(test.buffers[first + i], i);
	return nr_executed() - before;
}

static void reads_are_executed_by_the_kernel(unsigned nr)
{
	assert_int_equal(read_some(nr), nr);
}

static void reads_are_executed_otherwise(unsigned nr)
{
	assert_int_equal(read_some(nr), 0);
}

static void what_waits_is_executed_by_the_kernel(void **state)
{
	struct iocb *list[9];
	char bytes[SIZE];

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		list[i] = prepared(i & 1 ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD, i);
	list[8] = prepared(IOCB_CMD_FSYNC, 0);
	assert_int_equal(uaio_aio_submit(test.handle, 9, list), 9);
	reap(9);
	/* The kernel has executed all but the sync. */
	assert_int_equal(nr_executed(), 8);
	for (unsigned i = 0; i < 8; i += 2)
		assert_block(test.buffers[i], i);
	assert_int_equal(pread(test.fd, bytes, SIZE, SIZE), SIZE);
	assert_memory_equal(bytes, test.buffers[1], SIZE);
	assert_int_equal(load_relaxed(&test.nr_setups), 1);
}

static void programs_are_told_how_many_that_were(void **state)
{
	struct uaio_counters before, after;

	(void)state;
	uaio_counters_read(&before);
	reads_are_executed_by_the_kernel(3);
	uaio_counters_read(&after);
	assert_int_equal(after.nr_io_uring - before.nr_io_uring, 3);
	assert_int_equal(after.nr_kernel, before.nr_kernel);
}

static void a_server_s_file_is_left_to_workers(void **state)
{
	struct uaio_file *file;

	(void)state;
	assert_int_equal(uaio_file_get(test.direct, &file), 0);
	store_relaxed(&file->flags,
		      load_relaxed(&file->flags) | UAIO_FILE_F_REMOTE);
	reads_are_executed_otherwise(3);
	uaio_file_put(file);
}

static void the_kernel_may_take_less_than_it_is_given(void **state)
{
	struct iocb *list[8];

	(void)state;
	store_release(&test.is_closed, 1);
	for (unsigned i = 0; i < 8; i++)
		list[i] = prepared(IOCB_CMD_PREAD, i);
	store_relaxed(&test.max_taken, 3);
	assert_int_equal(uaio_aio_submit(test.handle, 8, list), 8);
	store_release(&test.is_closed, 0);
	reap(8);
	for (unsigned i = 0; i < 8; i++)
		assert_block(test.buffers[i], i);
	assert_in_range(nr_executed(), 1, 7);
	store_relaxed(&test.max_taken, 0);
	reads_are_executed_by_the_kernel(8);
}

static void nothing_is_lost_where_no_ring_is_to_be_had(void **state)
{
	static const uint32_t errors[] = { ENOMEM, EMFILE, EPERM, ENOSYS };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		unsigned nr_setups = load_relaxed(&test.nr_setups);

		store_relaxed(&test.setup_error, errors[i]);
		reads_are_executed_otherwise(3);
		/* After a refusal, the library makes no other ring for a while. */
		assert_int_equal(load_relaxed(&test.nr_setups), nr_setups + 1);
		uaio_driver_ask_again();
	}
	store_relaxed(&test.setup_error, 0);
	reads_are_executed_by_the_kernel(3);
}

/*
 * A worker executes the first request, with which the library finds out that the
 * process cannot have kernel AIO. The driver gets the later requests.
 */
static void by_default_it_is_used_where_kernel_aio_cannot_be_had(void **state)
{
	(void)state;
	uaio_config.backend = UAIO_BACKEND_AUTO;
	store_relaxed(&test.is_quota_used_up, 1);
	submit(IOCB_CMD_PREAD, 0);
	reap(1);
	reads_are_executed_by_the_kernel(4);
	/*
	 * With the default backend, workers execute syncs and requests on cached files.
	 */
	submit(IOCB_CMD_FSYNC, 0);
	reap(1);
	assert_int_equal(nr_executed(), 4);
}

static void nothing_is_lost_where_the_ring_cannot_be_used(void **state)
{
	(void)state;
	store_relaxed(&test.register_error, EINVAL);
	reads_are_executed_otherwise(4);
	unit_await(has_no_driver, NULL);
	store_relaxed(&test.register_error, 0);
	uaio_driver_ask_again();
	reads_are_executed_by_the_kernel(4);
}

/*
 * The hook refuses io_uring_enter() while the kernel has requests, as if a seccomp
 * filter had been installed. The driver must still collect the completions of these
 * requests.
 */
static void what_the_kernel_has_is_taken_when_it_refuses_the_rest(void **state)
{
	static const uint32_t errors[] = { EPERM, ENOSYS, EBADF };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		uint64_t before = nr_executed();
		char bytes[SIZE] = "from the pipe";

		store_relaxed(&test.holds, 1);
		submit(IOCB_CMD_PREAD, 1);
		submit(IOCB_CMD_PREAD, 2);
		unit_await(has_entered, NULL);
		unit_await(is_quiet, NULL);
		store_relaxed(&test.holds, 0);
		store_relaxed(&test.enter_error, errors[i]);
		submit(IOCB_CMD_PREAD, 3);
		reap(1);
		assert_block(test.buffers[test.nr - 1], 3);
		assert_int_equal(nr_executed(), before);
		assert_int_equal(write(test.empty[1], bytes, SIZE), SIZE);
		assert_int_equal(write(test.empty[1], bytes, SIZE), SIZE);
		reap(2);
		assert_int_equal(nr_executed(), before + 2);
		store_relaxed(&test.enter_error, 0);
		unit_await(has_no_driver, NULL);
		store_relaxed(&test.nr_enters, 0);
		uaio_driver_ask_again();
	}
	reads_are_executed_by_the_kernel(2);
}

static void what_is_given_back_goes_to_a_worker(void **state)
{
	(void)state;
	store_relaxed(&test.gives_back, 1);
	reads_are_executed_otherwise(5);
	assert_int_equal(nr_executed(), 0);
}

/*
 * Stop the driver at the gate while it submits the first request. Later requests then
 * stay on the driver's list.
 */
static void hold_driver(void)
{
	store_release(&test.is_closed, 1);
	submit(IOCB_CMD_PREAD, 0);
	unit_await(is_at_gate, NULL);
}

static void what_is_lined_can_be_cancelled(void **state)
{
	struct io_event event;
	uint64_t before;

	(void)state;
	hold_driver();
	submit(IOCB_CMD_PREAD, 1);
	before = nr_executed();
	assert_int_equal(uaio_aio_cancel(test.handle, &test.iocbs[1]),
			 -EINPROGRESS);
	assert_int_equal(unit_reap(test.handle, 1, &event), 1);
	assert_int_equal(event.obj, (uintptr_t)&test.iocbs[1]);
	assert_int_equal(event.res, -ECANCELED);
	/* The request that the driver is submitting cannot be cancelled. */
	assert_int_equal(uaio_aio_cancel(test.handle, &test.iocbs[0]), -EINVAL);
	store_release(&test.is_closed, 0);
	reap(1);
	assert_int_equal(nr_executed(), before + 1);
}

static long close_direct(void *arg)
{
	(void)arg;
	unit_close(test.direct);
	return 0;
}

/*
 * One request is just being submitted, and one is on the driver's list. Closing the
 * file must wait for both requests.
 */
static void closing_waits_until_the_kernel_has_them(void **state)
{
	struct unit_thread closer;
	int other = unit_file(false);
	char bytes[SIZE];

	(void)state;
	hold_driver();
	submit(IOCB_CMD_PWRITE, 3);
	unit_thread_start(&closer, close_direct, NULL);
	unit_await_sleep(&closer);
	assert_true(fcntl(test.direct, F_GETFD) >= 0);
	store_release(&test.is_closed, 0);
	unit_thread_join(&closer);
	unit_dup2(other, test.direct);
	reap(2);
	assert_int_equal(pread(test.fd, bytes, SIZE, 3 * SIZE), SIZE);
	assert_memory_equal(bytes, test.buffers[1], SIZE);
	assert_int_equal(pread(other, bytes, SIZE, 0), 0);
	unit_close(other);
}

/*
 * The program replaces the descriptor by another file (dup2), without the library
 * noticing. The request must not write to that file.
 */
static void a_descriptor_that_was_replaced_is_another_file(void **state)
{
	int other = unit_file(false);
	struct io_event events[2];
	char bytes[SIZE];

	(void)state;
	hold_driver();
	submit(IOCB_CMD_PWRITE, 3);
	assert_int_equal(dup2(other, test.direct), test.direct);
	store_release(&test.is_closed, 0);
	assert_int_equal(unit_reap(test.handle, 2, events), 2);
	for (unsigned i = 0; i < 2; i++)
		if (events[i].obj == (uintptr_t)&test.iocbs[1])
			assert_int_equal(events[i].res, -EBADF);
	assert_int_equal(pread(other, bytes, SIZE, 0), 0);
	unit_close(other);
}

static long destroy(void *arg)
{
	(void)arg;
	unit_destroy(test.handle);
	return 0;
}

static void destroying_waits_for_what_the_kernel_has(void **state)
{
	char bytes[SIZE] = "from the pipe";
	struct unit_thread thread;

	(void)state;
	store_relaxed(&test.holds, 1);
	submit(IOCB_CMD_PREAD, 0);
	unit_await(has_entered, NULL);
	unit_thread_start(&thread, destroy, NULL);
	unit_await_sleep(&thread);
	assert_int_equal(write(test.empty[1], bytes, SIZE), SIZE);
	unit_thread_join(&thread);
	assert_memory_equal(test.buffers[0], bytes, SIZE);
	store_relaxed(&test.holds, 0);
	test.handle = unit_context(NR);
}

static long submit_and_reap(void *arg)
{
	uint64_t handle = unit_context(4);
	unsigned nr = unit_rounds(2000);
	char buffer[4][SIZE];

	(void)arg;
	for (unsigned i = 0; i < nr; i++) {
		struct iocb iocb =
			unit_iocb(IOCB_CMD_PREAD, test.direct, buffer[i % 4],
				  SIZE, (int64_t)(i % NR_BLOCKS) * SIZE);

		assert_int_equal(unit_submit(handle, &iocb), 1);
		assert_int_equal(unit_reap_one(handle), SIZE);
		assert_block(buffer[i % 4], i % NR_BLOCKS);
	}
	unit_destroy(handle);
	return nr;
}

/*
 * While three threads submit requests, the driver sleeps and is woken all the time, and
 * ends at times.
 */
static void no_thread_waits_for_a_driver_that_sleeps(void **state)
{
	struct unit_thread threads[3];
	uint64_t nr = 0;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		unit_thread_start(&threads[i], submit_and_reap, NULL);
	for (unsigned i = 0; i < 100; i++) {
		uaio_driver_end_when_idle();
		sched_yield();
	}
	for (unsigned i = 0; i < 3; i++)
		nr += (uint64_t)unit_thread_join(&threads[i]);
	assert_int_equal(nr_executed(), nr);
}

/*
 * Requests for which the kernel's ring has no room must not wait for older requests:
 * workers execute them.
 */
static void a_full_ring_holds_up_nothing(void **state)
{
	static struct iocb iocbs[3000];
	static struct iocb *list[3000];
	static struct io_event events[3000];
	static char bytes[SIZE];
	uint64_t handle = unit_context(3000);

	(void)state;
	hold_driver();
	for (unsigned i = 0; i < 3000; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, test.direct, bytes, SIZE,
				     SIZE);
		list[i] = &iocbs[i];
	}
	assert_int_equal(uaio_aio_submit(handle, 3000, list), 3000);
	/* These 900 requests did not fit into the ring, so workers execute them. */
	assert_int_equal(unit_reap(handle, 900, events), 900);
	store_release(&test.is_closed, 0);
	assert_int_equal(unit_reap(handle, 2100, events), 2100);
	reap(1);
	unit_destroy(handle);
}

/*
 * The driver is held up in its submitting call. In reality this happens if the kernel
 * must fetch the memory of a request, which may take long. Meanwhile workers must
 * execute the requests on the driver's list.
 */
static void
what_is_lined_does_not_wait_for_a_driver_that_is_held_up(void **state)
{
	struct io_event events[NR];
	unsigned nr = 0;

	(void)state;
	hold_driver();
	submit(IOCB_CMD_PREAD, 1);
	uaio_driver_have_patience(1);
	submit(IOCB_CMD_PREAD, 2);
	assert_int_equal(unit_reap(test.handle, 2, events), 2);
	for (unsigned i = 0; i < 2; i++)
		nr += events[i].obj != (uintptr_t)&test.iocbs[0];
	assert_int_equal(nr, 2);
	assert_block(test.buffers[1], 1);
	assert_block(test.buffers[2], 2);
	assert_int_equal(nr_executed(), 0);
	store_release(&test.is_closed, 0);
	reap(1);
	assert_int_equal(nr_executed(), 1);
}

/*
 * The driver's epoll fails, as if the program had closed it by a call that the library
 * does not see.
 */
static void nothing_is_lost_where_its_epoll_is_closed(void **state)
{
	char bytes[SIZE] = "from the pipe";

	(void)state;
	store_relaxed(&test.holds, 1);
	store_relaxed(&test.is_deaf, 1);
	submit(IOCB_CMD_PREAD, 0);
	unit_await(has_entered, NULL);
	unit_await(is_refused, NULL);
	reads_are_executed_otherwise(3);
	assert_int_equal(write(test.empty[1], bytes, SIZE), SIZE);
	reap(1);
	assert_int_equal(nr_executed(), 1);
	unit_await(has_no_driver, NULL);
}

static bool is_waiting(void *nr)
{
	return load_relaxed(&test.nr_waits) == (uintptr_t)nr;
}

/*
 * A single missing wake-up may only be late. If two in a row are missing, the
 * library must assume that the eventfd is closed, and stop using the driver.
 */
static void nothing_is_lost_where_its_eventfd_is_closed(void **state)
{
	(void)state;
	store_relaxed(&test.is_mute, 1);
	submit(IOCB_CMD_PREAD, 0);
	reap(1);
	for (unsigned i = 0; i < 2; i++) {
		unit_await(is_waiting, (void *)(uintptr_t)(i + 1));
		assert_false(uaio_driver_is_refused());
		submit(IOCB_CMD_PREAD, i + 1);
		add_relaxed(&test.nr_turns, 1);
		reap(1);
		assert_block(test.buffers[i + 1], i + 1);
	}
	unit_await(has_no_driver, NULL);
	reads_are_executed_otherwise(3);
}

static void a_driver_sleeps_beside_a_full_ring(void **state)
{
	static struct iocb iocbs[3000];
	static struct iocb *list[3000];
	static struct io_event events[3000];
	static char bytes[SIZE];
	uint64_t handle = unit_context(3000);

	(void)state;
	store_relaxed(&test.holds, 1);
	for (unsigned i = 0; i < 3000; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, test.direct, bytes, SIZE,
				     SIZE);
		list[i] = &iocbs[i];
	}
	assert_int_equal(uaio_aio_submit(handle, 3000, list), 3000);
	assert_int_equal(unit_reap(handle, 3000 - 2048, events), 3000 - 2048);
	unit_await(is_quiet, NULL);
	for (unsigned i = 0; i < 2048; i++)
		assert_int_equal(write(test.empty[1], bytes, SIZE), SIZE);
	assert_int_equal(unit_reap(handle, 2048, events), 2048);
	assert_int_equal(nr_executed(), 2048);
	unit_destroy(handle);
}

#define DRIVER_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DRIVER_TEST(what_waits_is_executed_by_the_kernel),
		DRIVER_TEST(programs_are_told_how_many_that_were),
		DRIVER_TEST(a_server_s_file_is_left_to_workers),
		DRIVER_TEST(the_kernel_may_take_less_than_it_is_given),
		DRIVER_TEST(nothing_is_lost_where_no_ring_is_to_be_had),
		DRIVER_TEST(
			by_default_it_is_used_where_kernel_aio_cannot_be_had),
		DRIVER_TEST(nothing_is_lost_where_the_ring_cannot_be_used),
		DRIVER_TEST(
			what_the_kernel_has_is_taken_when_it_refuses_the_rest),
		DRIVER_TEST(what_is_given_back_goes_to_a_worker),
		DRIVER_TEST(what_is_lined_can_be_cancelled),
		DRIVER_TEST(closing_waits_until_the_kernel_has_them),
		DRIVER_TEST(a_descriptor_that_was_replaced_is_another_file),
		DRIVER_TEST(destroying_waits_for_what_the_kernel_has),
		DRIVER_TEST(no_thread_waits_for_a_driver_that_sleeps),
		DRIVER_TEST(a_full_ring_holds_up_nothing),
		DRIVER_TEST(a_driver_sleeps_beside_a_full_ring),
		DRIVER_TEST(
			what_is_lined_does_not_wait_for_a_driver_that_is_held_up),
		DRIVER_TEST(nothing_is_lost_where_its_epoll_is_closed),
		DRIVER_TEST(nothing_is_lost_where_its_eventfd_is_closed),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
