/* SPDX-License-Identifier: MIT */
/*
 * Functions of the C library that this library interposes
 *
 * The host is the program into which the library is loaded. The library interposes the
 * program's calls that close descriptors, unmap event rings, install seccomp filters,
 * execute another program, and so on. Each function here first notifies the engine: the
 * library without its front-ends (kernel AIO, io_uring, POSIX AIO). Then it calls the
 * next definition of the same name, usually the C library's. If a descriptor has no
 * requests, notifying costs two loads. In a signal handler that interrupted the
 * library, the function only calls the C library.
 *
 * uaio_host_raw_X() executes the system call X for a program that calls syscall(2). On
 * failure the function returns a negative error number; it does not change errno.
 */
#ifndef UAIO_HOST_HOST_H
#define UAIO_HOST_HOST_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct uaio_uring;

/*
 * Convert the result of a system call to the C library's convention.
 * Return: res; or -1, with errno set, if res is an error.
 */
long uaio_host_error(long res);

/*
 * Executes syscall(2) for the numbers in uaio_host_numbers; sets errno. Called by
 * syscall.S.
 */
long uaio_host_syscall(long nr, long a, long b, long c, long d, long e, long f);

/*
 * Execute any system call. If it is in uaio_host_numbers, the library executes it;
 * otherwise the kernel does.
 * Return: the result, or a negative error number.
 */
long uaio_host_answer(long nr, const long a[6]);

/*
 * Called once, when the library is loaded: find the next definitions of all interposed
 * functions.
 */
void uaio_host_load(void);
void uaio_host_load_exec(void);
void uaio_host_load_spawn(void);
void uaio_host_load_filter(void);
void uaio_host_load_poll(void);
void uaio_host_load_ringpoll(void);
void uaio_host_load_select(void);
void uaio_host_load_mmap(void);
void uaio_host_load_quota(void);
void uaio_host_load_sigaction(void);

void uaio_host_load_memory(void);

/*
 * Find the next definition of the function `name` (RTLD_NEXT). ret_function points to a
 * function pointer, which receives it.
 */
void uaio_host_find(const char *name, void *ret_function);

/*
 * The next definition of this function (RTLD_NEXT). Each source file that uses the macro
 * keeps its next definitions in a struct `next`. If the program calls the
 * function before the library's constructor has run, the macro finds the definition.
 */
#define UAIO_HOST_NEXT(function) \
	(next.function           \
		 ? next.function \
		 : (uaio_host_find(#function, &next.function), next.function))

/* The process is about to end: finish the accepted requests, and write the report. */
void uaio_host_exiting(void);

/*
 * Notify the engine before (uaio_host_closing()) and after (uaio_host_closed()) the
 * program closes or replaces the descriptors [first, last].
 */
void uaio_host_closing(unsigned first, unsigned last);
void uaio_host_closed(unsigned first, unsigned last);

/*
 * Execute the system calls close, dup2, dup3 and close_range, and notify the engine of
 * the descriptors that they close or replace.
 */
long uaio_host_raw_close(int fd);
long uaio_host_raw_dup(int from, int to, const int *flags); /* NULL: dup2() */
long uaio_host_raw_close_range(unsigned first, unsigned last, int flags);

/*
 * Execute the system call fcntl, and notify the engine if it changes flags of the open
 * file.
 */
long uaio_host_raw_fcntl(const long a[3]);

/*
 * Execute the system call unshare. With CLONE_FILES, the calling thread gets its own
 * descriptor table; the library's threads keep the old one.
 */
long uaio_host_raw_unshare(int flags);
/*
 * Give this thread its own descriptor table, but close no descriptor. close_range()
 * with CLOSE_RANGE_UNSHARE does this first.
 * Return: 0 or a negative error number.
 */
long uaio_host_part(void);

/*
 * Execute the system call execve or execveat, after finishing the accepted requests.
 */
long uaio_host_raw_exec(long nr, const long a[5]);

/*
 * Return: whether this system call changes credentials of the calling thread
 * (proc/identity.h).
 */
bool uaio_host_changes_identity(long nr, const long a[6]);
void uaio_host_load_identity(void);
/*
 * Check again whether code in the process may change credentials without the library
 * noticing (uaio_identities_prove()). Needed after code was loaded.
 */
void uaio_host_prove_identity(void);
/*
 * Execute a system call that changes credentials, and record that they have changed.
 * For unshare, also do what uaio_host_raw_unshare() does.
 */
long uaio_host_raw_identity(long nr, const long a[6]);

/*
 * The same in two steps, for a caller that acts between them. uaio_host_change_of()
 * returns which change the system call makes, a value of enum uaio_identity_change; or
 * UAIO_HOST_NO_CHANGE. uaio_host_raw_changing() executes the call.
 */
enum { UAIO_HOST_NO_CHANGE = -1 };
int uaio_host_change_of(long nr, const long a[6]);
long uaio_host_raw_changing(long nr, const long a[6], int change);

/* Execute the system call prctl or seccomp, which may install a seccomp filter. */
long uaio_host_raw_filter(long nr, const long a[6]);
/* Return: whether the program has installed a filter, or has tried to. */
bool uaio_host_has_filter(void);

/*
 * Execute the system calls of io_uring, on rings of the kernel or of the library. The
 * arguments are those of the system call; errno is not changed.
 */
long uaio_host_uring_setup(long nr_entries, long params);
/*
 * Like uaio_host_uring_setup(), for a program that calls syscall(2). `caller`: an address
 * in the code that makes the call. The library makes no ring if io_uring_enter()
 * instructions of this code cannot be patched.
 */
long uaio_host_uring_setup_from(const void *caller, long nr_entries,
				long params);
long uaio_host_uring_enter(const long a[6]);
long uaio_host_uring_register(const long a[4]);
/*
 * Called by liburing's functions.
 * Return: whether to call io_uring_enter() for the ring fd, because that may complete
 * requests (uaio_uring_may_complete(), uring/uring.h).
 */
bool uaio_host_uring_may_complete(int fd, bool is_registered);

/*
 * Return: whether io_uring_setup() would now make a ring of the library, not of the
 * kernel. With --uring=auto the function asks the kernel to find out.
 */
bool uaio_host_uring_is_ours(void);

/*
 * Patch the program's own io_uring system calls, so that they call the library
 * (patch.h). Do nothing if an option or a seccomp filter forbids it. Called last, when
 * all next definitions are known.
 */
void uaio_host_load_uring(void);

/*
 * Limits for polls that include rings of the library. The library copies the program's
 * arguments. In the copy it replaces each ring's descriptor by the ring's bell, an
 * eventfd that wakes polls of the ring (uring/bell.h). A poll() of more than POLLED_MAX
 * descriptors goes to the C library unchanged. So does a select() of a descriptor from
 * SELECTED_MAX on. In a select(), at most SELECTED_RINGS_MAX rings are replaced.
 */
enum {
	UAIO_HOST_POLLED_MAX = 1024,
	UAIO_HOST_SELECTED_MAX = 4096,
	UAIO_HOST_SELECTED_RINGS_MAX = 256,
};

/*
 * A copy of the program's pollfds, in which bells replace the descriptors of rings.
 */
struct uaio_host_polled {
	struct pollfd pfds[UAIO_HOST_POLLED_MAX];
	/*
	 * for each entry of pfds: the ring that its bell replaces; NULL: the program's
	 * descriptor is no ring
	 */
	struct uaio_uring *rings[UAIO_HOST_POLLED_MAX];
};

/*
 * Before a poll: make each ring's bell (uring/bell.h) readable if the ring has
 * completions, and otherwise not (uaio_uring_bells_settle()).
 * Return: whether pfds contains rings. If so, the caller polls a copy of pfds.
 */
bool uaio_host_polls_rings(const struct pollfd *pfds, unsigned long nr);
/* Return: whether pfds contains rings. pfds must be readable. */
bool uaio_host_has_rings(const struct pollfd *pfds, unsigned long nr);
void uaio_host_copy_polled(const struct pollfd *pfds, unsigned long nr,
			   struct uaio_host_polled *ret_polled);
/* The poll of the copy has returned ret: write the events to the program's pfds. */
void uaio_host_answer_polled(struct pollfd *pfds, unsigned long nr, long ret,
			     const struct uaio_host_polled *polled);
/*
 * Some files report an event to only one poll(): PSI triggers, perf events, mountinfo.
 * So add to pfds what an earlier poll() has found. Do not call this if the library has
 * executed requests since: they may have taken the input that the earlier poll() found.
 * Return: the number of ready descriptors.
 */
int uaio_host_add_polled(struct pollfd *pfds, unsigned long nr,
			 const struct pollfd *polled);

/* Execute the polling system calls, and the system call epoll_ctl. */
long uaio_host_raw_epoll_ctl(const long a[4]);
long uaio_host_raw_epoll(long nr, const long a[6]);
long uaio_host_raw_poll(long nr, const long a[5]);
long uaio_host_raw_select(long nr, const long a[6]);

/*
 * Return: whether this memory of the program is readable. If not, the caller passes the
 * address to the kernel, and the system call fails with EFAULT.
 */
bool uaio_host_can_read(const void *addr, unsigned long bytes);

/*
 * Execute the system call mmap; a ring of the library can be mapped like one of the
 * kernel.
 */
long uaio_host_raw_mmap(const long a[6]);

/*
 * Execute the system calls munmap and mremap. On the ring of a context they have the
 * same effect as on a ring of kernel AIO: munmap makes the context's handle invalid,
 * mremap moves the ring.
 */
long uaio_host_raw_munmap(void *addr, unsigned long bytes);
long uaio_host_raw_mremap(void *old, unsigned long old_bytes,
			  unsigned long new_bytes, int flags, void *new_addr);

enum { UAIO_HOST_NUMBERS = 512 };

/*
 * 1 for each system call that the library executes: syscall.S passes the call to
 * uaio_host_syscall(). For any other number, also one beyond this array, syscall.S
 * itself makes the system call.
 */
extern const uint8_t uaio_host_numbers[UAIO_HOST_NUMBERS]
	__attribute__((visibility("hidden")));

/*
 * The program at path is about to be executed with the environment envp. If the library
 * will not be loaded into it, report this (lost.c). path is relative to the directory
 * dir; if path is empty, dir is the open program itself.
 */
void uaio_host_tell_lost(int dir, const char *path, char *const *envp);

/*
 * Like uaio_host_tell_lost(), for a name that execvp() searches in the directories of
 * PATH.
 */
void uaio_host_tell_lost_named(const char *name, char *const *envp);

#endif /* UAIO_HOST_HOST_H */
