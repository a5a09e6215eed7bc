/* SPDX-License-Identifier: MIT */
/*
 * Tests that a search among thousands of requests compares only a few, and finds the
 * same request as a search without an index.
 */
#undef NDEBUG
#define RING_ENTRIES 4096
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "base/sys.h"
#include "req/index.h"
#include "req/queue.h"
#include "req/req.h"
#include "uring/test-uring.h"

enum { MANY = 3000, SEARCHES = 48, OTHER = 1 << 20, ANSWER = 1 << 30 };

static int pipes[3][2]; /* all empty */

static int open_all(void **state)
{
	int ret = start(state);

	for (unsigned i = 0; i < NR_ELEMENTS(pipes); i++)
		ret |= pipe2(pipes[i], O_CLOEXEC);
	return ret;
}

static int close_all(void **state)
{
	for (unsigned i = 0; i < NR_ELEMENTS(pipes); i++) {
		unit_close(pipes[i][0]);
		unit_close(pipes[i][1]);
	}
	return stop(state);
}

#define INDEX_TEST(function) \
	cmocka_unit_test_setup_teardown(function, open_all, close_all)

static struct uaio_group *group(void)
{
	return &uaio_uring_find((uint32_t)client.fd)->queue.group;
}

static void put_poll(int pipe, uint64_t user_data)
{
	put(&client, IORING_OP_POLL_ADD, pipes[pipe][0], user_data)
		->poll32_events = POLLIN;
}

/* Add nr polls of the third pipe, with user_data OTHER, OTHER + 1 and so on. */
static void add_others(unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		put_poll(2, OTHER + i);
	submit(&client, 0);
}

static struct io_uring_sqe *put_search(uint8_t opcode, uint64_t user_data)
{
	struct io_uring_sqe *sqe = put(&client, opcode, -1, ANSWER);

	sqe->addr = user_data;
	return sqe;
}

static void cancel_all(void)
{
	put_search(IORING_OP_ASYNC_CANCEL, 0)->cancel_flags =
		IORING_ASYNC_CANCEL_ANY;
	submit(&client, 1);
	while (unread(&client))
		(void)get(&client);
	assert_true(list_is_empty(&group()->requests));
}

/*
 * Submit a search (a cancelling request), and check that its result is `res`. *ret: the
 * completion of the request that the search has cancelled, if any.
 */
static void assert_found(int32_t res, struct io_uring_cqe *ret)
{
	bool is_answered = false;

	submit(&client, 1);
	while (unread(&client)) {
		struct io_uring_cqe cqe = get(&client);

		if (cqe.user_data != ANSWER) {
			*ret = cqe;
			continue;
		}
		assert_int_equal(cqe.res, res);
		is_answered = true;
	}
	assert_true(is_answered);
}

static uint64_t nr_looked(void)
{
	return load_relaxed(&uaio_index_nr_looked);
}

/* Tests of how many requests a search compares */

/*
 * Add a timeout that expires after nr completions or an hour; if nr is 0, only after an
 * hour.
 */
static void put_timeout_after(unsigned nr, uint64_t user_data)
{
	static struct __kernel_timespec hour = { .tv_sec = 3600 };
	struct io_uring_sqe *sqe =
		put(&client, IORING_OP_TIMEOUT, -1, user_data);

	sqe->addr = (uintptr_t)&hour;
	sqe->len = 1;
	sqe->off = nr;
}

static void put_timeout(uint64_t user_data)
{
	put_timeout_after(0, user_data);
}

static void search_to_cancel(uint64_t user_data)
{
	put_search(IORING_OP_ASYNC_CANCEL, user_data);
}

static void search_to_remove(uint64_t user_data)
{
	put_search(IORING_OP_POLL_REMOVE, user_data);
}

static void search_to_update(uint64_t user_data)
{
	struct io_uring_sqe *sqe = put_search(IORING_OP_POLL_REMOVE, user_data);

	sqe->len = IORING_POLL_UPDATE_EVENTS;
	sqe->poll32_events = POLLIN | POLLPRI;
}

static void search_to_end_timeout(uint64_t user_data)
{
	put_search(IORING_OP_TIMEOUT_REMOVE, user_data);
}

static void search_to_change_timeout(uint64_t user_data)
{
	static struct __kernel_timespec day = { .tv_sec = 24 * 3600 };
	struct io_uring_sqe *sqe =
		put_search(IORING_OP_TIMEOUT_REMOVE, user_data);

	sqe->timeout_flags = IORING_TIMEOUT_UPDATE;
	sqe->off = (uintptr_t)&day;
}

static const struct {
	void (*search)(uint64_t user_data);
	bool is_of_timeouts;
} kinds[] = {
	{ search_to_cancel, false },        { search_to_remove, false },
	{ search_to_update, false },        { search_to_end_timeout, true },
	{ search_to_change_timeout, true },
};

/*
 * Return: the index, among nr requests, of the request that the i-th search looks for.
 * It is one of the newest, one of the oldest, and one from the middle in turn.
 */
static unsigned nth_of(unsigned i, unsigned nr)
{
	switch (i % 3) {
	case 0: return nr - 1 - i;
	case 1: return i;
	default: return nr / 2 + i;
	}
}

static void a_search_compares_few_of_many_requests(void **state)
{
	static const unsigned sizes[] = { 200, MANY };
	struct io_uring_cqe found;

	(void)state;
	for (unsigned kind = 0; kind < NR_ELEMENTS(kinds); kind++)
		for (unsigned s = 0; s < NR_ELEMENTS(sizes); s++) {
			uint64_t before;

			for (unsigned i = 0; i < sizes[s]; i++)
				if (kinds[kind].is_of_timeouts)
					put_timeout(OTHER + i);
				else
					put_poll(2, OTHER + i);
			submit(&client, 0);
			before = nr_looked();
			for (unsigned i = 0; i < SEARCHES; i++) {
				kinds[kind].search(OTHER + nth_of(i, sizes[s]));
				assert_found(0, &found);
			}
			assert_in_range(nr_looked() - before, SEARCHES,
					8 * SEARCHES);
			cancel_all();
		}
}

static void put_cancel_by(int fd)
{
	struct io_uring_sqe *sqe = put_search(IORING_OP_ASYNC_CANCEL, 0);

	sqe->fd = fd;
	sqe->cancel_flags = IORING_ASYNC_CANCEL_FD;
}

static void put_cancel_of(int pipe)
{
	put_cancel_by(pipes[pipe][0]);
}

static void a_search_by_descriptor_compares_few_of_many(void **state)
{
	enum { NR = 200 };
	struct io_uring_cqe found;
	uint64_t before;
	int fds[NR][2];

	(void)state;
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(pipe2(fds[i], O_CLOEXEC), 0);
		put(&client, IORING_OP_POLL_ADD, fds[i][0], OTHER + i)
			->poll32_events = POLLIN;
	}
	submit(&client, 0);
	before = nr_looked();
	for (unsigned i = 0; i < SEARCHES; i++) {
		put_cancel_by(fds[nth_of(i, NR)][0]);
		assert_found(0, &found);
		assert_int_equal(found.user_data, OTHER + nth_of(i, NR));
	}
	assert_in_range(nr_looked() - before, SEARCHES, 8 * SEARCHES);
	cancel_all();
	for (unsigned i = 0; i < NR; i++) {
		unit_close(fds[i][0]);
		unit_close(fds[i][1]);
	}
}

/*
 * Many timeouts wait until a number of requests have completed. Only one of the
 * timeouts reaches its number.
 */
static void a_completion_visits_no_timeouts_that_still_count(void **state)
{
	uint64_t before;

	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		put_timeout_after(OTHER, OTHER + i);
	put_timeout_after(SEARCHES / 2, 1);
	submit(&client, 0);
	before = nr_looked();
	for (unsigned i = 1; i <= SEARCHES; i++) {
		put(&client, IORING_OP_NOP, -1, ANSWER);
		submit(&client, 1);
		assert_got(&client, ANSWER, 0);
		if (i == SEARCHES / 2)
			assert_got(&client, 1, 0);
	}
	assert_in_range(nr_looked() - before, 1, 8);
	cancel_all();
}

/* atomic: how many calls of fcntl() query whether two descriptors are duplicates */
static uint32_t nr_asked;

static bool count_asked(long nr, const long args[6], long *ret_res)
{
	enum { DUPFD_QUERY = 1027 };

	(void)ret_res;
	if (nr == SYS_fcntl && args[1] == DUPFD_QUERY)
		add_relaxed(&nr_asked, 1);
	return false;
}

/*
 * All eventfds share one inode, so a search by inode finds the requests of all
 * eventfds. But the library queries the kernel for duplicates only if the canceller's
 * descriptor itself has no request.
 */
static void a_descriptor_with_a_request_is_compared_with_no_other(void **state)
{
	enum { NR = 200 };
	struct io_uring_cqe found;
	int fds[NR], again;

	(void)state;
	for (unsigned i = 0; i < NR; i++) {
		fds[i] = eventfd(0, EFD_CLOEXEC);
		assert_true(fds[i] >= 0);
		put(&client, IORING_OP_POLL_ADD, fds[i], OTHER + i)
			->poll32_events = POLLIN;
	}
	submit(&client, 0);
	unit_hook(count_asked);
	for (unsigned i = 0; i < NR / 2; i++) {
		put_cancel_by(fds[i]);
		assert_found(0, &found);
		assert_int_equal(found.user_data, OTHER + i);
	}
	assert_int_equal(load_relaxed(&nr_asked), 0);
	again = dup(fds[NR - 1]);
	if (sys_is_duplicate(again, again) > 0) {
		put_cancel_by(again);
		assert_found(0, &found);
		assert_int_equal(found.user_data, OTHER + NR - 1);
		assert_in_range(load_relaxed(&nr_asked), 1, NR);
	}
	unit_hook(NULL);
	cancel_all();
	unit_close(again);
	for (unsigned i = 0; i < NR; i++)
		unit_close(fds[i]);
}

static void an_added_request_moves_few(void **state)
{
	struct io_uring_cqe found;

	(void)state;
	add_others(UAIO_INDEX_MIN + 1);
	search_to_cancel(OTHER);
	assert_found(0, &found);
	for (unsigned i = 1000; i < MANY; i++) {
		uint64_t before = load_relaxed(&uaio_index_nr_moved);

		put_poll(2, OTHER + i);
		submit(&client, 0);
		assert_in_range(load_relaxed(&uaio_index_nr_moved) - before, 0,
				16);
	}
	assert_true(load_relaxed(&uaio_index_nr_moved) > 1000);
}

/* Tests of which request a search finds */

static void write_to(int pipe)
{
	char byte = 0;

	assert_int_equal(write(pipes[pipe][1], &byte, 1), 1);
}

static void empty(int pipe)
{
	char byte;

	assert_int_equal(read(pipes[pipe][0], &byte, 1), 1);
}

enum { PAIRS = 8 };

/*
 * Add pairs of polls with the same user_data. In each pair, the poll of the first pipe
 * is the older one.
 */
static void add_pairs(void)
{
	for (unsigned i = 0; i < 2 * PAIRS; i++)
		put_poll(i / PAIRS, 1 + i % PAIRS);
	submit(&client, 0);
}

static void assert_older_are_cancelled(void)
{
	struct io_uring_cqe found;

	for (unsigned i = 1; i <= PAIRS; i++) {
		search_to_cancel(i);
		assert_found(0, &found);
		assert_cqe(&found, i, -ECANCELED, 0);
	}
}

static void assert_younger_wait(void)
{
	write_to(0);
	assert_none(&client);
	write_to(1);
	for (unsigned i = 1; i <= PAIRS; i++)
		assert_got(&client, i, POLLIN);
	empty(0);
	empty(1);
}

static void assert_older_are_found(void)
{
	assert_older_are_cancelled();
	assert_younger_wait();
}

static void the_oldest_is_found_first(void **state)
{
	(void)state;
	for (unsigned nr = 0; nr <= 400; nr += 200) {
		add_others(nr);
		add_pairs();
		assert_older_are_found();
		/*
		 * Search again after the added requests have made the hash table split
		 * its buckets.
		 */
		add_pairs();
		add_others(5 * nr);
		assert_older_are_found();
		cancel_all();
	}
}

static void all_of_a_descriptor_complete_oldest_first(void **state)
{
	(void)state;
	for (unsigned nr = 0; nr <= 200; nr += 200) {
		struct io_uring_sqe *sqe;

		add_others(nr);
		for (unsigned i = 1; i < 8; i++)
			put_poll(0, i);
		sqe = put_search(IORING_OP_ASYNC_CANCEL, 0);
		sqe->fd = pipes[0][0];
		sqe->cancel_flags =
			IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL;
		submit(&client, 8);
		assert_got(&client, ANSWER, 7);
		for (unsigned i = 1; i < 8; i++)
			assert_got(&client, i, -ECANCELED);
		cancel_all();
	}
}

static void memory_is_refused(void **state)
{
	(void)state;
	add_others(200);
	add_pairs();
	unit_hook(unit_refuse_memory);
	assert_older_are_cancelled();
	unit_hook(NULL);
	/*
	 * From here on this thread may sleep, and for that it needs memory. So memory
	 * is available again.
	 */
	assert_younger_wait();
	cancel_all();
}

static void an_empty_group_has_no_index(void **state)
{
	struct io_uring_cqe found;

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		add_others(round ? 1000 : UAIO_INDEX_MIN);
		assert_null(group()->index);
		search_to_cancel(OTHER);
		assert_found(0, &found);
		assert_int_equal(group()->index != NULL, round != 0);
		cancel_all();
		assert_null(group()->index);
	}
}

/* A linked request has no file until it starts. */
static void a_request_that_gets_its_file_later_is_found_by_it(void **state)
{
	struct io_uring_cqe found;

	(void)state;
	add_others(200);
	put_cancel_of(1);
	assert_found(-ENOENT, &found);
	put_poll(0, 1);
	(&client.sqes[(client.prepared - 1) & (RING_ENTRIES - 1)])->flags =
		IOSQE_IO_LINK;
	put_poll(1, 2);
	put_poll(1, 3);
	submit(&client, 0);
	write_to(0);
	assert_got(&client, 1, POLLIN);
	for (unsigned user_data = 2; user_data <= 3; user_data++) {
		put_cancel_of(1);
		assert_found(0, &found);
		assert_cqe(&found, user_data, -ECANCELED, 0);
	}
	empty(0);
}

static unsigned nr_found_on(const struct uaio_file *file)
{
	struct uaio_search search = uaio_index_search(group(), UAIO_INDEX_FILE,
						      uaio_index_key_of(file));
	unsigned nr = 0;

	list_for_each (pos, search.head)
		nr += uaio_search_at(&search, pos)->file == file;
	return nr;
}

static void a_request_without_its_file_is_not_found_by_it(void **state)
{
	struct uaio_queue *queue = uaio_queue_of(group());
	struct uaio_file *file;
	struct uaio_req *req;

	(void)state;
	add_others(200);
	put_poll(0, 1);
	submit(&client, 0);
	uaio_queue_lock(queue);
	req = container_of(group()->requests.prev, struct uaio_req, in_group);
	file = req->file;
	assert_int_equal(nr_found_on(file), 1);
	uaio_index_change_file(req, NULL);
	assert_int_equal(nr_found_on(file), 0);
	uaio_index_change_file(req, file);
	assert_int_equal(nr_found_on(file), 1);
	uaio_queue_unlock(queue);
	cancel_all();
}

static void a_poll_is_found_by_its_changed_user_data(void **state)
{
	struct io_uring_cqe found;

	(void)state;
	for (unsigned nr = 0; nr <= 200; nr += 200) {
		add_others(nr);
		put_poll(0, 1);
		put_poll(0, 2);
		submit(&client, 0);
		for (unsigned i = 1; i <= 2; i++) {
			struct io_uring_sqe *sqe =
				put_search(IORING_OP_POLL_REMOVE, i);

			sqe->len = IORING_POLL_UPDATE_USER_DATA;
			sqe->off = i + 10;
			assert_found(0, &found);
			search_to_cancel(i);
			assert_found(-ENOENT, &found);
		}
		for (unsigned i = 11; i <= 12; i++) {
			search_to_cancel(i);
			assert_found(0, &found);
			assert_cqe(&found, i, -ECANCELED, 0);
		}
		cancel_all();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		INDEX_TEST(a_search_compares_few_of_many_requests),
		INDEX_TEST(a_search_by_descriptor_compares_few_of_many),
		INDEX_TEST(a_completion_visits_no_timeouts_that_still_count),
		INDEX_TEST(
			a_descriptor_with_a_request_is_compared_with_no_other),
		INDEX_TEST(an_added_request_moves_few),
		INDEX_TEST(the_oldest_is_found_first),
		INDEX_TEST(all_of_a_descriptor_complete_oldest_first),
		INDEX_TEST(memory_is_refused),
		INDEX_TEST(an_empty_group_has_no_index),
		INDEX_TEST(a_request_that_gets_its_file_later_is_found_by_it),
		INDEX_TEST(a_request_without_its_file_is_not_found_by_it),
		INDEX_TEST(a_poll_is_found_by_its_changed_user_data),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
