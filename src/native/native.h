/* SPDX-License-Identifier: MIT */
/*
 * Native requests: those that the kernel executes asynchronously by itself
 *
 * A read or an in-place write of a file opened with O_DIRECT needs no worker where
 * this process may use the kernel's own asynchronous I/O (here: kernel AIO). The
 * requests of a queue go to a ring of the kernel's, which the queue gets when the
 * first of them comes. One system call submits a batch of them. Their completions
 * are taken from the ring in memory, without a call, by the threads that look after
 * what is parked in the queue (ready.h): to them, a native request is one more thing
 * that the queue's epoll tells of, by the ring's eventfd.
 *
 * Only what the kernel executes asynchronously is native: each request is submitted
 * with RWF_NOWAIT, and what the kernel would have to wait for, or refuses, is
 * handed back, for a worker. So is everything if the kernel takes no more requests
 * or refuses a ring (quota, filter). It is asked again after a while.
 *
 * A large request (of 512 KiB and more) is given to the kernel whole: it cuts it into
 * pieces that the device takes, all at once, for less processor time than segments
 * cost (split.h). With RWF_NOWAIT it does not cut, and gives the request back; that is
 * noted apart from what it gives back of small ones, and says nothing of these. A worker
 * submits such a request without RWF_NOWAIT, if the file is known to take that flag: then the kernel waits for nothing but room, most often. Large
 * requests of a file server (FUSE, NFS) are not native, as their pieces would go there
 * one after the other; nor are any if --segments asks for several.
 *
 * Requests on a file server (FUSE, NFS) are submitted by workers only, and without
 * RWF_NOWAIT: io_submit() waits there when the server has as many as it takes at once
 * (max_background of FUSE), and for the answer where the server takes none
 * asynchronously. Most often it does not wait. Then a request that is not answered
 * occupies no worker, and writes in place of one file are with the server together: plain
 * calls each hold the inode's lock until they are answered. What is submitted so keeps
 * the process from ending until it is answered. Reads wait so for clients of kernel AIO
 * only, who would find the same without the library.
 *
 * A write that was handed back has no blocks in the file yet, most often: the kernel
 * waits until they are found, and then for the device, and by a plain call keeps
 * every other such write of the file waiting for both. So a worker submits it, to the
 * same ring and without RWF_NOWAIT: then the kernel waits for the blocks only. But not
 * if it is the only request of its file: nothing waits for it, and a plain call ends
 * one switch earlier. Once several in a row have come back, the client's thread submits
 * them so itself, as in the kernel: to find blocks takes less than a switch to a worker
 * and back. It does as long as that is fast; like buffered writes (policy.h), those of an
 * inode are workers' for a while after some that slept. With --never-block they are
 * always workers'. So are writes with O_DSYNC, but on ext4 and XFS, where a thread of the
 * kernel's syncs the file after the call.
 *
 *   I1  A native request is RUNNING (req.h). It belongs to the kernel from when it
 *       is submitted; the thread that takes its completion completes it.
 *   I2  A request has one completion in the ring. One thread at a time takes
 *       completions (lock), and the kernel's calls that take them are never made,
 *       so no other takes any.
 *   I3  A queue's ring is given back when the last of its requests is complete.
 *       The ring is then empty, and may serve another queue.
 *   I4  While a request is with the kernel, it counts as parked, so a thread looks
 *       after it (I6 of ready.h). The eventfd is in the queue's epoll before the
 *       first request is submitted, edge-triggered: a thread that looks at the ring
 *       before it sleeps there misses none.
 *   I5  What the kernel gives back late, a worker executes on the descriptor. So a
 *       thread that closes it waits until the kernel is done, for some seconds.
 *       After that it goes, since the kernel holds the open file itself, and a
 *       device that does not answer holds up no program (closing.c).
 *   I6  What a worker has submitted may be complete before its call returns: after
 *       that the worker uses the queue, which it has pinned, and nothing of the
 *       request. It counts the request as the kernel's before the call, when the
 *       kernel has yet to look the descriptor up; so it says that it is in such a
 *       call before that, and a thread that closes the descriptor looks for it
 *       after it has read the count. Once a thread closes it, workers submit no
 *       more. A request that was submitted so that the kernel may wait, by whichever
 *       thread, is marked (UAIO_KERNEL_MAY_WAIT): if it comes back, a worker executes it by a
 *       plain call.
 *
 * Thread-safety: any thread; uaio_native_take() and _submit() hold no lock across a
 * system call that may block.
 *
 * Tested by test-native.c, test-native-large.c, test-native-blocks.c,
 * test-native-server.c and test-native-rings.c.
 */
#ifndef UAIO_NATIVE_NATIVE_H
#define UAIO_NATIVE_NATIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "req/queue.h"

struct uaio_file;
struct uaio_native;
struct uaio_req;
struct uaio_worker;

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_natives_init(void);
#ifdef UAIO_TESTING
/* uaio_natives_init() between two tests, when the fallback thread may look for rings. */
void uaio_natives_reset(void);
#endif

/* How a client's thread submits a request. */
enum uaio_native_way {
	UAIO_NATIVE_NOT,
	UAIO_NATIVE_NOWAIT,   /* what the kernel would wait for comes back */
	UAIO_NATIVE_BLOCKING, /* it waits for blocks, in the client's call */
};

/*
 * Return: how req, PREPPED and with a place in its inode's order, is submitted. It has
 * not waited for anything: its descriptor is what its client gave.
 */
enum uaio_native_way uaio_native_way(const struct uaio_req *req);

/* Return: whether the kernel takes no requests of the group now, or is not asked. */
bool uaio_native_is_refused(const struct uaio_group *group);

/*
 * Return: whether req, which a worker has made RUNNING to execute it, is a write for
 * blocks or a large request that the worker may submit.
 */
bool uaio_native_suits_worker(const struct uaio_req *req);

/*
 * Return: whether all that the kernel says of the file's requests are their results, so
 * that none is given back: a file server's.
 */
bool uaio_native_is_final(const struct uaio_file *file);

/* The most requests of one call. */
enum { UAIO_NATIVE_BATCH = 32 };

/*
 * Return: the ring of group, which is made if there is none; NULL: there can be
 * none now. The caller has expected a request (ready.h), and keeps the group.
 */
struct uaio_native *uaio_native_get(struct uaio_group *group);

/*
 * Submit RUNNING requests of the ring's group, at most UAIO_NATIVE_BATCH, by one
 * call. Those that are marked (UAIO_KERNEL_MAY_WAIT) may have it wait. The group is pinned.
 * Return: how many the kernel has taken, from the first on. If that is not all,
 * *ret_is_one: only the next is refused; otherwise the kernel takes no more now.
 */
unsigned uaio_native_submit(struct uaio_native *native,
			    struct uaio_req *const *reqs, unsigned nr,
			    bool *ret_is_one);

/*
 * The same for one request that suits this worker, which waits for what the kernel
 * waits for. Return: whether the kernel has taken it; then it may be complete, and gone,
 * and with it its file.
 */
bool uaio_native_submit_blocking(struct uaio_native *native,
				 struct uaio_req *req,
				 struct uaio_worker *worker);

/* Return: what such a worker has noted meanwhile by uaio_wq_calls(). */
const void *uaio_native_called_on(const struct uaio_file *file);

/*
 * Take completions of the group's requests, at most max. The caller completes the
 * requests; those with -EAGAIN were not executed, or only in part, and need a worker.
 * Return: how many.
 */
unsigned uaio_native_take(struct uaio_group *group, struct uaio_req **ret_reqs,
			  int64_t *ret_results, unsigned max);

/* Return: how many requests of the group are with the kernel, or were just now. */
uint32_t uaio_native_nr(const struct uaio_group *group);

/* Return: whether workers have submitted some of them, or are about to. */
bool uaio_native_has_by_workers(const struct uaio_group *group);

/*
 * A worker is about to submit one. It counts as such until its completion is taken, or
 * it was not submitted.
 */
void uaio_native_expect_by_worker(struct uaio_native *native);
void uaio_native_unexpect_by_worker(struct uaio_native *native);

/*
 * Sleep until that changes, or a short while is over. Returns at once if nr is not
 * the number. The thread is outside the library meanwhile.
 */
void uaio_native_await(const struct uaio_group *group, uint32_t nr);

/*
 * The last request of the group is complete. uaio_natives_each() finds it no more;
 * when nobody has it pinned, its ring is given back.
 */
void uaio_native_leave(struct uaio_group *group);
void uaio_native_put(struct uaio_group *group);

/*
 * Call act for each group that has requests with the kernel, or for some if there
 * are many. The group is pinned meanwhile, and no lock is held.
 * Return: how many requests there were.
 */
uint32_t uaio_natives_each(void (*act)(struct uaio_group *group));

/* Return: how many requests the kernel has executed since the engine started. */
uint64_t uaio_natives_executed(void);

/*
 * The descriptor of file is to be closed. *ret_nr: how many of its requests are
 * with the kernel.
 * Return: false if that is not known now, as a thread is submitting some.
 */
bool uaio_natives_hold(const struct uaio_file *file, uint32_t *ret_nr);

/* As uaio_pollers_yield(). */
int uaio_natives_yield(int fd);

#endif /* UAIO_NATIVE_NATIVE_H */
