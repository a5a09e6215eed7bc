/* SPDX-License-Identifier: MIT */
/*
 * The driver: the thread that uses the kernel's io_uring
 *
 * The kernel's io_uring executes asynchronously what kernel AIO does, and buffered
 * reads and writes as well. But to complete a request it interrupts the thread that has
 * submitted the request: a program's own epoll_wait() would end with EINTR. So a thread
 * of the library, the driver, submits. Requests are lined up (put on a list) for the
 * driver. It submits all requests of the list by one call, and completes those that the
 * kernel has executed. For the rest of the library a lined request is a request that
 * waits for a worker.
 *
 * Syncs stay with workers. In the kernel a thread of the ring executes a sync, and
 * looks up the descriptor only then: by that time the descriptor might be another file.
 *
 *   I1  A request is LINED while it is on the list, under the lock. The thread that
 *       takes it off the list makes it RUNNING: the driver does, to submit it; or a
 *       canceller; or a thread that closes its file or leaves the process, to execute
 *       it itself.
 *
 *   I2  The driver submits at once what it takes off the list, or sends it to a worker,
 *       marked (UAIO_KERNEL_MAY_WAIT) so that it does not come back. The submitting
 *       call never waits for a file. It may wait for the memory of a request, if that
 *       must be fetched from somewhere. (Files of a file server are left to workers.)
 *       If a thread finds that the driver has been in a call for long, it sends the
 *       lined requests, and its own, to workers.
 *
 *   I3  The driver sleeps only after it has found the list empty, or the kernel's ring
 *       full, under the lock, and has said so (is_asleep). The thread that puts a
 *       request on the list then wakes it. It sleeps in its poller, which reports
 *       completions. If a completion needs the driver to run work in the kernel first,
 *       that ends the sleep by EINTR. If the program has closed the poller by a system
 *       call that the library does not see, the driver accepts no more requests, and
 *       looks for completions at intervals.
 *
 *   I4  While it has requests with the kernel, the driver does not end. So it takes the
 *       kernel's completions even if a filter that was installed meanwhile refuses all
 *       calls of io_uring: the lined requests and all later ones then go to workers.
 *
 *   I5  Each request with the kernel counts in its file, as requests of kernel AIO do
 *       (I5 of native.h); the kernel looks up its descriptor between
 *       uaio_natives_begin() and _end().
 *
 *   I6  No more requests are lined and with the kernel than the ring has room for
 *       completions. The kernel may have a thread for each of them, so a request that
 *       never ends holds up no other.
 *
 * Thread-safety: any thread.
 *
 * Tested by test-driver.c.
 */
#ifndef UAIO_NATIVE_DRIVER_H
#define UAIO_NATIVE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "op/op.h"

struct list;
struct uaio_file;
struct uaio_req;

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_driver_init(void);

/*
 * Return: whether the driver executes a request on file, a regular file or a block
 * device, if the request must wait for anything but older requests.
 */
bool uaio_driver_takes(const struct uaio_file *file,
		       const struct uaio_sqe *sqe);

/* uaio_driver_takes() for req, which is PREPPED and can be executed now. */
bool uaio_driver_suits(const struct uaio_req *req);

/*
 * Line up PREPPED requests. is_awaited: see struct uaio_wq_ops; called under the lock.
 * Requests that the driver does not accept are appended to ret_refused: they stay
 * PREPPED. Context: a thread of the client if there may be no driver yet; otherwise the
 * requests are refused.
 */
void uaio_driver_add(struct list *reqs,
		     bool (*is_awaited)(const struct uaio_req *req),
		     struct list *ret_refused);

/* Return: how many requests the driver's ring has executed since the engine started. */
uint64_t uaio_driver_executed(void);

#ifdef UAIO_TESTING
bool uaio_driver_is_there(void);
bool uaio_driver_is_refused(void);
/* Return: whether the driver sleeps, with no request lined. */
bool uaio_driver_is_quiet(void);
/*
 * Have the driver end as soon as it has no requests, as if it had been idle for long.
 */
void uaio_driver_end_when_idle(void);
/* Set how long a submitting call may last before the driver counts as held up. */
void uaio_driver_have_patience(int64_t ns);
/* Forget refusals: the kernel is asked again for what it has refused. */
void uaio_driver_ask_again(void);
#endif

#endif /* UAIO_NATIVE_DRIVER_H */
