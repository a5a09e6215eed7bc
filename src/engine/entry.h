/* SPDX-License-Identifier: MIT */
/*
 * Entering the engine
 *
 * Every exported call enters first and leaves last. A signal handler may call
 * us on a thread that is inside already, perhaps holding one of our locks; it
 * is told so and must not go further: AIO calls answer -EAGAIN, closing goes
 * straight to the kernel.
 */
#ifndef UAIO_ENGINE_ENTRY_H
#define UAIO_ENGINE_ENTRY_H

#include <stdbool.h>

/*
 * Four bytes of the static TLS block, which also a library that is dlopen()ed
 * gets: reading it must never allocate.
 */
extern _Thread_local int uaio_entry_depth
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Return: false if this thread is inside already; then do not leave. */
static inline bool uaio_enter(void)
{
	if (uaio_entry_depth)
		return false;
	uaio_entry_depth = 1;
	__asm__ volatile("" ::: "memory"); /* against our own handlers only */
	return true;
}

static inline void uaio_leave(void)
{
	__asm__ volatile("" ::: "memory");
	uaio_entry_depth = 0;
}

#endif /* UAIO_ENGINE_ENTRY_H */
