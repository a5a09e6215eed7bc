/* SPDX-License-Identifier: MIT */
/*
 * System calls that the library can do without
 *
 * A sandbox may answer any call with an error, or end the process for it, and
 * its rules were written for the host, not for us. The calls that any program
 * with files and threads makes are made without asking. All others are listed
 * here, and are made only where it is known that they do not end the process.
 * Where that is not known, or where the call is refused, sys_*() returns
 * -ENOSYS, as a kernel without the call would, and the caller falls back on
 * another way. doc/sandboxes.md says for each call what is lost then.
 *
 *   I1  If there is no filter (seccomp) when the library is loaded, all of them
 *       may be made.
 *   I2  If there is one, those may be made that UAIO_CALLS names: `uaio run`
 *       has tried each of them in a child process, behind the same filters. The
 *       number of filters tells whether they are the same. Without the
 *       variable, only those may be made that any program which waits for files
 *       makes.
 *   I3  When the host is about to install another filter, the filter's program
 *       is run on each call first (filter.c), to learn what it would answer.
 *   I4  A call that may not be made at one time may not be made later.
 *
 * Window: when a filter is installed for all threads at once, a thread that has
 * looked just before makes its call just after.
 *
 * Tested by test/sandbox/, and by test/unit/test-faults.c, where any call may
 * fail.
 */
#ifndef UAIO_BASE_CALLS_H
#define UAIO_BASE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

struct sock_fprog;

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
	UAIO_CALL_SPLICE,
	UAIO_CALL_TEE,
	/* sockets */
	UAIO_CALL_SENDMSG,
	UAIO_CALL_RECVFROM,
	UAIO_CALL_RECVMSG,
	UAIO_CALL_ACCEPT,
	UAIO_CALL_CONNECT,
	UAIO_CALL_SHUTDOWN,
	UAIO_CALL_SOCKET,
	UAIO_CALL_BIND,
	UAIO_CALL_LISTEN,
	UAIO_CALL_SETSOCKOPT,
	UAIO_CALL_IOCTL_SOCKET,
	/* what else clients ask for */
	UAIO_CALL_OPENAT2,
	UAIO_CALL_RENAMEAT2,
	UAIO_CALL_UNLINKAT,
	UAIO_CALL_MKDIRAT,
	UAIO_CALL_SYMLINKAT,
	UAIO_CALL_LINKAT,
	UAIO_CALL_FALLOCATE,
	UAIO_CALL_SYNC_FILE_RANGE,
	UAIO_CALL_GETXATTR,
	UAIO_CALL_SETXATTR,
	UAIO_CALL_FGETXATTR,
	UAIO_CALL_FSETXATTR,
	UAIO_CALL_PIPE2,
	UAIO_CALL_FUTEX_WAITV,
	UAIO_CALL_FUTEX_WAKE,
	UAIO_CALL_WAITID,
	UAIO_CALL_PIDFD_OPEN,
	/* what a file is, what is cached of it */
	UAIO_CALL_CACHESTAT,
	UAIO_CALL_FADVISE,
	UAIO_CALL_FSTATFS,
	UAIO_CALL_STATX,
	UAIO_CALL_LSEEK,
	UAIO_CALL_READLINKAT,
	UAIO_CALL_OPENAT,
	UAIO_CALL_GETCWD,
	UAIO_CALL_MEMFD,
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
	UAIO_CALL_GETRESUID,
	UAIO_CALL_GETRESGID,
	UAIO_CALL_GETGROUPS,
	UAIO_CALL_SETFSUID,
	UAIO_CALL_SETFSGID,
	UAIO_CALL_CAPSET,
	UAIO_CALL_SETGROUPS,
	UAIO_CALL_TGKILL,
	UAIO_CALL_TGSIGQUEUEINFO,
	UAIO_CALL_GET_ROBUST_LIST,
	UAIO_CALL_SIGPENDING,
	UAIO_CALL_SIGTIMEDWAIT,
	UAIO_CALL_WIPEONFORK,
	/* the kernel's own io_uring */
	UAIO_CALL_URING_SETUP,
	UAIO_CALL_URING_ENTER,
	UAIO_CALL_URING_REGISTER,
	/* the kernel's own AIO */
	UAIO_CALL_IO_SETUP,
	UAIO_CALL_IO_DESTROY,
	UAIO_CALL_IO_SUBMIT,
	/* memory to execute */
	UAIO_CALL_MPROTECT_EXEC,
	UAIO_NR_CALLS,
};

/* A bit for each call. */
struct uaio_call_set {
	uint64_t words[2];
};

static inline void uaio_call_set_add(struct uaio_call_set *set, unsigned call)
{
	set->words[call / 64] |= 1ull << call % 64;
}

extern struct uaio_call_set uaio_calls; /* atomic words: what may be made */

static inline bool uaio_may_call(enum uaio_call call)
{
	/* relaxed: the bit publishes nothing */
	return load_relaxed(&uaio_calls.words[call / 64]) >> call % 64 & 1;
}

/* The call is not made from now on. */
static inline void uaio_call_forbid(enum uaio_call call)
{
	/* relaxed: the bit publishes nothing */
	and_relaxed(&uaio_calls.words[call / 64], ~(1ull << call % 64));
}

/*
 * The variable by which `uaio run` tells the library: "filters:calls:bits",
 * that is how many filters there are, how many calls are listed, and which of
 * them may be made. A user who knows that no filter ends a process may set it
 * to "all"; then the library tries each call itself.
 */
#define UAIO_CALLS_VARIABLE "UAIO_CALLS"
enum { UAIO_CALLS_WORD_MAX = 64 };

/*
 * Called once, before anything else when the library is loaded. word: the value
 * of the variable, or NULL.
 */
void uaio_calls_load(const char *word);

/*
 * Return: how many filters this thread has; -1 if that cannot be found out.
 * Context: where openat, read and close are known to be harmless.
 */
int uaio_calls_nr_filters(void);

/*
 * Make a call in a form that has no effect. It does not return where a filter
 * ends the process.
 * Return: whether the kernel answered, and not a filter.
 */
bool uaio_call_try(enum uaio_call call);

/*
 * Return: whether a value of the variable is one that can have an effect: "all", or what
 * uaio_calls_word() writes. An empty one is as none.
 */
bool uaio_calls_word_is_valid(const char *word);

/* Write the value of the variable for these filters and calls. */
void uaio_calls_word(int nr_filters, const struct uaio_call_set *calls,
		     char ret_word[UAIO_CALLS_WORD_MAX]);

/*
 * A call has failed with an error that may be the kernel's or a filter's. Find
 * out which.
 * Return: whether the kernel answers the call; if not, it is not made any more.
 */
bool uaio_call_is_answered(enum uaio_call call);

/*
 * The host is about to install a filter: program is a struct sock_fprog, or
 * NULL for a filter that cannot be read.
 */
void uaio_calls_filter(const void *program);

/*
 * filter.c: what a filter of system calls would answer
 */

/*
 * Return: whether the filter lets the call through. False if its program cannot
 * be read, or if the kernel would refuse to install it.
 */
bool uaio_filter_allows(const struct sock_fprog *program, long nr,
			const long args[6]);

#endif /* UAIO_BASE_CALLS_H */
