/* SPDX-License-Identifier: MIT */
/*
 * Entering the library
 *
 * Every exported call enters first and leaves last. A signal handler may call
 * the library on a thread that is inside already, and perhaps holds one of its
 * locks. Then uaio_enter() fails, and the call must not go further: AIO calls
 * return -EAGAIN, and calls that close go straight to the kernel.
 *
 * Where handlers.h can defer the program's handlers, they run when the thread
 * leaves the library, and meet no such failure. A thread whose cancellation type
 * is asynchronous has the deferred type while it is inside, except in a wait.
 *
 * Tested by test/host/signals.c and jumps.c.
 */
#ifndef UAIO_PROC_ENTRY_H
#define UAIO_PROC_ENTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/sleep.h"

struct robust_list_head;

/* What a thread knows while it runs requests whose files may be ready (ready/run.c). */
struct uaio_entry_run {
	/* The request that it tries and posts a result of (req/waits.h, I4); or NULL. */
	const void *posted;
	bool is_nested; /* in another run, which may be yet to note events */
	/* uring/kbuf.c's: where a page begins that the run has found may be written; or 0 */
	uintptr_t writable;
};

/*
 * Static TLS: reading it must never allocate. There is little of it for a library
 * that is loaded by dlopen(), so all is in this one struct, and it is small.
 */
struct uaio_entry {
	int16_t depth; /* 1 while the thread is inside the library, else 0; or 2 */
	uint16_t lane; /* trace.c's: 1 more than the number of its lane; or 0 */
	uint32_t table; /* table.c's: what is known of its descriptor table */
	/* robust.c's: what is known since the library came up for this time, or 0 */
	uint32_t robust_since;
	uint32_t tid;
	struct robust_list_head *robust; /* borrows; or NULL */
	uint32_t identity;   /* identity.c's: whose requests the thread makes */
	uint32_t domain;     /* identity.c's: what of that cannot be compared */
	uintptr_t asleep_at; /* is_asleep: the address of the waiting frame */
	struct uaio_entry_run *run; /* borrows: its run; or NULL */
	/* Whether entering and leaving take more than a store. */
	union {
		struct {
			uint8_t has_deferred; /* handlers are to run (handlers.h) */
			uint8_t is_asleep; /* in a wait, which a handler ends */
			uint8_t must_wake; /* the wait must not sleep again */
			uint8_t is_async;  /* PTHREAD_CANCEL_ASYNCHRONOUS */
		};
		uint32_t is_unusual;
	};
	uint32_t
		is_sure; /* identity.c's: its number was compared, or inherited */
	/* process.c's: of a fork() that it is in */
	struct {
		uint16_t depth; /* a handler may fork while its thread does */
		bool is_quiesced;
		bool is_other; /* the table that is copied is not the library's */
	} forking;
};

extern _Thread_local struct uaio_entry uaio_entry
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* pthread_setcanceltype() of the C library, which host interposes. */
extern int (*uaio_set_cancel_type)(int type, int *ret_old)
	__attribute__((visibility("hidden")));

/* The rest of entering and leaving, for a thread that is_unusual. */
void uaio_enter_unusually(void);
void uaio_leave_unusually(void);

/* The order is for handlers of this thread only. */
static inline void uaio_entry_barrier(void)
{
	__asm__ volatile("" ::: "memory");
}

/* Return: false if this thread is inside already; then it must not leave. */
static inline bool uaio_enter(void)
{
	if (uaio_entry.depth)
		return false;
	if (unlikely(uaio_entry.is_unusual))
		uaio_enter_unusually();
	uaio_entry.depth = 1;
	uaio_entry_barrier();
	return true;
}

/* Deferred handlers run here: the caller holds nothing. */
static inline void uaio_leave(void)
{
	uaio_entry_barrier();
	uaio_entry.depth = 0;
	uaio_entry_barrier();
	if (unlikely(uaio_entry.is_unusual))
		uaio_leave_unusually();
}

/* The depth of the library's own threads, which are always inside. */
enum { UAIO_DEPTH_OWN = 2 };

static inline bool uaio_is_inside(void)
{
	return uaio_entry.depth;
}

/* Return: whether this is a thread of the library's; it blocks all signals. */
static inline bool uaio_is_own_thread(void)
{
	return uaio_entry.depth == UAIO_DEPTH_OWN;
}

/*
 * A thread that sleeps, and holds no lock, steps out: a handler that runs then
 * may make any call, end the process, or never return (siglongjmp). Deferred
 * handlers run here, too.
 */
static inline int uaio_step_out(void)
{
	int depth = uaio_entry.depth;

	uaio_entry_barrier();
	uaio_entry.depth = 0;
	uaio_entry_barrier();
	if (unlikely(uaio_entry.has_deferred))
		uaio_leave_unusually();
	return depth;
}

static inline void uaio_step_in(int depth)
{
	uaio_entry.depth = (int16_t)depth;
	uaio_entry_barrier();
}

/*
 * The same for a wait that a signal ends with EINTR: a deferred handler ends the
 * wait, or keeps it from beginning, and runs when the thread leaves the library.
 * Handlers that cannot be deferred run in the sleep, as above.
 *
 * The thread may be cancelled in the wait, if the call is a cancellation point or
 * the client's cancellation type is asynchronous.
 */
static inline __attribute__((always_inline)) int
uaio_step_out_to(bool is_cancel_point)
{
	int depth = uaio_entry.depth;

	uaio_entry.asleep_at = (uintptr_t)__builtin_frame_address(0);
	uaio_entry.is_asleep = 1;
	uaio_entry_barrier();
	uaio_entry.depth = 0;
	uaio_entry_barrier();
	if (unlikely(uaio_entry.has_deferred))
		uaio_entry.must_wake = 1;
	if (unlikely(is_cancel_point || uaio_entry.is_async))
		(void)uaio_set_cancel_type(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	return depth;
}

static inline void uaio_step_in_from(bool is_cancel_point, int depth)
{
	if (unlikely(is_cancel_point || uaio_entry.is_async))
		(void)uaio_set_cancel_type(PTHREAD_CANCEL_DEFERRED, NULL);
	uaio_step_in(depth);
	uaio_entry.is_asleep = 0;
	uaio_entry.must_wake = 0;
}

/* uaio_sleep() for a thread that holds no lock: it steps out meanwhile. */
static inline int uaio_sleep_outside(uint32_t *word, uint32_t expected,
				     int64_t deadline_ns)
{
	int depth = uaio_step_out();
	int ret = uaio_sleep(word, expected, deadline_ns);

	uaio_step_in(depth);
	return ret;
}

#endif /* UAIO_PROC_ENTRY_H */
