/* SPDX-License-Identifier: MIT */
/*
 * Endable: an epoll in which a worker waits for a file. Another thread can end the
 * worker's wait
 *
 * A worker may sleep in a system call that waits for a file. The library could
 * interrupt the call only by a signal, and the program may use any signal itself. So if
 * a call may wait for ever, the worker first waits in an endable until the file is
 * ready, and only then makes the call.
 *
 *   I1  To create an endable, the library opens descriptors. So endables are created
 *       only during a call of the program (ownfd.h, I1). A few unused endables stay
 *       open for reuse.
 *   I2  Once a thread has called uaio_endable_end(), every wait on the endable returns at
 *       once, until uaio_endable_put(). While a thread is in uaio_endable_end(), no
 *       other thread may call uaio_endable_put() for that endable.
 *
 * Context: any thread. One thread at a time waits on an endable, and holds no lock.
 *
 * Tested by src/op/test-splice.c and src/uring/test-uring-cancel.c.
 */
#ifndef UAIO_PROC_ENDABLE_H
#define UAIO_PROC_ENDABLE_H

#include <stdint.h>

struct uaio_endable;

/*
 * Called each time the library starts, also in a child of fork(), after
 * uaio_pollers_init(): resets all state.
 */
void uaio_endables_init(void);

/* Return: an endable; NULL if descriptors or memory are refused. */
struct uaio_endable *uaio_endable_get(void);
/* Give back an endable, on which no thread waits: keep it for reuse, or free it. */
void uaio_endable_put(struct uaio_endable *endable);

/*
 * Wait until one of `events` (POLL*) occurs on fd, which stays open meanwhile.
 * Return: 0; -EINTR if another thread has called uaio_endable_end(); -errno if epoll does
 * not support the file, for example a regular file, which is always ready.
 */
int uaio_endable_wait(struct uaio_endable *endable, int fd, uint32_t events);

/* End the wait on the endable, and all later waits until uaio_endable_put(). */
void uaio_endable_end(struct uaio_endable *endable);

#endif /* UAIO_PROC_ENDABLE_H */
