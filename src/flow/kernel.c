/* SPDX-License-Identifier: MIT */
#include "flow/kernel.h"

#include <errno.h>

#include "base/check.h"
#include "wq/wq.h"
#include "req/req.h"
#include "native/driver.h"
#include "native/native.h"
#include "ready/attend.h"
#include "ready/ready.h"
#include "split/bounce.h"
#include "flow/flow.h"
#include "flow/gate.h"

static void note(struct uaio_req *req, struct uaio_handover *handover)
{
	if (!handover->nr_others++)
		list_init(&handover->others);
	list_add_tail(&handover->others, &req->link);
}

bool uaio_kernel_add(struct uaio_req *req, struct uaio_handover *handover)
{
	enum uaio_native_way way = uaio_native_way(req);

	/*
	 * Submit nothing to the kernel during exit or exec: the leaving thread executes
	 * requests itself where it can.
	 */
	if (likely(way == UAIO_NATIVE_NOT) || handover->is_last ||
	    !uaio_wq_is_mine(&req->work) || uaio_req_is_former(req) ||
	    unlikely(uaio_gate_is_closed()) ||
	    uaio_ready_expect(req->group) < 0)
		return false;
	req->native = way == UAIO_NATIVE_BLOCKING ? UAIO_KERNEL_MAY_WAIT
						  : UAIO_KERNEL_HAS_NOT;
	uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_RUNNING);
	note(req, handover);
	return true;
}

bool uaio_kernel_takes(const struct uaio_file *file, const struct uaio_sqe *sqe)
{
	return uaio_driver_takes(file, sqe);
}

bool uaio_kernel_line(struct uaio_req *req, struct uaio_handover *handover)
{
	if (likely(!uaio_driver_suits(req)) || handover->is_last ||
	    uaio_req_is_former(req))
		return false;
	note(req, handover);
	return true;
}

/* The kernel has refused req: give it to a worker. */
static void send_to_worker(struct uaio_req *req, struct uaio_handover *handover)
{
	uaio_ready_unexpect(req->group);
	req->native = UAIO_KERNEL_HAS_NOT;
	uaio_req_move(req, UAIO_REQ_RUNNING, UAIO_REQ_QUEUED);
	uaio_req_to_worker(req, handover);
}

static void send_all_to_workers(struct uaio_req *const *reqs, unsigned nr,
				struct uaio_handover *handover)
{
	for (unsigned i = 0; i < nr; i++)
		send_to_worker(reqs[i], handover);
}

/*
 * Submit requests of one queue, which the caller keeps from being freed. Requests that
 * the kernel refuses are given to workers.
 */
static void submit(struct uaio_group *group, struct uaio_req *const *reqs,
		   unsigned nr, struct uaio_handover *handover)
{
	struct uaio_native *native = uaio_native_get(group);
	bool is_one;

	while (native && nr) {
		unsigned nr_taken =
			uaio_native_submit(native, reqs, nr, &is_one);

		if (unlikely(!nr_taken)) {
			if (!is_one)
				break;
			send_to_worker(reqs[0], handover);
			nr_taken = 1;
		}
		reqs += nr_taken;
		nr -= nr_taken;
	}
	send_all_to_workers(reqs, nr, handover);
}

/*
 * Submit requests of one queue, and look for completions at once. If io_submit would have
 * to wait for a request, the kernel completes the request unexecuted. A worker can then
 * begin such a request now.
 */
static void submit_of_one(struct uaio_group *group,
			  struct uaio_req *const *reqs, unsigned nr,
			  bool is_signalled, struct uaio_handover *handover)
{
	/*
	 * Keep the queue from being freed during this call, as all its requests might
	 * complete.
	 */
	uaio_ready_pin(&group->ready);
	submit(group, reqs, nr, handover);
	(void)uaio_ready_take_native(group);
	if (uaio_native_nr(group))
		uaio_ready_native_submitted(group, false);
	if (is_signalled)
		uaio_attend_note(uaio_queue_of(group));
	uaio_ready_unpin(&group->ready);
}

static bool is_awaited(const struct uaio_req *req)
{
	return unlikely(uaio_gate_is_closed()) && uaio_req_delays_exit(req);
}

/*
 * Give the PREPPED requests of the list to the driver, the thread that uses the kernel's
 * io_uring (driver.h). The RUNNING requests are for kernel AIO, and stay in the list.
 */
static void line_up(struct list *others, struct uaio_handover *handover)
{
	struct list lined, refused, *node;

	list_init(&lined);
	list_init(&refused);
	list_for_each_safe (pos, others) {
		if (uaio_req_state(container_of(pos, struct uaio_req, link)) !=
		    UAIO_REQ_PREPPED)
			continue;
		list_remove(pos);
		list_add_tail(&lined, pos);
	}
	if (list_is_empty(&lined))
		return;
	uaio_driver_add(&lined, is_awaited, &refused);
	while ((node = list_pop(&refused))) {
		struct uaio_req *req =
			container_of(node, struct uaio_req, link);

		uaio_req_move(req, UAIO_REQ_PREPPED, UAIO_REQ_QUEUED);
		uaio_req_to_worker(req, handover);
	}
}

void uaio_kernel_hand_over(struct uaio_handover *handover)
{
	struct uaio_req *reqs[UAIO_NATIVE_BATCH];
	struct list others, *node;

	if (likely(!handover->nr_others))
		return;
	list_init(&others);
	list_splice_tail(&others, &handover->others);
	handover->nr_others = 0;
	line_up(&others, handover);
	node = list_pop(&others);
	while (node) {
		struct uaio_req *first =
			container_of(node, struct uaio_req, link);
		struct uaio_group *group = first->group;
		bool is_signalled = false;
		unsigned nr = 0;

		do {
			reqs[nr++] = container_of(node, struct uaio_req, link);
			is_signalled |= reqs[nr - 1]->sqe.is_signalled;
			node = list_pop(&others);
		} while (node && nr < UAIO_NATIVE_BATCH &&
			 container_of(node, struct uaio_req, link)->group ==
				 group);
		submit_of_one(group, reqs, nr, is_signalled, handover);
	}
}

/* Submission by workers */

/*
 * The kernel would use the worker's present credentials. So do not submit a request that
 * was submitted before the program changed its credentials (proc/former.h).
 */
static bool submit_blocking(struct uaio_native *native, struct uaio_req *req,
			    struct uaio_worker *worker)
{
	struct uaio_former_call call;
	bool is_taken = false;

	if (unlikely(uaio_req_begin_call(req, &call) < 0))
		return false;
	if (likely(!uaio_req_is_former(req)))
		is_taken = uaio_native_submit_blocking(native, req, worker);
	uaio_former_end(&call);
	return is_taken;
}

bool uaio_kernel_submit(struct uaio_req *req, struct uaio_worker *worker)
{
	struct uaio_group *group = req->group;
	struct uaio_native *native;
	bool is_taken = false;

	/*
	 * relaxed: this thread may miss that the gate or the queue has just been closed.
	 * Then the kernel executes the request, and another thread reaps its completion.
	 */
	if (likely(!uaio_native_suits_worker(req)) || uaio_gate_is_closed() ||
	    load_relaxed(&group->ready.is_closing) ||
	    uaio_ready_expect(group) < 0)
		return false;
	uaio_ready_pin(&group->ready);
	native = uaio_native_get(group);
	if (native) {
		uaio_native_expect_by_worker(native);
		/*
		 * Called before the submission, because the request may complete long
		 * before io_submit returns.
		 */
		uaio_ready_native_submitted(group, true);
		is_taken = submit_blocking(native, req, worker);
		if (unlikely(!is_taken))
			uaio_native_unexpect_by_worker(native);
	}
	if (unlikely(!is_taken))
		uaio_ready_unexpect(group);
	uaio_ready_unpin(&group->ready);
	return is_taken;
}

/* Completing */

/*
 * Return: whether the kernel has returned req without executing it. A worker then has to
 * execute it.
 */
static bool is_given_back(const struct uaio_req *req, int64_t res)
{
	return (unlikely(res == -EAGAIN) && !uaio_native_is_final(req->file)) ||
	       unlikely(uaio_may_bounce(req->file, &req->sqe, res));
}

/*
 * Return: how many requests the kernel has executed, counted from the first up to one that
 * the kernel returned unexecuted.
 */
static unsigned nr_done(struct uaio_req *const *reqs, const int64_t *results,
			unsigned nr)
{
	unsigned i = 0;

	while (i < nr && i < UAIO_REQS_TOGETHER &&
	       !is_given_back(reqs[i], results[i]))
		i++;
	return i;
}

void uaio_req_complete_native(struct uaio_req *const *reqs,
			      const int64_t *results, unsigned nr)
{
	struct list back;

	list_init(&back);
	while (nr) {
		unsigned nr_together = nr_done(reqs, results, nr);

		for (unsigned i = 0; i < nr_together; i++)
			reqs[i]->native = UAIO_KERNEL_HAS_EXECUTED;
		if (nr_together) {
			uaio_req_complete_together(reqs, results, nr_together,
						   NULL);
		} else {
			/*
			 * The kernel has refused a misaligned request, which has to be
			 * executed through a copy. Mark the request, so that it is not
			 * submitted to the kernel again.
			 */
			if (results[0] != -EAGAIN)
				reqs[0]->native = UAIO_KERNEL_MAY_WAIT;
			uaio_req_move(reqs[0], UAIO_REQ_RUNNING,
				      UAIO_REQ_PREPPED);
			list_add_tail(&back, &reqs[0]->link);
			nr_together = 1;
		}
		reqs += nr_together;
		results += nr_together;
		nr -= nr_together;
	}
	if (unlikely(!list_is_empty(&back)))
		uaio_req_start_all(&back);
}
