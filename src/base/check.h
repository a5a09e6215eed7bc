/* SPDX-License-Identifier: MIT */
/*
 * UAIO_CHECK: assertions that stay alive in release builds
 *
 * For invariants on which memory safety rests. A failed one is our own bug;
 * going on could corrupt the host's data, so the process is stopped at the
 * spot, with nothing printed: the core shows the line.
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
