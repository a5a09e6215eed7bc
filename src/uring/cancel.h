/* SPDX-License-Identifier: MIT */
/*
 * Operations on other requests: cancelling, removing and changing them
 *
 * Each such operation is a request. To execute the request, the core calls the io_uring
 * front-end (struct uaio_called in op.h). So the operation can be linked or drained
 * like any other request. Its note (note.h) says which requests it cancels, removes or
 * changes.
 *
 *   I1  As in the kernel, cancelled requests complete after the cancelling request:
 *       their completions are posted when the note of the cancelling request is freed.
 *       So the cancelling request's completion is posted at once (posts_at_once). Later
 *       submissions of the same io_uring_enter() call then neither find the cancelled
 *       requests nor wait for them.
 *   I2  In the same way a changed poll waits again, or completes, only after the
 *       completion of the changing request was posted.
 *
 * Tested by test-uring-cancel.c.
 */
#ifndef UAIO_URING_CANCEL_H
#define UAIO_URING_CANCEL_H

#include <stdint.h>

#include "uring/abi.h"

struct uaio_called;
struct uaio_sqe;
struct uaio_uring;
struct uaio_uring_change;
struct uaio_uring_entry;
struct uaio_uring_msg;
struct uaio_uring_note;

enum uaio_uring_call {
	UAIO_URING_CANCEL,
	UAIO_URING_POLL_REMOVE,
	UAIO_URING_POLL_UPDATE,
	UAIO_URING_TIMEOUT_REMOVE,
	UAIO_URING_TIMEOUT_UPDATE,
	/* operations on registered files */
	UAIO_URING_CLOSE_PLACE,
	UAIO_URING_UPDATE_PLACES,
	UAIO_URING_INSTALL,
	UAIO_URING_PIPE_PLACES,
	UAIO_URING_PROVIDE, /* operations on provided buffers: kbuf.h */
	UAIO_URING_REMOVE,
	UAIO_URING_MSG, /* a message: msg_ring.c */
};

enum {
	UAIO_URING_CANCEL_FLAGS =
		IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_FD |
		IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_FD_FIXED |
		IORING_ASYNC_CANCEL_USERDATA | IORING_ASYNC_CANCEL_OP,
};

/*
 * Make the entry a request with a note (note.h). To execute the request, the core calls
 * uaio_uring_called().
 * Return: 0 or -ENOMEM.
 */
int uaio_uring_call_for(struct uaio_uring_entry *entry,
			enum uaio_uring_call call);
/* Like uaio_uring_call_for(), but the request has no note. */
void uaio_uring_call_door(struct uaio_uring_entry *entry,
			  enum uaio_uring_call call);

/*
 * Execute a request that uaio_uring_call_for() or uaio_uring_call_door() has prepared.
 * This is the function `call` of struct uaio_called (op.h).
 */
int64_t uaio_uring_called(struct uaio_called *called,
			  const struct uaio_sqe *sqe);

/* Which requests to cancel, as a client describes them. */
struct uaio_uring_aim {
	uint64_t user_data;
	uint32_t flags; /* IORING_ASYNC_CANCEL_* */
	int fd;
	uint8_t opcode;
};

/*
 * Cancel requests.
 * Return: how many were cancelled; or -errno. If the aim is a single request: 0, or 1 if
 * the request was cancelled while it slept in its system call (futex, waitid).
 */
int uaio_uring_cancel(struct uaio_uring *ring,
		      const struct uaio_uring_aim *aim);

/*
 * poll.c: execute POLL_UPDATE for uaio_uring_called(). Return: its result, 0 or -errno.
 */
int uaio_uring_update_poll(struct uaio_uring *ring,
			   struct uaio_uring_change *change);

/*
 * msg_ring.c: send a message. ring: the sender's ring, which the caller does not hold
 * (ring.h, I2); NULL: the sender has no ring.
 * Return: 0 or -errno.
 */
int uaio_uring_send(struct uaio_uring *ring, const struct uaio_uring_msg *msg);

#endif /* UAIO_URING_CANCEL_H */
