/* SPDX-License-Identifier: MIT */
/*
 * Limits of the work queue, as they were asked for
 *
 * First the options ask for limits, then callers of uaio.h do. The limits are kept
 * here, so that they can be set before the engine is up, and still hold after a
 * fork. While the engine is up, a change is given to the work queue at once.
 *
 *   I1  The limits that are kept are consistent: no account has more fixed workers
 *       than workers. A change that would make them inconsistent is refused as a
 *       whole, for both accounts.
 *   I2  While the engine is up, the work queue has the limits that are kept.
 *
 * Thread-safety: any thread; the lock is the one that brings the engine up.
 */
#ifndef UAIO_LIFE_LIMITS_H
#define UAIO_LIFE_LIMITS_H

#include "uaio.h"

/* Give the limits to the work queue, which has just started. Under the lock. */
void uaio_limits_apply(void);

/*
 * See uaio.h. The values in the arrays are checked here, the addresses of the
 * arrays are not.
 * Return: 0, with the previous values in the array; -EINVAL with nothing
 * changed; -EAGAIN in a child of vfork().
 */
int uaio_limits_set_workers(int max_workers[]);
int uaio_limits_set_fixed(struct uaio_wq_fixed fixed[]);

#endif /* UAIO_LIFE_LIMITS_H */
