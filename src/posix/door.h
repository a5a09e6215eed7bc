/* SPDX-License-Identifier: MIT */
/* The queue of all POSIX AIO requests (posix.h), and entering the library. */
#ifndef UAIO_POSIX_DOOR_H
#define UAIO_POSIX_DOOR_H

#include <aio.h>
#include <stdbool.h>
#include <stdint.h>

#include "req/queue.h"

/* The process's only queue of POSIX AIO; closed until the first request. */
extern struct uaio_queue uaio_posix_queue __attribute__((visibility("hidden")));

/*
 * Enter the library for a call that may submit, and open the queue. *ret_executes: the
 * thread has another descriptor table than the library (table.h), so it executes its
 * requests itself.
 * Return: 0: the caller must leave the library (entry.h); or -EAGAIN: this is a signal
 * handler that interrupted the library, or the library cannot start.
 */
int uaio_posix_enter(bool *ret_executes);

/*
 * Return: whether RLIMIT_FSIZE was set when the queue was opened. If so, workers
 * execute writes: a write that exceeds the limit raises SIGXFSZ, which workers block.
 */
bool uaio_posix_has_size_limit(void);

/*
 * Return: whether the queue is open in this process; if not, no request is pending.
 */
bool uaio_posix_is_open(void);

/*
 * Complete a request that was not submitted, with the result `error`: a negative error
 * number, or 0 for a request of 0 bytes that was executed at once. word: the request's
 * word (note.h). executes: as returned by uaio_posix_enter().
 */
void uaio_posix_answer(struct aiocb *aiocb, uint64_t word, int error,
		       bool executes);

#endif /* UAIO_POSIX_DOOR_H */
