/* SPDX-License-Identifier: MIT */
/*
 * Threads that call functions of the client (SIGEV_THREAD)
 *
 * To the client these threads are its own. They have a stack of the usual size. While they
 * call a function, they block no signals, as in glibc, and are outside the library. A thread
 * with attributes is created for one call, and then ends. All other threads are kept for
 * further calls until they have been idle for IDLE_NS.
 *
 *   I1  An idle thread takes a waiting call at once while fewer than two threads are calling,
 *       or none on one processor. Otherwise it takes the call after a moment, and one more
 *       thread does so each moment. So a function that blocks does not hold up others, and
 *       many short calls need few threads.
 *   I2  A thread is created before it is needed to replace the last idle one: while calls
 *       wait, one thread sleeps with a deadline (the standby).
 *   I3  A function may end its thread (pthread_exit): a cleanup handler updates the counts.
 *       It may fork, and the child may return from the function: then that thread, the only
 *       one of the child, ends.
 *   I4  Idle threads do not keep the process from ending.
 *   I5  A call needs only the memory of its struct. If no thread exists for a call and none
 *       can be created, the call is stuck until the client next calls the door.
 *   I6  If calls follow each other closely, neither side sleeps or makes a system call to
 *       wake the other. A thread that has made a call spins for the next one, if the gap
 *       before the last call was shorter than twice the time that a thread takes to wake; it
 *       spins for that time at most. The client's thread that submits the call waits until
 *       the function has returned, 5 us at most: a client that waits for the function then
 *       need not sleep. After each failure both are skipped more often, and they are never
 *       done on one processor.
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
	/* Called when the call begins, which no longer needs this struct. */
	void (*begins)(struct uaio_callback *callback);
	/* the library's function, called with all signals blocked */
	bool blocks_signals;

	/* private to callback.c */
	bool by_library; /* a thread of the library's submitted it */
	struct list node;
	int64_t since_ns;
};

/* Called each time the engine starts: forgets all threads and calls. */
void uaio_callbacks_init(void);

/*
 * Let a thread make the call. attr: its attributes, or NULL; unused after this returns. If
 * the calling thread has another descriptor table (table.h), the new thread shares that
 * table.
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
