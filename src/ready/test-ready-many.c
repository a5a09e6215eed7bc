/* SPDX-License-Identifier: MIT */
/*
 * One context has ten thousand sockets with parked reads. If one socket is ready, the
 * library does the work of one request only. The file also tests two polls of one
 * socket that wait for different events.
 */
#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "ready/ready.h"
#include "ready/test-ready.h"

enum {
	NR_MAX = UNIT_IS_SANITIZED ? 1000 : 10000,
	/* descriptors left for other purposes */
	NR_SPARE = 200,
	ROUNDS = 20,
};

static struct {
	unsigned nr;
	int (*pairs)[2];
	char *bytes;
	uint64_t handle;
} crowd;

static uint32_t nr_tries; /* atomic: read calls on sockets */

static bool count_tries(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	/*
	 * Each of these calls is a try of a read: the library reads its own descriptors
	 * by other system calls.
	 */
	if (nr == SYS_preadv2 || nr == SYS_recvmsg || nr == SYS_recvfrom)
		add_relaxed(&nr_tries, 1);
	return false;
}

/* Open as many socket pairs as the limit of descriptors allows. */
static void gather(void)
{
	struct rlimit old,
		limit = { 2 * NR_MAX + NR_SPARE, 2 * NR_MAX + NR_SPARE };

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	if (old.rlim_cur < limit.rlim_cur &&
	    setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		limit = (struct rlimit){ old.rlim_max, old.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	crowd.nr = NR_MAX;
	if (crowd.nr > (limit.rlim_cur - NR_SPARE) / 2)
		crowd.nr = (unsigned)(limit.rlim_cur - NR_SPARE) / 2;
	assert_in_range(crowd.nr, 100, NR_MAX);
	crowd.pairs = calloc(crowd.nr, sizeof(crowd.pairs[0]));
	crowd.bytes = calloc(crowd.nr, 1);
	assert_true(crowd.pairs && crowd.bytes);
	crowd.handle = unit_context(crowd.nr);
	for (unsigned i = 0; i < crowd.nr; i++)
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC,
					    0, crowd.pairs[i]),
				 0);
}

static void park(unsigned i)
{
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, crowd.pairs[i][0],
				     &crowd.bytes[i], 1, 0);

	iocb.aio_data = i;
	assert_int_equal(unit_submit(crowd.handle, &iocb), 1);
}

static void disperse(void)
{
	unit_destroy(crowd.handle);
	for (unsigned i = 0; i < crowd.nr; i++) {
		unit_close(crowd.pairs[i][0]);
		unit_close(crowd.pairs[i][1]);
	}
	free(crowd.pairs);
	free(crowd.bytes);
}

static void check_served(const struct uaio_event *event, unsigned i)
{
	assert_int_equal(event->data, i);
	assert_int_equal(event->res, 1);
	assert_int_equal(crowd.bytes[i], 'x');
	crowd.bytes[i] = 0;
}

static long wait_for_event(void *arg)
{
	return uaio_aio_getevents(crowd.handle, 1, 1, arg, NULL);
}

/*
 * Complete the read of socket i. `sleeps`: whether a thread sleeps for the event; if
 * not, the client makes no call.
 */
static void serve(unsigned i, bool sleeps)
{
	struct uaio_event event = { 0 };
	struct unit_thread thread;
	struct uaio_ring_map *map;

	if (sleeps) {
		unit_thread_start(&thread, wait_for_event, &event);
		unit_await_sleep(&thread);
		assert_int_equal(write(crowd.pairs[i][1], "x", 1), 1);
		assert_int_equal(unit_thread_join(&thread), 1);
	} else {
		assert_int_equal(write(crowd.pairs[i][1], "x", 1), 1);
		unit_await(has_unread, &crowd.handle);
		map = (struct uaio_ring_map *)(uintptr_t)crowd.handle;
		event = map->events[load_relaxed(&map->head)];
		assert_int_equal(take_from_ring(crowd.handle), 1);
	}
	check_served(&event, i);
}

/*
 * Serve two reads, and park them again. After that, the thread that serves the context
 * (the waiter, or the fallback thread) has checked all other reads.
 */
static void settle(bool sleeps)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		serve(i, sleeps);
		park(i);
	}
}

static void one_ready_of_ten_thousand_costs_the_work_of_one(void **state)
{
	(void)state;
	gather();
	for (unsigned i = 0; i < crowd.nr; i++)
		park(i);
	unit_hook(count_tries);
	for (unsigned sleeps = 2; sleeps-- > 0;) {
		struct uaio_ready_counters before, after;

		settle(sleeps);
		store_relaxed(&nr_tries, 0);
		uaio_ready_count(&before);
		for (unsigned round = 0; round < ROUNDS; round++) {
			unsigned i = (round * 7919 + 13) % crowd.nr;

			serve(i, sleeps);
			park(i);
		}
		uaio_ready_count(&after);
		printf("%u sockets, %s, %u events: %u tries (%lu, of %lu "
		       "events of "
		       "epoll), %lu armed\n",
		       crowd.nr, sleeps ? "asleep" : "looking", ROUNDS,
		       load_relaxed(&nr_tries),
		       (unsigned long)(after.nr_tries - before.nr_tries),
		       (unsigned long)(after.nr_events - before.nr_events),
		       (unsigned long)(after.nr_arms - before.nr_arms));
		/*
		 * Each read is tried twice without data, when it is submitted and once
		 * later, and then once with success.
		 */
		assert_in_range(load_relaxed(&nr_tries), 2 * ROUNDS,
				4 * ROUNDS);
		assert_true(after.nr_tries - before.nr_tries <= 4 * ROUNDS);
		assert_true(after.nr_events - before.nr_events <= 2 * ROUNDS);
		assert_true(after.nr_arms - before.nr_arms <= 2 * ROUNDS);
	}
	unit_hook(NULL);
	disperse();
}

static void park_poll(int fd, short events)
{
	struct iocb iocb =
		unit_iocb(IOCB_CMD_POLL, fd, (void *)(uintptr_t)events, 0, 0);

	assert_int_equal(unit_submit(handle, &iocb), 1);
}

/*
 * A thread that sleeps must have made the epoll watch for the events of all polls of
 * the file.
 */
static void each_poll_of_a_file_is_armed(void **state)
{
	static const short first[] = { POLLIN, POLLOUT };
	struct unit_thread waiter;
	static char bytes[65536];
	int pair[2];

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(first); i++) {
		handle = unit_context(2);
		assert_int_equal(
			socketpair(AF_UNIX,
				   SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
				   0, pair),
			0);
		while (write(pair[0], bytes, sizeof(bytes)) > 0)
			;
		park_poll(pair[0], first[i]);
		park_poll(pair[0], first[!i]);
		unit_thread_start(&waiter, reap_one, NULL);
		unit_await_sleep(&waiter);
		assert_int_equal(write(pair[1], "x", 1), 1);
		assert_int_equal(unit_thread_join(&waiter), POLLIN);
		unit_thread_start(&waiter, reap_one, NULL);
		unit_await_sleep(&waiter);
		while (read(pair[1], bytes, sizeof(bytes)) > 0)
			;
		assert_int_equal(unit_thread_join(&waiter), POLLOUT);
		unit_destroy(handle);
		unit_close(pair[0]);
		unit_close(pair[1]);
	}
}

/*
 * The work of a round must not grow with the number of parked requests. So run this
 * test with many sockets and with few.
 */
int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(one_ready_of_ten_thousand_costs_the_work_of_one),
		UNIT_TEST(each_poll_of_a_file_is_armed),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
