/* SPDX-License-Identifier: MIT */
/*
 * Rings of native requests: how many there may be; requests without a ring; a ring
 * whose eventfd the program has closed
 */
#include <errno.h>
#include <stdint.h>

#include "base/sleep.h"
#include "life/life.h"
#include "test-kernel.h"
#include "uaio.h"

enum { NR_CONTEXTS = NR_RINGS - 2, RINGS_MAX = 64 };

static void read_one(uint64_t handle, struct iocb *iocb)
{
	struct io_event event;

	assert_int_equal(unit_submit(handle, iocb), 1);
	if (kernel.nr_taken)
		execute();
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal(event.res, SIZE);
}

static uint64_t nr_by_kernel(void)
{
	struct uaio_counters counters;

	uaio_counters_read(&counters);
	return counters.nr_kernel;
}

/*
 * The number of rings is limited, since all processes share the kernel's quota of
 * events.
 */
static void a_process_has_only_so_many_rings(void **state)
{
	uint64_t handles[NR_CONTEXTS], nr = nr_by_kernel();
	struct iocb *iocb = prepared(IOCB_CMD_PREAD, 1);

	(void)state;
	for (unsigned i = 0; i < NR_CONTEXTS; i++) {
		handles[i] = unit_context(4);
		read_one(handles[i], iocb);
	}
	assert_int_equal(kernel.nr_setups, RINGS_MAX);
	assert_int_equal(nr_by_kernel() - nr, RINGS_MAX);
	/* When a context is destroyed, another context gets its ring. */
	unit_destroy(handles[0]);
	read_one(handles[NR_CONTEXTS - 1], iocb);
	assert_int_equal(nr_by_kernel() - nr, RINGS_MAX + 1);
	assert_int_equal(kernel.nr_setups, RINGS_MAX);
	for (unsigned i = 1; i < NR_CONTEXTS; i++)
		unit_destroy(handles[i]);
}

static void one_without_a_ring_keeps_no_other_from_its_own(void **state)
{
	uint64_t handle = unit_context(4);
	struct iocb *iocb = prepared(IOCB_CMD_PREAD, 1);

	(void)state;
	read_one(test.handle, iocb);
	kernel.setup_error = -EAGAIN;
	for (unsigned i = 0; i < 8; i++) {
		read_one(handle, iocb);
		assert_int_equal(kernel.nr_submits, 1 + i);
		read_one(test.handle, iocb);
		assert_int_equal(kernel.nr_submits, 2 + i);
	}
	unit_destroy(handle);
}

/*
 * If the eventfd cannot be added to an epoll, the library must keep the ring. If it
 * lost the eventfd, the check at the end of the test would report the open descriptor.
 */
static void a_ring_that_cannot_be_watched_is_kept(void **state)
{
	struct iocb *iocb = prepared(IOCB_CMD_PREAD, 1);
	uint64_t handle = unit_context(4);
	int64_t since = uaio_now_ns();
	unsigned nr_submits;

	(void)state;
	submit(IOCB_CMD_PREAD, 2);
	kernel.unwatchable = (int)kernel.taken[0].iocb.aio_resfd;
	execute();
	reap(1);
	unit_destroy(test.handle);
	nr_submits = kernel.nr_submits;
	for (unsigned i = 0; i < 3; i++)
		read_one(handle, iocb);
	/* If the machine was slow, the library may have tried the ring again already. */
	if (uaio_now_ns() - since < 1000000000)
		assert_int_equal(kernel.nr_submits, nr_submits);
	kernel.unwatchable = 0;
	while (kernel.nr_submits == nr_submits)
		read_one(handle, iocb);
	/*
	 * The library has tried the ring again after a second; it has not made another.
	 */
	assert_true(uaio_now_ns() - since >= 1000000000);
	assert_int_equal(kernel.nr_setups, 1);
	unit_destroy(handle);
	test.handle = unit_context(32);
}

/*
 * Simulate that the program has closed the eventfd by a call that the library does not
 * see. The client must still get its event, even if late.
 */
static void an_eventfd_that_was_closed_loses_no_event(void **state)
{
	struct unit_thread thread;

	(void)state;
	submit(IOCB_CMD_PREAD, 1);
	start_reaping(&thread, 1);
	unit_await_sleep(&thread);
	kernel.tells_nobody = true;
	execute();
	unit_thread_join(&thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NATIVE_TEST(a_process_has_only_so_many_rings),
		NATIVE_TEST(one_without_a_ring_keeps_no_other_from_its_own),
		NATIVE_TEST(a_ring_that_cannot_be_watched_is_kept),
		NATIVE_TEST(an_eventfd_that_was_closed_loses_no_event),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
