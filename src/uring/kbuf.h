/* SPDX-License-Identifier: MIT */
/*
 * Provided buffers: memory of the client, selected when a request is executed
 *
 * A ring has groups of buffers, each with a number. A group is a list, to which
 * requests add buffers (PROVIDE_BUFFERS), or an array, which the client fills in memory
 * that it has registered (REGISTER_PBUF_RING). A request that selects a buffer names
 * the group; the completion of the request names the buffer.
 *
 *   I1  A lock of the ring protects groups and buffers. If a thread makes a request's
 *       system call without blocking, it holds this lock from uaio_uring_pick() to
 *       uaio_uring_picked(). So the library, like the kernel, executes these requests
 *       of a ring one at a time, and no other request finds the group empty meanwhile.
 *       If the system call does not use the buffer, the buffer stays the first of its
 *       group.
 *   I2  A request whose system call may block owns its buffer from uaio_uring_pick()
 *       on, whatever the call returns, and whichever thread makes the call.
 *   I3  The client can write an array at any time. So the library reads each word of
 *       the array once per use, and a word only decides which memory of the client is
 *       used. The library keeps the index of the next buffer where the client cannot
 *       write. It reads up to 16 buffers ahead, because clients do not change entries
 *       that they have published. It also keeps the address and length of the unused
 *       part of an incremental buffer. It writes both to the array for the client,
 *       unless the client has changed the entry.
 *   I4  A group is freed under the lock, with its ring or earlier. After that the
 *       library does not touch the memory of the group's array, and waiting requests
 *       find no buffer.
 *
 * A child of fork() that takes over its parent's ring (share.h) has no groups.
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
struct uaio_batch;
struct uaio_file;
struct uaio_pieces;
struct uaio_sqe;
struct uaio_uring;
struct uaio_uring_entry;
struct uaio_uring_group;
struct uaio_uring_note;
struct uaio_uring_rest;

/* The groups of a ring. */
struct uaio_uring_groups {
	struct uaio_lock lock;
	/* under lock */
	/* owns: the list of groups; the most recently used group is the first */
	struct uaio_uring_group *first;
};

enum uaio_uring_choice_state {
	UAIO_URING_NOT_CHOSEN,
	/*
	 * the thread that makes the system call holds the lock of the buffers (I1)
	 */
	UAIO_URING_TRYING,
	UAIO_URING_KEPT, /* the request owns its buffer (I2) */
};

/*
 * The member of a note (note.h) for a request that selects a buffer, or provides or
 * removes buffers.
 */
struct uaio_uring_choice {
	/* immutable */
	/* borrows: lives until the request has completed */
	struct uaio_uring *ring;
	uint16_t group;
	/*
	 * the request is a bundle without provided buffers: it sends len bytes of the
	 * client's own memory, at addr
	 */
	bool is_own;

	/*
	 * The selected buffer, or the part of it that is used; written by the executing
	 * thread. In a request that provides or removes buffers: the first of the nr
	 * buffers, immutable.
	 */
	uint16_t bid;
	uint8_t state; /* enum uaio_uring_choice_state */
	uint32_t len;
	/* size of the whole buffer, of which len bytes are selected */
	uint32_t room;
	uint32_t nr;
	uint64_t addr;
	struct uaio_uring_group
		*of; /* the buffer's group, while in state TRYING */

	/* How many bytes a multishot request may still receive; 0: no limit. */
	uint32_t left;
	/* the request ends with this attempt, even if the attempt succeeds */
	bool is_last;
	/* an earlier attempt received data, or selected buffers to send */
	bool has_begun;

	/*
	 * The next members are for a bundle (bundle.c), which selects several buffers
	 * of the group.
	 */
	/*
	 * a buffer has more bytes than this receive may get, so the next receive must
	 * not share the completion of this one
	 */
	bool is_cut;
	/*
	 * this receive shares its completion with the previous receive; the completion
	 * names the first buffer of that receive
	 */
	bool is_added;
	bool uses_up; /* the selected buffers are all that the group has */
	uint16_t
		/*
		 * how many buffers to select if the number of bytes to transfer is
		 * unknown; 1 at first. If an attempt knows that number, and needs more
		 * than nr_had buffers, it stores in nr_had how many it selected.
		 */
		nr_had;
	/* bytes that the socket still has after a receive; 0: unknown */
	uint32_t known;
	/* owns: vectors for the next try, in state KEPT; or NULL */
	struct uaio_uring_rest *rest;
};

/* Called each time the engine (the library's core) starts. */
void uaio_uring_kbufs_init(void);
/* Called when a ring is made, and when it ends. */
void uaio_uring_groups_init(struct uaio_uring *ring);
void uaio_uring_groups_fini(struct uaio_uring *ring);

/* Functions of struct uaio_op_door (op.h), which the core calls. */
int uaio_uring_pick(const struct uaio_sqe *sqe, uint64_t max, bool may_block,
		    struct iovec *ret_iov);
void uaio_uring_picked(const struct uaio_sqe *sqe, int64_t res);
uint64_t uaio_uring_picked_bytes(const struct uaio_sqe *sqe);
void uaio_uring_keep_rest(const struct uaio_sqe *sqe, int64_t res);
bool uaio_uring_has_rest(const struct uaio_sqe *sqe);
bool uaio_uring_is_last(const struct uaio_sqe *sqe);
bool uaio_uring_has_begun(const struct uaio_sqe *sqe);

/*
 * Functions of struct uaio_op_door for bundles, whose memory is in several pieces
 * (bundle.c).
 */
int uaio_uring_pick_pieces(const struct uaio_sqe *sqe, uint64_t known,
			   bool may_block, struct uaio_pieces *ret_pieces);
int64_t uaio_uring_picked_pieces(const struct uaio_sqe *sqe,
				 const struct uaio_pieces *pieces, int64_t res,
				 bool keeps);
bool uaio_uring_bundle_goes_on(const struct uaio_sqe *sqe, uint64_t bytes,
			       uint64_t known);
void uaio_uring_bundles_init(void);
/*
 * Free the memory that a bundle has kept for later tries. Called when its request ends.
 */
void uaio_uring_bundle_drop(struct uaio_uring_choice *choice);

/*
 * Prepare a request with IOSQE_BUFFER_SELECT: make its note, and set by_door, so that
 * the core calls the front-end to select a buffer.
 * Return: 0 or -ENOMEM.
 */
int uaio_uring_prep_select(struct uaio_uring_entry *entry);
/*
 * Prepare a bundle that sends the client's own memory: make its note, and set by_door.
 * Return: 0 or -ENOMEM.
 */
int uaio_uring_prep_own_bundle(struct uaio_uring_entry *entry);

/*
 * Check that a read which is about to be submitted outside a chain finds a buffer. The
 * kernel tries such a read at once, and so reports an empty group at once. Not checked
 * here: a read of a stream that polls first. A read of a regular file, or with a buffer
 * of a list, owns its buffer from now on; other reads select their buffer when they are
 * executed. *file: from uaio_look_up(); looked up again before it is refused.
 * Return: 0, or the error with which the read fails.
 */
int uaio_uring_select_first(struct uaio_batch *batch,
			    struct uaio_uring_entry *entry,
			    struct uaio_file **file);

/*
 * Check that a multishot receive finds a buffer. The kernel tries the receive at once,
 * and so reports an empty group at once. The library tries the receive only when a
 * thread waits or the socket is ready, so it needs this check at submission. Not
 * checked here: a receive that a worker begins, that must not wait, or that polls
 * first.
 * Return: 0, or the error with which the receive fails.
 */
int uaio_uring_room_first(const struct uaio_sqe *sqe,
			  const struct uaio_file *file);

/* Execute a request that provides or removes buffers. Return: its result. */
int64_t uaio_uring_provide(const struct uaio_uring_choice *buffers);
int64_t uaio_uring_remove(const struct uaio_uring_choice *buffers);

/* Parts of io_uring_register(); the caller holds the ring. */
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

/* A buffer of an array, read ahead of its use. */
struct uaio_uring_ahead {
	uint64_t addr;
	uint32_t len;
	uint16_t bid;
};

enum { UAIO_URING_NR_AHEAD = 16 };

/*
 * A group of buffers. The lock of the ring's groups protects a group; callers of the
 * functions below hold this lock.
 */
struct uaio_uring_group {
	struct uaio_slab_node node;
	struct uaio_uring_group *next;
	uint16_t id;

	/* The list of buffers; empty if the group is an array. */
	uint32_t nr;
	struct uaio_uring_buffer *first, *last; /* owns */

	/* The array; NULL: the group is a list. The client can write the array. */
	struct io_uring_buf_ring *array;
	/*
	 * size of the library's own mapping of the array; 0: the array is in memory of
	 * the client, which may unmap it
	 */
	size_t own_bytes;
	uint16_t mask;
	/* index of the next buffer; & mask gives its slot in the array */
	uint16_t head;
	bool is_incremental;
	uint32_t
		/*
		 * an incremental buffer with fewer than min_left bytes left counts as
		 * used up; 0: no minimum
		 */
		min_left;

	/*
	 * Entries of the array, read ahead of their use. Before the library reads the
	 * array, a system call checks that the memory is mapped. To save system calls,
	 * the library then reads several entries. ahead_of: index of the first entry in
	 * `ahead`, counted like `head`.
	 */
	uint16_t ahead_of, nr_ahead;
	struct uaio_uring_ahead ahead[UAIO_URING_NR_AHEAD];
	/*
	 * The unused part of the next buffer, if this buffer is incremental and partly
	 * used.
	 */
	bool is_begun;
	struct uaio_uring_ahead rest;

	struct uaio_check_provided provided; /* for kbufcheck.c */
};

void uaio_uring_groups_lock(struct uaio_uring *ring);
void uaio_uring_groups_unlock(struct uaio_uring *ring);

/* Return: the group with that number; NULL if there is none. */
struct uaio_uring_group *uaio_uring_group_find(struct uaio_uring *ring,
					       uint32_t id);
/* Return: a new group, which is an empty list; NULL if memory is refused. */
struct uaio_uring_group *uaio_uring_group_new(struct uaio_uring *ring,
					      uint16_t id);
void uaio_uring_group_free(struct uaio_uring *ring,
			   struct uaio_uring_group *group);

/*
 * Return: how many buffers an array has. After the client has unmapped the array, only a
 * partly used buffer is left, which `rest` describes: then 1 if there is one, else 0.
 */
unsigned uaio_uring_array_nr(const struct uaio_uring_group *group);
/*
 * Read the buffer `after` positions past the next one.
 * Return: whether there is such a buffer; *ret describes it.
 */
bool uaio_uring_array_look(struct uaio_uring_group *group, unsigned after,
			   struct uaio_uring_choice *ret);
/* Return: whether there is a next buffer, in a list or an array; *ret: the buffer. */
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
 * Consume `bytes` bytes of the group's next buffer, which `choice` describes.
 * Return: whether the buffer is used up, so that the next one follows.
 */
bool uaio_uring_use_up(struct uaio_uring_group *group,
		       const struct uaio_uring_choice *choice, uint32_t bytes);
/*
 * Let the completion name the used buffer, and say whether some of the buffer is left.
 */
void uaio_uring_tell_buffer(struct uaio_uring_note *note, bool is_used_up);
void uaio_uring_tell_none(struct uaio_uring_note *note);
/* Subtract what an attempt has received from the limit of a multishot request. */
static inline void uaio_uring_count_bytes(struct uaio_uring_choice *choice,
					  int64_t res)
{
	if (res <= 0)
		return;
	choice->has_begun = true;
	if (likely(!choice->left))
		return;
	/*
	 * As in the kernel, a limit beyond INT_MAX ends the request after the first
	 * receive.
	 */
	choice->left =
		res < (int32_t)choice->left ? choice->left - (uint32_t)res : 0;
	choice->is_last |= !choice->left;
}

/* Return: the error for a request whose group does not exist or is empty. */
int uaio_uring_no_group(const struct uaio_sqe *sqe);

/*
 * Versions of uaio_uring_pick() and similar functions, for programs that run under
 * uaio-check(1) (kbufcheck.c)
 */

/* Functions of struct uaio_op_door. */
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

/* Tell check/ that nr buffers were added to a list, or that some were removed. */
void uaio_uring_check_provided(struct uaio_uring_group *group,
			       const struct uaio_uring_choice *what,
			       uint32_t nr);
void uaio_uring_check_removed(struct uaio_uring_group *group);

#endif /* UAIO_URING_KBUF_H */
