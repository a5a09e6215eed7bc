/* SPDX-License-Identifier: MIT */
/*
 * Requests as work items: the functions that the work queue calls. Tested by
 * test-nop.c, src/wq/test-wq.c and all other tests in which workers execute
 * requests.
 */
#include <errno.h>
#include <sys/socket.h>

#include "base/cycles.h"
#include "base/sys.h"
#include "op/sock.h"
#include "proc/thread.h"
#include "req/req.h"
#include "req/waits.h"
#include "wait/trust.h"
#include "ready/ready.h"
#include "split/split.h"
#include "split/whole.h"
#include "flow/asleep.h"
#include "flow/flow.h"
#include "flow/gate.h"
#include "flow/kernel.h"
#include "flow/post.h"

/*
 * If a file system refuses RWF_NOWAIT, time a worker's read of its file. If such reads
 * are fast, later reads of the file may be executed inside io_submit (trust.h).
 */
static int64_t execute(struct uaio_req *req, struct uaio_worker *worker)
{
	struct uaio_trial_read read;
	uint64_t start;
	int64_t res;

	if (!req->file || !uaio_trust_is_sought(req->file, &req->sqe))
		return uaio_req_execute_by(req, worker);
	uaio_trust_begin(&req->file->inode->trust, &read);
	start = uaio_cycles();
	res = uaio_req_execute_by(req, worker);
	uaio_trust_tell(req->file, &read, &req->sqe, uaio_cycles() - start);
	return res;
}

/*
 * Park a multishot request again. While the worker executed the request, the other
 * requests of its wait queue (the parked reads, or the parked writes, of its file) had
 * to wait. From now on threads may try these requests again.
 */
static void park_again(struct uaio_req *req)
{
	int ret;

	req->next = UAIO_NEXT_WAIT_FILE;
	req->owns_waitq = false;
	req->edges = 0;
	ret = uaio_req_park(req);
	if (ret < 0)
		uaio_req_complete(req, ret == -ECANCELED
					       ? uaio_req_cancelled_res(req)
					       : ret);
}

/*
 * Return: whether a worker's read failed with EAGAIN because the file is O_NONBLOCK and
 * empty. Since the client had asked for a worker (is_async), the library has not waited
 * until the file was ready.
 */
static bool was_too_early(const struct uaio_req *req, int64_t res)
{
	return res == -EAGAIN && !uaio_optab[req->sqe.op].is_of_socket &&
	       !req->file->is_unpollable;
}

/*
 * Return: whether this worker must repeat the read of a multishot request until its file is
 * empty.
 */
static __attribute__((noinline)) bool takes_all(const struct uaio_req *req)
{
	int fd = uaio_file_use(req->file);
	bool takes = uaio_optab[req->sqe.op].tries->takes_all(&req->sqe, fd);

	uaio_file_unuse(req->file);
	return takes;
}

/*
 * Return: whether a canceller has marked the request as unwanted, so that it must not
 * wait again (cancel.c, I4).
 */
static bool is_unwanted(const struct uaio_req *req)
{
	struct uaio_group *group = req->group;
	bool ret;

	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	ret = req->is_unwanted;
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	return ret;
}

/*
 * Execute a multishot request again and again, and post the results, until its file is
 * empty. As a peer may send for ever, also stop if a canceller has marked the request.
 * Return: the last result.
 */
static __attribute__((noinline)) int64_t
take_all(struct uaio_req *req, struct uaio_worker *worker, int64_t res)
{
	while (uaio_sqe_has_more(&req->sqe, res) &&
	       uaio_req_post_more(req, res))
		res = is_unwanted(req) ? uaio_req_cancelled_res(req)
				       : execute(req, worker);
	return res;
}

/*
 * A worker has executed a multishot request, because there is only a blocking system call
 * for the request's file. Unless the request is over, post its result and park it again. On
 * files with a non-blocking call, run.c parks multishot requests again.
 * Return: whether the request was parked.
 */
static __attribute__((noinline)) bool goes_on(struct uaio_req *req, int64_t res)
{
	if (!was_too_early(req, res) && (!uaio_sqe_has_more(&req->sqe, res) ||
					 !uaio_req_post_more(req, res)))
		return false;
	if (req->owns_waitq)
		uaio_ready_returned(req);
	park_again(req);
	return true;
}

/*
 * Not inline: else run_work() would save many registers even for work items that never
 * block.
 */
static __attribute__((noinline)) void run_blocking(struct uaio_req *req,
						   struct uaio_worker *worker)
{
	int ioprio = req->sqe.ioprio, old_ioprio = -1;
	bool takes;
	int64_t res;

	if (unlikely(uaio_optab[req->sqe.op].sleeps)) {
		uaio_asleep_run(req, worker);
		return;
	}
	/*
	 * Try kernel AIO before splitting the request, as the kernel splits large
	 * requests itself.
	 */
	if (uaio_kernel_submit(req, worker)) {
		uaio_wq_returned(worker);
		return;
	}
	if (uaio_split_execute(req, worker))
		return;
	if (unlikely(ioprio))
		old_ioprio = uaio_thread_take_ioprio(ioprio);
	res = execute(req, worker);
	takes = unlikely(req->sqe.is_multishot) && takes_all(req);
	if (takes)
		res = take_all(req, worker, res);
	if (unlikely(ioprio))
		uaio_thread_give_ioprio(old_ioprio);
	/*
	 * Report the end of the system call before the event is posted. The client may
	 * react to the event by a new request. This worker, which then counts as free, can
	 * execute that request.
	 */
	uaio_wq_returned(worker);
	if (unlikely(req->sqe.is_multishot) && !takes && goes_on(req, res))
		return;
	uaio_req_complete_by(req, res, false, worker);
}

static void flush_done(struct uaio_worker *worker)
{
	struct uaio_req *reqs[UAIO_REQS_TOGETHER];
	int64_t results[UAIO_REQS_TOGETHER];

	while (worker->nr_done) {
		unsigned nr = 0;

		for (; nr < UAIO_REQS_TOGETHER && worker->nr_done; nr++) {
			reqs[nr] = uaio_req_of(
				container_of(list_pop(&worker->done),
					     struct uaio_work, link));
			results[nr] = reqs[nr]->done_bytes;
			worker->nr_done--;
		}
		uaio_req_complete_together(reqs, results, nr, worker);
	}
}

static void run_work(struct uaio_work *work, struct uaio_worker *worker)
{
	struct uaio_req *req;

	if (unlikely(work->is_part)) {
		uaio_split_run(work, worker);
		return;
	}
	req = uaio_req_of(work);
	uaio_req_move(req, UAIO_REQ_QUEUED, UAIO_REQ_RUNNING);
	if (work->may_block) {
		run_blocking(req, worker);
		return;
	}
	req->done_bytes = uaio_req_execute(req);
	list_add_tail(&worker->done, &work->link);
	worker->nr_done++;
	if (unlikely(req->sqe.posts_at_once))
		flush_done(worker);
}

static void refuse_work(struct uaio_work *work)
{
	struct uaio_req *req = uaio_req_of(work);

	uaio_req_move(req, UAIO_REQ_QUEUED, UAIO_REQ_RUNNING);
	uaio_req_complete(req, -EAGAIN);
}

static bool is_awaited(const struct uaio_work *work)
{
	/*
	 * True if a thread in exit or exec waits for the request. Such a thread does
	 * not wait for a single part of a split request (split/).
	 */
	return !work->is_part && unlikely(uaio_gate_is_closed()) &&
	       uaio_req_delays_exit(uaio_req_of(work));
}

static enum uaio_cancel cancel(struct uaio_req *req,
			       struct uaio_canceller *canceller,
			       struct list *ret_startable)
{
	(void)canceller;
	(void)ret_startable;
	if (!uaio_wq_cancel(uaio_req_account(req), &req->work))
		return UAIO_CANCEL_NONE;
	uaio_req_move(req, UAIO_REQ_QUEUED, UAIO_REQ_RUNNING);
	return UAIO_CANCEL_TAKEN;
}

struct wanted {
	uaio_is_wanted_fn *is_wanted;
	const void *arg;
};

static bool is_wanted(const struct uaio_work *work, const void *arg)
{
	const struct wanted *wanted = arg;

	return !work->is_part &&
	       wanted->is_wanted(uaio_req_of(work), wanted->arg);
}

static struct uaio_req *take(uaio_is_wanted_fn *wants, const void *arg)
{
	const struct wanted wanted = { wants, arg };
	struct uaio_work *work = uaio_wq_take(is_wanted, &wanted);
	struct uaio_req *req;

	if (!work)
		return NULL;
	req = uaio_req_of(work);
	uaio_req_move(req, UAIO_REQ_QUEUED, UAIO_REQ_RUNNING);
	return req;
}

void uaio_req_wq_init(void)
{
	static const struct uaio_wait_ops queued = {
		.cancel = cancel,
		.take = take,
	};

	static const struct uaio_wq_ops ops = {
		.run = run_work,
		.flush = flush_done,
		.refuse = refuse_work,
		.is_awaited = is_awaited,
	};

	uaio_waits_register(UAIO_REQ_QUEUED, &queued);
	uaio_asleep_init();
	uaio_wq_init(&ops);
}

void uaio_req_revive(void)
{
	struct list refused, *node;

	list_init(&refused);
	uaio_wq_revive(&refused);
	uaio_split_refuse_all(&refused);
	while ((node = list_pop(&refused))) {
		struct uaio_work *work =
			container_of(node, struct uaio_work, link);
		struct uaio_req *req = uaio_req_of(work);

		uaio_req_move(req, UAIO_REQ_QUEUED, UAIO_REQ_RUNNING);
		uaio_req_complete(req, uaio_req_account(req) == UAIO_BOUNDED &&
						       uaio_wq_is_mine(work)
					       ? uaio_req_execute(req)
					       : -EAGAIN);
	}
}
