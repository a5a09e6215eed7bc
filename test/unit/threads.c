/* SPDX-License-Identifier: MIT */
#include "threads.h"

#include <errno.h>
#include <pthread.h>

#include "base/atomic.h"

/*
 * With the linker option --wrap=pthread_create, the library calls
 * __wrap_pthread_create().
 */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg);

static uint32_t nr_allowed = UINT32_MAX; /* atomic */
static uint32_t nr_refused;              /* atomic */
static uint32_t nr_started;              /* atomic */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg)
{
	uint32_t left = load_relaxed(&nr_allowed);

	/*
	 * The library always passes attributes, so the test itself creates this thread.
	 */
	if (!attr)
		return __real_pthread_create(thread, attr, main, arg);
	do {
		if (left == 0) {
			add_relaxed(&nr_refused, 1);
			return EAGAIN;
		}
		if (left == UINT32_MAX)
			break;
	} while (!cas_relaxed(&nr_allowed, &left, left - 1));
	add_relaxed(&nr_started, 1);
	return __real_pthread_create(thread, attr, main, arg);
}

void unit_allow_threads(uint32_t nr)
{
	store_relaxed(&nr_allowed, nr);
}

uint32_t unit_nr_refused_threads(void)
{
	return load_relaxed(&nr_refused);
}

uint32_t unit_nr_started_threads(void)
{
	return load_relaxed(&nr_started);
}
