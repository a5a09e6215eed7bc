/* SPDX-License-Identifier: MIT */
/*
 * uaio: functions for programs that know they may run on uaio
 *
 * Programs use kernel AIO, io_uring and POSIX AIO on uaio without these
 * functions. A program calls them to read the library's counters, to limit the
 * library's threads, or to cancel more than io_cancel(2) can. A program that
 * may run without uaio looks them up by dlsym(RTLD_DEFAULT, ...).
 *
 * Names, arguments and layouts stay as they are: doc/promises.md.
 */
#ifndef UAIO_H
#define UAIO_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What the library has done in this process since the process started or was
 * forked. Sizes are in bytes.
 */
struct uaio_counters {
	uint64_t nr_contexts;   /* contexts and rings that exist now */
	uint64_t nr_setups;     /* contexts and rings that were ever set up */
	uint64_t nr_requests;   /* completed requests */
	uint64_t nr_inline;     /* of nr_requests, completed in io_submit */
	uint64_t nr_worker;     /* of nr_requests, completed in another way */
	uint64_t nr_wakeups;    /* threads woken in io_getevents */
	uint64_t nr_workers;    /* worker threads that exist now */
	uint64_t table_bytes;   /* memory of the table of contexts */
	uint64_t index_bytes;   /* memory of the index of ring addresses */
	uint64_t ring_bytes;    /* memory of the rings of live contexts */
	uint64_t context_bytes; /* memory of one context, without its ring */
	uint64_t nr_kernel;     /* of nr_worker, by the kernel's AIO */
	uint64_t nr_io_uring;   /* of nr_worker, by the kernel's io_uring */
};

/*
 * Read the counters into *ret_counters. While other threads submit, the numbers
 * may be of slightly different moments. The kernel has no such call.
 *
 * Return: 0.
 * Thread-safety: any thread; not in a signal handler, where all numbers may
 * be 0.
 * See uaio_get_counters(3).
 */
int uaio_get_counters(struct uaio_counters *ret_counters);

/*
 * The work queue
 *
 * Workers, threads of the library, execute the requests that would block the
 * submitting thread. There are two kinds of workers, each with a limit of its
 * own. The library starts a worker when a request waits for one, and idle
 * workers end. Fixed workers stay when they are idle. Each fixed worker has a
 * list of its own for operations that cannot block; kernel AIO has no such
 * operation.
 *
 * The arrays of the four functions have an element for each kind. The functions
 * may be called at any time: before the first io_setup(2), and while requests
 * are in flight. Forked children inherit the numbers.
 *
 * Return, for all four functions:
 *   0
 *   -EFAULT: the array is NULL, or its address is one that no program can have
 *   -EAGAIN: the caller is a child of vfork(2), or a signal handler that
 *       interrupted the library
 * Thread-safety: any thread.
 * See uaio_wq_set_workers(3).
 */
enum {
	UAIO_WQ_BOUNDED,   /* for regular files and block devices */
	UAIO_WQ_UNBOUNDED, /* for requests that may block a thread for ever */
};

/*
 * Set the largest number of workers of each kind, the fixed workers included: 0
 * to 4096, or -1 to leave the number as it is. The old numbers are written to
 * max_workers. With 0, io_submit(2) executes requests on regular files itself,
 * and requests that may block for ever complete with -EAGAIN.
 *
 * Mirrors IORING_REGISTER_IOWQ_MAX_WORKERS of io_uring_register(2), in which 0
 * leaves a number as it is.
 *
 * Return: also -EINVAL, with nothing changed for either kind: a number is out
 * of range, or less than the number of fixed workers.
 */
int uaio_wq_set_workers(int max_workers[2]);

/* Read the largest numbers of workers, 0 to 4096, into ret_max_workers. */
int uaio_wq_get_workers(int ret_max_workers[2]);

struct uaio_wq_fixed {
	int nr_workers; /* 0 to 16, and no more than the kind may have */
	int max_items;  /* requests in each one's list; over 1024: 1024 */
};

/*
 * Set the fixed workers of each kind; -1 leaves a number as it is. The old
 * numbers are written to fixed. The kernel has no such call.
 *
 * Return: also, with nothing changed for either kind,
 *   -EINVAL: a number is out of range, or there would be more fixed workers of
 *       a kind than workers
 *   -ENOMEM: there is no memory for the lists of the fixed workers
 */
int uaio_wq_set_fixed(struct uaio_wq_fixed fixed[2]);

/* Read the fixed workers of each kind into ret_fixed. */
int uaio_wq_get_fixed(struct uaio_wq_fixed ret_fixed[2]);

/*
 * Cancelling
 *
 * These functions cancel pending requests of kernel AIO. A request is pending
 * while it is queued for a worker, waits behind other requests of its file, or
 * waits until its file is ready. A cancelled request has exactly one event,
 * like any other, which is there when the function returns. The event's res is
 * -ECANCELED; for a poll it is 0, and for a partly done write the number of
 * bytes written. A request that a thread is executing goes on and ends by
 * itself.
 *
 * ctx is an io_context_t or aio_context_t as a number. The rules are those of
 * IORING_ASYNC_CANCEL (io_uring_enter(2)), not those of io_cancel(2), which
 * fails with EINPROGRESS or EINVAL only.
 *
 * Return, on an error of any of the three functions:
 *   -EINVAL: ctx is no context
 *   -ENOENT: there is no such request: none was submitted, or all are complete
 *   -EALREADY: no such request is pending, but some are being executed, or
 *       submitted by another thread; each will have its event
 *   -EAGAIN: the caller is a child of vfork(2), or a signal handler that
 *       interrupted the library
 * Thread-safety: any thread.
 * See uaio_cancel(3).
 */

/*
 * Cancel the oldest pending request that was submitted with this iocb. The iocb
 * is compared by its address and not read.
 * Return: 0, or an error of the list above.
 */
int uaio_cancel(uint64_t ctx, const void *iocb);

/*
 * Cancel all pending requests that were submitted with the descriptor fd on the
 * open file to which fd refers now. Requests that were submitted with a
 * duplicate of fd go on.
 * Return: how many, at least 1, or an error of the list above; -ENOENT also if
 * fd is not open, and in a thread with a descriptor table of its own, whose
 * requests are executed when they are submitted.
 */
int uaio_cancel_fd(uint64_t ctx, int fd);

/*
 * Cancel all pending requests of the context.
 * Return: how many, at least 1, or an error of the list above.
 */
int uaio_cancel_all(uint64_t ctx);

#ifdef __cplusplus
}
#endif

#endif /* UAIO_H */
