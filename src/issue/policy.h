/* SPDX-License-Identifier: MIT */
/*
 * Policy: where a request is executed
 *
 * One table, kind of file by class of operation. Each entry is a function that
 * issues a request inside the submitting call. It says whether the request is
 * complete, and if not, whether it has to wait for its file, for its pages or for
 * a worker. All of these decisions are in policy.c, with the measurement beside
 * each constant.
 */
#ifndef UAIO_ISSUE_POLICY_H
#define UAIO_ISSUE_POLICY_H

#include "file/file.h"
#include "op/op.h"
#include "req/call.h"

/*
 * Issue sqe on file. The caller need not have a reference to the file: it may
 * borrow it under I2 of file.h.
 */
typedef enum uaio_issue uaio_try_fn(struct uaio_file *file,
				    const struct uaio_sqe *sqe,
				    struct uaio_outcome *ret);

extern uaio_try_fn *const uaio_policy[UAIO_NR_KINDS][UAIO_NR_CLASSES];

/*
 * The RWF_* flags that any worker can honour at any time. A request with others
 * (RWF_NOWAIT, or flags of newer kernels) is executed inside the submitting call,
 * by uaio_try_flags().
 */
enum { UAIO_RWF_DEFERRABLE = 0x2 | 0x4 | 0x10 }; /* DSYNC, SYNC, APPEND */

/*
 * Execute sqe, which has such flags, here.
 * Return: 0 with the result; -EOPNOTSUPP if the file cannot honour a flag, so that
 * the request is refused.
 */
int uaio_try_flags(struct uaio_file *file, const struct uaio_sqe *sqe,
		   struct uaio_outcome *ret);

/*
 * Return: what becomes of a request that was executed inline: it is done, or if
 * the kernel refused it as misaligned, a worker executes it through a copy
 * (bounce.h).
 */
enum uaio_issue uaio_done_unless_bounced(const struct uaio_file *file,
					 const struct uaio_sqe *sqe,
					 struct uaio_outcome *ret);

/*
 * file is the entry of a stream. Return: whether the descriptor is surely another
 * file by now, because of a call that was not interposed. Asked for a request with
 * an offset: streams have none, so its client may mean another file.
 */
bool uaio_is_misplaced(const struct uaio_file *file,
		       const struct uaio_sqe *sqe);

/*
 * Forget the entry of the descriptor, look the descriptor up again, and issue the
 * request on the file that it is now.
 */
enum uaio_issue uaio_try_reopened(const struct uaio_sqe *sqe,
				  struct uaio_outcome *ret);

#endif /* UAIO_ISSUE_POLICY_H */
