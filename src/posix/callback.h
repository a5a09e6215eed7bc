/* SPDX-License-Identifier: MIT */
/*
 * Threads that call functions of the client's (SIGEV_THREAD)
 *
 * To the client they are threads of its own: they have a stack of the usual size, and
 * while they call, they block no signals, as glibc's do, and are outside the library.
 * One that was asked for with attributes is created with them, makes one call, and
 * ends. All others are kept for the next call until they have been idle for a
 * while.
 *
 *   I1  A call that waits is taken by a thread that is idle. There is one for it at
 *       once as long as no more threads are calling than there are processors, and
 *       otherwise after a moment, from then on one more each moment: a function that
 *       blocks holds up no other, and many short calls need few threads.
 *   I2  The thread that takes the last idle one's place is created before it is
 *       needed: while calls wait, one thread sleeps with a deadline (the standby).
 *   I3  A function may end its thread (pthread_exit): the thread's account is kept
 *       by a cleanup handler. It may fork, and the child return from it: then that
 *       thread, which is the child's only one, ends.
 *   I4  Idle threads do not keep the process from ending.
 *   I5  A call takes no memory but its own. If no thread can be created for one, and
 *       none is there, it is stuck until the client next calls the door.
 *   I6  Where calls follow one another closely, neither side sleeps, and none makes a
 *       system call for the other. The thread that has made a call spins for the
 *       next, if the last one came within twice the time that a thread takes to wake,
 *       and for no longer. The client's thread that gives a call to it stays until the
 *       function has returned, 5 us at most: a client that waits for the function
 *       finds that it need not. Each is left out ever longer when it was in vain, and
 *       on one processor always.
 *
 * Tested by test-callback.c and test/posix/.
 */
#ifndef UAIO_POSIX_CALLBACK_H
#define UAIO_POSIX_CALLBACK_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/list.h"

typedef void uaio_callback_fn(union sigval value);

/* A call that is to be made. */
struct uaio_callback {
	uaio_callback_fn *function;
	union sigval value;
	/* The call begins, and needs this memory no longer. */
	void (*begins)(struct uaio_callback *callback);
	bool is_own; /* the function is the library's, and no signals come in */

	/* the pool's */
	bool is_late; /* a thread of the library's asks for it */
	struct list node;
	int64_t since_ns;
};

/* Called each time the engine starts: there are no threads, and no calls. */
void uaio_callbacks_init(void);

/*
 * Have the call made. attr: of the thread, or NULL; not used after this returns. A
 * thread with another descriptor table (table.h) has it made by a thread that shares
 * its table.
 */
void uaio_callback(struct uaio_callback *callback, const pthread_attr_t *attr);

/* How many calls may be stuck (I5); atomic. */
extern uint32_t uaio_callbacks_nr_stuck __attribute__((visibility("hidden")));
void uaio_callbacks_retry_slowly(void);

static inline void uaio_callbacks_retry(void)
{
	/* relaxed: what gets stuck meanwhile is tried next time */
	if (unlikely(load_relaxed(&uaio_callbacks_nr_stuck)))
		uaio_callbacks_retry_slowly();
}

#endif /* UAIO_POSIX_CALLBACK_H */
