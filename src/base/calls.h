/* SPDX-License-Identifier: MIT */
/*
 * System calls that the library can do without
 *
 * A sandbox may make any system call fail, or kill the process for the call. The
 * sandbox's rules were written for the program, not for the library. The library makes
 * without a check the calls that every program with files and threads makes. All other
 * calls are listed here. The library makes a listed call only if it knows that this call
 * does not kill the process. Otherwise sys_*() returns -ENOSYS, as a kernel without the
 * call would, and the caller uses a fallback. doc/sandboxes.md says what each fallback
 * costs.
 *
 *   I1  If there is no seccomp filter when the library is loaded, the library makes all
 *       listed calls.
 *   I2  If there is a filter, the library makes the calls that the environment variable
 *       UAIO_CALLS names. `uaio run` sets the variable, after it has tried each call in
 *       a child process under the same filters. The variable also contains the number
 *       of filters. If this process has the same number, the library assumes that they
 *       are the same filters. Without a valid variable, the library makes only those
 *       listed calls that any ordinary program makes to wait for files.
 *   I3  When the program is about to install another filter, the library first runs the
 *       filter's BPF program for each call (filter.c), to learn the filter's answer.
 *   I4  Once a call is forbidden, it stays forbidden. I5 is the only exception.
 *   I5  If the kernel lacks memory or descriptors when the library reads the number of
 *       filters, the library acts as if there were a filter and UAIO_CALLS were not set
 *       (I2). The library reads the number again when it is started (life.h) and at calls
 *       of io_uring, until the program installs a filter. It may then allow more calls.
 *
 * Known gap: a program may install a filter for all threads at once. Just before,
 * uaio_may_call() may have told another thread that a call is allowed. The other thread
 * then makes the call under the new filter, which may kill the process.
 *
 * Tested by test-calls.c, test/sandbox/ and test/unit/test-faults.c, which lets each
 * system call fail once.
 */
#ifndef UAIO_BASE_CALLS_H
#define UAIO_BASE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

struct sock_fprog;

enum uaio_call {
	/* system calls that transfer data */
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
	/* system calls on sockets */
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
	/* system calls that a request asks for */
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
	/* system calls that query a file, or how much of it is in the page cache */
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
	/* system calls by which threads wait for files */
	UAIO_CALL_EVENTFD,
	UAIO_CALL_EPOLL_CREATE,
	UAIO_CALL_EPOLL_CTL,
	UAIO_CALL_EPOLL_PWAIT,
	UAIO_CALL_EPOLL_PWAIT2,
	UAIO_CALL_PSELECT,
	UAIO_CALL_PRLIMIT,
	/* system calls on threads and signals */
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
	/*
	 * system calls of io_uring, for rings of the kernel that the library uses
	 */
	UAIO_CALL_URING_SETUP,
	UAIO_CALL_URING_ENTER,
	UAIO_CALL_URING_REGISTER,
	/*
	 * system calls of kernel AIO, for contexts of the kernel that the library uses
	 */
	UAIO_CALL_IO_SETUP,
	UAIO_CALL_IO_DESTROY,
	UAIO_CALL_IO_SUBMIT,
	/* making memory executable, by mprotect() */
	UAIO_CALL_MPROTECT_EXEC,
	UAIO_NR_CALLS,
};

/* A set of system calls: one bit for each call in enum uaio_call. */
struct uaio_call_set {
	uint64_t words[2];
};

static inline void uaio_call_set_add(struct uaio_call_set *set, unsigned call)
{
	set->words[call / 64] |= 1ull << call % 64;
}

/* the calls that the library may make now; the words are atomic */
extern struct uaio_call_set uaio_calls;

static inline bool uaio_may_call(enum uaio_call call)
{
	/* relaxed: no other data depends on this bit */
	return load_relaxed(&uaio_calls.words[call / 64]) >> call % 64 & 1;
}

/* From now on, the library does not make this call. */
static inline void uaio_call_forbid(enum uaio_call call)
{
	/* relaxed: no other data depends on this bit */
	and_relaxed(&uaio_calls.words[call / 64], ~(1ull << call % 64));
}

/*
 * The environment variable that `uaio run` sets for the library. Its value is
 * "filters:calls:bits": the number of filters, the number of calls in enum uaio_call,
 * and, in hexadecimal, which of these calls may be made. A user who knows that no
 * filter kills a process may set the variable to "all"; then the library tries each
 * call itself.
 */
#define UAIO_CALLS_VARIABLE "UAIO_CALLS"
enum { UAIO_CALLS_WORD_MAX = 64 };

/*
 * Determine which calls the library may make. This is the first function that runs when
 * the library is loaded. If the number of filters could not be read then (I5), later
 * calls of this function read the number again. word: the value of UAIO_CALLS, or NULL.
 */
void uaio_calls_load(const char *word);

/*
 * Return: how many seccomp filters this thread has; -1 if unknown.
 * Context: only where a sandbox certainly allows openat, read and close.
 */
int uaio_calls_nr_filters(void);

/*
 * Make a system call with arguments with which it has no effect. If a filter kills the
 * process for the call, the function does not return.
 * Return: true if the kernel answered; false if a filter did.
 */
bool uaio_call_try(enum uaio_call call);

/*
 * Return: whether a value of UAIO_CALLS is well-formed: "all", empty (like unset), or
 * written by uaio_calls_word().
 */
bool uaio_calls_word_is_valid(const char *word);

/*
 * Write to ret_word the value of UAIO_CALLS which says that a process with nr_filters
 * seccomp filters may make `calls`.
 */
void uaio_calls_word(int nr_filters, const struct uaio_call_set *calls,
		     char ret_word[UAIO_CALLS_WORD_MAX]);

/*
 * Called after a system call has failed. Find out whether the kernel or a filter caused
 * the error. If a filter did, forbid the call from now on.
 * Return: whether the kernel answers the call.
 */
bool uaio_call_is_answered(enum uaio_call call);

/*
 * Called before the program installs a seccomp filter. From then on the library does
 * not make the system calls that this filter forbids. program: the filter, a struct
 * sock_fprog; NULL if it is unreadable.
 */
void uaio_calls_filter(const void *program);

/* filter.c: computes what a seccomp filter would answer */

/*
 * Return: true if the filter allows the call; false if not, if the filter's program is
 * unreadable, or if the kernel would refuse to install it.
 */
bool uaio_filter_allows(const struct sock_fprog *program, long nr,
			const long args[6]);

#endif /* UAIO_BASE_CALLS_H */
