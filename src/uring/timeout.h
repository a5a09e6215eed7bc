/* SPDX-License-Identifier: MIT */
/*
 * Timeouts, of which some end after so many completions
 *
 *   I1  A timeout that counts is in the ring's list from before it is submitted until
 *       its completion, and so is its note. It counts what completes from the beginning
 *       of its submission on, as the kernel posts that at the end of it, also if it
 *       is the first of a chain. One behind another in a chain, or behind a drain, is
 *       there from when it starts: what completes before does not count.
 *   I2  The post that makes a timeout due marks it, under the queue's lock. A thread
 *       without locks cancels what is marked: after the post (act), or, for inline
 *       completions, at the end of the submission. A timeout that was marked before it
 *       waits is found by its submitter, at that end, or by the thread that starts it.
 *
 * Tested by test-uring-timeout.c.
 */
#ifndef UAIO_URING_TIMEOUT_H
#define UAIO_URING_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_queue;
struct uaio_sqe;
struct uaio_uring;
struct uaio_uring_note;

/*
 * A timeout with a count is about to be submitted, and counts from when there were so
 * many events; or was refused.
 */
void uaio_uring_count(struct uaio_uring *ring, struct uaio_uring_note *note,
		      uint32_t from);
void uaio_uring_uncount(struct uaio_uring *ring, struct uaio_uring_note *note);
void uaio_uring_uncount_locked(struct uaio_uring *ring,
			       struct uaio_uring_note *note);

/* Mark what is due. The queue's lock is held. */
void uaio_uring_find_reached_locked(struct uaio_uring *ring);
/* End what is marked. */
void uaio_uring_end_reached(struct uaio_uring *ring);
/* Functions of struct uaio_sink. */
int64_t uaio_uring_cancelled(const struct uaio_sqe *sqe);
void uaio_uring_starts(struct uaio_queue *queue, const struct uaio_sqe *sqe);
void uaio_uring_act(struct uaio_queue *queue);

/* What uaio_uring_called() does for TIMEOUT_UPDATE. Return: 0 or -errno. */
int uaio_uring_update_timeout(struct uaio_uring *ring,
			      const struct uaio_uring_note *note);

#endif /* UAIO_URING_TIMEOUT_H */
