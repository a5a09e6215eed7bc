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
 * Where the library can defer the program's handlers (handlers.h), handlers run when
 * the thread leaves the library, and uaio_enter() does not fail in them. If a thread's
 * cancellation type is asynchronous, the library sets the deferred type while the
 * thread is inside, except in a wait.
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

/*
 * State of a thread while it executes requests whose files may be ready: a run
 * (ready/run.c).
 */
struct uaio_entry_run {
	/*
	 * the request that this thread is trying to execute now; this thread will also
	 * post its result (req/waits.h, I4); or NULL
	 */
	const void *posted;
	/*
	 * this run began inside another run of the same thread; it does not set
	 * `looker` of poll requests (req/req.h), because the outer run may have epoll
	 * events that it has not recorded yet
	 */
	bool is_nested;
	/*
	 * for uring/kbuf.c: start address of a memory page that this thread has found
	 * writable while it executed these requests; or 0
	 */
	uintptr_t writable;
};

/*
 * State of a thread, in static TLS: reading it must never allocate. A library loaded by
 * dlopen() gets little static TLS, so everything is in this one small struct.
 */
struct uaio_entry {
	/*
	 * 0: the thread is outside the library; 1: inside; 2: the thread is one of the
	 * library's own
	 */
	int16_t depth;
	/*
	 * for trace.c: number of the thread's lane (its buffer of trace records) + 1;
	 * or 0
	 */
	uint16_t lane;
	/* for table.c: which descriptor table the thread has */
	uint32_t table;
	/*
	 * for robust.c: the value of uaio_engine_start_nr() when `tid` and `robust`
	 * were set; in a child of fork() these two are out of date
	 */
	uint32_t robust_since;
	uint32_t tid;
	/* borrows (the C library owns it): the thread's robust list; or NULL */
	struct robust_list_head *robust;
	/* for identity.c: the thread's identity */
	uint32_t identity;
	/* for identity.c: the domain of the thread's identity (identity.h, I2) */
	uint32_t domain;
	/*
	 * if is_asleep: address of the stack frame of the function that began the wait
	 */
	uintptr_t asleep_at;
	/*
	 * borrows (it is on the thread's stack): the thread's current run, the struct
	 * above; or NULL
	 */
	struct uaio_entry_run *run;
	/*
	 * is_unusual reads all four flags at once. If it is 0, entering and leaving the
	 * library take only a store.
	 */
	union {
		struct {
			/* deferred handlers wait to be run (handlers.h) */
			uint8_t has_deferred;
			/* the thread is in a wait that a signal handler must end */
			uint8_t is_asleep;
			/*
			 * a handler was deferred in the wait: the wait must end,
			 * without sleeping again
			 */
			uint8_t must_wake;
			/* the client has set PTHREAD_CANCEL_ASYNCHRONOUS */
			uint8_t is_async;
		};
		uint32_t is_unusual;
	};
	/*
	 * for identity.c: not 0 if the recorded identity is known to be right, because
	 * it was inherited or compared with the thread's attributes
	 */
	uint32_t is_sure;
	/* for process.c: the fork() that the thread is making */
	struct {
		/*
		 * how many calls of fork() are nested: a handler may call fork() during
		 * a fork()
		 */
		uint16_t depth;
		bool is_quiesced;
		/* the forking thread's descriptor table is not the library's */
		bool is_other;
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
/* Defer cancellation of this thread until it leaves the library. */
void uaio_defer_cancellation(void);

/*
 * Compiler barrier: a signal handler of this thread that sees a store after the barrier
 * also sees all stores before the barrier.
 */
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
 * Leave the library for a sleep. During the sleep a signal handler may call any
 * function, end the process, or never return (siglongjmp). Deferred handlers run here.
 * Context: no lock is held.
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
	const bool is_async = uaio_entry.is_async;

	/*
	 * A handler in the sleep may have called the library, and then restored the
	 * client's cancellation type. Such a handler may even run between the next two
	 * statements, so defer cancellation twice.
	 */
	if (unlikely(is_async))
		uaio_defer_cancellation();
	uaio_entry.depth = (int16_t)depth;
	uaio_entry_barrier();
	if (unlikely(is_async))
		uaio_defer_cancellation();
}

/*
 * Leave the library for a wait that a signal ends with EINTR. If a signal handler is
 * deferred, the wait ends, or does not begin. The deferred handler runs when the thread
 * finally leaves the library. A handler that cannot be deferred runs during the sleep.
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
	if (unlikely(is_cancel_point))
		(void)uaio_set_cancel_type(PTHREAD_CANCEL_DEFERRED, NULL);
	uaio_step_in(depth);
	uaio_entry.is_asleep = 0;
	uaio_entry.must_wake = 0;
}

/*
 * Begin a system call in which the thread may sleep inside the library, with references
 * that it must not lose. As in uaio_step_out_to(), a deferred handler ends the call with
 * EINTR, or the call does not begin. Context: no lock is held.
 */
static inline __attribute__((always_inline)) void uaio_sleep_inside_begin(void)
{
	uaio_entry.asleep_at = (uintptr_t)__builtin_frame_address(0);
	uaio_entry.is_asleep = 1;
	uaio_entry_barrier();
	if (unlikely(uaio_entry.has_deferred))
		uaio_entry.must_wake = 1;
}

static inline void uaio_sleep_inside_end(void)
{
	uaio_entry_barrier();
	uaio_entry.is_asleep = 0;
	uaio_entry.must_wake = 0;
}

/*
 * Leave the library, call uaio_sleep(), and enter the library again. Context: no lock
 * is held.
 */
static inline int uaio_sleep_outside(uint32_t *word, uint32_t expected,
				     int64_t deadline_ns)
{
	int depth = uaio_step_out();
	int ret = uaio_sleep(word, expected, deadline_ns);

	uaio_step_in(depth);
	return ret;
}

#endif /* UAIO_PROC_ENTRY_H */
