/* SPDX-License-Identifier: MIT */
/*
 * Native requests: those that the kernel executes asynchronously by itself
 *
 * If this process may use the kernel's own asynchronous I/O (here: kernel AIO), a read
 * or an in-place write of a file opened with O_DIRECT needs no worker. Such requests of
 * a queue go to a ring of the kernel (a context of kernel AIO), which the queue gets
 * with its first such request. One system call submits a batch of requests. Threads
 * that look after the parked requests of the queue (ready.h) take the completions from
 * the ring's memory, without a call. The ring's eventfd is in the queue's epoll, so to
 * these threads a native request is one more thing that the epoll reports.
 *
 * Only requests that the kernel executes asynchronously are native. Each is submitted
 * with RWF_NOWAIT; the kernel hands back requests for which it would have to wait, and
 * refuses some; a worker executes these. Workers also execute all requests while the
 * kernel takes no more, or refuses a ring (quota, filter). The kernel is tried again
 * after a while.
 *
 * A large request (512 KiB and more) is given to the kernel whole. The kernel cuts it
 * into pieces that the device takes, all at once, for less processor time than segments
 * cost (split.h). With RWF_NOWAIT the kernel does not cut, and hands the request back.
 * Such requests are counted apart from small ones that are handed back, as they predict
 * nothing about small ones. If the file is known to take RWF_NOWAIT, a worker submits
 * the large request without that flag: then the kernel waits only for room in the
 * device's queue, most often. Large requests of a file server (FUSE, NFS) are not
 * native, as their pieces would go to the server one after the other; nor is any large
 * request if --segments asks for several segments.
 *
 * Requests on a file server (FUSE, NFS) are submitted by workers only, and without
 * RWF_NOWAIT. io_submit() waits there while the server has as many requests as it takes
 * at once (max_background of FUSE), and for the answer if the server takes no request
 * asynchronously. Most often it does not wait. Then a request without an answer
 * occupies no worker, and the server has several in-place writes of one file at once:
 * plain calls each hold the inode's lock until they are answered. The process cannot
 * end before such a request is answered. Reads are submitted so only for clients of
 * kernel AIO, who would find the same without the library.
 *
 * A write that was handed back mostly has no blocks in the file yet. The kernel waits
 * until blocks are found, and then for the device; with a plain call every other such
 * write of the file waits for both. So a worker submits the write, to the same ring and
 * without RWF_NOWAIT: then the kernel's call waits for the blocks only. If the write is
 * the only request of its file, nothing waits for it, and the worker makes a plain
 * call, which ends one thread switch earlier. Once several writes in a row were handed
 * back, the client's thread submits the next ones itself without RWF_NOWAIT, as on the
 * kernel: to find blocks takes less than a switch to a worker and back. It does this as
 * long as it is fast. As with buffered writes (policy.h), after some calls that slept,
 * workers submit the writes of that inode for a while. With --never-block workers
 * always do. They also do for writes with O_DSYNC, except on ext4 and XFS, where a
 * thread of the kernel syncs the file after the call.
 *
 *   I1  A native request is RUNNING (req.h). It belongs to the kernel from when it is
 *       submitted; the thread that takes its completion from the ring completes it.
 *
 *   I2  A request has one completion in the ring. One thread at a time takes
 *       completions (lock). The kernel's own calls that take completions are never
 *       made, so no other thread takes any.
 *
 *   I3  A queue's ring is given back when the last of the queue's requests is complete.
 *       The ring is then empty, and may serve another queue.
 *
 *   I4  While a request is with the kernel, it counts as parked, so a thread looks
 *       after it (I6 of ready.h). The eventfd is in the queue's epoll before the first
 *       request is submitted, edge-triggered. So a thread that looks at the ring before
 *       it sleeps in the epoll misses no completion.
 *
 *   I5  If the kernel hands a request back late, a worker executes it on the
 *       descriptor. So a thread that closes the descriptor waits until the kernel is
 *       done, for some seconds. After that time it closes the descriptor: the kernel
 *       itself holds the open file, and a device that does not answer shall not hold up
 *       a program (closing.c).
 *
 *   I6  A request that a worker has submitted may be complete before the worker's call
 *       returns. After the call the worker therefore uses the queue, which it has
 *       pinned, but not the request. The worker counts the request as the kernel's
 *       before the call, when the kernel has yet to look up the descriptor. So before
 *       it counts, it says that it is in such a call; a thread that closes the
 *       descriptor looks for such a worker after it has read the count. Once a thread
 *       closes the descriptor, workers submit no more. A request that any thread
 *       submitted so that the kernel may wait is marked (UAIO_KERNEL_MAY_WAIT): if it
 *       is handed back, a worker executes it by a plain call.
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
/*
 * uaio_natives_init() between two tests, while the fallback thread may be looking for
 * rings.
 */
void uaio_natives_reset(void);
#endif

/* How a client's thread submits a request. */
enum uaio_native_way {
	UAIO_NATIVE_NOT,
	UAIO_NATIVE_NOWAIT, /* the kernel hands back what it would wait for */
	/* the client's call waits while blocks are found */
	UAIO_NATIVE_BLOCKING,
};

/*
 * Return: how to submit req, which is PREPPED and has its place in its inode's order.
 * It has not waited for anything, so its descriptor is the one that its client gave.
 */
enum uaio_native_way uaio_native_way(const struct uaio_req *req);

/*
 * Return: whether the kernel takes no requests of the group now, or has refused lately
 * and is not tried.
 */
bool uaio_native_is_refused(const struct uaio_group *group);

/*
 * Return: whether a worker may submit req, which it has made RUNNING to execute it: an
 * in-place write that waits for blocks, a large request, or a request of a file server.
 */
bool uaio_native_suits_worker(const struct uaio_req *req);

/*
 * Return: whether the kernel hands no request of the file back, so that each result is
 * final. True for files of a file server.
 */
bool uaio_native_is_final(const struct uaio_file *file);

/* The most requests that one call submits or takes */
enum { UAIO_NATIVE_BATCH = 32 };

/*
 * Return: the ring of group, which is made if there is none; NULL if there can be none
 * now. The caller has expected a request (ready.h), and keeps the group alive.
 */
struct uaio_native *uaio_native_get(struct uaio_group *group);

/*
 * Submit RUNNING requests of the ring's group, at most UAIO_NATIVE_BATCH, by one call.
 * The call may wait for requests that are marked (UAIO_KERNEL_MAY_WAIT). The group is
 * pinned.
 * Return: how many the kernel has taken, from the first on. If these are not all,
 * *ret_is_one says that only the next is refused; otherwise the kernel takes no more
 * now.
 */
unsigned uaio_native_submit(struct uaio_native *native,
			    struct uaio_req *const *reqs, unsigned nr,
			    bool *ret_is_one);

/*
 * Submit one request that suits this worker, which waits while the kernel's call waits.
 * Return: whether the kernel has taken the request; then the request may be complete
 * and freed, and its file with it.
 */
bool uaio_native_submit_blocking(struct uaio_native *native,
				 struct uaio_req *req,
				 struct uaio_worker *worker);

/* Return: what a worker gives uaio_wq_calls() while it submits a request of file. */
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

/*
 * Return: whether workers have submitted some of the group's requests that are with the
 * kernel, or are about to.
 */
bool uaio_native_has_by_workers(const struct uaio_group *group);

/*
 * A worker is about to submit a request. The request counts as a worker's until its
 * completion is taken, or until _unexpect_by_worker() because it was not submitted.
 */
void uaio_native_expect_by_worker(struct uaio_native *native);
void uaio_native_unexpect_by_worker(struct uaio_native *native);

/*
 * Sleep until uaio_native_nr() changes, or a short while is over. Returns at once if it
 * is not nr. The thread is outside the library meanwhile.
 */
void uaio_native_await(const struct uaio_group *group, uint32_t nr);

/*
 * The last request of the group is complete: uaio_natives_each() no longer finds the
 * group. uaio_native_put() gives its ring back, once no thread has the group pinned.
 */
void uaio_native_leave(struct uaio_group *group);
void uaio_native_put(struct uaio_group *group);

/*
 * Call act for each group that has requests with the kernel, or for some of these
 * groups if there are many. The group is pinned meanwhile, and no lock is held.
 * Return: how many requests there were.
 */
uint32_t uaio_natives_each(void (*act)(struct uaio_group *group));

/* Return: how many requests the kernel has executed since the engine started. */
uint64_t uaio_natives_executed(void);

/*
 * The descriptor of file is about to be closed. *ret_nr: how many of its requests are
 * with the kernel.
 * Return: false if that is not known now, as a thread is just submitting some.
 */
bool uaio_natives_hold(const struct uaio_file *file, uint32_t *ret_nr);

/*
 * If fd is the eventfd of a ring, move the eventfd to another descriptor. Return: as
 * uaio_pollers_yield().
 */
int uaio_natives_yield(int fd);

#endif /* UAIO_NATIVE_NATIVE_H */
