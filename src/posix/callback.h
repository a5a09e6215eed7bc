/* SPDX-License-Identifier: MIT */
/*
 * Threads that call functions of the client (SIGEV_THREAD)
 *
 * The client sees these threads as its own: they have a stack of the default size, and block
 * no signals while they call a function, as in glibc. During the call they count as outside
 * the library. A thread with attributes is created for one call, and then ends. All other
 * threads are kept for further calls until they have been idle for IDLE_NS.
 *
 *   I1  An idle thread makes a waiting call at once if fewer than two threads are in a
 *       function of the client (on one processor: if none is). Otherwise one more idle thread
 *       makes a waiting call after each short delay. So a function that blocks does not hold
 *       up others, and many short calls need few threads.
 *   I2  When the last idle thread makes a call, it first creates a thread to replace it. While
 *       calls wait, one thread (the standby) sleeps with a deadline.
 *   I3  A function may end its thread (pthread_exit): a cleanup handler updates the counts. A
 *       function may also fork, and may return in the child: then the child's only thread
 *       ends.
 *   I4  Idle threads do not keep the process from ending.
 *   I5  A call needs only the memory of its struct. If no thread exists for a call and none
 *       can be created, the call is stuck until the client next calls the front-end.
 *   I6  If calls follow each other closely, neither the client's thread nor the calling thread
 *       sleeps, and neither needs a system call to wake the other. A thread that has made a
 *       call spins for the next one, if the gap before the last call was shorter than twice
 *       the time that a thread takes to wake; it spins for that time at most. The client's
 *       thread that submits the call waits until the function has returned, 5 us at most: a
 *       client that waits for the function then need not sleep. Each time that the spinning or
 *       the waiting was useless, both are skipped more often. On one processor the library
 *       does neither.
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

/* A call of a function. */
struct uaio_callback {
	uaio_callback_fn *function;
	union sigval value;
	/*
	 * Called when the call of the function begins. From then on this struct is no longer
	 * needed.
	 */
	void (*begins)(struct uaio_callback *callback);
	/* it is a function of the library, to be called with all signals blocked */
	bool blocks_signals;

	/* private to callback.c */
	bool by_library; /* a thread of the library's submitted it */
	struct list node;
	int64_t since_ns;
};

/* it was submitted by a thread of the library */
void uaio_callbacks_init(void);

/*
 * Have a thread call the function. attr: the thread's attributes, or NULL; not used after this
 * function returns. If the calling thread has another descriptor table (table.h), the new
 * thread shares that table.
 */
void uaio_callback(struct uaio_callback *callback, const pthread_attr_t *attr);

/* 1 if calls may be stuck (I5); atomic. */
extern uint32_t uaio_callbacks_nr_stuck __attribute__((visibility("hidden")));
void uaio_callbacks_retry_slowly(void);

static inline void uaio_callbacks_retry(void)
{
	/* relaxed: a call that gets stuck meanwhile is retried next time */
	if (unlikely(load_relaxed(&uaio_callbacks_nr_stuck)))
		uaio_callbacks_retry_slowly();
}

#endif /* UAIO_POSIX_CALLBACK_H */
