/* SPDX-License-Identifier: MIT */
/*
 * POSIX AIO: aio_read(3) and the other functions of <aio.h>
 *
 * The functions here do not set errno: they return the result of the C function, or a
 * negative error number. As in glibc, an error of the request itself (a descriptor that
 * is not open, a bad offset) is the request's result, not an error of the call.
 *
 *   I1  All requests of a process are in one queue (door.c). It is opened for the first
 *       request, and never closed. A child of fork() opens its own.
 *   I2  The library reads an aiocb only when it is submitted. Later the library writes the
 *       result, and then, by a release store, the error code. This is the last access, so
 *       a thread that sees the error code may free the aiocb.
 *   I3  aio_error() and aio_return() read only the aiocb.
 *   I4  The client is notified after the error code is written, by a thread that holds no
 *       lock. If the request completes inside the submitting call, the client is notified
 *       after that call has left the library. So the client's signal handler or function
 *       may call the library.
 *
 * Context: any thread. In a signal handler that interrupted the library, the functions
 * return -EAGAIN. Exceptions: uaio_posix_suspend() and the functions that only read an
 * aiocb.
 *
 * Tested by test-posix.c and test/posix/.
 */
#ifndef UAIO_POSIX_POSIX_H
#define UAIO_POSIX_POSIX_H

#include <aio.h>

/* glibc and musl have different names for these members of struct aiocb. */
#ifdef __GLIBC__
#define UAIO_AIOCB_ERROR __error_code
#define UAIO_AIOCB_RESULT __return_value
#else
#define UAIO_AIOCB_ERROR __err
#define UAIO_AIOCB_RESULT __ret
#endif

/*
 * Like aio_read(3) and aio_write(3). If aio_reqprio is invalid, they return -EINVAL.
 */
int uaio_posix_read(struct aiocb *aiocb);
int uaio_posix_write(struct aiocb *aiocb);

/*
 * Like aio_fsync(3).
 * Return: 0; -EINVAL: op is neither O_SYNC nor O_DSYNC; -EBADF: the descriptor is not
 * open; -EAGAIN: resources are lacking.
 */
int uaio_posix_fsync(int op, struct aiocb *aiocb);

/*
 * Like aio_cancel(3); aiocb may be NULL.
 * Return: AIO_CANCELED, AIO_NOTCANCELED or AIO_ALLDONE; -EBADF: fd is not open;
 * -EINVAL: aiocb is for another descriptor; -EAGAIN: memory is refused.
 */
int uaio_posix_cancel(int fd, struct aiocb *aiocb);

/*
 * Like aio_suspend(3): a cancellation point, and async-signal-safe.
 * Return: 0; -EAGAIN: the timeout has expired, or memory is refused; -EINTR: a signal
 * has ended the wait; -EINVAL: nr or timeout is invalid.
 */
int uaio_posix_suspend(const struct aiocb *const list[], int nr,
		       const struct timespec *timeout);

/*
 * Like lio_listio(3).
 * Return: 0; -EINVAL: no such mode; -EAGAIN: memory is refused; -EINTR: a signal has
 * ended the wait; -EIO: with LIO_WAIT, some requests have failed or were refused. With
 * LIO_NOWAIT, or if all requests were refused: the error of the last refused request.
 */
int uaio_posix_listio(int mode, struct aiocb *const list[], int nr,
		      const struct sigevent *event);

/* Return: the request's error code; EINPROGRESS if the request is not complete. */
static inline int uaio_posix_error(const struct aiocb *aiocb)
{
	/*
	 * [MB:aiocb] acquire: the result and the data are written. Pairs with answer().
	 */
	return __atomic_load_n(&aiocb->UAIO_AIOCB_ERROR, __ATOMIC_ACQUIRE);
}

#endif /* UAIO_POSIX_POSIX_H */
