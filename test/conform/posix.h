/* SPDX-License-Identifier: MIT */
/*
 * POSIX AIO for test cases
 *
 * The test cases are compiled with _FILE_OFFSET_BITS=64, as most programs are, so their
 * aio_read() is aio_read64. rows-posix-notice.c tests the functions without 64.
 *
 * For these test cases, glibc's own functions are the specification. glibc executes the
 * requests of a descriptor one after another, in a thread. So if a test case first
 * submits a read of an empty pipe, later requests on the pipe wait. Test cases print
 * nothing that depends on when a thread runs.
 */
#ifndef CONFORM_POSIX_H
#define CONFORM_POSIX_H

#include <aio.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "conform.h"

/* Return: a new aiocb without a notification. */
struct aiocb *request(int fd, const void *buf, size_t nbytes, off_t offset);
/* Submits a read of an empty pipe; end_read(*ret_writer) completes it. */
struct aiocb *waiting_read(int *ret_writer);
/*
 * Submits a read of fd, which must not be ready to be read. So the read waits, and the
 * test case can queue more requests after it.
 */
struct aiocb *waiting_read_of(int fd);
void end_read(int writer);

/* Prints what a call returned, or the name of errno if it returned -1. */
void note_call(const char *key, long ret);
/*
 * Prints the results of aio_error and aio_return: 0,4096 or EBADF,-1 or EINPROGRESS.
 */
void note_state(const char *key, const struct aiocb *cb);
/*
 * Waits up to PATIENCE_MS for the request's completion.
 * Return: whether it is complete.
 */
bool is_over(const struct aiocb *cb);
/* Waits until the request is complete, then prints its state. */
void note_end(const char *key, const struct aiocb *cb);
/*
 * Prints "refused" and the error if the submission failed: "refused,EINVAL". Otherwise
 * does what note_end() does.
 */
void note_try(const char *key, int ret, const struct aiocb *cb);

void read_and_note(const char *key, struct aiocb *cb);
void write_and_note(const char *key, struct aiocb *cb);

/* Calls the function in a detached thread. */
void in_thread(void *(*call)(void *), void *arg);

/*
 * Blocks this one signal.
 * Return: a set that contains only this signal.
 */
sigset_t block_signal(int signo);

/*
 * A waker thread, which waits until another thread, the sleeper, sleeps. If signo is 0,
 * the waker then completes the read of a pipe by writing to `writer`. Otherwise it
 * sends the signal whenever the sleeper sleeps, until the test case sets is_over.
 */
struct waker {
	pid_t sleeper;
	pthread_t thread;
	int writer, signo;
	uint32_t is_over; /* atomic */
};
void wake_this(struct waker *waker);
/*
 * Starts a waker thread that sends several signals to the calling thread. Before each
 * signal, the waker waits until the calling thread sleeps. After the last signal, the
 * waker waits again until the calling thread sleeps, and then completes the read.
 */
void signal_this_and_end(struct waker *waker);
/*
 * Starts a process that stops and continues this process several times, each time when
 * the first thread sleeps. Then it completes the read, when that thread sleeps again.
 */
void stop_this_and_end(int writer);

#endif /* CONFORM_POSIX_H */
