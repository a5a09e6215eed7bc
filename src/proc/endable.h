/* SPDX-License-Identifier: MIT */
/*
 * Endables: a worker waits until a file is ready, and another thread may end that
 *
 * A call of a worker's that waits for a file cannot be interrupted: a signal would
 * be the program's. So where a call may wait for ever, a worker makes it only when
 * the file is ready, and waits for that here.
 *
 *   I1  An endable is got in a call of the host's, as that opens descriptors
 *       (ownfd.h, I1). A few that were put back stay open for the next.
 *   I2  It is ended once, and stays so until it is put back. The thread that ends it
 *       knows that it is not put back meanwhile.
 *
 * Thread-safety: any thread; one at a time waits on an endable, holding no lock.
 *
 * Tested by src/op/test-splice.c and src/uring/test-uring-cancel.c.
 */
#ifndef UAIO_PROC_ENDABLE_H
#define UAIO_PROC_ENDABLE_H

#include <stdint.h>

struct uaio_endable;

/* Called each time the engine starts, after uaio_pollers_init(). */
void uaio_endables_init(void);

/* Return: an endable, or NULL if no descriptors or no memory can be had. */
struct uaio_endable *uaio_endable_get(void);
void uaio_endable_put(struct uaio_endable *endable);

/*
 * Wait until one of events (POLL*) is so on fd, which stays open.
 * Return: 0; -EINTR: it was ended; -errno if it cannot be waited for: a file that is
 * always ready, for example.
 */
int uaio_endable_wait(struct uaio_endable *endable, int fd, uint32_t events);

void uaio_endable_end(struct uaio_endable *endable);

#endif /* UAIO_PROC_ENDABLE_H */
