/* SPDX-License-Identifier: MIT */
/*
 * Cancelling requests, wherever they wait, and changing polls. The invariants are in
 * cancel.c.
 */
#ifndef UAIO_FLOW_CANCEL_H
#define UAIO_FLOW_CANCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "req/index.h"

struct uaio_file;
struct uaio_group;
struct uaio_queue;
struct uaio_sqe;

/*
 * The group (the requests of one queue) is being closed: cancel its requests that may wait
 * for ever, for example until a file is ready. From now on no request of the group begins
 * such a wait.
 */
void uaio_group_close(struct uaio_group *group);

/*
 * Cancel, in the order of the declarations,
 *  - the oldest pending request whose member sqe.key has the value `key`,
 *  - all requests that are pending on the open file that fd refers to now,
 *  - all requests that are pending on `file`, to which the caller has a reference,
 *  - all pending requests.
 *
 * When the function returns, the completion of each cancelled request is posted. The caller
 * ensures that the queue is not freed meanwhile.
 * Return: uaio_queue_cancel_one(): 0; the other functions: the number of cancelled
 * requests, at least 1. -EALREADY if each matching request is owned by another thread,
 * which executes it or moves it to another state; -ENOENT if no request matches.
 */
int uaio_queue_cancel_one(struct uaio_queue *queue, uint64_t key);
int uaio_queue_cancel_fd(struct uaio_queue *queue, int fd);
int uaio_queue_cancel_file(struct uaio_queue *queue, struct uaio_file *file);
int uaio_queue_cancel_all(struct uaio_queue *queue);

/*
 * Requests that a front-end has cancelled. The front-end then completes them by
 * uaio_cancelled_complete().
 */
struct uaio_cancelled {
	/* cancelled requests: RUNNING, and owned by the cancelling thread */
	struct list requests;
	/* requests that waited for a cancelled request and may start now */
	struct list startable;
};

/*
 * A front-end's own criterion for which requests to cancel. As in io_uring, requests that
 * have not started (in a chain or behind a drain) do not match. is_meant is called with
 * the queue's lock held; `file` is the request's file, or NULL. The function may read
 * only the members `op`, `data`, `key` and `word` of sqe, because the other members may
 * change meanwhile.
 */
struct uaio_cancel_aim {
	bool (*is_meant)(const struct uaio_cancel_aim *aim,
			 const struct uaio_sqe *sqe,
			 const struct uaio_file *file);
	/*
	 * The index in which all matching requests have the value `key`; is_meant is
	 * called only for requests found there. UAIO_INDEX_NONE: is_meant is called for
	 * all requests.
	 */
	enum uaio_index_by by;
	uint64_t key;
	/* cancel only one request: the oldest match that can be cancelled */
	bool is_one;
	/*
	 * If a matching request is about to be parked (to wait until its file is ready), it
	 * ends as cancelled instead. The result of this call counts such a request as executed
	 * by another thread.
	 */
	bool ends_unparked;
	/*
	 * Borrows; or NULL. Cancelled requests are added to this list, and the caller soon
	 * completes them by uaio_cancelled_complete(). Until then other cancellers count these
	 * requests as executed by another thread.
	 */
	struct uaio_cancelled *ret_later;
};

/*
 * Return: as for uaio_queue_cancel_file(). *ret_nr_others, unless NULL: how many matching
 * requests were not cancelled because other threads execute them or move them to another
 * state.
 */
int uaio_queue_cancel_meant(struct uaio_queue *queue,
			    const struct uaio_cancel_aim *aim,
			    int *ret_nr_others);

/* Which poll to change, and how. */
struct uaio_poll_change {
	/* sqe.data of the poll; and its new value, if sets_data */
	uint64_t data, new_data;
	uint64_t events; /* if sets_events: the new sqe.events */
	bool sets_data, sets_events;
};

/*
 * Change the oldest poll that matches and waits (cancel.c, I6). The poll is appended to
 * ret_changed, and does not wait again before the caller passes the list to
 * uaio_changed_start(). If another thread is trying the poll, wait until the try is over.
 * Return: 0; -EALREADY if each matching poll is about to end or to wait; -ENOENT if no poll
 * matches.
 */
int uaio_queue_change_poll(struct uaio_queue *queue,
			   const struct uaio_poll_change *change,
			   struct list *ret_changed);
/*
 * Let the poll in this list wait for its events, or complete it, if it is ready or a
 * canceller wants it to end.
 * Context: no lock is held.
 */
void uaio_changed_start(struct list *changed);

void uaio_cancelled_init(struct uaio_cancelled *cancelled);
/*
 * Complete the cancelled requests, and start the requests that no longer have to wait.
 * Context: no lock is held.
 */
void uaio_cancelled_complete(struct uaio_cancelled *cancelled);

#endif /* UAIO_FLOW_CANCEL_H */
