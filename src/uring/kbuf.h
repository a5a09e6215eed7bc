/* SPDX-License-Identifier: MIT */
/*
 * Provided buffers: memory of the client's that is chosen when a request is executed
 *
 * A ring has groups of buffers, each with a number. A group is a list, to which
 * requests add buffers (PROVIDE_BUFFERS), or an array, which the client fills in
 * memory that it has registered (REGISTER_PBUF_RING). A request that selects a buffer
 * names its group, and its completion names the buffer.
 *
 *   I1  Groups and their buffers are under a lock of the ring's. A request that tries
 *       a call which does not block holds it from pick() to picked(): in the kernel as
 *       well a ring's requests are executed one at a time. So a buffer that is not
 *       used stays the first one, and nobody finds its group empty meanwhile.
 *   I2  A request whose call may block has its buffer for good once it has picked,
 *       whatever becomes of the call, and whatever thread makes it.
 *   I3  Each word of an array is read once for each use, and says nothing but which
 *       memory of the client's is used. The place of the next buffer is ours. Up to
 *       16 buffers are read before they are used, since the client leaves what
 *       it has given alone. What remains of an incremental one is ours as well; the
 *       client is shown it in the array, while that has what we have left there.
 *   I4  A group ends under the lock, with its ring or before. After that no memory of
 *       the client's is touched for it; requests that wait find no buffer.
 *
 * A child of fork() that takes over its parent's ring (share.h) has none of its
 * groups.
 *
 * Tested by test-uring-pbuf.c.
 */
#ifndef UAIO_URING_KBUF_H
#define UAIO_URING_KBUF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "uring/abi.h"

struct iovec;
struct uaio_file;
struct uaio_pieces;
struct uaio_sqe;
struct uaio_uring;
struct uaio_uring_entry;
struct uaio_uring_group;
struct uaio_uring_rest;

/* Of a ring. */
struct uaio_uring_groups {
	struct uaio_lock lock;
	/* under lock */
	struct uaio_uring_group *first; /* owns; the one that was used last */
};

enum uaio_uring_choice_state {
	UAIO_URING_NOT_CHOSEN,
	UAIO_URING_TRYING, /* its thread holds the lock (I1) */
	UAIO_URING_KEPT,   /* I2 */
};

/* Of a request that selects, or one that provides or removes: in its note. */
struct uaio_uring_choice {
	/* immutable */
	struct uaio_uring *ring; /* borrows: the request owes it a completion */
	uint16_t group;
	bool is_own; /* a bundle of no buffers: len bytes of the client's at addr */

	/*
	 * Of the thread that executes it: a buffer, or what is chosen of it. Of one
	 * that provides or removes they are immutable, and the first of nr.
	 */
	uint16_t bid;
	uint8_t state; /* enum uaio_uring_choice_state */
	uint32_t len;
	uint32_t room; /* the whole buffer's, of which len is chosen */
	uint32_t nr;
	uint64_t addr;
	struct uaio_uring_group *of; /* while TRYING */

	/* A multishot request ends when it has received so many bytes; 0: it does not. */
	uint32_t left;
	bool is_last;   /* it ends with this shot, though that has succeeded */
	bool has_begun; /* it has had a shot */

	/*
	 * Of a bundle (bundle.c), which has several buffers: from the next of the group
	 * on, of which the last may be used in part.
	 */
	bool is_cut; /* and is, so that nothing may be added behind it */
	bool is_added; /* this is what a completion has behind what it had first */
	bool uses_up; /* no buffer would be left, were all of these used */
	uint16_t
		nr_had; /* so many at once, when it knew of as much; at first 1 */
	uint32_t known; /* so many bytes are known to be there, after a shot */
	struct uaio_uring_rest *rest; /* owns; in state KEPT, or NULL */
};

/* Called each time the engine starts. */
void uaio_uring_kbufs_init(void);
/* Around each life of a ring. */
void uaio_uring_groups_init(struct uaio_uring *ring);
void uaio_uring_groups_fini(struct uaio_uring *ring);

/* Functions of struct uaio_op_door (op.h). */
int uaio_uring_pick(const struct uaio_sqe *sqe, uint64_t max, bool may_block,
		    struct iovec *ret_iov);
void uaio_uring_picked(const struct uaio_sqe *sqe, int64_t res);
uint64_t uaio_uring_picked_bytes(const struct uaio_sqe *sqe);
void uaio_uring_keep_rest(const struct uaio_sqe *sqe, int64_t res);
bool uaio_uring_has_rest(const struct uaio_sqe *sqe);
bool uaio_uring_is_last(const struct uaio_sqe *sqe);
bool uaio_uring_has_begun(const struct uaio_sqe *sqe);

/* The same in pieces: bundles (bundle.c). */
int uaio_uring_pick_pieces(const struct uaio_sqe *sqe, uint64_t known,
			   bool may_block, struct uaio_pieces *ret_pieces);
int64_t uaio_uring_picked_pieces(const struct uaio_sqe *sqe,
				 const struct uaio_pieces *pieces, int64_t res,
				 bool keeps);
bool uaio_uring_bundle_goes_on(const struct uaio_sqe *sqe, uint64_t bytes,
			       uint64_t known);
void uaio_uring_bundles_init(void);
/* A request ends: drop what it has kept of a bundle. */
void uaio_uring_bundle_drop(struct uaio_uring_choice *choice);

/*
 * A submission selects a buffer (IOSQE_BUFFER_SELECT): make its note, and set by_door.
 * Return: 0 or -ENOMEM.
 */
int uaio_uring_prep_select(struct uaio_uring_entry *entry);
/* The same of a bundle of sends that selects none. */
int uaio_uring_prep_own_bundle(struct uaio_uring_entry *entry);

/*
 * A read that selects is about to be submitted, and is in no chain. The kernel tries it
 * at once, unless it polls first, so that it is told now if there is no buffer. Reads of
 * regular files have theirs from now on, and so have those from a list.
 * Return: 0 or -errno.
 */
int uaio_uring_select_first(struct uaio_uring_entry *entry,
			    struct uaio_file *file);

/*
 * The same of a receive with many shots, which is first tried when a thread waits, or
 * its socket is ready, though the kernel finds at once that there is no room. One that a
 * worker is to begin, that must not wait, or that polls first, looks for room when it
 * receives.
 */
int uaio_uring_room_first(const struct uaio_sqe *sqe,
			  const struct uaio_file *file);

/* Provide or remove buffers. Return: the result. */
int64_t uaio_uring_provide(const struct uaio_uring_choice *buffers);
int64_t uaio_uring_remove(const struct uaio_uring_choice *buffers);

/* Of io_uring_register(); the ring is held. */
long uaio_uring_register_array(struct uaio_uring *ring, const void *arg,
			       uint32_t nr);
long uaio_uring_unregister_array(struct uaio_uring *ring, const void *arg,
				 uint32_t nr);
long uaio_uring_array_status(struct uaio_uring *ring, const void *arg,
			     uint32_t nr);

#endif /* UAIO_URING_KBUF_H */
