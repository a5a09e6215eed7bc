/* SPDX-License-Identifier: MIT */
/*
 * Native requests: requests that the kernel itself executes asynchronously
 *
 * A read, or an in-place write, of a file opened with O_DIRECT needs no worker if this
 * process may use the kernel's own asynchronous I/O (here: kernel AIO). When a queue
 * first has a native request, it gets a ring of the kernel (a context of kernel AIO),
 * to which all its native requests go. One system call submits a batch of requests.
 * Threads that serve the queue's parked requests (ready.h) take the completions from
 * the ring's memory, without a call. The ring's eventfd is in the queue's epoll. So for
 * these threads the ring is like any other file that the epoll reports.
 *
 * Only requests that the kernel executes asynchronously are native. They are submitted
 * with RWF_NOWAIT, with the exceptions below. The kernel then hands back requests for
 * which it would have to wait, and refuses requests that it does not support. A worker
 * executes these. Sometimes the kernel accepts no more requests, or refuses a ring
 * (quota, seccomp filter). Then workers execute all requests, and the library tries the
 * kernel again after a while.
 *
 * A large request (512 KiB and more) goes to the kernel whole. The kernel cuts it into
 * pieces that the device accepts, and submits all of them at once. This takes less
 * processor time than segments (split.h). With RWF_NOWAIT the kernel does not cut, and
 * hands the request back. The kernel may still execute small requests, so the library
 * counts separately how many large and how many small requests were handed back. If
 * earlier results have shown that the file supports RWF_NOWAIT, a worker submits the
 * large request without that flag. Then the kernel mostly waits only for room in the
 * device's queue. Large requests on a file server (FUSE, NFS) are not native, as their
 * pieces would go to the server one after the other. If --segments asks for several
 * segments, no large request is native.
 *
 * Requests on a file server (FUSE, NFS) are submitted by workers only, and without
 * RWF_NOWAIT. io_submit() waits while the server has as many requests as it accepts at
 * once (max_background of FUSE). If the server accepts no request asynchronously,
 * io_submit() waits for the answer. In most cases io_submit() does not wait, so a request
 * that the server does not answer occupies no worker. Another gain: the server gets
 * several in-place writes of one file at once. Plain calls would each hold the inode's
 * lock until they are answered.
 *
 * If a request on a file server was submitted to the kernel, the process cannot end
 * before the server has answered it. For clients of kernel AIO this is so even without
 * the library. So only for these clients, the library submits reads on a file server.
 *
 * In most cases a write that was handed back has no blocks in the file yet. The kernel
 * first waits until the file system has found free blocks, and then for the device.
 * During a worker's plain call, other such writes of the file would wait until the call
 * ends. So a worker submits the write without RWF_NOWAIT to the same ring: then the
 * kernel's call waits only until free blocks are found. If the write is the only request
 * of its file, there is no other write to wait. Then the worker makes a plain call, which
 * ends one thread switch earlier.
 *
 * Once several writes in a row were handed back, the client's thread submits the next
 * ones itself without RWF_NOWAIT, as it would without the library. Finding free blocks
 * takes less time than switching to a worker and back. As with buffered writes
 * (policy.h), after some calls that slept, workers submit the writes of that inode for a
 * while. With --never-block, workers submit all of them. Workers also submit writes with
 * O_DSYNC, except on ext4 and XFS, where a thread of the kernel syncs the file after the
 * call.
 *
 *   I1  A native request is RUNNING (req.h). From its submission on, the request
 *       belongs to the kernel. The thread that takes the completion from the ring
 *       completes the request.
 *
 *   I2  A request has one completion in the ring. A thread takes completions under the
 *       lock, from memory. The library never calls io_getevents of the kernel, so no other
 *       thread can take any.
 *
 *   I3  A queue gives its ring back when the last of its requests is complete. The ring
 *       is then empty, and may serve another queue.
 *
 *   I4  While the kernel has a request, the request counts as parked, so some thread
 *       serves its queue (I6 of ready.h). The eventfd is in the queue's epoll,
 *       edge-triggered, before the first request is submitted. A thread checks the ring
 *       before it sleeps in the epoll. The epoll reports completions that come after
 *       this check, so the thread misses none.
 *
 *   I5  The kernel may hand a request back after its submission. A worker then executes
 *       the request on its descriptor. So a thread that closes the descriptor first
 *       waits, for some seconds, until the kernel has completed the file's requests.
 *       Then it closes the descriptor in any case, as a device that does not answer must
 *       not stop a program (closing.c). The kernel itself keeps the file open.
 *
 *   I6  A request that a worker submits may be complete before the worker's call returns.
 *       So after the call the worker must not use the request. It may use the queue,
 *       which it has pinned (uaio_ready_pin()). The worker announces its call
 *       (uaio_wq_calls()), then counts the request among those that the kernel has, and
 *       only then makes the call. A thread that closes the descriptor reads the count,
 *       then looks for workers that have announced a call. So it misses no call that may
 *       still look up the descriptor. Once a thread is closing the descriptor, workers
 *       submit no more. Requests that are submitted so that the kernel may wait are
 *       marked (UAIO_KERNEL_MAY_WAIT): if one is handed back, a worker executes it by a
 *       plain call.
 *
 * Thread-safety: any thread; uaio_native_take() and uaio_native_submit() hold no lock
 * across a system call that may block.
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

/* Called each time the engine starts, also in a child of fork(): resets all state. */
void uaio_natives_init(void);
#ifdef UAIO_TESTING
/*
 * Called between two tests: like uaio_natives_init(), but reset the rings under their
 * lock, because the fallback thread may be looking for rings.
 */
void uaio_natives_reset(void);
#endif

/* How a thread of the client submits a request to the kernel */
enum uaio_native_way {
	/* not at all: the request is not native, or a worker may submit it */
	UAIO_NATIVE_NOT,
	/*
	 * with RWF_NOWAIT: the kernel hands back a request for which it would wait
	 */
	UAIO_NATIVE_NOWAIT,
	/*
	 * without RWF_NOWAIT: the call may wait while the kernel finds free blocks for a
	 * write
	 */
	UAIO_NATIVE_BLOCKING,
};

/*
 * Return: how to submit req. req is PREPPED and has never waited for an older request
 * of its inode, so sqe.fd still refers to its file.
 */
enum uaio_native_way uaio_native_way(const struct uaio_req *req);

/*
 * Return: whether native requests of the queue cannot be submitted now, as the kernel has
 * refused a ring or requests lately.
 */
bool uaio_native_is_refused(const struct uaio_group *group);

/*
 * Return: whether a worker, which is about to execute req, may submit req to the kernel
 * instead. req is RUNNING. True only for three kinds of requests: writes for which the
 * kernel may first have to find free blocks; large requests on a disk; and small requests
 * on a file server (FUSE, NFS).
 */
bool uaio_native_suits_worker(const struct uaio_req *req);

/*
 * Return: whether the kernel never hands requests of the file back, so that each result
 * is final. True for files on a file server (FUSE, NFS).
 */
bool uaio_native_is_final(const struct uaio_file *file);

/*
 * The most requests that one call submits, and the most completions that one call takes
 */
enum { UAIO_NATIVE_BATCH = 32 };

/*
 * Return: the queue's ring, which is made if there is none; NULL if there can be none
 * now. The caller has called uaio_ready_expect() for a request, and keeps the queue from
 * being freed.
 */
struct uaio_native *uaio_native_get(struct uaio_group *group);

/*
 * Submit RUNNING requests of the ring's queue, at most UAIO_NATIVE_BATCH, by one call. If
 * a request is marked UAIO_KERNEL_MAY_WAIT, the call may wait. The caller has pinned the
 * queue.
 * Return: how many requests the kernel has accepted, from the first on. If not all:
 * *ret_is_one is true if the kernel has refused only the next request, and false if it
 * accepts no more requests now.
 */
unsigned uaio_native_submit(struct uaio_native *native,
			    struct uaio_req *const *reqs, unsigned nr,
			    bool *ret_is_one);

/*
 * Submit one request for which uaio_native_suits_worker() is true; the kernel's call
 * may wait.
 * Return: whether the kernel has accepted the request. Then the request, and its file,
 * may be complete and freed.
 */
bool uaio_native_submit_blocking(struct uaio_native *native,
				 struct uaio_req *req,
				 struct uaio_worker *worker);

/*
 * Return: the argument of uaio_wq_calls() for a worker that submits a request of file.
 */
const void *uaio_native_called_on(const struct uaio_file *file);

/*
 * Take up to max completions of the queue's requests; the caller completes the requests.
 * A result of -EAGAIN means that the request was not executed, or only in part, and needs
 * a worker.
 * Return: how many were taken.
 */
unsigned uaio_native_take(struct uaio_group *group, struct uaio_req **ret_reqs,
			  int64_t *ret_results, unsigned max);

/* Return: how many requests of the queue the kernel has, or had just now. */
uint32_t uaio_native_nr(const struct uaio_group *group);

/*
 * Return: whether workers have submitted, or are about to submit, some of the queue's
 * requests that the kernel has.
 */
bool uaio_native_has_by_workers(const struct uaio_group *group);

/*
 * A worker is about to submit a request. The request counts as submitted by a worker
 * until its completion is taken. If it is not submitted, call
 * uaio_native_unexpect_by_worker().
 */
void uaio_native_expect_by_worker(struct uaio_native *native);
void uaio_native_unexpect_by_worker(struct uaio_native *native);

/*
 * Leave the library, and sleep for a short time, or until uaio_native_nr() differs from
 * nr. Then enter the library again.
 */
void uaio_native_await(const struct uaio_group *group, uint32_t nr);

/*
 * Called when the last request of the queue is complete. After uaio_native_leave(),
 * uaio_natives_each() no longer finds the queue. uaio_native_put() gives the queue's ring
 * back. It is called when no thread pins the queue (uaio_ready_pin()) any more.
 */
void uaio_native_leave(struct uaio_group *group);
void uaio_native_put(struct uaio_group *group);

/*
 * Call act() for each queue whose requests the kernel has; if there are many such queues,
 * for some of them. Meanwhile the queue is pinned, and no lock is held.
 * Return: how many requests of all queues the kernel had.
 */
uint32_t uaio_natives_each(void (*act)(struct uaio_group *group));

/* Return: how many requests the kernel has executed since the engine started. */
uint64_t uaio_natives_executed(void);

/*
 * Called before the descriptor of file is closed. *ret_nr: how many requests of file
 * the kernel has.
 * Return: false if the number is not known, as some thread is just submitting requests.
 */
bool uaio_natives_hold(const struct uaio_file *file, uint32_t *ret_nr);

/*
 * If fd is the eventfd of a ring, move the eventfd to another descriptor, so that the
 * program can use fd.
 * Return: 0; -ENOENT: fd is no ring's eventfd; -EBUSY: no other descriptor is free.
 */
int uaio_natives_yield(int fd);

#endif /* UAIO_NATIVE_NATIVE_H */
