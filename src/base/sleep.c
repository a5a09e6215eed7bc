/* SPDX-License-Identifier: MIT */
#include "base/sleep.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/auxv.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sleepcall.h"
#include "base/sys.h"

enum { NS_PER_S = 1000000000 };

#if defined(__x86_64__)
#define CLOCK_NAME "__vdso_clock_gettime"
#else
#define CLOCK_NAME "__kernel_clock_gettime"
#endif

uint32_t uaio_sleep_stop_at;
/* atomic: sleepcall.h says what the function returns. NULL at first, set at most once. */
const uint8_t *(*uaio_sleep_stop_of)(void);

typedef int clock_fn(int clock, struct timespec *ret_time);

/* atomic: set at the first use, then constant */
static clock_fn *read_clock;

/*
 * Find the kernel's clock function in the vDSO. The C library's clock_gettime() is not
 * used: another library may interpose it and return a different time.
 */
static clock_fn *find_clock(void)
{
	const void *vdso = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	clock_fn *found = (clock_fn *)uaio_vdso_find(vdso, CLOCK_NAME);

	if (!found)
		found = sys_clock_gettime;
	/* relaxed: all threads find the same function */
	store_relaxed(&read_clock, found);
	return found;
}

int64_t uaio_now_of(int clock)
{
	clock_fn *ask = load_relaxed(&read_clock);
	struct timespec ts;

	if (unlikely(!ask))
		ask = find_clock();
	(void)ask(clock, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t uaio_now_ns(void)
{
	return uaio_now_of(CLOCK_MONOTONIC);
}

const struct timespec *uaio_time_until(int64_t deadline_ns,
				       struct timespec *ret_left)
{
	int64_t left;

	if (deadline_ns == UAIO_FOREVER)
		return NULL;
	left = deadline_ns - uaio_now_ns();
	if (left < 0)
		left = 0;
	ret_left->tv_sec = left / NS_PER_S;
	ret_left->tv_nsec = left % NS_PER_S;
	return ret_left;
}

int uaio_sleep(uint32_t *word, uint32_t expected, int64_t deadline_ns)
{
	const struct timespec until = {
		.tv_sec = deadline_ns / NS_PER_S,
		.tv_nsec = deadline_ns % NS_PER_S,
	};
	int ret;

	/*
	 * FUTEX_WAIT_BITSET takes an absolute time; FUTEX_WAIT would take a relative
	 * timeout.
	 */
	ret = (int)uaio_sys_sleeping(
		SYS_futex, (long)word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
		expected, (long)&until, 0, (long)FUTEX_BITSET_MATCH_ANY);
	return ret == -EINTR || ret == -ETIMEDOUT ? ret : 0;
}

void uaio_wake(uint32_t *word, unsigned nr)
{
	(void)sys_futex(word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG,
			nr > INT_MAX ? INT_MAX : nr, NULL, 0);
}
