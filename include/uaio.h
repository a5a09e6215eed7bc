/* SPDX-License-Identifier: MIT */
/*
 * uaio: functions for programs that know they may run on uaio
 *
 * A program needs nothing of this to use kernel AIO through uaio. One that
 * wants to read the library's counters, to limit its threads, or to cancel
 * more than io_cancel() can, looks these functions up by
 * dlsym(RTLD_DEFAULT, ...), and does without them where the library is not
 * loaded.
 *
 * Names, arguments and layouts are those of 1.0.
 */
#ifndef UAIO_H
#define UAIO_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the library has done in this process since its start, or its fork. */
struct uaio_counters {
	uint64_t nr_contexts;   /* contexts and rings that exist now */
	uint64_t nr_setups;     /* of both, set up ever */
	uint64_t nr_requests;   /* requests that are complete */
	uint64_t nr_inline;     /* of these, completed inside io_submit */
	uint64_t nr_worker;     /* of these, completed in any other way */
	uint64_t nr_wakeups;    /* threads woken in io_getevents */
	uint64_t nr_workers;    /* worker threads alive now */
	uint64_t table_bytes;   /* memory of the table of contexts */
	uint64_t index_bytes;   /* memory of the index of ring addresses */
	uint64_t ring_bytes;    /* memory of the rings of live contexts */
	uint64_t context_bytes; /* memory of one context, without its ring */
	uint64_t nr_kernel;     /* of nr_worker, executed by the kernel's AIO */
	uint64_t nr_io_uring;   /* the same, by the kernel's io_uring */
};

/*
 * Read the counters. While other threads submit, the numbers may be of
 * slightly different moments.
 *
 * Return: 0.
 * Thread-safety: any thread, not in signal handlers.
 */
int uaio_get_counters(struct uaio_counters *ret_counters);

/*
 * The work queue
 *
 * Workers, threads of the library, execute the requests that would block the
 * thread that submits them. There are two accounts of workers: one for regular
 * files and block devices, whose requests end by themselves, and one for
 * requests that may wait for ever. The library starts workers when work waits,
 * up to a limit for each account, and they leave when they are idle. Fixed
 * workers, which a program may ask for, stay. Each fixed worker has a list of
 * its own for operations that cannot block; kernel AIO has no such operation,
 * so with kernel AIO these lists stay empty.
 *
 * The functions may be called at any time: before the first io_setup, and
 * while requests are under way. What is set holds in forked children too.
 *
 * Return, all of them: 0; -EFAULT if the array is NULL or is no address of a
 * program's; -EAGAIN in a child of vfork(), and in a signal handler that
 * interrupted the library. The functions that set also return -EINVAL, and
 * have then changed nothing in either account.
 * Thread-safety: any thread.
 */
enum {
	UAIO_WQ_BOUNDED,   /* regular files and block devices */
	UAIO_WQ_UNBOUNDED, /* FIFOs, devices: may hold a thread for ever */
};

/*
 * Set how many workers each account may have, the fixed ones included: 0 to
 * 4096, or -1 to leave the limit as it is. The old limits are written to
 * max_workers. Where the limit is 0, io_submit itself executes requests on
 * regular files, and requests that may wait for ever complete with -EAGAIN.
 * -EINVAL: a value is out of range, or less than the number of fixed workers.
 */
int uaio_wq_set_workers(int max_workers[2]);
int uaio_wq_get_workers(int ret_max_workers[2]);

struct uaio_wq_fixed {
	int nr_workers; /* 0 to 16, and no more than the account may have */
	int max_items;  /* work items in each one's list; over 1024: 1024 */
};

/*
 * Set the fixed workers of each account; -1 leaves a value as it is. The old
 * values are written to fixed.
 */
int uaio_wq_set_fixed(struct uaio_wq_fixed fixed[2]);
int uaio_wq_get_fixed(struct uaio_wq_fixed ret_fixed[2]);

/*
 * Cancelling
 *
 * These functions cancel pending requests: those that are queued for a worker,
 * wait behind other requests of their file, or wait until their file is ready.
 * A cancelled request has exactly one event, like any other, and has it when
 * the call returns. The event's res is -ECANCELED; for a poll it is 0, and for
 * a partly done write the number of bytes written. A request that is being
 * executed goes on and ends by itself.
 * ctx is the io_context_t or aio_context_t, as a number.
 *
 * Return: -EINVAL if ctx is no context; -ENOENT if there is no such request;
 * -EALREADY if none is pending, but some are being executed, or submitted by
 * another thread; -EAGAIN as for the work queue.
 * Thread-safety: any thread.
 */

/*
 * Cancel the oldest pending request that was submitted with this iocb, which is
 * compared by its address and not read.
 * Return: 0, or an error of the above.
 */
int uaio_cancel(uint64_t ctx, const void *iocb);

/*
 * Cancel all pending requests: those that were submitted with the descriptor
 * fd on the open file that it refers to now, or those of the whole context.
 * Return: how many, at least 1, or an error of the above.
 */
int uaio_cancel_fd(uint64_t ctx, int fd);
int uaio_cancel_all(uint64_t ctx);

#ifdef __cplusplus
}
#endif

#endif /* UAIO_H */
