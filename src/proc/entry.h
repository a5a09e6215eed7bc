/* SPDX-License-Identifier: MIT */
/*
 * Entering the library
 *
 * Every exported call enters first and leaves last. A signal handler may call
 * the library on a thread that is inside already, and perhaps holds one of its
 * locks. Then uaio_enter() fails, and the call must not go further: AIO calls
 * return -EAGAIN, and calls that close go straight to the kernel.
 *
 * Tested by test/host/signals.c.
 */
#ifndef UAIO_PROC_ENTRY_H
#define UAIO_PROC_ENTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/sleep.h"

struct robust_list_head;

/*
 * Static TLS: reading it must never allocate. There is little of it for a library
 * that is loaded by dlopen(), so all is in this one struct, and it is small.
 */
struct uaio_entry {
	int16_t depth; /* 1 while the thread is inside the library, else 0; or 2 */
	uint16_t lane; /* trace.c's: 1 more than the number of its lane; or 0 */
	uint32_t table; /* table.c's: what is known of its descriptor table */
	/* robust.c's: what is known since the library came up for this time, or 0 */
	uint32_t robust_since;
	uint32_t tid;
	struct robust_list_head *robust; /* borrows; or NULL */
};

extern _Thread_local struct uaio_entry uaio_entry
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Return: false if this thread is inside already; then it must not leave. */
static inline bool uaio_enter(void)
{
	if (uaio_entry.depth)
		return false;
	uaio_entry.depth = 1;
	/* The order is for handlers of this thread only. */
	__asm__ volatile("" ::: "memory");
	return true;
}

static inline void uaio_leave(void)
{
	__asm__ volatile("" ::: "memory");
	uaio_entry.depth = 0;
}

/* The depth of the library's own threads, which are always inside. */
enum { UAIO_DEPTH_OWN = 2 };

static inline bool uaio_is_inside(void)
{
	return uaio_entry.depth;
}

/* Return: whether this is a thread of the library's; it blocks all signals. */
static inline bool uaio_is_own_thread(void)
{
	return uaio_entry.depth == UAIO_DEPTH_OWN;
}

/*
 * A thread that sleeps, and holds no lock, steps out: a handler that runs then
 * may make any call, end the process, or never return (siglongjmp).
 */
static inline int uaio_step_out(void)
{
	int depth = uaio_entry.depth;

	__asm__ volatile("" ::: "memory");
	uaio_entry.depth = 0;
	return depth;
}

static inline void uaio_step_in(int depth)
{
	uaio_entry.depth = (int16_t)depth;
	__asm__ volatile("" ::: "memory");
}

/*
 * The same for a sleep that may be a cancellation point (pthread_cancel): as a
 * handler may leave it for good, the thread may end in it. The client's type of
 * cancelling is the deferred one meanwhile.
 */
static inline int uaio_step_out_to(bool is_cancel_point)
{
	int depth = uaio_step_out();

	if (unlikely(is_cancel_point))
		(void)pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	return depth;
}

static inline void uaio_step_in_from(bool is_cancel_point, int depth)
{
	if (unlikely(is_cancel_point))
		(void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	uaio_step_in(depth);
}

/* uaio_sleep() for a thread that holds no lock: it steps out meanwhile. */
static inline int uaio_sleep_outside(uint32_t *word, uint32_t expected,
				     int64_t deadline_ns)
{
	int depth = uaio_step_out();
	int ret = uaio_sleep(word, expected, deadline_ns);

	uaio_step_in(depth);
	return ret;
}

#endif /* UAIO_PROC_ENTRY_H */
