/* SPDX-License-Identifier: MIT */
#include "base/sleep.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <time.h>

#include "base/sys.h"

enum { NS_PER_S = 1000000000 };

int64_t uaio_now_ns(void)
{
	struct timespec ts;

	/* The C library asks the vDSO: no system call, no errno. */
	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int uaio_sleep(uint32_t *word, uint32_t expected, int64_t deadline_ns)
{
	const struct timespec until = {
		.tv_sec = deadline_ns / NS_PER_S,
		.tv_nsec = deadline_ns % NS_PER_S,
	};
	int ret;

	/* The plain wait takes an interval; this one takes a point in time. */
	ret = sys_futex(word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
			&until, FUTEX_BITSET_MATCH_ANY);
	return ret == -EINTR || ret == -ETIMEDOUT ? ret : 0;
}

void uaio_wake(uint32_t *word, unsigned nr)
{
	(void)sys_futex(word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG,
			nr > INT_MAX ? INT_MAX : nr, NULL, 0);
}
