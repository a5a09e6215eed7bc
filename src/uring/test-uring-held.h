/* SPDX-License-Identifier: MIT */
/*
 * Functions for tests that close a ring while a hook delays a request's system call.
 */
#ifndef TEST_URING_HELD_H
#define TEST_URING_HELD_H

#include <sys/syscall.h>

#include "life/life.h"
#include "test-uring.h"

/* Hold a request's system call (tee) until the test lets it go. */
static uint32_t is_in_tee, may_go; /* atomic */

static inline bool hold_tee(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr != SYS_tee)
		return false;
	store_relaxed(&is_in_tee, 1);
	while (!load_relaxed(&may_go))
		usleep(100);
	return false;
}

static inline bool is_true(void *arg)
{
	return load_relaxed((uint32_t *)arg);
}

/*
 * Make another ring, because this frees rings that have ended.
 * Return: whether the other ring is the only one left.
 */
static inline bool is_freed(void *arg)
{
	struct uaio_counters counters = { 0 };
	struct uring other;

	(void)arg;
	client_open(&other, 1, (struct io_uring_params){ 0 });
	uaio_counters_read(&counters);
	client_close(&other);
	return counters.nr_contexts == 1;
}

#endif /* TEST_URING_HELD_H */
