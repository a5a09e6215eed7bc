/* SPDX-License-Identifier: MIT */
/*
 * Entering and leaving the library
 *
 * Every exported function first calls uaio_enter(), and uaio_leave() last; in between,
 * its thread is inside the library. A signal handler may call the library on a thread
 * that is already inside, and that may hold one of the library's locks. Then
 * uaio_enter() fails, and the handler's call must go no further: AIO calls return
 * -EAGAIN, and calls that close descriptors go straight to the kernel.
 *
 * If handlers.h can defer the program's handlers, they run when the thread leaves the
 * library, and uaio_enter() does not fail. A thread whose cancellation type is
 * asynchronous has the deferred type while it is inside, except in a wait.
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

/* State of a thread that executes requests whose files may be ready (ready/run.c). */
struct uaio_entry_run {
	/*
	 * The request that is being tried and whose result will be posted (req/waits.h,
	 * I4); or NULL.
	 */
	const void *posted;
	/* this run is inside another run, which may not have recorded its events yet */
	bool is_nested;
	/* for uring/kbuf.c: start of a page that this run has found writable; or 0 */
	uintptr_t writable;
};

/*
 * State of a thread, in static TLS: reading it must never allocate. A library loaded by
 * dlopen() gets little static TLS, so everything is in this one small struct.
 */
struct uaio_entry {
	int16_t depth;  /* 0: outside; 1: inside; 2: thread of the library */
	uint16_t lane;  /* for trace.c: number of the thread's lane + 1; or 0 */
	uint32_t table; /* for table.c: which descriptor table the thread has */
	/*
	 * for robust.c: the library's start number for which tid and robust are valid
	 */
	uint32_t robust_since;
	uint32_t tid;
	struct robust_list_head
		*robust;     /* borrows: the thread's robust list; or NULL */
	uint32_t identity;   /* for identity.c: the identity of the thread */
	uint32_t domain;     /* for identity.c: the domain of that identity */
	uintptr_t asleep_at; /* if is_asleep: the stack frame of the wait */
	struct uaio_entry_run *run; /* borrows: the current run; or NULL */
	/*
	 * If is_unusual is not 0, entering and leaving the library take more than a
	 * store.
	 */
	union {
		struct {
			/* deferred handlers wait to be run (handlers.h) */
			uint8_t has_deferred;
			uint8_t is_asleep; /* in a wait that a handler is to end */
			uint8_t must_wake; /* the wait must not sleep again */
			uint8_t is_async; /* the client set PTHREAD_CANCEL_ASYNCHRONOUS */
		};
		uint32_t is_unusual;
	};
	/* for identity.c: the identity was compared, or inherited from the creator */
	uint32_t is_sure;
	/* for process.c: the fork() that the thread is making */
	struct {
		uint16_t depth; /* a handler may fork during a fork() */
		bool is_quiesced;
		bool is_other; /* its descriptor table is not the library's */
	} forking;
};

extern _Thread_local struct uaio_entry uaio_entry
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* pthread_setcanceltype() of the C library, which src/host interposes. */
extern int (*uaio_set_cancel_type)(int type, int *ret_old)
	__attribute__((visibility("hidden")));

/*
 * Slow paths of entering and leaving the library, for a thread whose is_unusual is not
 * 0.
 */
void uaio_enter_unusually(void);
void uaio_leave_unusually(void);

/* Compiler barrier: it orders accesses for signal handlers of this thread. */
static inline void uaio_entry_barrier(void)
{
	__asm__ volatile("" ::: "memory");
}

/* Return: false if this thread is already inside; then it must not call uaio_leave(). */
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

/* Leave the library. Deferred handlers run here. Context: the caller holds no lock. */
static inline void uaio_leave(void)
{
	uaio_entry_barrier();
	uaio_entry.depth = 0;
	uaio_entry_barrier();
	if (unlikely(uaio_entry.is_unusual))
		uaio_leave_unusually();
}

/* depth of the library's own threads, which are always inside */
enum { UAIO_DEPTH_OWN = 2 };

static inline bool uaio_is_inside(void)
{
	return uaio_entry.depth;
}

/*
 * Return: whether this is a thread of the library, in which no handler of the program
 * runs.
 */
static inline bool uaio_is_own_thread(void)
{
	return uaio_entry.depth == UAIO_DEPTH_OWN;
}

/*
 * Leave the library for a sleep. During the sleep a handler may make any call, end the
 * process, or never return (siglongjmp). Deferred handlers run here. Context: no lock
 * is held.
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
 * Leave the library for a wait that a signal ends with EINTR. A deferred handler ends the
 * wait, or keeps it from beginning, and runs when the thread finally leaves the library.
 * A handler that cannot be deferred runs during the sleep.
 *
 * The thread can be cancelled in the wait if the call is a cancellation point, or if the
 * client's cancellation type is asynchronous.
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

/* uaio_sleep() outside the library. Context: no lock is held. */
static inline int uaio_sleep_outside(uint32_t *word, uint32_t expected,
				     int64_t deadline_ns)
{
	int depth = uaio_step_out();
	int ret = uaio_sleep(word, expected, deadline_ns);

	uaio_step_in(depth);
	return ret;
}

#endif /* UAIO_PROC_ENTRY_H */
