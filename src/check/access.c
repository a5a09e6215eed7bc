/* SPDX-License-Identifier: MIT */
/*
 * Accesses a request's memory in place of the kernel, so that helgrind or drd detects a
 * race of the program with the request (helgrind.c). This file is part of
 * libuaio-check.so, because these tools are configured to report no races in libuaio.so
 * (tool/check/valgrind.c).
 *
 * Tested by test/run/checkers.py.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/sys.h"

#define EXPORT __attribute__((visibility("default")))

/* libuaio.so looks up this function by its name. */
EXPORT void uaio_check_access(const void *at, size_t bytes, bool is_written,
			      bool is_helgrind);

/*
 * helgrind checks the memory of a system call even if the call fails. So this function
 * makes system calls with an offset that is invalid: the kernel refuses them before it
 * uses the memory. The function does not use the C library, as helgrind reports no race
 * inside the C library.
 */
static void access_by_call(const void *at, size_t bytes, bool is_written)
{
	if (is_written)
		(void)sys_pread(0, (void *)(uintptr_t)at, bytes, -1);
	else
		(void)sys_pwrite(0, at, bytes, -1);
}

/*
 * drd does not check the memory of system calls. So this function reads the memory,
 * even if the request writes it. The asm statement keeps the compiler from removing the
 * loads, whose values are not used.
 */
static void access_by_loads(const char *at, size_t bytes)
{
	const char *end = at + bytes;
	unsigned long sum = 0;

	for (; at < end && (uintptr_t)at % sizeof(long); at++)
		sum ^= (unsigned char)load_relaxed(at);
	for (; end - at >= (ptrdiff_t)sizeof(long); at += sizeof(long))
		sum ^= load_relaxed((const unsigned long *)(const void *)at);
	for (; at < end; at++)
		sum ^= (unsigned char)load_relaxed(at);
	__asm__ volatile("" : : "r"(sum));
}

void uaio_check_access(const void *at, size_t bytes, bool is_written,
		       bool is_helgrind)
{
	if (is_helgrind)
		access_by_call(at, bytes, is_written);
	else
		access_by_loads(at, bytes);
}
