/* SPDX-License-Identifier: MIT */
/*
 * Threads that end while they sleep in a call of the library
 *
 * A thread may be cancelled while it waits for events, or a signal handler that
 * runs then may end it. It never comes back; but before it is gone the C
 * library calls a destructor of ours, which clears away what the thread leaves
 * behind: it counts as a waiter or a leader no more.
 *
 * The destructor is that of a key for thread-specific data. For keys beyond the
 * first 32 the C library allocates the values, which it must not do inside a
 * signal handler. Where only such keys are left there is no destructor: then
 * what a thread leaves behind is found a little later, as that of a handler
 * which left by siglongjmp() is (lead.h, poller.h).
 */
#ifndef UAIO_READY_LOST_H
#define UAIO_READY_LOST_H

#include <stdbool.h>

/* Called each time the engine starts, also in a child of fork(). */
void uaio_lost_init(void);

/*
 * This thread is about to sleep, and may end there.
 * Return: whether the destructor will be called if it does.
 */
bool uaio_lost_watch(void);

#endif /* UAIO_READY_LOST_H */
