/* SPDX-License-Identifier: MIT */
/*
 * Sockets: which thread continues a waiting request, and what ends a multishot request.
 * test/conform/ compares the results of operations with the kernel's.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "flow/cancel.h"
#include "proc/ownfd.h"
#include "uring/ring.h"
#include "uring/table.h"

#include "uring/test-uring-socket.h"
#include "streams.h"

enum { ROUNDS = 200, CALLERS = 3 };

/*
 * Connect, and close the connection as soon as the other side closes it, or after 20
 * ms. Because of this wait, only few connections are pending, and neither the ring nor
 * the listen queue overflows.
 */
static void call_once(const struct sockaddr_in *address)
{
	enum { WHILE_MS = 20 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const void *)address, sizeof(*address)),
			 0);
	(void)poll(&pfd, 1, WHILE_MS);
	close(fd);
}

static struct io_uring_sqe *put_accept(struct uring *of, int fd,
				       uint64_t user_data)
{
	struct io_uring_sqe *sqe = put(of, IORING_OP_ACCEPT, fd, user_data);

	sqe->ioprio = IORING_ACCEPT_MULTISHOT;
	sqe->accept_flags = SOCK_CLOEXEC;
	return sqe;
}

static void put_cancel(struct uring *of, uint64_t user_data)
{
	put(of, IORING_OP_ASYNC_CANCEL, -1, 0)->addr = user_data;
}

/*
 * No thread of the client waits for completions. So the library's fallback thread must
 * execute a receive when data arrives, and must send the rest of a large send.
 */
static void nobody_has_to_call_in(void **state)
{
	static char large[4 << 20];
	char buf[16];
	size_t got = 0;
	int fds[2];

	(void)state;
	pair_of(fds);
	put_rw(&client, IORING_OP_RECV, fds[0], buf, sizeof(buf), 0, 1);
	submit(&client, 0);
	assert_int_equal(write(fds[1], "abc", 3), 3);
	await_unread(&client, 1);
	assert_got(&client, 1, 3);
	put_rw(&client, IORING_OP_SEND, fds[0], large, sizeof(large), 0, 2)
		->msg_flags = MSG_WAITALL;
	submit(&client, 0);
	while (got < sizeof(large)) {
		ssize_t part = read(fds[1], large, sizeof(large) - got);

		assert_true(part > 0);
		got += (size_t)part;
	}
	await_unread(&client, 1);
	assert_got(&client, 2, (int32_t)sizeof(large));
	close_pair(fds);
}

/*
 * Replace the file at a descriptor by another socket. The library does not notice,
 * because the test's dup2() is not interposed.
 */
static void replace_untold(int fd, int by)
{
	assert_int_equal(dup2(by, fd), fd);
}

/*
 * As in the kernel, a multishot receive keeps its socket, even if its descriptor
 * becomes another file.
 */
static void a_receive_of_many_shots_keeps_its_socket(void **state)
{
	struct io_uring_cqe cqe;
	int fds[2], other[2];

	(void)state;
	pair_of(fds);
	pair_of(other);
	provide(&client, 0, BUFFERS);
	put_receive(&client, fds[0], 1);
	submit(&client, 0);
	assert_int_equal(write(fds[1], "a", 1), 1);
	cqe = get(&client);
	assert_cqe(&cqe, 1, 1, CQE_OF(0));
	assert_int_equal(write(other[1], "other", 5), 5);
	replace_untold(fds[0], other[0]);
	assert_int_equal(write(fds[1], "bc", 2), 2);
	cqe = get(&client);
	assert_cqe(&cqe, 1, 2, CQE_OF(1));
	assert_memory_equal(memory[1], "bc", 2);
	assert_none(&client);
	close(fds[1]);
	assert_got(&client, 1, 0);
	close_pair(other);
	unit_close(fds[0]);
}

static void a_receive_of_many_shots_is_cancelled_by_its_number(void **state)
{
	int fds[2], other;

	(void)state;
	pair_that_receives(fds);
	cancel_on(fds[1], 0);
	cancel_on(fds[0], 1);
	other = dup(fds[0]);
	put_receive(&client, other, 2);
	submit(&client, 0);
	cancel_on(fds[0], 2);
	unit_close(other);
	close_pair(fds);
}

/*
 * If few descriptors are available, the library makes no duplicate of the descriptor of
 * a multishot receive. Then the library checks before each receive that the descriptor
 * still refers to the same socket.
 */
static void
a_receive_of_many_shots_without_a_number_of_its_own_asks(void **state)
{
	struct rlimit limit, low;
	struct io_uring_cqe cqe;
	int fds[2], other[2];

	(void)state;
	pair_of(fds);
	pair_of(other);
	provide(&client, 0, BUFFERS);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	put_receive(&client, fds[0], 1);
	submit(&client, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(write(fds[1], "a", 1), 1);
	cqe = get(&client);
	assert_cqe(&cqe, 1, 1, CQE_OF(0));
	/*
	 * Wait until no thread of the library executes the receive: a thread that has
	 * just received may be about to receive again.
	 */
	unit_await(is_quiet, NULL);
	/*
	 * A duplicate keeps the replaced socket open, so that the library's epoll still
	 * reports it.
	 */
	cqe.res = dup(fds[0]);
	replace_untold(fds[0], other[0]);
	assert_int_equal(write(other[1], "other", 5), 5);
	assert_int_equal(write(fds[1], "b", 1), 1);
	assert_got(&client, 1, -EBADF);
	assert_int_equal(close(cqe.res), 0);
	close(fds[1]);
	close_pair(other);
	unit_close(fds[0]);
}

static unsigned nr_own_fds(void)
{
	unsigned nr = 0, from = 0;

	for (; uaio_ownfd_find(from, 65535, &from); from++)
		nr++;
	return nr;
}

static bool has_so_many_fds(void *arg)
{
	return nr_own_fds() == *(unsigned *)arg;
}

/*
 * A slow client lets its ring fill up, which ends each multishot receive after few
 * messages. Such a receive gets no duplicate of its descriptor: making and closing the
 * duplicate would cost more than the checks that it saves.
 */
static void receives_that_end_as_the_ring_is_full_get_no_numbers(void **state)
{
	const uint32_t room = client.params.cq_entries;
	unsigned nr_without;
	struct io_uring_cqe cqe;
	int fds[2];

	(void)state;
	pair_that_receives(fds);
	nr_without = nr_own_fds() - 1;
	for (uint32_t i = 0; i < room; i++) {
		put(&client, IORING_OP_NOP, -1, 2);
		submit(&client, 0);
	}
	assert_int_equal(write(fds[1], "a", 1), 1);
	while (!load_relaxed(&uaio_uring_find((uint32_t)client.fd)->first_over))
		assert_int_equal(enter(&client, 0, 0), 0);
	for (uint32_t i = 0; i < room; i++)
		assert_got(&client, 2, 0);
	cqe = get(&client);
	assert_cqe(&cqe, 1, 1, CQE_OF(0) & ~(uint32_t)IORING_CQE_F_MORE);
	/*
	 * The thread that completes the multishot receive then closes the duplicate of
	 * the receive's descriptor.
	 */
	unit_await(has_so_many_fds, &nr_without);
	put_receive(&client, fds[0], 3);
	submit(&client, 0);
	assert_int_equal(nr_own_fds(), nr_without);
	for (unsigned i = 1; i < 3; i++) {
		assert_int_equal(write(fds[1], "b", 1), 1);
		cqe = get(&client);
		assert_cqe(&cqe, 3, 1, CQE_OF(i));
	}
	cancel_on(fds[0], 3);
	close_pair(fds);
}

/*
 * A receive or send with IORING_RECVSEND_POLL_FIRST waits until its socket is ready.
 * Then a receive is executed by a thread that waits for completions, or by the fallback
 * thread. A send is executed by the fallback thread, even if the client has closed the
 * descriptor.
 */
static void what_polls_first_waits_for_its_socket(void **state)
{
	static char part[4096];
	char buf[16];
	int fds[2];

	(void)state;
	pair_of(fds);
	for (int i = 0; i < 3; i++) {
		put_rw(&client, IORING_OP_RECV, fds[0], buf, sizeof(buf), 0, 1)
			->ioprio = IORING_RECVSEND_POLL_FIRST;
		submit(&client, 0);
		assert_int_equal(unread(&client), 0);
		assert_int_equal(write(fds[1], "abc", 3), 3);
		if (i)
			await_unread(&client, 1);
		assert_got(&client, 1, 3);
	}
	fill_stream(fds[0], sizeof(part));
	assert_int_equal(read(fds[1], part, sizeof(part)), sizeof(part));
	/*
	 * The socket has room for some bytes, but too few for poll() to report POLLOUT.
	 * So the send waits.
	 */
	put_rw(&client, IORING_OP_SEND, fds[0], part, 100, 0, 2)->ioprio =
		IORING_RECVSEND_POLL_FIRST;
	submit(&client, 0);
	assert_int_equal(unread(&client), 0);
	unit_close(fds[0]);
	drain_stream(fds[1]);
	await_unread(&client, 1);
	assert_got(&client, 2, 100);
	close(fds[1]);
}

/*
 * If the group of provided buffers is empty, a multishot receive fails at once, even if
 * no thread waits and no data has arrived.
 */
static void a_receive_of_many_shots_begins_with_room(void **state)
{
	int fds[2];

	(void)state;
	pair_of(fds);
	put_receive(&client, fds[0], 1);
	submit(&client, 0);
	assert_int_equal(unread(&client), 1);
	assert_got(&client, 1, -ENOBUFS);
	close_pair(fds);
}

/*
 * More messages arrive than one thread receives in a row (in one run, ready/run.c).
 */
static void a_receive_goes_on_beyond_one_run(void **state)
{
	uint32_t nr_got = 0, nr_bytes = 0;
	int fds[2];

	(void)state;
	pair_that_receives(fds);
	for (int i = 0; i < ROUNDS; i++)
		assert_int_equal(write(fds[1], memory, BYTES / 2), BYTES / 2);
	while (nr_bytes < ROUNDS * BYTES / 2) {
		struct io_uring_cqe cqe = get(&client);

		nr_got++;
		if (cqe.res == -ENOBUFS) {
			assert_int_equal(cqe.flags, 0);
			provide(&client, 0, BUFFERS);
			put_receive(&client, fds[0], 1);
			submit(&client, 0);
			continue;
		}
		assert_true(cqe.res > 0);
		assert_true(cqe.flags & IORING_CQE_F_BUFFER);
		nr_bytes += (uint32_t)cqe.res;
	}
	assert_true(nr_got > BUFFERS);
	close(fds[1]);
	/*
	 * The receive ends because the stream has ended, or because no buffer is left.
	 */
	assert_false(get(&client).flags & IORING_CQE_F_MORE);
	unit_close(fds[0]);
}

/*
 * Several receives complete, each with a full buffer. Then the library may query by one
 * ppoll() which of their sockets have more data
 */

enum { MANY = 8, FULL = 4, AGAIN = 20 };

static unsigned nr_asked, nr_written; /* atomic */

static bool count_asked(long nr, const long args[6], long *ret_res)
{
	uint32_t word = 0;

	(void)args;
	(void)ret_res;
	/*
	 * calls that query whether sockets have more data: ioctl() queries one socket,
	 * ppoll() several
	 */
	if (nr == SYS_ioctl || nr == SYS_ppoll)
		add_relaxed(&nr_asked, 1);
	/*
	 * Delay recvfrom() until all sockets have data, so that one thread executes all
	 * receives in a row (in one run, ready/run.c).
	 */
	while (nr == SYS_recvfrom && load_relaxed(&nr_written) < MANY)
		(void)uaio_sleep(&word, 0, uaio_now_ns() + 100000);
	return false;
}

/*
 * Let many receives complete, then write more to every second socket. If `is_last` is
 * set, the other sockets get no more data.
 * Return: how many system calls queried whether sockets have more data.
 */
static unsigned ask_many(int fds[MANY][2], bool is_last)
{
	static char bufs[MANY][FULL];

	for (int i = 0; i < MANY; i++)
		put_rw(&client, IORING_OP_RECV, fds[i][0], bufs[i], FULL, 0,
		       (uint64_t)i);
	submit(&client, 0);
	store_relaxed(&nr_asked, 0);
	store_relaxed(&nr_written, 0);
	unit_hook(count_asked);
	for (int i = 0; i < MANY; i++) {
		int nr = i % 2 ? 2 * FULL : FULL;

		assert_int_equal(write(fds[i][1], "abcdefgh", (size_t)nr), nr);
		if (is_last && i % 2 == 0)
			assert_int_equal(shutdown(fds[i][1], SHUT_WR), 0);
		add_relaxed(&nr_written, 1);
	}
	for (int i = 0; i < MANY; i++) {
		struct io_uring_cqe cqe = get(&client);

		assert_int_equal(cqe.res, FULL);
		assert_int_equal(cqe.flags, cqe.user_data % 2
						    ? IORING_CQE_F_SOCK_NONEMPTY
						    : 0);
	}
	unit_hook(NULL);
	for (int i = 1; i < MANY; i += 2)
		assert_int_equal(read(fds[i][0], bufs[i], FULL), FULL);
	return load_relaxed(&nr_asked);
}

static void many_sockets_are_asked_at_once(void **state)
{
	int fds[MANY][2];
	unsigned nr = MANY;

	(void)state;
	for (int i = 0; i < MANY; i++)
		pair_of(fds[i]);
	/*
	 * Repeat: if a thread is woken for each socket separately, it also queries each
	 * separately.
	 */
	for (unsigned i = 0; i < AGAIN && nr >= MANY; i++)
		nr = ask_many(fds, false);
	assert_in_range(nr, 1, MANY - 1);
	(void)ask_many(fds, true);
	for (int i = 0; i < MANY; i++)
		close_pair(fds[i]);
}

static bool count_looks(long nr, const long args[6], long *ret_res)
{
	const struct pollfd *pfd = (const struct pollfd *)args[0];

	(void)ret_res;
	if (nr == SYS_ppoll && args[1] == 1 &&
	    (pfd->events & (POLLIN | POLLRDHUP)) == POLLRDHUP)
		add_relaxed(&nr_asked, 1);
	return false;
}

/*
 * Like Netty, submit two requests for one socket: a multishot receive, and a poll
 * request for the end of the stream. The receive has no duplicate of its descriptor, so
 * both requests wait on the same descriptor. When a message arrives, the library must
 * not call poll() for the poll request.
 */
static void a_poll_does_not_ask_for_what_the_epoll_did_not_tell(void **state)
{
	enum { NR = 8 };
	struct io_uring_cqe cqe;
	int fds[2];

	(void)state;
	pair_of(fds);
	provide(&client, 0, BUFFERS);
	store_relaxed(&uaio_uring_find((uint32_t)client.fd)->nr_short, 1);
	put_receive(&client, fds[0], 1);
	put(&client, IORING_OP_POLL_ADD, fds[0], 2)->poll32_events = POLLRDHUP;
	submit(&client, 0);
	for (uint32_t i = 0; i < NR; i++) {
		unit_await(is_quiet, NULL);
		/*
		 * Count calls of poll() only from the second round on. In the first
		 * round, the waiting thread may try the new poll request by poll(),
		 * before it relies on the library's epoll.
		 */
		if (i == 1) {
			store_relaxed(&nr_asked, 0);
			unit_hook(count_looks);
		}
		assert_int_equal(write(fds[1], "a", 1), 1);
		cqe = get(&client);
		assert_cqe(&cqe, 1, 1, CQE_OF(i));
	}
	unit_await(is_quiet, NULL);
	unit_hook(NULL);
	assert_int_equal(load_relaxed(&nr_asked), 0);
	assert_int_equal(shutdown(fds[1], SHUT_WR), 0);
	for (unsigned i = 0; i < 2; i++) {
		cqe = get(&client);
		assert_int_equal(cqe.res, cqe.user_data == 2 ? POLLRDHUP : 0);
		assert_int_equal(cqe.flags & IORING_CQE_F_MORE, 0);
	}
	close_pair(fds);
}

static bool count_flags(long nr, const long args[6], long *ret_res)
{
	(void)ret_res;
	if (nr == SYS_fcntl && args[1] == F_GETFL)
		add_relaxed(&nr_asked, 1);
	return false;
}

static bool count_stats(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr == SYS_statx || nr == SYS_fstat)
		add_relaxed(&nr_asked, 1);
	return false;
}

/*
 * For a send or receive with flags the library does not call fstat(): the kernel
 * resolves the descriptor in the send or receive itself.
 */
static void a_message_with_flags_does_not_ask_which_file_it_is(void **state)
{
	char buf[4];
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fds[2];

	(void)state;
	pair_of(fds);
	for (int i = 0; i < 2; i++) {
		/*
		 * In the first round the library does not know the file yet, so count
		 * only in the second.
		 */
		unit_hook(i ? count_stats : NULL);
		store_relaxed(&nr_asked, 0);
		put_rw(&client, IORING_OP_SEND, fds[0], "abc", 4, 0, 1)
			->msg_flags = MSG_NOSIGNAL;
		put_rw(&client, IORING_OP_SENDMSG, fds[0], &msg, 1, 0, 2)
			->msg_flags = MSG_NOSIGNAL;
		submit(&client, 2);
		assert_got(&client, 1, 4);
		assert_got(&client, 2, 4);
		put_rw(&client, IORING_OP_RECV, fds[1], buf, 4, 0, 3)
			->msg_flags = MSG_TRUNC;
		put_rw(&client, IORING_OP_RECVMSG, fds[1], &msg, 1, 0, 4)
			->msg_flags = MSG_WAITALL;
		submit(&client, 2);
		assert_int_equal(get(&client).res, 4);
		assert_int_equal(get(&client).res, 4);
		unit_hook(NULL);
		assert_int_equal(load_relaxed(&nr_asked), 0);
	}
	close_pair(fds);
}

/*
 * A read of a socket waits whether or not the socket is O_NONBLOCK, so the library does
 * not query the socket's flags.
 */
static void a_read_that_waits_does_not_ask_for_flags(void **state)
{
	char buf[16];
	int fds[2];

	(void)state;
	pair_of(fds);
	for (int i = 0; i < 2; i++) {
		if (i)
			assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
		put_rw(&client, IORING_OP_READ, fds[0], buf, sizeof(buf), 0, 1);
		/*
		 * In the first round the library does not know the file yet, so count
		 * only in the second.
		 */
		store_relaxed(&nr_asked, 0);
		unit_hook(i ? count_flags : NULL);
		submit(&client, 0);
		unit_hook(NULL);
		assert_int_equal(load_relaxed(&nr_asked), 0);
		assert_int_equal(unread(&client), 0);
		assert_int_equal(write(fds[1], "abc", 3), 3);
		assert_got(&client, 1, 3);
	}
	close_pair(fds);
}

/*
 * Many clients connect while one request accepts, and another request is cancelled
 * meanwhile
 */

struct crowd {
	struct sockaddr_in address;
	uint32_t is_over; /* atomic */
};

static void *call_again(void *arg)
{
	struct crowd *crowd = arg;

	while (!load_relaxed(&crowd->is_over))
		call_once(&crowd->address);
	return NULL;
}

/*
 * Consume a completion. If it is a completion of the accept, close the accepted socket.
 * Return: whether more completions of the same request follow.
 */
static bool take_one(struct uring *of, uint64_t *ret_user_data)
{
	struct io_uring_cqe cqe = get(of);

	*ret_user_data = cqe.user_data;
	if (cqe.user_data == 1 && cqe.res >= 0)
		close(cqe.res);
	return cqe.flags & IORING_CQE_F_MORE;
}

static void accept_and_cancel(int fd)
{
	uint64_t user_data;

	put_accept(&client, fd, 1);
	submit(&client, 0);
	for (int i = 0; i < 3; i++)
		assert_true(take_one(&client, &user_data));
	put_cancel(&client, 1);
	submit(&client, 0);
	/*
	 * If a worker executes the accept just now, the cancelling request fails with
	 * EALREADY: repeat it.
	 */
	while (take_one(&client, &user_data) || user_data != 1)
		if (user_data == 0) {
			put_cancel(&client, 1);
			submit(&client, 0);
		}
	/* Consume the completions of cancelling requests. */
	while (unread(&client))
		(void)take_one(&client, &user_data);
}

/*
 * Close the sockets that rings have accepted after the client stopped consuming
 * completions.
 */
static void close_accepted(const struct sockaddr_in *listener)
{
	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_in own = { .sin_family = AF_UNSPEC };
		socklen_t len = sizeof(own), size = sizeof(int);
		int listens = 1;

		(void)getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens,
				 &size);
		if (!listens && getsockname(fd, (void *)&own, &len) == 0 &&
		    own.sin_port == listener->sin_port)
			close(fd);
	}
}

static void with_a_crowd(int flags, void (*what)(int fd))
{
	struct crowd crowd = { .is_over = 0 };
	int fd = listener(flags, &crowd.address);
	pthread_t threads[CALLERS];

	for (int i = 0; i < CALLERS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, call_again, &crowd),
			0);
	for (int i = 0; i < ROUNDS / 4; i++)
		what(fd);
	store_relaxed(&crowd.is_over, 1);
	for (int i = 0; i < CALLERS; i++)
		pthread_join(threads[i], NULL);
	unit_close(fd);
	close_accepted(&crowd.address);
}

static void accepting_is_cancelled_in_a_crowd(void **state)
{
	(void)state;
	with_a_crowd(SOCK_NONBLOCK, accept_and_cancel);
}

static void workers_accepting_are_cancelled_in_a_crowd(void **state)
{
	(void)state;
	with_a_crowd(0, accept_and_cancel);
}

/* Close a ring that accepts, at a random time. */
static void accept_and_close(int fd)
{
	struct uring other;
	uint64_t user_data;

	client_open(&other, 8, (struct io_uring_params){ 0 });
	put_accept(&other, fd, 1);
	submit(&other, 0);
	assert_true(take_one(&other, &user_data));
	unit_close(other.fd);
	uring_unmap(&other);
}

static void a_ring_ends_while_it_accepts(void **state)
{
	(void)state;
	with_a_crowd(SOCK_NONBLOCK, accept_and_close);
}

/* A hook holds a worker in its accept4() call */

static struct {
	uint32_t is_there, may_go; /* atomic */
} accepting;

static bool hold_accept(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr != SYS_accept4)
		return false;
	store_relaxed(&accepting.is_there, 1);
	uaio_wake(&accepting.is_there, 1);
	while (!load_relaxed(&accepting.may_go))
		(void)uaio_sleep(&accepting.may_go, 0, UAIO_FOREVER);
	return false;
}

/*
 * Start a multishot accept with a linked timeout, and wait until a worker calls
 * accept4() for it.
 * Return: the listening socket.
 */
static int hold_a_worker(void)
{
	static const struct __kernel_timespec late = { .tv_sec = 1000 };
	struct sockaddr_in address;
	int fd = listener(0, &address);

	accepting.is_there = accepting.may_go = 0;
	unit_hook(hold_accept);
	call_once(&address);
	put_accept(&client, fd, 1)->flags = IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_LINK_TIMEOUT, -1, &late, 1, 0, 2);
	submit(&client, 0);
	while (!load_relaxed(&accepting.is_there))
		(void)uaio_sleep(&accepting.is_there, 0, UAIO_FOREVER);
	return fd;
}

/* Let the call return: the request must end instead of accepting once more. */
static void let_worker_go(void)
{
	store_relaxed(&accepting.may_go, 1);
	uaio_wake(&accepting.may_go, 1);
	close(get(&client).res);
	assert_got(&client, 1, -ECANCELED);
	unit_hook(NULL);
}

/*
 * A client cancels a multishot accept once, while a worker calls accept4() for it.
 */
static void what_a_worker_accepts_by_ends_as_well(void **state)
{
	int fd = hold_a_worker();

	(void)state;
	put_cancel(&client, 1);
	submit(&client, 1);
	assert_got(&client, 0, -EALREADY);
	let_worker_go();
	assert_got(&client, 2, -ECANCELED);
	unit_close(fd);
}

/*
 * The linked timeout of a multishot accept expires while a worker calls accept4().
 */
static void what_a_worker_accepts_by_ends_at_its_limit(void **state)
{
	static const struct __kernel_timespec now = { 0 };
	struct io_uring_sqe *sqe;
	int fd = hold_a_worker();

	(void)state;
	sqe = put(&client, IORING_OP_TIMEOUT_REMOVE, -1, 3);
	sqe->addr = 2;
	sqe->addr2 = (uintptr_t)&now;
	sqe->timeout_flags = IORING_LINK_TIMEOUT_UPDATE | IORING_TIMEOUT_UPDATE;
	submit(&client, 2);
	assert_got_both(&client, 3, 0, 2, -ETIME);
	let_worker_go();
	assert_none(&client);
	unit_close(fd);
}

/* Two threads send each other messages, each through its own ring */

enum { HEARS_ONE = 8, SHOTS = 8 };

struct talk {
	int fd;
	bool begins;
	uint32_t
		/*
		 * size of each receive buffer, which is at least the size of a message
		 */
		bytes;
	/* receive by multishot requests, which also end when no buffer is left */
	bool by_shots;
	char own[SHOTS * BYTES];
};

static void say(struct uring *of, int fd, uint32_t nr)
{
	put_rw(of, IORING_OP_SEND, fd, &nr, sizeof(nr), 0, 2);
	submit(of, 0);
}

static void listen_to(struct uring *of, struct talk *talk, bool has_room)
{
	if (talk->by_shots && !has_room)
		put_rw(of, IORING_OP_PROVIDE_BUFFERS, SHOTS, talk->own,
		       talk->bytes, 0, 3)
			->buf_group = GROUP;
	if (talk->by_shots)
		put_receive(of, talk->fd, 1);
	else
		put_rw(of, IORING_OP_RECV, talk->fd, talk->own, talk->bytes, 0,
		       1);
	submit(of, 0);
}

/* Return: the next received number. */
static uint32_t hear(struct uring *of, struct talk *talk)
{
	for (;;) {
		struct io_uring_cqe cqe = get(of);
		uint32_t nr, bid = cqe.flags >> IORING_CQE_BUFFER_SHIFT;

		if (cqe.user_data != 1)
			continue;
		if (cqe.res == -ENOBUFS) {
			listen_to(of, talk, false);
			continue;
		}
		assert_int_equal(cqe.res, sizeof(nr));
		memcpy(&nr, talk->own + (size_t)bid * talk->bytes, sizeof(nr));
		return nr;
	}
}

static void *talk(void *arg)
{
	struct talk *talk = arg;
	struct uring mine;

	client_open(&mine, HEARS_ONE, (struct io_uring_params){ 0 });
	listen_to(&mine, talk, true);
	if (talk->begins)
		say(&mine, talk->fd, 0);
	for (uint32_t i = 0; i < ROUNDS * 5; i++) {
		assert_int_equal(hear(&mine, talk), i);
		if (!talk->by_shots)
			listen_to(&mine, talk, true);
		say(&mine, talk->fd, i + talk->begins);
	}
	client_close(&mine);
	return NULL;
}

static void two_threads_talk(void **state)
{
	static const struct talk ways[] = {
		{ .bytes = BYTES, .by_shots = true },
		{ .bytes = sizeof(uint32_t), .by_shots = true },
		{ .bytes = BYTES },
		{ .bytes = sizeof(uint32_t) },
	};
	struct talk talks[2];
	pthread_t threads[2];
	int fds[2];

	(void)state;
	for (unsigned way = 0; way < NR_ELEMENTS(ways); way++) {
		pair_of(fds);
		for (int i = 0; i < 2; i++) {
			talks[i] = ways[way];
			talks[i].fd = fds[i];
			talks[i].begins = !i;
			assert_int_equal(pthread_create(&threads[i], NULL, talk,
							&talks[i]),
					 0);
		}
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		close_pair(fds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RING_TEST(nobody_has_to_call_in),
		RING_TEST(a_receive_goes_on_beyond_one_run),
		RING_TEST(receives_that_end_as_the_ring_is_full_get_no_numbers),
		RING_TEST(what_polls_first_waits_for_its_socket),
		RING_TEST(many_sockets_are_asked_at_once),
		RING_TEST(a_poll_does_not_ask_for_what_the_epoll_did_not_tell),
		RING_TEST(a_message_with_flags_does_not_ask_which_file_it_is),
		RING_TEST(a_read_that_waits_does_not_ask_for_flags),
		RING_TEST(a_receive_of_many_shots_begins_with_room),
		RING_TEST(a_receive_of_many_shots_keeps_its_socket),
		RING_TEST(a_receive_of_many_shots_is_cancelled_by_its_number),
		RING_TEST(
			a_receive_of_many_shots_without_a_number_of_its_own_asks),
		/*
		 * This test comes before the tests that call close_accepted(), which
		 * may close descriptors of the library.
		 */
		RING_TEST(what_a_worker_accepts_by_ends_as_well),
		RING_TEST(what_a_worker_accepts_by_ends_at_its_limit),
		RING_TEST(accepting_is_cancelled_in_a_crowd),
		RING_TEST(workers_accepting_are_cancelled_in_a_crowd),
		RING_TEST(a_ring_ends_while_it_accepts),
		RING_TEST(two_threads_talk),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
