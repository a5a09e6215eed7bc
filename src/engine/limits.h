/* SPDX-License-Identifier: MIT */
/*
 * Limits of the work queue, as they were asked for
 *
 * By the options, then by who calls uaio.h. They are kept here, so that they
 * can be set before the engine is up and outlast a fork; while it is up, the
 * queue is told at once.
 *
 *   I1  What is kept is consistent: no more fixed workers than workers. A change
 *       that would make it otherwise is refused as a whole, of both accounts.
 *   I2  While the engine is up the queue has what is kept.
 *
 * Thread-safety: any thread; the lock is that which brings the engine up.
 */
#ifndef UAIO_ENGINE_LIMITS_H
#define UAIO_ENGINE_LIMITS_H

#include "uaio.h"

/* Tell the queue, which is just up. Under the lock. */
void uaio_limits_apply(void);

/*
 * See uaio.h; what the arrays hold is checked here, where they are is not.
 * Return: 0, with the values from before in the array; -EINVAL with nothing
 * changed; -EAGAIN in a child of vfork().
 */
int uaio_limits_set_workers(int max_workers[]);
int uaio_limits_set_fixed(struct uaio_wq_fixed fixed[]);

#endif /* UAIO_ENGINE_LIMITS_H */
