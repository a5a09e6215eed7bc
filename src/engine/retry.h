/* SPDX-License-Identifier: MIT */
/*
 * Policy: where a request runs
 *
 * One table, kind of file by class of operation. Each entry tries a request
 * inside the submitting call and says whether it is done, and if not, whether
 * it is to wait for its file or for a worker. What decides is in retry.c, with
 * the measurement beside each constant, and nowhere else.
 */
#ifndef UAIO_ENGINE_RETRY_H
#define UAIO_ENGINE_RETRY_H

#include "file/file.h"
#include "engine/opdef.h"
#include "engine/order.h"

struct uaio_outcome {
	int64_t res; /* if DONE the result, if RETRY_READY the bytes done */
	/* if RETRY_READY: its file's, before it was tried; 0: it was not */
	uint32_t edges;
	/* if RETRY_READY: how long it waits at most; 0: for ever */
	int64_t until_ns;
	/* of the last system call, in cycles; set if statistics are on */
	uint64_t start;
	uint64_t end;
};

/*
 * Try sqe on file, which the caller may not have a reference to (file.h I2).
 */
typedef enum uaio_issue uaio_try_fn(struct uaio_file *file,
				    const struct uaio_sqe *sqe,
				    struct uaio_outcome *ret);

extern uaio_try_fn *const uaio_policy[UAIO_NR_KINDS][UAIO_NR_CLASSES];

/*
 * RWF_* that any worker can honour at any time. Requests with others
 * (RWF_NOWAIT, and what newer kernels may bring) are made by
 * uaio_try_flags() inside the submitting call, where the kernel's refusal is
 * a refusal to submit.
 * Return: 0 with the result, or -EOPNOTSUPP.
 */
enum { UAIO_RWF_DEFERRABLE = 0x2 | 0x4 | 0x10 }; /* DSYNC, SYNC, APPEND */

int uaio_try_flags(struct uaio_file *file, const struct uaio_sqe *sqe,
		   struct uaio_outcome *ret);

/*
 * Make a read as far as the page cache has it.
 * Return: its whole result; -EAGAIN if that takes waiting, -EOPNOTSUPP.
 */
int64_t uaio_read_cached(const struct uaio_file *file,
			 const struct uaio_sqe *sqe, struct uaio_outcome *ret);

/* Return: how often the calling thread has slept; 0 if nobody says. */
uint64_t uaio_nr_sleeps(void);

/*
 * Return: what becomes of a request that was made inline: a worker may make it
 * through a copy where the kernel did not (bounce.h).
 */
enum uaio_issue uaio_done_unless_bounced(const struct uaio_file *file,
					 const struct uaio_sqe *sqe,
					 struct uaio_outcome *ret);

/*
 * Return: whether the number is surely no more the stream that the entry is of,
 * by a call that nobody saw. Asked of requests that name a place: a stream has
 * none, so their client may mean another file.
 */
bool uaio_is_misplaced(const struct uaio_file *file,
		       const struct uaio_sqe *sqe);

/* Forget what was known of the number, and try the request as on what it is. */
enum uaio_issue uaio_try_anew(const struct uaio_sqe *sqe,
			      struct uaio_outcome *ret);

#endif /* UAIO_ENGINE_RETRY_H */
