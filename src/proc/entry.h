/* SPDX-License-Identifier: MIT */
/*
 * Entering the engine
 *
 * Every exported call enters first and leaves last. A signal handler may call
 * us on a thread that is inside already, perhaps holding one of our locks; it
 * is told so and must not go further: AIO calls answer -EAGAIN, closing goes
 * straight to the kernel.
 */
#ifndef UAIO_PROC_ENTRY_H
#define UAIO_PROC_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sleep.h"

/*
 * Eight bytes of the static TLS block, which also a library that is dlopen()ed
 * gets: reading it must never allocate. In one struct, because there are few.
 */
struct uaio_entry {
	int depth;      /* inside the engine: 1 */
	uint32_t table; /* table.c's: what is known of its descriptor table */
};

extern _Thread_local struct uaio_entry uaio_entry
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Return: false if this thread is inside already; then do not leave. */
static inline bool uaio_enter(void)
{
	if (uaio_entry.depth)
		return false;
	uaio_entry.depth = 1;
	__asm__ volatile("" ::: "memory"); /* against our own handlers only */
	return true;
}

static inline void uaio_leave(void)
{
	__asm__ volatile("" ::: "memory");
	uaio_entry.depth = 0;
}

/*
 * Asleep, holding no lock, a thread is not inside: a handler that runs then may
 * make any call, end the process, or never come back (siglongjmp).
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

/* uaio_sleep(), for those who hold no lock. */
static inline int uaio_sleep_outside(uint32_t *word, uint32_t expected,
				     int64_t deadline_ns)
{
	int depth = uaio_step_out();
	int ret = uaio_sleep(word, expected, deadline_ns);

	uaio_step_in(depth);
	return ret;
}

#endif /* UAIO_PROC_ENTRY_H */
