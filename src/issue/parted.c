/* SPDX-License-Identifier: MIT */
/*
 * Threads with a descriptor table of their own (table.h) execute their requests
 * themselves. They make plain system calls, however long these take, and post each
 * completion at once. As in the kernel's AIO, a signal ends a call that waits for a
 * stream or a device, so that the signal's handler can run.
 *
 * Tested by src/aio/test-resfd.c and test/host/tables.c.
 */
#include <errno.h>
#include <linux/fs.h>
#include <poll.h>

#include "base/sleep.h"
#include "base/sleepcall.h"
#include "proc/entry.h"
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

/*
 * Poll the file until it is ready.
 * Return: as uaio_poll_run(). -EAGAIN: a signal handler may have to run first, of the
 * program or of the C library's setuid(). The kernel's AIO would not wait, so the
 * request is then refused.
 */
static int64_t poll_to_end(const struct uaio_op_def *op,
			   const struct uaio_sqe *sqe, struct uaio_found *found)
{
	struct pollfd pfd = { .fd = sqe->fd, .events = (short)sqe->events };
	int64_t res;
	int ret = 0;

	while ((res = op->run(sqe, sqe->fd, found, 0)) == -EAGAIN &&
	       ret != -EINTR) {
		uaio_sleep_inside_begin();
		ret = uaio_sleep_poll(&pfd, 1, NULL, NULL, 0);
		uaio_sleep_inside_end();
	}
	return res;
}

/*
 * Return: whether the call of this read or write may wait for long, so that a signal has
 * to end it.
 */
static bool may_wait(const struct uaio_file *file, const struct uaio_op_def *op,
		     const struct uaio_sqe *sqe)
{
	return (uaio_file_kind(file) == UAIO_KIND_STREAM ||
		uaio_file_kind(file) == UAIO_KIND_DEVICE) &&
	       !load_relaxed(&file->is_nonblock) &&
	       op->class <= UAIO_CLASS_WRITE && uaio_sqe_bytes(sqe);
}

/*
 * Read or write. A signal ends the call if it waits, as in the kernel: with the number
 * of bytes transferred so far, or else with EINTR.
 */
static int64_t transfer(const struct uaio_op_def *op,
			const struct uaio_sqe *sqe, uint32_t on,
			struct uaio_found *found)
{
	const bool is_write = op->class == UAIO_CLASS_WRITE;
	const bool is_silent = is_write && uaio_sqe_rules(sqe)->no_sigpipe;
	const struct iovec one = { sqe->buf, sqe->len };
	/* UAIO_RWF_HAS_WAITED is RWF_NOSIGNAL. */
	const uint32_t flags =
		sqe->rw_flags | (is_silent ? (uint32_t)UAIO_RWF_HAS_WAITED : 0);
	int64_t res;

	uaio_sleep_inside_begin();
	res = uaio_sleep_transfer(
		is_write, sqe->fd, op->is_vectored ? sqe->iov : &one,
		op->is_vectored ? (int)sqe->len : 1,
		on & UAIO_RWF_ON_STREAM ? -1 : sqe->off, flags);
	uaio_sleep_inside_end();
	/* The signal may have come before the call: transfer what needs no wait. */
	if (res == -EINTR) {
		res = op->run(sqe, sqe->fd, found, on | RWF_NOWAIT);
		return res == UAIO_OP_BLOCKS || res == -EAGAIN ? -EINTR : res;
	}
	/*
	 * The file, the kernel or a sandbox may refuse the call or its flags. run() also
	 * finds out why a socket's other end has closed.
	 */
	return res == -EOPNOTSUPP || res == -ENOSYS || res == -EPERM ||
			       res == -EACCES || (res == -EPIPE && is_silent)
		       ? op->run(sqe, sqe->fd, found, on)
		       : res;
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
	const uint32_t on = uaio_call_flags(file);

	if (op->has_no_file) {
		ret->res = op->run(sqe, -1, &ret->found, 0);
		return 0;
	}
	if (op->class == UAIO_CLASS_POLL) {
		ret->res = poll_to_end(op, sqe, &ret->found);
		return ret->res == -EAGAIN ? -EAGAIN : 0;
	}
	await_inode(file);
	if (uaio_has_odd_flags(op, sqe))
		return uaio_try_flags(file, load_relaxed(&file->flags), sqe,
				      ret);
	ret->res = may_wait(file, op, sqe)
			   ? transfer(op, sqe, on, &ret->found)
			   : op->run(sqe, sqe->fd, &ret->found, on);
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
