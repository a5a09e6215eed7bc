/* SPDX-License-Identifier: MIT */
/*
 * System calls that the library can do without
 *
 * A sandbox may answer any call with an error, or end the process for it, and
 * decides that for the host, not for us. What a program with files and threads
 * makes anyway is made at any time. All other calls are listed here, and made
 * only where it is known that they end nobody; where it is not, or they are
 * refused, their caller has another way, the same as for a kernel that does not
 * know the call: sys_*() gives -ENOSYS. doc/sandboxes.md says for each what is
 * then missing.
 *
 *   I1  Without a filter (seccomp) when the library is loaded all of them may be
 *       made.
 *   I2  With one, those that UAIO_CALLS says: `uaio run` has tried each in a
 *       child of its own behind the very same filters, which is told by their
 *       number. Without a word from it those only that a program which waits
 *       for files makes anyway.
 *   I3  A filter that the host installs later is asked, before it is, about each
 *       call, by running its program (filter.h).
 *   I4  A call that is not to be made once is never made again.
 *
 * Window: with a filter that is put on all threads at once, one that has looked
 * just before makes its call just after.
 */
#ifndef UAIO_BASE_CALLS_H
#define UAIO_BASE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

enum uaio_call {
	/* data */
	UAIO_CALL_PREADV2,
	UAIO_CALL_PWRITEV2,
	UAIO_CALL_VMSPLICE,
	UAIO_CALL_SENDTO,
	UAIO_CALL_GETSOCKOPT,
	UAIO_CALL_DUP3,
	UAIO_CALL_PROCESS_VM_READV,
	UAIO_CALL_PROCESS_VM_WRITEV,
	UAIO_CALL_FTRUNCATE,
	/* what a file is, what is cached of it */
	UAIO_CALL_CACHESTAT,
	UAIO_CALL_FADVISE,
	UAIO_CALL_FSTATFS,
	UAIO_CALL_STATX,
	UAIO_CALL_LSEEK,
	UAIO_CALL_READLINKAT,
	UAIO_CALL_OPENAT,
	UAIO_CALL_GETCWD,
	UAIO_CALL_IOCTL_TERMINAL,
	UAIO_CALL_IOCTL_BLOCK,
	/* waiting for files */
	UAIO_CALL_EVENTFD,
	UAIO_CALL_EPOLL_CREATE,
	UAIO_CALL_EPOLL_CTL,
	UAIO_CALL_EPOLL_PWAIT,
	UAIO_CALL_EPOLL_PWAIT2,
	UAIO_CALL_PSELECT,
	UAIO_CALL_PRLIMIT,
	/* threads and signals */
	UAIO_CALL_PRCTL_NAME,
	UAIO_CALL_SCHED_GETAFFINITY,
	UAIO_CALL_SCHED_SETAFFINITY,
	UAIO_CALL_SCHED_GETSCHEDULER,
	UAIO_CALL_SCHED_SETSCHEDULER,
	UAIO_CALL_SETPRIORITY,
	UAIO_CALL_IOPRIO_GET,
	UAIO_CALL_IOPRIO_SET,
	UAIO_CALL_GETRUSAGE,
	UAIO_CALL_CAPGET,
	UAIO_CALL_TGKILL,
	UAIO_CALL_SIGPENDING,
	UAIO_CALL_SIGTIMEDWAIT,
	UAIO_CALL_WIPEONFORK,
	UAIO_NR_CALLS,
};

extern uint64_t uaio_calls; /* atomic: a bit for each that may be made */

static inline bool uaio_may_call(enum uaio_call call)
{
	/* relaxed: there is nothing behind it */
	return load_relaxed(&uaio_calls) >> call & 1;
}

/*
 * The variable in which `uaio run` tells: "filters:calls:bits", the numbers of
 * filters and of calls, and the calls that may be made. Or "all": who sets it
 * knows that no filter here ends a process, and the library tries each call by
 * itself.
 */
#define UAIO_CALLS_VARIABLE "UAIO_CALLS"
enum { UAIO_CALLS_WORD_MAX = 48 };

/* Once, first thing at load. word: the variable, or NULL. */
void uaio_calls_load(const char *word);

/*
 * Return: how many filters this thread has; -1 if that cannot be told.
 * Context: where openat, read and close are known to be harmless.
 */
int uaio_calls_nr_filters(void);

/*
 * Make a call in a form that has no effect.
 * Return: whether it was the kernel that answered. Or it never returns.
 */
bool uaio_call_try(enum uaio_call call);

/* Write the word that says so. */
void uaio_calls_word(int nr_filters, uint64_t calls,
		     char ret_word[UAIO_CALLS_WORD_MAX]);

/*
 * A call was answered in a way that the kernel might answer, too.
 * Return: whether it did; if not, it is not made any more.
 */
bool uaio_call_is_answered(enum uaio_call call);

/* The host is about to install a filter, a struct sock_fprog. NULL: another. */
void uaio_calls_filter(const void *program);

#endif /* UAIO_BASE_CALLS_H */
