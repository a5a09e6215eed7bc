/* SPDX-License-Identifier: MIT */
/*
 * The host's calls that we interpose
 *
 * They close descriptors, move rings, install filters, leave the program and so
 * on. The engine is told, then the C library's own function does the work. If
 * the engine knows nothing of the descriptor, telling it costs two loads. In a
 * signal handler that interrupted the engine, the call goes straight to the C
 * library.
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

/* The calls that syscall(2) does not execute itself (syscall.S). */
long uaio_host_syscall(long nr, long a, long b, long c, long d, long e, long f);

/* Any system call; those of them are answered that syscall(2) answers. */
long uaio_host_answer(long nr, const long a[6]);

/* Find the functions that we interpose; once, when the library is loaded. */
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

/* Find the next definition of a function; ret_function: the pointer to set. */
void uaio_host_find(const char *name, void *ret_function);

/*
 * A member of the file's struct next, which is found first if the library has
 * not been loaded yet.
 */
#define UAIO_HOST_NEXT(function) \
	(next.function           \
		 ? next.function \
		 : (uaio_host_find(#function, &next.function), next.function))

/* The process is about to end: finish what was accepted, and report. */
void uaio_host_exiting(void);

/* Tell the engine before and after descriptors [first, last] are closed or
 * replaced. */
void uaio_host_closing(unsigned first, unsigned last);
void uaio_host_closed(unsigned first, unsigned last);

/* The system calls close, dup2, dup3 and close_range; they tell the engine. */
long uaio_host_raw_close(int fd);
long uaio_host_raw_dup(int from, int to, const int *flags); /* NULL: dup2 */
long uaio_host_raw_close_range(unsigned first, unsigned last, int flags);

/* The system call unshare; it leaves the engine's threads their table. */
long uaio_host_raw_unshare(int flags);
/*
 * Give this thread a descriptor table of its own and close nothing: the first
 * half of close_range() with CLOSE_RANGE_UNSHARE.
 * Return: 0 or a negative error number.
 */
long uaio_host_part(void);

/* The system calls execve and execveat; what was accepted is finished first. */
long uaio_host_raw_exec(long nr, const long a[5]);

/* Return: whether the call changes as whom the calling thread makes its calls. */
bool uaio_host_changes_identity(long nr, const long a[6]);
void uaio_host_load_identity(void);
/* Code may have been loaded since: see uaio_identities_prove(). */
void uaio_host_prove_identity(void);
/* Make such a system call, and note the change; of unshare, also the one of the table. */
long uaio_host_raw_identity(long nr, const long a[6]);

/* The system calls prctl and seccomp, which may install a filter. */
long uaio_host_raw_filter(long nr, const long a[6]);

/*
 * The system calls of io_uring: on the kernel's rings, or ours. The arguments are
 * the system call's; errno is not touched.
 */
long uaio_host_uring_setup(long nr_entries, long params);
/* The same by syscall(2), from the code at caller. */
long uaio_host_uring_setup_from(const void *caller, long nr_entries,
				long params);
long uaio_host_uring_enter(const long a[6]);
long uaio_host_uring_register(const long a[4]);
/* As uaio_uring_may_complete(). */
bool uaio_host_uring_may_complete(int fd, bool is_registered);

/* Return: whether a ring that is set up now would be ours. Asks the kernel. */
bool uaio_host_uring_is_ours(void);

/*
 * Have the program's own instructions call us, where a ring would be ours. After
 * all else has been loaded.
 */
void uaio_host_load_uring(void);

/*
 * Rings of io_uring among the descriptors that a client polls (uring/bell.h). Their
 * bells are polled in their place, in a copy of what the client gave. A poll() of
 * more descriptors, or a select() of higher ones, is passed on as it is, and more
 * rings in a select() are selected as they are.
 */
enum {
	UAIO_HOST_POLLED_MAX = 1024,
	UAIO_HOST_SELECTED_MAX = 4096,
	UAIO_HOST_SELECTED_RINGS_MAX = 256,
};

/* What is polled in place of what a client gave. */
struct uaio_host_polled {
	struct pollfd pfds[UAIO_HOST_POLLED_MAX];
	struct uaio_uring *rings[UAIO_HOST_POLLED_MAX]; /* use; or NULL */
};

/*
 * Settle all bells.
 * Return: whether there are rings among pfds, which then are to be copied.
 */
bool uaio_host_polls_rings(const struct pollfd *pfds, unsigned long nr);
/* Return: whether there are rings among pfds, which can be read. */
bool uaio_host_has_rings(const struct pollfd *pfds, unsigned long nr);
void uaio_host_copy_polled(const struct pollfd *pfds, unsigned long nr,
			   struct uaio_host_polled *ret_polled);
/* The copy was polled, with the result ret: tell the client. */
void uaio_host_answer_polled(struct pollfd *pfds, unsigned long nr, long ret,
			     const struct uaio_host_polled *polled);

/* The system calls that poll, and epoll_ctl. */
long uaio_host_raw_epoll_ctl(const long a[4]);
long uaio_host_raw_epoll(long nr, const long a[6]);
long uaio_host_raw_poll(long nr, const long a[5]);
long uaio_host_raw_select(long nr, const long a[6]);

/*
 * Return: whether a client's memory can be read. If not, the call that was given it
 * has the error.
 */
bool uaio_host_can_read(const void *addr, unsigned long bytes);

/* The system call mmap; a ring is mapped as the kernel maps its own. */
long uaio_host_raw_mmap(const long a[6]);

/* The system calls munmap and mremap; a ring is treated as the kernel's is. */
long uaio_host_raw_munmap(void *addr, unsigned long bytes);
long uaio_host_raw_mremap(void *old, unsigned long old_bytes,
			  unsigned long new_bytes, int flags, void *new_addr);

/*
 * numbers.c: which system calls syscall(2) leaves to uaio_host_syscall()
 */

enum { UAIO_HOST_NUMBERS = 512 };

/* 1 for each of those, read by syscall.S; higher numbers are none of them. */
extern const uint8_t uaio_host_numbers[UAIO_HOST_NUMBERS]
	__attribute__((visibility("hidden")));

/*
 * lost.c: telling the user where the library gets lost
 */

/*
 * The file at path, relative to the directory dir, is about to be executed with this
 * environment. An empty path is the open file dir itself.
 */
void uaio_host_tell_lost(int dir, const char *path, char *const *envp);

/* The same for a name that is looked for along PATH. */
void uaio_host_tell_lost_named(const char *name, char *const *envp);

#endif /* UAIO_HOST_HOST_H */
