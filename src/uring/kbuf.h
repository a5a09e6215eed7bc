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
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/slab.h"
#include "op/op.h"
#include "check/check.h"
#include "uring/abi.h"

struct iovec;
struct uaio_file;
struct uaio_pieces;
struct uaio_sqe;
struct uaio_uring;
struct uaio_uring_entry;
struct uaio_uring_group;
struct uaio_uring_note;
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

/*
 * Groups of buffers, for kbuf.c, kbufreg.c and bundle.c
 */

/* A buffer of a list. */
struct uaio_uring_buffer {
	struct uaio_slab_node node;
	struct uaio_uring_buffer *next;
	uint64_t addr;
	uint32_t len;
	uint16_t bid;
};

/* A buffer of an array that was read before it is used. */
struct uaio_uring_ahead {
	uint64_t addr;
	uint32_t len;
	uint16_t bid;
};

enum { UAIO_URING_NR_AHEAD = 16 };

/* Under the lock of its ring's groups, as are all functions below. */
struct uaio_uring_group {
	struct uaio_slab_node node;
	struct uaio_uring_group *next;
	uint16_t id;

	/* a list; or, with none on it, an array */
	uint32_t nr;
	struct uaio_uring_buffer *first, *last; /* owns */

	/* NULL: a list. The client can write it. */
	struct io_uring_buf_ring *array;
	size_t own_bytes; /* 0: the client's memory, which it may unmap */
	uint16_t mask;
	uint16_t head; /* of the next buffer: counts on beyond mask */
	bool is_incremental;
	uint32_t
		min_left; /* an incremental buffer with less is used up; or 0 */

	/*
	 * Of an array: what was read ahead, for before each reading the kernel is asked
	 * whether the memory is there. The first of them has place ahead_of, counted
	 * as head.
	 */
	uint16_t ahead_of, nr_ahead;
	struct uaio_uring_ahead ahead[UAIO_URING_NR_AHEAD];
	/* Of an incremental one: what remains of the next buffer, if it is begun. */
	bool is_begun;
	struct uaio_uring_ahead rest;

	struct uaio_check_provided provided; /* of kbufcheck.c */
};

void uaio_uring_groups_lock(struct uaio_uring *ring);
void uaio_uring_groups_unlock(struct uaio_uring *ring);

/* Return: the group with that number; NULL: there is none. */
struct uaio_uring_group *uaio_uring_group_find(struct uaio_uring *ring,
					       uint32_t id);
/* Return: a new one, an empty list; NULL if memory is refused. */
struct uaio_uring_group *uaio_uring_group_new(struct uaio_uring *ring,
					      uint16_t id);
void uaio_uring_group_free(struct uaio_uring *ring,
			   struct uaio_uring_group *group);

/*
 * Return: how many buffers an array has. Its memory may have been unmapped: then none, but
 * for one that is begun.
 */
unsigned uaio_uring_array_nr(const struct uaio_uring_group *group);
/* Return: whether it has a buffer so many after the next one, which is looked at. */
bool uaio_uring_array_look(struct uaio_uring_group *group, unsigned after,
			   struct uaio_uring_choice *ret);
/* Return: whether any group has a next buffer, which is looked at. */
static inline bool uaio_uring_look(struct uaio_uring_group *group,
				   struct uaio_uring_choice *ret)
{
	const struct uaio_uring_buffer *buffer = group->first;

	if (group->array)
		return uaio_uring_array_look(group, 0, ret);
	if (!buffer)
		return false;
	ret->addr = buffer->addr;
	ret->len = buffer->len;
	ret->bid = buffer->bid;
	return true;
}

static inline bool uaio_uring_is_send(const struct uaio_sqe *sqe)
{
	return sqe->key == IORING_OP_SEND;
}

/*
 * So many bytes of the next buffer, which is that of choice, are used.
 * Return: whether it is used up, and so not the next any more.
 */
bool uaio_uring_use_up(struct uaio_uring_group *group,
		       const struct uaio_uring_choice *choice, uint32_t bytes);
/* The completion says which buffer was used, and whether there is more of it. */
void uaio_uring_tell_buffer(struct uaio_uring_note *note, bool is_used_up);
void uaio_uring_tell_none(struct uaio_uring_note *note);
/* A shot has had the result res: count it among the bytes that it may receive. */
static inline void uaio_uring_count_bytes(struct uaio_uring_choice *choice,
					  int64_t res)
{
	if (res <= 0)
		return;
	choice->has_begun = true;
	if (likely(!choice->left))
		return;
	/* As in the kernel, one that is no int ends with its first shot. */
	choice->left =
		res < (int32_t)choice->left ? choice->left - (uint32_t)res : 0;
	choice->is_last |= !choice->left;
}

/* Return: the error of a request whose group there is not, or is empty. */
int uaio_uring_no_group(const struct uaio_sqe *sqe);

/*
 * Where requests are checked (kbufcheck.c)
 */

/* The same functions of struct uaio_op_door. */
int uaio_uring_checked_pick(const struct uaio_sqe *sqe, uint64_t max,
			    bool may_block, struct iovec *ret_iov);
void uaio_uring_checked_picked(const struct uaio_sqe *sqe, int64_t res);
void uaio_uring_checked_keep_rest(const struct uaio_sqe *sqe, int64_t res);
int uaio_uring_checked_pick_pieces(const struct uaio_sqe *sqe, uint64_t known,
				   bool may_block,
				   struct uaio_pieces *ret_pieces);
int64_t uaio_uring_checked_picked_pieces(const struct uaio_sqe *sqe,
					 const struct uaio_pieces *pieces,
					 int64_t res, bool keeps);
void uaio_uring_checked_submitted(const struct uaio_sqe *sqe);

/* nr buffers were added to a list; or some were removed. */
void uaio_uring_check_provided(struct uaio_uring_group *group,
			       const struct uaio_uring_choice *what,
			       uint32_t nr);
void uaio_uring_check_removed(struct uaio_uring_group *group);

#endif /* UAIO_URING_KBUF_H */
