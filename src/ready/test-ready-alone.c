/* SPDX-License-Identifier: MIT */
/*
 * Tests a client that makes no call after submitting. No thread of the program tries
 * its parked requests. Only the fallback thread, which belongs to the library, does. So
 * no other thread corrects omissions of the fallback thread.
 */
#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "ready/test-ready.h"
#include "streams.h"

/* atomic: number of the library's read calls on ends[0] */
static uint32_t nr_reads;

static bool are_two(void *arg)
{
	return load_acquire((uint32_t *)arg) >= 2;
}

/*
 * Reads of the pipe fail with EAGAIN although the pipe polls ready, as happens with
 * some files.
 */
static uint32_t refuses; /* atomic */

static bool refuse_to_read(long nr, const long args[6], long *ret_res)
{
	if (nr != SYS_preadv2 || !is_end(0, args[0]) || !load_acquire(&refuses))
		return false;
	*ret_res = -EAGAIN;
	add_relaxed(&nr_reads, 1);
	return true;
}

static void a_file_that_polls_ready_and_is_not_is_tried_again(void **state)
{
	char byte = 0;

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		open_pipe(4);
		store_relaxed(&nr_reads, 0);
		store_release(&refuses, 1);
		unit_hook(refuse_to_read);
		put_text("x");
		submit_read_of_byte(&byte);
		/*
		 * The submitting thread makes one read call, and wakes the fallback
		 * thread, which makes a second read call.
		 */
		unit_await(are_two, &nr_reads);
		store_release(&refuses, 0);
		assert_int_equal(take_from_ring(handle), 1);
		unit_hook(NULL);
		close_pipe();
	}
}

/* The events for which the context's epoll watches ends[0] */
static uint32_t armed; /* atomic: EPOLL* */

static bool is_watched_for_writing(void *arg)
{
	(void)arg;
	return load_acquire(&armed) & EPOLLOUT;
}

static bool count_calls(long nr, const long args[6], long *ret_res)
{
	const struct epoll_event *event = (const struct epoll_event *)args[3];

	(void)ret_res;
	/*
	 * Ignore calls with event data 0: by such a call the library only checks
	 * whether the epoll has an entry of the file (uaio_poller_has()).
	 */
	if (nr == SYS_epoll_ctl && is_end(0, args[2]) &&
	    (args[1] == EPOLL_CTL_DEL || event->data.u64))
		store_release(&armed,
			      args[1] == EPOLL_CTL_DEL ? 0 : event->events);
	if ((nr == SYS_recvfrom || nr == SYS_recvmsg) && is_end(0, args[0]))
		add_relaxed(&nr_reads, 1);
	return false;
}

/*
 * Submit a read, and let a thread sleep until its event comes, so that the epoll
 * watches for input. Then complete the read by writing a byte.
 */
static void read_asleep(char *byte)
{
	struct unit_thread waiter;

	submit_read_of_byte(byte);
	unit_thread_start(&waiter, reap_one, NULL);
	unit_await_sleep(&waiter);
	put_text("x");
	assert_int_equal(unit_thread_join(&waiter), 1);
}

/*
 * Submit a read, write a byte, and take the event. Repeat this until the library makes
 * only one read call, because it no longer tries the read in the submitting call.
 */
static void read_until_it_is_not_tried(char *byte)
{
	do {
		store_relaxed(&nr_reads, 0);
		submit_read_of_byte(byte);
		put_text("x");
		assert_int_equal(unit_reap_one(handle), 1);
	} while (load_relaxed(&nr_reads) != 1);
}

static bool fill(void)
{
	static const char bytes[4096];

	return send(ends[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0;
}

static void a_direction_is_watched_though_the_other_is_untried(void **state)
{
	char in = 0, out = 'y';
	struct iocb read, write;
	struct iocb *iocbs[] = { &read, &write };
	int fds[2];

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds),
			0);
		set_ends(fds);
		handle = unit_context(4);
		store_relaxed(&armed, 0);
		unit_hook(count_calls);
		while (fill())
			continue;
		do {
			read_asleep(&in);
			read_until_it_is_not_tried(&in);
		} while (!(load_acquire(&armed) & EPOLLIN));
		read = read_of_byte(&in);
		write = unit_iocb(IOCB_CMD_PWRITE, ends[0], &out, 1, 0);
		store_relaxed(&nr_reads, 0);
		assert_int_equal(uaio_aio_submit(handle, 2, iocbs), 2);
		/*
		 * Sooner or later the fallback thread must make the epoll watch for
		 * EPOLLOUT.
		 */
		unit_await(is_watched_for_writing, NULL);
		drain_stream(ends[1]);
		assert_int_equal(take_from_ring(handle), 1);
		put_text("x");
		assert_int_equal(take_from_ring(handle), 1);
		unit_hook(NULL);
		close_pipe();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_file_that_polls_ready_and_is_not_is_tried_again),
		UNIT_TEST(a_direction_is_watched_though_the_other_is_untried),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
