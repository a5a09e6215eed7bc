/* SPDX-License-Identifier: MIT */
/*
 * Operations on other requests: cancelling, removing and changing them
 *
 * Each is a request of the core that calls the door (op.h), so that it has its place
 * in a chain or behind a drain. What it is about is in its note.
 *
 *   I1  A poll is changed by being cancelled, of which its client does not hear, and
 *       submitted anew. One is changed at a time (updating).
 *   I2  What a request cancels is completed after the request itself, once its
 *       completion is posted and its note freed (note.h). So its completion is posted
 *       at once (posts_at_once): what follows in the submission finds none of the
 *       cancelled requests, and waits for none.
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
	/* files in the table */
	UAIO_URING_CLOSE_PLACE,
	UAIO_URING_UPDATE_PLACES,
	UAIO_URING_INSTALL,
	UAIO_URING_PIPE_PLACES,
	UAIO_URING_PROVIDE, /* buffers: kbuf.h */
	UAIO_URING_REMOVE,
	UAIO_URING_MSG, /* msg_ring.c */
};

enum {
	UAIO_URING_CANCEL_FLAGS =
		IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_FD |
		IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_FD_FIXED |
		IORING_ASYNC_CANCEL_USERDATA | IORING_ASYNC_CANCEL_OP,
};

/* Fill in entry->sqe and its note. Return: 0 or -ENOMEM. */
int uaio_uring_call_for(struct uaio_uring_entry *entry,
			enum uaio_uring_call call);
/* The request calls the door. That needs no note. */
void uaio_uring_call_door(struct uaio_uring_entry *entry,
			  enum uaio_uring_call call);

/* A function of struct uaio_called, which is the ring's. */
int64_t uaio_uring_called(struct uaio_called *called,
			  const struct uaio_sqe *sqe);

/* What a call of IORING_REGISTER_SYNC_CANCEL is to cancel. */
struct uaio_uring_aim {
	uint64_t user_data;
	uint32_t flags; /* IORING_ASYNC_CANCEL_* */
	int fd;
	uint8_t opcode;
};

/* Return: how many were cancelled, or 0 for one; or -errno. */
int uaio_uring_cancel(struct uaio_uring *ring,
		      const struct uaio_uring_aim *aim);

/* poll.c: what uaio_uring_called() does for POLL_UPDATE. Return: 0 or -errno. */
int uaio_uring_update_poll(struct uaio_uring *ring,
			   const struct uaio_uring_change *change);

/*
 * msg_ring.c: send a message of ring's, which is not held, or is NULL. Return: 0 or
 * -errno.
 */
int uaio_uring_send(struct uaio_uring *ring, const struct uaio_uring_msg *msg);

#endif /* UAIO_URING_CANCEL_H */
