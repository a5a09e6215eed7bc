/* SPDX-License-Identifier: MIT */
/*
 * The engine, as front-ends see it
 *
 * A front-end translates its ABI into these calls and back; it holds no
 * policy, no lock and no thread. All calls return what the kernel's would, as
 * a negative errno, and touch no errno.
 *
 * Context: any thread that has entered (entry.h).
 */
#ifndef UAIO_ENGINE_ENGINE_H
#define UAIO_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/process.h"
#include "wq/wq.h"
#include "engine/opdef.h"
#include "engine/ring.h"
#include "engine/wait.h"

struct uaio_ctx;
struct uaio_counters;
struct uaio_file;
struct uaio_stats;

/* When the library is loaded: options, processors. No thread, no memory. */
void uaio_engine_load(void);

/*
 * Bring the engine up in this process if it is not. After fork() it is not.
 * Return: 0, -ENOMEM, or -EAGAIN in a child of vfork().
 */
int uaio_engine_start(void);

/* contexts */

/* Return: 0, -EINVAL, -EAGAIN over quota, -ENOMEM. Mirrors io_setup(2). */
int uaio_ctx_setup(uint32_t nr_events, uint64_t *ret_handle);

/*
 * Returns once nothing of the context is in flight.
 * Return: 0 or -EINVAL. Mirrors io_destroy(2).
 */
int uaio_ctx_destroy(uint64_t handle);

/*
 * Cancel the request whose obj is this.
 * Return: -EINPROGRESS if it will complete as cancelled, -EINVAL if it cannot
 * be found or not be stopped. Mirrors io_cancel(2).
 */
int uaio_ctx_cancel(uint64_t handle, uint64_t obj);

/*
 * Cancel the oldest pending request whose obj is this; all that are pending on
 * the open file that fd is now; all. Each has its event when this returns.
 * Return: 0, of the others how many, at least 1; -EALREADY: others are making
 * or handing on what is meant; -ENOENT: nothing is; -EINVAL: no such context.
 */
int uaio_ctx_cancel_one(uint64_t handle, uint64_t obj);
int uaio_ctx_cancel_fd(uint64_t handle, int fd);
int uaio_ctx_cancel_all(uint64_t handle);

/*
 * The same for a thread with another descriptor table (table.h).
 * Return: also -EAGAIN if there is no thread to do it.
 */
int uaio_ctx_destroy_parted(uint64_t handle);
int uaio_ctx_cancel_parted(uint64_t handle, uint64_t obj);
int uaio_ctx_cancel_one_parted(uint64_t handle, uint64_t obj);
int uaio_ctx_cancel_all_parted(uint64_t handle);

struct uaio_getevents {
	long min_nr;
	long nr;
	struct uaio_wait wait;
	bool is_strict; /* probe where events are to be stored */
};

/*
 * Return: events moved to ret_events, -EINVAL, -EINTR, or -EFAULT: there are
 * events and ret_events is NULL; nothing is lost. Mirrors io_pgetevents(2);
 * 0 <= min_nr <= nr is the caller's to check.
 */
long uaio_ctx_getevents(uint64_t handle, struct uaio_event *ret_events,
			const struct uaio_getevents *call);

/*
 * The client has the kernel move [old, old + old_bytes), a ring of ours.
 * Return: false if it is none: nothing was done. Otherwise true, with what
 * mremap(2) is to return in ret_addr.
 */
bool uaio_ctx_mremap(uint64_t old, size_t old_bytes, size_t new_bytes,
		     int flags, uint64_t new_addr, int64_t *ret_addr);

/*
 * The client unmaps the ring at addr: its handle becomes invalid, as with the
 * kernel, and the memory stays.
 * Return: false if it is no ring of ours: nothing was done.
 */
bool uaio_ctx_munmap(uint64_t addr);

/* Return: whether handle names a context without unread events. */
bool uaio_ctx_is_empty(uint64_t handle);

/* submission */

enum { UAIO_BATCH_COMPLETIONS = 16 };

/*
 * What one call of io_submit collects: the completions of requests made on the
 * spot, posted together, and the wake-ups owed to workers. On the caller's
 * stack; its members are submit.c's.
 */
struct uaio_batch {
	struct uaio_ctx *ctx;
	uint32_t nr_completions;
	uint32_t nr_unused; /* tickets taken and not used up */
	bool has_parked;
	uint64_t words;           /* of the completions, ORed */
	struct uaio_stats *stats; /* NULL: off, and the rest is not set */
	uint32_t nr_inline;
	uint32_t nr_handed_over;
	uint64_t start;                  /* of the first request, in cycles */
	uint64_t first_start, first_end; /* of the first made inline */
	uint64_t end;                    /* of the last made inline */
	struct uaio_kick kick;
	struct uaio_completion completions[UAIO_BATCH_COMPLETIONS];
};

/*
 * Begin a submission of up to nr requests to the context.
 * Return: how many there is room for, 0 if it is full, or -EINVAL. If it is
 * not positive, there is no batch to end.
 */
long uaio_batch_begin(struct uaio_batch *batch, uint64_t handle, long nr);

/*
 * Submit one request on file, as looked up; NULL if its operation is on none.
 * Return: 0: accepted, its event will come or is there; or the -errno with
 * which it is refused.
 */
int uaio_batch_add(struct uaio_batch *batch, struct uaio_file *file,
		   const struct uaio_sqe *sqe);

/*
 * The two for a thread with another descriptor table (table.h). The file is the
 * caller's to drop, and the request is made here and now.
 */
int uaio_look_up_parted(int fd, struct uaio_file **ret_file);
int uaio_batch_add_parted(struct uaio_batch *batch, struct uaio_file *file,
			  const struct uaio_sqe *sqe);
void uaio_drop_parted(struct uaio_file *file);

/* Post what is complete, wake who is needed, give back unused room. */
void uaio_batch_end(struct uaio_batch *batch);

/* descriptors */

/*
 * Look up the descriptor of a request. The entry is borrowed (file.h, I2).
 * Return: 0; -EBADF if it is not open; -ENOMEM.
 */
int uaio_look_up(int fd, struct uaio_file **ret_file);

/*
 * Before and after descriptors [first, last] are closed or replaced. After, they
 * may be other threads' already.
 */
void uaio_fds_closing(unsigned first, unsigned last);
void uaio_fds_closed(unsigned first, unsigned last);

/*
 * The client puts a file of its own at fd, which is the engine's: what is there
 * moves elsewhere. fd stays open, and nobody uses it any more.
 * Return: 0, -EBUSY if that cannot be: a call on it is under way, or there is no
 * other number; -EAGAIN: it is not the engine's any more.
 */
int uaio_own_fd_yield(int fd);

/* statistics */

/* The process is about to end: finish what was accepted, report. */
void uaio_engine_exiting(void);

/*
 * The process is about to leave the program it runs, by exec or by ending
 * after a fork: finish what was accepted and let nothing be queued until it is
 * gone, or has come back by uaio_engine_stay().
 * Return: whether there is anything to come back to.
 */
bool uaio_engine_leave(void);
void uaio_engine_stay(void);

void uaio_counters_read(struct uaio_counters *ret_counters);

#endif /* UAIO_ENGINE_ENGINE_H */
