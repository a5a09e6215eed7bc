/* SPDX-License-Identifier: MIT */
/*
 * UAIO_CHECK: assertions for memory safety, which stay in release builds
 *
 * If a check fails, the library has a bug, and to continue could corrupt the program's
 * data. So the process is killed at once, without a message. Its core file shows the
 * failed check.
 */
#ifndef UAIO_BASE_CHECK_H
#define UAIO_BASE_CHECK_H

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define UAIO_CHECK(condition)               \
	do {                                \
		if (unlikely(!(condition))) \
			__builtin_trap();   \
	} while (0)

#endif /* UAIO_BASE_CHECK_H */
