/* SPDX-License-Identifier: MIT */
/*
 * UAIO_CHECK: assertions that stay alive in release builds
 *
 * For invariants on which memory safety rests. If one fails, that is our own
 * bug, and going on could corrupt the host's data. So the process is stopped at
 * once and prints nothing; the core file shows the line.
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
