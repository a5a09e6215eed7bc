/* SPDX-License-Identifier: MIT */
/*
 * Policy: whether a request is executed at once, parks (waits until its file is ready), waits
 * until its pages are in the page cache, or goes to a worker
 *
 * One table maps the kind of file and the class of operation to a function. The function
 * issues a request inside the submitting call, and returns what the request has to wait for
 * (enum uaio_next). policy.c gives the measurement for each constant.
 *
 * For some requests issue_one() in submit.c decides instead. These requests have no file,
 * or have flags that must be honoured at once, or ask for a worker (IOSQE_ASYNC). After the
 * decision, a request may still have to wait for older ones of its inode (order.h).
 */
#ifndef UAIO_ISSUE_POLICY_H
#define UAIO_ISSUE_POLICY_H

#include <assert.h>

#include "base/check.h"
#include "file/file.h"
#include "op/op.h"
#include "req/call.h"

/*
 * Issue sqe on file. The caller may have no reference to file (a borrowed entry: file.h,
 * I2).
 */
typedef enum uaio_next uaio_try_fn(struct uaio_file *file,
				   const struct uaio_sqe *sqe,
				   struct uaio_outcome *ret);

/* how many columns the policy's table has: a power of two, so that a shift finds a row */
enum { UAIO_POLICY_COLUMNS = 8 };
static_assert((int)UAIO_NR_CLASSES <= (int)UAIO_POLICY_COLUMNS,
	      "a column for each class");

extern uaio_try_fn *const uaio_policy[UAIO_NR_KINDS][UAIO_POLICY_COLUMNS];

/*
 * The RWF_* flags that a worker can honour at any later time. A request with other flags
 * (RWF_NOWAIT, or flags of newer kernels) is executed inside the submitting call, by
 * uaio_try_flags().
 */
enum { UAIO_RWF_DEFERRABLE = 0x2 | 0x4 | 0x10 }; /* DSYNC, SYNC, APPEND */

/*
 * The flags with which a request on a stream may still wait: UAIO_RWF_DEFERRABLE, and
 * RWF_HIPRI, RWF_NOAPPEND, RWF_NOSIGNAL.
 */
enum { UAIO_RWF_PATIENT = UAIO_RWF_DEFERRABLE | 0x1 | 0x20 | 0x100 };

/*
 * op: an operation with a file.
 * Return: whether sqe has RWF_* flags that forbid the library to leave sqe to a worker.
 */
static inline bool uaio_has_odd_flags(const struct uaio_op_def *op,
				      const struct uaio_sqe *sqe)
{
	/* Operations other than reads and writes use rw_flags for flags of their own. */
	return unlikely(sqe->rw_flags & ~(uint32_t)UAIO_RWF_DEFERRABLE) &&
	       op->class <= UAIO_CLASS_WRITE && !op->is_of_socket;
}

/* Execute sqe, which does not wait for a device, in this thread. */
static inline enum uaio_next uaio_try_here(const struct uaio_sqe *sqe,
					   struct uaio_outcome *ret)
{
	ret->res = uaio_call(sqe, 0, ret);
	return UAIO_NEXT_DONE;
}

/* Functions of the policy's table that stream.c defines: */
enum uaio_next uaio_try_stream(struct uaio_file *file,
			       const struct uaio_sqe *sqe,
			       struct uaio_outcome *ret);
enum uaio_next uaio_try_on_stream(struct uaio_file *file,
				  const struct uaio_sqe *sqe,
				  struct uaio_outcome *ret);
enum uaio_next uaio_try_poll(struct uaio_file *file, const struct uaio_sqe *sqe,
			     struct uaio_outcome *ret);

/*
 * file_flags: UAIO_FILE_F_*.
 * Return: whether sqe has an offset on a socket; if so, ret has the result ESPIPE.
 */
bool uaio_refuses_offset(uint32_t file_flags, const struct uaio_sqe *sqe,
			 struct uaio_outcome *ret);

/*
 * Execute in this thread a request with flags that forbid the library to leave it to a
 * worker. file_flags: UAIO_FILE_F_* of its file.
 * Return: 0 with the result in ret; -EOPNOTSUPP if the file cannot honour a flag: the
 * request is refused.
 */
int uaio_try_flags(struct uaio_file *file, uint32_t file_flags,
		   const struct uaio_sqe *sqe, struct uaio_outcome *ret);

/*
 * Issue a request with flags. If the kernel refuses an RWF_* flag of a read or write, the
 * submission is refused. Operations of sockets have MSG_* flags, and are issued by the
 * functions of the policy's table. The caller may have no reference to file.
 * Return: what sqe has to wait for. If *ret_error is not 0, sqe is refused instead.
 */
enum uaio_next uaio_issue_flags(struct uaio_file *file,
				const struct uaio_sqe *sqe, int *ret_error,
				struct uaio_outcome *ret);

/*
 * Return: UAIO_NEXT_DONE if the request was executed inline. UAIO_NEXT_WORKER if the kernel
 * refused it as misaligned: a worker is to execute it through an aligned copy (bounce.h).
 */
enum uaio_next uaio_done_unless_bounced(const struct uaio_file *file,
					const struct uaio_sqe *sqe,
					struct uaio_outcome *ret);

/*
 * The client wants the request executed asynchronously (is_async).
 * Return: what the request waits for. On a stream, the operation's row in the table
 * (optab.c) decides. Most requests park until the file is ready, because a worker that
 * waits in a system call cannot be interrupted. On other files a worker executes the
 * request.
 */
enum uaio_next uaio_send_untried(struct uaio_file *file,
				 const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret);

/*
 * The program may have replaced a descriptor's file by a system call that the library does
 * not interpose. Called when a request does not suit the file that the library knows. Such
 * a request has an offset on a stream, or no offset on a regular file.
 * Return: whether the descriptor certainly refers to another file than the library's
 * entry.
 */
bool uaio_is_misplaced(const struct uaio_file *file,
		       const struct uaio_sqe *sqe);

/*
 * Drop the library's entry of the descriptor, look the descriptor up again, and issue the
 * request on the file that it now refers to.
 */
enum uaio_next uaio_try_reopened(const struct uaio_sqe *sqe,
				 struct uaio_outcome *ret);

/* What the policy knows of buffered reads and writes, for ends.c. All of it is a guess. */

/*
 * Return: whether the last 64 reads found all their pages in the page cache, so that the
 * next read is made without querying the page cache.
 */
bool uaio_is_streaking(const struct uaio_file *file);
/* Store whether all pages of a read were in the page cache. */
void uaio_note_cached(struct uaio_file *file, bool is_hit);
/*
 * took: how many cycles a read without RWF_NOWAIT took. If this time shows that the read
 * waited for a disk, query the page cache again before later reads.
 */
void uaio_judge_read(struct uaio_file *file, uint64_t took);

/*
 * A write that the submitting thread makes and times, to learn whether writes of the inode
 * are fast.
 */
struct uaio_trial_write {
	bool is_suspect;
	uint64_t nr_sleeps;
};

/*
 * Return: whether the write may be executed inline; if so, the caller calls
 * uaio_trial_write_end() after the write.
 */
bool uaio_trial_write_begin(const struct uaio_file *file,
			    struct uaio_inode *inode,
			    const struct uaio_sqe *sqe,
			    struct uaio_trial_write *ret);
/* took: cycles. */
void uaio_trial_write_end(struct uaio_inode *inode, const struct uaio_sqe *sqe,
			  const struct uaio_trial_write *trial, uint64_t took);

/*
 * Make the system call of sqe, an operation with two files, unless one of the files would
 * make the call wait.
 * Return: UAIO_NEXT_DONE; UAIO_NEXT_WORKER if a worker has to make the call.
 */
enum uaio_next uaio_try_ends(const struct uaio_sqe *sqe,
			     struct uaio_outcome *ret);

#endif /* UAIO_ISSUE_POLICY_H */
