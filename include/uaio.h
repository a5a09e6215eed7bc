/* SPDX-License-Identifier: MIT */
/*
 * uaio: what a program may ask of the library it runs on
 *
 * Nothing here is needed to use kernel AIO through uaio. A program that wants
 * to know or to steer more finds these functions with
 * dlsym(RTLD_DEFAULT, ...) and does without where the library is not loaded.
 *
 * All of it is experimental until 1.0: names and layouts may change.
 */
#ifndef UAIO_H
#define UAIO_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What has happened in this process since it started (or was forked). */
struct uaio_counters {
	uint64_t nr_contexts;   /* live now */
	uint64_t nr_setups;     /* io_setup calls that succeeded */
	uint64_t nr_requests;   /* completed */
	uint64_t nr_inline;     /* of them, inside io_submit */
	uint64_t nr_worker;     /* of them, any other way */
	uint64_t nr_wakeups;    /* threads woken in io_getevents */
	uint64_t nr_workers;    /* worker threads alive now */
	uint64_t table_bytes;   /* slots that map ids to contexts */
	uint64_t index_bytes;   /* index of ring addresses */
	uint64_t ring_bytes;    /* rings of live contexts */
	uint64_t context_bytes; /* one context, without its ring */
};

/*
 * Read the counters.
 *
 * Return: 0.
 * Thread-safety: any thread, not in signal handlers.
 */
int uaio_get_counters(struct uaio_counters *ret_counters);

/*
 * The work queue
 *
 * What would block its submitter is made by workers: threads of two accounts,
 * one for regular files and block devices, whose requests end by themselves,
 * and one for what may wait for ever. Workers come when work waits, up to a
 * limit, and leave when idle. Fixed ones, which stay, are there if asked for.
 * Each of these has a list of its own for operations that cannot block; kernel
 * AIO has none, so in its programs these lists are empty.
 *
 * The functions may be called at any time: before the first io_setup, and
 * while requests are under way. What is set outlasts a fork.
 *
 * Return, of all: 0; -EFAULT for NULL; -EAGAIN in a child of vfork(), and in a
 * signal handler that interrupted the library. Of those that set: -EINVAL, and
 * nothing is changed, of neither account.
 * Thread-safety: any thread.
 */
enum {
	UAIO_WQ_BOUNDED,   /* regular files and block devices */
	UAIO_WQ_UNBOUNDED, /* FIFOs, devices: may keep a thread for ever */
};

/*
 * Set how many workers each account may have, fixed ones among them: 0 to
 * 4096, or -1 to leave it. max_workers is given the values from before. Where
 * the limit is 0, requests of regular files are made by who submits them, and
 * those that may wait for ever are refused (-EAGAIN).
 * -EINVAL: a value is out of range, or less than the fixed workers asked for.
 */
int uaio_wq_set_workers(int max_workers[2]);
int uaio_wq_get_workers(int ret_max_workers[2]);

struct uaio_wq_fixed {
	int nr_workers; /* 0 to 16, and no more than the account may have */
	int max_works;  /* that each one's own list takes; over 1024 is 1024 */
};

/*
 * Set the fixed workers of each account; -1 leaves a value. fixed is given the
 * values from before.
 */
int uaio_wq_set_fixed(struct uaio_wq_fixed fixed[2]);
int uaio_wq_get_fixed(struct uaio_wq_fixed ret_fixed[2]);

/*
 * Cancelling
 *
 * A request that is pending, wherever it is (queued, waiting behind others of
 * its file, or until its file is ready), is removed and has its event like any
 * other, exactly one: with -ECANCELED; a poll with 0, and a write of which part
 * was done with the bytes of that. The event is there when the call returns.
 * What is being made goes on and ends by itself. ctx is the io_context_t or
 * aio_context_t, as a number.
 *
 * Return: -EINVAL if ctx is no context; -ENOENT if no such request is there;
 * -EALREADY if none is pending, but some are being made (or submitted, by
 * another thread); -EAGAIN as above.
 * Thread-safety: any thread.
 */

/*
 * Cancel the oldest pending request that was submitted by this iocb, which is
 * compared by its address and not read.
 * Return: 0, or as above.
 */
int uaio_cancel(uint64_t ctx, const void *iocb);

/*
 * Cancel all that are pending: on the open file that descriptor fd stands for
 * now and that were submitted by this number, or of the whole context.
 * Return: how many, at least 1, or as above.
 */
int uaio_cancel_fd(uint64_t ctx, int fd);
int uaio_cancel_all(uint64_t ctx);

#ifdef __cplusplus
}
#endif

#endif /* UAIO_H */
