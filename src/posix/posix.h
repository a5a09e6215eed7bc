/* SPDX-License-Identifier: MIT */
/*
 * POSIX AIO: aio_read(3) and its like on this engine
 *
 * These are the functions of <aio.h>, without errno: they return what the
 * function returns, or a negative error number. An error of the request itself
 * (a descriptor that is not open, a bad offset) is its result, as in glibc, and
 * not an error of the call.
 *
 *   I1  All requests of a process are in one queue (door.c), which is opened when
 *       the first one comes, and never closed. A child of fork() opens one of its
 *       own.
 *   I2  What is read of an aiocb is read when it is submitted. Afterwards it is
 *       written once: the result, and then, by a release store, the error code.
 *       Nothing of it is touched after that, so the thread that sees the error
 *       code may free it.
 *   I3  aio_error() and aio_return() read the aiocb, and nothing else.
 *   I4  The client is notified after the error code is there, by a thread that
 *       holds no lock; of requests that complete inside the submitting call, after
 *       that has left the library. So a handler may make any call.
 *
 * Context: any thread. A signal handler that interrupted the library gets
 * -EAGAIN, except from uaio_posix_suspend() and for what only reads.
 *
 * Tested by test-posix.c and test/posix/.
 */
#ifndef UAIO_POSIX_POSIX_H
#define UAIO_POSIX_POSIX_H

#include <aio.h>

/* The members that only the C library names. */
#ifdef __GLIBC__
#define UAIO_AIOCB_ERROR __error_code
#define UAIO_AIOCB_RESULT __return_value
#else
#define UAIO_AIOCB_ERROR __err
#define UAIO_AIOCB_RESULT __ret
#endif

/* Mirror aio_read(3) and aio_write(3): also -EINVAL for a bad aio_reqprio. */
int uaio_posix_read(struct aiocb *aiocb);
int uaio_posix_write(struct aiocb *aiocb);

/*
 * Mirrors aio_fsync(3).
 * Return: 0; -EINVAL: op is neither O_SYNC nor O_DSYNC; -EBADF; -EAGAIN.
 */
int uaio_posix_fsync(int op, struct aiocb *aiocb);

/*
 * Mirrors aio_cancel(3); aiocb may be NULL.
 * Return: AIO_CANCELED, AIO_NOTCANCELED or AIO_ALLDONE; -EBADF; -EINVAL: aiocb is
 * for another descriptor; -EAGAIN.
 */
int uaio_posix_cancel(int fd, struct aiocb *aiocb);

/*
 * Mirrors aio_suspend(3): a cancellation point, and async-signal-safe.
 * Return: 0; -EAGAIN: the time is over; -EINTR; -EINVAL.
 */
int uaio_posix_suspend(const struct aiocb *const list[], int nr,
		       const struct timespec *timeout);

/*
 * Mirrors lio_listio(3).
 * Return: 0; -EINVAL: no such mode; -EIO: with LIO_WAIT, some have failed or were
 * refused; with LIO_NOWAIT, or if all were refused, the error with which the last one
 * was; -EINTR.
 */
int uaio_posix_listio(int mode, struct aiocb *const list[], int nr,
		      const struct sigevent *event);

/* The error code, or EINPROGRESS. */
static inline int uaio_posix_error(const struct aiocb *aiocb)
{
	/* [MB:aiocb] acquire: the result and the data. Pairs with answer(). */
	return __atomic_load_n(&aiocb->UAIO_AIOCB_ERROR, __ATOMIC_ACQUIRE);
}

#endif /* UAIO_POSIX_POSIX_H */
