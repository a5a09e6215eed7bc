/* SPDX-License-Identifier: MIT */
/*
 * Checks what a program does with the memory of its requests (uaio-check(1))
 *
 * While a request is in flight, its memory belongs to the kernel. The program must not free
 * this memory meanwhile, and must not change memory that a write is to read. This module
 * records the memory of each request from submission to completion, and finds where the
 * program breaks this rule. It appends a report to a file (report.c), and the program
 * continues.
 *
 * The checks are on if the environment variable UAIO_CHECK names a directory. Then the
 * completion of a recorded request is held back (flow/late.h) until the submitting call has
 * ended. So an error is found even if the transfer takes little time.
 *
 *   I1  A record is in use from uaio_check_submit() to uaio_check_complete() or
 *       uaio_check_drop(), each called once by the owner of the request.
 *   I2  Records and their parts (pieces of memory) change under one lock, of rank CHECK. A
 *       thread that holds it does not read memory of the program, and takes no other lock.
 *   I3  A thread that finds an error writes the report without the lock.
 *
 * Thread-safety: any thread.
 *
 * Tested by test-check.c.
 */
#ifndef UAIO_CHECK_CHECK_H
#define UAIO_CHECK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uaio_sqe;

/* How long a completion is held back if no thread posts it earlier. */
enum { UAIO_CHECK_HOLD_NS = 1000000 };

/*
 * Called when the library is loaded, to look up all that is needed: a child of fork() may not
 * be able to load a library or look up functions, if another thread was doing so at the fork.
 */
void uaio_check_load(void);

/* Called each time the engine starts, also in a child of fork(). */
void uaio_check_init(void);

/* Return: whether requests are checked; constant while the engine is up. */
bool uaio_check_is_on(void);

/*
 * Record a request that the calling thread submits. tail: the address that the client reads to
 * find out that completions exist; 0: sqe->data is this address. is_ordered: the request waits
 * for others, by a link or a drain.
 * Return: the number of its record; 0: none.
 */
uint32_t uaio_check_submit(const struct uaio_sqe *sqe, uintptr_t tail,
			   bool is_ordered);

/* A request was refused, and has no completion: drop its record. record 0: do nothing. */
void uaio_check_drop(uint32_t record);

/*
 * Check a request whose completion, with the result res, is about to be posted. record 0: do
 * nothing.
 */
void uaio_check_complete(uint32_t record, int64_t res);

/* The calling thread is about to return from a call that has submitted requests. */
void uaio_check_call_is_over(void);

/* Return: whether the call that submitted the request has ended. record is not 0. */
bool uaio_check_is_over(uint32_t record);

/*
 * Look for memory of requests in frames of the calling thread's stack that have ended. Called
 * when the thread waits.
 */
void uaio_check_look_at_stack(void);

/* How memory of the program ends. */
enum uaio_check_end {
	UAIO_CHECK_FREED,
	UAIO_CHECK_UNMAPPED,
	/* by returning from the function in whose stack frame it is */
	UAIO_CHECK_RETURNED,
};

/* Return: false if certainly no request in flight uses any of the memory. */
bool uaio_check_may_have(uintptr_t at, size_t bytes);

/*
 * The calling thread is about to free memory of the program.
 * Return: whether a request in flight uses some of this memory; this was reported.
 */
bool uaio_check_memory_ends(enum uaio_check_end end, uintptr_t at,
			    size_t bytes);

/* Called before a request of the aiocb is submitted; and if it was refused. */
void uaio_check_aiocb(uintptr_t aiocb);
void uaio_check_aiocb_refused(uintptr_t aiocb);

/* The program calls aio_return() for the last, complete request of an aiocb. */
void uaio_check_returned(uintptr_t aiocb);

/* Report that the client closes the queue of a request in flight. */
void uaio_check_say_closed(uint32_t record);

/* Return: whether the kernel writes to the memory of the request. record is not 0. */
bool uaio_check_is_written(uint32_t record);

/* Forget all requests. Called in a child of fork(), where no request is in flight. */
void uaio_check_forget(void);

/*
 * The kernel or the library has written memory that the program will read. Notifies
 * MemorySanitizer, which cannot see these writes; does nothing without it.
 */
void uaio_check_written(uintptr_t at, size_t bytes);

/*
 * Report where a request was submitted that an injected fault changes. record 0: do nothing.
 * name: the name of this change in the log of `uaio check`.
 */
void uaio_check_say_made(uint32_t record, const char *name);

/*
 * ThreadSanitizer has just made this report in this thread. If it is about a request, report
 * it.
 */
void uaio_check_raced(void *report);

/*
 * The next functions inform ThreadSanitizer, helgrind and drd in which order threads of the
 * program run. They do nothing if none of these is in the process.
 */

/* The calling thread is about to unmap memory; or has mapped memory. */
void uaio_check_unmapped(void);
void uaio_check_mapped(void);

/*
 * A request posts a completion from the queue with the tail `from` to the queue with the tail
 * `to`. from 0: the calling thread posts it.
 */
void uaio_check_pass(uintptr_t from, uintptr_t to);

/*
 * The calling thread is about to call a function of the program for a completed request. This
 * also tells MemorySanitizer that the function's argument is initialised.
 */
void uaio_check_notified(void);

/* From now on both the program and the library use the memory by atomic accesses. */
void uaio_check_shared(const void *at, size_t bytes);

/*
 * Provided buffers of io_uring, which requests choose in the order in which they were
 * provided (provided.c). The functions for a group are called under a lock of the group.
 */

/* The buffers of a group; all members 0: there are none. */
struct uaio_check_provided {
	uint64_t life; /* life, first and last belong to provided.c */
	uint32_t first, last;
	uint32_t nr; /* number of buffers */
	/* set by the caller: the index of the first buffer in an array */
	uint16_t from;
	bool has_too_many; /* there are more buffers than can be checked */
};

struct uaio_check_buffer {
	uintptr_t at;
	size_t bytes;
};

/* A buffer that a request chose after the buffer's memory had ended; 0 bytes: none. */
struct uaio_check_ended {
	uintptr_t at;
	size_t bytes;
	enum uaio_check_end end;
	uint32_t provided_at, ended_at; /* numbers of stacks */
};

/* Return: buffer i. */
typedef struct uaio_check_buffer uaio_check_buffer_fn(const void *arg,
						      unsigned i);

/* The calling thread provides nr buffers. function: returns each of them in turn. */
void uaio_check_provide(struct uaio_check_provided *group, unsigned nr,
			uaio_check_buffer_fn *function, const void *arg);

/*
 * Requests have used the nr oldest buffers. If the memory of one of them has ended, set *ret.
 */
void uaio_check_provided_used(struct uaio_check_provided *group, uint32_t nr,
			      struct uaio_check_ended *ret);

/*
 * Part of the oldest buffer was used, and the rest begins at `at`. If the memory of the buffer
 * has ended, set *ret.
 */
void uaio_check_provided_begun(struct uaio_check_provided *group, uintptr_t at,
			       struct uaio_check_ended *ret);

/*
 * A request has failed, as the oldest buffer is not mapped. If the program has ended the
 * memory of this buffer, set *ret.
 */
void uaio_check_provided_failed(const struct uaio_check_provided *group,
				struct uaio_check_ended *ret);

void uaio_check_provided_end(struct uaio_check_provided *group);

/* Report a buffer that sqe chose after its memory had ended. No lock is held. */
void uaio_check_say_chosen(const struct uaio_check_ended *ended,
			   const struct uaio_sqe *sqe);

/* The process is about to end: write a summary of what was checked. */
void uaio_check_end(void);

#endif /* UAIO_CHECK_CHECK_H */
