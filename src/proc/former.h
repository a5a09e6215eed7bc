/* SPDX-License-Identifier: MIT */
/*
 * Former ids: requests that the program submitted before it changed its ids
 *
 * setuid() and its like of the C library change all threads, the library's, too. The
 * kernel makes a request with the ids at its submission. So a worker takes these ids
 * for the call of an earlier request: the ids of the file system, the supplementary
 * groups and the effective capabilities. If the worker may not take them, the call is
 * made with the new ids if the former ones had all rights on files; else the request
 * fails with ECANCELED, so that no request gains rights.
 *
 *   F1  Each change has a number. A request notes the number of the latest change.
 *   F2  A call that depends on ids is counted while a worker makes it. A change waits
 *       until none is made: the C library's signal would interrupt the call, and the
 *       kernel would make it again with the new ids. A call that does not end makes
 *       a change fail with EAGAIN if the change may give rights.
 *   F3  No such call begins during a change.
 *
 * Calls are counted once the program has changed the ids of all threads, or may do so
 * without all rights; and no longer if it has given them up for good.
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

/* atomic: calls are counted */
extern uint32_t uaio_former_is_watched __attribute__((visibility("hidden")));
/* atomic: the number of the latest change */
extern uint32_t uaio_former_nr __attribute__((visibility("hidden")));

/* Which ids a call depends on. */
enum uaio_former_need {
	UAIO_NEEDS_NO_IDS,
	UAIO_NEEDS_REAL_IDS, /* those that a message names, which nobody can take */
	UAIO_NEEDS_ALL_IDS,  /* likewise, real and effective ones */
	UAIO_NEEDS_FILE_IDS, /* those that can be taken */
};

/* Return: the number of the latest change, for a request that is submitted. */
static inline uint32_t uaio_former_now(void)
{
	/* relaxed: a thread that submits sees its own changes */
	return load_relaxed(&uaio_former_nr);
}

/*
 * Return: the number for a request that noted since, and begins now, behind another of
 * its chain: such a request has neither a right that its submitter has lost nor one that
 * its submitter has gained.
 */
uint32_t uaio_former_at_start_slowly(uint32_t since);

static inline uint32_t uaio_former_at_start(uint32_t since)
{
	return likely(since == uaio_former_now())
		       ? since
		       : uaio_former_at_start_slowly(since);
}

/* A call, between begin and end. */
struct uaio_former_call {
	uint32_t counted_as; /* 0: it is not counted */
	bool has_taken;
	struct uaio_attributes own; /* if has_taken */
};

/*
 * The calling thread makes a call of a request that noted since. is_of_process: the
 * submitter had the process's identity.
 * Return: 0; -ECANCELED: the call is not to be made, and end is not called. May wait for
 * a change to be over. Context: no lock is held.
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
	/* relaxed: a change that begins to watch waits for no call */
	if (likely(!load_relaxed(&uaio_former_is_watched)) || !need)
		return 0;
	return uaio_former_begin_slowly(since, need, is_of_process, call);
}

static inline void uaio_former_end(struct uaio_former_call *call)
{
	if (unlikely(call->counted_as))
		uaio_former_end_slowly(call);
}

/* A change of all threads, between begin and end. */
struct uaio_former_change {
	bool had_all; /* the calling thread had all rights on files */
};

/*
 * The calling thread is about to change the ids of all threads, and has the process's
 * identity if is_of_process.
 * Return: 0; -EAGAIN: it must not, and end is not called. Context: inside; no lock
 * is held.
 */
int uaio_former_change_begin(bool is_of_process,
			     struct uaio_former_change *change);
/* has_changed: whether the change has succeeded. */
void uaio_former_change_end(bool is_of_process, bool has_changed,
			    const struct uaio_former_change *change);

/* Called before the first request: is there anything to watch? */
void uaio_former_start(void);

/* Called in a child of fork(): no other thread makes a call or a change. */
void uaio_former_forget(void);

#ifdef UAIO_TESTING
/* How long a change waits for calls that do not end. */
void uaio_former_have_patience(int64_t ns);
#endif

#endif /* UAIO_PROC_FORMER_H */
