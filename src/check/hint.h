/* SPDX-License-Identifier: MIT */
/*
 * Hints: reports on what the interfaces allow, but what is probably a mistake
 * (uaio-check(1), HINTS)
 *
 * Hints are on if the environment variables UAIO_CHECK and UAIO_CHECK_HINTS are set.
 * Then every request has a record, even if the request uses no memory of the program.
 * Each request also has a note (data kept for hints), from submission until its
 * completion is about to be posted.
 *
 *   H1  Notes change under the lock of hint.c, of rank CHECK. While a thread holds this
 *       lock, it acquires no other lock, and writes no report.
 *   H2  A note has the same index as the record of the same request.
 *
 * Thread-safety: any thread that is inside the library (uaio_enter(), proc/entry.h).
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
 * Called each time the library starts, if it checks memory.
 * Return: false if the kernel refuses memory.
 */
bool uaio_hint_init(uint32_t nr_records);

/*
 * Return: whether hints are on. The answer does not change once the library has
 * started.
 */
bool uaio_hint_is_on(void);

/*
 * Return: whether a request needs a record and a note for the hints, even if it uses no
 * memory of the program.
 */
bool uaio_hint_wants(const struct uaio_sqe *sqe);

/*
 * The calling thread submits a request with this record. `stack`: the number of the
 * thread's call stack. is_ordered: a link or a drain makes the request wait for other
 * requests, so it may use their range of a file.
 */
void uaio_hint_submit(const struct uaio_sqe *sqe, uint32_t record,
		      uint32_t stack, bool is_ordered);
/* The library drops this record: forget its note (data kept for hints). */
void uaio_hint_end(uint32_t record);

/*
 * The program closes the descriptors from `first` to `last`: report if a request in
 * flight uses one of these descriptors.
 */
void uaio_hint_closing(unsigned first, unsigned last);

/*
 * The program unregisters this memory, a registered buffer of a ring: report if a
 * request in flight uses the memory.
 */
void uaio_hint_unregistered(uintptr_t at, size_t bytes);

/*
 * Return: false if certainly no request in flight has a user_data that points into this
 * memory; true if one may.
 */
bool uaio_hint_may_have(uintptr_t at, size_t bytes);
/*
 * The program frees this memory: report if the user_data of a request in flight points
 * into it.
 */
void uaio_hint_freed(uintptr_t at, size_t bytes);

/*
 * Report that a system call moves overflowed completions to the completion ring, which
 * was full when they were posted.
 */
void uaio_hint_overflowed(void);

/*
 * A ring is closed: report lost entries. nr_sqes: submissions that the program has
 * prepared, but not submitted. nr_cqes: completions that it has not read.
 */
void uaio_hint_ring_ends(uint32_t nr_sqes, uint32_t nr_cqes);

#endif /* UAIO_CHECK_HINT_H */
