/* SPDX-License-Identifier: MIT */
/*
 * A client of the "door", a front-end that only tests use. The client opens one door at
 * a time.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include <errno.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "cold.h"
#include "door.h"

enum { SIZE = UNIT_KEY_BYTES };

static struct door *door;
static struct door_rings *rings;

/* Opens the door. Only the thread that calls start() may submit through it. */
static inline int start(void **state)
{
	int ret = unit_setup(state);

	return ret < 0 ? ret : door_open(&door, &rings);
}

static inline int stop(void **state)
{
	if (door)
		assert_int_equal(door_close(door), 0);
	door = NULL;
	return unit_teardown(state);
}

#define DOOR_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

static inline void put(struct door_sqe sqe)
{
	uint32_t tail = load_relaxed(&rings->sq_tail);

	assert_true(tail - load_acquire(&rings->sq_head) < DOOR_NR_SQES);
	rings->sqes[tail % DOOR_NR_SQES] = sqe;
	store_release(&rings->sq_tail, tail + 1);
}

static inline struct door_sqe rw(enum door_what what, int fd, void *memory,
				 uint32_t size, int64_t place)
{
	return (struct door_sqe){
		.what = what,
		.fd = fd,
		.place = place,
		.memory = memory,
		.size = size,
	};
}

static inline void put_tagged(struct door_sqe sqe, uint64_t tag)
{
	sqe.tag = tag;
	put(sqe);
}

/*
 * Submit all requests in the ring, and wait for nr_min completions.
 * Return: how many requests the door accepted.
 */
static inline int enter(uint32_t nr_min)
{
	return door_enter(door, nr_min, nr_min ? UAIO_FOREVER : 0);
}

static inline uint32_t nr_unread(void)
{
	return load_acquire(&rings->cq_tail) - load_relaxed(&rings->cq_head);
}

static inline struct door_cqe get(void)
{
	uint32_t head = load_relaxed(&rings->cq_head);
	struct door_cqe cqe;

	assert_true(nr_unread() > 0);
	cqe = rings->cqes[head % DOOR_NR_CQES];
	store_release(&rings->cq_head, head + 1);
	return cqe;
}

static inline void assert_got(uint64_t tag, int32_t res)
{
	struct door_cqe cqe = get();

	assert_int_equal(cqe.tag, tag);
	assert_int_equal(cqe.res, res);
	assert_int_equal(cqe.flags, 0);
}

/* Waits for the next completion, which must have this tag and result. */
static inline void await_got(uint64_t tag, int32_t res)
{
	while (!nr_unread())
		assert_int_equal(enter(1), 0);
	assert_got(tag, res);
}

#endif /* CLIENT_H */
