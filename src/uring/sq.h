/* SPDX-License-Identifier: MIT */
/*
 * Submissions: taken from the ring, checked, and given to the core
 *
 *   I1  A submission is copied once, as the client may write there.
 *   I2  Each that is taken has one last completion. A mistake that the kernel finds
 *       before it begins with a request ends the call after that submission, unless
 *       the ring was made with SUBMIT_ALL or the submission is linked to the next.
 *
 * Context: the thread holds the ring.
 *
 * Tested by test-uring.c and test-uring-ops.c.
 */
#ifndef UAIO_URING_SQ_H
#define UAIO_URING_SQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op/args.h"
#include "uring/abi.h"

struct uaio_uring;
struct uaio_uring_note;
struct uaio_uring_row; /* opdef.h */
struct uaio_uring_rsrc;

/* A submission, and what becomes of it. */
struct uaio_uring_entry {
	struct uaio_uring *ring;
	const struct uaio_uring_row *row; /* NULL: there is no such operation */
	struct io_uring_sqe raw;          /* our copy */
	struct uaio_args args;            /* sqe's, if it has such */
	struct uaio_sqe sqe;              /* for the core */
	struct iovec iov;                 /* args', of a message */
	struct uaio_uring_note *note;     /* or NULL */
	/* Its registered file, while it is added; shares (ref); or NULL. */
	struct uaio_uring_rsrc *held;
	/* A mistake that shows when the request begins: its result. */
	int late_error;
	bool looks_up; /* other requests: what was submitted comes first */
};

static inline void *uaio_uring_pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* Return: the arguments of an entry, all 0, which it has from now on. */
static inline struct uaio_args *
uaio_uring_args_of(struct uaio_uring_entry *entry)
{
	entry->args = (struct uaio_args){ 0 };
	entry->sqe.args = &entry->args;
	return &entry->args;
}

/* Return: whether memory of the client can be read. */
bool uaio_uring_may_read(uint64_t addr, size_t bytes);

/*
 * Whether memory can be a client's at all, which the kernel asks before it begins with a
 * request; what is mapped there shows later. Return: 0; -EFAULT; -EINVAL: a vector
 * has too many bytes. The vectors themselves can be read.
 */
int uaio_uring_check_range(uint64_t addr, uint64_t bytes);
int uaio_uring_check_vectors(const struct iovec *iov, uint64_t nr);

/* Return: whether a request can be on fd. */
bool uaio_uring_may_use(int fd);

/* Return: the note of an entry, which is made if there is none; or NULL. */
struct uaio_uring_note *uaio_uring_note_for(struct uaio_uring_entry *entry);

/*
 * Return: whether a thread of the kernel's would begin it: with IOSQE_ASYNC, and behind a
 * drain.
 */
bool uaio_uring_begins_aside(const struct uaio_uring_entry *entry);

/* Take the only path of an operation. Return: 0 or why it is refused. */
int uaio_uring_take_path(struct uaio_uring_entry *entry);

/*
 * The request has a sleeper, by which this call finds it asleep.
 * Return: 0 or -ENOMEM.
 */
int uaio_uring_add_sleeper(struct uaio_uring_entry *entry);

/*
 * The memory of an entry is in the registered buffer that it names: use that.
 * Return: 0, also if it is not there, which is a late error; -ENOMEM.
 */
int uaio_uring_use_buffer(struct uaio_uring_entry *entry);
/* The same of vectors, which the caller has seen. Return: besides, -EINVAL. */
int uaio_uring_use_buffer_by(struct uaio_uring_entry *entry,
			     const struct iovec *iovs, uint64_t nr);

/*
 * Take up to nr submissions.
 * Return: how many were taken.
 */
uint32_t uaio_uring_submit(struct uaio_uring *ring, uint32_t nr);

#endif /* UAIO_URING_SQ_H */
