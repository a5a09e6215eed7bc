/* SPDX-License-Identifier: MIT */
/*
 * TIMER makes no system call, and has no file. ready/timer.h says how it expires. Tested by
 * ready/test-timer.c.
 */
#include <errno.h>

#include "op/rows.h"

int uaio_timer_prep(const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const uint32_t clocks = UAIO_TIMER_REALTIME | UAIO_TIMER_BOOTTIME;

	(void)file;
	if (sqe->timer_flags &
		    ~(clocks | UAIO_TIMER_ABSOLUTE | UAIO_TIMER_SUCCEEDS) ||
	    (sqe->timer_flags & clocks) == clocks || sqe->time_ns < 0)
		return -EINVAL;
	return 0;
}

/*
 * Called only for a thread with its own descriptor table, which executes its requests
 * itself. The thread would have to sleep until the timer expires, so refuse the request.
 */
int64_t uaio_timer_run(const struct uaio_sqe *sqe, int fd,
		       struct uaio_found *found, uint32_t extra_flags)
{
	(void)sqe;
	(void)fd;
	(void)found;
	(void)extra_flags;
	return -EOPNOTSUPP;
}
