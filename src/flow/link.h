/* SPDX-License-Identifier: MIT */
/*
 * Links: requests that start when the previous one has completed
 *
 * A chain is a list of requests of one queue. Each request but the first starts when the
 * previous one is complete: only if the previous one succeeded (UAIO_LINK), or in any case
 * (UAIO_LINK_HARD). A read or write of fewer bytes than requested counts as failed. A call
 * about paths, attributes or space counts as successful whatever its result, as in
 * io_uring. If a request may not start, it and all later requests of the chain complete as
 * cancelled. A linked timer (UAIO_OP_LINK_TIMER) starts with the request before it, and
 * cancels that request when it expires. If the request completes first, the timer completes
 * as cancelled.
 *
 *   I1  A request that has not started is HELD and has no file. Its descriptor, or the
 *       file registered at its index, is looked up when it starts. So neither closing a
 *       descriptor nor the end of the process (gate.h) waits for a HELD request, and
 *       cancelling all requests of a file does not find it. A child of fork() inherits
 *       no HELD requests. If another thread closes the descriptor as the request
 *       starts, the request may use the next file that gets this descriptor.
 *   I2  req->after and req->before link the requests of a chain. They, and the state
 *       HELD, change under the queue's lock (group->lock). When a request has started,
 *       its member `before` is NULL; only a linked timer keeps its `before` until the
 *       timer or the request that it limits is complete.
 *   I3  When a request leaves its group (the requests of its queue), it also leaves its
 *       chain. From then on the thread that completes the request owns the next request
 *       of the chain, which is now PREPPED (about to be started). This thread posts the
 *       event of the completed request, then starts the next request. If it is the
 *       submitting thread, it starts the next request when the submission ends (chain.h).
 *   I4  The thread that expires a linked timer owns the timer. Under the queue's lock
 *       that thread finds the timer's request by the member `before`, or finds that the
 *       request has left the group.
 *
 * The module issue/ builds the chains (chain.h), and issues their requests.
 *
 * A thread with a descriptor table of its own (table.h) executes its requests at once, one
 * after the other, and so has no chains.
 *
 * Context: any thread that has entered the library (entry.h).
 */
#ifndef UAIO_FLOW_LINK_H
#define UAIO_FLOW_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "op/op.h"

struct list;
struct uaio_handover;
struct uaio_req;
struct uaio_sqe;
struct uaio_submitter;

/*
 * Issue a request that was held, and is now PREPPED (about to be started; chain.c). If the
 * request has to park, this function has already called uaio_ready_expect() (ready.h).
 * Return: what the request has to wait for; if UAIO_NEXT_DONE, it is complete, with the
 * result in ret_res.
 */
typedef enum uaio_next uaio_issue_held_fn(struct uaio_req *req,
					  int64_t *ret_res);

/*
 * Register the functions for requests in the state HELD. Called each time the engine starts.
 */
void uaio_link_init(uaio_issue_held_fn *issue);

/*
 * Create a request of a chain, in the state PREPPED (not started).
 * Return: 0; -EAGAIN if memory is refused.
 */
int uaio_link_new(const struct uaio_submitter *by, const struct uaio_sqe *sqe,
		  struct uaio_req **ret_req);
/* Append req, which is new, to the chain whose last request is `last`. */
void uaio_link_append(struct uaio_req *last, struct uaio_req *req);

/*
 * All requests of a chain are submitted: start its first request. If is_late is set, or
 * a drain holds the chain (drain.h), the first request starts later. If is_broken,
 * complete all requests of the chain as cancelled instead. Other requests that may
 * start are appended to ret_later, for the caller to start when its submission ends.
 */
void uaio_link_begin(struct uaio_req *first, bool is_broken, bool is_late,
		     struct uaio_handover *handover, struct list *ret_later);

/*
 * The deferral of a RUNNING request (defer.h) is over, or a poll was changed (cancel.c, I6):
 * pass the request to send.c, which issues it. The queue's lock is held.
 */
void uaio_link_resume_locked(struct uaio_req *req, struct list *ret_startable);

/*
 * The submission or the change of a poll ends: start the requests in `later`, whose start
 * was put off until now.
 */
void uaio_link_start_later(struct list *later, struct uaio_handover *handover);

/*
 * For drain.c: start a chain that waited for a drain. drain.c has removed the chain from
 * group->held. The queue's lock is held.
 */
void uaio_link_release_locked(struct uaio_req *first,
			      struct list *ret_startable);

/* Functions for chain.c, which issues requests: */

/*
 * Return: whether no earlier request of the chain had to wait. In that case the
 * submitting thread issues req.
 */
bool uaio_link_is_here(const struct uaio_req *req);
/*
 * The caller has issued req, which is not complete, and will wait or go to a worker next:
 * start the timer that is linked to req.
 */
void uaio_link_goes(struct uaio_req *req);

/*
 * Functions for send.c and complete.c, called only for requests with a flag in sqe.links:
 */

/* Return: whether req was held, and so has to be issued or cancelled. */
bool uaio_link_was_held(const struct uaio_req *req);
/*
 * Issue req, unless it is to be cancelled.
 * Return: what req has to wait for; UAIO_NEXT_DONE if the caller must complete req, with
 * the result in *ret_res.
 */
enum uaio_next uaio_link_issue(struct uaio_req *req, int64_t *ret_res);
/*
 * Called when a request that was HELD has been issued: it now waits in another state,
 * or is complete. Since its release the request was counted as delaying the exit
 * (gate.h, I1): this function ends that.
 */
void uaio_link_started(void);

/*
 * Return: whether the next request of the chain is cancelled because req has the result
 * res.
 */
bool uaio_link_breaks(const struct uaio_req *req, int64_t res);
/*
 * req leaves its group (the requests of its queue). The queue's lock is held. Requests of
 * its chain that may start, or have to be cancelled, are appended to ret_startable.
 */
void uaio_link_leave_locked(struct uaio_req *req, bool breaks,
			    struct list *ret_startable);

/*
 * A function of struct uaio_flow_ops: a linked timer, which is RUNNING, has expired.
 * Cancel the request that the timer limits, and complete the request and the timer.
 */
void uaio_link_expire(struct uaio_req *timer);

#endif /* UAIO_FLOW_LINK_H */
