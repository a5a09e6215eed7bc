/* SPDX-License-Identifier: MIT */
/*
 * Links: requests that start when the previous one has completed
 *
 * A chain is a list of requests of one queue. Each but the first starts when the previous one
 * is complete: if that one succeeded (UAIO_LINK), or in any case (UAIO_LINK_HARD). A read or
 * write of fewer bytes than requested has not succeeded; a call about paths, attributes or
 * space always has, as in io_uring. If a request may not start, it completes as cancelled,
 * and so do all later ones. A linked timer (UAIO_OP_LINK_TIMER) runs concurrently with the
 * request before it, and cancels that request when it expires. If the request completes
 * first, the timer completes as cancelled.
 *
 *   I1  A request that has not started is HELD and has no file. Its descriptor, or the file
 *       registered at its index, is looked up when it starts. So neither closing a descriptor
 *       nor the end of the process (gate.h) waits for such a request, and cancelling all
 *       requests of a file does not find it. A child of fork() has none. If another thread
 *       closes the descriptor as the request starts, the request may use the next file that
 *       gets this descriptor.
 *   I2  req->after and req->before link the requests of a chain. They, and the state HELD,
 *       change under the group's lock. A request that has started has no before; only a
 *       linked timer has one until the timer or its request is complete.
 *   I3  A request leaves its chain when it leaves its group. From then on the next request
 *       belongs to the thread that completes the first: it is PREPPED, and on the list of
 *       requests that this thread starts after posting the event, or, if this is the
 *       submitting thread, when the submission ends (chain.h).
 *   I4  A thread that takes an expired linked timer owns the timer. Under the group's lock it
 *       finds the request by before, or finds that the request has left.
 *
 * Submission builds the chains (chain.h), and issues the requests.
 *
 * A thread with a descriptor table of its own (table.h) executes what it submits at once, one
 * request after the other; it has no chains.
 *
 * Context: any thread that has entered (entry.h).
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
 * Issue a PREPPED request that was held (chain.c). If the request parks, it counts as expected
 * (ready.h). Return: where the request goes next; if DONE, it is complete, with the result in
 * ret_res.
 */
typedef enum uaio_next uaio_issue_held_fn(struct uaio_req *req,
					  int64_t *ret_res);

/* Register the state HELD. Called each time the engine starts. */
void uaio_link_init(uaio_issue_held_fn *issue);

/* Create a PREPPED request of a chain. Return: 0; -EAGAIN if memory is refused. */
int uaio_link_new(const struct uaio_submitter *by, const struct uaio_sqe *sqe,
		  struct uaio_req **ret_req);
/* Append req, which is new, to the chain that ends with last. */
void uaio_link_append(struct uaio_req *last, struct uaio_req *req);

/*
 * All requests of a chain are submitted: start its first request, unless the chain is_late or
 * a drain; or, if it is_broken, complete all its requests as cancelled. Other requests that
 * may start are appended to ret_later, for the caller to start when its submission ends.
 */
void uaio_link_begin(struct uaio_req *first, bool is_broken, bool is_late,
		     struct uaio_handover *handover, struct list *ret_later);

/* Let a RUNNING request that was not executed be issued (defer.h). Its group is locked. */
void uaio_link_resume_locked(struct uaio_req *req, struct list *ret_startable);

/* The submission ends: start the requests that were put off (later). */
void uaio_link_start_later(struct list *later, struct uaio_handover *handover);

/*
 * For drain.c: a chain that a drain held, which drain.c has removed from group->held, may
 * start. The group's lock is held.
 */
void uaio_link_release_locked(struct uaio_req *first,
			      struct list *ret_startable);

/* For chain.c, which issues requests */

/*
 * Return: whether no earlier request of the chain had to wait; then the submitting thread
 * issues req.
 */
bool uaio_link_is_here(const struct uaio_req *req);
/* The caller has issued req, which is PREPPED and not complete: start its linked timer. */
void uaio_link_goes(struct uaio_req *req);

/*
 * For send.c and complete.c, about requests with a flag in sqe.links
 */

/* Return: whether req was held, and so has to be issued or cancelled. */
bool uaio_link_was_held(const struct uaio_req *req);
/* Issue req, or return DONE if it is to complete as cancelled. */
enum uaio_next uaio_link_issue(struct uaio_req *req, int64_t *ret_res);
/* A request that was held now waits elsewhere, or is complete. */
void uaio_link_started(void);

/* Return: whether req, with result res, keeps the next request from starting. */
bool uaio_link_breaks(const struct uaio_req *req, int64_t res);
/*
 * req leaves its group, whose lock is held. Requests of its chain that may start, or have to
 * be cancelled, are appended to ret_startable.
 */
void uaio_link_leave_locked(struct uaio_req *req, bool breaks,
			    struct list *ret_startable);

/*
 * A function of struct uaio_flow_ops: a linked timer, which is RUNNING, has expired. Cancel
 * its request, and complete both.
 */
void uaio_link_expire(struct uaio_req *timer);

#endif /* UAIO_FLOW_LINK_H */
