/* SPDX-License-Identifier: MIT */
/*
 * Flow: what happens to a request that does not complete inside the submitting call
 *
 * The functions of this header create a request, and send it to a worker or to where it
 * waits. Other functions here start the request again when its wait is over, and later
 * complete it. req.h lists the states of a request, and which thread may move it between
 * them.
 *
 * Completing a request may allow other requests to start, and these may complete at once.
 * There is no recursion: requests that may start are appended to a list, and the outermost
 * call starts them one after the other.
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

/* Called each time the engine starts, also in a child of fork(): resets all state. */
void uaio_flow_init(void);

/* Creating (create.c) */

void uaio_group_init(struct uaio_group *group);
/*
 * Return the free requests of the group to the slab. All requests of its queue are
 * complete.
 */
void uaio_group_fini(struct uaio_group *group);

/*
 * Create a request from sqe: copy sqe and its vectors or path, and take a reference to
 * its file. `fixed`: the file if sqe->is_fixed, else ignored; the caller holds a
 * reference, and the request uses that file's descriptor. `parks`: the request will wait
 * until its file is ready.
 * Return: 0 with a PREPPED request (one that the caller is about to start); -EAGAIN if
 * memory is refused; -EBADF if the descriptor is not open.
 */
int uaio_req_new(const struct uaio_submitter *by, struct uaio_file *fixed,
		 const struct uaio_sqe *sqe, bool parks,
		 struct uaio_req **ret_req);

/* Create a request that has no file yet (link.h). Return: NULL if memory is refused. */
struct uaio_req *uaio_req_new_held(const struct uaio_submitter *by,
				   const struct uaio_sqe *sqe);

/*
 * For complete.c: remove a RUNNING request from its group (the requests of its queue).
 * The queue's lock is held. is_reusable: the group keeps the request's memory for its
 * next request; otherwise the caller frees that memory by uaio_req_free().
 */
void uaio_req_leave_locked(struct uaio_req *req, bool is_reusable);
void uaio_req_free(struct uaio_req *req);
/* For uaio_flow_init(). */
void uaio_req_init_slab(void);

/* Functions of send.c (which starts requests) and of work.c (which the work queue calls) */

/*
 * Start a request, which is PREPPED (about to be started). Add it to the handover, for a
 * worker, or let it wait until its file is ready or its pages are in the page cache.
 */
void uaio_req_start(struct uaio_req *req, struct uaio_handover *handover);

/*
 * Let a RUNNING request wait again: until its file is ready, or, if it has no file, until
 * its timer expires.
 * Return: 0; -EAGAIN if memory is refused; -ECANCELED if its queue is being closed, or if
 * a canceller marked the request as unwanted while a worker executed it (cancel.c, I4).
 * After an error the caller still owns the request.
 */
int uaio_req_park(struct uaio_req *req);

/*
 * Give the requests that the handover has collected for workers to the work queue. If no
 * worker can execute a request, the calling thread executes the request or completes it
 * with an error.
 */
void uaio_req_hand_over(struct uaio_handover *handover);

/* Initialise the work queue, and register the functions for requests in the state QUEUED. */
void uaio_req_wq_init(void);

/*
 * A thread's exec has failed, so the process continues. Create the workers whose creation
 * was put off during the exec.
 */
void uaio_req_revive(void);

void uaio_req_start_list(struct list *startable,
			 struct uaio_handover *handover);

/*
 * Start the first request of a list. Requests that may start as a result are appended to the
 * list.
 */
void uaio_req_start_first(struct list *startable,
			  struct uaio_handover *handover);

/*
 * Start the requests of a list, then give the requests that the handover has collected
 * for workers to the work queue.
 */
void uaio_req_start_and_hand_over(struct list *startable,
				  struct uaio_handover *handover);

/*
 * Start the requests of a list, which are PREPPED (about to be started), and give those for
 * workers to the work queue.
 */
void uaio_req_start_all(struct list *startable);

/* Add a QUEUED request to the handover, as a work item. */
void uaio_req_to_worker(struct uaio_req *req, struct uaio_handover *handover);

/* Completing (complete.c) */

/*
 * Complete a RUNNING request: post its event, and start requests that waited for it.
 * is_last: the caller is in exit or exec, so no thread is created. worker: the calling
 * worker, or NULL. The calling thread may execute other requests that start as a result;
 * meanwhile the work queue counts the worker as blocked.
 */
void uaio_req_complete_by(struct uaio_req *req, int64_t res, bool is_last,
			  struct uaio_worker *worker);

static inline void uaio_req_complete(struct uaio_req *req, int64_t res)
{
	uaio_req_complete_by(req, res, false, NULL);
}

/*
 * As uaio_req_complete_by(), but requests that may start as a result are appended to
 * ret_startable, for the caller to start.
 */
void uaio_req_finish(struct uaio_req *req, int64_t res,
		     struct uaio_worker *worker, struct list *ret_startable);

/* Complete RUNNING requests. Adjacent requests of the same queue are posted together. */
void uaio_req_complete_together(struct uaio_req *const *reqs,
				const int64_t *results, unsigned nr,
				struct uaio_worker *worker);

/*
 * Return: who has executed req, which is about to complete: the kernel, or a kind of
 * thread. worker: as for uaio_req_complete_by().
 */
enum uaio_by uaio_req_by(const struct uaio_req *req,
			 const struct uaio_worker *worker);

/*
 * The oldest cold read (page.h) of `device` is complete: let the next cold read start.
 * The calling thread also tries other waiting reads of the device; each successful try
 * copies the data of its read. Meanwhile `worker`, unless NULL, counts as blocked.
 */
void uaio_req_read_next(struct uaio_device *device, struct uaio_worker *worker,
			struct list *ret_startable);

/*
 * Post an intermediate completion, with the flag MORE, of a multishot request. The
 * calling thread owns the request and holds no lock.
 * Return: false if the queue's sink (sink.h) has no room for the completion; then the
 * caller completes the request.
 */
bool uaio_req_post_more(struct uaio_req *req, int64_t res);

#endif /* UAIO_FLOW_FLOW_H */
