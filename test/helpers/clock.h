/* SPDX-License-Identifier: MIT */
/*
 * Time since the machine started, for deadlines and durations
 */
#ifndef TEST_HELPERS_CLOCK_H
#define TEST_HELPERS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline int64_t now_ms(void)
{
	return now_ns() / 1000000;
}

#endif /* TEST_HELPERS_CLOCK_H */
