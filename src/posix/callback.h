/* SPDX-License-Identifier: MIT */
/*
 * Threads that call functions of the client's (SIGEV_THREAD)
 *
 * To the client they are threads of its own: they have a stack of the usual size,
 * block all signals, as glibc's do, and are outside the library while they call.
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
 *       by a cleanup handler.
 *   I4  Idle threads do not keep the process from ending.
 *
 * Tested by test-callback.c and test/posix/.
 */
#ifndef UAIO_POSIX_CALLBACK_H
#define UAIO_POSIX_CALLBACK_H

#include <pthread.h>
#include <signal.h>

typedef void uaio_callback_fn(union sigval value);

/* Called each time the engine starts: there are no threads, and no calls. */
void uaio_callbacks_init(void);

/*
 * Have function(value) called. attr: the thread's attributes, or NULL. If there is
 * no thread to be had for it, the call is made as soon as another has ended.
 */
void uaio_callback(uaio_callback_fn *function, union sigval value,
		   const pthread_attr_t *attr);

#endif /* UAIO_POSIX_CALLBACK_H */
