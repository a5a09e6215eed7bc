/* SPDX-License-Identifier: MIT */
/* The queue of all POSIX AIO requests, and entering the library: see posix.h. */
#ifndef UAIO_POSIX_DOOR_H
#define UAIO_POSIX_DOOR_H

#include <aio.h>
#include <stdbool.h>
#include <stdint.h>

#include "req/queue.h"

/* The only queue of the process; closed until the first request. */
extern struct uaio_queue uaio_posix_queue __attribute__((visibility("hidden")));

/*
 * Enter the library for a call that may submit, and open the queue. *ret_executes: the thread
 * has another descriptor table (table.h), so it executes its requests itself.
 * Return: 0, and the caller has to leave (entry.h); or -EAGAIN.
 */
int uaio_posix_enter(bool *ret_executes);

/*
 * Return: whether RLIMIT_FSIZE was set when the queue was opened. A write beyond that limit
 * raises SIGXFSZ in the thread that makes the system call.
 */
bool uaio_posix_has_size_limit(void);

/* Return: whether the queue is open in this process. If it is not, no request is pending. */
bool uaio_posix_is_open(void);

/* Complete a refused request with -errno. executes: as returned by uaio_posix_enter(). */
void uaio_posix_answer(struct aiocb *aiocb, uint64_t word, int error,
		       bool executes);

#endif /* UAIO_POSIX_DOOR_H */
