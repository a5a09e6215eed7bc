/* SPDX-License-Identifier: MIT */
/*
 * libuaio-check.so: an access to memory that helgrind or drd takes for one of a request
 * (helgrind.c). It is not in libuaio.so, of which they report nothing (tool/check/valgrind.c).
 *
 * Tested by test/run/checkers.py.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/sys.h"

#define EXPORT __attribute__((visibility("default")))

/* libuaio.so looks it up by its name. */
EXPORT void uaio_check_access(const void *at, size_t bytes, bool is_written,
			      bool is_helgrind);

/*
 * To helgrind a system call uses its memory, also if it fails: these do so before the kernel
 * looks at the memory, as no file has such an offset. A function of the C library would be
 * the place of the access, and those helgrind leaves out.
 */
static void access_by_call(const void *at, size_t bytes, bool is_written)
{
	if (is_written)
		(void)sys_pread(0, (void *)(uintptr_t)at, bytes, -1);
	else
		(void)sys_pwrite(0, at, bytes, -1);
}

/*
 * drd does not see the memory of system calls. What is written is read all the same.
 * valgrind drops loads whose value is not used.
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
