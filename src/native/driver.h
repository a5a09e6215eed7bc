/* SPDX-License-Identifier: MIT */
/*
 * The driver: the library's thread that uses the kernel's io_uring
 *
 * The kernel's io_uring executes asynchronously what kernel AIO does, and buffered
 * reads and writes as well. But to complete a request, the kernel interrupts the thread
 * that has submitted it. If a thread of the program submitted, its own epoll_wait()
 * would end with EINTR. So a thread of the library, the driver, submits. Other threads
 * put requests on its list (they line them up). The driver submits all requests of the
 * list by one call, and completes those that the kernel has executed. The rest of the
 * library treats a request on the list like one that waits for a worker.
 *
 * Workers execute syncs, not the driver. In io_uring a thread of the kernel executes a
 * sync, and looks up the descriptor only then. By that time the descriptor might refer to
 * another file.
 *
 *   I1  A request on the list is in the state LINED, under the lock. The thread that
 *       takes the request off the list makes it RUNNING. The driver does so to submit
 *       the request, a canceller to cancel it. A thread that closes the request's file,
 *       or is about to end the process, takes the request and executes it itself.
 *
 *   I2  The driver submits requests as soon as it has taken them off the list. If the
 *       kernel does not accept a request, the request goes to a worker. The request is
 *       marked UAIO_KERNEL_MAY_WAIT, so no thread puts it on the list again. The
 *       submitting call never waits for a file, since workers execute requests of file
 *       servers. But the call may wait for the memory of a request, if the kernel must
 *       fetch this memory, for example from a file server. If the call lasts long,
 *       threads that submit send the requests on the list, and their own, to workers.
 *
 *   I3  Before the driver sleeps, it has found under the lock that the list is empty,
 *       or the kernel's ring full, and has set is_asleep. A thread that then puts a
 *       request on the list wakes the driver. The driver sleeps in its poller (an
 *       epoll), which reports completions. If a completion first needs the driver to
 *       run work in the kernel, the sleep ends with EINTR. The program may close the
 *       poller by a system call that the library does not see. Then the driver accepts
 *       no more requests, and looks for completions at intervals.
 *
 *   I4  While the kernel has requests of the driver, the driver does not end, as it
 *       must take their completions. It can take them even if a new seccomp filter
 *       refuses all calls of io_uring. In that case the requests on the list, and all
 *       requests submitted later, go to workers.
 *
 *   I5  Each file counts its requests that are with the kernel, in the same counter as
 *       for kernel AIO. A thread that closes the file's descriptor waits for them (I5 of
 *       native.h). The kernel looks up the descriptor between uaio_natives_begin() and
 *       uaio_natives_end().
 *
 *   I6  The number of requests on the list and with the kernel is at most the number of
 *       completions for which the ring has room. The kernel may create a thread for each
 *       of these requests, so a request that never ends holds up no other.
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

/* Called each time the engine starts, also in a child of fork(): resets all state. */
void uaio_driver_init(void);

/*
 * Return: whether the driver executes a request on file (a regular file or a block
 * device), if the request cannot be executed at once.
 */
bool uaio_driver_takes(const struct uaio_file *file,
		       const struct uaio_sqe *sqe);

/* As uaio_driver_takes(), for req, which is PREPPED and waits for no older request. */
bool uaio_driver_suits(const struct uaio_req *req);

/*
 * Put PREPPED requests on the driver's list. The driver does not accept a request for
 * which is_awaited() is true: a thread in exit or exec waits for this request (wq.h).
 * This function calls is_awaited() under the driver's lock. Requests that the driver does
 * not accept are appended to ret_refused, and stay PREPPED. Context: a thread of the
 * client. (A thread of the library cannot start the driver: if there is none, all
 * requests are refused.)
 */
void uaio_driver_add(struct list *reqs,
		     bool (*is_awaited)(const struct uaio_req *req),
		     struct list *ret_refused);

/*
 * Return: how many requests the kernel has executed for the driver since the engine
 * started.
 */
uint64_t uaio_driver_executed(void);

#ifdef UAIO_TESTING
bool uaio_driver_is_there(void);
bool uaio_driver_is_refused(void);
/* Return: whether the driver sleeps, and the list is empty. */
bool uaio_driver_is_quiet(void);
/*
 * Make the driver end as soon as it has no requests, as if it had been idle for long.
 */
void uaio_driver_end_when_idle(void);
/*
 * Set how long the driver may be in one submitting call; after that time other threads
 * send requests to workers.
 */
void uaio_driver_have_patience(int64_t ns);
/*
 * Forget that the kernel has refused rings or requests, so that the library tries
 * again.
 */
void uaio_driver_ask_again(void);
#endif

#endif /* UAIO_NATIVE_DRIVER_H */
