/* SPDX-License-Identifier: MIT */
/*
 * segments-meet: tests which threads execute the segments of a direct request, and what
 * other threads may do meanwhile to its context and its file
 */
#undef NDEBUG
#include "segments.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "options/config.h"
#include "aio/aio.h"
#include "aio/handle.h"
#include "threads.h"

/* WORKERS: how many workers exist; SHARE: how many of them one device may occupy */
enum { WORKERS = 32, SHARE = WORKERS * 7 / 8 };

/*
 * Which threads execute segments
 */

static unsigned nr_busy(unsigned at_once)
{
	return at_once < NR_SEGMENTS ? at_once : NR_SEGMENTS;
}

static void segments_are_made_at_once(void **state)
{
	static const unsigned counts[] = { 1, 2, 3, 4, 16, 64 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(counts); i++)
		for (unsigned j = 0; j < NR_SHAPES; j++) {
			const struct shape *of = &shapes[j];
			unsigned busy = nr_busy(counts[i]);

			if (of->op == SLOWFS_WRITE && !are_writes_parallel())
				continue;
			set_at_once(counts[i]);
			slowfs_most_held(fs, of->op);
			slowfs_hold(fs, of->op);
			submit(of);
			slowfs_await(fs, of->op, busy);
			await_busy(busy);
			slowfs_release(fs, of->op);
			items_await_rest();
			assert_int_equal(slowfs_most_held(fs, of->op), busy);
			assert_executed(BYTES);
			if (of->op == SLOWFS_WRITE)
				fill_file();
		}
}

static char stuck_buffers[WORKERS][PAGE];

static int stick(uint64_t stuck, unsigned nr)
{
	int stuck_fd = open("other/file", O_RDONLY | O_CLOEXEC);

	assert_true(stuck_fd >= 0);
	slowfs_hold(other_fs, SLOWFS_READ);
	for (unsigned i = 0; i < nr; i++) {
		struct iocb read = unit_iocb(IOCB_CMD_PREAD, stuck_fd,
					     stuck_buffers[i], PAGE, 0);

		assert_int_equal(unit_submit(stuck, &read), 1);
	}
	slowfs_await(other_fs, SLOWFS_READ, nr);
	return stuck_fd;
}

static void unstick(uint64_t stuck, int stuck_fd, unsigned nr)
{
	struct io_event events[WORKERS];

	slowfs_release(other_fs, SLOWFS_READ);
	assert_int_equal(unit_reap(stuck, nr, events), nr);
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(events[i].res, PAGE);
	unit_close(stuck_fd);
}

/* All workers but one are busy, so the free worker must execute all segments. */
static void one_worker_makes_all_where_others_are_stuck(void **state)
{
	int was_allowed = uaio_wq_limit_workers(UAIO_BOUNDED, WORKERS);
	uint64_t stuck = unit_context(WORKERS);
	int stuck_fd = stick(stuck, SHARE);

	(void)state;
	/* Exactly one worker stays free. */
	uaio_wq_limit_workers(UAIO_BOUNDED, SHARE + 1);
	set_at_once(16);
	for (unsigned i = 0; i < NR_SHAPES; i++) {
		slowfs_delay(fs, shapes[i].op, 200);
		slowfs_most_held(fs, shapes[i].op);
		submit(&shapes[i]);
		assert_executed(BYTES);
		assert_int_equal(slowfs_most_held(fs, shapes[i].op), 1);
		slowfs_delay(fs, shapes[i].op, 0);
		assert_int_equal(items_count(UAIO_BOUNDED).nr_queued, 0);
		make_with_fault(&shapes[i], i * 5, &faults[0]);
		fill_file();
	}
	unstick(stuck, stuck_fd, SHARE);
	unit_destroy(stuck);
	uaio_wq_limit_workers(UAIO_BOUNDED, was_allowed);
}

static void few_workers_make_all(void **state)
{
	(void)state;
	set_at_once(16);
	for (int nr = 0; nr < 4; nr++) {
		int old = uaio_wq_limit_workers(UAIO_BOUNDED, nr);

		assert_true(old > 0);
		expect_whole(!nr);
		make_all_shapes();
		expect_whole(false);
		uaio_wq_limit_workers(UAIO_BOUNDED, old);
	}
}

static int run_engine(void)
{
	assert_int_equal(unit_engine(NULL), 0);
	uaio_config.force_worker = true;
	set_at_once(16);
	open_file();
	fill_file();
	handle = unit_context(4);
	make_all_shapes();
	unit_destroy(handle);
	return 0;
}

/*
 * unit_allow_threads() limits the library's threads. Without any worker, the submitting
 * thread executes the request as a whole.
 */
static void the_threads_there_are_make_all(void **state)
{
	(void)state;
	for (unsigned nr = 0; nr < 6; nr++) {
		unit_allow_threads(nr);
		expect_whole(!nr);
		assert_int_equal(unit_in_child(run_engine), 0);
	}
	expect_whole(false);
	unit_allow_threads(UINT32_MAX);
}

/*
 * What other threads may do while workers execute the segments of a split request
 */

static void hold_in_segments(const struct shape *of)
{
	set_at_once(4);
	slowfs_hold(fs, of->op);
	submit(of);
	slowfs_await(fs, of->op, of->op == SLOWFS_READ ? 4 : 1);
}

static void it_cannot_be_cancelled_once_it_is_made(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_SHAPES; i++) {
		hold_in_segments(&shapes[i]);
		assert_int_equal(uaio_ctx_cancel(handle, (uintptr_t)&iocb),
				 -EINVAL);
		assert_int_equal(uaio_ctx_cancel_one(handle, (uintptr_t)&iocb),
				 -EALREADY);
		assert_int_equal(uaio_ctx_cancel_fd(handle, fd), -EALREADY);
		assert_int_equal(uaio_ctx_cancel_all(handle), -EALREADY);
		assert_no_more();
		slowfs_release(fs, shapes[i].op);
		assert_executed(BYTES);
		fill_file();
	}
}

static long close_it(void *arg)
{
	unit_close(*(int *)arg);
	return 0;
}

static void closing_waits_until_it_is_made(void **state)
{
	struct unit_thread thread;
	struct stat st;

	(void)state;
	for (unsigned i = 0; i < NR_SHAPES; i++) {
		int old = fd;

		hold_in_segments(&shapes[i]);
		unit_thread_start(&thread, close_it, &old);
		unit_await_sleep(&thread);
		/*
		 * close() must still wait for the held segments, and its descriptor
		 * must still be open.
		 */
		assert_int_equal(sys_fstat(old, &st), 0);
		slowfs_release(fs, shapes[i].op);
		assert_int_equal(unit_thread_join(&thread), 0);
		assert_int_equal(fcntl(old, F_GETFD), -1);
		open_file();
		assert_executed(BYTES);
		fill_file();
	}
}

static long destroy(void *arg)
{
	(void)arg;
	unit_destroy(handle);
	return 0;
}

static void destroying_waits_until_it_is_made(void **state)
{
	struct unit_thread thread;

	(void)state;
	for (unsigned i = 0; i < NR_SHAPES; i++) {
		hold_in_segments(&shapes[i]);
		unit_thread_start(&thread, destroy, NULL);
		unit_await_sleep(&thread);
		slowfs_release(fs, shapes[i].op);
		assert_int_equal(unit_thread_join(&thread), 0);
		assert_data(BYTES);
		handle = unit_context(4);
		fill_file();
	}
}

/*
 * RWF_NOAPPEND exists since Linux 6.9. One byte is written, because a write of no bytes
 * would accept unknown flags.
 */
static bool has_noappend(void)
{
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	ssize_t written = pwritev2(null, &iov, 1, 0, 0x20);

	assert_int_equal(close(null), 0);
	return written == 1;
}

/*
 * O_APPEND is set while segments are in flight. It must have no effect, even on
 * segments whose system call has not begun.
 */
static void it_is_written_in_its_place(void **state)
{
	struct stat before, after;

	(void)state;
	if (!has_noappend())
		skip();
	for (unsigned i = 0; i < NR_SHAPES; i++) {
		if (shapes[i].op != SLOWFS_WRITE)
			continue;
		assert_int_equal(fstat(fd, &before), 0);
		hold_in_segments(&shapes[i]);
		assert_int_equal(fcntl(fd, F_SETFL, O_DIRECT | O_APPEND), 0);
		slowfs_release(fs, SLOWFS_WRITE);
		assert_executed(BYTES);
		assert_int_equal(fcntl(fd, F_SETFL, O_DIRECT), 0);
		assert_int_equal(fstat(fd, &after), 0);
		assert_int_equal(after.st_size, before.st_size);
		fill_file();
	}
}

static uint32_t nr_maps; /* atomic */

static bool count_maps(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr == SYS_mmap)
		add_relaxed(&nr_maps, 1);
	return false;
}

/*
 * The library must free the struct uaio_split that it allocates for each split request.
 * One mapping has room for many of these structs. Submit more requests than fit into
 * one mapping: the library must reuse the freed structs, and map no more memory.
 */
static void what_it_took_is_given_back(void **state)
{
	enum { REQUESTS = 3 * 65536 / sizeof(struct uaio_split) };

	(void)state;
	set_at_once(16);
	make_all_shapes();
	store_relaxed(&nr_maps, 0);
	unit_hook(count_maps);
	for (unsigned i = 0; i < REQUESTS; i++) {
		submit(&shapes[i % 2]);
		assert_int_equal(unit_reap_one(handle), BYTES);
		make_with_fault(&shapes[i % 2], i % NR_SEGMENTS,
				&faults[i % NR_FAULTS]);
	}
	unit_hook(NULL);
	assert_int_equal(load_relaxed(&nr_maps), 0);
}

static int make(void)
{
	char page[PAGE] = "";
	int other = open("other/file", O_CREAT | O_RDWR | O_CLOEXEC, 0644);

	return other >= 0 && write(other, page, PAGE) == PAGE &&
			       close(other) == 0
		       ? 0
		       : -1;
}

static int run(void)
{
	/* These tests run before the library has started. */
	const struct CMUnitTest first[] = {
		UNIT_TEST(the_threads_there_are_make_all),
	};
	const struct CMUnitTest tests[] = {
		SEGMENTS_TEST(segments_are_made_at_once),
		SEGMENTS_TEST(one_worker_makes_all_where_others_are_stuck),
		SEGMENTS_TEST(few_workers_make_all),
		SEGMENTS_TEST(it_cannot_be_cancelled_once_it_is_made),
		SEGMENTS_TEST(closing_waits_until_it_is_made),
		SEGMENTS_TEST(destroying_waits_until_it_is_made),
		SEGMENTS_TEST(it_is_written_in_its_place),
		SEGMENTS_TEST(what_it_took_is_given_back),
	};

	if (make())
		return 1;
	return cmocka_run_group_tests(first, NULL, NULL) +
	       cmocka_run_group_tests(tests, unit_engine, NULL);
}

int main(void)
{
	return segments_main(run);
}
