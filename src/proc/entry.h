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

#include <stdbool.h>
#include <stdint.h>

#include "base/sleep.h"

/*
 * Eight bytes of static TLS: reading it must never allocate. There is little of
 * it for a library that is loaded by dlopen(), so all is in this one struct.
 */
struct uaio_entry {
	int depth;      /* 1 while the thread is inside the library, else 0 */
	uint32_t table; /* table.c's: what is known of its descriptor table */
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
	uaio_entry.depth = depth;
	__asm__ volatile("" ::: "memory");
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
