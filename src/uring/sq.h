/* SPDX-License-Identifier: MIT */
/*
 * Submissions: copied from the ring, checked, translated, and given to the core
 *
 *   I1  The library copies a submission once, because the client may overwrite the
 *       entry at any time.
 *   I2  Each accepted submission gets exactly one last completion. As in the kernel,
 *       an error that is found before the request starts ends the call, which then
 *       accepts no further submission. Exceptions: the ring has
 *       IORING_SETUP_SUBMIT_ALL, or the submission is linked to the next.
 *
 * Context: the thread holds the ring (ring.h, I2).
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

/* A submission on its way to the core. */
struct uaio_uring_entry {
	struct uaio_uring *ring;
	/* NULL: the opcode is not supported */
	const struct uaio_uring_row *row;
	struct io_uring_sqe raw; /* copy of the client's submission */
	struct uaio_args args;   /* sqe.args points here, or is NULL */
	struct uaio_sqe sqe;     /* the translated submission */
	struct iovec iov;        /* a message's vector: args.in points here */
	struct uaio_uring_note *note; /* or NULL */
	/*
	 * shares (ref): the request's registered file, during the submission; or NULL.
	 */
	struct uaio_uring_rsrc *held;
	/*
	 * An error that does not end the call: the client sees it as the request's
	 * result.
	 */
	int late_error;
	/*
	 * the request searches for other requests, so earlier submissions must be
	 * started first
	 */
	bool looks_up;
};

static inline void *uaio_uring_pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* Return: the entry's arguments, all zero; from now on the entry's sqe uses these. */
static inline struct uaio_args *
uaio_uring_args_of(struct uaio_uring_entry *entry)
{
	entry->args = (struct uaio_args){ 0 };
	entry->sqe.args = &entry->args;
	return &entry->args;
}

/* Return: whether the client's memory is readable. */
bool uaio_uring_may_read(uint64_t addr, size_t bytes);

/*
 * Check that an address range, or vectors, can be user memory, as the kernel does
 * before it starts a request. Whether the memory is mapped is not checked. The vectors
 * themselves must be readable.
 * Return: 0; -EFAULT; -EINVAL: the vectors have too many bytes.
 */
int uaio_uring_check_range(uint64_t addr, uint64_t bytes);
int uaio_uring_check_vectors(const struct iovec *iov, uint64_t nr);

/* Return: whether fd is open, and a request may use it (O_PATH is refused). */
bool uaio_uring_may_use(int fd);

/* Return: the entry's note (note.h), made if there is none; NULL: memory is refused. */
struct uaio_uring_note *uaio_uring_note_for(struct uaio_uring_entry *entry);

/*
 * Return: whether a worker would start the request if the kernel served the ring. This
 * is so with IOSQE_ASYNC, and after a drain.
 */
bool uaio_uring_begins_aside(const struct uaio_uring_entry *entry);

/*
 * Check the path at the submission's `addr`, and let the request use it.
 * Return: 0; -EFAULT: the path cannot be read; -ENAMETOOLONG; -ENOENT: it is empty.
 */
int uaio_uring_take_path(struct uaio_uring_entry *entry);

/*
 * Give the request a sleeper (op/sleeper.h), from which the submitting call learns when
 * the request sleeps.
 * Return: 0 or -ENOMEM.
 */
int uaio_uring_add_sleeper(struct uaio_uring_entry *entry);

/*
 * Use the registered buffer that the submission names.
 * Return: 0, also if there is no such buffer, which sets late_error; -ENOMEM.
 */
int uaio_uring_use_buffer(struct uaio_uring_entry *entry);
/*
 * Use those parts of a registered buffer that the vectors name. The caller has checked
 * that the vectors are readable.
 * Return: as uaio_uring_use_buffer(); -EINVAL: a vector is longer than SSIZE_MAX.
 */
int uaio_uring_use_buffer_by(struct uaio_uring_entry *entry,
			     const struct iovec *iovs, uint64_t nr);

/* Accept up to nr submissions. Return: how many were accepted. */
uint32_t uaio_uring_submit(struct uaio_uring *ring, uint32_t nr);

#endif /* UAIO_URING_SQ_H */
