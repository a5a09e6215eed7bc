/* SPDX-License-Identifier: MIT */
/*
 * The host's calls that we stand in front of
 *
 * Those that close descriptors, move rings or install filters: the engine is
 * told, then the C library's own function does the work. With nothing known of the descriptor
 * telling is two loads. A signal handler that interrupted the engine goes
 * straight to the C library.
 */
#ifndef UAIO_FRONT_HOST_H
#define UAIO_FRONT_HOST_H

/* A raw result, the C library's way. Return: res, or -1 with errno set. */
long uaio_host_error(long res);

/* The calls that syscall(2) answers; all others never come here. */
long uaio_host_syscall(long nr, long a, long b, long c, long d, long e, long f);

/* Find the functions we stand in front of; once, when the library loads. */
void uaio_host_load(void);
void uaio_host_load_exec(void);
void uaio_host_load_filter(void);
void uaio_host_load_poll(void);

/* Return: the next definition of a name, as a pointer of any type. */
void uaio_host_find(const char *name, void *ret_function);

/* The process is about to end by a way that runs no destructor. */
void uaio_host_exiting(void);

/* About to close or replace [first, last], and after. */
void uaio_host_closing(unsigned first, unsigned last);
void uaio_host_closed(unsigned first, unsigned last);

/* A raw close, dup2, dup3 or close_range, with the engine told. */
long uaio_host_raw_close(int fd);
long uaio_host_raw_dup(int from, int to, const int *flags); /* NULL: dup2 */
long uaio_host_raw_close_range(unsigned first, unsigned last, int flags);

/* A raw unshare: threads of ours stay where they are. */
long uaio_host_raw_unshare(int flags);
/* What close_range() does with CLOSE_RANGE_UNSHARE before it closes. */
long uaio_host_part(void);

/* A raw execve or execveat: what is accepted is finished first. */
long uaio_host_raw_exec(long nr, const long a[5]);

/* A raw prctl or seccomp: it may install a filter. */
long uaio_host_raw_filter(long nr, const long a[6]);

/* mremap(2), munmap(2), raw: rings of ours are seen to. */
long uaio_host_raw_munmap(void *addr, unsigned long bytes);
long uaio_host_raw_mremap(void *old, unsigned long old_bytes,
			  unsigned long new_bytes, int flags, void *new_addr);

#endif /* UAIO_FRONT_HOST_H */
