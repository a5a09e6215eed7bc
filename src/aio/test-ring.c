/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "aio/aio.h"
#include "aio/ring.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES };

static struct uaio_ring_map *ring_of(uint64_t handle)
{
	return (struct uaio_ring_map *)(uintptr_t)handle;
}

/* Reap like clients that read the ring in memory. */
static long reap_from_ring(uint64_t handle, long nr, uint64_t *ret_data)
{
	struct uaio_ring_map *ring = ring_of(handle);
	uint32_t head = ring->head, tail = load_acquire(&ring->tail);
	long got = 0;

	while (head != tail && got < nr) {
		ret_data[got++] = ring->events[head].data;
		head = (head + 1) % ring->nr;
		/*
		 * Pairs with the library's load of head: this thread has read the
		 * event before the library may overwrite it.
		 */
		store_release(&ring->head, head);
	}
	return got;
}

static long reap_by_call(uint64_t handle, long nr, uint64_t *ret_data)
{
	static struct io_event events[1024];
	struct timespec zero = { 0, 0 };
	long got = uaio_aio_getevents(
		handle, 0, nr, (struct uaio_event *)(void *)events, &zero);

	for (long i = 0; i < got; i++)
		ret_data[i] = events[i].data;
	return got;
}

typedef long reap_fn(uint64_t handle, long nr, uint64_t *ret_data);

/* How many requests of this process were accepted so far; for fill(). */
static uint64_t nr_accepted;

static bool are_complete(void *arg)
{
	struct uaio_counters counters;

	uaio_counters_read(&counters);
	return counters.nr_requests == *(uint64_t *)arg;
}

/*
 * Submit until a request is refused. The library may count a request that is just
 * completing twice: in flight, and as an unread event. So wait until all requests are
 * complete, and try again before trusting a refusal.
 * Return: how many requests were accepted.
 */
static long fill(uint64_t handle, int fd, uint64_t *data)
{
	static char buffer[SIZE];
	bool is_settled = false;
	long nr = 0;

	for (;;) {
		struct iocb iocb =
			unit_iocb(IOCB_CMD_PREAD, fd, buffer, SIZE, 0);
		long ret;

		iocb.aio_data = *data;
		ret = unit_submit(handle, &iocb);
		if (ret == -EAGAIN && is_settled)
			return nr;
		if (ret == -EAGAIN) {
			unit_await(are_complete, &nr_accepted);
			is_settled = true;
			continue;
		}
		assert_int_equal(ret, 1);
		nr_accepted++;
		(*data)++;
		nr++;
	}
}

static bool is_empty(uint64_t handle)
{
	return ring_of(handle)->head == load_acquire(&ring_of(handle)->tail);
}

static void no_event_is_lost(reap_fn *reap, uint32_t nr_events, bool in_workers)
{
	int fd = unit_numbered_file(true, 1);
	uint64_t handle = unit_context(nr_events);
	uint64_t submitted = 0, reaped = 0, data[1024];
	static bool seen[32768];
	struct uaio_counters counters;
	long capacity;

	uaio_counters_read(&counters);
	nr_accepted = counters.nr_requests;
	memset(seen, 0, sizeof(seen));
	uaio_config.force_worker = in_workers;
	capacity = fill(handle, fd, &submitted);
	assert_true(capacity >= nr_events);
	assert_true(capacity < ring_of(handle)->nr);
	assert_true(11 * capacity < (long)NR_ELEMENTS(seen));
	/* Reap in portions of every size, and refill the ring after each. */
	for (unsigned round = 0; submitted < 10ull * capacity; round++) {
		long want = 1 + round * 7 % capacity, got = 0;

		while (got < want) {
			long more = reap(handle, want - got, data);

			assert_true(more >= 0);
			for (long i = 0; i < more; i++) {
				assert_true(data[i] < submitted);
				assert_false(seen[data[i]]);
				seen[data[i]] = true;
			}
			got += more;
		}
		reaped += (uint64_t)got;
		assert_int_equal(fill(handle, fd, &submitted), got);
		assert_int_equal(submitted - reaped, capacity);
	}
	while (reaped < submitted) {
		long more = reap(handle, 1000, data);

		for (long i = 0; i < more; i++)
			assert_false(seen[data[i]]);
		reaped += (uint64_t)more;
	}
	assert_true(is_empty(handle));
	uaio_config.force_worker = false;
	unit_destroy(handle);
	unit_close(fd);
}

static void a_full_ring_refuses_and_loses_nothing(void **state)
{
	static const uint32_t sizes[] = { 1, 10, 32, 64, 200, 500 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(sizes); i++)
		for (int in_workers = 0; in_workers < 2; in_workers++) {
			no_event_is_lost(reap_by_call, sizes[i], in_workers);
			no_event_is_lost(reap_from_ring, sizes[i], in_workers);
		}
}

/*
 * If a batch has more requests than the ring has room for, the first ones, which fit, are
 * accepted.
 */
static void a_batch_is_cut_to_the_room_there_is(void **state)
{
	enum { NR = 128, EVENTS = 32 };
	int fd = unit_numbered_file(true, 1);
	uint64_t handle = unit_context(EVENTS), data[NR];
	struct iocb iocbs[NR], *list[NR];
	static char buffer[SIZE];
	long first, nr, reaped;

	(void)state;
	for (unsigned i = 0; i < NR; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, fd, buffer, SIZE, 0);
		list[i] = &iocbs[i];
	}
	first = uaio_aio_submit(handle, NR, list);
	assert_in_range(first, EVENTS, NR - 1);
	assert_int_equal(uaio_aio_submit(handle, NR, list), -EAGAIN);
	reaped = reap_by_call(handle, NR, data);
	assert_int_equal(reaped, first);
	nr = uaio_aio_submit(handle, NR - first, list + first);
	assert_int_equal(nr, NR - first);
	assert_int_equal(reap_by_call(handle, NR, data), nr);
	unit_destroy(handle);
	unit_close(fd);
}

static void a_refused_request_takes_no_room(void **state)
{
	int fd = unit_numbered_file(true, 1);
	uint64_t handle = unit_context(1), data = 0;
	struct uaio_counters counters;
	long capacity;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		struct iocb iocb = unit_iocb(77, fd, NULL, 0, 0);

		assert_int_equal(unit_submit(handle, &iocb), -EINVAL);
	}
	uaio_counters_read(&counters);
	nr_accepted = counters.nr_requests;
	capacity = fill(handle, fd, &data);
	assert_true(capacity > 0 && capacity < ring_of(handle)->nr);
	unit_destroy(handle);
	unit_close(fd);
}

/*
 * This client reaps only from the ring in memory. When it sees the new tail, the events
 * must be complete.
 */
static void a_client_that_only_looks_finds_whole_events(void **state)
{
	enum { NR = 64, ROUNDS = 20 };
	int fd = unit_numbered_file(true, 1);
	uint64_t handle = unit_context(NR), sum = 0, data[NR];
	static char buffers[NR][SIZE];
	struct iocb iocbs[NR], *list[NR];

	(void)state;
	uaio_config.force_worker = true;
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < NR; i++) {
			iocbs[i] = unit_iocb(IOCB_CMD_PREAD, fd, buffers[i],
					     SIZE, 0);
			iocbs[i].aio_data = i + 1;
			list[i] = &iocbs[i];
		}
		assert_int_equal(uaio_aio_submit(handle, NR, list), NR);
		for (long got = 0; got < NR;) {
			long more = reap_from_ring(handle, NR, data);

			for (long i = 0; i < more; i++)
				sum += data[i];
			got += more;
		}
	}
	assert_int_equal(sum, ROUNDS * NR * (NR + 1) / 2);
	uaio_config.force_worker = false;
	unit_destroy(handle);
	unit_close(fd);
}

/*
 * One thread submits and another reaps from the ring in memory. The threads share only
 * the ring's head and tail.
 */
struct reaping {
	uint64_t handle;
	uint64_t nr;
};

static long reap_in_order(void *arg)
{
	struct reaping *reaping = arg;
	uint64_t data[16], next = 0;

	while (next < reaping->nr) {
		long got = reap_by_call(reaping->handle, 16, data);

		for (long i = 0; i < got; i++)
			if (data[i] != next++)
				return -1;
	}
	return 0;
}

static void a_slot_is_not_used_again_before_it_is_read(void **state)
{
	int fd = unit_numbered_file(true, 1);
	struct reaping reaping = { unit_context(1), unit_rounds(5000) };
	struct unit_thread thread;
	char buffer[SIZE];

	(void)state;
	unit_thread_start(&thread, reap_in_order, &reaping);
	for (uint64_t i = 0; i < reaping.nr;) {
		struct iocb iocb =
			unit_iocb(IOCB_CMD_PREAD, fd, buffer, SIZE, 0);

		iocb.aio_data = i;
		if (unit_submit(reaping.handle, &iocb) == 1)
			i++;
	}
	assert_int_equal(unit_thread_join(&thread), 0);
	unit_destroy(reaping.handle);
	unit_close(fd);
}

/*
 * A thread writes nonsense to the ring's header while others submit and reap. The client
 * may lose its own events. But the library must not crash, free a context, or affect
 * another context.
 */
struct scribbling {
	uint64_t handle;
	uint32_t stops; /* atomic */
};

static uint32_t random_word(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 32);
}

static long scribble(void *arg)
{
	static const uint32_t favourites[] = { 0,   1,   ~0u, 1u << 31,
					       126, 127, 128 };
	struct scribbling *scribbling = arg;
	uint32_t *words = (uint32_t *)(void *)ring_of(scribbling->handle);
	uint32_t id = words[0];
	uint64_t seed = 1;

	while (!load_relaxed(&scribbling->stops)) {
		uint32_t word = random_word(&seed);

		if (word & 1)
			word = favourites[word / 2 % NR_ELEMENTS(favourites)];
		uint32_t at = random_word(&seed) % 8;

#ifdef __SANITIZE_THREAD__
		/*
		 * Do not overwrite the head under ThreadSanitizer: with a wrong head, a
		 * client reads events while the library writes them, which
		 * ThreadSanitizer reports as a race.
		 */
		if (at == 2)
			continue;
#endif
		/*
		 * relaxed, eight stores: the order of these arbitrary values does not
		 * matter
		 */
		store_relaxed(&words[at], word);
		if (word % 4 == 0)
			store_relaxed(&words[0], id);
	}
	store_relaxed(&words[0], id);
	return 0;
}

static void nonsense_in_a_header_harms_no_other_ring(void **state)
{
	struct scribbling scribbling = { unit_context(100), 0 };
	uint64_t neighbour = unit_context(100);
	struct uaio_ring_map copy = *ring_of(neighbour);
	int fd = unit_numbered_file(true, 1);
	static struct uaio_event events[1024];
	struct timespec zero = { 0, 0 };
	static char buffer[SIZE];
	struct unit_thread thread;

	(void)state;
	unit_thread_start(&thread, scribble, &scribbling);
	for (unsigned i = 0; i < unit_rounds(100000); i++) {
		struct iocb iocb =
			unit_iocb(IOCB_CMD_PREAD, fd, buffer, SIZE, 0);
		long ret;

		uaio_config.force_worker = i % 4 == 0;
		ret = unit_submit(scribbling.handle, &iocb);
		assert_true(ret == 1 || ret == -EAGAIN || ret == -EINVAL);
		ret = uaio_aio_getevents(scribbling.handle, 0, 1024, events,
					 &zero);
		assert_true(ret == -EINVAL || (ret >= 0 && ret <= 1024));
	}
	uaio_config.force_worker = false;
	store_relaxed(&scribbling.stops, 1);
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_memory_equal(ring_of(neighbour), &copy, sizeof(copy));
	unit_destroy(scribbling.handle);
	unit_destroy(neighbour);
	unit_close(fd);
}

static void a_header_full_of_one_word_is_no_danger(void **state)
{
	static const uint32_t words[] = { 0, 1, 126, 127, ~0u, 1u << 31 };
	int fd = unit_numbered_file(true, 1);

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(words); i++) {
		uint64_t handle = unit_context(50), data = 0;
		uint32_t id = ring_of(handle)->id;
		struct uaio_counters counters;
		uint64_t reaped[1024];

		uaio_counters_read(&counters);
		nr_accepted = counters.nr_requests;
		fill(handle, fd, &data);
		memset(ring_of(handle), (int)words[i],
		       sizeof(struct uaio_ring_map));
		ring_of(handle)->head = words[i];
		ring_of(handle)->id = id;
		assert_true(reap_by_call(handle, 1024, reaped) <= 1024);
		fill(handle, fd, &data);
		unit_destroy(handle);
	}
	unit_close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_full_ring_refuses_and_loses_nothing),
		UNIT_TEST(a_batch_is_cut_to_the_room_there_is),
		UNIT_TEST(a_refused_request_takes_no_room),
		UNIT_TEST(a_client_that_only_looks_finds_whole_events),
		UNIT_TEST(a_slot_is_not_used_again_before_it_is_read),
		UNIT_TEST(nonsense_in_a_header_harms_no_other_ring),
		UNIT_TEST(a_header_full_of_one_word_is_no_danger),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
