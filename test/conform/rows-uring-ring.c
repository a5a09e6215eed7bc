/* SPDX-License-Identifier: MIT */
/*
 * A ring that another ring, or an epoll, polls. The polled ring is readable while it
 * has completions that its client has not consumed, or that have overflowed. The polled
 * ring is writable while it has room for submissions.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"

/* In most test cases, a request of the ring `first` polls the ring `second`. */
static struct uring first, second, third;
static int quiet[2];
static char buffer[8];

static void make_rings(void)
{
	REQUIRE(pipe(quiet) == 0);
	first = new_uring(8, 0);
	second = new_uring(4, 0);
}

static struct io_uring_sqe *poll_second(uint32_t events)
{
	struct io_uring_sqe *sqe =
		sqe_of(&first, IORING_OP_POLL_ADD, second.fd);

	sqe->poll32_events = events;
	return sqe;
}

static void ask(uint32_t events)
{
	poll_second(events);
	note_result("submit", uring_submit(&first));
}

static void nop(struct uring *ring)
{
	sqe_of(ring, IORING_OP_NOP, -1);
	note_result("nop", uring_submit(ring));
}

/*
 * A way to make the second ring ready by a request on that ring: submit() runs before
 * the first ring polls the second, and end() afterwards.
 */
struct way {
	void (*submit)(void);
	void (*end)(void);
	/* how many completions the second ring has after submit() and end() */
	uint32_t nr;
};

static void submit_nop(void)
{
	nop(&second);
}

static void submit_timeout(void)
{
	static struct __kernel_timespec soon;

	soon = SPAN_SOON;
	sqe_rw(&second, IORING_OP_TIMEOUT, -1, &soon, 1, 0);
	note_result("timeout", uring_submit(&second));
}

/*
 * Submits a timeout that does not expire: it completes once another request has
 * completed.
 */
static void submit_count(void)
{
	static struct __kernel_timespec never;

	never = SPAN_NEVER;
	sqe_rw(&second, IORING_OP_TIMEOUT, -1, &never, 1, 1);
	note_result("count", uring_submit(&second));
}

static void submit_read(void)
{
	sqe_rw(&second, IORING_OP_READ, quiet[0], buffer, 8, 0);
	note_result("read", uring_submit(&second));
}

static void end_read(void)
{
	REQUIRE(write(quiet[1], "abc", 3) == 3);
}

static void submit_to_worker(void)
{
	int fd = file_of("f", 8, O_RDONLY);

	sqe_rw(&second, IORING_OP_READ, fd, buffer, 8, 0)->flags = IOSQE_ASYNC;
	note_result("async", uring_submit(&second));
}

static void cancel_read(void)
{
	uint64_t data = second.sqes[0].user_data;

	sqe_of(&second, IORING_OP_ASYNC_CANCEL, -1)->addr = data;
	note_result("cancel", uring_submit(&second));
}

static void make_third(void)
{
	third = new_uring(4, 0);
}

static void send_message(void)
{
	sqe_rw(&third, IORING_OP_MSG_RING, second.fd, NULL, 7, 0);
	note_result("message", uring_submit(&third));
}

static const struct way by_nop = { NULL, submit_nop, 1 },
			by_timeout = { NULL, submit_timeout, 1 },
			by_earlier_timeout = { submit_timeout, NULL, 1 },
			by_count = { submit_count, submit_nop, 2 },
			by_read = { submit_read, end_read, 1 },
			by_worker = { NULL, submit_to_worker, 1 },
			by_cancel = { submit_read, cancel_read, 2 },
			by_message = { make_third, send_message, 1 };

static const struct way *begin(void)
{
	const struct way *way = this_row->about;

	make_rings();
	if (way->submit)
		way->submit();
	return way;
}

static void by_request(void)
{
	const struct way *way = begin();

	ask(POLLIN);
	if (way->end) {
		note_ready("waits", &first);
		way->end();
	}
	/*
	 * Here this thread may sleep in io_uring_enter on the first ring. The poll of
	 * the second ring must wake the thread.
	 */
	note_cqes("told", &first, 1);
	note_cqes("second", &second, way->nr);
	ask(POLLIN);
	note_ready("waits_again", &first);
}

static void note_epoll(const char *key, int epoll, int timeout)
{
	struct epoll_event events[4];
	int nr;

	/*
	 * Repeat after EINTR: the kernel interrupts a thread to complete its requests.
	 */
	do
		nr = epoll_wait(epoll, events, 4, timeout);
	while (nr < 0 && errno == EINTR);
	note(key, nr == 1 ? (long)events[0].events : nr);
}

static void by_epoll(void)
{
	const struct way *way = begin();
	struct epoll_event level = { .events = EPOLLIN },
			   edge = { .events = EPOLLIN | EPOLLET };
	int by_level = epoll_create1(0), by_edge = epoll_create1(0);

	note_result("level",
		    epoll_ctl(by_level, EPOLL_CTL_ADD, second.fd, &level));
	note_result("edge",
		    epoll_ctl(by_edge, EPOLL_CTL_ADD, second.fd, &edge));
	if (way->end) {
		note_epoll("waits_by_level", by_level, 0);
		note_epoll("waits_by_edge", by_edge, 0);
		way->end();
	}
	note_epoll("level", by_level, PATIENCE_MS);
	note_epoll("edge", by_edge, PATIENCE_MS);
	note_cqes("second", &second, way->nr);
	note_epoll("level_again", by_level, 0);
}

static void again_and_again(void)
{
	struct io_uring_cqe cqe;

	make_rings();
	ask(POLLIN);
	note_ready("waits", &first);
	nop(&second);
	note_cqes("told", &first, 1);
	ask(POLLIN);
	note_cqes("still", &first, 1);
	nop(&second);
	uring_take(&second, &cqe);
	ask(POLLIN);
	note_cqes("one_left", &first, 1);
	uring_take(&second, &cqe);
	ask(POLLIN);
	note_ready("none_left", &first);
	nop(&second);
	note_cqes("another", &first, 1);
}

static void overflowed(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE,
					  .cq_entries = 2 };

	make_rings();
	second = new_uring_of(2, &params);
	ask(POLLIN);
	for (int i = 0; i < 5; i++)
		nop(&second);
	note_cqes("told", &first, 1);
	*second.cq_head = *second.cq_tail;
	ask(POLLIN);
	note_cqes("elsewhere", &first, 1);
	for (int i = 0; i < 2; i++) {
		note_result("get",
			    uring_enter(second.fd, 0, 0, IORING_ENTER_GETEVENTS,
					NULL, 0));
		ask(POLLIN);
		note_cqes("there", &first, 1);
		*second.cq_head = *second.cq_tail;
	}
	ask(POLLIN);
	note_ready("none_left", &first);
}

static void room(void)
{
	make_rings();
	ask(POLLOUT);
	note_cqes("new", &first, 1);
	ask(POLLIN | POLLOUT);
	note_cqes("both", &first, 1);
	for (int i = 0; i < 4; i++)
		sqe_of(&second, IORING_OP_NOP, -1);
	uring_publish(&second);
	ask(POLLOUT);
	note_ready("full", &first);
	ask(POLLIN | POLLOUT);
	note_ready("both_full", &first);
	note_result("second", uring_submit(&second));
	/*
	 * Wait: another thread of the library may have to report to `first` that
	 * `second` is ready.
	 */
	uring_wait(&first, 1);
	note_ready("submitted", &first);
}

static void normal_bits(void)
{
	make_rings();
	ask(POLLOUT | POLLWRNORM);
	note_cqes("writes", &first, 1);
	nop(&second);
	ask(POLLIN | POLLRDNORM);
	note_cqes("reads", &first, 1);
	ask(POLLPRI);
	note_ready("no_other", &first);
}

static void many_shots(void)
{
	make_rings();
	poll_second(POLLIN)->len = IORING_POLL_ADD_MULTI;
	note_result("submit", uring_submit(&first));
	note_ready("waits", &first);
	nop(&second);
	note_cqes("told", &first, 1);
	nop(&second);
	note_ready("then", &first);
}

static void many_shots_at_once(void)
{
	make_rings();
	nop(&second);
	poll_second(POLLIN)->len = IORING_POLL_ADD_MULTI;
	note_result("submit", uring_submit(&first));
	note_cqes("told", &first, 1);
	nop(&second);
	uring_settle(&first);
	note_ready("then", &first);
	nop(&second);
	note_ready("at_last", &first);
}

/*
 * A multishot request polls an epoll that watches an eventfd and a ring. If `is_own` is
 * set, this ring is the request's own ring.
 */
static void epoll_with_ring(const char *key, bool is_own)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0), counter = eventfd(0, EFD_NONBLOCK);
	struct io_uring_sqe *sqe;
	struct uring *ring = is_own ? &first : &second;
	eventfd_t count;

	make_rings();
	REQUIRE(epoll >= 0 && counter >= 0);
	REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, counter, &event) == 0);
	REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, ring->fd, &event) == 0);
	sqe = sqe_of(&first, IORING_OP_POLL_ADD, epoll);
	sqe->poll32_events = POLLIN;
	sqe->len = IORING_POLL_ADD_MULTI;
	note_result(key, uring_submit(&first));
	note_ready("waits", &first);
	for (int i = 0; i < (is_own ? 1 : 2); i++) {
		REQUIRE(eventfd_write(counter, 1) == 0);
		/*
		 * If the epoll watches the request's own ring, the first completion
		 * makes this ring ready, so the request posts a second completion.
		 */
		note_in_order("event", &first, is_own ? 2 : 1);
		REQUIRE(eventfd_read(counter, &count) == 0);
	}
	nop(ring);
	note_in_order("nop", &first, 1);
	nop(ring);
	uring_settle(&first);
	note_ready("then", &first);
}

static void epoll_with_rings(void)
{
	epoll_with_ring("another", false);
	epoll_with_ring("own", true);
}

static void in_chain(void)
{
	make_rings();
	poll_second(POLLIN)->flags = IOSQE_IO_LINK;
	sqe_of(&first, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&first));
	note_ready("waits", &first);
	nop(&second);
	note_in_order("told", &first, 2);
}

static void later_in_chain(void)
{
	make_rings();
	sqe_rw(&first, IORING_OP_READ, quiet[0], buffer, 3, 0)->flags =
		IOSQE_IO_LINK;
	poll_second(POLLIN);
	note_result("submit", uring_submit(&first));
	note_ready("held", &first);
	end_read();
	note_in_order("read", &first, 1);
	note_ready("waits", &first);
	nop(&second);
	note_in_order("told", &first, 1);
}

static void closed_before_its_turn(void)
{
	make_rings();
	sqe_rw(&first, IORING_OP_READ, quiet[0], buffer, 3, 0)->flags =
		IOSQE_IO_LINK;
	poll_second(POLLIN);
	note_result("submit", uring_submit(&first));
	close(second.fd);
	end_read();
	note_in_order("ends", &first, 2);
}

static void limited(void)
{
	struct __kernel_timespec soon = SPAN_SOON;

	make_rings();
	poll_second(POLLIN)->flags = IOSQE_IO_LINK;
	sqe_rw(&first, IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 0);
	note_result("submit", uring_submit(&first));
	note_cqes("over", &first, 2);
	soon = SPAN_NEVER;
	poll_second(POLLIN)->flags = IOSQE_IO_LINK;
	sqe_rw(&first, IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 0);
	note_result("submit", uring_submit(&first));
	note_ready("waits", &first);
	nop(&second);
	note_cqes("told", &first, 2);
}

static void behind_a_drain(void)
{
	make_rings();
	sqe_rw(&first, IORING_OP_READ, quiet[0], buffer, 8, 0);
	poll_second(POLLIN)->flags = IOSQE_IO_DRAIN;
	note_result("submit", uring_submit(&first));
	end_read();
	note_in_order("read", &first, 1);
	note_ready("waits", &first);
	nop(&second);
	note_in_order("told", &first, 1);
}

static void by_a_thread(void)
{
	make_rings();
	poll_second(POLLIN)->flags = IOSQE_ASYNC;
	note_result("submit", uring_submit(&first));
	note_ready("waits", &first);
	nop(&second);
	note_cqes("told", &first, 1);
}

static void cancelled(void)
{
	uint64_t data;

	make_rings();
	data = poll_second(POLLIN)->user_data;
	note_result("submit", uring_submit(&first));
	sqe_of(&first, IORING_OP_ASYNC_CANCEL, -1)->addr = data;
	note_result("cancel", uring_submit(&first));
	note_cqes("ends", &first, 2);
	data = poll_second(POLLIN)->user_data;
	note_result("submit", uring_submit(&first));
	sqe_of(&first, IORING_OP_POLL_REMOVE, -1)->addr = data;
	note_result("remove", uring_submit(&first));
	note_cqes("ends", &first, 2);
}

static void cancelled_by_number(void)
{
	make_rings();
	ask(POLLIN);
	sqe_of(&first, IORING_OP_ASYNC_CANCEL, second.fd)->cancel_flags =
		IORING_ASYNC_CANCEL_FD;
	note_result("cancel", uring_submit(&first));
	uring_settle(&first);
	note_ready("ends", &first);
}

/* The change completes. Then the poll completes, too, if nr is 2. */
static void change(uint64_t target, uint32_t mask, uint32_t nr)
{
	struct io_uring_sqe *sqe = sqe_of(&first, IORING_OP_POLL_REMOVE, -1);

	sqe->addr = target;
	sqe->len = IORING_POLL_UPDATE_EVENTS;
	sqe->poll32_events = mask;
	note_result("change", uring_submit(&first));
	note("changed", uring_wait(&first, nr));
	note_ready("ready", &first);
	*first.cq_head = *first.cq_tail;
}

static void changed(void)
{
	struct io_uring_cqe cqe;
	uint64_t target;

	make_rings();
	target = poll_second(POLLPRI)->user_data;
	note_result("submit", uring_submit(&first));
	nop(&second);
	uring_take(&second, &cqe);
	change(target, POLLIN, 1);
	for (int i = 0; i < 4; i++)
		sqe_of(&second, IORING_OP_NOP, -1);
	uring_publish(&second);
	change(target, POLLOUT, 1);
	change(target, POLLPRI, 1);
	note_result("second", uring_submit(&second));
	note_ready("waits", &first);
	change(target, POLLRDNORM, 2);
}

static void closed_meanwhile(void)
{
	make_rings();
	ask(POLLIN);
	close(second.fd);
	uring_settle(&first);
	note_ready("waits", &first);
}

static void each_other(void)
{
	make_rings();
	ask(POLLIN);
	sqe_of(&second, IORING_OP_POLL_ADD, first.fd)->poll32_events = POLLIN;
	note_result("second", uring_submit(&second));
	note_ready("waits", &first);
	nop(&first);
	note_cqes("first", &first, 2);
	note_cqes("second", &second, 1);
}

static void itself(void)
{
	make_rings();
	sqe_of(&first, IORING_OP_POLL_ADD, first.fd)->poll32_events = POLLIN;
	note_result("submit", uring_submit(&first));
	note("waits", uring_settle(&first) == 0);
	nop(&first);
	note_cqes("told", &first, 2);
}

static void registered(void)
{
	make_rings();
	note_result("register", uring_register(first.fd, IORING_REGISTER_FILES,
					       &second.fd, 1));
}

#define BY(sentence, function, way)                             \
	{                                                       \
		.name = sentence, .run = function, .about = way \
	}
const struct row rows_uring_ring[] = {
	BY("a ring polls another, in which a no-op ends", by_request, &by_nop),
	BY("a ring polls another, in which a time is over", by_request,
	   &by_timeout),
	BY("a ring polls another, in which a time is nearly over", by_request,
	   &by_earlier_timeout),
	BY("a ring polls another, in which a timeout has counted", by_request,
	   &by_count),
	BY("a ring polls another, in which a pipe is read", by_request,
	   &by_read),
	BY("a ring polls another, in which a thread reads", by_request,
	   &by_worker),
	BY("a ring polls another, in which a request is cancelled", by_request,
	   &by_cancel),
	BY("a ring polls another, to which a third sends", by_request,
	   &by_message),
	BY("epoll of a ring in which a no-op ends", by_epoll, &by_nop),
	BY("epoll of a ring in which a time is over", by_epoll, &by_timeout),
	BY("epoll of a ring in which a time is nearly over", by_epoll,
	   &by_earlier_timeout),
	BY("epoll of a ring in which a timeout has counted", by_epoll,
	   &by_count),
	BY("epoll of a ring in which a pipe is read", by_epoll, &by_read),
	BY("epoll of a ring in which a thread reads", by_epoll, &by_worker),
	BY("epoll of a ring in which a request is cancelled", by_epoll,
	   &by_cancel),
	BY("epoll of a ring to which another sends", by_epoll, &by_message),
	ROW("a ring polls another again and again", again_and_again),
	ROW("a ring polls another that overflows", overflowed),
	ROW("a ring polls another for room", room),
	ROW_DIFFERS("a ring polls another for more bits than one", normal_bits,
		    differs_ring_polled, { "writes.0=260", "writes.0=4" },
		    { "reads.1=65", "reads.1=1" }),
	ROW("a ring polls another with many shots", many_shots),
	ROW_DIFFERS("a ring polls another that is ready with many shots",
		    many_shots_at_once, differs_ring_polled,
		    { "told.1=1,flags:0x2", "told.1=1" },
		    { "then=1", "then=0" }, { "at_last=1", "at_last=0" }),
	ROW("a multishot poll of an epoll that has a ring", epoll_with_rings),
	ROW("a ring polls another in a chain", in_chain),
	ROW("a ring polls another later in a chain", later_in_chain),
	ROW("a ring is closed before a chain polls it", closed_before_its_turn),
	ROW("a ring polls another for a time", limited),
	ROW("a ring polls another behind a drain", behind_a_drain),
	ROW("a ring polls another with IOSQE_ASYNC", by_a_thread),
	ROW("a poll of a ring is cancelled", cancelled),
	ROW("a poll of a ring is cancelled by its descriptor",
	    cancelled_by_number),
	ROW("a poll of a ring gets other masks", changed),
	ROW("a ring is closed while another polls it", closed_meanwhile),
	ROW("two rings poll each other", each_other),
	ROW("a ring polls itself", itself),
	ROW("a ring is no registered file", registered),
	NO_ROW,
};
