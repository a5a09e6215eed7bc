/* SPDX-License-Identifier: MIT */
/*
 * Endable: lets a worker wait for a file until another thread ends the wait
 *
 * A worker may sleep in a system call that waits for a file. The library could
 * interrupt the call only by a signal, and the program may use any signal itself. So if
 * a call may wait for ever, the worker first waits in an endable until the file is
 * ready, and only then makes the call.
 *
 *   I1  To create an endable, the library opens descriptors. So endables are created
 *       only during a call of the program (ownfd.h, I1). A few unused endables stay
 *       open for reuse.
 *   I2  Once an endable is ended, every wait on it returns at once, until the endable
 *       is put back. While a thread ends an endable, no other thread may put it back.
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
 * Called each time the library starts, after uaio_pollers_init(): no endable exists
 * yet.
 */
void uaio_endables_init(void);

/* Return: an endable; NULL if there are no descriptors or no memory. */
struct uaio_endable *uaio_endable_get(void);
void uaio_endable_put(struct uaio_endable *endable);

/*
 * Wait until an event of events (POLL*) occurs on fd, which stays open meanwhile.
 * Return: 0; -EINTR if the endable was ended; -errno if epoll does not support the file,
 * for example a regular file, which is always ready.
 */
int uaio_endable_wait(struct uaio_endable *endable, int fd, uint32_t events);

void uaio_endable_end(struct uaio_endable *endable);

#endif /* UAIO_PROC_ENDABLE_H */
