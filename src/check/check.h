/* SPDX-License-Identifier: MIT */
/*
 * Checking what a program does with the memory of its requests (uaio-check(1))
 *
 * While a request is in flight, its memory is the kernel's: the program must keep it, and
 * must not change what a write is to read. This room notes the memory of each request
 * from its submission to its completion, finds where the program breaks that rule, and
 * appends a report to a file (report.c). The program goes on.
 *
 * It is on where the variable UAIO_CHECK names a directory. Then the completion of a
 * request with a record is held back (flow/late.h) until the call that submitted it has
 * ended. So the program has the time to make its mistake also where a transfer is short.
 *
 *   I1  A record is in use from uaio_check_submit() to uaio_check_complete() or
 *       uaio_check_drop(), each called once by the owner of the request.
 *   I2  Records and their memory change under the lock, of rank CHECK. Under it no
 *       memory of the program's is read, and no other lock is taken.
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

/* How long a completion is held back if no thread comes for it. */
enum { UAIO_CHECK_HOLD_NS = 1000000 };

/*
 * Called when the library is loaded: a child of fork() cannot load another, nor look for
 * functions, if another thread did so at the fork.
 */
void uaio_check_load(void);

/* Called each time the engine starts, also in a child of fork(). */
void uaio_check_init(void);

/* Return: whether requests are checked; it does not change while the engine is up. */
bool uaio_check_is_on(void);

/*
 * The calling thread submits sqe. tail: the address of what its client sees completions
 * at; 0: the data of sqe is. is_ordered: it waits for others, by a link or a drain.
 * Return: its record; or 0: nothing of it is checked.
 */
uint32_t uaio_check_submit(const struct uaio_sqe *sqe, uintptr_t tail,
			   bool is_ordered);

/* The request of the record was refused, and has no completion. Nothing if that is 0. */
void uaio_check_drop(uint32_t record);

/* The completion of the request, with res, is about to be posted. Nothing if that is 0. */
void uaio_check_complete(uint32_t record, int64_t res);

/* The calling thread is about to leave a call that has submitted requests. */
void uaio_check_call_is_over(void);

/* Return: whether the call that submitted the request of the record, not 0, is over. */
bool uaio_check_is_over(uint32_t record);

/* The calling thread has come to wait, or is going to sleep: look at its stack. */
void uaio_check_look_at_stack(void);

/* What the program does with memory that has been its own. */
enum uaio_check_end {
	UAIO_CHECK_FREED,
	UAIO_CHECK_UNMAPPED,
	UAIO_CHECK_RETURNED, /* from the function that has it in its frame */
};

/* Return: false if certainly no request in flight has some of the memory. */
bool uaio_check_may_have(uintptr_t at, size_t bytes);

/*
 * The program gives memory back, in the calling thread.
 * Return: whether a request in flight has some of it, which is reported.
 */
bool uaio_check_memory_ends(enum uaio_check_end end, uintptr_t at,
			    size_t bytes);

/*
 * A request of the aiocb is about to be submitted; or was refused: then nobody asks for a
 * result.
 */
void uaio_check_aiocb(uintptr_t aiocb);
void uaio_check_aiocb_refused(uintptr_t aiocb);

/* The program asks for the result of the last request of an aiocb, which is complete. */
void uaio_check_returned(uintptr_t aiocb);

/* The queue of a request in flight is closed by its client. */
void uaio_check_say_closed(uint32_t record);

/* Return: whether the kernel writes memory of the request in flight of the record, not 0. */
bool uaio_check_is_written(uint32_t record);

/* Called in a child of fork(), where no request is in flight. */
void uaio_check_forget(void);

/*
 * The kernel or the library has written memory that the program is about to see. For
 * MemorySanitizer, which does not see that; nothing without it.
 */
void uaio_check_written(uintptr_t at, size_t bytes);

/*
 * The request of the record is changed on purpose: say where it was submitted. Nothing if
 * the record is 0. name: by which `uaio check` knows the change.
 */
void uaio_check_say_made(uint32_t record, const char *name);

/* ThreadSanitizer has just made this report, in this thread; perhaps of a request. */
void uaio_check_raced(void *report);

/*
 * What follows is for ThreadSanitizer, helgrind and drd, and does nothing without one of
 * them: which of the program's threads come after which.
 */

/* The calling thread is about to unmap memory; it has mapped some. */
void uaio_check_unmapped(void);
void uaio_check_mapped(void);

/*
 * A request of the queue whose tail is from posts a completion to the one whose tail is
 * to. from: 0: the calling thread does.
 */
void uaio_check_pass(uintptr_t from, uintptr_t to);

/*
 * The calling thread is about to call the program's function for a completed request.
 * Tell MemorySanitizer that the function's argument is initialised.
 */
void uaio_check_notified(void);

/* From now on, the program and the library use the memory by atomic accesses. */
void uaio_check_shared(const void *at, size_t bytes);

/*
 * Provided buffers of io_uring, which requests choose in the order in which they were
 * provided (provided.c). The functions of a group are called under a lock of its own.
 */

/* Of a group; zeros: it has none. */
struct uaio_check_provided {
	uint64_t life; /* for provided.c, as first and last */
	uint32_t first, last;
	uint32_t nr;   /* of buffers */
	uint16_t from; /* the caller's: the place of the first in an array */
	bool has_too_many; /* they are not checked */
};

struct uaio_check_buffer {
	uintptr_t at;
	size_t bytes;
};

/* A buffer that was chosen after its memory had ended; no bytes: there is none. */
struct uaio_check_ended {
	uintptr_t at;
	size_t bytes;
	enum uaio_check_end end;
	uint32_t provided_at, ended_at; /* stacks */
};

/* Return: the buffer i. */
typedef struct uaio_check_buffer uaio_check_buffer_fn(const void *arg,
						      unsigned i);

/* The calling thread provides nr buffers, of which function says where they are. */
void uaio_check_provide(struct uaio_check_provided *group, unsigned nr,
			uaio_check_buffer_fn *function, const void *arg);

/* The nr oldest buffers were used. Set *ret if the memory of one has ended. */
void uaio_check_provided_used(struct uaio_check_provided *group, uint32_t nr,
			      struct uaio_check_ended *ret);

/* Part of the oldest buffer was used: what remains begins at @at. *ret: as above. */
void uaio_check_provided_begun(struct uaio_check_provided *group, uintptr_t at,
			       struct uaio_check_ended *ret);

/* A request has chosen the oldest, and failed, as there is no memory. As above. */
void uaio_check_provided_failed(const struct uaio_check_provided *group,
				struct uaio_check_ended *ret);

/* The group ends. */
void uaio_check_provided_end(struct uaio_check_provided *group);

/* Report a buffer that sqe has chosen after its memory had ended. No lock is held. */
void uaio_check_say_chosen(const struct uaio_check_ended *ended,
			   const struct uaio_sqe *sqe);

/* The process ends: say how much was checked. */
void uaio_check_end(void);

#endif /* UAIO_CHECK_CHECK_H */
