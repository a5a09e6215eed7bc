/* SPDX-License-Identifier: MIT */
/*
 * Threads with a descriptor table of their own (table.h) execute their requests
 * themselves. They make plain system calls, however long these take, and post each
 * completion at once. Tested by src/aio/test-resfd.c and test/host/tables.c.
 */
#include <poll.h>

#include "base/sleep.h"
#include "base/sys.h"
#include "options/config.h"
#include "file/file.h"
#include "file/inode.h"
#include "req/call.h"
#include "req/queue.h"
#include "req/stats.h"
#include "wait/order.h"
#include "flow/post.h"
#include "issue/count.h"
#include "issue/fault.h"
#include "issue/policy.h"
#include "issue/submit.h"

static int64_t execute_to_end(const struct uaio_op_def *op,
			      const struct uaio_sqe *sqe, uint32_t extra_flags,
			      struct uaio_found *found)
{
	int64_t res = op->run(sqe, sqe->fd, found, extra_flags);
	struct pollfd pfd = { .fd = sqe->fd, .events = (short)sqe->events };

	while (op->class == UAIO_CLASS_POLL && res == -EAGAIN) {
		(void)sys_ppoll(&pfd, 1, NULL, NULL, 0);
		res = op->run(sqe, sqe->fd, found, extra_flags);
	}
	return res;
}

/*
 * Wait while the inode is busy: an earlier request waits or runs, and all later
 * requests of the inode must wait for it (order.h, I2).
 */
static void await_inode(const struct uaio_file *file)
{
	enum { SOON_NS = 50000 };
	uint32_t word = 0;

	while (file->inode && uaio_inode_is_busy(file->inode))
		(void)uaio_sleep(&word, 0, uaio_now_ns() + SOON_NS);
}

static int execute_parted(struct uaio_file *file, const struct uaio_sqe *sqe,
			  struct uaio_outcome *ret)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];

	if (op->has_no_file) {
		ret->res = op->run(sqe, -1, &ret->found, 0);
		return 0;
	}
	if (op->class != UAIO_CLASS_POLL)
		await_inode(file);
	if (uaio_has_odd_flags(op, sqe))
		return uaio_try_flags(file, load_relaxed(&file->flags), sqe,
				      ret);
	ret->res = execute_to_end(op, sqe, uaio_call_flags(file), &ret->found);
	return 0;
}

/*
 * If a fault delays the completion, this thread sleeps for that time, as no other
 * thread completes its requests.
 */
static int execute_parted_faulty(struct uaio_file *file,
				 const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret)
{
	struct uaio_sqe own = *sqe;
	struct uaio_fault_plan plan;
	uint32_t word = 0;
	int64_t until;
	int error = 0;

	uaio_fault_plan(file, &own, 0, &plan);
	ret->res = plan.error;
	if (!plan.error)
		error = execute_parted(file, &own, ret);
	until = uaio_now_ns() + plan.delay_ns;
	while (!error && plan.delay_ns && uaio_now_ns() < until)
		(void)uaio_sleep(&word, 0, until);
	return error;
}

int uaio_batch_add_parted(struct uaio_batch *batch, struct uaio_file *file,
			  const struct uaio_sqe *sqe)
{
	struct uaio_outcome outcome = { .start = uaio_sample_now() };
	struct uaio_completion completion = {
		.data = sqe->data,
		.key = sqe->key,
		.word = sqe->word,
	};
	const struct uaio_post post = {
		.completions = &completion,
		.nr = 1,
		.is_inline = true,
		.words = sqe->word,
	};
	int ret = uaio_optab[sqe->op].prep(sqe, file);

	if (ret == 0)
		ret = unlikely(uaio_config.has_faults)
			      ? execute_parted_faulty(file, sqe, &outcome)
			      : execute_parted(file, sqe, &outcome);
	if (ret < 0)
		return ret;
	outcome.end = uaio_sample_now();
	if (unlikely(batch->stats))
		uaio_batch_count(batch, file, sqe, &outcome);
	completion.res = (int32_t)outcome.res;
	completion.flags = outcome.found.rest == UAIO_REST_THERE
				   ? UAIO_COMPLETION_LEAVES
				   : 0;
	uaio_queue_post_parted(batch->by.queue, &post);
	return 0;
}
