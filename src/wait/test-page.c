/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "options/config.h"
#include "aio/aio.h"
#include "cold.h"

enum { FUSE = 0x65735546 };

static char buffers[NR_PAGES][PAGE];
static struct iocb iocbs[NR_PAGES];
static uint64_t handle;

static int start(void **state)
{
	int ret = cold_start(state);

	memset(buffers, 0, sizeof(buffers));
	handle = unit_context(NR_PAGES);
	return ret;
}

static int stop(void **state)
{
	if (handle)
		unit_destroy(handle);
	return cold_stop(state);
}

#define COLD_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

static void submit(unsigned page)
{
	iocbs[page] = unit_iocb(IOCB_CMD_PREAD, cold.fd, buffers[page], PAGE,
				(int64_t)page * PAGE);
	iocbs[page].aio_data = page;
	assert_int_equal(unit_submit(handle, &iocbs[page]), 1);
}

/* Submit nr cold reads. Returns when a worker is executing the first. */
static void submit_some(unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		submit(i);
	cold_await_blocked(1);
}

static void assert_data(unsigned page)
{
	for (unsigned i = 0; i < PAGE; i++)
		assert_int_equal((unsigned char)buffers[page][i], page + 1);
}

static void assert_read(const struct io_event *event, unsigned page)
{
	assert_int_equal(event->data, page);
	assert_int_equal(event->res, PAGE);
	assert_data(page);
}

/* Take up to nr events without waiting. Return: how many there were. */
static long look(struct io_event *ret_events, long nr)
{
	struct timespec zero = { 0, 0 };

	return uaio_aio_getevents(handle, 0, nr, (void *)ret_events, &zero);
}

/* Wait for nr events: each page (a bit in pages) must have one, in any order. */
static void assert_reaped(unsigned nr, uint64_t pages)
{
	struct io_event events[NR_PAGES];
	uint64_t seen = 0;

	assert_int_equal(unit_reap(handle, nr, events), nr);
	for (unsigned i = 0; i < nr; i++) {
		assert_read(&events[i], (unsigned)events[i].data);
		seen |= cold_bit((unsigned)events[i].data);
	}
	assert_int_equal(seen, pages);
	assert_int_equal(look(events, 1), 0);
}

static void one_worker_reads_the_oldest_of_a_device(void **state)
{
	enum { NR = 8 };
	struct io_event event;

	(void)state;
	cold_hold(cold_bits(NR));
	submit_some(NR);
	assert_int_equal(cold_count(&cold.nr_advised), NR);
	for (unsigned i = 0; i < NR; i++) {
		cold_await_blocked(1);
		assert_int_equal(look(&event, 1), 0);
		cold_let(cold_bit(i));
		assert_int_equal(unit_reap(handle, 1, &event), 1);
		assert_read(&event, i);
	}
	assert_int_equal(cold_count(&cold.most_blocked), 1);
	assert_int_equal(cold_count(&cold.nr_plain), NR);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(cold.order[i], i);
}

static void a_caller_finds_the_pages_that_have_come(void **state)
{
	struct io_event events[NR_PAGES];

	(void)state;
	cold_hold(cold_bits(NR_PAGES));
	submit_some(6);
	assert_int_equal(look(events, 6), 0);
	cold_come(cold_bit(1) | cold_bit(4));
	assert_int_equal(look(events, 6), 2);
	assert_read(&events[0], 1);
	assert_read(&events[1], 4);
	cold_come(cold_bits(6));
	assert_int_equal(look(events, 6), 3);
	assert_int_equal(cold_count(&cold.nr_plain), 1);
	cold_let(cold_bit(0));
	assert_reaped(1, cold_bit(0));
}

static long reap_one(void *arg)
{
	return unit_reap(handle, 1, arg);
}

/*
 * The page of a later read may arrive long before that of an older read. A thread that
 * sleeps until a read completes must notice the later read's page.
 */
static void a_sleeping_waiter_looks_again(void **state)
{
	struct unit_thread thread;
	struct io_event event;

	(void)state;
	cold_hold(cold_bits(NR_PAGES));
	submit_some(3);
	unit_thread_start(&thread, reap_one, &event);
	unit_await_sleep(&thread);
	cold_come(cold_bit(2));
	assert_int_equal(unit_thread_join(&thread), 1);
	assert_read(&event, 2);
	cold_let(cold_bits(NR_PAGES));
	assert_reaped(2, cold_bits(2));
}

static bool has_counted(void *arg)
{
	uint64_t *left = arg, count;

	if (read(iocbs[0].aio_resfd, &count, sizeof(count)) == sizeof(count))
		*left -= count;
	return !*left;
}

/* The client makes no call, so a worker must find the pages that have arrived. */
static void a_client_that_only_watches_its_ring_is_served(void **state)
{
	enum { NR = 40 };
	uint64_t left = NR;
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	cold_hold(cold_bit(0));
	for (unsigned i = 0; i < NR; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, cold.fd, buffers[i], PAGE,
				     (int64_t)i * PAGE);
		iocbs[i].aio_data = i;
		iocbs[i].aio_flags = IOCB_FLAG_RESFD;
		iocbs[i].aio_resfd = (uint32_t)fd;
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	cold_await_blocked(1);
	cold_come(cold_bits(NR));
	cold_let(cold_bit(0));
	unit_await(has_counted, &left);
	assert_int_equal(cold_count(&cold.nr_plain), 1);
	assert_reaped(NR, cold_bits(NR));
	unit_close(fd);
}

static void reads_whose_pages_never_arrive_are_executed(void **state)
{
	enum { NR = 12 };

	(void)state;
	cold_hold(cold_bit(0));
	submit_some(NR);
	cold_let(cold_bit(0));
	assert_reaped(NR, cold_bits(NR));
	assert_int_equal(cold_count(&cold.nr_plain), NR);
}

static void if_starting_pages_does_not_help_each_read_has_a_worker(void **state)
{
	enum { MAX_FUTILE = 16, NR = MAX_FUTILE + 8, SKIPS = 1024 };
	unsigned nr_advised;

	(void)state;
	cold_hold(cold_bits(NR_PAGES));
	submit_some(NR);
	/*
	 * A worker completes the oldest read, and then the library tries the other
	 * reads without success. After MAX_FUTILE such tries, the library queues each
	 * of the other reads for a worker of its own.
	 */
	cold_let(cold_bits(MAX_FUTILE));
	cold_await_blocked(NR - MAX_FUTILE);
	cold_let(cold_bits(NR));
	assert_reaped(NR, cold_bits(NR));

	nr_advised = cold_count(&cold.nr_advised);
	cold_let(cold_bits(NR_PAGES));
	for (unsigned i = 0; i < SKIPS; i++) {
		submit(i % NR_PAGES);
		assert_reaped(1, cold_bit(i % NR_PAGES));
	}
	assert_int_equal(cold_count(&cold.nr_advised), nr_advised);
	/*
	 * After SKIPS reads by workers, the library again calls posix_fadvise() for a
	 * page that a read waits for.
	 */
	submit(0);
	assert_reaped(1, cold_bit(0));
	assert_int_equal(cold_count(&cold.nr_advised), nr_advised + 1);
}

static void reads_keep_waiting_while_some_pages_arrive(void **state)
{
	enum { ROUNDS = 20, NR = 3 };
	struct io_event events[NR];

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		cold_hold(cold_bits(NR_PAGES));
		submit_some(NR);
		cold_come(cold_bit(2));
		assert_int_equal(look(events, NR), 1);
		assert_read(&events[0], 2);
		cold_go();
		cold_let(cold_bits(NR_PAGES));
		assert_reaped(2, cold_bits(2));
	}
	assert_int_equal(cold_count(&cold.nr_advised), ROUNDS * NR);
	assert_int_equal(cold_count(&cold.most_blocked), 1);
}

static void assert_a_worker_each(unsigned nr_advised)
{
	enum { NR = 8 };

	cold_hold(cold_bits(NR_PAGES));
	for (unsigned i = 0; i < NR; i++)
		submit(i);
	cold_await_blocked(NR);
	assert_int_equal(cold_count(&cold.nr_advised), nr_advised);
	cold_let(cold_bits(NR_PAGES));
	assert_reaped(NR, cold_bits(NR));
}

static void a_file_system_that_refuses_advice_is_tried_once(void **state)
{
	(void)state;
	cold.advice_error = EINVAL;
	assert_a_worker_each(1);
}

/* A file server may never answer a request, so each read must have its own worker. */
static void reads_from_a_server_have_a_worker_each(void **state)
{
	(void)state;
	store_relaxed(&cold.fs_type, FUSE);
	assert_a_worker_each(0);
}

static void a_cancelled_read_has_one_event(void **state)
{
	struct io_event event;

	(void)state;
	cold_hold(cold_bits(NR_PAGES));
	submit_some(4);
	assert_int_equal(uaio_aio_cancel(handle, &iocbs[2]), -EINPROGRESS);
	assert_int_equal(uaio_aio_cancel(handle, &iocbs[2]), -EINVAL);
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal(event.data, 2);
	assert_int_equal(event.res, -ECANCELED);
	/* The cancelled read's page arrives, but the read has no second event. */
	cold_come(cold_bit(2));
	assert_int_equal(look(&event, 1), 0);
	/* A read that a worker executes cannot be cancelled. */
	assert_int_equal(uaio_aio_cancel(handle, &iocbs[0]), -EINVAL);
	cold_let(cold_bits(NR_PAGES));
	assert_reaped(3, cold_bit(0) | cold_bit(1) | cold_bit(3));
}

/* Other requests occupy all workers, so the oldest read is still queued. */
static void a_cancelled_oldest_leaves_its_place_to_the_next(void **state)
{
	enum { NR_BUSY = 40 };
	int busy = unit_numbered_file(true, NR_BUSY);
	uint64_t other = unit_context(NR_BUSY);
	struct io_event events[NR_BUSY];
	struct iocb reads[NR_BUSY];
	static char area[NR_BUSY][UNIT_KEY_BYTES];

	(void)state;
	uaio_config.force_worker = true;
	unit_gate_close(busy);
	for (unsigned i = 0; i < NR_BUSY; i++) {
		reads[i] = unit_iocb(IOCB_CMD_PREAD, busy, area[i],
				     UNIT_KEY_BYTES, i * UNIT_KEY_BYTES);
		assert_int_equal(unit_submit(other, &reads[i]), 1);
	}
	uaio_config.force_worker = false;
	for (unsigned i = 0; i < 3; i++)
		submit(i);
	assert_int_equal(uaio_aio_cancel(handle, &iocbs[0]), -EINPROGRESS);
	assert_int_equal(unit_reap(handle, 1, events), 1);
	assert_int_equal(events[0].res, -ECANCELED);
	unit_gate_open();
	assert_reaped(2, cold_bit(1) | cold_bit(2));
	assert_int_equal(unit_reap(other, NR_BUSY, events), NR_BUSY);
	unit_destroy(other);
	unit_close(busy);
}

static long close_cold(void *arg)
{
	(void)arg;
	unit_close(cold.fd);
	return 0;
}

/*
 * The closing thread executes the reads that wait on its descriptor. Then it waits for
 * the read that a worker executes.
 */
static void closing_executes_cold_reads(void **state)
{
	enum { NR = 6 };
	struct unit_thread thread;

	(void)state;
	cold_hold(cold_bit(0));
	submit_some(NR);
	unit_thread_start(&thread, close_cold, NULL);
	assert_reaped(NR - 1, cold_bits(NR) & ~cold_bit(0));
	unit_await_sleep(&thread);
	assert_true(fcntl(cold.fd, F_GETFD) >= 0);
	cold_let(cold_bit(0));
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_reaped(1, cold_bit(0));
	store_relaxed(&cold.fd, -1);
}

/* The closing thread waits until another thread has tried a read. */
static void closing_waits_for_a_read_being_tried(void **state)
{
	struct unit_thread waiter, closer;
	struct io_event event;

	(void)state;
	cold_hold(cold_bit(0));
	submit(0);
	cold_await_blocked(1);
	submit(1);
	cold_hold_try(1);
	unit_thread_start(&waiter, reap_one, &event);
	cold_await_try();
	unit_thread_start(&closer, close_cold, NULL);
	unit_await_sleep(&closer);
	cold_hold_try(-1);
	assert_int_equal(unit_thread_join(&waiter), 1);
	assert_read(&event, 1);
	cold_let(cold_bit(0));
	assert_int_equal(unit_thread_join(&closer), 0);
	assert_reaped(1, cold_bit(0));
	store_relaxed(&cold.fd, -1);
}

/*
 * The descriptor is made to refer to another file, by a direct system call, which the
 * library does not see. The reads that wait must not read that file.
 */
static void cold_reads_read_no_other_file(void **state)
{
	enum { NR = 6 };
	struct io_event events[NR];
	int other = unit_numbered_file(true, NR * PAGE / UNIT_KEY_BYTES);
	long nr;

	(void)state;
	cold_hold(cold_bit(0));
	submit_some(NR);
	assert_int_equal(
		uaio_sys_raw(SYS_dup3, other, cold.fd, O_CLOEXEC, 0, 0, 0),
		cold.fd);
	cold_come(cold_bits(NR));
	nr = look(events, NR);
	/* The worker's call fails, as it would now read the other file. */
	cold.read_error = EIO;
	cold_let(cold_bit(0));
	assert_int_equal(unit_reap_one(handle), -EIO);
	assert_int_equal(nr, NR - 1);
	for (unsigned i = 0; i < NR - 1; i++) {
		assert_int_equal(events[i].res, -EBADF);
		assert_int_equal(buffers[events[i].data][PAGE - 1], 0);
	}
	unit_close(other);
}

static bool is_reader_asleep(void *arg)
{
	(void)arg;
	return unit_is_asleep(cold_count(&cold.reader));
}

/*
 * The oldest read completes while a thread tries the only other read, which is now the
 * oldest. The library must not queue this read for a worker as long as it is being
 * tried.
 */
static void the_last_read_may_be_tried_when_its_turn_comes(void **state)
{
	struct unit_thread waiter;
	struct io_event events[2];

	(void)state;
	cold_hold(cold_bit(0));
	submit_some(2);
	cold_hold_try(1);
	unit_thread_start(&waiter, reap_one, events);
	cold_await_try();
	cold_let(cold_bit(0));
	assert_int_equal(unit_reap(handle, 1, &events[1]), 1);
	assert_read(&events[1], 0);
	unit_await(is_reader_asleep, NULL);
	unit_await(is_reader_asleep, NULL);
	cold_hold_try(-1);
	assert_int_equal(unit_thread_join(&waiter), 1);
	assert_read(&events[0], 1);
}

static long destroy(void *arg)
{
	(void)arg;
	unit_destroy(handle);
	return 0;
}

static void destroying_waits_for_cold_reads(void **state)
{
	enum { NR = 5 };
	struct unit_thread thread;

	(void)state;
	cold_hold(cold_bits(NR));
	submit_some(NR);
	unit_thread_start(&thread, destroy, NULL);
	for (unsigned i = 0; i < NR; i++) {
		cold_await_blocked(1);
		unit_await_sleep(&thread);
		cold_let(cold_bit(i));
	}
	assert_int_equal(unit_thread_join(&thread), 0);
	handle = 0;
	for (unsigned i = 0; i < NR; i++)
		assert_data(i);
}

static void a_read_that_fails_has_the_kernels_error(void **state)
{
	struct io_event event;
	void *gone =
		mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	cold_hold(cold_bit(0));
	submit(0);
	cold_await_blocked(1);
	/* The buffer may not be accessed, so this read fails with EFAULT. */
	iocbs[1] = unit_iocb(IOCB_CMD_PREAD, cold.fd, gone, PAGE, PAGE);
	assert_int_equal(unit_submit(handle, &iocbs[1]), 1);
	/* The read reaches past the end of the file. */
	iocbs[2] = unit_iocb(IOCB_CMD_PREAD, cold.fd, buffers[2], 2 * PAGE,
			     (NR_PAGES - 1) * PAGE + 100);
	assert_int_equal(unit_submit(handle, &iocbs[2]), 1);
	cold_come(cold_bit(1) | cold_bit(NR_PAGES - 1));
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal(event.res, -EFAULT);
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal(event.res, PAGE - 100);
	/* The disk fails. */
	cold.read_error = EIO;
	cold_let(cold_bit(0));
	assert_int_equal(unit_reap_one(handle), -EIO);
	assert_int_equal(munmap(gone, PAGE), 0);
}

/* Only one of the two pages has arrived: the read must wait for the other. */
static void a_read_with_part_of_its_pages_waits(void **state)
{
	struct iovec iov[2] = { { buffers[1], PAGE }, { buffers[2], PAGE } };
	struct io_event event;

	(void)state;
	cold_hold(cold_bits(NR_PAGES));
	submit(0);
	cold_await_blocked(1);
	iocbs[1] = unit_iocb(IOCB_CMD_PREADV, cold.fd, iov, 2, PAGE);
	assert_int_equal(unit_submit(handle, &iocbs[1]), 1);
	iov[0].iov_base = iov[1].iov_base = NULL; /* the library has a copy */
	cold_come(cold_bit(1));
	assert_int_equal(look(&event, 1), 0);
	cold_come(cold_bit(2));
	assert_int_equal(look(&event, 1), 1);
	assert_int_equal(event.res, 2 * PAGE);
	assert_data(1);
	assert_data(2);
	cold_let(cold_bits(NR_PAGES));
	assert_reaped(1, cold_bit(0));
}

static void a_caller_tries_a_bounded_number_of_reads(void **state)
{
	enum { MISSES = 4 };
	struct io_event events[NR_PAGES];
	unsigned nr;

	(void)state;
	cold_hold(cold_bits(NR_PAGES));
	submit_some(NR_PAGES);
	nr = cold_count(&cold.nr_tries);
	assert_int_equal(look(events, 1), 0);
	assert_int_equal(cold_count(&cold.nr_tries), nr + MISSES);
	cold_let(cold_bits(NR_PAGES));
	assert_reaped(NR_PAGES, UINT64_MAX);
}

static void no_read_waits_for_pages_with_force_worker(void **state)
{
	(void)state;
	uaio_config.force_worker = true;
	assert_a_worker_each(0);
	uaio_config.force_worker = false;
}

/* No hook: a real file, which is on a disk if the current directory is. */
static void a_cold_file_on_a_disk_is_read(void **state)
{
	enum { NR = 2048, DEPTH = 32 };
	static uint32_t block[PAGE / 4], area[DEPTH][PAGE / 4];
	static bool is_seen[NR];
	int fd = unit_file(false);
	struct io_event events[DEPTH];
	struct iocb reads[DEPTH];
	unsigned nr_submitted = 0, nr_seen = 0, nr_free = DEPTH;
	unsigned free_slots[DEPTH];

	(void)state;
	unit_hook(NULL);
	for (unsigned i = 0; i < NR; i++) {
		for (unsigned j = 0; j < PAGE / 4; j++)
			block[j] = i * 2654435761u + j;
		assert_int_equal(pwrite(fd, block, PAGE, (off_t)i * PAGE),
				 PAGE);
	}
	for (unsigned i = 0; i < DEPTH; i++)
		free_slots[i] = i;
	assert_int_equal(fsync(fd), 0);
	assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
	while (nr_seen < NR) {
		long nr;

		while (nr_free && nr_submitted < NR) {
			unsigned slot = free_slots[--nr_free];
			/* 1021 is coprime to NR, so each page is read once. */
			unsigned page = nr_submitted++ * 1021 % NR;

			reads[slot] = unit_iocb(IOCB_CMD_PREAD, fd, area[slot],
						PAGE, (int64_t)page * PAGE);
			reads[slot].aio_data = (uint64_t)page << 32 | slot;
			assert_int_equal(unit_submit(handle, &reads[slot]), 1);
		}
		nr = uaio_aio_getevents(handle, 1, DEPTH, (void *)events, NULL);
		assert_in_range(nr, 1, DEPTH);
		for (long i = 0; i < nr; i++) {
			unsigned page = (unsigned)(events[i].data >> 32);
			unsigned slot = (unsigned)events[i].data;

			assert_int_equal(events[i].res, PAGE);
			assert_false(is_seen[page]);
			is_seen[page] = true;
			for (unsigned j = 0; j < PAGE / 4; j++)
				assert_int_equal(area[slot][j],
						 page * 2654435761u + j);
			free_slots[nr_free++] = slot;
		}
		nr_seen += (unsigned)nr;
	}
	assert_int_equal(look(events, 1), 0);
	unit_close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		COLD_TEST(one_worker_reads_the_oldest_of_a_device),
		COLD_TEST(a_caller_finds_the_pages_that_have_come),
		COLD_TEST(a_sleeping_waiter_looks_again),
		COLD_TEST(a_client_that_only_watches_its_ring_is_served),
		COLD_TEST(reads_whose_pages_never_arrive_are_executed),
		COLD_TEST(
			if_starting_pages_does_not_help_each_read_has_a_worker),
		COLD_TEST(reads_keep_waiting_while_some_pages_arrive),
		COLD_TEST(a_file_system_that_refuses_advice_is_tried_once),
		COLD_TEST(reads_from_a_server_have_a_worker_each),
		COLD_TEST(a_cancelled_read_has_one_event),
		COLD_TEST(a_cancelled_oldest_leaves_its_place_to_the_next),
		COLD_TEST(closing_executes_cold_reads),
		COLD_TEST(closing_waits_for_a_read_being_tried),
		COLD_TEST(cold_reads_read_no_other_file),
		COLD_TEST(the_last_read_may_be_tried_when_its_turn_comes),
		COLD_TEST(destroying_waits_for_cold_reads),
		COLD_TEST(a_read_that_fails_has_the_kernels_error),
		COLD_TEST(a_read_with_part_of_its_pages_waits),
		COLD_TEST(a_caller_tries_a_bounded_number_of_reads),
		COLD_TEST(no_read_waits_for_pages_with_force_worker),
		COLD_TEST(a_cold_file_on_a_disk_is_read),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
