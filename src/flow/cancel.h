/* SPDX-License-Identifier: MIT */
/* Cancelling: see cancel.c. */
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
 * The group is being closed: cancel its requests that may wait for ever, that is,
 * those that wait for their file to be ready, and let no more begin to.
 */
void uaio_group_close(struct uaio_group *group);

/*
 * Cancel
 *  - the oldest pending request with this key,
 *  - all requests that are pending on the open file that fd refers to now,
 *  - all requests that are pending on file, to which the caller has a reference,
 *  - all pending requests.
 * Each cancelled request has its completion when this returns. The caller sees to
 * it that the queue stays.
 * Return: the first 0, the others how many were cancelled, at least 1; -EALREADY
 * if other threads execute or move on every request that is meant; -ENOENT if
 * there is none.
 */
int uaio_queue_cancel_one(struct uaio_queue *queue, uint64_t key);
int uaio_queue_cancel_fd(struct uaio_queue *queue, int fd);
int uaio_queue_cancel_file(struct uaio_queue *queue, struct uaio_file *file);
int uaio_queue_cancel_all(struct uaio_queue *queue);

/* What a door has cancelled, and is to complete. */
struct uaio_cancelled {
	/* of the thread that cancels; its requests are RUNNING */
	struct list requests;
	struct list startable; /* need not wait any longer */
};

/*
 * Which requests are to be cancelled, where a door has its own idea of that. Those of
 * chains, and behind drains, that have not begun are not asked about, as in io_uring.
 * is_meant is called with the queue's lock held; file is the request's, or NULL. Of
 * sqe it may look at op, data, key and word, which do not change.
 */
struct uaio_cancel_aim {
	bool (*is_meant)(const struct uaio_cancel_aim *aim,
			 const struct uaio_sqe *sqe,
			 const struct uaio_file *file);
	/*
	 * By what the requests that are meant can be found, if they have that in common:
	 * is_meant is not called for all others. UAIO_INDEX_NONE: it is called for all.
	 */
	enum uaio_index_by by;
	uint64_t key;
	bool is_one; /* only the oldest that can be cancelled */
	/* What the calling thread may not wait for goes on (waits.h, I4). */
	bool marks_none;
	/*
	 * A request that is about to be parked ends as cancelled instead, after this call
	 * has counted it as executed by another thread.
	 */
	bool ends_unparked;
	/*
	 * Borrows; or NULL. What is cancelled is added there, and the caller completes
	 * it soon, by uaio_cancelled_complete(). Until then it counts as executed by
	 * another thread.
	 */
	struct uaio_cancelled *ret_later;
};

/*
 * Return: as uaio_queue_cancel_file(). *ret_nr_others, unless NULL: how many are meant
 * that other threads execute or move on.
 */
int uaio_queue_cancel_meant(struct uaio_queue *queue,
			    const struct uaio_cancel_aim *aim,
			    int *ret_nr_others);

void uaio_cancelled_init(struct uaio_cancelled *cancelled);
/* Complete what is there, as cancelled. Context: no lock. */
void uaio_cancelled_complete(struct uaio_cancelled *cancelled);

#endif /* UAIO_FLOW_CANCEL_H */
