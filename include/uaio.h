/* SPDX-License-Identifier: MIT */
/*
 * uaio: optional functions for programs that know that the library uaio may be loaded
 *
 * Programs use kernel AIO, io_uring and POSIX AIO on uaio without these
 * functions. A program calls them to read the library's counters, to limit the
 * library's threads, or to cancel more than io_cancel(2) can. A program that
 * may run without uaio looks them up by dlsym(RTLD_DEFAULT, ...).
 *
 * Names, arguments and layouts never change: see doc/promises.md.
 */
#ifndef UAIO_H
#define UAIO_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What the library has done in this process since the process started or was forked.
 * Members whose names end in "bytes" are sizes of memory, in bytes.
 */
struct uaio_counters {
	/* how many contexts and rings exist now */
	uint64_t nr_contexts;
	/* how many contexts and rings were ever created */
	uint64_t nr_setups;
	uint64_t nr_requests; /* completed requests */
	/* how many of nr_requests completed inside io_submit */
	uint64_t nr_inline;
	/* how many of nr_requests did not complete inside io_submit */
	uint64_t nr_worker;
	/* how often a thread in io_getevents was woken */
	uint64_t nr_wakeups;
	/* how many workers exist now */
	uint64_t nr_workers;
	/* memory used by the library's table of contexts */
	uint64_t table_bytes;
	/*
	 * memory used by the index that finds a context by the address of its ring
	 */
	uint64_t index_bytes;
	/* memory of the rings of all existing contexts */
	uint64_t ring_bytes;
	/* memory that one context uses apart from its ring */
	uint64_t context_bytes;
	/* how many requests of nr_worker were executed by the kernel's AIO */
	uint64_t nr_kernel;
	/* how many requests of nr_worker were executed by the kernel's io_uring */
	uint64_t nr_io_uring;
};

/*
 * Read the counters into *ret_counters. If other threads submit meanwhile, the numbers
 * may be from slightly different moments. The kernel has no such call.
 *
 * Return: 0.
 * Thread-safety: any thread. In a signal handler all numbers may be 0.
 * See uaio_get_counters(3).
 */
int uaio_get_counters(struct uaio_counters *ret_counters);

/*
 * The work queue
 *
 * Workers are threads of the library. They execute the requests that would block the
 * submitting thread. There are two kinds of workers, each with its own limit. The library
 * starts a worker when a request waits for one, and a worker that stays idle ends. A
 * program may also ask for fixed workers, which do not end when they are idle. Each fixed
 * worker has its own list for operations that cannot block; only io_uring has such
 * operations.
 *
 * Each of the four functions below takes an array with one element for each kind of
 * worker. A program may call them at any time: before its first io_setup(2), and while
 * requests are in flight. Children of fork(2) inherit the values that were set.
 *
 * Return, for all four functions:
 *   0
 *   -EFAULT: the array is NULL, or its address is outside user memory
 *   -EAGAIN: the caller is a child of vfork(2), or a signal handler that
 *       interrupted the library
 * Thread-safety: any thread.
 * See uaio_wq_set_workers(3).
 */
enum {
	/* workers that execute requests on regular files and block devices */
	UAIO_WQ_BOUNDED,
	/*
	 * workers that execute requests which may block a thread for ever, except a
	 * SPLICE, TEE, FUTEX_WAIT, FUTEX_WAITV or WAITID of io_uring
	 */
	UAIO_WQ_UNBOUNDED,
};

/*
 * Set the largest number of workers of each kind, the fixed workers included: 0 to
 * 4096, or -1 to keep the number. The old numbers are written to max_workers. If the
 * number of UAIO_WQ_BOUNDED is 0, io_submit(2) executes requests on regular files
 * itself. If the number of UAIO_WQ_UNBOUNDED is 0, requests that may block for ever
 * complete with -EAGAIN.
 *
 * IORING_REGISTER_IOWQ_MAX_WORKERS of io_uring_register(2) does the same for io_uring,
 * but there 0, not -1, means to keep the old number.
 *
 * Return: 0, or an error of the list for all four functions; or -EINVAL if a number is
 * out of range, or less than the number of fixed workers. On -EINVAL neither kind is
 * changed.
 */
int uaio_wq_set_workers(int max_workers[2]);

/* Read the largest number of workers of each kind, 0 to 4096, into ret_max_workers. */
int uaio_wq_get_workers(int ret_max_workers[2]);

struct uaio_wq_fixed {
	/*
	 * number of fixed workers: 0 to 16, and at most the kind's limit of workers
	 */
	int nr_workers;
	/* length of each fixed worker's list; values over 1024 mean 1024 */
	int max_items;
};

/*
 * Set the fixed workers of each kind; -1 in place of a number keeps the old number. The
 * old numbers are written to `fixed`. The kernel has no such call.
 *
 * Return: 0, or an error of the list for all four functions; or one of these errors,
 * after which both kinds are unchanged:
 *   -EINVAL: a number is out of range, or a kind would have more fixed workers
 *       than its limit of workers
 *   -ENOMEM: there is no memory for the lists of the fixed workers
 */
int uaio_wq_set_fixed(struct uaio_wq_fixed fixed[2]);

/*
 * Read the numbers of fixed workers, and the lengths of their lists, into ret_fixed.
 */
int uaio_wq_get_fixed(struct uaio_wq_fixed ret_fixed[2]);

/*
 * Cancelling
 *
 * These functions cancel pending requests of kernel AIO. A request is pending while it
 * is queued for a worker, waits for earlier requests of its file, or waits until its
 * file is ready. A cancelled request has exactly one event, like any other request. The
 * event is in the completion ring when the function returns. Its res is -ECANCELED; for
 * a poll it is 0, and for a partly done write the number of bytes written. A request
 * that a thread is already executing is not cancelled, and completes as usual.
 *
 * ctx is an io_context_t or aio_context_t, converted to an integer. The functions
 * return the errors of IORING_ASYNC_CANCEL (io_uring_enter(2)), not those of
 * io_cancel(2).
 *
 * If one of the three functions fails, it returns
 *   -EINVAL: ctx is no context
 *   -ENOENT: no request in flight matches: none was submitted, or all are complete
 *   -EALREADY: matching requests are in flight, but none is pending: other threads
 *       are executing or submitting them; each will have its event
 *   -EAGAIN: the caller is a child of vfork(2), or a signal handler that
 *       interrupted the library
 * Thread-safety: any thread.
 * See uaio_cancel(3).
 */

/*
 * Cancel the oldest pending request that was submitted with this iocb. The function
 * compares the iocb's address, and does not read the iocb.
 * Return: 0, or an error of the list above.
 */
int uaio_cancel(uint64_t ctx, const void *iocb);

/*
 * Cancel all pending requests that were submitted with the descriptor fd on the open
 * file to which fd refers now. Requests that were submitted with a duplicate of fd are
 * not cancelled.
 * Return: how many were cancelled, at least 1; or an error of the list above. -ENOENT
 * also if fd is not open, or if the calling thread has its own descriptor table: such a
 * thread has no pending requests, because io_submit(2) executes them at once.
 */
int uaio_cancel_fd(uint64_t ctx, int fd);

/*
 * Cancel all pending requests of the context.
 * Return: how many were cancelled, at least 1; or an error of the list above.
 */
int uaio_cancel_all(uint64_t ctx);

#ifdef __cplusplus
}
#endif

#endif /* UAIO_H */
