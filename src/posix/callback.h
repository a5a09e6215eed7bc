/* SPDX-License-Identifier: MIT */
/*
 * Threads that call the client's notification functions (SIGEV_THREAD)
 *
 * To the client these threads look like threads of its own: they have a stack of the
 * default size, and block no signals while they call a function, as in glibc. During
 * the call a thread counts as outside the library, so the function may call the
 * library.
 *
 *   I1  A thread calls one function, then ends. So a function finds nothing that another
 *       function has changed in its thread, such as ids, a pending pthread_cancel() or
 *       thread-local variables. The C library also runs the destructors of the thread's
 *       data.
 *   I2  A function may end its thread (pthread_exit). It may also fork and return in the
 *       child: the child's only thread then ends.
 *   I3  A call needs only the memory of its struct. If no thread can be created for a
 *       call, the call is stuck until the client next calls a function of POSIX AIO, or
 *       until another function returns.
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
	/* the attributes passed to uaio_callback() set the thread's processors */
	bool has_cpus;

	/* private to callback.c */
	/* a thread of the library has submitted the call */
	bool by_library;
	struct list node; /* in the list of calls that are stuck (I3) */
};

/* Called each time the library starts. At that moment no call is stuck. */
void uaio_callbacks_init(void);

/*
 * Let a new thread call the function that `callback` names. attr: NULL, or attributes
 * for the thread; not read after this function returns. If the calling thread's
 * descriptor table is not the library's (table.h), the new thread shares that table.
 */
void uaio_callback(struct uaio_callback *callback, const pthread_attr_t *attr);

/*
 * Like uaio_callback() without attributes, but a call without a thread is not stuck.
 * Return: 0; -EAGAIN: no thread can be created, and the call will not be made.
 */
int uaio_callback_try(struct uaio_callback *callback);

/* atomic: 1 if calls may wait for a thread that could not be created (I3), else 0 */
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
