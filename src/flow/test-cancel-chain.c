/* SPDX-License-Identifier: MIT */
/* Cancelling requests that wait for each other, and requests that are completing. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "wq/wq.h"
#include "aio/aio.h"
#include "aio/handle.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES, NR = 40 };

static char buffers[NR][SIZE];

static int cancel_one(uint64_t handle, const struct iocb *iocb)
{
	return uaio_ctx_cancel_one(handle, (uintptr_t)iocb);
}

/*
 * Unlinked requests on one file, which has a gate (unit_gate_close()). While the gate is
 * closed, the first writes are held in their system calls; later requests are queued, or
 * wait for the first writes.
 */
struct chain {
	int fd;
	uint64_t handle;
	unsigned nr;
	struct iocb iocbs[NR];
	/* results of the reaped events, by index of the request */
	int64_t res[NR];
};

static struct chain chain;

/*
 * LIMIT: the largest number of workers. SHARE: how many of them one device may use.
 */
enum { LIMIT = 32, SHARE = LIMIT * 7 / 8 };

static void chain_begin(void)
{
	uaio_wq_limit_workers(UAIO_BOUNDED, LIMIT);
	uaio_config.force_worker = true;
	chain.fd = unit_numbered_file(true, NR);
	chain.handle = unit_context(NR);
	chain.nr = 0;
	unit_gate_close(chain.fd);
}

/* The request at index i writes or reads block i of the file; its aio_data is i. */
static struct iocb *chain_add(unsigned opcode, int fd)
{
	struct iocb *iocb = &chain.iocbs[chain.nr];

	memset(buffers[chain.nr], 'w', SIZE);
	*iocb = unit_iocb(opcode, fd, buffers[chain.nr], SIZE, chain.nr * SIZE);
	iocb->aio_data = chain.nr++;
	assert_int_equal(unit_submit(chain.handle, iocb), 1);
	return iocb;
}

static void chain_write(unsigned nr)
{
	while (nr--)
		chain_add(IOCB_CMD_PWRITE, chain.fd);
}

/*
 * Reap the events of the requests in `chain`. Check that each request has exactly one
 * event.
 */
static void chain_reap(void)
{
	struct io_event events[NR];
	bool is_seen[NR] = { false };

	unit_gate_open();
	assert_int_equal(unit_reap(chain.handle, chain.nr, events), chain.nr);
	for (unsigned i = 0; i < chain.nr; i++) {
		assert_in_range(events[i].data, 0, chain.nr - 1);
		assert_false(is_seen[events[i].data]);
		is_seen[events[i].data] = true;
		chain.res[events[i].data] = events[i].res;
	}
	unit_assert_no_more(chain.handle);
}

static void chain_end(void)
{
	unit_destroy(chain.handle);
	unit_close(chain.fd);
	uaio_config.force_worker = false;
}

static bool was_written(unsigned place)
{
	char block[SIZE];

	assert_int_equal(pread(chain.fd, block, SIZE, place * SIZE), SIZE);
	return block[0] == 'w';
}

/*
 * Check that the requests in the mask `cancelled` were cancelled, and all others were
 * executed, one after the other in order.
 */
static void assert_chain(uint64_t cancelled)
{
	int last = -1;

	for (unsigned i = 0; i < chain.nr; i++) {
		bool is_cancelled = cancelled >> i & 1;

		assert_int_equal(chain.res[i],
				 is_cancelled ? -ECANCELED : SIZE);
		assert_int_equal(was_written(i), !is_cancelled);
		assert_int_equal(unit_gate_began(i) < 0, is_cancelled);
		if (is_cancelled)
			continue;
		assert_true(unit_gate_began(i) > last);
		last = unit_gate_ended(i);
	}
}

/*
 * The test's gate stops the system calls of SHARE workers, the most that one device may
 * use. So the last requests stay queued.
 */
static void the_answer_says_whether_it_was_queued_or_running(void **state)
{
	unsigned nr_cancelled = 0;

	(void)state;
	chain_begin();
	for (unsigned i = 0; i < NR; i++)
		chain_add(IOCB_CMD_PREAD, chain.fd);
	unit_gate_await(SHARE);
	for (unsigned i = 0; i < NR; i++) {
		int ret = cancel_one(chain.handle, &chain.iocbs[i]);

		assert_int_equal(ret, unit_gate_began(i) >= 0 ? -EALREADY : 0);
		nr_cancelled += ret == 0;
		assert_int_equal(cancel_one(chain.handle, &chain.iocbs[i]),
				 ret ? -EALREADY : -ENOENT);
	}
	assert_int_equal(nr_cancelled, NR - SHARE);
	assert_int_equal(uaio_ctx_cancel_all(chain.handle), -EALREADY);
	chain_reap();
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(chain.res[i],
				 unit_gate_began(i) < 0 ? -ECANCELED : SIZE);
	chain_end();
}

/* Cancel the request at each index in turn, including the first, which is running. */
static void requests_behind_a_cancelled_one_go_on_in_order(void **state)
{
	enum { LENGTH = 5 };

	(void)state;
	for (unsigned victim = 0; victim < LENGTH; victim++) {
		chain_begin();
		chain_write(LENGTH);
		unit_gate_await_key(0);
		assert_int_equal(cancel_one(chain.handle, &chain.iocbs[victim]),
				 victim ? 0 : -EALREADY);
		chain_reap();
		assert_chain(victim ? 1u << victim : 0);
		chain_end();
	}
}

/* Cancel every second request, beginning in the middle. */
static void several_of_a_chain_may_be_cancelled(void **state)
{
	uint64_t cancelled = 0;

	(void)state;
	chain_begin();
	chain_write(9);
	unit_gate_await_key(0);
	for (unsigned i = 4; i < 9; i += 2) {
		assert_int_equal(cancel_one(chain.handle, &chain.iocbs[i]), 0);
		cancelled |= 1u << i;
	}
	chain_reap();
	assert_chain(cancelled);
	chain_end();
}

static void all_requests_behind_the_first_are_cancelled_at_once(void **state)
{
	struct iocb sync;

	(void)state;
	chain_begin();
	chain_write(8);
	sync = unit_iocb(IOCB_CMD_FSYNC, chain.fd, NULL, 0, 0);
	sync.aio_data = chain.nr++;
	assert_int_equal(unit_submit(chain.handle, &sync), 1);
	chain_add(IOCB_CMD_PREAD, chain.fd);
	unit_gate_await_key(0);
	assert_int_equal(uaio_ctx_cancel_all(chain.handle), 9);
	/*
	 * Only the first write is left, as the events of the cancelled requests have been
	 * posted.
	 */
	assert_int_equal(uaio_ctx_cancel_all(chain.handle), -EALREADY);
	chain_reap();
	assert_int_equal(chain.res[0], SIZE);
	for (unsigned i = 1; i < chain.nr; i++) {
		assert_int_equal(chain.res[i], -ECANCELED);
		assert_int_equal(unit_gate_began(i), -1);
		assert_false(was_written(i));
	}
	assert_int_equal(unit_gate_began(UNIT_KEY_SYNC), -1);

	/* A write that is submitted now does not wait for the cancelled writes. */
	chain.nr = 0;
	chain_write(1);
	chain_reap();
	assert_int_equal(chain.res[0], SIZE);
	chain_end();
}

/*
 * Reads of another file use all workers of the device. So even the first write of the chain
 * is queued, and can be cancelled.
 */
static void a_chain_of_which_none_has_begun_is_cancelled_whole(void **state)
{
	int other = unit_numbered_file(true, NR), fd;
	uint64_t handle = unit_context(NR);
	struct io_event events[NR];
	struct iocb iocbs[NR];

	(void)state;
	chain_begin();
	fd = chain.fd;
	unit_gate_close(other);
	for (unsigned i = 0; i < LIMIT; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, other, buffers[i], SIZE,
				     i * SIZE);
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	unit_gate_await(SHARE);
	chain_write(8);
	assert_int_equal(uaio_ctx_cancel_fd(chain.handle, other), -ENOENT);
	assert_int_equal(uaio_ctx_cancel_fd(chain.handle, fd), 8);
	assert_int_equal(uaio_ctx_cancel_fd(chain.handle, fd), -ENOENT);
	chain_reap();
	for (unsigned i = 0; i < chain.nr; i++) {
		assert_int_equal(chain.res[i], -ECANCELED);
		assert_false(was_written(i));
	}
	assert_int_equal(unit_reap(handle, LIMIT, events), LIMIT);
	unit_destroy(handle);
	unit_close(other);
	chain_end();
}

static void of_two_equal_requests_the_older_pending_is_cancelled(void **state)
{
	struct iocb iocb;

	(void)state;
	chain_begin();
	iocb = unit_iocb(IOCB_CMD_PWRITE, chain.fd, buffers[0], SIZE, 0);
	memset(buffers[0], 'w', SIZE);
	for (; chain.nr < 4; chain.nr++) {
		iocb.aio_data = chain.nr;
		iocb.aio_offset = chain.nr * SIZE;
		assert_int_equal(unit_submit(chain.handle, &iocb), 1);
	}
	/* Wait until the first request runs, so that it cannot be cancelled. */
	unit_gate_await_key(0);
	assert_int_equal(cancel_one(chain.handle, &iocb), 0);
	assert_int_equal(cancel_one(chain.handle, &iocb), 0);
	chain_reap();
	assert_chain(1u << 1 | 1u << 2);
	assert_int_equal(cancel_one(chain.handle, &iocb), -ENOENT);
	chain_end();
}

/*
 * A call that cancels the requests of a descriptor leaves requests on its duplicate, or in
 * another context, as they are.
 */
static void a_descriptor_means_the_requests_submitted_by_it(void **state)
{
	uint64_t other = unit_context(4);
	struct iocb others;
	int dup_fd;

	(void)state;
	chain_begin();
	dup_fd = fcntl(chain.fd, F_DUPFD_CLOEXEC, 0);
	assert_true(dup_fd >= 0);
	chain_write(2);
	chain_add(IOCB_CMD_PWRITE, dup_fd);
	chain_write(1);
	others = unit_iocb(IOCB_CMD_PWRITE, chain.fd, buffers[9], SIZE,
			   9 * SIZE);
	assert_int_equal(unit_submit(other, &others), 1);
	unit_gate_await_key(0);

	assert_int_equal(uaio_ctx_cancel_fd(other, dup_fd), -ENOENT);
	assert_int_equal(uaio_ctx_cancel_fd(chain.handle, chain.fd), 2);
	assert_int_equal(uaio_ctx_cancel_fd(chain.handle, chain.fd), -EALREADY);
	chain_reap();
	assert_int_equal(chain.res[0], SIZE);
	assert_int_equal(chain.res[1], -ECANCELED);
	assert_int_equal(chain.res[2], SIZE);
	assert_int_equal(chain.res[3], -ECANCELED);
	assert_true(was_written(2) && !was_written(1) && !was_written(3));
	assert_int_equal(unit_reap_one(other), SIZE);
	unit_destroy(other);
	unit_close(dup_fd);
	chain_end();
}

/* Races */

static pthread_barrier_t barrier;

static long open_gate(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&barrier);
	unit_gate_open();
	return 0;
}

enum { POLLS = 300, LENGTH = 4, EVENTS = LENGTH * (POLLS + 1) };

static void submit_polls(uint64_t handle, int fd)
{
	static struct iocb iocb;

	iocb = unit_iocb(IOCB_CMD_POLL, fd, (void *)(uintptr_t)POLLIN, 0, 0);
	iocb.aio_data = 0;
	for (unsigned i = 0; i < POLLS; i++)
		assert_int_equal(unit_submit(handle, &iocb), 1);
}

/*
 * Submit a write in the context `first`; the gate holds this write in its system call.
 * Then submit writes in the context `handle`, which wait for the first write.
 */
static void submit_chain(uint64_t first, uint64_t handle, int pipe_fd)
{
	static struct iocb iocbs[LENGTH + 1];

	for (unsigned i = 0; i <= LENGTH; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PWRITE, chain.fd, buffers[i],
				     SIZE, i * SIZE);
		iocbs[i].aio_data = i;
		assert_int_equal(unit_submit(i ? handle : first, &iocbs[i]), 1);
		if (i)
			submit_polls(handle, pipe_fd);
	}
	unit_gate_await_key(0);
}

/* Check that exactly the newest nr_cancelled writes are cancelled. */
static void check_beginning(uint64_t handle, int nr_cancelled)
{
	static struct io_event events[EVENTS];
	int64_t res[LENGTH + 1];

	assert_in_range(nr_cancelled, 0, LENGTH);
	assert_int_equal(unit_reap(handle, EVENTS, events), EVENTS);
	for (unsigned i = 0; i < EVENTS; i++)
		res[events[i].data] = events[i].res;
	for (int i = 1; i <= LENGTH; i++)
		assert_int_equal(res[i],
				 i > LENGTH - nr_cancelled ? -ECANCELED : SIZE);
	unit_assert_no_more(handle);
}

/*
 * Writes of one context wait for a write of another context, which completes while this
 * thread cancels the waiting writes and many polls between them. No write may be
 * executed if an older write is cancelled.
 */
static void of_a_cancelled_chain_its_beginning_is_executed(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pthread_barrier_init(&barrier, NULL, 2);
	uaio_config.force_worker = true;
	for (unsigned round = 0; round < unit_rounds(300); round++) {
		uint64_t first = unit_context(1), handle = unit_context(EVENTS);
		struct unit_thread opener;
		int ret;

		chain.fd = unit_numbered_file(true, LENGTH + 1);
		unit_gate_close(chain.fd);
		submit_chain(first, handle, ends[0]);
		unit_thread_start(&opener, open_gate, NULL);
		pthread_barrier_wait(&barrier);
		ret = uaio_ctx_cancel_all(handle);
		unit_thread_join(&opener);
		assert_int_equal(unit_reap_one(first), SIZE);
		check_beginning(handle, ret - LENGTH * POLLS);
		unit_destroy(first);
		unit_destroy(handle);
		unit_close(chain.fd);
	}
	uaio_config.force_worker = false;
	pthread_barrier_destroy(&barrier);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static struct {
	uint64_t handle;
	int file;
	int ends[2];
	struct iocb iocbs[NR];
	uint32_t nr_cancelled; /* atomic */
} storm;

static void count_cancelled(int ret)
{
	assert(ret >= 0 || ret == -EALREADY || ret == -ENOENT);
	if (ret > 0)
		add_relaxed(&storm.nr_cancelled, (uint32_t)ret);
}

static long cancel_each(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&barrier);
	for (unsigned i = NR; i-- > 0;) {
		int ret = cancel_one(storm.handle, &storm.iocbs[i]);

		count_cancelled(ret ? ret : 1);
	}
	return 0;
}

static long cancel_by_number_and_all(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&barrier);
	count_cancelled(uaio_ctx_cancel_fd(storm.handle, storm.ends[0]));
	count_cancelled(uaio_ctx_cancel_fd(storm.handle, storm.file));
	count_cancelled(uaio_ctx_cancel_all(storm.handle));
	return 0;
}

static long feed(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < NR / 4; i++) {
		ssize_t put = write(storm.ends[1], "x", 1);

		assert(put == 1);
	}
	return 0;
}

/*
 * Make request i. Depending on i % 4 it writes or reads the file, or reads or polls the
 * pipe.
 */
static struct iocb storm_iocb(unsigned i)
{
	switch (i % 4) {
	case 0:
	case 1:
		return unit_iocb(i % 4 ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE,
				 storm.file, buffers[i], SIZE, i * SIZE);
	case 2:
		return unit_iocb(IOCB_CMD_PREAD, storm.ends[0], buffers[i], 1,
				 0);
	default:
		return unit_iocb(IOCB_CMD_POLL, storm.ends[0],
				 (void *)(uintptr_t)POLLIN, 0, 0);
	}
}

/*
 * Return: whether the event says that the request was cancelled. Otherwise check the
 * result.
 */
static bool check_event(unsigned place, int64_t res)
{
	if (place % 4 == 3) {
		assert_true(res == 0 || res == POLLIN);
		return res == 0;
	}
	assert_true(res == -ECANCELED || res == (place % 4 == 2 ? 1 : SIZE));
	return res == -ECANCELED;
}

/*
 * Check that the number of cancelled requests is the sum of what the cancelling calls
 * returned.
 */
static void check_storm(void)
{
	struct io_event events[NR];
	bool is_seen[NR] = { false };
	uint32_t nr_cancelled = 0;

	assert_int_equal(unit_reap(storm.handle, NR, events), NR);
	for (unsigned i = 0; i < NR; i++) {
		assert_in_range(events[i].data, 0, NR - 1);
		assert_false(is_seen[events[i].data]);
		is_seen[events[i].data] = true;
		nr_cancelled +=
			check_event((unsigned)events[i].data, events[i].res);
	}
	assert_int_equal(nr_cancelled, load_relaxed(&storm.nr_cancelled));
	assert_int_equal(uaio_ctx_cancel_all(storm.handle), -ENOENT);
	unit_assert_no_more(storm.handle);
}

/*
 * Three threads cancel requests, workers execute requests, and one thread writes to the pipe.
 */
static void each_request_has_one_event_whichever_end_comes_first(void **state)
{
	static long (*const mains[])(void *) = { cancel_each, cancel_each,
						 cancel_by_number_and_all,
						 feed };

	(void)state;
	uaio_config.force_worker = true;
	pthread_barrier_init(&barrier, NULL, NR_ELEMENTS(mains) + 1);
	for (unsigned round = 0; round < unit_rounds(1000); round++) {
		struct unit_thread threads[NR_ELEMENTS(mains)];

		storm.handle = unit_context(NR);
		storm.file = unit_numbered_file(true, NR);
		store_relaxed(&storm.nr_cancelled, 0);
		assert_int_equal(pipe2(storm.ends, O_CLOEXEC), 0);
		for (unsigned i = 0; i < NR_ELEMENTS(mains); i++)
			unit_thread_start(&threads[i], mains[i], NULL);
		for (unsigned i = 0; i < NR; i++) {
			storm.iocbs[i] = storm_iocb(i);
			storm.iocbs[i].aio_data = i;
			assert_int_equal(
				unit_submit(storm.handle, &storm.iocbs[i]), 1);
			if (i == NR / 4 * 3)
				pthread_barrier_wait(&barrier);
		}
		for (unsigned i = 0; i < NR_ELEMENTS(mains); i++)
			unit_thread_join(&threads[i]);
		/*
		 * Cancel requests that were submitted after the cancelling threads had
		 * ended.
		 */
		count_cancelled(uaio_ctx_cancel_all(storm.handle));
		check_storm();
		unit_destroy(storm.handle);
		unit_close(storm.file);
		unit_close(storm.ends[0]);
		unit_close(storm.ends[1]);
	}
	pthread_barrier_destroy(&barrier);
	uaio_config.force_worker = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(the_answer_says_whether_it_was_queued_or_running),
		UNIT_TEST(requests_behind_a_cancelled_one_go_on_in_order),
		UNIT_TEST(several_of_a_chain_may_be_cancelled),
		UNIT_TEST(all_requests_behind_the_first_are_cancelled_at_once),
		UNIT_TEST(a_chain_of_which_none_has_begun_is_cancelled_whole),
		UNIT_TEST(of_two_equal_requests_the_older_pending_is_cancelled),
		UNIT_TEST(a_descriptor_means_the_requests_submitted_by_it),
		UNIT_TEST(of_a_cancelled_chain_its_beginning_is_executed),
		UNIT_TEST(each_request_has_one_event_whichever_end_comes_first),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
