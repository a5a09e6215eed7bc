/* SPDX-License-Identifier: MIT */
/*
 * The functions of the C library that this library interposes
 *
 * The host is the program into which the library is loaded. Its calls that close descriptors,
 * move rings, install seccomp filters, execute another program, and so on, are interposed.
 * Each function here first notifies the engine: the library without its front-ends (kernel
 * AIO, io_uring, POSIX AIO). Then it calls the next definition of the same name, usually the C
 * library's. If a descriptor has no requests, notifying costs two loads. In a signal handler
 * that interrupted the library, the function only calls the C library.
 *
 * uaio_host_raw_X() is the system call X as the program makes it by syscall(2). It returns a
 * negative error number, and does not touch errno.
 */
#ifndef UAIO_HOST_HOST_H
#define UAIO_HOST_HOST_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct uaio_uring;

/*
 * Translate the result of a raw system call into the C library's convention.
 * Return: res, or -1 with errno set.
 */
long uaio_host_error(long res);

/* syscall(2) for the numbers in uaio_host_numbers; sets errno. Called by syscall.S. */
long uaio_host_syscall(long nr, long a, long b, long c, long d, long e, long f);

/*
 * Execute any system call: the library executes the calls in uaio_host_numbers, the kernel all
 * others. Return: the result, or a negative error number.
 */
long uaio_host_answer(long nr, const long a[6]);

/* Look up the next definitions of the interposed functions; once, when the library is loaded. */
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
 * Look up the next definition of name (RTLD_NEXT), and store it in *ret_function, a pointer to
 * a function.
 */
void uaio_host_find(const char *name, void *ret_function);

/*
 * The function of this name in the file's struct `next`. It is looked up here if the program
 * calls it before the library's constructor has run.
 */
#define UAIO_HOST_NEXT(function) \
	(next.function           \
		 ? next.function \
		 : (uaio_host_find(#function, &next.function), next.function))

/* The process is about to end: finish the accepted requests, and write the report. */
void uaio_host_exiting(void);

/* Notify the engine before and after descriptors [first, last] are closed or replaced. */
void uaio_host_closing(unsigned first, unsigned last);
void uaio_host_closed(unsigned first, unsigned last);

/* The system calls close, dup2, dup3 and close_range; they notify the engine. */
long uaio_host_raw_close(int fd);
long uaio_host_raw_dup(int from, int to, const int *flags); /* NULL: dup2 */
long uaio_host_raw_close_range(unsigned first, unsigned last, int flags);

/* The system call unshare. The library's threads keep the old descriptor table. */
long uaio_host_raw_unshare(int flags);
/*
 * Give this thread its own descriptor table, as close_range() with CLOSE_RANGE_UNSHARE does
 * before it closes descriptors. Closes no descriptor. Return: 0 or a negative error number.
 */
long uaio_host_part(void);

/* The system calls execve and execveat. The accepted requests are finished first. */
long uaio_host_raw_exec(long nr, const long a[5]);

/*
 * Return: whether the system call changes the credentials of the calling thread
 * (proc/identity.h).
 */
bool uaio_host_changes_identity(long nr, const long a[6]);
void uaio_host_load_identity(void);
/*
 * Check again whether code that was loaded may change credentials without the library seeing
 * it (uaio_identities_prove()).
 */
void uaio_host_prove_identity(void);
/*
 * Make a system call that changes credentials, and record that they have changed. For unshare,
 * also do what uaio_host_raw_unshare() does.
 */
long uaio_host_raw_identity(long nr, const long a[6]);

/* The system calls prctl and seccomp, which may install a seccomp filter. */
long uaio_host_raw_filter(long nr, const long a[6]);

/*
 * The system calls of io_uring, on rings of the kernel or of the library. The arguments are
 * those of the system call; errno is not touched.
 */
long uaio_host_uring_setup(long nr_entries, long params);
/* uaio_host_uring_setup(), for a call of syscall(2) made by the code at caller. */
long uaio_host_uring_setup_from(const void *caller, long nr_entries,
				long params);
long uaio_host_uring_enter(const long a[6]);
long uaio_host_uring_register(const long a[4]);
/* See uaio_uring_may_complete(). */
bool uaio_host_uring_may_complete(int fd, bool is_registered);

/*
 * Return: whether io_uring_setup() would now make a ring of the library rather than the
 * kernel. Queries the kernel.
 */
bool uaio_host_uring_is_ours(void);

/*
 * Patch the program's own io_uring system calls to call the library (patch.h), unless an option
 * or a filter forbids it. Called last, when all next definitions are known.
 */
void uaio_host_load_uring(void);

/*
 * Limits for polls of rings that the library has made. The client's arguments are copied, and
 * in the copy each ring's descriptor is replaced by that of its bell (the eventfd by which a
 * poll of a ring is woken, uring/bell.h). A poll() of more descriptors, or a select() of
 * higher ones, is passed on unchanged; so are further rings in a select().
 */
enum {
	UAIO_HOST_POLLED_MAX = 1024,
	UAIO_HOST_SELECTED_MAX = 4096,
	UAIO_HOST_SELECTED_RINGS_MAX = 256,
};

/* A copy of a client's array, with the descriptors of bells in place of those of rings. */
struct uaio_host_polled {
	struct pollfd pfds[UAIO_HOST_POLLED_MAX];
	struct uaio_uring *rings[UAIO_HOST_POLLED_MAX]; /* in use; or NULL */
};

/*
 * Settle all bells (uaio_uring_bells_settle()). Return: whether pfds contains rings; then the
 * caller polls a copy of pfds.
 */
bool uaio_host_polls_rings(const struct pollfd *pfds, unsigned long nr);
/* Return: whether pfds contains rings. The caller knows that pfds can be read. */
bool uaio_host_has_rings(const struct pollfd *pfds, unsigned long nr);
void uaio_host_copy_polled(const struct pollfd *pfds, unsigned long nr,
			   struct uaio_host_polled *ret_polled);
/* The copy was polled with the result ret: write the events to the client's pfds. */
void uaio_host_answer_polled(struct pollfd *pfds, unsigned long nr, long ret,
			     const struct uaio_host_polled *polled);

/* The system calls that poll, and the system call epoll_ctl. */
long uaio_host_raw_epoll_ctl(const long a[4]);
long uaio_host_raw_epoll(long nr, const long a[6]);
long uaio_host_raw_poll(long nr, const long a[5]);
long uaio_host_raw_select(long nr, const long a[6]);

/*
 * Return: whether this memory of the client can be read. If it cannot, the caller passes the
 * address on to the kernel, where the system call fails with EFAULT.
 */
bool uaio_host_can_read(const void *addr, unsigned long bytes);

/* The system call mmap; a ring of the library can be mapped as one of the kernel's. */
long uaio_host_raw_mmap(const long a[6]);

/*
 * The system calls munmap and mremap. If the memory is the ring of a context, they have the
 * effect that they have on a ring of kernel AIO.
 */
long uaio_host_raw_munmap(void *addr, unsigned long bytes);
long uaio_host_raw_mremap(void *old, unsigned long old_bytes,
			  unsigned long new_bytes, int flags, void *new_addr);

enum { UAIO_HOST_NUMBERS = 512 };

/*
 * 1 for each system call that syscall(2) passes to uaio_host_syscall(). syscall.S reads this
 * table; it executes calls with higher numbers itself.
 */
extern const uint8_t uaio_host_numbers[UAIO_HOST_NUMBERS]
	__attribute__((visibility("hidden")));

/*
 * Report the program at path, relative to the directory dir, if the library will not be loaded
 * into it (lost.c). The program is about to be executed with the environment envp. If path is
 * empty, dir is itself the open program.
 */
void uaio_host_tell_lost(int dir, const char *path, char *const *envp);

/* As uaio_host_tell_lost(), for a name that execvp() searches along PATH. */
void uaio_host_tell_lost_named(const char *name, char *const *envp);

#endif /* UAIO_HOST_HOST_H */
