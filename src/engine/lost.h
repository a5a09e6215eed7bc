/* SPDX-License-Identifier: MIT */
/*
 * Threads that end in a sleep of ours
 *
 * A thread may be cancelled while it waits for events, or a signal handler that
 * runs then may end it. It never comes back; but before it is gone the C library
 * lets us know, and what it has left behind is cleared away: nobody takes it for
 * one who waits, or leads.
 *
 * It is told by a key for thread-specific data. Where only keys are left whose
 * values the C library allocates, which a signal handler must not do, nobody is
 * told: then what is left behind is found as that of a handler which has left by
 * siglongjmp(), a little later (lead.h, poller.h).
 */
#ifndef UAIO_ENGINE_LOST_H
#define UAIO_ENGINE_LOST_H

#include <stdbool.h>

/* When the engine comes up. */
void uaio_lost_init(void);

/*
 * This thread is about to sleep, and may end there.
 * Return: whether that is told.
 */
bool uaio_lost_watch(void);

#endif /* UAIO_ENGINE_LOST_H */
