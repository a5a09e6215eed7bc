/* SPDX-License-Identifier: MIT */
/*
 * Checks how a program uses the memory of its requests (uaio-check(1))
 *
 * While a request is in flight, its memory belongs to the kernel. The program must not
 * free this memory, and must not change the data of a write. This module records the
 * memory of each request from submission to completion, and finds where the program
 * breaks this rule. The module appends a report to a file (report.c), and the program
 * continues.
 *
 * The checks are on if the environment variable UAIO_CHECK names a directory. Then the
 * completion of a recorded request is delayed (flow/late.h) until the submitting call,
 * such as io_submit(), has ended. So the module finds an error even if the transfer
 * takes little time.
 *
 *   I1  A record is in use from uaio_check_submit() until uaio_check_complete() or
 *       uaio_check_drop(). For each record, one of these two is called, and only once.
 *   I2  Records and their parts (pieces of memory) change under one lock, of rank CHECK.
 *       While a thread holds this lock, it does not read memory of the program, and
 *       acquires no other lock.
 *   I3  A thread that finds an error writes the report without holding the lock.
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

/* The checks delay a completion by at most this time, in nanoseconds. */
enum { UAIO_CHECK_HOLD_NS = 1000000 };

/*
 * Called when the library is loaded: look up all functions that the checks need. Do not
 * wait until a child of fork() needs them: if another thread was loading a library or
 * looking up functions during the fork, the child cannot look them up.
 */
void uaio_check_load(void);

/*
 * Called each time the library starts, also in a child of fork(): if UAIO_CHECK is set,
 * switch the checks on, with no record of any request.
 */
void uaio_check_init(void);

/*
 * Return: whether requests are checked. The answer does not change once the library has
 * started.
 */
bool uaio_check_is_on(void);

/*
 * Record a request that the calling thread submits. `tail`: the address of the word by
 * which the program finds new completions; if `tail` is 0, sqe->data is that address.
 * is_ordered: a link or a drain makes the request wait for other requests, so it may use
 * their memory.
 * Return: the number of the new record; 0: none.
 */
uint32_t uaio_check_submit(const struct uaio_sqe *sqe, uintptr_t tail,
			   bool is_ordered);

/*
 * Drop the record of a request that was refused, and so has no completion. If `record` is
 * 0, do nothing.
 */
void uaio_check_drop(uint32_t record);

/*
 * Called just before the completion of a request is posted: check the request. res: the
 * result of the request. If `record` is 0, do nothing.
 */
void uaio_check_complete(uint32_t record, int64_t res);

/*
 * The calling thread has submitted requests, and is about to return to the program. From
 * now on the checks do not delay the completions of these requests.
 */
void uaio_check_call_is_over(void);

/*
 * Return: whether the call that submitted the request has returned to the program.
 * record is not 0.
 */
bool uaio_check_is_over(uint32_t record);

/*
 * Called when the calling thread submits requests, waits for completions, or chooses a
 * provided buffer. Report requests whose memory is on the stack of this thread, in the
 * frame of a function that has returned.
 */
void uaio_check_look_at_stack(void);

/* How the program gives up memory. */
enum uaio_check_end {
	UAIO_CHECK_FREED,
	UAIO_CHECK_UNMAPPED,
	/* The memory is in the stack frame of a function that has returned. */
	UAIO_CHECK_RETURNED,
};

/*
 * Return: false if certainly no request in flight uses any of this memory; true if one
 * may.
 */
bool uaio_check_may_have(uintptr_t at, size_t bytes);

/*
 * The calling thread is about to free memory of the program.
 * Return: whether a request in flight uses some of this memory. If so, the function has
 * reported this error.
 */
bool uaio_check_memory_ends(enum uaio_check_end end, uintptr_t at,
			    size_t bytes);

/*
 * uaio_check_aiocb(): a request with this aiocb is about to be submitted; report if the
 * program did not call aio_return() for the aiocb's last request.
 * uaio_check_aiocb_refused(): this request was refused, so do not expect aio_return().
 */
void uaio_check_aiocb(uintptr_t aiocb);
void uaio_check_aiocb_refused(uintptr_t aiocb);

/*
 * The program calls aio_return() for an aiocb whose latest request is complete: report
 * if this is the second call for the request.
 */
void uaio_check_returned(uintptr_t aiocb);

/* Report that the program closes the context or ring of a request in flight. */
void uaio_check_say_closed(uint32_t record);

/* Return: whether the kernel writes to the memory of the request. record is not 0. */
bool uaio_check_is_written(uint32_t record);

/*
 * Forget all requests. Called in a child of fork(), in which no request is in flight.
 */
void uaio_check_forget(void);

/*
 * The kernel or the library has written memory that the program will read. Tell
 * MemorySanitizer, which does not see these writes. Without MemorySanitizer, do
 * nothing.
 */
void uaio_check_written(uintptr_t at, size_t bytes);

/*
 * A fault that the library injects (issue/fault.h) changes a request: report where the
 * request was submitted. `name`: what the log of `uaio check` calls this change. If
 * `record` is 0, do nothing.
 */
void uaio_check_say_made(uint32_t record, const char *name);

/*
 * ThreadSanitizer has found a race. If its report is about a request, report this
 * request, too.
 */
void uaio_check_raced(void *report);

/*
 * The next functions tell ThreadSanitizer, helgrind or drd in which order threads of
 * the program run. They do nothing if none of these checkers is in the process.
 */

/*
 * Order a call of munmap() before later calls of mmap(), which may get the same
 * address. uaio_check_unmapped(): the calling thread is about to unmap memory.
 * uaio_check_mapped(): the calling thread has mapped memory.
 */
void uaio_check_unmapped(void);
void uaio_check_mapped(void);

/*
 * A request posts a completion from one queue to another. `from` and `to` are the
 * addresses of the two queues' tails (the words that programs read to find completions).
 * If the calling thread posts the completion, `from` is 0.
 */
void uaio_check_pass(uintptr_t from, uintptr_t to);

/*
 * A request has completed, and the calling thread is about to call a function of the
 * program for it: order all completed requests before this call. uaio_check_notified()
 * also marks the argument of that function as initialised for MemorySanitizer.
 */
void uaio_check_notified(void);

/*
 * From now on both the program and the library use this memory by atomic accesses, so
 * checkers for data races ignore it.
 */
void uaio_check_shared(const void *at, size_t bytes);

/*
 * Provided buffers of io_uring: requests choose them in the order in which the program
 * provided them (provided.c). The caller holds the lock that the ring has for its
 * buffer groups.
 */

/* The recorded buffers of a group. If all members are 0, there are none. */
struct uaio_check_provided {
	/*
	 * Only provided.c uses these members. `life` tells groups of this process from
	 * those of its parent. `first` and `last` are the oldest and the newest buffer.
	 */
	uint64_t life;
	uint32_t first, last;
	uint32_t nr; /* number of buffers */
	/*
	 * set by the caller: index of the oldest recorded buffer in the array of
	 * provided buffers, which the client has mapped
	 */
	uint16_t from;
	/* the group has more buffers than can be checked */
	bool has_too_many;
};

struct uaio_check_buffer {
	uintptr_t at;
	size_t bytes;
};

/*
 * A provided buffer whose memory the program had freed before a request chose the buffer.
 * If `bytes` is 0, there is no such buffer.
 */
struct uaio_check_ended {
	uintptr_t at;
	size_t bytes;
	enum uaio_check_end end;
	uint32_t provided_at, ended_at; /* numbers of stacks */
};

/* Return: buffer i. */
typedef struct uaio_check_buffer uaio_check_buffer_fn(const void *arg,
						      unsigned i);

/*
 * The calling thread adds nr buffers to the group. Each call of `function` returns the
 * next buffer.
 */
void uaio_check_provide(struct uaio_check_provided *group, unsigned nr,
			uaio_check_buffer_fn *function, const void *arg);

/*
 * Requests have used the nr oldest buffers of the group. If the program has freed the
 * memory of one of these buffers, set *ret to this buffer.
 */
void uaio_check_provided_used(struct uaio_check_provided *group, uint32_t nr,
			      struct uaio_check_ended *ret);

/*
 * A request has used part of the oldest buffer of the group; the rest of this buffer
 * begins at `at`. If the program has freed the memory of the buffer, set *ret to the
 * buffer.
 */
void uaio_check_provided_begun(struct uaio_check_provided *group, uintptr_t at,
			       struct uaio_check_ended *ret);

/*
 * A request has failed because the oldest buffer of the group is not mapped. If the
 * program has freed the memory of this buffer, set *ret to the buffer.
 */
void uaio_check_provided_failed(const struct uaio_check_provided *group,
				struct uaio_check_ended *ret);

void uaio_check_provided_end(struct uaio_check_provided *group);

/*
 * Report that the request of sqe chose the buffer `ended`, whose memory the program had
 * freed. The caller holds no lock.
 */
void uaio_check_say_chosen(const struct uaio_check_ended *ended,
			   const struct uaio_sqe *sqe);

/* The process is about to end: write a summary of what was checked. */
void uaio_check_end(void);

#endif /* UAIO_CHECK_CHECK_H */
