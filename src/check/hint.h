/* SPDX-License-Identifier: MIT */
/*
 * Hints: what the interfaces allow, and a program seldom means (uaio-check(1), HINTS)
 *
 * They are given where the variable UAIO_CHECK_HINTS is set beside UAIO_CHECK. A request
 * has a record then also if it has no memory of the program, and is noted here from its
 * submission until its completion is about to be posted.
 *
 *   H1  Notes change under the lock of this file, of rank CHECK. No other lock is taken
 *       under it, and no report written.
 *   H2  A note is used by the number of its record, and by no other.
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

/* Called each time the engine starts, where memory is checked. Return: false without memory. */
bool uaio_hint_init(uint32_t nr_records);

/* Return: whether hints are given; it does not change while the engine is up. */
bool uaio_hint_is_on(void);

/* Return: whether a request is noted, also without memory of the program. */
bool uaio_hint_wants(const struct uaio_sqe *sqe);

/*
 * The calling thread submits the request of the record, at a stack of that number.
 * is_ordered: it waits for others, by a link or a drain.
 */
void uaio_hint_submit(const struct uaio_sqe *sqe, uint32_t record,
		      uint32_t stack, bool is_ordered);
/* The record ends. */
void uaio_hint_end(uint32_t record);

/* The program closes these descriptors. */
void uaio_hint_closing(unsigned first, unsigned last);

/* The program has registered the memory with a ring, and takes that back. */
void uaio_hint_unregistered(uintptr_t at, size_t bytes);

/* Return: false if certainly no request in flight has user_data that points there. */
bool uaio_hint_may_have(uintptr_t at, size_t bytes);
/* The program frees the memory. */
void uaio_hint_freed(uintptr_t at, size_t bytes);

/* Completions of a ring found no room there, and a call puts them into it. */
void uaio_hint_overflowed(void);

/* A ring ends with submissions that nobody took, and completions that nobody saw. */
void uaio_hint_ring_ends(uint32_t nr_sqes, uint32_t nr_cqes);

#endif /* UAIO_CHECK_HINT_H */
