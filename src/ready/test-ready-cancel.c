/* SPDX-License-Identifier: MIT */
/*
 * A request that waits for a pipe is cancelled, or its context is destroyed. The
 * request must have exactly one event (none after its context is destroyed), whichever
 * thread works on the request just then.
 */
#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "aio/handle.h"
#include "ready/test-ready.h"
#include "streams.h"

static struct io_event reap_event(void)
{
	struct io_event event;

	assert_int_equal(unit_reap(handle, 1, &event), 1);
	return event;
}

/*
 * All ways to cancel a request, with the same interface.
 * Return: how many requests were cancelled, or -errno.
 */
static int by_call(struct iocb *iocb)
{
	long ret = uaio_aio_cancel(handle, iocb);

	return ret == -EINPROGRESS ? 1 : (int)ret;
}

static int by_request(struct iocb *iocb)
{
	int ret = uaio_ctx_cancel_one(handle, (uintptr_t)iocb);

	return ret ? ret : 1;
}

static int by_descriptor(struct iocb *iocb)
{
	return uaio_ctx_cancel_fd(handle, (int)iocb->aio_fildes);
}

static int by_context(struct iocb *iocb)
{
	(void)iocb;
	return uaio_ctx_cancel_all(handle);
}

static int (*const ways[])(struct iocb *) = { by_call, by_request,
					      by_descriptor, by_context };

static void each_way_to_cancel_gives_a_request_one_event(void **state)
{
	static char bytes[1 << 20];

	(void)state;
	open_pipe(4);
	for (unsigned i = 0; i < NR_ELEMENTS(ways); i++) {
		struct iocb iocbs[] = {
			unit_iocb(IOCB_CMD_PREAD, ends[0], bytes, 1, 0),
			unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0),
		};

		for (unsigned k = 0; k < NR_ELEMENTS(iocbs); k++) {
			assert_int_equal(unit_submit(handle, &iocbs[k]), 1);
			/*
			 * In odd rounds, let the library try the request first, without
			 * success.
			 */
			if (k % 2)
				unit_assert_no_more(handle);
			assert_int_equal(ways[i](&iocbs[k]), 1);
			assert_int_equal((int64_t)reap_event().res,
					 k ? 0 : -ECANCELED);
			assert_in_set(
				(unsigned long)ways[i](&iocbs[k]),
				((unsigned long[]){ (unsigned long)-EINVAL,
						    (unsigned long)-ENOENT }),
				2);
		}
	}
	unit_assert_no_more(handle);
	/* The library must not have a request any more that consumes this byte. */
	put_text("x");
	assert_int_equal(read(ends[0], bytes, 1), 1);
	close_pipe();
}

static void a_write_that_waits_tells_what_it_has_written(void **state)
{
	static char bytes[1 << 20];
	struct iocb iocb;

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(ways); i++) {
		int64_t put;

		open_pipe(4);
		iocb = unit_iocb(IOCB_CMD_PWRITE, ends[1], bytes, sizeof(bytes),
				 0);
		assert_int_equal(unit_submit(handle, &iocb), 1);
		assert_int_equal(ways[i](&iocb), 1);
		put = (int64_t)reap_event().res;
		assert_in_range(put, 1, (int64_t)sizeof(bytes) - 1);
		assert_int_equal(read(ends[0], bytes, (size_t)put), put);
		fill_stream(ends[1], 65536);
		assert_int_equal(unit_submit(handle, &iocb), 1);
		assert_int_equal(ways[i](&iocb), 1);
		assert_int_equal((int64_t)reap_event().res, -ECANCELED);
		unit_assert_no_more(handle);
		close_pipe();
	}
}

/*
 * The hook stops a thread before or after it reads for the request. With takes_byte,
 * the hook first consumes the byte that made the thread read.
 */
static struct {
	bool takes_byte;
	bool holds_after;
	uint32_t is_armed; /* atomic */
	uint32_t is_held;  /* atomic */
	uint32_t goes_on;  /* atomic */
} trial;

static void hold_here(void)
{
	store_release(&trial.is_held, 1);
	while (!load_acquire(&trial.goes_on))
		(void)uaio_sys_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static bool hold_trial(long nr, const long args[6], long *ret_res)
{
	uint32_t armed = 1;
	bool holds_after;
	char byte;

	if ((nr != SYS_preadv2 && nr != SYS_recvfrom && nr != SYS_recvmsg &&
	     nr != SYS_read) ||
	    !is_end(0, args[0]) || !cas_acquire(&trial.is_armed, &armed, 0))
		return false;
	/*
	 * Copy holds_after now: once the thread goes on, the test may change `trial`
	 * for the next case.
	 */
	holds_after = trial.holds_after;
	if (trial.takes_byte)
		(void)uaio_sys_raw(SYS_read, args[0], (long)&byte, 1, 0, 0, 0);
	if (!holds_after)
		hold_here();
	*ret_res = uaio_sys_raw(nr, args[0], args[1], args[2], args[3], args[4],
				args[5]);
	if (holds_after)
		hold_here();
	return true;
}

static bool is_held(void *arg)
{
	(void)arg;
	return load_acquire(&trial.is_held);
}

static void arm_trial(bool takes_byte, bool holds_after)
{
	trial.takes_byte = takes_byte;
	trial.holds_after = holds_after;
	store_relaxed(&trial.is_held, 0);
	store_relaxed(&trial.goes_on, 0);
	store_release(&trial.is_armed, 1);
	unit_hook(hold_trial);
}

static long wait_for_one(void *arg)
{
	struct io_event event = { 0 };
	long ret = unit_reap(*(uint64_t *)arg, 1, &event);

	return ret == 1 ? (long)event.res : ret;
}

struct cancelling {
	int (*way)(struct iocb *);
	struct iocb *iocb;
};

static long cancel(void *arg)
{
	struct cancelling *cancelling = arg;

	return cancelling->way(cancelling->iocb);
}

static void cancel_while_tried(unsigned way, bool gives, bool holds_after)
{
	struct unit_thread waiter, canceller;
	char byte = 0;
	struct iocb iocb = read_of_byte(&byte);
	struct cancelling cancelling = { ways[way], &iocb };
	int64_t res, nr;

	assert_int_equal(unit_submit(handle, &iocb), 1);
	unit_thread_start(&waiter, wait_for_one, &handle);
	unit_await_sleep(&waiter);
	arm_trial(!gives, holds_after);
	put_text("x");
	unit_await(is_held, NULL);
	unit_thread_start(&canceller, cancel, &cancelling);
	/*
	 * By now the cancelling thread waits for the end of the read call, or has found
	 * nothing to cancel.
	 */
	unit_await_sleep(&canceller);
	store_release(&trial.goes_on, 1);
	nr = unit_thread_join(&canceller);
	unit_hook(NULL);
	if (!gives && nr != 1)
		/* The read goes on waiting, so give it another byte. */
		put_text("y");
	res = unit_thread_join(&waiter);
	assert_true(nr == 1 ? res == -ECANCELED
			    : nr < 0 && res == 1 &&
				      byte == (gives ? 'x' : 'y'));
	/* If the read counts as cancelled, it must not have consumed the byte. */
	if (gives && nr == 1)
		assert_int_equal(read(ends[0], &byte, 1), 1);
	/*
	 * If the read found nothing, the request waits on. Then each way to cancel must
	 * succeed; the test does not require this of io_cancel.
	 */
	if (!gives && ways[way] != by_call)
		assert_int_equal(nr, 1);
	unit_assert_no_more(handle);
}

static void a_request_being_tried_has_one_event_if_cancelled(void **state)
{
	(void)state;
	open_pipe(4);
	for (unsigned i = 0; i < 4 * NR_ELEMENTS(ways); i++)
		cancel_while_tried(i / 4, i & 1, i & 2);
	close_pipe();
}

/*
 * Reads wait for a pipe. Bytes arrive one by one, while the reads are cancelled, the
 * newest first. The numbers of completed, cancelled and remaining reads must add up.
 */
enum { NR_RACERS = 16 };

static char race_bytes[NR_RACERS];

static long put_bytes(void *arg)
{
	char byte = *(char *)arg;

	for (unsigned i = 0; i < NR_RACERS / 2; i++, byte++)
		if (write(ends[1], &byte, 1) != 1)
			return -errno;
	return 0;
}

static long reap_racers(void *arg)
{
	return unit_reap(handle, NR_RACERS, arg);
}

/*
 * Cancel all reads, the newest first.
 * Return: how many were cancelled.
 */
static unsigned cancel_racers(unsigned way, struct iocb iocbs[NR_RACERS])
{
	unsigned nr = 0;

	for (unsigned i = NR_RACERS; i-- > 0;) {
		int ret = ways[way](&iocbs[i]);

		if (ret > 0)
			nr += (unsigned)ret;
		else
			assert_true(ret == -EINVAL || ret == -ENOENT ||
				    ret == -EALREADY);
	}
	return nr;
}

/*
 * Check that completed reads have got the bytes 0, 1, 2, … in order.
 * Return: how many reads have completed.
 */
static unsigned count_reads(const struct io_event events[NR_RACERS])
{
	unsigned nr_events[NR_RACERS] = { 0 };
	unsigned nr = 0;

	for (unsigned i = 0; i < NR_RACERS; i++) {
		int64_t res = (int64_t)events[i].res;

		assert_in_range(events[i].data, 0, NR_RACERS - 1);
		nr_events[events[i].data]++;
		assert_true(res == 1 || res == -ECANCELED);
		if (res == -ECANCELED)
			race_bytes[events[i].data] = -1;
	}
	for (unsigned i = 0; i < NR_RACERS; i++) {
		assert_int_equal(nr_events[i], 1);
		if (race_bytes[i] >= 0)
			assert_int_equal(race_bytes[i], nr++);
	}
	return nr;
}

static void race(unsigned way)
{
	char first = 0, second = NR_RACERS / 2, third = NR_RACERS;
	char left[2 * NR_RACERS];
	struct io_event events[NR_RACERS];
	struct unit_thread writer, reaper;
	struct iocb iocbs[NR_RACERS];
	unsigned nr_cancelled, nr_read;

	for (unsigned i = 0; i < NR_RACERS; i++) {
		iocbs[i] = read_of_byte(&race_bytes[i]);
		iocbs[i].aio_data = i;
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	unit_thread_start(&reaper, reap_racers, events);
	unit_thread_start(&writer, put_bytes, &first);
	nr_cancelled = cancel_racers(way, iocbs);
	assert_int_equal(unit_thread_join(&writer), 0);
	/*
	 * These bytes complete the remaining reads; one more byte must stay in the
	 * pipe.
	 */
	assert_int_equal(put_bytes(&second), 0);
	assert_int_equal(write(ends[1], &third, 1), 1);
	assert_int_equal(unit_thread_join(&reaper), NR_RACERS);
	nr_read = count_reads(events);
	assert_int_equal(nr_read + nr_cancelled, NR_RACERS);
	assert_int_equal(read(ends[0], left, sizeof(left)),
			 NR_RACERS + 1 - nr_read);
	assert_int_equal(left[0], nr_read);
	unit_assert_no_more(handle);
}

static void every_byte_and_every_read_is_accounted_for(void **state)
{
	(void)state;
	open_pipe(NR_RACERS);
	for (unsigned i = 0; i < unit_rounds(800); i++)
		race(i % NR_ELEMENTS(ways));
	close_pipe();
}

/* Contexts that are destroyed */

enum { AT_ONCE_MS = 500 };

/*
 * The requests are reads, writes and polls of pipes and sockets. Their buffers are
 * freed with the context.
 */
static void destroying_a_thousand_parked_requests_is_quick(void **state)
{
	enum { NR = 1000, NR_PAIRS = 10, ROUNDS = 5, BYTES = 64 };
	struct times times = { 0 };

	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		char *memory = malloc((size_t)NR * BYTES);
		int pairs[NR_PAIRS][2], flags;
		int64_t since;
		char byte;

		assert_non_null(memory);
		memset(memory, 0, (size_t)NR * BYTES);
		handle = unit_context(NR);
		for (unsigned i = 0; i < NR_PAIRS; i++)
			assert_int_equal(
				i % 2 ? pipe2(pairs[i], O_CLOEXEC)
				      : socketpair(AF_UNIX,
						   SOCK_STREAM | SOCK_CLOEXEC,
						   0, pairs[i]),
				0);
		for (unsigned i = 0; i < NR; i++) {
			struct iocb iocb = unit_iocb(
				IOCB_CMD_PREAD, pairs[i % NR_PAIRS][0],
				memory + (size_t)i * BYTES, BYTES, 0);

			if (i % 3 == 0) {
				iocb.aio_lio_opcode = IOCB_CMD_POLL;
				iocb.aio_buf = POLLIN;
				iocb.aio_nbytes = 0;
			}
			assert_int_equal(unit_submit(handle, &iocb), 1);
		}
		if (round % 2)
			unit_assert_no_more(handle);
		since = uaio_now_ns();
		unit_destroy(handle);
		add_time(&times, since);
		free(memory);
		/* No request is left that would consume this byte. */
		for (unsigned i = 0; i < NR_PAIRS; i++) {
			assert_int_equal(write(pairs[i][1], "x", 1), 1);
			flags = fcntl(pairs[i][0], F_GETFL);
			assert_int_equal(
				fcntl(pairs[i][0], F_SETFL, flags | O_NONBLOCK),
				0);
			assert_int_equal(read(pairs[i][0], &byte, 1), 1);
			unit_close(pairs[i][0]);
			unit_close(pairs[i][1]);
		}
	}
	assert_median_below_ms(&times, AT_ONCE_MS);
}

/*
 * When the context is destroyed, the fallback thread may not know of the request yet.
 * Or it may be about to try the request, at once or a little later. In both cases,
 * destroying the context must not wait for that thread.
 */
static void destroy_waits_for_no_delay(void **state)
{
	enum { ROUNDS = 24 };
	struct times times = { 0 };

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		char *byte = malloc(1);
		int64_t since;

		assert_non_null(byte);
		open_pipe(4);
		submit_read_of_byte(byte);
		if (i & 1)
			unit_assert_no_more(handle);
		if (i & 2)
			stay_away_us(3000);
		if (i & 4)
			put_text("x");
		since = uaio_now_ns();
		unit_destroy(handle);
		add_time(&times, since);
		free(byte);
		/*
		 * If the fallback thread was about to try requests of the context, give
		 * it time: it must not find the context.
		 */
		if (i & 2)
			stay_away_us(1000);
		unit_close(ends[0]);
		unit_close(ends[1]);
	}
	assert_median_below_ms(&times, AT_ONCE_MS);
}

static uint32_t is_destroyed; /* atomic */

static long destroy(void *arg)
{
	long ret = uaio_aio_destroy(*(uint64_t *)arg);

	store_release(&is_destroyed, 1);
	return ret;
}

static void destroy_waits_for_a_request_that_is_being_tried(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		char *byte = malloc(1);
		struct unit_thread thread;
		char left;

		assert_non_null(byte);
		open_pipe(4);
		submit_read_of_byte(byte);
		arm_trial(i & 1, i & 2);
		put_text("x");
		unit_await(is_held, NULL);
		store_relaxed(&is_destroyed, 0);
		unit_thread_start(&thread, destroy, &handle);
		unit_await_sleep(&thread);
		/*
		 * The call that destroys the context must not have returned: a thread
		 * is still executing the read, which uses the buffer `byte`.
		 */
		assert_false(load_acquire(&is_destroyed));
		store_release(&trial.goes_on, 1);
		assert_int_equal(unit_thread_join(&thread), 0);
		unit_hook(NULL);
		free(byte);
		put_text("y");
		assert_int_equal(read(ends[0], &left, 1), 1);
		assert_int_equal(left, 'y');
		unit_close(ends[0]);
		unit_close(ends[1]);
	}
}

static void a_waiter_leaves_a_context_that_goes_away(void **state)
{
	struct times times = { 0 };
	struct unit_thread waiters[2];
	int64_t since;
	char byte;

	(void)state;
	for (unsigned i = 0; i < unit_rounds(50); i++) {
		open_pipe(4);
		submit_read_of_byte(&byte);
		for (unsigned k = 0; k < 2; k++) {
			unit_thread_start(&waiters[k], wait_for_one, &handle);
			unit_await_sleep(&waiters[k]);
		}
		since = uaio_now_ns();
		unit_destroy(handle);
		/*
		 * Destroying the context cancels the read. One waiter may get the event
		 * of the read, and each other waiter gets EINVAL.
		 */
		for (unsigned k = 0; k < 2; k++)
			assert_in_set(
				(unsigned long)unit_thread_join(&waiters[k]),
				((unsigned long[]){
					(unsigned long)-EINVAL,
					(unsigned long)-ECANCELED }),
				2);
		add_time(&times, since);
		unit_close(ends[0]);
		unit_close(ends[1]);
	}
	assert_median_below_ms(&times, AT_ONCE_MS);
}

/*
 * Two contexts have reads of one pipe. The context that is destroyed has the older
 * read, and a thread that waits for its events. The library must still execute the
 * younger read.
 */
static void requests_behind_a_context_that_goes_away_are_served(void **state)
{
	struct times times = { 0 };

	(void)state;
	open_pipe(4);
	for (unsigned i = 0; i < unit_rounds(50); i++) {
		uint64_t other = unit_context(4);
		struct unit_thread first, second;
		struct iocb iocbs[2];
		char bytes[2];
		int64_t since;

		for (unsigned k = 0; k < 2; k++) {
			iocbs[k] = read_of_byte(&bytes[k]);
			assert_int_equal(
				unit_submit(k ? handle : other, &iocbs[k]), 1);
		}
		unit_thread_start(&first, wait_for_one, &other);
		unit_thread_start(&second, wait_for_one, &handle);
		unit_await_sleep(&first);
		unit_await_sleep(&second);
		unit_destroy(other);
		since = uaio_now_ns();
		put_text("x");
		assert_int_equal(unit_thread_join(&second), 1);
		add_time(&times, since);
		assert_int_equal(bytes[1], 'x');
		(void)unit_thread_join(&first);
	}
	assert_median_below_ms(&times, AT_ONCE_MS);
	close_pipe();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(each_way_to_cancel_gives_a_request_one_event),
		UNIT_TEST(a_write_that_waits_tells_what_it_has_written),
		UNIT_TEST(a_request_being_tried_has_one_event_if_cancelled),
		UNIT_TEST(every_byte_and_every_read_is_accounted_for),
		UNIT_TEST(destroying_a_thousand_parked_requests_is_quick),
		UNIT_TEST(destroy_waits_for_no_delay),
		UNIT_TEST(destroy_waits_for_a_request_that_is_being_tried),
		UNIT_TEST(a_waiter_leaves_a_context_that_goes_away),
		UNIT_TEST(requests_behind_a_context_that_goes_away_are_served),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
