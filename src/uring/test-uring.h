/* SPDX-License-Identifier: MIT */
/* Shared by tests of rings: a client with assertions. */
#ifndef TEST_URING_H
#define TEST_URING_H

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "uring/abi.h"
#include "uring/ring.h"
#include "uring/table.h"
#include "uring/uring.h"
#include "unit.h"
#include "uring-client.h"

enum { SIZE = UNIT_KEY_BYTES };

#define SECONDS INT64_C(1000000000)

/* Return: the address of the 32-bit word at this offset of the ring's memory. */
static inline uint32_t *sq_word(const struct uring *client, uint32_t off)
{
	return (uint32_t *)(void *)((char *)client->rings + off);
}

static inline void client_open(struct uring *client, uint32_t entries,
			       struct io_uring_params params)
{
	assert_int_equal(uring_open(client, entries, &params), 0);
	assert_true(client->params.features & IORING_FEAT_SINGLE_MMAP);
}

static inline void client_close(struct uring *client)
{
	uring_unmap(client);
	unit_close(client->fd);
}

/*
 * From now on the test fills the array of submission indices; put() does not write it.
 */
static inline void client_own_array(struct uring *client)
{
	uring_fill_array(client);
	client->sq_array = NULL;
}

/* Return: the next submission entry, with these members set and all others zero. */
static inline struct io_uring_sqe *put(struct uring *client, uint8_t opcode,
				       int fd, uint64_t user_data)
{
	return uring_put(client, opcode, fd, user_data);
}

static inline struct io_uring_sqe *put_rw(struct uring *client, uint8_t opcode,
					  int fd, const void *memory,
					  uint32_t len, int64_t off,
					  uint64_t user_data)
{
	return uring_put_rw(client, opcode, fd, (uintptr_t)memory, len,
			    (uint64_t)off, user_data);
}

/* Another process has submitted to the ring: continue after its last submission. */
static inline void catch_up(struct uring *client)
{
	client->prepared = load_acquire(client->sq_tail);
}

/*
 * Publish the prepared entries by advancing the tail.
 * Return: the number of these entries.
 */
static inline uint32_t tell(struct uring *client)
{
	const uint32_t nr = client->prepared - load_relaxed(client->sq_tail);

	(void)uring_publish(client);
	return nr;
}

static inline long enter(const struct uring *client, uint32_t to_submit,
			 uint32_t min_complete)
{
	return uring_enter(client->fd, to_submit, min_complete,
			   min_complete ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
}

/*
 * Submit the prepared entries, all of which must be accepted, and wait for min_complete
 * completions.
 */
static inline void submit(struct uring *client, uint32_t min_complete)
{
	uint32_t nr = tell(client);

	assert_int_equal(enter(client, nr, min_complete), nr);
}

/*
 * Tell ThreadSanitizer that posting happens before the client reads the tail.
 * ThreadSanitizer cannot know this, because client and library map the rings at
 * different addresses.
 */
static inline void show_order(const struct uring *client)
{
#ifdef __SANITIZE_THREAD__
	struct uaio_uring *ring = uaio_uring_find((uint32_t)client->fd);

	if (!ring || !uaio_uring_use(ring))
		return;
	(void)load_acquire(&ring->mem.rings->cq_tail);
	uaio_uring_unuse(ring);
#else
	(void)client;
#endif
}

static inline uint32_t unread(const struct uring *client)
{
	const uint32_t nr = uring_ready(client);

	if (nr)
		show_order(client);
	return nr;
}

/* Wait for the next completion, and consume it. */
static inline struct io_uring_cqe get(const struct uring *client)
{
	struct io_uring_cqe cqe;

	while (!unread(client))
		assert_int_equal(enter(client, 0, 1), 0);
	(void)uring_take(client, &cqe);
	return cqe;
}

static inline void assert_cqe(const struct io_uring_cqe *cqe,
			      uint64_t user_data, int32_t res, uint32_t flags)
{
	assert_int_equal(cqe->user_data, user_data);
	assert_int_equal(cqe->res, res);
	assert_int_equal(cqe->flags, flags);
}

/* Check that the next completion has these values. */
static inline void assert_got(const struct uring *client, uint64_t user_data,
			      int32_t res)
{
	struct io_uring_cqe cqe = get(client);

	assert_cqe(&cqe, user_data, res, 0);
}

/* Check that the next two completions are these, in either order. */
static inline void assert_got_both(const struct uring *client, uint64_t a,
				   int32_t a_res, uint64_t b, int32_t b_res)
{
	struct io_uring_cqe first = get(client), second = get(client);

	if (first.user_data == a) {
		assert_cqe(&first, a, a_res, 0);
		assert_cqe(&second, b, b_res, 0);
	} else {
		assert_cqe(&first, b, b_res, 0);
		assert_cqe(&second, a, a_res, 0);
	}
}

static inline void assert_none(const struct uring *client)
{
	assert_int_equal(
		uring_enter(client->fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0),
		0);
	assert_int_equal(unread(client), 0);
}

/*
 * Submit the prepared entries and wait.
 * Return: the result of the first completion.
 */
static inline int32_t made(struct uring *client)
{
	submit(client, 1);
	return get(client).res;
}

/*
 * If a test defines RING_ENTRIES before it includes this file, each of its test cases
 * gets a plain ring of that size.
 */
#ifdef RING_ENTRIES

static struct uring client;

static inline long reg(uint32_t opcode, void *arg, uint32_t nr)
{
	return uring_register(client.fd, opcode, arg, nr);
}

static int start(void **state)
{
	int ret = unit_setup(state);

	if (ret == 0)
		client_open(&client, RING_ENTRIES,
			    (struct io_uring_params){ 0 });
	return ret;
}

/* Return: whether all rings that were closed are freed. */
static inline bool rings_are_freed(void *arg)
{
	struct uaio_counters counters;

	(void)arg;
	client_open(&client, RING_ENTRIES, (struct io_uring_params){ 0 });
	client_close(&client);
	uaio_counters_read(&counters);
	return !counters.nr_contexts;
}

/*
 * Close the client's ring. If the ring still has requests, only the next
 * io_uring_setup() frees it, so make another ring until it is freed.
 */
static int stop(void **state)
{
	const int64_t until =
		uaio_now_ns() + (int64_t)UNIT_PATIENCE_MS * 1000000;
	struct uaio_counters counters;

	client_close(&client);
	unit_hook(NULL);
	unit_fail_nth(0, false);
	uaio_counters_read(&counters);
	if (counters.nr_contexts)
		while (!rings_are_freed(NULL) && uaio_now_ns() < until)
			sched_yield();
	return unit_teardown(state);
}

#define RING_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

#endif /* RING_ENTRIES */

#endif /* TEST_URING_H */
