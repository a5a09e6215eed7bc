/* SPDX-License-Identifier: MIT */
/* What tests of rings have in common: a client that maps them, as liburing does. */
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

enum { SIZE = UNIT_KEY_BYTES };

#define SECONDS INT64_C(1000000000)

struct client {
	int fd;
	struct io_uring_params params;
	char *rings;
	size_t rings_bytes, sqes_bytes;
	struct io_uring_sqe *sqes;
	uint32_t sq_tail; /* not told yet */
};

/* Return: how many places of plain ones a submission, or a completion, takes. */
static inline uint32_t sqe_width(const struct client *client)
{
	return client->params.flags & IORING_SETUP_SQE128 ? 2 : 1;
}

static inline uint32_t cqe_width(const struct client *client)
{
	return client->params.flags & IORING_SETUP_CQE32 ? 2 : 1;
}

static inline uint32_t *sq_word(const struct client *client, uint32_t off)
{
	return (uint32_t *)(void *)(client->rings + off);
}

static inline struct io_uring_cqe *cqes(const struct client *client)
{
	return (struct io_uring_cqe *)(void *)(client->rings +
					       client->params.cq_off.cqes);
}

static inline void client_map(struct client *client)
{
	const struct io_uring_params *params = &client->params;
	size_t cq_bytes =
		params->cq_off.cqes + params->cq_entries * cqe_width(client) *
					      sizeof(struct io_uring_cqe);
	size_t sq_bytes =
		params->sq_off.array + params->sq_entries * sizeof(uint32_t);

	assert_true(params->features & IORING_FEAT_SINGLE_MMAP);
	client->rings_bytes = cq_bytes > sq_bytes ? cq_bytes : sq_bytes;
	client->sqes_bytes = params->sq_entries * sqe_width(client) *
			     sizeof(struct io_uring_sqe);
	client->rings =
		mmap(NULL, client->rings_bytes, PROT_READ | PROT_WRITE,
		     MAP_SHARED, client->fd,
		     uaio_uring_map_offset(client->fd, IORING_OFF_CQ_RING));
	assert_ptr_not_equal(client->rings, MAP_FAILED);
	client->sqes = mmap(NULL, client->sqes_bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED, client->fd,
			    uaio_uring_map_offset(client->fd, IORING_OFF_SQES));
	assert_ptr_not_equal(client->sqes, MAP_FAILED);
	client->sq_tail = 0;
	for (uint32_t i = 0; i < params->sq_entries; i++)
		if (!(params->flags & IORING_SETUP_NO_SQARRAY))
			sq_word(client, params->sq_off.array)[i] = i;
}

static inline void client_open(struct client *client, uint32_t entries,
			       struct io_uring_params params)
{
	client->params = params;
	client->fd = (int)uaio_uring_setup(entries, &client->params);
	assert_true(client->fd >= 0);
	client_map(client);
}

static inline void client_unmap(struct client *client)
{
	assert_int_equal(munmap(client->rings, client->rings_bytes), 0);
	assert_int_equal(munmap(client->sqes, client->sqes_bytes), 0);
}

static inline void client_close(struct client *client)
{
	client_unmap(client);
	unit_close(client->fd);
}

/* Return: the next submission, all zero but for these. */
static inline struct io_uring_sqe *put(struct client *client, uint8_t opcode,
				       int fd, uint64_t user_data)
{
	struct io_uring_sqe *sqe =
		&client->sqes[(client->sq_tail++ &
			       (client->params.sq_entries - 1)) *
			      sqe_width(client)];

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->fd = fd;
	sqe->user_data = user_data;
	return sqe;
}

static inline struct io_uring_sqe *put_rw(struct client *client, uint8_t opcode,
					  int fd, const void *memory,
					  uint32_t len, int64_t off,
					  uint64_t user_data)
{
	struct io_uring_sqe *sqe = put(client, opcode, fd, user_data);

	sqe->addr = (uintptr_t)memory;
	sqe->len = len;
	sqe->off = (uint64_t)off;
	return sqe;
}

/* Tell of what was put. Return: how many that is. */
static inline uint32_t tell(struct client *client)
{
	uint32_t *tail = sq_word(client, client->params.sq_off.tail);
	uint32_t nr = client->sq_tail - load_relaxed(tail);

	store_release(tail, client->sq_tail);
	return nr;
}

static inline long enter(const struct client *client, uint32_t to_submit,
			 uint32_t min_complete)
{
	return uaio_uring_enter((uint32_t)client->fd, to_submit, min_complete,
				min_complete ? IORING_ENTER_GETEVENTS : 0, NULL,
				0);
}

/* Submit what was put, all of which is taken, and wait for so many. */
static inline void submit(struct client *client, uint32_t min_complete)
{
	uint32_t nr = tell(client);

	assert_int_equal(enter(client, nr, min_complete), nr);
}

/*
 * The client maps the rings at another address than the library: ThreadSanitizer does not
 * see that what is posted happens before the client reads the tail. Here it does.
 */
static inline void show_order(const struct client *client)
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

static inline uint32_t unread(const struct client *client)
{
	uint32_t tail =
		load_acquire(sq_word(client, client->params.cq_off.tail));
	uint32_t nr = tail -
		      load_relaxed(sq_word(client, client->params.cq_off.head));

	if (nr)
		show_order(client);
	return nr;
}

/* A completion, without the array that the kernel's has at its end. */
struct cqe {
	uint64_t user_data;
	int32_t res;
	uint32_t flags;
};

static inline struct cqe get(const struct client *client)
{
	uint32_t *head = sq_word(client, client->params.cq_off.head);
	const struct io_uring_cqe *at;
	struct cqe cqe;

	while (!unread(client))
		assert_int_equal(enter(client, 0, 1), 0);
	at = &cqes(
		client)[(load_relaxed(head) & (client->params.cq_entries - 1)) *
			cqe_width(client)];
	cqe = (struct cqe){ at->user_data, at->res, at->flags };
	store_release(head, load_relaxed(head) + 1);
	return cqe;
}

static inline void assert_cqe(const struct cqe *cqe, uint64_t user_data,
			      int32_t res, uint32_t flags)
{
	assert_int_equal(cqe->user_data, user_data);
	assert_int_equal(cqe->res, res);
	assert_int_equal(cqe->flags, flags);
}

/* The next completion is this one. */
static inline void assert_got(const struct client *client, uint64_t user_data,
			      int32_t res)
{
	struct cqe cqe = get(client);

	assert_cqe(&cqe, user_data, res, 0);
}

/* The next two are these, in either order. */
static inline void assert_got_both(const struct client *client, uint64_t a,
				   int32_t a_res, uint64_t b, int32_t b_res)
{
	struct cqe first = get(client), second = get(client);

	if (first.user_data == a) {
		assert_cqe(&first, a, a_res, 0);
		assert_cqe(&second, b, b_res, 0);
	} else {
		assert_cqe(&first, b, b_res, 0);
		assert_cqe(&second, a, a_res, 0);
	}
}

static inline void assert_none(const struct client *client)
{
	assert_int_equal(uaio_uring_enter((uint32_t)client->fd, 0, 0,
					  IORING_ENTER_GETEVENTS, NULL, 0),
			 0);
	assert_int_equal(unread(client), 0);
}

/*
 * A test that defines RING_ENTRIES, before it includes this, has a plain ring with so
 * many of them in each of its cases.
 */
#ifdef RING_ENTRIES

static struct client client;

static int start(void **state)
{
	int ret = unit_setup(state);

	if (ret == 0)
		client_open(&client, RING_ENTRIES,
			    (struct io_uring_params){ 0 });
	return ret;
}

/* The client has closed its ring. Return: whether that, and all before it, is freed. */
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
 * The client's ring is closed. If a thread of the library was in a request of it then,
 * the next ring frees it: there is one.
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
