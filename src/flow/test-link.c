/* SPDX-License-Identifier: MIT */
/*
 * Tests chains. Completions have the same order and results as from the kernel's io_uring,
 * with one exception. The library can cancel a request of a chain that has not started; the
 * kernel does not find such a request.
 */
#undef NDEBUG
#include "flow/link.h"

#include <errno.h>
#include <poll.h>

#include "file/file.h"
#include "flow/test-chain.h"

static const int64_t LONG_NS = 600000 * 1000000ll;

/*
 * Expect three events, the first two in either order. The order depends on which thread
 * completes the read: the thread that expires the timer, or a thread that was just
 * trying the read.
 */
static void expect_timeout(const struct got gots[3])
{
	struct io_event events[3];
	unsigned first;

	assert_int_equal(unit_reap(handle, 3, events), 3);
	first = events[0].data != gots[0].tag;
	for (unsigned i = 0; i < 3; i++) {
		unsigned at = i < 2 ? i ^ first : i;

		assert_int_equal(events[at].data, gots[i].tag);
		assert_int_equal((int64_t)events[at].res, gots[i].res);
	}
}

static void what_is_linked_completes_in_order(void **state)
{
	int fd = unit_numbered_file(true, 2);

	(void)state;
	handle = unit_context(8);
	SUBMIT(rw(UAIO_OP_WRITE, fd, SIZE, UAIO_LINK), nop(UAIO_LINK),
	       rw(UAIO_OP_FSYNC, fd, 0, UAIO_LINK),
	       rw(UAIO_OP_READ, fd, SIZE, UAIO_LINK_HARD), nop(0));
	EXPECT({ 1, SIZE }, { 2, 0 }, { 3, 0 }, { 4, SIZE }, { 5, 0 });
	unit_destroy(handle);
	unit_close(fd);
}

static void a_chain_that_need_not_wait_completes_when_submitted(void **state)
{
	int fd = unit_numbered_file(true, 2);
	struct timespec none = { 0 };
	struct io_event events[3];
	struct uaio_file *file = NULL;

	(void)state;
	handle = unit_context(8);
	/* Use a file in memory, on which requests never wait. */
	assert_int_equal(uaio_look_up(fd, &file), 0);
	assert_int_equal(uaio_file_kind(file), UAIO_KIND_MEMORY);
	SUBMIT(rw(UAIO_OP_READ, fd, SIZE, UAIO_LINK), nop(UAIO_LINK),
	       rw(UAIO_OP_WRITE, fd, SIZE, 0));
	assert_int_equal(
		uaio_aio_getevents(handle, 3, 3, (void *)events, &none), 3);
	unit_destroy(handle);
	unit_close(fd);
}

static void what_has_not_succeeded_cancels_what_follows(void **state)
{
	int fd = unit_numbered_file(true, 1);

	(void)state;
	handle = unit_context(8);
	/* A short read. */
	SUBMIT(rw(UAIO_OP_READ, fd, 2 * SIZE, UAIO_LINK), nop(UAIO_LINK_HARD),
	       nop(0));
	EXPECT({ 1, SIZE }, { 2, -ECANCELED }, { 3, -ECANCELED });
	SUBMIT(rw(UAIO_OP_READ, fd, 2 * SIZE, UAIO_LINK_HARD), nop(UAIO_LINK),
	       nop(0));
	EXPECT({ 1, SIZE }, { 2, 0 }, { 3, 0 });
	SUBMIT(timer(UAIO_OP_TIMER, MS, UAIO_LINK), nop(0));
	EXPECT({ 1, -ETIME }, { 2, -ECANCELED });
	SUBMIT(timer(UAIO_OP_TIMER, MS, UAIO_LINK_HARD), nop(0));
	EXPECT({ 1, -ETIME }, { 2, 0 });
	unit_destroy(handle);
	unit_close(fd);
}

static void a_mistake_cancels_the_whole_chain(void **state)
{
	(void)state;
	handle = unit_context(8);
	SUBMIT(nop(UAIO_LINK), timer(UAIO_OP_TIMER, -1, UAIO_LINK), nop(0));
	EXPECT({ 1, -ECANCELED }, { 2, -EINVAL }, { 3, -ECANCELED });
	SUBMIT(timer(UAIO_OP_LINK_TIMER, MS, 0), nop(0));
	EXPECT({ 1, -EINVAL }, { 2, 0 });
	SUBMIT(nop(UAIO_LINK), timer(UAIO_OP_LINK_TIMER, MS, UAIO_LINK),
	       timer(UAIO_OP_LINK_TIMER, MS, UAIO_LINK), nop(0));
	EXPECT({ 1, -ECANCELED }, { 2, -ECANCELED }, { 3, -EINVAL },
	       { 4, -ECANCELED });
	unit_destroy(handle);
}

static struct uaio_sqe vector(int fd, uint8_t links)
{
	static const struct iovec iov = { bytes[7], SIZE };

	return (struct uaio_sqe){ .op = UAIO_OP_READV,
				  .fd = fd,
				  .iov = &iov,
				  .len = 1,
				  .links = links };
}

static struct uaio_sqe poll_of(int fd, uint8_t links)
{
	return (struct uaio_sqe){
		.op = UAIO_OP_POLL, .fd = fd, .events = POLLIN, .links = links
	};
}

static void a_descriptor_is_looked_up_when_its_turn_comes(void **state)
{
	int fd = unit_numbered_file(true, 1), other;

	(void)state;
	open_pipe(8);
	SUBMIT(nop(UAIO_LINK), rw(UAIO_OP_READ, 999, 1, UAIO_LINK), nop(0));
	EXPECT({ 1, 0 }, { 2, -EBADF }, { 3, -ECANCELED });
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
	       rw(UAIO_OP_WRITE, fd, 1, UAIO_LINK), nop(0));
	/*
	 * Closing the descriptor does not wait for the linked write, which has not started.
	 */
	unit_close(fd);
	put_text("x");
	EXPECT({ 1, 1 }, { 2, -EBADF }, { 3, -ECANCELED });
	/*
	 * The descriptor is not open while the chain is submitted. It is opened before the
	 * linked requests start.
	 */
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
	       rw(UAIO_OP_READ, fd, SIZE, UAIO_LINK), vector(fd, UAIO_LINK),
	       poll_of(fd, 0));
	other = unit_numbered_file(true, 1);
	if (other != fd) {
		unit_dup2(other, fd);
		unit_close(other);
	}
	put_text("x");
	EXPECT({ 1, 1 }, { 2, SIZE }, { 3, SIZE }, { 4, POLLIN });
	unit_close(fd);
	close_pipe();
}

static void what_follows_starts_whoever_completes_the_first(void **state)
{
	int fd = unit_numbered_file(true, 1);

	(void)state;
	open_pipe(8);
	for (unsigned i = 0; i < 20; i++) {
		SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
		       rw(UAIO_OP_WRITE, fd, SIZE, UAIO_LINK),
		       rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK), nop(0));
		expect_nothing();
		put_text("ab");
		if (i % 2) {
			EXPECT({ 1, 1 }, { 2, SIZE }, { 3, 1 }, { 4, 0 });
			continue;
		}
		assert_int_equal(take_from_ring(handle), 1);
		assert_int_equal(take_from_ring(handle), SIZE);
		assert_int_equal(take_from_ring(handle), 1);
		assert_int_equal(take_from_ring(handle), 0);
	}
	unit_close(fd);
	close_pipe();
}

static void a_long_chain_is_no_deep_one(void **state)
{
	enum { NR = 2000 };
	static struct uaio_sqe sqes[NR];
	struct io_event event;

	(void)state;
	handle = unit_context(NR);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < NR; i++) {
			sqes[i] = nop(i + 1 < NR ? UAIO_LINK : 0);
			sqes[i].is_async = round;
		}
		submit(sqes, NR, 0);
		for (unsigned i = 0; i < NR; i++) {
			assert_int_equal(unit_reap(handle, 1, &event), 1);
			assert_int_equal(event.data, i);
		}
	}
	unit_destroy(handle);
}

static void a_linked_timer_cancels_what_takes_too_long(void **state)
{
	(void)state;
	open_pipe(8);
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
	       timer(UAIO_OP_LINK_TIMER, MS, UAIO_LINK), nop(0));
	expect_timeout((struct got[]){
		{ 2, -ETIME }, { 1, -ECANCELED }, { 3, -ECANCELED } });
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK_HARD),
	       timer(UAIO_OP_LINK_TIMER, MS, UAIO_LINK), nop(0));
	expect_timeout(
		(struct got[]){ { 2, -ETIME }, { 1, -ECANCELED }, { 3, 0 } });
	/*
	 * A linked timer starts with the request before it, which here starts after 5 ms.
	 */
	SUBMIT(timer(UAIO_OP_TIMER, 5 * MS, UAIO_LINK_HARD),
	       rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
	       timer(UAIO_OP_LINK_TIMER, 2 * MS, UAIO_LINK_HARD), nop(0));
	EXPECT({ 1, -ETIME });
	expect_timeout((struct got[]){
		{ 3, -ETIME }, { 2, -ECANCELED }, { 4, -ECANCELED } });
	/* The cancelled reads must not consume this byte. */
	put_text("x");
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, 0));
	EXPECT({ 1, 1 });
	close_pipe();
}

static void a_linked_timer_ends_with_its_request(void **state)
{
	(void)state;
	open_pipe(8);
	SUBMIT(nop(UAIO_LINK), timer(UAIO_OP_LINK_TIMER, LONG_NS, UAIO_LINK),
	       nop(0));
	EXPECT({ 1, 0 }, { 2, -ECANCELED }, { 3, 0 });
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
	       timer(UAIO_OP_LINK_TIMER, LONG_NS, UAIO_LINK), nop(0));
	put_text("x");
	EXPECT({ 1, 1 }, { 2, -ECANCELED }, { 3, 0 });
	/* If only the timer is cancelled, the read continues. */
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
	       timer(UAIO_OP_LINK_TIMER, LONG_NS, UAIO_LINK), nop(0));
	assert_int_equal(cancel(2), 0);
	EXPECT({ 2, -ECANCELED });
	expect_nothing();
	put_text("x");
	EXPECT({ 1, 1 }, { 3, 0 });
	close_pipe();
}

static void what_is_cancelled_takes_along_what_follows(void **state)
{
	(void)state;
	open_pipe(8);
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK), nop(UAIO_LINK_HARD),
	       nop(0));
	assert_int_equal(cancel(2), 0);
	EXPECT({ 2, -ECANCELED }, { 3, -ECANCELED });
	expect_nothing();
	assert_int_equal(cancel(1), 0);
	EXPECT({ 1, -ECANCELED });
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK), nop(UAIO_LINK), nop(0));
	assert_int_equal(cancel(1), 0);
	EXPECT({ 1, -ECANCELED }, { 2, -ECANCELED }, { 3, -ECANCELED });
	SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK_HARD), nop(0));
	assert_int_equal(cancel(1), 0);
	EXPECT({ 1, -ECANCELED }, { 2, 0 });
	close_pipe();
}

static void a_queue_that_goes_takes_its_chains_along(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		open_pipe(8);
		SUBMIT(rw(UAIO_OP_READ, ends[0], 1,
			  i % 2 ? UAIO_LINK : UAIO_LINK_HARD),
		       timer(UAIO_OP_LINK_TIMER, i % 5 * MS / 4 + 1, UAIO_LINK),
		       rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK_HARD),
		       nop(UAIO_LINK), rw(UAIO_OP_READ, ends[0], 1, 0));
		close_pipe();
	}
}

static long write_all(void *arg)
{
	unsigned nr = *(unsigned *)arg;

	for (unsigned i = 0; i < nr; i++) {
		stay_away_us(i % 16);
		assert_int_equal(write(ends[1], "x", 1), 1);
	}
	return 0;
}

/*
 * The timer expires at about the time when its read gets a byte. Whichever comes first,
 * each request of the chain completes once.
 */
static void a_timer_and_its_request_may_end_together(void **state)
{
	unsigned nr = unit_rounds(2000);
	unsigned nr_read = 0, nr_late = 0;
	struct unit_thread thread;

	(void)state;
	open_pipe(8);
	unit_thread_start(&thread, write_all, &nr);
	for (unsigned i = 0; i < nr; i++) {
		int64_t res[4] = { 1, 1, 1, 1 };
		struct io_event events[3];

		SUBMIT(rw(UAIO_OP_READ, ends[0], 1, UAIO_LINK),
		       timer(UAIO_OP_LINK_TIMER, i % 16 * 1000 + 1, UAIO_LINK),
		       nop(0));
		assert_int_equal(unit_reap(handle, 3, events), 3);
		for (unsigned j = 0; j < 3; j++)
			res[events[j].data] = (int64_t)events[j].res;
		nr_read += res[1] == 1;
		nr_late += res[1] == -ECANCELED;
		assert_true(res[1] == 1 || res[1] == -ECANCELED);
		assert_true(res[2] == -ECANCELED || res[2] == -ETIME ||
			    res[2] == -EALREADY);
		assert_int_equal(res[3], res[1] == 1 ? 0 : -ECANCELED);
		assert_true(res[1] == 1 || res[2] == -ETIME);
	}
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_int_equal(nr_read + nr_late, nr);
	close_pipe();
}

static struct uaio_sqe read_by_worker(int fd, int64_t off, uint8_t links)
{
	struct uaio_sqe sqe = rw(UAIO_OP_READ, fd, SIZE, links);

	sqe.off = off;
	sqe.is_async = true;
	return sqe;
}

/*
 * A worker executes the read, so the linked timer is the queue's first request that parks.
 * When it parks, the library chooses the queue's home (the epoll that watches its parked
 * requests), and holds the queue's lock meanwhile.
 */
static int settle_for_a_linked_timer(void)
{
	const struct uaio_poller *poller;
	int fd;

	if (unit_engine(NULL) < 0)
		return 1;
	fd = unit_numbered_file(true, 1);
	handle = unit_context(2);
	poller = &uaio_ctx_find(handle)->queue.group.ready.poller;
	unit_gate_close(fd);
	if (uaio_poller_is_open(poller))
		return 2;
	SUBMIT(read_by_worker(fd, 0, UAIO_LINK),
	       timer(UAIO_OP_LINK_TIMER, LONG_NS, 0));
	unit_gate_await(1);
	if (!uaio_poller_is_open(poller))
		return 3;
	unit_gate_open();
	EXPECT({ 1, SIZE }, { 2, -ECANCELED });
	return uaio_aio_destroy(handle) ? 4 : 0;
}

static void a_linked_timer_may_be_the_first_that_is_parked(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(settle_for_a_linked_timer), 0);
}

/*
 * The only worker executes a no-op, then a read that the test blocks. While the read is
 * blocked, the request that is linked to the no-op must complete.
 */
static int block_after_a_chain(void)
{
	struct uaio_sqe first = nop(UAIO_LINK);
	struct timespec none = { 0 };
	struct io_event events[4];
	int fd;

	if (unit_engine(NULL) < 0)
		return 1;
	uaio_wq_limit_workers(UAIO_BOUNDED, 1);
	fd = unit_numbered_file(true, 2);
	handle = unit_context(4);
	unit_gate_close(fd);
	SUBMIT(read_by_worker(fd, 0, 0));
	unit_gate_await_key(0);
	first.is_async = true;
	SUBMIT_FROM(2, first, nop(0));
	SUBMIT_FROM(4, read_by_worker(fd, SIZE, 0));
	unit_gate_pass(0);
	unit_gate_await_key(1);
	if (uaio_aio_getevents(handle, 3, 4, (void *)events, &none) != 3)
		return 2;
	for (uint64_t i = 0; i < 3; i++)
		if (events[i].data != i + 1)
			return 3;
	unit_gate_open();
	EXPECT({ 4, SIZE });
	return uaio_aio_destroy(handle) ? 4 : 0;
}

static void a_worker_starts_what_is_linked_before_it_blocks(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(block_after_a_chain), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(what_is_linked_completes_in_order),
		UNIT_TEST(a_chain_that_need_not_wait_completes_when_submitted),
		UNIT_TEST(what_has_not_succeeded_cancels_what_follows),
		UNIT_TEST(a_mistake_cancels_the_whole_chain),
		UNIT_TEST(a_descriptor_is_looked_up_when_its_turn_comes),
		UNIT_TEST(what_follows_starts_whoever_completes_the_first),
		UNIT_TEST(a_long_chain_is_no_deep_one),
		UNIT_TEST(a_linked_timer_cancels_what_takes_too_long),
		UNIT_TEST(a_linked_timer_ends_with_its_request),
		UNIT_TEST(what_is_cancelled_takes_along_what_follows),
		UNIT_TEST(a_queue_that_goes_takes_its_chains_along),
		UNIT_TEST(a_timer_and_its_request_may_end_together),
		UNIT_TEST(a_linked_timer_may_be_the_first_that_is_parked),
		UNIT_TEST(a_worker_starts_what_is_linked_before_it_blocks),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
