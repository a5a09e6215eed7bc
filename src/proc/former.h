/* SPDX-License-Identifier: MIT */
/*
 * Former ids: requests that the program submitted before it changed its user or group
 * ids
 *
 * setuid() and similar functions of the C library change the ids of all threads,
 * including the library's. The kernel executes a request with the ids that its
 * submitter had at submission. So for a request submitted before such a change, a
 * worker takes the former ids during the system call: file system ids, supplementary
 * groups and effective capabilities. If the worker may not take the former ids, but
 * these had all rights on files, the worker makes the call with the new ids. Otherwise
 * the request fails with ECANCELED, so that no request gains rights.
 *
 *   F1  Each change of ids has a number. A request records, when it is submitted, the
 *       number of the latest change.
 *   F2  A system call that depends on ids is counted while a worker makes it. A change
 *       waits until the count is 0: the signal by which the C library changes other
 *       threads would interrupt the call, and the kernel would restart it with the new
 *       ids. If a call does not end, the change fails with EAGAIN, unless it may
 *       interrupt the call: the new ids then give no additional rights.
 *   F3  No call that depends on ids begins during a change.
 *
 * Workers' calls are counted once the program has changed the ids of all threads. They
 * are also counted if the program lacks some rights on files, but may change its ids.
 * Counting ends once the program has given up its rights for good.
 *
 * Tested by test/identity and test-former.c.
 */
#ifndef UAIO_PROC_FORMER_H
#define UAIO_PROC_FORMER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "proc/identity.h"

/* atomic: whether system calls of workers are counted (F2) */
extern uint32_t uaio_former_is_watched __attribute__((visibility("hidden")));
/* atomic: the number of the latest change of ids */
extern uint32_t uaio_former_nr __attribute__((visibility("hidden")));

/* The ids that a system call depends on. */
enum uaio_former_need {
	UAIO_NEEDS_NO_IDS,
	/*
	 * real ids, which the kernel attaches to a sent message (SCM_CREDENTIALS); a
	 * worker never gets former real ids
	 */
	UAIO_NEEDS_REAL_IDS,
	/* real and effective ids; a worker never gets former ones */
	UAIO_NEEDS_ALL_IDS,
	/* ids and rights for files; a worker gets the former ones */
	UAIO_NEEDS_FILE_IDS,
};

/*
 * Return: the number of the latest change of ids, which a request records at
 * submission.
 */
static inline uint32_t uaio_former_now(void)
{
	/*
	 * relaxed: the submitting thread always sees the changes that it has made
	 * itself
	 */
	return load_relaxed(&uaio_former_nr);
}

/*
 * Called when a request that recorded the change number `since` starts after an earlier
 * request of its chain.
 * Return: the number to record instead: the latest one, if the process had all rights
 * on files after change `since`; otherwise `since`. So if the process had all rights
 * when it submitted the request, and has given them up, the request has only the
 * present rights. No request gains rights.
 */
uint32_t uaio_former_at_start_slowly(uint32_t since);

static inline uint32_t uaio_former_at_start(uint32_t since)
{
	return likely(since == uaio_former_now())
		       ? since
		       : uaio_former_at_start_slowly(since);
}

/* State of a worker's system call, from uaio_former_begin() to uaio_former_end(). */
struct uaio_former_call {
	uint32_t counted_as; /* 0: not counted */
	bool has_taken;
	/* the thread's own ids, which it takes back if has_taken is set */
	struct uaio_attributes own;
};

/*
 * Prepare the calling thread for the system call of a request that recorded the change
 * number `since`. is_of_process: the submitter had the process's identity. May wait
 * until a change of ids ends.
 * Return: 0; -ECANCELED if the thread cannot get the ids that the call needs: then the
 * caller must neither make the system call nor call uaio_former_end(). Context: no lock
 * is held.
 */
int uaio_former_begin_slowly(uint32_t since, enum uaio_former_need need,
			     bool is_of_process, struct uaio_former_call *call);
void uaio_former_end_slowly(struct uaio_former_call *call);

static inline int uaio_former_begin(uint32_t since, enum uaio_former_need need,
				    bool is_of_process,
				    struct uaio_former_call *call)
{
	call->counted_as = 0;
	call->has_taken = false;
	/*
	 * relaxed: a change of ids may start the counting of calls (F2) now, and not
	 * wait for this call, which is not counted. At worst the kernel restarts this
	 * call with the new ids. They give no additional rights: until the change, the
	 * process had all rights on files, or could not change its ids.
	 */
	if (likely(!load_relaxed(&uaio_former_is_watched)) || !need)
		return 0;
	return uaio_former_begin_slowly(since, need, is_of_process, call);
}

static inline void uaio_former_end(struct uaio_former_call *call)
{
	if (unlikely(call->counted_as))
		uaio_former_end_slowly(call);
}

/*
 * A change of the user or group ids of all threads, from uaio_former_change_begin() to
 * uaio_former_change_end().
 */
struct uaio_former_change {
	/* the changing thread had all rights on files */
	bool had_all;
};

/*
 * Called before the calling thread changes the ids of all threads. is_of_process: this
 * thread has the process's identity.
 * Return: 0; -EAGAIN if a counted system call does not end (F2): then the thread must
 * neither change the ids nor call uaio_former_change_end().
 * Context: inside the library; no lock is held.
 */
int uaio_former_change_begin(bool is_of_process,
			     struct uaio_former_change *change);
/*
 * Called after the attempt to change the ids. has_changed: the change has succeeded.
 */
void uaio_former_change_end(bool is_of_process, bool has_changed,
			    const struct uaio_former_change *change);

/*
 * Called before the first request: find out whether workers' calls must be counted
 * (F2).
 */
void uaio_former_start(void);

/*
 * Called in a child of fork(): reset the counts, because no other thread makes a call
 * or changes ids there.
 */
void uaio_former_forget(void);

#ifdef UAIO_TESTING
/*
 * For tests: set how long a change of ids waits for system calls that do not end.
 */
void uaio_former_have_patience(int64_t ns);
#endif

#endif /* UAIO_PROC_FORMER_H */
