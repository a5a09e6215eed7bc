/* SPDX-License-Identifier: MIT */
/*
 * Multishot receives: how many recvfrom() calls they take, and that no receive leaves
 * data, or the end of the stream, in its socket.
 */
#include <sys/syscall.h>

#include "uring/test-uring-socket.h"

static unsigned nr_calls; /* atomic: number of recvfrom() calls */

static bool count_receives(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr == SYS_recvfrom)
		add_relaxed(&nr_calls, 1);
	return false;
}

/*
 * Send bytes to a multishot receive, and consume its completions.
 * Return: how many recvfrom() calls this takes.
 */
static unsigned count_shots(int from, unsigned bytes, uint32_t bid)
{
	store_relaxed(&nr_calls, 0);
	unit_hook(count_receives);
	assert_int_equal(write(from, memory, bytes), bytes);
	for (unsigned nr = 0; nr < bytes; nr += BYTES) {
		struct io_uring_cqe cqe = get(&client);

		cqe.flags &= ~(uint32_t)IORING_CQE_F_SOCK_NONEMPTY;
		assert_cqe(&cqe, 1, BYTES, CQE_OF(bid++));
	}
	/*
	 * Wait until no thread of the library receives: a thread may be about to
	 * receive again.
	 */
	unit_await(is_quiet, NULL);
	unit_hook(NULL);
	return load_relaxed(&nr_calls);
}

/*
 * A multishot receive makes no recvfrom() call that fails with EAGAIN, unless a
 * low-water mark (SO_RCVLOWAT) keeps poll() from reporting the data.
 */
static void no_shot_is_in_vain(void **state)
{
	int fds[2], two = 2;

	(void)state;
	pair_that_receives(fds);
	unit_await(is_quiet, NULL);
	assert_int_equal(count_shots(fds[1], BYTES, 0), 1);
	assert_int_equal(count_shots(fds[1], 3 * BYTES, 1), 3);
	cancel_on(fds[0], 1);
	assert_int_equal(
		setsockopt(fds[0], SOL_SOCKET, SO_RCVLOWAT, &two, sizeof(two)),
		0);
	put_receive(&client, fds[0], 1);
	submit(&client, 0);
	unit_await(is_quiet, NULL);
	assert_int_equal(count_shots(fds[1], BYTES, 4), 2);
	cancel_on(fds[0], 1);
	close_pair(fds);
}

/*
 * Wait briefly for a completion. This makes the thread add the socket of each parked
 * request (one that waits for its file) to the epoll.
 */
static void sleep_once(void)
{
	struct __kernel_timespec soon = { .tv_nsec = 1000000 };

	put_rw(&client, IORING_OP_TIMEOUT, -1, &soon, 1, 0, 2);
	submit(&client, 0);
	assert_got(&client, 2, -ETIME);
}

/* A hook reads the urgent byte of this socket just before the next recvfrom(). */
static struct {
	int fd;
	uint32_t is_due; /* atomic */
	ssize_t got;     /* atomic */
} urgent = { .got = -1 };

static bool read_urgent_first(long nr, const long args[6], long *ret_res)
{
	char byte;

	(void)args;
	(void)ret_res;
	if (nr == SYS_recvfrom && xchg_acqrel(&urgent.is_due, 0))
		store_relaxed(&urgent.got, recv(urgent.fd, &byte, 1, MSG_OOB));
	return false;
}

/*
 * A receive stops before the urgent byte of a stream, so it returns fewer bytes than
 * there are. The edge-triggered epoll reports only once, so the library must receive
 * again. In the last round the client has already read the urgent byte.
 */
static void a_shot_that_ends_at_a_mark_is_not_the_last(void **state)
{
	static const unsigned firsts[] = { BYTES, BYTES / 2, BYTES / 2 };
	int fds[2];

	(void)state;
	connection_of(fds);
	provide(&client, 0, BUFFERS);
	put_receive(&client, fds[0], 1);
	submit(&client, 0);
	urgent.fd = fds[0];
	unit_hook(read_urgent_first);
	for (unsigned i = 0; i < NR_ELEMENTS(firsts); i++) {
		unsigned first = firsts[i];

		sleep_once();
		store_relaxed(&urgent.is_due, i == 2);
		/* Send all bytes in one packet, the last of them urgent. */
		assert_int_equal(
			send(fds[1], memory, first + 1, MSG_OOB | MSG_MORE),
			first + 1);
		assert_int_equal(send(fds[1], memory, BYTES, 0), BYTES);
		assert_int_equal(get(&client).res, first);
		assert_int_equal(get(&client).res, BYTES);
	}
	unit_hook(NULL);
	assert_int_equal(load_relaxed(&urgent.got), 1);
	unit_close(fds[0]);
	close(fds[1]);
}

/*
 * A receive that does not fill its buffer has emptied the socket if the socket is TCP.
 * The epoll reports bytes that arrive later, so the library does not receive again.
 * From a Unix socket a receive may return less than the socket has, so the library
 * receives again.
 */
static void a_short_shot_of_tcp_is_not_tried_again(void **state)
{
	int fds[2];

	(void)state;
	provide(&client, 0, BUFFERS);
	for (unsigned i = 0; i < 2; i++) {
		(i ? pair_of : connection_of)(fds);
		put_receive(&client, fds[0], 1);
		submit(&client, 0);
		unit_await(is_quiet, NULL);
		for (uint32_t nr = 0; nr < 3; nr++) {
			store_relaxed(&nr_calls, 0);
			unit_hook(count_receives);
			assert_int_equal(write(fds[1], memory, BYTES / 2),
					 BYTES / 2);
			assert_int_equal(get(&client).res, BYTES / 2);
			unit_await(is_quiet, NULL);
			unit_hook(NULL);
			assert_int_equal(load_relaxed(&nr_calls), 1 + i);
		}
		cancel_on(fds[0], 1);
		close_pair(fds);
	}
}

/*
 * Bytes and FIN arrive in one packet, so the edge-triggered epoll reports them only
 * once. The library must also find the end of the stream.
 */
static void a_short_shot_before_the_end_is_not_the_last(void **state)
{
	int fds[2];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		connection_of(fds);
		provide(&client, 0, BUFFERS);
		put_receive(&client, fds[0], 1);
		submit(&client, 0);
		unit_await(is_quiet, NULL);
		assert_int_equal(send(fds[1], memory, 5, MSG_MORE), 5);
		assert_int_equal(shutdown(fds[1], SHUT_WR), 0);
		if (i & 1)
			await_unread(&client, 2);
		assert_int_equal(get(&client).res, 5);
		assert_got(&client, 1, 0);
		unit_close(fds[0]);
		close(fds[1]);
	}
}

/*
 * What the other side of the connection does just before or after the first recvfrom().
 */
static struct beside {
	enum { WRITES, SHUTS, RESETS, IS_URGENT, NR_BESIDES } what;
	/* after the first recvfrom(); false: before */
	bool is_after;
	int fd;
	uint32_t is_due; /* atomic */
} beside;

static void act_beside(void)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	switch (beside.what) {
	case WRITES: (void)!write(beside.fd, memory, 3); break;
	case SHUTS: (void)shutdown(beside.fd, SHUT_WR); break;
	case RESETS: (void)connect(beside.fd, &nobody, sizeof(nobody)); break;
	default:
		(void)send(beside.fd, memory, 3, MSG_OOB | MSG_MORE);
		(void)!write(beside.fd, memory, 1);
		break;
	}
}

static bool receive_beside(long nr, const long args[6], long *ret_res)
{
	bool is_due = nr == SYS_recvfrom && xchg_acqrel(&beside.is_due, 0);

	if (is_due && !beside.is_after)
		act_beside();
	if (is_due)
		*ret_res = unit_make_call(nr, args);
	if (is_due && beside.is_after)
		act_beside();
	return is_due;
}

/*
 * Receive until `bytes` bytes, or the end of the stream, have arrived. If `by_caller`
 * is set, this thread waits; otherwise the library's fallback thread receives.
 */
static void receive_all(int bytes, bool by_caller)
{
	int got = 0;

	while (got < bytes) {
		struct io_uring_cqe cqe;

		if (!by_caller)
			await_unread(&client, 1);
		cqe = get(&client);
		if (cqe.user_data != 1 || cqe.res <= 0)
			break;
		got += cqe.res;
	}
}

static void what_comes_beside_a_short_shot_is_received(void **state)
{
	enum { FIRST = 5, CASES = NR_BESIDES * 4 };
	int fds[2];

	(void)state;
	for (unsigned i = 0; i < CASES; i++) {
		connection_of(fds);
		provide(&client, 0, BUFFERS);
		put_receive(&client, fds[0], 1);
		submit(&client, 0);
		unit_await(is_quiet, NULL);
		beside.what = i / 4;
		beside.is_after = i & 1;
		beside.fd = fds[1];
		store_relaxed(&beside.is_due, 1);
		unit_hook(receive_beside);
		assert_int_equal(write(fds[1], memory, FIRST), FIRST);
		/*
		 * IS_URGENT sends three urgent bytes; all but the last arrive as normal
		 * data.
		 */
		receive_all(beside.what == SHUTS || beside.what == RESETS
				    ? INT32_MAX
				    : FIRST + 3,
			    i & 2);
		unit_hook(NULL);
		close(fds[1]);
		if (beside.what != SHUTS && beside.what != RESETS)
			receive_all(INT32_MAX, true);
		unit_close(fds[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RING_TEST(no_shot_is_in_vain),
		RING_TEST(a_shot_that_ends_at_a_mark_is_not_the_last),
		RING_TEST(a_short_shot_of_tcp_is_not_tried_again),
		RING_TEST(a_short_shot_before_the_end_is_not_the_last),
		RING_TEST(what_comes_beside_a_short_shot_is_received),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
