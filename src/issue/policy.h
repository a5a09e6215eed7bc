/* SPDX-License-Identifier: MIT */
/*
 * Policy: whether a request is executed at once, parks, waits for its pages, or goes
 * to a worker
 *
 * One table, kind of file by class of operation. Each entry is a function that
 * issues a request inside the submitting call, and returns what is to become of it
 * next (enum uaio_next). The measurement for each constant stands beside it in policy.c.
 *
 * For requests that are to be asynchronous in any case, operations without a file,
 * and flags that have to be honoured at once, issue_one() in submit.c decides. After
 * that, a request may still have to wait for older ones of its inode (order.h).
 */
#ifndef UAIO_ISSUE_POLICY_H
#define UAIO_ISSUE_POLICY_H

#include <assert.h>

#include "base/check.h"
#include "file/file.h"
#include "op/op.h"
#include "req/call.h"

/*
 * Issue sqe on file. The caller need not have a reference to the file: it may
 * borrow it under I2 of file.h.
 */
typedef enum uaio_next uaio_try_fn(struct uaio_file *file,
				   const struct uaio_sqe *sqe,
				   struct uaio_outcome *ret);

enum { UAIO_POLICY_COLUMNS = 8 }; /* a row is found by a shift */
static_assert((int)UAIO_NR_CLASSES <= (int)UAIO_POLICY_COLUMNS,
	      "a column for each class");

extern uaio_try_fn *const uaio_policy[UAIO_NR_KINDS][UAIO_POLICY_COLUMNS];

/*
 * The RWF_* flags that any worker can honour at any time. A request with others
 * (RWF_NOWAIT, or flags of newer kernels) is executed inside the submitting call,
 * by uaio_try_flags().
 */
enum { UAIO_RWF_DEFERRABLE = 0x2 | 0x4 | 0x10 }; /* DSYNC, SYNC, APPEND */

/* Those with which a request on a stream may wait, too: HIPRI, NOAPPEND, NOSIGNAL. */
enum { UAIO_RWF_PATIENT = UAIO_RWF_DEFERRABLE | 0x1 | 0x20 | 0x100 };

/* Return: whether sqe, of an operation with a file, is such a request. */
static inline bool uaio_has_odd_flags(const struct uaio_op_def *op,
				      const struct uaio_sqe *sqe)
{
	/* Others than reads and writes have flags of their own there. */
	return unlikely(sqe->rw_flags & ~(uint32_t)UAIO_RWF_DEFERRABLE) &&
	       op->class <= UAIO_CLASS_WRITE && !op->is_of_socket;
}

/* Execute it here, however long it takes: it does not wait for a device. */
static inline enum uaio_next uaio_try_here(struct uaio_file *file,
					   const struct uaio_sqe *sqe,
					   struct uaio_outcome *ret)
{
	ret->res = uaio_call(file, sqe, 0, ret);
	return UAIO_NEXT_DONE;
}

/* stream.c's functions of the table. */
enum uaio_next uaio_try_stream(struct uaio_file *file,
			       const struct uaio_sqe *sqe,
			       struct uaio_outcome *ret);
enum uaio_next uaio_try_poll(struct uaio_file *file, const struct uaio_sqe *sqe,
			     struct uaio_outcome *ret);

/* Return: whether sqe has an offset on a socket, which ret says then (ESPIPE). */
bool uaio_refuses_offset(const struct uaio_file *file,
			 const struct uaio_sqe *sqe, struct uaio_outcome *ret);

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
enum uaio_next uaio_done_unless_bounced(const struct uaio_file *file,
					const struct uaio_sqe *sqe,
					struct uaio_outcome *ret);

/*
 * Return: what becomes next of a request that its client wants executed asynchronously
 * (is_async). On a stream its operation says how it begins: most park until the file is
 * ready, as nothing could interrupt a worker that waits. Elsewhere a worker executes it.
 */
enum uaio_next uaio_send_untried(struct uaio_file *file,
				 const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret);

/*
 * Return: whether the descriptor is surely another file than the entry by now, because
 * of a call that was not interposed. Asked for a request with an offset on a stream, which
 * has none, so its client may mean another file; and for one without on a regular file.
 */
bool uaio_is_misplaced(const struct uaio_file *file,
		       const struct uaio_sqe *sqe);

/*
 * Forget the entry of the descriptor, look the descriptor up again, and issue the
 * request on the file that it is now.
 */
enum uaio_next uaio_try_reopened(const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret);

/*
 * What the policy of buffered reads and writes knows, for ends.c. All of it is advice.
 */

/* Return: whether the last 64 reads of the file found their pages, and the next need not ask. */
bool uaio_is_streaking(const struct uaio_file *file);
/* The page cache was asked for the pages of a read; is_hit: all were there. */
void uaio_note_cached(struct uaio_file *file, bool is_hit);
/* A read that did not ask the page cache took that many cycles. */
void uaio_judge_read(struct uaio_file *file, uint64_t took);

/* A write of an inode that is executed inside the submitting call. */
struct uaio_trial_write {
	bool is_suspect;
	uint64_t nr_sleeps;
};

/* Return: whether the write may be; if so, the caller calls end after it. */
bool uaio_trial_write_begin(const struct uaio_file *file,
			    struct uaio_inode *inode,
			    const struct uaio_sqe *sqe,
			    struct uaio_trial_write *ret);
/* took: cycles. */
void uaio_trial_write_end(struct uaio_inode *inode, const struct uaio_sqe *sqe,
			  const struct uaio_trial_write *trial, uint64_t took);

/*
 * Make the call of sqe, which has two files, if neither makes it wait.
 * Return: whether it is done, or a worker makes the call.
 */
enum uaio_next uaio_try_ends(const struct uaio_sqe *sqe,
			     struct uaio_outcome *ret);

#endif /* UAIO_ISSUE_POLICY_H */
