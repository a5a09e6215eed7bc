/* SPDX-License-Identifier: MIT */
/*
 * POSIX AIO for rows: the functions of <aio.h>, by the names that a program is
 * linked with
 *
 * Here the C library's own functions are the specification. They serialise the
 * requests of a descriptor and wait in a thread; so a row has what is to wait by
 * reading an empty pipe, and looks at nothing that depends on when a thread runs.
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

/* A request that notifies nobody; each call has another one. */
struct aiocb *request(int fd, const void *buf, size_t nbytes, off_t offset);
/* A read of one byte from an empty pipe, which waits; *ret_writer ends it. */
struct aiocb *waiting_read(int *ret_writer);
/* The same, behind which more can be queued. */
struct aiocb *waiting_read_of(int fd);
void end_read(int writer);

/* What a call returned; -1 by the name of its errno. */
void note_call(const char *key, long ret);
/* The error code and the result: 0,4096 or EBADF,-1 or EINPROGRESS. */
void note_state(const char *key, const struct aiocb *cb);
/* Wait at most some seconds. Return: whether it is complete. */
bool is_over(const struct aiocb *cb);
/* The state when it is complete. */
void note_end(const char *key, const struct aiocb *cb);
/* A call that submits, and what became of it: refused,EINVAL or as note_end(). */
void note_try(const char *key, int ret, const struct aiocb *cb);

void read_and_note(const char *key, struct aiocb *cb);
void write_and_note(const char *key, struct aiocb *cb);

/* A thread that is detached, and calls it. */
void in_thread(void *(*call)(void *), void *arg);

/* Blocks this signal alone. Return: the set of it. */
sigset_t block_signal(int signo);

/*
 * A thread that does something each time this one sleeps: it ends a read, or, with a
 * signo, sends that signal until is_over.
 */
struct waker {
	pid_t sleeper;
	pthread_t thread;
	int writer, signo;
	uint32_t is_over; /* atomic */
};
void wake_this(struct waker *waker);
/* It ends the read after some signals, between which the sleep goes on. */
void signal_this_and_end(struct waker *waker);

#endif /* CONFORM_POSIX_H */
