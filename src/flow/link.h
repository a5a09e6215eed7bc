/* SPDX-License-Identifier: MIT */
/*
 * Links: requests that start when the one before has completed
 *
 * A chain is a number of requests of one queue, of which each but the first
 * starts when the one before it is complete: if that has succeeded (UAIO_LINK),
 * or in any case (UAIO_LINK_HARD). A read or write of fewer bytes than were asked
 * for has not succeeded; a call about paths, attributes or space always has, as
 * in io_uring. If a request may not start, it completes as cancelled,
 * and so do all after it. A linked timer (UAIO_OP_LINK_TIMER) does not wait for
 * the request before it, but runs beside that, and cancels it when its time has
 * come. If the request is complete sooner, the timer completes as cancelled.
 *
 *   I1  A request that has not started is HELD, and has no file: its descriptor
 *       is looked up when it starts, or what its door has fixed at its place
 *       then. So closing a descriptor waits for no such request, nor does the end
 *       of the process (gate.h), and cancelling all requests of a file does not
 *       find it. In a child of fork() there is none.
 *       A request that starts while another thread closes its descriptor may find
 *       the file that gets the number next.
 *   I2  after and before join a request with the one after it in its chain. They,
 *       and the state HELD, change under the group's lock. A request that has
 *       started has no before, unless it is a linked timer; that has one until
 *       either is complete.
 *   I3  A request leaves its chain when it leaves its group. From then on the one
 *       after it belongs to the thread that completes the request; it is PREPPED,
 *       and on the list of those that this thread starts after the event, or, if it is
 *       the submitting thread, when the submission ends (chain.h).
 *   I4  A linked timer that is due is its thread's, which finds the request by
 *       before under the group's lock, or finds that it has left.
 *
 * Submission builds the chains (chain.h), and issues the requests.
 *
 * A thread with a descriptor table of its own (table.h) executes what it submits
 * at once, one after the other; it has no chains.
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
 * Issue a PREPPED request that was held (chain.c). If it parks, it is expected
 * (ready.h). Return: what became of it; ret_res: its result, if it is DONE.
 */
typedef enum uaio_next uaio_issue_held_fn(struct uaio_req *req,
					  int64_t *ret_res);

/* Register the state HELD. Called each time the engine starts. */
void uaio_link_init(uaio_issue_held_fn *issue);

/*
 * Create a request of a chain, PREPPED, without a file.
 * Return: 0; -EAGAIN if memory is refused.
 */
int uaio_link_new(const struct uaio_submitter *by, const struct uaio_sqe *sqe,
		  struct uaio_req **ret_req);
/* Put req, which is new, behind the last of a chain. */
void uaio_link_append(struct uaio_req *last, struct uaio_req *req);

/*
 * A chain is complete: start its first request, unless it is_late or a drain; or, if it
 * is_broken, complete all as cancelled. What may start besides is appended to ret_later:
 * the caller starts that when its submission ends.
 */
void uaio_link_begin(struct uaio_req *first, bool is_broken, bool is_late,
		     struct uaio_handover *handover, struct list *ret_later);

/*
 * A RUNNING request that has not been executed is to be issued (defer.h). The lock of its
 * group is held.
 */
void uaio_link_resume_locked(struct uaio_req *req, struct list *ret_startable);

/* The submission ends: start what was left until now. */
void uaio_link_start_later(struct list *later, struct uaio_handover *handover);

/*
 * For drain.c: a chain that a drain held may start; it is no more in the list of
 * those. The group's lock is held.
 */
void uaio_link_release_locked(struct uaio_req *first,
			      struct list *ret_startable);

/*
 * For chain.c, about a request that it issues
 */

/* Return: whether nothing of its chain has had to wait: the submitter issues it. */
bool uaio_link_is_here(const struct uaio_req *req);
/*
 * The caller has issued req, which is PREPPED and not complete: its linked timer
 * begins.
 */
void uaio_link_goes(struct uaio_req *req);

/*
 * For send.c and complete.c, about requests with a flag in sqe.links
 */

/* Return: whether req was held: it is to be issued, or to be cancelled. */
bool uaio_link_was_held(const struct uaio_req *req);
/* Issue it, or find that it is to be cancelled. */
enum uaio_next uaio_link_issue(struct uaio_req *req, int64_t *ret_res);
/* It is where it waits, or complete, and has let others start. */
void uaio_link_started(void);

/* Return: whether the request after req may not start, since res is its result. */
bool uaio_link_breaks(const struct uaio_req *req, int64_t res);
/*
 * req leaves its group, whose lock is held. The requests that may start, or are to
 * be cancelled, are appended to ret_startable.
 */
void uaio_link_leave_locked(struct uaio_req *req, bool breaks,
			    struct list *ret_startable);

/*
 * A function of struct uaio_flow_ops: a linked timer, RUNNING, is due. Cancel its
 * request, and complete both.
 */
void uaio_link_expire(struct uaio_req *timer);

#endif /* UAIO_FLOW_LINK_H */
