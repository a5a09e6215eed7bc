/* SPDX-License-Identifier: MIT */
/*
 * The number of threads of the process, as counted by the kernel
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
 * The kernel gives the directory of threads two links, and one more for each thread.
 * Return: whether the process has nr threads; false also if /proc is unavailable.
 */
static inline bool uaio_has_threads(unsigned nr)
{
	struct stat st;

	return sys_fstatat(AT_FDCWD, "/proc/self/task", &st) == 0 &&
	       st.st_nlink == (nlink_t)2 + nr;
}

#endif /* UAIO_BASE_THREADS_H */
