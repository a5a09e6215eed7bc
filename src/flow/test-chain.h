/* SPDX-License-Identifier: MIT */
/*
 * Helpers for tests of chains and drains. They submit requests in a context of kernel AIO,
 * by the functions that the front-ends (kernel AIO, io_uring, POSIX AIO) use. Then they
 * check the events.
 */
#ifndef UAIO_FLOW_TEST_CHAIN_H
#define UAIO_FLOW_TEST_CHAIN_H

#include <pthread.h>

#include "proc/entry.h"
#include "flow/flow.h"
#include "issue/chain.h"
#include "issue/submit.h"
#include "aio/ctx.h"
#include "aio/handle.h"
#include "ready/test-ready.h"

enum { SIZE = UNIT_KEY_BYTES };

static const int64_t MS = 1000000;

static char bytes[8][SIZE];

static inline struct uaio_sqe nop(uint8_t links)
{
	return (struct uaio_sqe){ .op = UAIO_OP_NOP, .fd = -1, .links = links };
}

static inline struct uaio_sqe rw(enum uaio_op op, int fd, uint64_t len,
				 uint8_t links)
{
	static unsigned i;

	return (struct uaio_sqe){
		.op = (uint8_t)op,
		.fd = fd,
		.buf = bytes[i++ % 8],
		.len = len,
		.links = links,
	};
}

static inline struct uaio_sqe timer(enum uaio_op op, int64_t ns, uint8_t links)
{
	return (struct uaio_sqe){
		.op = (uint8_t)op, .fd = -1, .time_ns = ns, .links = links
	};
}

static inline int add(struct uaio_submission *submission,
		      struct uaio_chain *chain, const struct uaio_sqe *sqe)
{
	struct uaio_file *file = NULL;

	if (uaio_chain_takes(chain, sqe))
		return uaio_chain_add(chain, sqe);
	if (!uaio_optab[sqe->op].has_no_file)
		assert_int_equal(uaio_look_up(sqe->fd, &file), 0);
	return uaio_batch_add(&submission->batch, file, sqe);
}

/* Submit all requests in one call; their keys are first, first + 1, ... */
static inline void submit(struct uaio_sqe *sqes, unsigned nr, uint64_t first)
{
	struct uaio_submission submission;
	struct uaio_chain chain;

	assert_true(uaio_enter());
	assert_int_equal(uaio_submission_begin(&submission, handle, nr), nr);
	uaio_chain_begin(&chain, &submission.batch);
	for (unsigned i = 0; i < nr; i++) {
		sqes[i].data = sqes[i].key = first + i;
		assert_int_equal(add(&submission, &chain, &sqes[i]), 0);
	}
	uaio_chain_end(&chain);
	uaio_submission_end(&submission, nr);
	uaio_leave();
}

#define SUBMIT_FROM(first, ...)                    \
	submit((struct uaio_sqe[]){ __VA_ARGS__ }, \
	       NR_ELEMENTS(((struct uaio_sqe[]){ __VA_ARGS__ })), first)
#define SUBMIT(...) SUBMIT_FROM(1, __VA_ARGS__)

struct got {
	uint64_t tag;
	int64_t res;
};

static inline void expect(const struct got *gots, unsigned nr)
{
	struct io_event event;

	for (unsigned i = 0; i < nr; i++) {
		assert_int_equal(unit_reap(handle, 1, &event), 1);
		assert_int_equal(event.data, gots[i].tag);
		assert_int_equal((int64_t)event.res, gots[i].res);
	}
}

#define EXPECT(...)                                 \
	expect((const struct got[]){ __VA_ARGS__ }, \
	       NR_ELEMENTS(((const struct got[]){ __VA_ARGS__ })))

static inline void expect_nothing(void)
{
	struct timespec none = { 0 };
	struct io_event event;

	assert_int_equal(
		uaio_aio_getevents(handle, 0, 1, (void *)&event, &none), 0);
}

static inline long cancel(uint64_t tag)
{
	long ret;

	assert_true(uaio_enter());
	ret = uaio_ctx_cancel_one(handle, tag);
	uaio_leave();
	return ret;
}

#endif /* UAIO_FLOW_TEST_CHAIN_H */
