/* SPDX-License-Identifier: MIT */
/*
 * The driver: the thread that uses the kernel's io_uring
 *
 * The kernel's io_uring executes asynchronously what kernel AIO does, and buffered reads
 * and writes as well. But it interrupts the thread that has submitted, to complete a
 * request there: a program's own epoll_wait() would end with EINTR. So a thread of ours
 * submits. Requests are lined up for it; it submits all that are there by one call, and
 * completes what the kernel has executed. For the rest of the library a lined request is
 * one that waits for a worker.
 *
 * Syncs stay with workers. The kernel has a thread of its own execute them, which looks
 * the descriptor up only then: it might be another file's by that time.
 *
 *   I1  A request is LINED while it is on the list, under the lock. The thread that
 *       takes it off makes it RUNNING: the driver, to submit it; a canceller; a
 *       thread that closes its file or leaves the process, to execute it itself.
 *   I2  What the driver takes off it submits at once, or sends to a worker, marked
 *       (UAIO_KERNEL_MAY_WAIT) so that it does not come again. The submitting call does not wait for
 *       a file, but for the memory of a request, if that has to be fetched from
 *       somewhere. (Files of a server are workers'.) A thread that finds the driver held up so sends what is lined, and
 *       its own requests, to workers.
 *   I3  The driver sleeps only after it has found the list empty, or the kernel's ring
 *       full, under the lock, and has said so (is_asleep); the thread that puts
 *       something there wakes it. It sleeps in its poller, which tells of completions;
 *       one for which the driver has to run work in the kernel first ends the sleep by
 *       EINTR. If the program has closed the poller by a call that we do not see, the
 *       driver takes no more requests, and looks for what the kernel has by the clock.
 *   I4  While it has requests with the kernel, the driver stays. So the kernel has its
 *       answer taken even if a filter that was installed meanwhile refuses all calls
 *       of io_uring: what is lined, and all that comes later, goes to workers then.
 *   I5  Each request with the kernel counts in its file, as those of kernel AIO do
 *       (I5 of native.h), and its look-up of the descriptor is within
 *       uaio_natives_begin() and _end().
 *   I6  Not more requests are lined and with the kernel than the ring has room for
 *       completions, and the kernel may have a thread for each: one that never ends holds
 *       up no other.
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
 * Return: whether a request on file, a regular one or a block device, is one for the
 * driver, if it has to wait for more than older requests.
 */
bool uaio_driver_takes(const struct uaio_file *file,
		       const struct uaio_sqe *sqe);

/* The same for req, which is PREPPED and can be executed now. */
bool uaio_driver_suits(const struct uaio_req *req);

/*
 * Line up PREPPED requests. is_awaited: see struct uaio_wq_ops; called under the lock.
 * To ret_refused are appended those that the driver does not take: they are PREPPED.
 * Context: a thread of the client's if there may be no driver yet; others are refused.
 */
void uaio_driver_add(struct list *reqs,
		     bool (*is_awaited)(const struct uaio_req *req),
		     struct list *ret_refused);

/* Return: how many requests were executed so since the engine started. */
uint64_t uaio_driver_executed(void);

#ifdef UAIO_TESTING
bool uaio_driver_is_there(void);
bool uaio_driver_is_refused(void);
/* Return: whether it sleeps, with nothing lined. */
bool uaio_driver_is_quiet(void);
/* It ends as soon as it has no requests, as if it had been idle for long. */
void uaio_driver_end_when_idle(void);
/* How long a call lasts before the driver counts as held up. */
void uaio_driver_have_patience(int64_t ns);
/* What the kernel has refused is asked for again. */
void uaio_driver_ask_again(void);
#endif

#endif /* UAIO_NATIVE_DRIVER_H */
