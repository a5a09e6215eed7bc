/* SPDX-License-Identifier: MIT */
/*
 * Flow: the way of a request from its acceptance to its completion
 *
 * These functions create a request that does not complete inside the submitting
 * call, send it to where it waits or to a worker, start it again when it need not
 * wait any longer, and complete it. req.h has its states, and which thread may
 * move it between them.
 *
 * Completing a request may let others start, and these may complete at once and
 * let others start. There is no recursion: requests that may start go to the end
 * of a list, which the function that was called first works off.
 *
 * Tested by test-nop.c, test-cancel.c and all other tests with requests that wait.
 */
#ifndef UAIO_FLOW_FLOW_H
#define UAIO_FLOW_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/ring.h"

struct list;
struct uaio_device;
struct uaio_file;
struct uaio_group;
struct uaio_handover;
struct uaio_req;
struct uaio_sqe;
struct uaio_submitter;
struct uaio_worker;

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_flow_init(void);

/*
 * Creating (create.c)
 */

void uaio_group_init(struct uaio_group *group);
/* Return the free requests to the slab. All requests of the group are complete. */
void uaio_group_fini(struct uaio_group *group);

/*
 * Create a request from sqe: copy sqe and its vectors or path, and take a
 * reference to its file. fixed: if sqe->is_fixed that file, to which the caller has a
 * reference, and whose descriptor it uses; else ignored. parks: the request will wait
 * until its file is ready.
 * Return: 0 with a PREPPED request; -EAGAIN if memory is refused; -EBADF if the
 * descriptor is not open.
 */
int uaio_req_new(const struct uaio_submitter *by, struct uaio_file *fixed,
		 const struct uaio_sqe *sqe, bool parks,
		 struct uaio_req **ret_req);

/*
 * Create a request that has no file yet (link.h).
 * Return: NULL if memory is refused.
 */
struct uaio_req *uaio_req_new_held(const struct uaio_submitter *by,
				   const struct uaio_sqe *sqe);

/*
 * For complete.c: a RUNNING request leaves its group, whose lock is held. is_reusable: its
 * memory, too, which the group may use again; otherwise the caller frees that.
 */
void uaio_req_leave_locked(struct uaio_req *req, bool is_reusable);
void uaio_req_free(struct uaio_req *req);
/* For uaio_flow_init(). */
void uaio_req_init_slab(void);

/*
 * Sending on (send.c), and what the work queue calls (work.c)
 */

/*
 * Start a PREPPED request: add it to handover, for a worker, or let it wait until
 * its file is ready or its pages are there.
 */
void uaio_req_start(struct uaio_req *req, struct uaio_handover *handover);

/*
 * Have a RUNNING request wait again: until its file is ready, or, if it has none, until its
 * time has come.
 * Return: 0; or, with the request still the caller's, -EAGAIN if memory is refused, or
 * -ECANCELED if its queue is being closed, or a canceller has met it on its worker
 * (cancel.c, I4).
 */
int uaio_req_park(struct uaio_req *req);

/*
 * Give the work items of handover to the work queue. If there is no thread for
 * one, the calling thread executes or ends the request itself.
 */
void uaio_req_hand_over(struct uaio_handover *handover);

/* Initialise the work queue, and register the state QUEUED. */
void uaio_req_wq_init(void);

/*
 * A thread was about to leave the process, and stays: create the workers that were
 * not created meanwhile.
 */
void uaio_req_revive(void);

/* The same for the requests of a list. */
void uaio_req_start_list(struct list *startable,
			 struct uaio_handover *handover);

/* The same for the first of a list; those that it lets start go to its end. */
void uaio_req_start_first(struct list *startable,
			  struct uaio_handover *handover);

/* Start the requests of a list, then give the work items of handover to the queue. */
void uaio_req_start_and_hand_over(struct list *startable,
				  struct uaio_handover *handover);

/* Start the PREPPED requests of a list, with a handover of their own. */
void uaio_req_start_all(struct list *startable);

/* Add a QUEUED request to handover, as a work item. */
void uaio_req_to_worker(struct uaio_req *req, struct uaio_handover *handover);

/*
 * Completing (complete.c)
 */

/*
 * Complete a RUNNING request: post its event, and start requests that waited for
 * it. is_last: the caller is about to leave the process or its program, so no
 * thread is created. worker: the calling worker, which counts as blocked while it
 * executes others; or NULL.
 */
void uaio_req_complete_by(struct uaio_req *req, int64_t res, bool is_last,
			  struct uaio_worker *worker);

static inline void uaio_req_complete(struct uaio_req *req, int64_t res)
{
	uaio_req_complete_by(req, res, false, NULL);
}

/*
 * The same, but what it lets start is appended to ret_startable, for the caller to start.
 */
void uaio_req_finish(struct uaio_req *req, int64_t res,
		     struct uaio_worker *worker, struct list *ret_startable);

/*
 * The same for some RUNNING requests: the events of adjacent ones of one queue are posted
 * together.
 */
void uaio_req_complete_together(struct uaio_req *const *reqs,
				const int64_t *results, unsigned nr,
				struct uaio_worker *worker);

/* Return: who has executed req, which is about to end. worker: as above. */
enum uaio_by uaio_req_by(const struct uaio_req *req,
			 const struct uaio_worker *worker);

/*
 * The oldest reader of device is complete: let the next read. The worker, or NULL,
 * counts as blocked meanwhile, as it tries other reads, which copies their data.
 */
void uaio_req_read_next(struct uaio_device *device, struct uaio_worker *worker,
			struct list *ret_startable);

/*
 * Post a completion of a request that goes on. The calling thread is its owner
 * and holds no lock.
 * Return: false if the sink has no room: the caller completes the request.
 */
bool uaio_req_post_more(struct uaio_req *req, int64_t res);

#endif /* UAIO_FLOW_FLOW_H */
