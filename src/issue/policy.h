/* SPDX-License-Identifier: MIT */
/*
 * Policy: whether a request is executed at once, parks (waits until its file is ready), waits
 * until its pages are in the page cache, or goes to a worker
 *
 * One table maps the kind of file and the class of operation to a function. The function
 * issues a request inside the submitting call, and returns what becomes of it next (enum
 * uaio_next). policy.c gives the measurement for each constant.
 *
 * issue_one() in submit.c decides for operations without a file, for requests that the client
 * wants executed by a worker (IOSQE_ASYNC), and for requests with flags that have to be
 * honoured at once. After that, a request may still have to wait for older ones of its inode
 * (order.h).
 */
#ifndef UAIO_ISSUE_POLICY_H
#define UAIO_ISSUE_POLICY_H

#include <assert.h>

#include "base/check.h"
#include "file/file.h"
#include "op/op.h"
#include "req/call.h"

/* Issue sqe on file, which the caller may only borrow (file.h, I2). */
typedef enum uaio_next uaio_try_fn(struct uaio_file *file,
				   const struct uaio_sqe *sqe,
				   struct uaio_outcome *ret);

enum { UAIO_POLICY_COLUMNS = 8 }; /* a power of two, to find a row by a shift */
static_assert((int)UAIO_NR_CLASSES <= (int)UAIO_POLICY_COLUMNS,
	      "a column for each class");

extern uaio_try_fn *const uaio_policy[UAIO_NR_KINDS][UAIO_POLICY_COLUMNS];

/*
 * The RWF_* flags that any worker can honour at any time. A request with other flags
 * (RWF_NOWAIT, or flags of newer kernels) is executed inside the submitting call, by
 * uaio_try_flags().
 */
enum { UAIO_RWF_DEFERRABLE = 0x2 | 0x4 | 0x10 }; /* DSYNC, SYNC, APPEND */

/*
 * The flags with which a request on a stream may still wait: those above, and HIPRI, NOAPPEND,
 * NOSIGNAL.
 */
enum { UAIO_RWF_PATIENT = UAIO_RWF_DEFERRABLE | 0x1 | 0x20 | 0x100 };

/*
 * Return: whether sqe, of an operation with a file, has RWF_* flags with which it may not be
 * deferred to a worker.
 */
static inline bool uaio_has_odd_flags(const struct uaio_op_def *op,
				      const struct uaio_sqe *sqe)
{
	/* Other operations use rw_flags for flags of their own. */
	return unlikely(sqe->rw_flags & ~(uint32_t)UAIO_RWF_DEFERRABLE) &&
	       op->class <= UAIO_CLASS_WRITE && !op->is_of_socket;
}

/* Execute sqe in this thread, as it does not wait for a device. */
static inline enum uaio_next uaio_try_here(struct uaio_file *file,
					   const struct uaio_sqe *sqe,
					   struct uaio_outcome *ret)
{
	ret->res = uaio_call(file, sqe, 0, ret);
	return UAIO_NEXT_DONE;
}

/* Functions of the table, in stream.c. */
enum uaio_next uaio_try_stream(struct uaio_file *file,
			       const struct uaio_sqe *sqe,
			       struct uaio_outcome *ret);
enum uaio_next uaio_try_poll(struct uaio_file *file, const struct uaio_sqe *sqe,
			     struct uaio_outcome *ret);

/* Return: whether sqe has an offset on a socket; if so, ret has the result ESPIPE. */
bool uaio_refuses_offset(const struct uaio_file *file,
			 const struct uaio_sqe *sqe, struct uaio_outcome *ret);

/*
 * Execute sqe, which has flags that forbid deferring it, in this thread. Return: 0 with the
 * result in ret; -EOPNOTSUPP if the file cannot honour a flag: the request is refused.
 */
int uaio_try_flags(struct uaio_file *file, const struct uaio_sqe *sqe,
		   struct uaio_outcome *ret);

/*
 * Return: DONE, as the request was executed inline; or WORKER, if the kernel refused it as
 * misaligned and a worker is to execute it through an aligned copy (bounce.h).
 */
enum uaio_next uaio_done_unless_bounced(const struct uaio_file *file,
					const struct uaio_sqe *sqe,
					struct uaio_outcome *ret);

/*
 * Return: where to send a request whose client wants it asynchronous (is_async). On a stream,
 * the operation's row in the table (optab.c) decides: most requests park until the file is
 * ready, as a worker that waits in a system call could not be interrupted. On other files a
 * worker executes the request.
 */
enum uaio_next uaio_send_untried(struct uaio_file *file,
				 const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret);

/*
 * Return: whether the descriptor certainly refers to another file than the library's entry for
 * it, because the program used a system call that was not interposed. Checked where a request
 * does not suit the file: an offset on a stream, or no offset on a regular file.
 */
bool uaio_is_misplaced(const struct uaio_file *file,
		       const struct uaio_sqe *sqe);

/*
 * Drop the library's entry of the descriptor, look up the descriptor again, and issue the
 * request on the file that is found.
 */
enum uaio_next uaio_try_reopened(const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret);

/* State of the policy for buffered reads and writes, for ends.c. All of it is only a guess. */

/*
 * Return: whether the last 64 reads found their pages in the page cache, so that the next read
 * need not query it first.
 */
bool uaio_is_streaking(const struct uaio_file *file);
/* Store whether all pages of a read were in the page cache. */
void uaio_note_cached(struct uaio_file *file, bool is_hit);
/* Judge by the cycles that it took whether a read without RWF_NOWAIT waited for a disk. */
void uaio_judge_read(struct uaio_file *file, uint64_t took);

/*
 * A write that is executed inside the submitting call and timed, to learn whether writes of
 * the inode are fast.
 */
struct uaio_trial_write {
	bool is_suspect;
	uint64_t nr_sleeps;
};

/*
 * Return: whether the write may be executed in this call; if so, the caller calls
 * uaio_trial_write_end() after it.
 */
bool uaio_trial_write_begin(const struct uaio_file *file,
			    struct uaio_inode *inode,
			    const struct uaio_sqe *sqe,
			    struct uaio_trial_write *ret);
/* took: cycles. */
void uaio_trial_write_end(struct uaio_inode *inode, const struct uaio_sqe *sqe,
			  const struct uaio_trial_write *trial, uint64_t took);

/*
 * Make the system call of sqe, an operation with two files, unless one of the files would make
 * the call wait. Return: DONE, or WORKER if a worker has to make the call.
 */
enum uaio_next uaio_try_ends(const struct uaio_sqe *sqe,
			     struct uaio_outcome *ret);

#endif /* UAIO_ISSUE_POLICY_H */
