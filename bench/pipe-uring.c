/* SPDX-License-Identifier: MIT */
/*
 * The implementation (side) of pipe.c that uses io_uring. One system call submits the
 * requests and waits, as in programs that minimise system calls.
 */
#include <errno.h>
#include <liburing.h>
#include <stdint.h>

#include "pipe.h"

enum { SQ_ENTRIES = 64 };

static struct io_uring ring;

static void begin(const struct pipe_side *side, unsigned nr_requests)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE };
	int ret;

	/*
	 * With DEFER_TASKRUN, completions are posted only by the thread that waits,
	 * inside its system call.
	 */
	if (side == &pipe_uring_deferred)
		params.flags |=
			IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
	params.cq_entries = nr_requests < SQ_ENTRIES ? SQ_ENTRIES : nr_requests;
	ret = io_uring_queue_init_params(SQ_ENTRIES, &ring, &params);
	if (ret < 0)
		pipe_fail("io_uring_queue_init_params", ret);
}

static struct io_uring_sqe *get_sqe(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	int ret;

	if (sqe)
		return sqe;
	/*
	 * The SQ ring is full. Submit now, because the caller may submit any number of
	 * requests before it waits.
	 */
	ret = io_uring_submit(&ring);
	if (ret != SQ_ENTRIES)
		pipe_fail("io_uring_submit", ret < 0 ? ret : -EAGAIN);
	sqe = io_uring_get_sqe(&ring);
	if (!sqe)
		pipe_fail("io_uring_get_sqe", -EAGAIN);
	return sqe;
}

static void submit(const struct pipe_request *requests, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		const struct pipe_request *request = &requests[i];
		struct io_uring_sqe *sqe = get_sqe();

		if (request->is_write)
			io_uring_prep_write(sqe, request->fd, request->buf,
					    (unsigned)request->len, 0);
		else
			io_uring_prep_read(sqe, request->fd, request->buf,
					   (unsigned)request->len, 0);
		io_uring_sqe_set_data(sqe, (void *)(uintptr_t)request);
	}
}

static void wait_all(const struct pipe_request *requests, unsigned nr)
{
	unsigned taken = 0, nr_taken = 0;

	while (nr_taken < nr) {
		struct io_uring_cqe *cqe;
		unsigned head, nr_seen = 0;
		int ret = io_uring_submit_and_wait(&ring, nr - nr_taken);

		if (ret < 0 && ret != -EINTR)
			pipe_fail("io_uring_submit_and_wait", ret);
		io_uring_for_each_cqe(&ring, head, cqe)
		{
			taken |=
				pipe_take(requests, nr,
					  io_uring_cqe_get_data(cqe), cqe->res);
			nr_seen++;
		}
		io_uring_cq_advance(&ring, nr_seen);
		nr_taken += nr_seen;
	}
	pipe_check_taken(taken, nr);
}

static void end(void)
{
	io_uring_queue_exit(&ring);
}

#define SIDE_OF_URING(name)                                          \
	{                                                            \
		.variant = (name), .begin = begin, .submit = submit, \
		.wait = wait_all, .end = end                         \
	}

const struct pipe_side pipe_uring = SIDE_OF_URING("io_uring");
const struct pipe_side pipe_uring_deferred = SIDE_OF_URING("io_uring+deferred");
