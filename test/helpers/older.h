/* SPDX-License-Identifier: MIT */
/*
 * Functions that C libraries older than glibc 2.35 lack, implemented here by syscall(2)
 *
 * The tests build with glibc 2.31 or newer (see newer.h). These functions call
 * syscall(2), which uaio interposes, so tests with uaio preloaded may use them.
 */
#ifndef TEST_HELPERS_OLDER_H
#define TEST_HELPERS_OLDER_H

#include <signal.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/newer.h"

#ifdef __GLIBC__

#if !__GLIBC_PREREQ(2, 32)
#include "options/names.h"

/* defined in src/options/errors.c, which the test links */
#define strerrorname_np uaio_error_name
#endif

#if !__GLIBC_PREREQ(2, 34)
static inline int close_range(unsigned int first, unsigned int last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

static inline void closefrom(int first)
{
	(void)close_range((unsigned int)first, ~0u, 0);
}

static inline int execveat(int dir, const char *path, char *const argv[],
			   char *const envp[], int flags)
{
	return (int)syscall(SYS_execveat, dir, path, argv, envp, flags);
}

static inline pid_t _Fork(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}
#endif

#if !__GLIBC_PREREQ(2, 35)
static inline int epoll_pwait2(int epoll, struct epoll_event *events, int nr,
			       const struct timespec *timeout,
			       const sigset_t *mask)
{
	return (int)syscall(SYS_epoll_pwait2, epoll, events, nr, timeout, mask,
			    mask ? _NSIG / 8 : 0);
}
#endif

#endif /* __GLIBC__ */
#endif /* TEST_HELPERS_OLDER_H */
