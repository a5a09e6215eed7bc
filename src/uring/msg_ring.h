/* SPDX-License-Identifier: MIT */
/*
 * Messages from one ring to another
 *
 * A request (IORING_OP_MSG_RING) has a completion of its client's choice posted to
 * another ring of the process, or to its own; or a registered file of its ring put in
 * a place of another ring's table.
 *
 *   I1  The sender finds the other ring by its descriptor and uses it (ring.h, I4). It
 *       does not hold it: two rings may send to each other at once, and the thread that
 *       holds the other may sleep. So what the holder counts stays as it is: nobody
 *       owes a message, and the ring may end as soon as the sender has posted it.
 *   I2  A ring that dies meanwhile takes the message, and nobody sees it.
 *
 * Tested by test-uring-msg.c.
 */
#ifndef UAIO_URING_MSG_RING_H
#define UAIO_URING_MSG_RING_H

#include <stdint.h>

struct uaio_uring;

/* What is sent, and where. */
struct uaio_uring_msg {
	uint64_t user_data; /* of the completion, as is res */
	uint32_t res;
	uint32_t command; /* IORING_MSG_* */
	uint32_t flags;   /* IORING_MSG_RING_* */
	uint32_t
		cqe_flags; /* of the completion; or a place for a file, and 1 */
	uint32_t place;    /* of a registered file */
	int fd;            /* of the other ring */
};

/* Send a message of ring's. The ring is not held. Return: 0 or -errno. */
int uaio_uring_send(struct uaio_uring *ring, const struct uaio_uring_msg *msg);

/* IORING_REGISTER_SEND_MSG_RING: by a thread that has no ring. */
long uaio_uring_send_blindly(const void *arg, uint32_t nr);

#endif /* UAIO_URING_MSG_RING_H */
