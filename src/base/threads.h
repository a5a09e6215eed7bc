/* SPDX-License-Identifier: MIT */
/*
 * Asks the kernel how many threads the process has
 *
 * Tested by test/run/strangers.py and test/host.
 */
#ifndef UAIO_BASE_THREADS_H
#define UAIO_BASE_THREADS_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/sys.h"

/*
 * The directory /proc/self/task has two links, and one more for each thread.
 * Return: whether the process has nr threads; false also if /proc is unavailable.
 */
static inline bool uaio_has_threads(unsigned nr)
{
	struct stat st;

	return sys_fstatat(AT_FDCWD, "/proc/self/task", &st) == 0 &&
	       st.st_nlink == (nlink_t)2 + nr;
}

#endif /* UAIO_BASE_THREADS_H */
