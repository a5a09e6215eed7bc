/* SPDX-License-Identifier: MIT */
/*
 * POSIX AIO for rows (test cases): the functions of <aio.h>, by the names to which a
 * program is linked
 *
 * Here the C library's own functions are the specification. The C library
 * serialises the requests of a descriptor, and executes them in a thread. So a
 * row makes a request wait by a read of an empty pipe, and notes nothing that
 * depends on when a thread runs.
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
/* Submits a read of fd that waits, so that a row can queue more requests after it. */
struct aiocb *waiting_read_of(int fd);
void end_read(int writer);

/* Notes what a call returned, or the name of errno if it returned -1. */
void note_call(const char *key, long ret);
/* Notes the results of aio_error and aio_return: 0,4096 or EBADF,-1 or EINPROGRESS. */
void note_state(const char *key, const struct aiocb *cb);
/* Waits up to PATIENCE_MS. Return: whether the request is complete. */
bool is_over(const struct aiocb *cb);
/* Waits until the request is complete, then notes its state. */
void note_end(const char *key, const struct aiocb *cb);
/* Notes the result of a call that submits: "refused,EINVAL", or what note_end() notes. */
void note_try(const char *key, int ret, const struct aiocb *cb);

void read_and_note(const char *key, struct aiocb *cb);
void write_and_note(const char *key, struct aiocb *cb);

/* Calls the function in a detached thread. */
void in_thread(void *(*call)(void *), void *arg);

/* Blocks this signal alone. Return: a set that holds only this signal. */
sigset_t block_signal(int signo);

/*
 * A thread that acts whenever the sleeper sleeps. With a signo, it sends that signal again
 * and again until is_over is set. Without a signo, it ends a read.
 */
struct waker {
	pid_t sleeper;
	pthread_t thread;
	int writer, signo;
	uint32_t is_over; /* atomic */
};
void wake_this(struct waker *waker);
/*
 * Sends several signals to this thread, each once the thread sleeps again, then ends the
 * read.
 */
void signal_this_and_end(struct waker *waker);

#endif /* CONFORM_POSIX_H */
