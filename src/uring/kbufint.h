/* SPDX-License-Identifier: MIT */
/* Groups of provided buffers, for kbuf.c and kbufreg.c: see kbuf.h. */
#ifndef UAIO_URING_KBUFINT_H
#define UAIO_URING_KBUFINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/slab.h"
#include "uring/abi.h"
#include "uring/kbuf.h"

struct uaio_sqe;
struct uaio_uring;
struct uaio_uring_note;

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

#endif /* UAIO_URING_KBUFINT_H */
