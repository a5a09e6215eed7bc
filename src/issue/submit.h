/* SPDX-License-Identifier: MIT */
/*
 * Submission: how a front-end (kernel AIO, io_uring or POSIX AIO) passes on the requests of
 * its clients
 *
 * A front-end begins a batch, adds requests to it, and ends it. uaio_batch_add() executes a
 * request that need not wait, and creates and starts any other (flow.h). All functions
 * return the errors that the kernel's calls would, as a negative errno, and leave errno
 * unchanged.
 *
 * Context: any thread that has entered the library (entry.h). A batch belongs to its
 * thread.
 *
 * Tested by test-policy.c and all other tests that submit requests.
 */
#ifndef UAIO_ISSUE_SUBMIT_H
#define UAIO_ISSUE_SUBMIT_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "wq/wq.h"
#include "file/file.h"
#include "op/op.h"
#include "req/queue.h"
#include "req/sink.h"

struct uaio_outcome;
struct uaio_live_block;

/*
 * Called by uaio_look_up(), if the library's entry for fd says that requests cannot use
 * its file. The program may have closed and reopened fd by calls that the library does
 * not see, so look up fd again.
 * Return: as for uaio_look_up().
 */
int uaio_look_up_again(int fd, struct uaio_file **ret_file);

/*
 * Look up the descriptor of a request. The entry is borrowed: the caller gets no reference
 * (file.h, I2).
 * Return: 0; -EBADF if the descriptor is not open; -ENOMEM.
 */
static inline __attribute__((always_inline)) int
uaio_look_up(int fd, struct uaio_file **ret_file)
{
	struct uaio_file *file = uaio_file_find(fd);
	int ret;

	if (unlikely(!file) && (ret = uaio_file_open(fd, &file)) < 0)
		return ret;
	*ret_file = file;
	return unlikely(
		       uaio_file_has(file, UAIO_FILE_F_PATH | UAIO_FILE_F_RING))
		       ? uaio_look_up_again(fd, ret_file)
		       : 0;
}

enum { UAIO_BATCH_COMPLETIONS = 16 };

/*
 * One submission, on the caller's stack. It collects the completions of inline requests,
 * and the work items for workers, to post or queue them together. Only this module uses its
 * members.
 */
struct uaio_batch {
	struct uaio_submitter by;
	uint32_t nr_completions;
	bool has_parked;
	/* one of the batch's parked requests is multishot */
	bool has_multishot;
	/*
	 * whether the next two members are valid: the last request that was handed over,
	 * not counting reads, is a direct write within its file's size
	 */
	bool has_size;
	/*
	 * valid if has_size: the file of the direct write that was handed over last, and
	 * the file's size in bytes plus 1
	 */
	const struct uaio_file *sized;
	uint64_t sized_end;
	/*
	 * bitwise OR of the words of all completions; a word is a value that the
	 * front-end chooses (sink.h)
	 */
	uint64_t words;
	/* NULL: statistics are off, and the members below are not set */
	struct uaio_live_block *stats;
	/* how often each measured time counts in the statistics (sample.h) */
	uint32_t weight;
	uint32_t nr_inline;
	uint32_t nr_handed_over;
	/* when the batch's first request started, in cycles */
	uint64_t start;
	/* when the first inline request began and ended, in cycles */
	uint64_t first_start, first_end;
	uint64_t end; /* when the last inline request ended, in cycles */
	struct uaio_handover handover;
	struct uaio_completion completions[UAIO_BATCH_COMPLETIONS];
};

/*
 * Begin a submission to a queue. The front-end must not free the queue before the queue's
 * sink has received the completions of all added requests.
 */
void uaio_batch_begin(struct uaio_batch *batch, struct uaio_queue *queue);

/*
 * Submit one request. file: from uaio_look_up(), or NULL if the operation has no file.
 * Return: 0 if the request is accepted: its completion is posted, or will be posted.
 * Otherwise the -errno with which it is refused.
 */
int uaio_batch_add(struct uaio_batch *batch, struct uaio_file *file,
		   const struct uaio_sqe *sqe);

/*
 * The library is about to refuse a request because of what its entry for fd says. The
 * program may have closed and reopened fd by calls that the library does not see. If so,
 * remove the entry. Look up fd again. May sleep, like a close of fd.
 * Return: as for uaio_look_up().
 */
int uaio_batch_look_again(struct uaio_batch *batch, int fd,
			  struct uaio_file **ret_file);

/*
 * Check a request. *file: as for uaio_batch_add(). If the request would be refused, look up
 * its descriptor again; *file is then the present entry.
 * Return: 0, or the -errno with which the request is refused.
 */
int uaio_batch_check(struct uaio_batch *batch, const struct uaio_sqe *sqe,
		     struct uaio_file **file);

/*
 * As uaio_batch_add(), for a registered file (uaio_file_fix(), file.h), to which the
 * front-end has a reference. sqe->fd is ignored. The calling thread must use the library's
 * descriptor table.
 */
int uaio_batch_add_fixed(struct uaio_batch *batch, struct uaio_file *file,
			 const struct uaio_sqe *sqe);

/*
 * For chain.c: issue sqe in this thread, as uaio_batch_add() does. The caller has
 * checked sqe before.
 * Return: what sqe has to wait for. *ret_error: 0, or the -errno with which sqe is
 * refused.
 */
enum uaio_next uaio_issue(struct uaio_file *file, const struct uaio_sqe *sqe,
			  int *ret_error, struct uaio_outcome *ret);

/*
 * As uaio_batch_add(), for a thread with its own descriptor table (table.h), and a file
 * from uaio_file_open_parted(). The request is executed before this function returns; the
 * caller then drops its reference to the file.
 */
int uaio_batch_add_parted(struct uaio_batch *batch, struct uaio_file *file,
			  const struct uaio_sqe *sqe);

/* Post the completions collected so far. uaio_batch_end() does so as well. */
void uaio_batch_post(struct uaio_batch *batch);

/* Post the completions, queue the work items, and wake workers as needed. */
void uaio_batch_end(struct uaio_batch *batch);

#endif /* UAIO_ISSUE_SUBMIT_H */
