/* SPDX-License-Identifier: MIT */
/*
 * Hints: what the interfaces allow, but a program seldom means (uaio-check(1), HINTS)
 *
 * Hints are on if the variable UAIO_CHECK_HINTS is set besides UAIO_CHECK. Then also a
 * request without memory of the program has a record. It has a note here from its
 * submission until its completion is about to be posted.
 *
 *   H1  Notes change under the lock of this file, of rank CHECK. Under it no other lock
 *       is taken, and no report is written.
 *   H2  A note has the number of its request's record.
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

/* Called each time the engine starts, if memory is checked. Return: false without memory. */
bool uaio_hint_init(uint32_t nr_records);

/* Return: whether hints are on; constant while the engine is up. */
bool uaio_hint_is_on(void);

/* Return: whether the request needs a note, even without memory of the program. */
bool uaio_hint_wants(const struct uaio_sqe *sqe);

/*
 * The calling thread submits the request of the record. stack: the number of the
 * submitting stack. is_ordered: the request waits for others, by a link or a drain.
 */
void uaio_hint_submit(const struct uaio_sqe *sqe, uint32_t record,
		      uint32_t stack, bool is_ordered);
/* The record ends. */
void uaio_hint_end(uint32_t record);

/* The program closes these descriptors. */
void uaio_hint_closing(unsigned first, unsigned last);

/* The program unregisters memory that it had registered with a ring. */
void uaio_hint_unregistered(uintptr_t at, size_t bytes);

/* Return: false if certainly no request in flight has user_data that points there. */
bool uaio_hint_may_have(uintptr_t at, size_t bytes);
/* The program frees the memory. */
void uaio_hint_freed(uintptr_t at, size_t bytes);

/* Completions found no room in their ring, and a system call puts them into it now. */
void uaio_hint_overflowed(void);

/* A ring ends with submissions that were not submitted, and completions not seen. */
void uaio_hint_ring_ends(uint32_t nr_sqes, uint32_t nr_cqes);

#endif /* UAIO_CHECK_HINT_H */
