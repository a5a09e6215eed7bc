/* SPDX-License-Identifier: MIT */
/*
 * Care: what the fallback thread does for one queue that it looks after
 *
 * Only fallback.c includes this. The thread has a stay in the queue meanwhile
 * (I2 there).
 *
 * Tested by test-ready-alone.c.
 */
#ifndef UAIO_READY_CARE_H
#define UAIO_READY_CARE_H

#include <stdbool.h>

#include "req/queue.h"

/* How much care a queue on the list takes, in rising order. */
enum uaio_care {
	UAIO_CARE_LEAVE,  /* none: it need not be on the list */
	UAIO_CARE_OTHERS, /* callers do what is to be done */
	UAIO_CARE_OURS,
};

static inline struct uaio_group *uaio_care_group(struct uaio_ready *ready)
{
	return container_of(ready, struct uaio_group, ready);
}

/*
 * Return: whether callers have completed something since the last look. In the
 * commons, callers of one queue do not see to the others. Nor do callers see to what
 * workers have submitted to the kernel: they may be in a sleep that began before that.
 */
bool uaio_care_is_attended(struct uaio_ready *ready);

/*
 * Run what is ready, and arm.
 * Return: whether all is armed and nothing is left.
 */
bool uaio_care_serve(struct uaio_ready *ready);

/* Adopt a queue (fallback.c). Return: false if that cannot be. */
typedef bool uaio_adopt_fn(struct uaio_ready *ready);

/* Look at a queue that is on the list, and adopt it if no caller serves it. */
enum uaio_care uaio_care_for(struct uaio_ready *ready, bool is_urgent,
			     uaio_adopt_fn *adopt);

#endif /* UAIO_READY_CARE_H */
