/* SPDX-License-Identifier: MIT */
/*
 * Threads that call the client's notification functions (SIGEV_THREAD)
 *
 * To the client these threads look like threads of its own: they have a stack of the
 * default size, and block no signals while they call a function, as in glibc. During
 * the call a thread counts as outside the library, so the function may call the
 * library. If the client passes thread attributes, a thread is created for this one
 * call, and then ends. All other threads are kept for further calls until they have
 * been idle for IDLE_NS.
 *
 *   I1  If fewer than two threads are in a function of the client (on one processor:
 *       none), an idle thread calls the next waiting function at once. Otherwise one more
 *       idle thread calls a waiting function after each short delay. So a function that
 *       blocks does not hold up other functions, and many short calls need few threads.
 *   I2  If other calls wait when the only idle thread begins a call, this thread first
 *       creates another thread. While calls wait, one idle thread (the standby) sleeps
 *       only until the delay of I1 has passed.
 *   I3  A function may end its thread (pthread_exit): a cleanup handler updates the
 *       counts. A function may also fork and return in the child: the child's only thread
 *       then ends.
 *   I4  Idle threads do not keep the process from ending.
 *   I5  A call needs only the memory of its struct. If no thread exists for a call and
 *       none can be created, the call is stuck until the client next calls a function of
 *       POSIX AIO.
 *   I6  If calls follow each other closely, the thread that submits calls and the thread
 *       that makes them both spin instead of sleeping. So neither thread needs a system
 *       call to wake the other. After a call, a thread of the pool spins until the next
 *       call comes, if the gap before the last call was short: shorter than twice the
 *       average time that a thread takes to wake. It spins for twice that average time at
 *       most. A thread of the client that submits a call waits until the function has
 *       returned, for 5 us at most. A client that itself waits for its function then need
 *       not sleep. The more often in a row such spinning was useless, the more often the
 *       thread does not spin. On one processor no thread spins.
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

/* A call of a function of the client, and its argument. */
struct uaio_callback {
	uaio_callback_fn *function;
	union sigval value;
	/*
	 * Called when the call of the function begins. From then on the library does not
	 * access this struct.
	 */
	void (*begins)(struct uaio_callback *callback);
	/* the function is the library's, and is called with all signals blocked */
	bool blocks_signals;

	/* private to callback.c */
	/* a thread of the library has submitted the call */
	bool by_library;
	struct list node;
	int64_t since_ns;
};

/*
 * Called each time the library starts. At that moment no thread of the pool exists, and
 * no call waits.
 */
void uaio_callbacks_init(void);

/*
 * Let another thread call the function that `callback` names. attr: NULL, or attributes
 * for a thread that makes only this call; not read after this function returns. If the
 * calling thread's descriptor table is not the library's (table.h), the new thread
 * shares that table.
 */
void uaio_callback(struct uaio_callback *callback, const pthread_attr_t *attr);

/* atomic: 1 if calls may wait for a thread that could not be created (I5), else 0 */
extern uint32_t uaio_callbacks_nr_stuck __attribute__((visibility("hidden")));
void uaio_callbacks_retry_slowly(void);

static inline void uaio_callbacks_retry(void)
{
	/*
	 * relaxed: a call that gets stuck at this moment is retried by the next caller
	 */
	if (unlikely(load_relaxed(&uaio_callbacks_nr_stuck)))
		uaio_callbacks_retry_slowly();
}

#endif /* UAIO_POSIX_CALLBACK_H */
