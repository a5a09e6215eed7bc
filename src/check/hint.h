/* SPDX-License-Identifier: MIT */
/*
 * Hints: use that the interfaces allow, but that is probably a mistake (uaio-check(1), HINTS)
 *
 * Hints are on if the environment variables UAIO_CHECK_HINTS and UAIO_CHECK are set. Then
 * every request has a record, even if it uses no memory of the program. It also has a note
 * (the data kept for hints) from its submission until its completion is about to be posted.
 *
 *   H1  Notes change under the lock of hint.c, of rank CHECK. A thread that holds this lock
 *       takes no other lock, and writes no report.
 *   H2  The note of a request has the same index as the request's record.
 *
 * Thread-safety: any thread that has entered (proc/entry.h).
 *
 * Tested by test/run/bugs.py, with examples/bugs/hints.
 */
#ifndef UAIO_CHECK_HINT_H
#define UAIO_CHECK_HINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uaio_sqe;

/*
 * Called each time the engine starts, if memory is checked. Return: false if memory is
 * refused.
 */
bool uaio_hint_init(uint32_t nr_records);

/* Return: whether hints are on; constant while the engine is up. */
bool uaio_hint_is_on(void);

/*
 * Return: whether the request needs a record and a note, even if it uses no memory of the
 * program.
 */
bool uaio_hint_wants(const struct uaio_sqe *sqe);

/*
 * The calling thread submits the request of the record. stack: the number of the call stack
 * that submits it. is_ordered: the request waits for others, because of a link or a drain.
 */
void uaio_hint_submit(const struct uaio_sqe *sqe, uint32_t record,
		      uint32_t stack, bool is_ordered);
/* The record ends. */
void uaio_hint_end(uint32_t record);

/* The program closes these descriptors. */
void uaio_hint_closing(unsigned first, unsigned last);

/* The program unregisters memory that it had registered with a ring. */
void uaio_hint_unregistered(uintptr_t at, size_t bytes);

/*
 * Return: false if certainly no request in flight has a user_data that points into this
 * memory.
 */
bool uaio_hint_may_have(uintptr_t at, size_t bytes);
/* The program frees the memory. */
void uaio_hint_freed(uintptr_t at, size_t bytes);

/* Completions found no room in their ring; a system call puts them into the ring only now. */
void uaio_hint_overflowed(void);

/*
 * A ring is closed with entries that were not submitted, and completions that the program has
 * not read.
 */
void uaio_hint_ring_ends(uint32_t nr_sqes, uint32_t nr_cqes);

#endif /* UAIO_CHECK_HINT_H */
